"""The plots of the page, one function each: title, description and drawing.

Returns None without data. All have the same time axis, and show the absences of brokers and nameservers, and the
faults.
"""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from rmqlab.pipeline.report.data import RunData
from rmqlab.verdict.findings import failed_attempts
from rmqlab.verdict.html.document import Figure
from rmqlab.verdict.html.svg import Plot, short, short_millis, since, stacked
from rmqlab.verdict.outcomes import OUTCOMES

_LANE = 30
_PREPOSITIONS = {"write": "to", "read": "from"}
_SERIES = 6
"""Number of series colours; further series reuse them."""


def _mark_faults(data: RunData, plot: Plot) -> Plot:
    """Shade the absences of servers and mark the start and end of faults."""
    at = since(data.began_at)
    for row in data.table("absences"):
        if data.ready.get(row["node"], {}).get("address"):
            end = data.seconds if row["until"] is None else at(row["until"])
            plot.shade(at(row["at"]), end, f"{row['node']} {row['how']} for {end - at(row['at']):.2f} s")
    for event in data.events:
        if event["kind"] in ("fault_applied", "fault_healed"):
            words = " ".join(str(value) for value in event["fields"].values() if value not in (None, False, ""))
            plot.rule(at(event["at"]), "fault", f"{event['kind'].replace('_', ' ')}: {words}")
    return plot


def figures(data: RunData) -> Iterator[Figure]:
    """Yield all figures that have data, in the page's order."""
    for make in (space_time, throughput, latency, replication_lag, consumer_offsets, deliveries):
        if (figure := make(data)) is not None:
            yield figure


# ---- absences, beliefs and availability ------------------------------------------------------------------


@attrs.define
class _Lanes:
    """Rows of bars, from top to bottom."""

    data: RunData
    rows: list[tuple[str, str, Callable[[Plot, float], None]]] = attrs.field(factory=list)

    def add(self, name: str, draw: Callable[[Plot, float], None], kind: str = "name") -> None:
        self.rows.append((name, kind, draw))

    def plot(self, title: str) -> Plot:
        plot = Plot(title, self.data.seconds, len(self.rows) * _LANE + 40)
        for index, (name, kind, draw) in enumerate(self.rows):
            top = 12 + index * _LANE
            plot.label(name, top + 15, kind)
            draw(plot, top)
        return plot


def space_time(data: RunData) -> Figure | None:
    lanes = _Lanes(data)
    absences, beliefs, outages = data.table("absences"), data.table("beliefs"), data.table("outages")
    ready = data.ready
    addresses = {str(fields.get("address")): node for node, fields in ready.items()}
    for node in ready:
        lanes.add(node, _life(data, node, absences, data.role_of(node)))
    for watcher in sorted({row["watcher"] for row in beliefs}):
        if not ready.get(watcher, {}).get("address"):
            continue  # there may be many clients
        for address in sorted({row["address"] for row in beliefs if row["watcher"] == watcher}):
            held = [row for row in beliefs if (row["watcher"], row["address"]) == (watcher, address)]
            node = addresses.get(address, address)
            lanes.add(f"{watcher} lists {node}", _belief(data, node, held, absences, watcher), "minor")
    for broker in sorted({str(fields["broker_name"]) for fields in ready.values() if fields.get("broker_name")}):
        for operation in ("write", "read"):
            found = [row for row in outages if (row["operation"], row["target"]) == (operation, broker)]
            known = data.findings.get(f"{operation}_unavailable {broker}", {}).get("value") is not None
            lanes.add(
                f"{operation}s {_PREPOSITIONS[operation]} {broker}",
                _band(data, operation, found, is_known=known),
                "minor",
            )
    plot = lanes.plot("nodes over time")
    return Figure(
        "Node status, routes and availability",
        "Processes with their roles; the brokers that each nameserver lists in its routes; writes to and reads from"
        " each broker. In all charts, a shaded time means that a server was down, a dashed line that a fault began or"
        " ended.",
        _mark_faults(data, plot).text(),
        (
            ("alive", "running, listed correctly, or available"),
            ("gone", "down"),
            ("stale", "listed while down, or unavailable"),
            ("still", "no attempts, or workload ended"),
        ),
        "nodes",
    )


