"""Damages each file of a DLedger member, starts it, and compares messages.

A tool to be called by hand: `python -m tests.broker.dledger.damagesweep`. It is `tests.store.damagesweep` for the store
of a group of one member. A start either fails with one line that names the file, or the member works: it leads within
some election time-outs, what its queues have is what was put there, a new message follows the last one, and a second
start finds the same. A line of the output is a breach of that, or, with `--all`, also a loss.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.broker.dledger.entrylog import EntryLog, GroupServer
from rmqlab.broker.dledger.groupstore import group_log
from rmqlab.broker.dledger.putter import decide
from rmqlab.dledger.group import GroupSettings
from rmqlab.store.files.disk import StoreError
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutResult
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.store.damagesweep import COUNT, TOPICS, Base, Place, flush, readable, sweep

ALONE: Final = GroupSettings(group="g", self_id="n0", peers={"n0": "127.0.0.1:40911"})
MOST_ROUNDS: Final = 200
"""Steps of 0.1 s in which a member must lead."""


class NeverLeadsError(Exception):
    """The member does not become leader."""


@attrs.define
class Member:
    """A store whose group is driven by hand."""

    store: MessageStore
    now: list[int]

    @classmethod
    def open(cls, root: Path) -> "Member":
        now = [1_000_000]
        kind = group_log(ALONE, lambda: now[0], lambda limit: limit - 1)
        config = small_config(root, max_index_num=60)
        return cls(MessageStore.open(config, now_millis=ManualClock(step=1), is_slave=True, log_kind=kind), now)

    @property
    def server(self) -> GroupServer:
        assert isinstance(self.store.log, EntryLog)
        return self.store.log.server

    def lead(self) -> None:
        """Become master once all entries are committed and dispatched.

        As `rmqlab.broker.dledger.roles` does.
        """
        entries = self.server.store
        for _ in range(MOST_ROUNDS):
            is_committed = entries.end_index in (-1, entries.committed_index)
            if self.server.member.is_leader and is_committed and not self.store.dispatch_behind_bytes:
                self.store.queues.recover_counters()
                self.store.set_role(is_slave=False)
                return
            self.work()
        raise NeverLeadsError("the member does not lead")

    def work(self) -> None:
        self.now[0] += 100
        self.server.work(self.now[0])
        for call in self.server.take_calls():
            self.server.handle(call.code, call.request.encode(), None, self.now[0])  # type: ignore[arg-type]
        for decision, outcome in self.server.take_outcomes():
            decide(decision, outcome)
        self.store.dispatch()

    def put(self, number: int) -> PutResult:
        topic, queue_id = TOPICS[number % len(TOPICS)]
        body = f"{number:06}".encode() * (20 + number % 50)
        result = self.store.append(new_message(body, topic, queue_id, keys=f"k{number}", tags="ab"[number % 2]))
        self.work()
        return result


def make_bases(below: Path) -> Iterator[Base]:
    member = Member.open(below / "member")
    member.lead()
    for number in range(COUNT):
        member.put(number)
        if number % 20 == 0:
            flush(member.store)
    shutil.copytree(below / "member", below / "member-killed")
    messages = readable(member.store)[0]
    assert len(messages) == COUNT
    member.store.close()
    for name in ("member", "member-killed"):
        yield Base(name, below / name, messages)


def problems(root: Path, base: Base) -> Iterator[str]:
    """Start the damaged store; yield what is wrong."""
    try:
        member = Member.open(root)
    except (StoreError, OSError) as exc:
        if str(root) not in str(exc) or "\n" in str(exc):
            yield f"BAD ERROR {exc}"
        yield "refused"
        return
    try:
        member.lead()
        found, wrong = readable(member.store)
        yield from wrong
        yield from _differences(found, base)
        added = {}
        for number, (topic, queue_id) in enumerate(TOPICS):
            expected = member.store.max_queue_offset(topic, queue_id)
            put = member.put(number)
            if put.queue_offset != expected:
                yield f"{topic}-{queue_id}: a new message got {put.queue_offset}, expected {expected}"
            added[topic, queue_id, put.queue_offset] = b"new"
    except NeverLeadsError as exc:
        yield f"NO LEADER: {exc}"
        return
    finally:
        member.store.close()
    again = Member.open(root)
    try:
        again.lead()
        later, wrong = readable(again.store)
    finally:
        again.store.close()
    yield from (f"second start: {text}" for text in wrong)
    for place in sorted((found | added).keys() - later.keys())[:1]:
        yield f"second start: {place} is lost"
    for place in sorted(later.keys() - (found | added).keys())[:1]:
        yield f"second start: {place} is there again"


def _differences(found: dict[Place, bytes], base: Base) -> Iterator[str]:
    differing = [place for place, body in found.items() if base.messages.get(place, body) != body]
    if differing:
        yield f"changed: {len(differing)} messages, {differing[0]}"
    if extra := found.keys() - base.messages.keys():
        yield f"EXTRA: {len(extra)} messages, {min(extra)}"
    if lost := base.messages.keys() - found.keys():
        yield f"lost: {len(lost)} of {len(base.messages)}"


if __name__ == "__main__":
    sweep("tests.broker.dledger.damagesweep", __doc__, make_bases, problems)
