"""From one request that is right, those that are wrong in one field."""

from collections.abc import Iterator, Mapping

import attrs

from tests.interop.differential.case import Case
from tests.interop.differential.wire import ROCKETMQ

INT = (
    "",
    "abc",
    "-1",
    "2147483647",
    "2147483648",
    "1.0",
    " 1",
    "+1",
    "1_0",
    "0x1",
    "-0",
    "007",
    "1e5",
    1,
    1.5,
    1.0,
    True,
)
LONG = ("", "abc", "-1", "9223372036854775807", "9223372036854775808", "1.0", " 1", "+1", 1)
BOOL = ("", "TRUE", "True", "1", "yes", True, 1, False)
TOPIC = ("", " ", "DiffUnknown", "a b", "a.b", "ü", "x" * 127, "x" * 128, "%RETRY%DiffNobody", "TBW102", 5, True)
GROUP = ("", " ", "DiffNobody", "a b", "g" * 255, "g" * 256, 5)
TEXT = ("", "x", 5)

Kinds = Mapping[str, tuple[object, ...]]


def mutated(case: Case, kinds: Kinds, *, leave: Mapping[str, tuple[object, ...]] | None = None) -> Iterator[Case]:
    """The case itself in both codecs.

    Then each field missing, and with each value of its kind.

    `leave` names values that would do more than be answered, by field.
    """
    assert isinstance(case.fields, Mapping)
    yield case
    yield attrs.evolve(case, name=f"{case.name}, binary", codec=ROCKETMQ)
    yield attrs.evolve(case, name=f"{case.name}, no ext fields", fields=None)
    yield attrs.evolve(case, name=f"{case.name}, empty ext fields", fields={})
    for field, values in kinds.items():
        rest = {key: value for key, value in case.fields.items() if key != field}
        yield attrs.evolve(case, name=f"{case.name}, {field} missing", fields=rest)
        yield attrs.evolve(case, name=f"{case.name}, {field} missing, binary", fields=rest, codec=ROCKETMQ)
        yield attrs.evolve(case, name=f"{case.name}, {field} null", fields={**rest, field: None})
        for value in values:
            if value in (leave or {}).get(field, ()):
                continue
            fields = {**case.fields, field: value}
            yield attrs.evolve(case, name=f"{case.name}, {field} {_shown(value)}", fields=fields)
        for value in ("", "abc"):
            if value in values and value not in (leave or {}).get(field, ()):
                fields = {**case.fields, field: value}
                name = f"{case.name}, {field} {_shown(value)}, binary"
                yield attrs.evolve(case, name=name, fields=fields, codec=ROCKETMQ)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:20]}... of {len(text) - 2}"
