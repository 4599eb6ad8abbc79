"""The journal's schema as data: kinds of events, their fields and units.

`rmqlab events --schema` prints it. A test compares it with the sources: it fails if a process emits an event with a
kind or a field that is not declared here.
"""

from collections.abc import Mapping
from typing import Any, Final

from rmqlab.runtime.journals.schema.brokers import BROKERS
from rmqlab.runtime.journals.schema.fields import LATEST, OFFSET_LIMIT, EventType, Field
from rmqlab.runtime.journals.schema.messages import MESSAGES
from rmqlab.runtime.journals.schema.nameservers import NAMESERVERS
from rmqlab.runtime.journals.schema.nodes import NODES
from rmqlab.runtime.journals.schema.workloads import WORKLOADS

__all__ = ["EVENT_TYPES", "LATEST", "OFFSET_LIMIT", "EventType", "Field", "validate"]

EVENT_TYPES: Mapping[str, EventType] = {
    event.name: event for event in (*MESSAGES, *WORKLOADS, *NODES, *NAMESERVERS, *BROKERS)
}
"""All kinds of events by name, in the order of the schema."""

_NUMBERS: Final = ("int", "float")
_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "text": frozenset({str}),
    "int": frozenset({int}),
    "float": frozenset({int, float}),
    "bool": frozenset({bool}),
    "map": frozenset({dict}),
    "list": frozenset({list, tuple}),
}
"""The types of valid values, by the type of the field. Others have any value."""

_CHECKS: Final = {
    event.name: tuple(
        (name, _TYPES[field.type], field.limit if field.type in _NUMBERS else 0, field.is_needed, field.needed_with)
        for name, field in event.fields.items()
        if field.type in _TYPES
    )
    for event in EVENT_TYPES.values()
}


def validate(kind: str, fields: dict[str, Any]) -> str:
    """Return the name of a field that is invalid; empty if none is.

    Its value has the wrong type, is no finite number, or is missing and needed. An integer beyond the limit of its
    field is set to that: a peer may have chosen it, such as a commit of offset 2^63 - 1, and the event is true all the
    same. A time beyond the year 9999 is unknown.
    """
    for name, types, limit, is_needed, needed_with in _CHECKS.get(kind, ()):
        value = fields.get(name)
        if value is None:
            if is_needed or (needed_with and fields.get(needed_with) is not None):
                return name
        elif type(value) not in types:
            return name
        elif limit and not -limit <= value < limit:
            if type(value) is float or (limit == LATEST and is_needed):
                return name
            fields[name] = None if limit == LATEST else max(-limit, min(value, limit - 1))
    return ""
