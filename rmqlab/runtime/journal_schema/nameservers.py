"""Events of nameservers: registrations, and changes of their routes."""

from rmqlab.runtime.journal_schema.fields import BROKER, BROKER_CHANGE, EventType, count, listing, text

NAMESERVERS = (
    EventType("broker_registered", "nameserver", "A broker's address came into the routes.", BROKER_CHANGE),
    EventType("broker_unregistered", "nameserver", "A broker took its leave.", BROKER_CHANGE),
    EventType("broker_expired", "nameserver", "A broker was silent for 120 s.", BROKER_CHANGE),
    EventType(
        "broker_connection_lost", "nameserver", "The connection over which a broker registers ended.", BROKER_CHANGE
    ),
    EventType(
        "route_changed",
        "nameserver",
        "Queues of topics came, changed or went.",
        {
            "broker_name": BROKER,
            "reason": text("the request or event that did it"),
            "topics": listing("some of the topics"),
            "topic_count": count("how many they are"),
        },
    ),
)
