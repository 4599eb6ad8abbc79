"""Consumer offsets that a slave had to keep, and replaced by older ones.

The rule is in `rmqlab.verdict.ownoffsets`.

A commit of another client, also of one without a journal, that moves the master's offset back is in the journal of the
master (`offset_moved_back`), as is a reset (`offset_reset`): the slave follows both.
"""

from collections.abc import Iterator, Mapping

from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.events import Commit, Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.rollbackevents import Rollback, find_rollbacks
from rmqlab.verdict.catalogue import TIMES
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown
from rmqlab.verdict.nodesettings import keeps_newer_offsets
from rmqlab.verdict.ownoffsets import NO_RECEIVER, OwnOffsetRule, why_unknown

Broken = tuple[Rollback, Commit]


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield `own_offsets_overwritten SLAVE` for slaves that keep newer offsets."""
    settings = {slave: stores.settings.get(slave) for slave in _slaves(history, stores)}
    judged = [slave for slave, own in settings.items() if own is None or keeps_newer_offsets(own)]
    found = list(_broken(history, conditions)) if judged else []
    for slave in judged:
        own = [(rollback, commit) for rollback, commit in found if rollback.node == slave]
        metric = f"own_offsets_overwritten {slave}"
        why = why_unknown(settings[slave], conditions)
        if not why or (not own and settings[slave] is not None):
            certain = [one for one in own if _receiver_of(one[1]) is not None]
            counted = count_of(metric, TIMES, certain, lambda one: _evidence(one, history))
            yield counted if certain == own else counted.as_floor(NO_RECEIVER)
        elif own:
            yield unknown(metric, TIMES, why)


def _slaves(history: History, stores: Stores) -> list[str]:
    """Return the nodes with a store that were ever slaves."""
    nodes = {span.node for span in history.roles.spans if not span.is_master}
    return sorted(nodes & (stores.nodes.keys() | stores.settings.keys()))


def _broken(history: History, conditions: Conditions) -> Iterator[Broken]:
    """Yield replaced offsets, each with the commit that the slave had to keep."""
    rule = OwnOffsetRule.of(history.roles, ((one.at_millis, one.node, one.kind) for one in history.entries))
    commits: dict[tuple[str, Queue], list[Commit]] = {}
    for commit in history.commits:
        commits.setdefault((commit.group, commit.queue), []).append(commit)
    moved = _moved_back(history)
    for rollback in find_rollbacks(history):
        if rollback.entry.kind != "consumer_offsets_overwritten" or _is_on_purpose(rollback, history, conditions):
            continue
        place = (rollback.group, rollback.queue)
        last = next((one for one in reversed(commits.get(place, ())) if one.at <= rollback.at), None)
        elsewhere = any(node != rollback.node and at <= rollback.at for node, at in moved.get(place, ()))
        if last is None or last.offset != rollback.before or elsewhere:
            continue
        if rule.applies(rollback.node, receiver=_receiver_of(last), committed_at=last.at, replaced_at=rollback.at):
            yield rollback, last


def _receiver_of(commit: Commit) -> int | None:
    """Return the broker id that a commit was sent to; None if unknown."""
    return commit.entry.fields.get("broker_id")


def _moved_back(history: History) -> Mapping[tuple[str, Queue], list[tuple[str, int]]]:
    """Return node and time of commits that went back, by group and queue."""
    found: dict[tuple[str, Queue], list[tuple[str, int]]] = {}
    for entry in history.of_kind("offset_moved_back"):
        member, fields = history.members.get(entry.node), entry.fields
        queue = Queue(str(fields["topic"]), member.broker if member else entry.node, int(fields["queue_id"]))
        found.setdefault((str(fields["group"]), queue), []).append((entry.node, entry.at_millis))
    return found


def _is_on_purpose(rollback: Rollback, history: History, conditions: Conditions) -> bool:
    broker = rollback.queue.broker
    return (
        rollback.group in conditions.reset_groups
        or (broker, rollback.queue.topic) in history.deleted_topics
        or (broker, rollback.group) in history.deleted_groups
    )


def _evidence(broken: Broken, history: History) -> Evidence:
    rollback, commit = broken
    return Evidence(
        text=f"{rollback.group}, {rollback.queue}: {commit.node} committed {commit.offset} to {rollback.node}, whose"
        f" metadata sync replaced it by {rollback.after}",
        at_millis=rollback.at,
        entries=(commit.entry, rollback.entry, *history.around(rollback.at)),
    )
