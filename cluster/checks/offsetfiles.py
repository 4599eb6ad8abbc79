"""Compares consumer offsets in brokers' files with the commits that must be saved.

A broker saves its offsets every 5 s, first 10 s after its start, and when it stops cleanly. Commits since the node's
last start count if the node had the time to save them. Commits sent while a fault was in force or the node was paused
may have been lost, and do not count. Nor do those sent while a pull of the queue was to fail: most are part of the
pull, and a broker saves no offset with a pull that it refuses. An offset that is missing in the file counts as 0.
"""

import bisect
import collections
from collections.abc import Iterator, Mapping

import attrs

from rmqlab.cluster.checks.beliefs import Span
from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.deletions import AfterDeletions
from rmqlab.cluster.checks.events import Commit, Member, Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.rollbackevents import Rollback, find_rollbacks
from rmqlab.verdict.findings import NO_COMMIT_DUE, Evidence, Finding, unknown
from rmqlab.verdict.roles import CONTESTED

_MESSAGES = "messages"
SAVE_PERIOD = 5000
FIRST_SAVE = 10_000
SLACK = 1000
"""Milliseconds for a commit to arrive."""
STALL = 500
"""Real milliseconds by which a busy machine may delay a save."""

GroupQueue = tuple[str, Queue]
"""A consumer group and a queue."""


