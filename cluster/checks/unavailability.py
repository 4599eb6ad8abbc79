"""Write and read unavailability (RTO), per broker name and per queue, in seconds of the cluster's time.

A window runs from the last success at a target to its next success, and counts where at least one attempt at the target
failed in it: time in which nobody tried is no outage. It is told apart for every target, never "first success anywhere".

* `write_unavailable BROKER`, `write_unavailable QUEUE`: the longest window. A success is a send that was answered with
  an outcome that says "stored". A failure is an attempt at the broker that failed, of any queue of it (an attempt does
  not tell its queue); for a queue, only attempts of its topic. An attempt that found no broker at all in its route
  counts for every broker that its topic was ever stored at.
* `read_unavailable BROKER`, `read_unavailable QUEUE`: the same for pulls. A success is a delivery, or a pull that was
  answered after one that failed (`pull_resumed`). A failure is a pull that failed. Since a consumer that has read
  everything makes no deliveries, a window begins at the last success or when the first pull that failed in it was
  asked, whichever is later. Each consumer group reads by itself: the longest window of any group counts.

A window that no success has ended yet runs to its last failure, and the finding is "at least". One without a success
before it begins with its first attempt.

Unknown: where nothing was sent to, or read from, a target.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping

import attrs

from cluster.checks.copies import Stores
from cluster.checks.findings import EVIDENCE_LIMIT, IDS_LIMIT, Evidence, Finding, Metric, unknown
from cluster.checks.history import History, Queue
from cluster.checks.moves import parse_queue
from remoting.journal import JournalEntry

METRICS = tuple(
    Metric(name=f"{way}_unavailable", target=target, unit="s", says=f"longest time without a {what}")
    for way, what in (("write", "send that was stored"), ("read", "pull that was answered"))
    for target in ("BROKER", "QUEUE")
)


@attrs.frozen
class Attempt:
    """Something that was tried at a target. Milliseconds of the cluster's clock."""

    began_at: int
    ended_at: int
    is_success: bool
    message_id: str = ""
    entry: JournalEntry | None = None


@attrs.frozen
class Window:
    """A time in which attempts failed and none succeeded."""

    began_at: int
    ended_at: int
    failures: tuple[Attempt, ...]
    is_open: bool
    """No success was seen after it."""

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.began_at) / 1000


def find_windows(attempts: Iterable[Attempt], *, since_first_failure: bool = False) -> list[Window]:
    """Give the windows of one target by time. `since_first_failure`: idle time before the first failure is none of it."""
    windows: list[Window] = []
    failures: list[Attempt] = []
    last_success: int | None = None

    def close(ended_at: int, *, is_open: bool) -> None:
        if failures:
            first = min(failure.began_at for failure in failures)
            began_at = first if last_success is None else last_success
            if since_first_failure:
                began_at = max(began_at, first)
            windows.append(Window(began_at, ended_at, tuple(failures), is_open))
            failures.clear()

    for attempt in sorted(attempts, key=lambda attempt: attempt.ended_at):
        if attempt.is_success:
            close(attempt.ended_at, is_open=False)
            last_success = attempt.ended_at
        else:
            failures.append(attempt)
    if failures:
        close(failures[-1].ended_at, is_open=True)
    return windows


def judge(history: History, _stores: Stores) -> Iterator[Finding]:
    """Measure all of METRICS."""
    writes = _writes(history)
    reads = _reads(history)
    for way, by_target in (("write", writes), ("read", reads)):
        for name in history.broker_names:
            if name not in by_target:
                yield unknown(f"{way}_unavailable {name}", "s", f"nobody {_TRIED[way]} {name}")
        for target, by_group in by_target.items():
            windows = [
                window
                for attempts in by_group.values()
                for window in find_windows(attempts, since_first_failure=way == "read")
            ]
            yield _longest(f"{way}_unavailable {target}", windows, history)


_TRIED = {"write": "sent anything to", "read": "read anything from"}
ByTarget = Mapping[str, Mapping[str, list[Attempt]]]
"""Attempts by target, and by whom they are judged apart."""


def _writes(history: History) -> ByTarget:
    found: dict[str, dict[str, list[Attempt]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    queues: dict[tuple[str, str], set[Queue]] = collections.defaultdict(set)
    brokers: dict[str, set[str]] = collections.defaultdict(set)
    for send in history.sends:
        if send.is_acknowledged and send.queue:
            attempt = Attempt(send.began_at, send.ended_at, is_success=True, entry=send.entry)
            found[send.queue.broker][""].append(attempt)
            found[str(send.queue)][""].append(attempt)
            queues[send.topic, send.queue.broker].add(send.queue)
            brokers[send.topic].add(send.queue.broker)
    for failure in history.failures:
        attempt = Attempt(failure.began_at, failure.ended_at, False, failure.message_id, failure.entry)
        for broker in [failure.broker] if failure.broker else sorted(brokers[failure.topic]):
            found[broker][""].append(attempt)
            for queue in queues[failure.topic, broker]:
                found[str(queue)][""].append(attempt)
    return found


def _reads(history: History) -> ByTarget:
    found: dict[str, dict[str, list[Attempt]]] = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(queue: Queue, group: str, attempt: Attempt) -> None:
        found[queue.broker][group].append(attempt)
        found[str(queue)][group].append(attempt)

    groups = history.group_of
    for delivery in history.deliveries:
        if not delivery.reconsume_times:  # that one came from the retry topic
            add(
                delivery.queue, delivery.group, Attempt(delivery.at, delivery.at, is_success=True, entry=delivery.entry)
            )
    for entry in history.of_kind("pull_failed", "pull_resumed"):
        queue = parse_queue(str(entry.fields.get("queue")))
        if queue is not None:
            began_at = entry.at_millis - int(entry.fields.get("took") or 0)
            is_success = entry.kind == "pull_resumed"
            attempt = Attempt(began_at, entry.at_millis, is_success, entry=entry)
            add(queue, groups.get(entry.node, entry.node), attempt)
    return found


def _longest(metric: str, windows: list[Window], history: History) -> Finding:
    windows.sort(key=lambda window: -window.seconds)
    longest = windows[0] if windows else None
    return Finding(
        metric=metric,
        unit="s",
        value=longest.seconds if longest else 0.0,
        is_at_least=longest.is_open if longest else False,
        evidence=tuple(_tell(window, history) for window in windows[:EVIDENCE_LIMIT]),
    )


def _tell(window: Window, history: History) -> Evidence:
    failures = window.failures
    ids = dict.fromkeys(failure.message_id for failure in failures if failure.message_id)
    first_and_last = (*failures[:1], *failures[1:][-1:])
    return Evidence(
        says=f"{len(failures)} attempts failed in {window.seconds:.2f} s"
        + (", and none succeeded afterwards" if window.is_open else ""),
        at_millis=window.began_at,
        until_millis=None if window.is_open else window.ended_at,
        message_ids=tuple(ids)[:IDS_LIMIT],
        entries=(*history.around(window.began_at), *(one.entry for one in first_and_last if one.entry)),
    )
