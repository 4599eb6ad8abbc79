"""The faults that a cluster can be given, as values. Times are the cluster's, in milliseconds.

Each class checks itself: FaultError says what was wrong, and what is expected. `fault_of` makes one from the plain
values of a command line or a scenario file: `{"type": "link", "src": "broker-a", "dst": "broker-a-s", ...}`.
"""

import difflib
import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import attrs
import cattrs

from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.fault_rules import CLOCK_KINDS, DISK_KINDS, LINK_KINDS, REQUEST_KINDS

PLANES = ("remoting", "vip", "ha")
OUTSIDE = "outside"
"""All who are not of the cluster: clients at 127.0.0.1 or anywhere else."""
ANYONE = "*"
"""All others, those outside and those to come included."""
DEFAULT_CUT = 6
"""Less than the shortest thing that anybody sends: a report of 8 bytes."""

Code = TypeVar("Code", bound=enum.IntEnum)


class FaultError(ValueError):
    """No such fault. The text says what was wrong and what is expected."""


def near_miss(word: str, known: Iterable[str]) -> str:
    """`; did you mean x?` where something like it is known."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _one_of(known: Collection[str]) -> Any:
    def check(instance: object, field: "attrs.Attribute[str]", value: str) -> None:
        if value not in known:
            what = f"{_name_of(type(instance))}: {field.name} = {value!r}"
            raise FaultError(f"{what}: expected one of {', '.join(known)}{near_miss(value, known)}")

    return check


def _at_least(least: float, *, above: bool = False) -> Any:
    def check(instance: object, field: "attrs.Attribute[Any]", value: float | None) -> None:
        if value is not None and (value <= least if above else value < least):
            word = "more than" if above else "at least"
            raise FaultError(f"{_name_of(type(instance))}: {field.name} = {value:g}: expected {word} {least:g}")

    return check


def _at_most(most: float) -> Any:
    def check(instance: object, field: "attrs.Attribute[Any]", value: float | None) -> None:
        if value is not None and value > most:
            raise FaultError(f"{_name_of(type(instance))}: {field.name} = {value:g}: expected at most {most:g}")

    return check


def _check_options(fault: Any, needed: Mapping[str, tuple[str, ...]], allowed: Mapping[str, tuple[str, ...]]) -> None:
    """Each kind has options that it needs and others that it may have; all else would mean nothing."""
    name, kind = _name_of(type(fault)), fault.kind
    takes = (*needed.get(kind, ()), *allowed.get(kind, ()))
    options = {option for by_kind in (needed, allowed) for many in by_kind.values() for option in many}
    for option in sorted(options):
        if getattr(fault, option) is not None and option not in takes:
            hint = f"it takes {', '.join(takes)}" if takes else "it takes no options"
            raise FaultError(f"{name}: {option} means nothing to kind {kind}; {hint}")
    for option in needed.get(kind, ()):
        if getattr(fault, option) is None:
            raise FaultError(f"{name}: kind {kind} needs {option}")


@attrs.frozen(kw_only=True)
class LinkFault:
    """Something happens to the bytes that go from `src` to `dst`; the other way they go as before.

    Targets as everywhere, `outside`, or `*` for all others. `only` names a port: remoting, vip or ha.

    * blackhole: packets vanish. Nobody sees a close, connects hang. What was written arrives after the heal, as TCP
      sends it again at ever longer intervals (0.2 s, doubled each time, at most 120 s apart).
    * refuse: new connections from src to dst are refused; those that live go on.
    * reset: connections are reset, at both ends: those that live at once, new ones at src's first byte.
    * latency: `millis`, and up to `jitter_millis` more.
    * bandwidth: `bytes_per_second` for each connection.
    * cut: each connection ends when dst has got `after_bytes` more (6 unless given), in the middle of a frame.
    * slice: at most `segment_bytes` (1 unless given) arrive at once, `gap_millis` apart.
    """

    src: str
    dst: str
    kind: str = attrs.field(validator=_one_of(LINK_KINDS))
    only: str | None = attrs.field(default=None, validator=attrs.validators.optional(_one_of(PLANES)))
    both_ways: bool = False
    """The same from dst to src."""
    millis: float | None = attrs.field(default=None, validator=_at_least(0))
    jitter_millis: float | None = attrs.field(default=None, validator=_at_least(0))
    bytes_per_second: float | None = attrs.field(default=None, validator=_at_least(0, above=True))
    after_bytes: int | None = attrs.field(default=None, validator=_at_least(1))
    segment_bytes: int | None = attrs.field(default=None, validator=_at_least(1))
    gap_millis: float | None = attrs.field(default=None, validator=_at_least(0))

    def __attrs_post_init__(self) -> None:
        _check_options(
            self,
            {"latency": ("millis",), "bandwidth": ("bytes_per_second",)},
            {"latency": ("jitter_millis",), "cut": ("after_bytes",), "slice": ("segment_bytes", "gap_millis")},
        )


@attrs.frozen(kw_only=True)
class Isolation:
    """A node and all others, those outside included, hear nothing of each other: blackholes both ways."""

    target: str


@attrs.frozen(kw_only=True)
class DiskFault:
    """The disk of a broker fails.

    * full: `bytes_left` (0 unless given) may still be allocated, then nothing.
    * slow-sync: each sync takes `millis` longer.
    * failing-sync: each sync fails with an I/O error.
    * read-only: nothing can be written any more.
    * used: it says that `percent` of it are used.
    """

    target: str
    kind: str = attrs.field(validator=_one_of(DISK_KINDS))
    bytes_left: int | None = attrs.field(default=None, validator=_at_least(0))
    millis: float | None = attrs.field(default=None, validator=_at_least(0))
    percent: int | None = attrs.field(default=None, validator=[_at_least(0), _at_most(100)])

    def __attrs_post_init__(self) -> None:
        _check_options(self, {"slow-sync": ("millis",), "used": ("percent",)}, {"full": ("bytes_left",)})


def code_of(name: str, codes: type[Code]) -> int:
    """The number of a code by its name, or by itself. FaultError for neither."""
    if name.isdigit():
        return int(name)
    word = name.upper().replace("-", "_")
    if word in codes.__members__:
        return codes[word].value
    kind = "request" if codes is RequestCode else "response"
    raise FaultError(
        f"no {kind} code {name!r}: expected a number or a name of RocketMQ{near_miss(word, codes.__members__)}"
    )


@attrs.frozen(kw_only=True)
class RequestFault:
    """Requests of one code are not handled as they should be, `times` times (always, unless given).

    * answer: with `response_code` (SYSTEM_BUSY unless given) and `remark`, unhandled.
    * delay: handled `millis` later.
    * drop: neither handled nor answered.

    Codes are numbers, or RocketMQ's names. A node that is started again counts anew.
    """

    target: str
    code: str = attrs.field(converter=str)
    kind: str = attrs.field(default="answer", validator=_one_of(REQUEST_KINDS))
    times: int | None = attrs.field(default=None, validator=_at_least(1))
    response_code: str | None = attrs.field(default=None, converter=attrs.converters.optional(str))
    remark: str | None = None
    millis: float | None = attrs.field(default=None, validator=_at_least(0))

    def __attrs_post_init__(self) -> None:
        _check_options(self, {"delay": ("millis",)}, {"answer": ("response_code", "remark")})
        code_of(self.code, RequestCode)
        code_of(self.response_code or "0", ResponseCode)

    @property
    def code_number(self) -> int:
        """The request code."""
        return code_of(self.code, RequestCode)

    @property
    def response_number(self) -> int:
        """The code that is answered."""
        return code_of(self.response_code or "SYSTEM_BUSY", ResponseCode)


@attrs.frozen(kw_only=True)
class ClockFault:
    """A node's wall clock is wrong: store timestamps, the age of messages, delayed delivery.

    * step: it jumps by `millis` (negative: back), and goes on from there.
    * skew: it gains `ppm` microseconds with each second (negative: loses).

    Healed, it jumps to the cluster's time. Liveness and time-outs never go by it, other than RocketMQ's.
    """

    target: str
    kind: str = attrs.field(validator=_one_of(CLOCK_KINDS))
    millis: float | None = None
    ppm: float | None = attrs.field(default=None, validator=_at_least(-1_000_000))

    def __attrs_post_init__(self) -> None:
        _check_options(self, {"step": ("millis",), "skew": ("ppm",)}, {})


@attrs.frozen(kw_only=True)
class HaReportFault:
    """A stranger connects to a broker's HA port and reports that it has everything before `offset`.

    It stays connected, silent, until it is healed or the broker drops it after 20 s without a report; with
    `is_repeated` it reports again every 5 s, as a slave does.
    """

    target: str
    offset: int = attrs.field(default=2**62)
    is_repeated: bool = False


Fault = LinkFault | Isolation | DiskFault | RequestFault | ClockFault | HaReportFault
FAULTS: Mapping[str, type[Fault]] = {
    "link": LinkFault,
    "isolate": Isolation,
    "disk": DiskFault,
    "request": RequestFault,
    "clock": ClockFault,
    "ha-report": HaReportFault,
}

_CONVERTER = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)


def fault_of(values: Mapping[str, Any]) -> Fault:
    """The fault that plain values describe; `type` names its class. FaultError names a key that does not fit."""
    given = dict(values)
    name = given.pop("type", None)
    if name not in FAULTS:
        expected = f"expected one of {', '.join(FAULTS)}{near_miss(str(name), FAULTS)}"
        raise FaultError(f"a fault needs a type: {expected}" if name is None else f"no fault {name!r}: {expected}")
    cls = FAULTS[name]
    fields = attrs.fields_dict(cls)
    for key in given:
        if key not in fields:
            raise FaultError(f"{name}: no key {key!r}: it takes {', '.join(fields)}{near_miss(key, fields)}")
    for key, field in fields.items():
        if field.default is attrs.NOTHING and key not in given:
            raise FaultError(f"{name}: needs {key}")
        _check_type(name, key, field.type, given.get(key))
    return _CONVERTER.structure(given, cls)


_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str, int), "a text"),
    str | None: ((str, int), "a text"),
    int: ((int,), "a whole number"),
    int | None: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    float | None: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
}


def _check_type(name: str, key: str, expected: Any, value: object) -> None:
    types, words = _TYPES[expected]
    if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
        raise FaultError(f"{name}: {key} = {value!r}: expected {words}")


def fault_values(fault: Fault) -> dict[str, Any]:
    """The reverse of `fault_of`, without what was not given."""
    given = {key: value for key, value in attrs.asdict(fault).items() if value is not None and value is not False}
    return {"type": _name_of(type(fault)), **given}


def targets_of(fault: Fault) -> tuple[str, ...]:
    """The targets that a fault names."""
    return (fault.src, fault.dst) if isinstance(fault, LinkFault) else (fault.target,)


def _name_of(cls: type) -> str:
    return next(name for name, known in FAULTS.items() if known is cls)


def describe_fault(values: Mapping[str, Any]) -> str:
    """A fault's plain values in a line: `link broker-a -> broker-a-s latency millis=200 only=ha`."""
    shown = {key: value for key, value in values.items() if key not in _SAID}
    words = [str(values["type"])]
    if "src" in values:
        words.append(f"{values['src']} {'<->' if values.get('both_ways') else '->'} {values['dst']}")
    else:
        words.append(str(values["target"]))
    words += [str(values["kind"])] if "kind" in values else []
    words += [f"{key}={value}" for key, value in shown.items()]
    return " ".join(words)


_SAID = {"type", "id", "src", "dst", "both_ways", "target", "kind", "applied_at"}
