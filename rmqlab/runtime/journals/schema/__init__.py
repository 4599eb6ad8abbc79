"""The journal's schema as data: kinds of events, their fields and units.

`rmqlab events --schema` prints it. A test compares it with the sources: it fails if a process emits an event with a
kind or a field that is not declared here.
"""

from collections.abc import Mapping
from typing import Any, Final

from rmqlab.runtime.journals.schema.brokers import BROKERS
from rmqlab.runtime.journals.schema.fields import EventType, Field
from rmqlab.runtime.journals.schema.messages import MESSAGES
from rmqlab.runtime.journals.schema.nameservers import NAMESERVERS
from rmqlab.runtime.journals.schema.nodes import NODES
from rmqlab.runtime.journals.schema.workloads import WORKLOADS

__all__ = ["EVENT_TYPES", "EventType", "Field", "invalid_field"]

EVENT_TYPES: Mapping[str, EventType] = {
    event.name: event for event in (*MESSAGES, *WORKLOADS, *NODES, *NAMESERVERS, *BROKERS)
}
"""All kinds of events by name, in the order of the schema."""

_CHECKED: Final[Mapping[str, type | tuple[type, ...]]] = {
    "int": (int, float), "float": (int, float), "map": dict, "list": (list, tuple),
}  # fmt: skip
"""The types of values that readers calculate with or iterate over, by the type of the field."""

_TYPES: Final[Mapping[str, tuple[tuple[str, type | tuple[type, ...]], ...]]] = {
    event.name: tuple((name, _CHECKED[field.type]) for name, field in event.fields.items() if field.type in _CHECKED)
    for event in EVENT_TYPES.values()
}


def invalid_field(kind: str, fields: Mapping[str, Any]) -> str:
    """Return the name of a field with a value of the wrong type; empty if none has."""
    for name, types in _TYPES.get(kind, ()):
        value = fields.get(name)
        if value is not None and not isinstance(value, types):
            return name
    return ""
