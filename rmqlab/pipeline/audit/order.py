"""Order within queues: of stored messages, and of deliveries.

A message is out of order if the highest value before it in its queue is too high: one window for each queue, which one
task computes. Queues with more rows than CHUNK_ROWS are cut into chunks of offsets or of time: one pass computes the
highest value of each chunk, and the windows then begin with the highest value of all earlier chunks.

Metrics: order.stored, order.delivered GROUP.
"""

from collections.abc import Iterator, Sequence

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.parts import divided
from rmqlab.pipeline.audit.previews import Groups, Preview, join_groups
from rmqlab.pipeline.audit.run import Rare, Run, written
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.findings import Evidence, Finding, unknown

CHUNK_ROWS = 2**18
"""Rows of a chunk; longer queues are cut. A task has several chunks, so that tasks are of similar size."""


@attrs.frozen(kw_only=True)
class Ordered:
    """Rows of queues, whose values should not be lower than those before them."""

    source: str
    """The relation whose rows these are."""
    table: str
    """The relation that holds the rows of cut queues: they are read twice."""
    rows: str
    """The query of the rows."""
    queue: tuple[str, ...]
    """The columns that identify a queue."""
    order: str
    value: str
    unit: str
    """A number that orders rows of a queue as `order` does, in groups: the offset, or the time."""

    def with_preceding_maximum(self, name: str, width: int = 0, tasks: int = 1) -> str:
        """Return the query of the rows with column `name`: the highest value before.

        `width` is the length of a chunk in units; 0: the queues are not cut. The chunks are spread over `tasks`, which
        Spark does not join: by itself it would, up to 64 MB.
        """
        queue = ", ".join(self.queue)
        earlier = "rows between unbounded preceding and 1 preceding"
        if not width:
            return (
                f"select *, max({self.value}) over (partition by {queue} order by {self.order} {earlier}) {name}"
                f" from ({self.rows})"
            )
        within = ", ".join(f"r.{column}" for column in (*self.queue, "chunk"))
        same = " and ".join(f"r.{column} <=> h.{column}" for column in (*self.queue, "chunk"))
        chunk = f"{queue}, chunk"
        return f"""
        with cut as (
            select *, {self.unit} div {width} chunk, {self.value} measured from {self.table}
        ), apart as (
            select /*+ repartition({tasks}, {chunk}) */ * from cut
        ), highest as (
            select {chunk}, max(measured) highest from cut group by {chunk}
        ), heads as (
            select {chunk}, max(highest) over (partition by {queue} order by chunk {earlier}) before from highest
        )
        select /*+ broadcast(h) */ r.*,
            greatest(h.before, max(measured) over (partition by {within} order by {self.order} {earlier})) {name}
        from apart r left join heads h on {same}
        """


_MET = """
with met as (
    select /*+ shuffle_hash(s) */ c.node, c.broker, c.topic, c.queue, c.message_id, c.offset, c.log_offset,
        s.offset sent_to, s.began_at, s.ended_at, coalesce(s.acknowledged and s.broker = c.broker and s.queue = c.queue
            and s.place_topic = s.topic and d.topic is null, false) is_here
    from copies c join sends s on c.message_id = s.message_id and c.topic = s.topic
        left join deferred d on s.message_id = d.message_id and s.topic = d.topic
        left anti join deleted_topics x on c.broker = x.broker and c.topic = x.topic and s.began_at <= x.at
)
"""

STORED = Ordered(
    source="copies",
    table="placed_records",
    rows=f"""
{_MET}, placed as (
    select node, broker, topic, queue, message_id, offset, began_at, if(is_here, ended_at, null) ended_at,
        row_number() over (partition by node, topic, queue, message_id
            order by coalesce(is_here and offset = sent_to, false) desc, log_offset, began_at, ended_at) nth
    from met
)
select * from placed where nth = 1
""",
    queue=("node", "broker", "topic", "queue"),
    order="offset, message_id",
    value="named_struct('began_at', began_at, 'message_id', message_id, 'offset', offset)",
    unit="offset",
)

_DELIVERIES = """
select * from (
    select * from deliveries d left anti join deleted_topics x on d.broker = x.broker and d.topic = x.topic
    union all select * from new_deliveries)
where coalesce(reconsume_times, 0) = 0
"""

DELIVERED = Ordered(
    source="deliveries",
    table="first_deliveries",
    rows=f"""
select * from (
    select *, row_number() over (partition by `group`, topic, broker, queue, offset order by seq) nth
    from ({_DELIVERIES}))
where nth = 1
""",
    queue=("`group`", "topic", "broker", "queue"),
    order="seq",
    value="offset",
    unit="at",
)