def _life(data: RunData, node: str, absences: list[dict[str, Any]], role: str) -> Callable[[Plot, float], None]:
    at = since(data.began_at)

    def draw(plot: Plot, top: float) -> None:
        has_address = any(
            row["node"] == node and row["fields"].get("address") for row in data.events
        )  # otherwise a workload
        first = min(
            (row["at"] for row in data.events if (row["node"], row["kind"]) == (node, "node_ready")),
            default=data.began_at,
        )
        plot.bar(at(first), data.seconds, top, 20, "alive", f"{node} {role}".strip())
        if role:
            plot.note(at(first), top + 14, role)
        for row in (row for row in absences if row["node"] == node):
            end = data.seconds if row["until"] is None else at(row["until"])
            kind = "still" if row["how"] == "stopped" and not has_address else "gone"
            plot.bar(at(row["at"]), end, top, 20, kind, f"{node} {row['how']} for {end - at(row['at']):.2f} s")
            plot.note(at(row["at"]), top + 14, row["how"], "note" if kind == "gone" else "note quiet", until=end)

    return draw


def _belief(
    data: RunData, node: str, held: list[dict[str, Any]], absences: list[dict[str, Any]], watcher: str
) -> Callable[[Plot, float], None]:
    at = since(data.began_at)

    def draw(plot: Plot, top: float) -> None:
        for row in held:
            end = data.seconds if row["until"] is None else at(row["until"])
            plot.bar(at(row["since"]), end, top + 4, 12, "alive", f"{watcher} lists {node}")
            for absence in (one for one in absences if one["node"] == node):
                back = data.seconds if absence["until"] is None else at(absence["until"])
                start, stop = max(at(row["since"]), at(absence["at"])), min(end, back)
                if start < stop:
                    plot.bar(start, stop, top + 4, 12, "stale", f"{watcher} lists {node}, which is {absence['how']}")

    return draw


def _band(
    data: RunData, operation: str, outages: list[dict[str, Any]], *, is_known: bool
) -> Callable[[Plot, float], None]:
    at = since(data.began_at)
    tried = [row["at"] for row in data.table("send_bins" if operation == "write" else "delivery_bins")]

    def draw(plot: Plot, top: float) -> None:
        plot.bar(0, data.seconds, top + 4, 12, "still")
        if tried and is_known:
            plot.bar(at(min(tried)), at(max(tried)) + _bin_seconds(data), top + 4, 12, "alive")
        for row in outages:
            start, end = at(row["began_at"]), at(row["ended_at"])
            text = f"no {operation}: {failed_attempts(row['failures'], end - start)}"
            plot.bar(start, end, top + 4, 12, "stale", text)

    return draw


# ---- throughput, latency and offsets ---------------------------------------------------------------------


def throughput(data: RunData) -> Figure | None:
    rows = data.table("send_bins")
    if not rows:
        return None
    at, width = since(data.began_at), _bin_seconds(data)
    counts: dict[int, dict[str, int]] = collections.defaultdict(dict)
    for row in rows:
        counts[row["at"]][row["outcome"]] = row["sends"]
    kinds = [f"outcome-{outcome}" for outcome in OUTCOMES]
    plot = Plot("sends per second by outcome", data.seconds, 190)
    stacked(
        plot,
        [
            (at(millis), [found.get(outcome, 0) / width for outcome in OUTCOMES])
            for millis, found in sorted(counts.items())
        ],
        kinds,
        width,
    )
    seen = {row["outcome"] for row in rows}
    legend = tuple((f"outcome-{outcome}", outcome) for outcome in OUTCOMES if outcome in seen)
    return Figure("Sends", "Completed sends per second, by outcome.", _mark_faults(data, plot).text(), legend, "sends")


