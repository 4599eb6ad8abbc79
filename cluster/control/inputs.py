"""Fields that endpoints accept, as typed classes that give their JSON Schema.

A value that does not fit is rejected with the name of its field.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn, Protocol
from urllib.parse import parse_qs

import attrs
import msgspec

from rmqlab.cluster.conditions import CONDITIONS, TOPIC_KNOWN
from rmqlab.cluster.control.faultschema import fault_schemas
from rmqlab.cluster.control.messages import reject
from rmqlab.cluster.supervisor.marks import LONGEST as LONGEST_MARK
from rmqlab.cluster.supervisor.plan.eventfilter import UnknownKindError, check_kind
from rmqlab.faults import fault_of
from rmqlab.remoting.names import MAX_GROUP_LENGTH, MAX_TOPIC_LENGTH
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.runtime.text.nearmiss import near_miss

Schema = dict[str, Any]

MOST_WAIT_SECONDS = 3600.0
MOST_FIELDS = 50
_LONGEST_NAME = 100
"""Characters of an invalid field's name in the response."""
_PLACE = re.compile(r" - at \$\.?(.*)$")
_MISSING = re.compile(r"missing required field (.*)$")
_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_TYPE = re.compile(r"(?:(?<=Expected `)|(?<=got `)|(?<=\| ))(?:str|int|float|bool)\b")
"""Python's types in msgspec's errors, for clients in other languages."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_CHARACTERS = "[%|a-zA-Z0-9_-]"
_TOPIC_PATTERN = f"{_CHARACTERS}{{1,{MAX_TOPIC_LENGTH}}}"
TOPIC_SCHEMA: Schema = {"type": "string", "pattern": f"^{_TOPIC_PATTERN}$"}
GROUP_SCHEMA: Schema = {"type": "string", "pattern": f"^{_CHARACTERS}{{1,{MAX_GROUP_LENGTH}}}$"}
"""For the document only: operations check the names, with more detailed errors."""


class Input(Protocol):
    """A kind of body or query."""

    def parse(self, given: Any, *, is_text: bool) -> Any:
        """Return the arguments. Rejected with status 422 if they do not fit.

        `is_text`: the values come from a query.
        """
        ...

    def schema(self) -> Schema:
        """Return the JSON Schema of the object."""
        ...


@attrs.frozen
class Fields:
    """An object with the fields of a msgspec class."""

    fields: type[msgspec.Struct]

    def parse(self, given: Any, *, is_text: bool) -> dict[str, Any]:
        known = self.fields.__struct_fields__
        if isinstance(given, dict):
            given = {name: _whole(value) for name, value in given.items()}
        for name in given if isinstance(given, dict) else ():
            if name not in known:
                expected = f"expected {', '.join(known)}" if known else "expected no field"
                invalid(f"unknown field; {expected}{near_miss(name, known)}", field=name)
        try:
            arguments: dict[str, Any] = msgspec.to_builtins(msgspec.convert(given, self.fields, strict=not is_text))
        except msgspec.ValidationError as exc:
            text = _TYPE.sub(lambda match: _JSON_TYPES[match[0]], str(exc)).replace("`", "")
            place = _PLACE.search(text) or _MISSING.search(text)
            field = place[1] if place else None
            invalid(_PLACE.sub("", text) + self._values_of(field, text), field=field)
        return arguments

    def _values_of(self, field: str | None, error: str) -> str:
        """Return the end of an error: the valid values, if msgspec does not name them.

        It names types and bounds, but of several words only that the given one is none of them.
        """
        if not error.startswith("Invalid enum value"):
            return ""
        kinds = self.schema()["properties"].get(field, {}).get("anyOf", ())
        values = [value for kind in kinds for value in kind.get("enum", ())]
        numbers = [f"{kind['minimum']} to {kind['maximum']}" for kind in kinds if kind.get("type") == "integer"]
        return f"; expected {', '.join(values + numbers)}"

    def schema(self) -> Schema:
        _, components = msgspec.json.schema_components([self.fields])
        schema: Schema = components[self.fields.__name__]
        return schema


class FaultValues:
    """The values of a fault, as `rmqlab.faults.fault_of` accepts them."""

    def parse(self, given: Any, *, is_text: bool) -> dict[str, Any]:
        del is_text
        if not isinstance(given, dict):
            invalid("Expected object")
        for name in ("type", "kind"):
            if not isinstance(given.get(name, ""), str):
                invalid("Expected string", field=name)
        values = {name: _whole(value) for name, value in given.items()}
        fault_of(values)
        return values

    def schema(self) -> Schema:
        return {"oneOf": fault_schemas()}


def parse_query(text: str, kind: Input | None) -> Mapping[str, Any]:
    """Return the arguments of a query. A list may be given several times."""
    try:
        given = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as exc:
        invalid(f"the query is invalid: {exc}")
    lists = _lists_of(kind)
    for name, values in given.items():
        if len(values) > 1 and name not in lists:
            invalid("given more than once", field=name)
    plain = {name: values if name in lists else values[0] for name, values in given.items()}
    if kind is None:
        if plain:
            invalid("unknown parameter; expected none", field=next(iter(plain)))
        return plain
    arguments: Mapping[str, Any] = kind.parse(plain, is_text=True)
    return arguments


def parse_body(body: bytes, kind: Input) -> Mapping[str, Any]:
    """Return the arguments of a JSON body."""
    try:
        given = msgspec.json.decode(body)
        json.loads(body, object_pairs_hook=_check_unique)  # msgspec keeps the last of equal names
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as exc:
        reject(400, "invalid_json", f"the body is not valid JSON: {exc}")
    arguments: Mapping[str, Any] = kind.parse(given, is_text=False)
    return arguments


def _check_unique(members: list[tuple[str, Any]]) -> None:
    """Reject an object that has a member more than once."""
    names = set[str]()
    for name, _ in members:
        if name in names:
            invalid("given more than once", field=name)
        names.add(name)


def invalid(message: str, *, field: str | None = None) -> NoReturn:
    """Reject a request because of a value."""
    field = None if field is None else cut_text(field, _LONGEST_NAME)
    reject(422, "invalid_value", message if field is None else f"{field}: {message}", field=field)


def _whole(value: Any) -> Any:
    """Return 2 for 2.0, as in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _lists_of(kind: Input | None) -> Sequence[str]:
    if not isinstance(kind, Fields):
        return ()
    return [name for name, value in kind.schema()["properties"].items() if value.get("type") == "array"]


