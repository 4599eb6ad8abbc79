"""Random schedules of faults for a simulated group, each from a seed.

Run thousands: `python -m tests.dledger.faultschedule --count 5000`. A line of the output is a seed that breaks an
invariant, and how.
"""

import argparse
import random
import sys
import tempfile
import traceback
from pathlib import Path

import attrs

from rmqlab.dledger.codes import DLedgerCode
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.faultygroup import FaultyGroup
from tests.dledger.faultynode import Node
from tests.dledger.stores import fastest_place, unmapped_at_end

STEPS = 60


@attrs.define(eq=False)
class Schedule:
    """One run of a group."""

    group: FaultyGroup
    chance: random.Random
    expires: bool = False
    """True: all members lose their oldest data file at each step."""
    number: int = 0
    """Messages so far."""

    @classmethod
    def of(cls, root: Path, seed: int, *, expires: bool) -> "Schedule":
        chance = random.Random(seed)
        group = FaultyGroup(
            root,
            chance.choice([3, 3, 5]),
            chance,
            loses_power=chance.random() < 0.6,
            has_batches=chance.random() < 0.3,
            preferred=("n1",) if chance.random() < 0.2 else (),
            acks_after_sync=seed % 3 == 2,
        )
        return cls(group, chance, expires)

    def play(self) -> None:
        """Disturb the group at random, then heal it, and check that it works."""
        group, chance = self.group, self.chance
        group.run(4000)
        for _ in range(STEPS):
            self._disturb()
            for node in group.up if self.expires else ():
                group.expire(node)
            for _ in range(chance.randint(0, 3)):
                self._append()
                self._wait(chance.choice([1, 5, 20]))
            self._wait(chance.choice([1, 10, 50, 300, 1500, 4000, 9000]))
            group.invariants.check_logs_match(group.stores)
        self._heal()

    def _wait(self, duration: int) -> None:
        """Let time pass; some members sync meanwhile."""
        self.group.run(duration)
        for node in self.group.up:
            if self.chance.random() < 0.6:
                self.group.flush(node)

    def _append(self) -> None:
        for leader in self.group.leaders:
            contents = [b"%d %s" % (self.number, b"." * self.chance.choice([0, 40, 200]))]
            contents *= self.chance.choice([1, 1, 3])
            self.number += 1
            if leader.paused_until <= self.group.now:
                self.group.append(leader, contents)

    def _disturb(self) -> None:
        group, chance = self.group, self.chance
        node, other = chance.sample(sorted(group.nodes.values(), key=lambda node: node.name), 2)
        match chance.randrange(16):
            case 0 | 1 if node.server is not None:
                group.stop(node, loses_power=group.loses_power)
            case 2 if group.loses_power:
                for each in group.up:
                    if chance.random() < 0.7:
                        group.stop(each, loses_power=True)
            case 3 if node.server is not None:
                group.stop(node, loses_power=group.loses_power and chance.random() < 0.5)
                group.start(node)
            case 4 | 5 | 6:
                for each in group.down:
                    group.start(each)
            case 7 | 8:
                group.hold(node.name, other.name)
            case 9:
                for name in sorted(group.nodes.keys() - {node.name}):
                    group.hold(node.name, name)
            case 10 | 11:
                group.release_all()
            case 12:
                group.reset(node.name, other.name)
            case 13 if node.server is not None:
                node.paused_until = group.now + chance.choice([100, 3000, 8000])
            case 14:
                self._disturb_disk(node)
            case 15 if group.leaders:
                group.transfer(chance.choice(group.leaders), other.name)
        for link in group.links.values():
            link.delay = chance.choice([2, 5, 20, 400]) if chance.random() < 0.1 else link.delay

    def _disturb_disk(self, node: Node) -> None:
        match self.chance.randrange(4):
            case 0:
                node.disk.failures = self.chance.choice([0.05, 0.5])
            case 1 if node.server is not None:
                node.server.store.is_full = not node.server.store.is_full
            case 2 if node.server is not None and len(node.server.store.data.files) > 2:
                run_calls(node.server.store.deletion_of_first_file())
            case _:
                node.disk.failures = 0.0

    def _heal(self) -> None:
        """End all faults. A leader must then append, and its followers must have its log."""
        group = self.group
        for node in group.nodes.values():
            node.disk.failures, node.paused_until = 0.0, 0
            if node.server is None:
                group.start(node)
            node.running.store.is_full = False
        group.release_all()
        for link in group.links.values():
            link.delay = 5
        group.run(60_000)
        before = group.invariants.acknowledged
        leader = self._append_last()
        group.run(5000)
        assert group.invariants.acknowledged == before + 1, "the group appends nothing"
        group.invariants.check_has_kept(leader.start_name, leader.running.store)
        group.invariants.check_logs_match(group.stores)
        followers = [node for node in group.up if node.running.member.leader_id == leader.name]
        assert len(followers) >= group.size // 2 + 1, "the leader has no quorum of followers"
        for node in followers:
            assert node.running.store.end_index == leader.running.store.end_index, f"{node.name} is behind"

    def _append_last(self) -> Node:
        """Let the leader append, and return it.

        A leader that hands over refuses entries, for at most 3 s: its clients try again, and so does this.
        """
        for _ in range(20):
            (leader,) = self.group.leaders
            code = self.group.append(leader, [b"last"])
            if code is not DLedgerCode.LEADER_TRANSFERRING:
                break
            self.group.run(300)
        assert code is None, f"{leader.name} refuses to append: {code}"
        return leader


def play(seed: int, *, expires: bool = False) -> Schedule:
    """Play the schedule of a seed. AssertionError where an invariant breaks."""
    with tempfile.TemporaryDirectory(dir=fastest_place()) as name, unmapped_at_end():
        schedule = Schedule.of(Path(name), seed, expires=expires)
        schedule.play()
        return schedule


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--expires", action="store_true", help="delete the oldest files at each step")
    options = parser.parse_args()
    broken = 0
    for seed in range(options.first, options.first + options.count):
        try:
            play(seed, expires=options.expires)
        except Exception as exc:  # noqa: BLE001 - any error of a member is a finding
            broken += 1
            place = traceback.extract_tb(exc.__traceback__)[-1]
            print(f"seed {seed}: {type(exc).__name__}: {exc} ({place.name}:{place.lineno})", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