def latency(data: RunData) -> Figure | None:
    rows = [row for row in data.table("send_bins") if row["latency"] and row["outcome"] != "refused"]
    if not rows:
        return None
    at, width = since(data.began_at), _bin_seconds(data)
    worst: dict[int, list[float]] = {}
    for row in rows:
        known = worst.get(row["at"], [0.0, 0.0, 0.0])
        worst[row["at"]] = [max(pair) for pair in zip(known, map(float, row["latency"]), strict=True)]
    plot = Plot("latency of sends", data.seconds, 190)
    axis = plot.y(max(values[2] for values in worst.values()), is_log=True, text=short_millis)
    for index, kind in enumerate(("series-0", "series-1", "series-2")):
        plot.line(
            [(at(millis), values[index]) for millis, values in sorted(worst.items())], axis, kind, widest=10 * width
        )
    legend = (("series-0", "median"), ("series-1", "99th percentile"), ("series-2", "maximum"))
    return Figure(
        "Latency",
        "Duration of sends, without refused ones; logarithmic scale.",
        _mark_faults(data, plot).text(),
        legend,
    )


def replication_lag(data: RunData) -> Figure | None:
    rows = data.table("lag")
    if not rows:
        return None
    at = since(data.began_at)
    slaves = sorted({row["slave"] for row in rows})
    plot = Plot("replication lag", data.seconds, 170)
    high = max(row["behind_bytes"] for row in rows)
    axis = plot.y(max(high, 1), text=_bytes)
    for index, slave in enumerate(slaves):
        points = sorted((at(row["at"]), row["behind_bytes"]) for row in rows if row["slave"] == slave)
        plot.line(points, axis, f"series-{index % _SERIES}", is_step=True)
    text = f"Bytes by which each slave's log is behind its master's, sampled once a second; at most {_bytes(high)}."
    return Figure("Replication lag", text, _mark_faults(data, plot).text(), _series(slaves))


def consumer_offsets(data: RunData) -> Figure | None:
    rows = data.table("offset_points")
    if not rows:
        return None
    at = since(data.began_at)
    groups = sorted({row["group"] for row in rows})
    plot = Plot("committed offsets", data.seconds, 190)
    axis = plot.y(max(row["offset"] for row in rows))
    for index, group in enumerate(groups):
        points = sorted((at(row["at"]), row["offset"]) for row in rows if row["group"] == group)
        plot.line(points, axis, f"series-{index % _SERIES}", is_step=True)
    moves = data.table("offset_moves")
    for row in moves:
        text = f"{row['group']} queue {row['queue']}: {row['before']} to {row['after']} ({row['why']})"
        plot.dot(at(row["at"]), plot.floor - 8, "rollback", text)
    legend = (*_series(groups), *((("rollback", "offset moved back"),) if moves else ()))
    text = "Sum of the committed offsets of each group, over all queues."
    return Figure("Consumer offsets", text, _mark_faults(data, plot).text(), legend)


def deliveries(data: RunData) -> Figure | None:
    rows = data.table("delivery_bins")
    if not rows:
        return None
    at, width = since(data.began_at), _bin_seconds(data)
    counts: dict[int, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        counts[row["at"]][bool(row["broker_id"])] += row["deliveries"] / width
    plot = Plot("deliveries per second", data.seconds, 170)
    stacked(plot, [(at(millis), values) for millis, values in sorted(counts.items())], ("series-0", "series-1"), width)
    legend = (("series-0", "from masters"), ("series-1", "from slaves"))
    text = "Messages per second that consumers received, by the role of the broker."
    return Figure("Deliveries", text, _mark_faults(data, plot).text(), legend)


def _bytes(value: float) -> str:
    return short(value, "B")


def _bin_seconds(data: RunData) -> float:
    return max(100, (data.ended_at - data.began_at) // 300) / 1000


def _series(names: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((f"series-{index % _SERIES}", name) for index, name in enumerate(names))
