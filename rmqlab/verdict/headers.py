"""Rules about fields of records that a broker sets, for both judges."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from rmqlab.remoting.message import IPV6_MASK, MULTI_TAGS, TRANSACTION_MASK
from rmqlab.remoting.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.metrics import Source

SENT_BITS: Final = 0x7FFFFFFF & ~(TRANSACTION_MASK | IPV6_MASK | MULTI_TAGS)
"""Bits of a sysFlag that a broker stores as its producer sent them."""
HOST_KINDS: Final = ("node_ready", "broker_registered")
"""Kinds of events that have the address of a broker."""
_ADDRESS_KEYS: Final = frozenset({"broker_ip1", "listen_port"})
"""Settings of a broker that are its address."""
UNCOMMITTED_TOPICS: Final = (HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
"""Topics of half messages, whose records have no transaction bit."""


def why_unknown(*, has_sends: bool, has_stores: bool) -> str:
    """Return why no record can be compared with its send; empty if some can."""
    if has_sends and has_stores:
        return ""
    return "no workload of the journal sent anything" if has_stores else "no store was given"


def has_all_deliveries(conditions: Conditions) -> bool:
    """Return False if the journal of a consumer is incomplete."""
    return not any(Source.CONSUMERS in gap.sources for gap in conditions.gaps)


def broker_hosts(
    named: Iterable[Mapping[str, Any]], conditions: Conditions, renamed: Collection[str]
) -> dict[str, set[str]]:
    """Return the addresses of each broker name's members.

    `named` are the fields of events of HOST_KINDS. The names of `renamed`, whose members had others, are left out. Empty
    if an event of the supervisor may be missing, or if addresses may have changed while brokers ran.
    """
    found: dict[str, set[str]] = {}
    if _ADDRESS_KEYS & conditions.changed_settings or any(Source.SUPERVISOR in gap.sources for gap in conditions.gaps):
        return found
    for fields in named:
        name, address = fields.get("broker_name"), fields.get("address")
        if name and address and name not in renamed:
            found.setdefault(str(name), set()).add(str(address))
    return found
