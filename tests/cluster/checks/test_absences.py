"""Detection and stale routes against a model that looks at the world every 10 ms."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.testing import MadeUpRun

GRID = 10
"""ms: everything in a made-up run happens at a multiple of it."""
_NEXT = {
    "ready": {"kill": "dead", "pause": "paused"},
    "paused": {"kill": "dead", "resume": "ready"},
    "dead": {"start": "ready"},
}


@attrs.define
class World:
    """A run of one broker and one nameserver, with the truth in each grid interval."""

    run: MadeUpRun = attrs.field(factory=lambda: MadeUpRun(nodes=("namesrv-1", "broker-a")))
    state: str = "ready"
    is_named: bool = True
    away_since: list[int] = attrs.field(factory=list)
    """When each absence began; a kill of a frozen broker begins another."""
    truth: list[tuple[int, str, bool]] = attrs.field(factory=list)
    """Changes: when, how the broker is from then on, whether it is named from then on."""

    def __attrs_post_init__(self) -> None:
        self.note(self.run.now)

    def note(self, at: int) -> None:
        self.truth.append((at, self.state, self.is_named))

    def do(self, action: str) -> None:
        if action == "drop" and self.is_named:
            self.is_named = False
            self.note(self.run.drop("namesrv-1", "broker-a"))
        elif action in _NEXT[self.state]:
            self.state = _NEXT[self.state][action]
            self._move(action)

    def _move(self, action: str) -> None:
        if action in ("kill", "pause"):
            at = self.run.end("broker-a", action, "node_killed" if action == "kill" else "node_paused")
            self.away_since.append(at)
            self.note(at)
        elif action == "resume":
            self.note(self.run.add("broker-a", "node_resumed").at_millis)
        else:
            self.run.ready("broker-a")  # it registers 10 ms before it is ready
            if not self.is_named:
                self.is_named = True
                self.truth.append((self.run.now - GRID, "starting", True))
            self.note(self.run.now)

    def at(self, now: int) -> tuple[str, bool]:
        return next((state, named) for at, state, named in reversed(self.truth) if at <= now)


def longest_lie(world: World, end: int) -> float:
    """The longest unbroken time in which the broker was away and named."""
    longest = current = 0
    for now in range(world.truth[0][0], end, GRID):
        state, is_named = world.at(now)
        current = current + GRID if state not in ("ready", "starting") and is_named else 0
        longest = max(longest, current)
    return longest / 1000


def longest_detection(world: World, end: int) -> float | None:
    """From each absence on, look every 10 ms until the name is gone.

    None where no absence was noticed.
    """
    found = []
    for index, since in enumerate(world.away_since):
        if not world.at(since)[1]:
            continue
        following = world.away_since[index + 1 : index + 2]
        now = since
        while now < end and world.at(now)[1] and world.at(now)[0] != "ready" and now not in following:
            now += GRID
        if now in following or (now < end and world.at(now)[0] == "ready"):
            continue  # killed while frozen, or back unnoticed
        found.append((now - since) / 1000)
    return max(found, default=None)


actions = st.tuples(st.sampled_from(["kill", "pause", "resume", "start", "drop", "drop"]), st.integers(0, 3))


@given(st.lists(actions, max_size=14))
def test_both_agree_with_a_model_that_looks_every_10_ms(made: list[tuple[str, int]]) -> None:
    world = World()
    for action, seconds in made:
        world.do(action)
        world.run.wait(seconds)
    world.run.send(1)
    findings = world.run.judge()
    end = world.run.now
    assert findings["stale_route namesrv-1"].value == longest_lie(world, end)
    assert findings["detection namesrv-1"].value == longest_detection(world, end)
