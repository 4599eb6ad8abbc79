"""Write and read unavailability (RTO), per broker name, queue and consumer group.

Durations are seconds of the cluster's time. A window runs from the last success at a target to its next success, and
counts if at least one attempt at the target failed in it: idle time is not an outage. Targets are independent: a
success at one does not end the window of another.

A write succeeds if its outcome means that the message is stored. An attempt that found no broker in its route counts
for every broker that ever stored its topic; for a queue, attempts of its topic count. A read succeeds with a delivery
or a pull with a response (`pull_resumed`: with messages, without any after its hold, or with another offset). A held
pull counts from when the broker began to hold it. A pull whose connection broke while it was held failed at the break,
or when the first message that was waiting at the break was stored. A consumer that has read everything has no
deliveries, so a read window begins at the last success or when the first failed pull became due, whichever is later.

Not seen: a broker that stops while it holds pulls, until they are overdue (at most the suspend timeout, 15 s). A window
without a following success runs to its last failure, and the finding is "at least"; one without a success before it
begins with its first attempt.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping

import attrs

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.rollbackevents import parse_queue
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.findings import EVIDENCE_LIMIT, IDS_LIMIT, Evidence, Finding, failed_attempts, unknown
from rmqlab.verdict.metrics import QUEUE_MARK


@attrs.frozen
class Attempt:
    """An attempt at a target. Times are milliseconds of the cluster's clock."""

    began_at: int
    ended_at: int
    is_success: bool
    message_id: str = ""
    entry: JournalEntry | None = None


@attrs.frozen
class Window:
    """An interval in which attempts failed and none succeeded."""

    began_at: int
    ended_at: int
    failures: tuple[Attempt, ...]
    is_open: bool
    """True if no success followed."""

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.began_at) / 1000


def find_windows(attempts: Iterable[Attempt], *, since_first_failure: bool = False) -> list[Window]:
    """Yield the windows of one target by time.

    `since_first_failure` excludes idle time before the first failure.
    """
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
    """Yield the findings of `catalogue.UNAVAILABILITY`."""
    writes = _writes(history)
    reads, by_group = _reads(history)
    brokers = sorted(
        {target for target in (*writes, *reads) if target and QUEUE_MARK not in target} | history.roles.all_names
    )
    for operation, by_target in (("write", writes), ("read", reads)):
        for name in brokers:
            if name not in by_target:
                yield unknown(f"{operation}_unavailable {name}", "s", f"no workload {_TRIED[operation]} {name}")
        for target, attempts in by_target.items():
            windows = find_windows(_in_order(attempts), since_first_failure=operation == "read")
            yield _longest(f"{operation}_unavailable {target}", windows, history)
    for group in sorted({group for group, _ in by_group}):
        pairs = [attempts for (name, _), attempts in by_group.items() if name == group]
        windows = [
            window for attempts in pairs for window in find_windows(_in_order(attempts), since_first_failure=True)
        ]
        yield _longest(f"group_read_unavailable {group}", windows, history)


def _in_order(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Sort by end, successes first.

    find_windows keeps the order of attempts that end in the same millisecond.
    """
    return sorted(attempts, key=lambda attempt: (attempt.ended_at, not attempt.is_success))


_TRIED = {"write": "sent anything to", "read": "read anything from"}
ByTarget = Mapping[str, list[Attempt]]
ByGroup = Mapping[tuple[str, str], list[Attempt]]
"""Return attempts by consumer group and broker name."""


def _writes(history: History) -> ByTarget:
    found: dict[str, list[Attempt]] = collections.defaultdict(list)
    queues: dict[tuple[str, str], set[Queue]] = collections.defaultdict(set)
    brokers: dict[str, set[str]] = collections.defaultdict(set)
    for send in history.sends:
        if send.is_acknowledged and send.queue:
            attempt = Attempt(send.began_at, send.ended_at, is_success=True, entry=send.entry)
            found[send.queue.broker].append(attempt)
            found[str(send.queue)].append(attempt)
            queues[send.topic, send.queue.broker].add(send.queue)
            brokers[send.topic].add(send.queue.broker)
    for failure in history.failures:
        attempt = Attempt(failure.began_at, failure.ended_at, False, failure.message_id, failure.entry)
        for broker in [failure.broker] if failure.broker else sorted(brokers[failure.topic]):
            found[broker].append(attempt)
            for queue in queues[failure.topic, broker]:
                found[str(queue)].append(attempt)
    return found


def _reads(history: History) -> tuple[ByTarget, ByGroup]:
    found: dict[str, list[Attempt]] = collections.defaultdict(list)
    by_group: dict[tuple[str, str], list[Attempt]] = collections.defaultdict(list)

    def add(queue: Queue, group: str, attempt: Attempt) -> None:
        found[queue.broker].append(attempt)
        found[str(queue)].append(attempt)
        by_group[group, queue.broker].append(attempt)

    for delivery in history.deliveries:
        if not delivery.reconsume_times:  # a delivery from the retry topic proves nothing about this queue
            add(
                delivery.queue, delivery.group, Attempt(delivery.at, delivery.at, is_success=True, entry=delivery.entry)
            )
    for entry, waiting_since in _pulls(history):
        queue = parse_queue(str(entry.fields.get("queue")))
        if queue is not None:
            add(queue, history.group_of.get(entry.node, entry.node), _pull(entry, waiting_since))
    return found, by_group


def _pulls(history: History) -> Iterator[tuple[JournalEntry, int]]:
    """Yield ends of pulls, last first, with the time since which a message waited.

    That time follows from the next response of the queue.
    """
    waiting: dict[tuple[str, str], int] = {}
    for entry in reversed(list(history.of_kind("pull_failed", "pull_resumed"))):
        key = (entry.node, str(entry.fields.get("queue")))
        if entry.kind == "pull_resumed":
            waiting[key] = int(entry.fields.get("stored_at") or entry.at_millis)
        yield entry, waiting.get(key, entry.at_millis)


def _pull(entry: JournalEntry, waiting_since: int) -> Attempt:
    """Return the attempt of a pull.

    A held pull succeeded when its hold began, or failed when its connection broke.
    """
    at, held, took = entry.at_millis, int(entry.fields.get("held") or 0), int(entry.fields.get("took") or 0)
    if entry.kind == "pull_resumed":
        return Attempt(at - held, at - held, is_success=True, entry=entry)
    due_at = min(at, max(at - took, waiting_since)) if held else at - took
    return Attempt(due_at, at, is_success=False, entry=entry)


def _longest(metric: str, windows: list[Window], history: History) -> Finding:
    windows.sort(key=lambda window: -window.seconds)
    longest = windows[0] if windows else None
    return Finding(
        metric=metric,
        unit="s",
        value=longest.seconds if longest else 0.0,
        is_at_least=longest.is_open if longest else False,
        evidence=tuple(_evidence(window, history) for window in windows[:EVIDENCE_LIMIT]),
    )


def _evidence(window: Window, history: History) -> Evidence:
    failures = window.failures
    ids = dict.fromkeys(failure.message_id for failure in failures if failure.message_id)
    first_and_last = (*failures[:1], *failures[1:][-1:])
    return Evidence(
        text=failed_attempts(len(failures), window.seconds)
        + (", and none succeeded afterwards" if window.is_open else ""),
        at_millis=window.began_at,
        until_millis=None if window.is_open else window.ended_at,
        message_ids=tuple(ids)[:IDS_LIMIT],
        entries=(*history.around(window.began_at), *(one.entry for one in first_and_last if one.entry)),
    )
