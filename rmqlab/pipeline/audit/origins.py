"""Messages whose records have another time or address of their producer.

The rules are those of cluster/checks/origins.py.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.pipeline.audit.parts import BROKERS, divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.catalogue import ORIGIN_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.origins import CLOCK_SLACK, why_unknown

_NEVER: Final = 2**63 - 1
"""Time of an event that did not occur."""

TABLE = "altered_origins"
_PREVIEW: Final = Preview(TABLE, "brokers", ("stored_at", "message_id"))
SUSPECTED = f"""sends = 1 and (has_other_host or first_born_at < send.began_at - {CLOCK_SLACK}
    or last_born_at > send.ended_at + {CLOCK_SLACK})"""
"""SQL condition of a row of `fates`, for all messages of the table; it also holds for some of batches."""

# Of messages with one send, which is of no batch.
_ALTERED = """
with batches as (
    select node, ended_at, seq from sends group by all having count(*) > 1
), single as (
    select message_id, max(node) node, max(broker) sent_to, max(began_at) began_at, max(ended_at) ended_at, max(seq) seq
    from sends where message_id is not null group by message_id having count(*) = 1
), compared as (
    select c.message_id, c.node at_node, c.broker, s.sent_to, c.log_offset, c.born_host, c.born_at, c.stored_at,
        c.born_at < s.began_at - {slack} or c.born_at > s.ended_at + {slack} is_of_another_time,
        h.hosts is not null and not array_contains(h.hosts, c.born_host) is_of_another_host
    from copies c join single s on c.message_id = s.message_id
        left anti join batches b on s.seq = b.seq
        left join client_hosts h on s.node = h.node
    where {is_judged}
)
select message_id, min(stored_at) stored_at, {places}, {brokers}
from compared where is_of_another_time or is_of_another_host group by message_id
"""
_PLACES = places("at_node", "log_offset", "stored_at", "' has ', born_host, ' at ', born_at")


def born_at(run: Run) -> str:
    """Return an SQL expression of `copies`: when a producer made it.

    Null if the record is not judged by that.
    """
    return f"if({_is_judged(run)}, born_at, null)"


def is_of_other_host(run: Run) -> str:
    """Return an SQL condition of `copies`: it has an unusual address.

    That is an address that not all known clients have. False if the record is not judged by that.
    """
    known = [set(hosts) for hosts in run.conditions.client_hosts.values()]
    if not known:
        return "false"
    common = ", ".join(map(literal, sorted(set.intersection(*known)))) or "''"
    return f"{_is_judged(run)} and born_host not in ({common})"


def _is_judged(run: Run) -> str:
    removals = (one.at for one in run.cluster_events if one.kind in REMOVING_KINDS)
    return f"content_crc is not null and stored_at < {min(removals, default=_NEVER)}"


def judge(run: Run, *, is_suspected: bool) -> Iterator[Finding]:
    """Write the table `altered_origins`, and yield `origin_disagreement`."""
    metric, unit = ORIGIN_DISAGREEMENT.name, ORIGIN_DISAGREEMENT.unit
    if is_suspected:
        hosts = [{"node": node, "hosts": sorted(known)} for node, known in run.conditions.client_hosts.items()]
        run.relations.define_rows("client_hosts", hosts, node="string", hosts="array<string>")
        run.table(
            TABLE,
            _ALTERED.format(slack=CLOCK_SLACK, is_judged=_is_judged(run), brokers=BROKERS, places=_PLACES),
            is_rare=True,
        )
    else:
        run.write_empty(TABLE)
    sends, altered = run.previews(Preview("sends"), _PREVIEW)
    if why := why_unknown(run.conditions, has_sends=bool(sends.found), has_stores=bool(run.stores)):
        yield unknown(metric, unit, why)
        return
    finding = Finding(metric=metric, unit=unit, value=0, is_at_least=bool(run.unread))
    yield divided(
        finding, altered, _PREVIEW.order, evidence_of("time or address of its producer are not those of the send")
    )