@attrs.frozen
class _Incarnation:
    """The last run of a broker.

    Commits from `ready_at` to `saved_until` are in its file.
    """

    member: Member
    ready_at: int
    saved_until: int
    disturbed: tuple[Span, ...]

    def proves(self, commit: Commit) -> bool:
        """Return True if the broker must have applied and saved a commit."""
        calm = all(
            commit.at < span.at - SLACK or (span.until is not None and commit.at > span.until)
            for span in self.disturbed
        )
        return calm and commit.at <= self.saved_until


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.OFFSET_FILES` for every broker that was ready."""
    rollbacks = find_rollbacks(history)
    for member in history.members.values():
        if member.is_broker:
            yield _judge_node(
                member, history, stores, [rollback for rollback in rollbacks if rollback.node == member.name]
            )


def _judge_node(member: Member, history: History, stores: Stores, rollbacks: list[Rollback]) -> Finding:
    metric = f"offset_file_behind {member.name}"
    stored = stores.offset_files.get(member.name)
    incarnation = _last_incarnation(member, history)
    if stored is None or incarnation is None:
        missing = "consumerOffset.json could not be read" if stored is None else "the node lost power, or its store"
        return unknown(metric, _MESSAGES, missing)
    if member.broker in history.roles.contested:
        return unknown(metric, _MESSAGES, CONTESTED)
    floors = dict(_floors(incarnation, history, rollbacks))
    if not floors:
        return unknown(metric, _MESSAGES, NO_COMMIT_DUE)
    behind = {
        (group, queue): floor - stored.get(f"{queue.topic}@{group}", {}).get(queue.queue_id, 0)
        for (group, queue), floor in floors.items()
    }
    worst = sorted((place for place in behind if behind[place] > 0), key=lambda place: -behind[place])
    return Finding(
        metric=metric,
        unit=_MESSAGES,
        value=behind[worst[0]] if worst else 0,
        evidence=tuple(_evidence(incarnation, place, floors[place], behind[place], history) for place in worst),
    )


def _last_incarnation(member: Member, history: History) -> _Incarnation | None:
    name = member.name
    own = list(history.of_node(name, "node_ready", "power_lost", "store_wiped"))
    if own[-1].kind != "node_ready":
        return None
    ready_at = own[-1].at_millis
    away = [absence for absence in history.absences if absence.node == name and absence.at >= ready_at]
    paused = [Span(absence.at, absence.until) for absence in away if absence.how == "paused"]
    faults = [*_faults(history), *paused]
    end = next((absence for absence in away if absence.how in ("killed", "crashed", "stopped")), None)
    at, is_ordered = history.ended_at, False
    if end is not None:
        at, is_ordered = end.at, end.how == "stopped"
    elif name in history.stopped:
        at, is_ordered = history.stopped[name], True
    for span in faults:
        if span.until is None or span.until > at - FIRST_SAVE:
            at, is_ordered = min(at, span.at), False
    if is_ordered:
        return _Incarnation(member, ready_at, at - SLACK, tuple(faults))
    started = next(history.of_kind("cluster_starting"), None)
    stall = round(STALL * float(started.fields.get("rate") or 1)) if started else STALL
    saved_until = at - SAVE_PERIOD - SLACK - stall if at >= ready_at + FIRST_SAVE + stall else ready_at - 1
    return _Incarnation(member, ready_at, saved_until, tuple(faults))


def _faults(history: History) -> Iterator[Span]:
    open_since: dict[str, int] = {}
    for entry in history.of_kind("fault_applied", "fault_healed"):
        fault = str(entry.fields.get("id"))
        if entry.kind == "fault_applied":
            open_since.setdefault(fault, entry.at_millis)
        elif fault in open_since:
            yield Span(open_since.pop(fault), entry.at_millis)
    yield from (Span(at, None) for at in open_since.values())


def _floors(incarnation: _Incarnation, history: History, rollbacks: list[Rollback]) -> Iterator[tuple[GroupQueue, int]]:
    """Yield the minimum of each offset in the file.

    It is the last offset that was surely saved, or a lower later commit.
    """
    by_place: dict[GroupQueue, list[Commit]] = {}
    targets, failed = _targets(history), _failed_pulls(history)
    for commit in AfterDeletions.of(history).commits():
        broker_id = int(commit.entry.fields.get("broker_id") or 0)
        is_here = (commit.queue.broker, broker_id) == (incarnation.member.broker, incarnation.member.broker_id or 0)
        is_served = (
            broker_id or history.roles.master_at(incarnation.member.broker, commit.at) == incarnation.member.name
        )
        known = targets[commit.node, commit.queue.broker]
        index = bisect.bisect_right(known, commit.at, key=lambda target: target[0])
        is_elsewhere = index > 0 and known[index - 1][1] != incarnation.member.address
        deleted_at = history.deleted_groups.get((commit.queue.broker, commit.group))
        is_kept = deleted_at is None or commit.at > deleted_at + SLACK
        if is_here and is_served and not is_elsewhere and is_kept and commit.at >= incarnation.ready_at:
            by_place.setdefault((commit.group, commit.queue), []).append(commit)
    for place, commits in by_place.items():
        proven = [
            index
            for index, commit in enumerate(commits)
            if incarnation.proves(commit) and not _is_within(failed[commit.node, str(commit.queue)], commit.at)
        ]
        if proven:
            since = commits[proven[-1]].at
            later = [
                rollback.after
                for rollback in rollbacks
                if (rollback.group, rollback.queue) == place and rollback.at >= since
            ]
            yield place, min([commit.offset for commit in commits[proven[-1] :]] + later)


def _failed_pulls(history: History) -> Mapping[tuple[str, str], list[tuple[int, int]]]:
    """Return begin and end of each failed pull, by consumer and text of the queue.

    A consumer has one pull of a queue at a time.

    A broker saves the offset that a pull carries only if it serves the pull (PullMessageProcessor).
    """
    failed = collections.defaultdict[tuple[str, str], list[tuple[int, int]]](list)
    for entry in history.of_kind("pull_failed"):
        took = int(entry.fields.get("took") or 0)
        failed[entry.node, str(entry.fields.get("queue"))].append((entry.at_millis - took, entry.at_millis))
    return failed


def _is_within(pulls: list[tuple[int, int]], at: int) -> bool:
    following = bisect.bisect_left(pulls, at, key=lambda pull: pull[1])
    return following < len(pulls) and pulls[following][0] <= at


def _targets(history: History) -> Mapping[tuple[str, str], list[tuple[int, str]]]:
    """Return times and addresses of commit targets, by consumer and broker name.

    A consumer whose route is stale commits to a former master.
    """
    targets = collections.defaultdict[tuple[str, str], list[tuple[int, str]]](list)
    for entry in history.of_kind("committing_to"):
        targets[entry.node, str(entry.fields["broker_name"])].append((entry.at_millis, str(entry.fields["address"])))
    return targets


def _evidence(incarnation: _Incarnation, place: GroupQueue, floor: int, behind: int, history: History) -> Evidence:
    group, queue = place
    last = [commit for commit in history.commits if (commit.group, commit.queue) == place and commit.offset >= floor]
    return Evidence(
        text=f"{group}, {queue}: {incarnation.member.name} has offset {floor - behind} in its file,"
        f" and must have {floor}",
        at_millis=last[-1].at if last else None,
        entries=tuple(commit.entry for commit in last[-1:]),
    )