class Target(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The processes to act on."""

    target: Annotated[
        Name,
        msgspec.Meta(
            description="broker-a, broker-a:master, broker-a:slave, broker-a-s, namesrv-1, or a workload.",
            examples=["broker-a:master"],
        ),
    ]


Settings = Annotated[
    dict[Name, str | bool | int | float],
    msgspec.Meta(
        max_length=MOST_FIELDS,
        description="Settings of brokers, as `--set` has them; brokers check them.",
        examples=[{"slaveReadEnable": True}],
    ),
]


class TargetWithSettings(Target, kw_only=True, forbid_unknown_fields=True):
    """The processes to start, and settings that they have from now on."""

    settings: Settings = {}


class NewGroup(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A group to add."""

    group: Annotated[str, msgspec.Meta(max_length=255, description="A removed group; a new one if empty.")] = ""
    settings: Settings = {}


class NewSlave(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A slave to add."""

    group: Annotated[Name, msgspec.Meta(description="Its group, or a removed slave.", examples=["broker-a"])]
    settings: Settings = {}


class NewNameserver(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A nameserver to add."""

    nameserver: Annotated[str, msgspec.Meta(max_length=255, description="A removed one; a new one if empty.")] = ""


class Wait(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A condition to wait for."""

    condition: Annotated[
        Name,
        msgspec.Meta(
            description="As `rmqlab wait` has it.",
            examples=["route-gone broker-a:master"],
            extra_json_schema={
                "pattern": rf"^(ready|({'|'.join(CONDITIONS)}) [\w.:-]+|{TOPIC_KNOWN} [\w.:-]+ {_TOPIC_PATTERN})$"
            },  # not checked: see its errors
        ),
    ]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=MOST_WAIT_SECONDS, description="Real seconds.")] = 60.0


class Events(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events to send."""

    last: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="Past events to send first.")] = 50
    follow: Annotated[bool, msgspec.Meta(description="Then send new ones until the connection closes.")] = True
    every: Annotated[bool, msgspec.Meta(description="Include each message of workloads.")] = False
    kind: Annotated[
        list[Annotated[str, msgspec.Meta(extra_json_schema={"enum": [*EVENT_TYPES]})]],  # not checked: see its errors
        msgspec.Meta(max_length=MOST_FIELDS, description="Send only events of these kinds."),
    ] = []
    node: Annotated[
        list[Name],
        msgspec.Meta(
            max_length=MOST_FIELDS,
            description="Send only events of these nodes; `cluster` for those of none.",
            examples=[["broker-a"]],
        ),
    ] = []

    def __post_init__(self) -> None:
        try:
            for kind in self.kind:
                check_kind(kind)
        except UnknownKindError as exc:
            invalid(str(exc), field="kind")


class Check(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What of the judgement to return."""

    metric: Annotated[
        list[Name],
        msgspec.Meta(
            max_length=MOST_FIELDS, description="Return only these findings, with evidence.", examples=[["lost"]]
        ),
    ] = []


class Mark(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A line for all logs."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_MARK)]
