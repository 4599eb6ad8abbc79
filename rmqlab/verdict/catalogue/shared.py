"""Units, and parts that metrics share: journals they need, reasons for `unknown`."""

from typing import Final

from rmqlab.verdict.metrics import Source

MESSAGES: Final = "messages"
DELIVERIES: Final = "deliveries"
BYTES: Final = "bytes"
SECONDS: Final = "s"
TIMES: Final = "times"
RECORDS: Final = "records"
ENTRIES: Final = "entries"
TOPICS: Final = "topics"
GROUPS: Final = "groups"

SUPERVISOR_JOURNAL: Final = frozenset({Source.SUPERVISOR})
PRODUCER_JOURNALS: Final = SUPERVISOR_JOURNAL | {Source.PRODUCERS}
CONSUMER_JOURNALS: Final = SUPERVISOR_JOURNAL | {Source.CONSUMERS}
BROKER_JOURNALS: Final = SUPERVISOR_JOURNAL | {Source.BROKERS}
REQUESTS: Final = frozenset({Source.BROKERS})
"""Brokers record the requests that delete topics and groups and reset offsets."""
DISTURBANCES: Final = SUPERVISOR_JOURNAL | {Source.BROKERS}
"""Brokers and the supervisor record removed records, faults of clocks, and changes of settings."""
NAMESERVER_JOURNALS: Final = SUPERVISOR_JOURNAL | {Source.NAMESERVERS}
NOTHING_SENT = "no workload of the journal sent anything, or the journal of a producer is incomplete"
STORE_MISSING = "a store that could hold one of the messages was not given, lacks files of its log or cannot be read"
