"""The journal's schema as data: kinds of events, their fields and units.

`rmqlab events --schema` prints it. A test compares it with the sources: it fails if a process emits an event with a
kind or a field that is not declared here.
"""

from collections.abc import Mapping

from rmqlab.runtime.journal_schema.brokers import BROKERS
from rmqlab.runtime.journal_schema.fields import EventType, Field
from rmqlab.runtime.journal_schema.messages import MESSAGES
from rmqlab.runtime.journal_schema.nameservers import NAMESERVERS
from rmqlab.runtime.journal_schema.nodes import NODES
from rmqlab.runtime.journal_schema.workloads import WORKLOADS

__all__ = ["EVENT_TYPES", "EventType", "Field"]

EVENT_TYPES: Mapping[str, EventType] = {
    event.name: event for event in (*MESSAGES, *WORKLOADS, *NODES, *NAMESERVERS, *BROKERS)
}
"""All kinds of events by name, in the order of the schema."""