_INVERSIONS = """
select message_id, broker, topic, queue, offset, ended_at, ahead, node,
    array_sort(collect_set(broker) over (partition by message_id)) brokers
from ({rows}) where ahead.began_at > ended_at
"""
# With the rows of all sends of a message, of which nothing has to find the right one; and numbers are compared in less
# time than structs.
_OF_ALL_SENDS = f"{_MET} select * except (ended_at), if(is_here, ended_at, null) ended_at from met"
_SUSPECTED = "select message_id from ({rows}) where latest > ended_at"
# The first deliveries are not looked for: a message that is delivered again is also late.
_SUSPECTED_LATE = "select seq from ({rows}) where farthest > offset"
_LATE = """
select seq, at, node, `group`, topic, broker, queue, offset, message_id, farthest from ({rows}) where farthest > offset
"""

_INVERTED = Preview("inversions", "brokers", ("ended_at", "message_id", "node", "offset"))
_LATER = Preview("late_deliveries", ("group", "broker"), ("seq",))
_PREVIEWS = (
    _INVERTED,
    _LATER,
    Preview("deliveries", "group"),
    Preview("sends", "acknowledged"),
)


def judge(run: Run) -> Iterator[Finding]:
    """Write the tables `inversions` and `late_deliveries`, and yield the findings."""
    widths = {STORED: _width(run, STORED, CHUNK_ROWS), DELIVERED: _width(run, DELIVERED, _milliseconds(run))}
    cut = [ordered for ordered, width in widths.items() if width]
    if cut:
        run.batch(*(written(ordered.table, ordered.rows) for ordered in cut))
    tasks = run.relations.tasks
    by_time = attrs.evolve(STORED, rows=_OF_ALL_SENDS, value="began_at")
    inversions = Rare(
        name="inversions",
        text=_INVERSIONS.format(rows=STORED.with_preceding_maximum("ahead", widths[STORED], tasks)),
        suspicion=_SUSPECTED.format(rows=by_time.with_preceding_maximum("latest", widths[STORED], tasks)),
    )
    each = attrs.evolve(DELIVERED, rows=_DELIVERIES)
    late_deliveries = Rare(
        name="late_deliveries",
        text=_LATE.format(rows=DELIVERED.with_preceding_maximum("farthest", widths[DELIVERED], tasks)),
        suspicion=_SUSPECTED_LATE.format(rows=each.with_preceding_maximum("farthest", widths[DELIVERED], tasks)),
    )
    run.write_rare(inversions, late_deliveries)
    for ordered in cut:
        run.relations.drop(ordered.table)
    inverted, late, delivered, sent = run.previews(*_PREVIEWS)
    counted = run.rows("select brokers key, count(distinct message_id) found from inversions group by brokers")
    yield _judge_stored(run, messages_of(inverted, counted), is_acknowledged=True in sent)
    for group in sorted(delivered):
        finding = Finding(metric=f"order.delivered {group}", unit=MESSAGES, value=0)
        yield divided(finding, late.within(group), _LATER.order, _describe_delivery)


def messages_of(rows: Groups, counted: Sequence[Row]) -> Groups:
    """Return groups of rows, with the numbers of messages as their sizes."""
    messages = join_groups(counted)
    return Groups({key: attrs.evolve(group, found=messages[key].found) for key, group in rows.items()})


def _width(run: Run, ordered: Ordered, width: int) -> int:
    """Return the width of chunks, 0 if no queue has to be cut."""
    return width if run.longest_queues.get(ordered.source, 0) > CHUNK_ROWS else 0


def _milliseconds(run: Run) -> int:
    """Return the time in which the longest queue has CHUNK_ROWS deliveries."""
    longest = run.longest_queues.get(DELIVERED.source, 0)
    return max(1, (run.ended_at - run.began_at) * CHUNK_ROWS // max(1, longest))


def _judge_stored(run: Run, inverted: Groups, *, is_acknowledged: bool) -> Finding:
    if not is_acknowledged or not run.stores:
        missing = "no store was given" if is_acknowledged else "no send was acknowledged"
        return unknown("order.stored", MESSAGES, missing)
    finding = Finding(metric="order.stored", unit=MESSAGES, value=0)
    return divided(finding, inverted, _INVERTED.order, _describe_inversion)


def _describe_inversion(row: Row) -> Evidence:
    text = (
        f"{row.topic}@{row.broker}:{row.queue}: {row.message_id} at offset {row.offset} is behind"
        f" {row.ahead.message_id} at {row.ahead.offset}, sent {row.ahead.began_at - row.ended_at} ms after it"
    )
    return Evidence(text=text)


def _describe_delivery(row: Row) -> Evidence:
    place = f"{row.topic}@{row.broker}:{row.queue}"
    return Evidence(text=f"{place}: {row.node} received offset {row.offset} after {row.farthest}")
