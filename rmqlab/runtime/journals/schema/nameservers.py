"""Events of nameservers: registrations, and changes of their routes."""

from rmqlab.runtime.journals.schema.fields import BROKER, BROKER_CHANGE, EventType, count, listing, text

NAMESERVERS = (
    EventType("broker_registered", "nameserver", "A broker registered a new address.", BROKER_CHANGE),
    EventType("broker_unregistered", "nameserver", "A broker unregistered.", BROKER_CHANGE),
    EventType("broker_expired", "nameserver", "A broker sent no registration for 120 s.", BROKER_CHANGE),
    EventType(
        "broker_connection_lost", "nameserver", "The connection over which a broker registers ended.", BROKER_CHANGE
    ),
    EventType(
        "route_changed",
        "nameserver",
        "Queues of topics were added, changed or removed.",
        {
            "broker_name": BROKER,
            "reason": text("the request or event that caused it"),
            "topics": listing("some of the topics"),
            "topic_count": count("number of all of them"),
        },
    ),
)
