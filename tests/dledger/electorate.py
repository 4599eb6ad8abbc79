"""Members with electors on a simulated network.

It delays, loses and repeats messages, isolates and restarts members.
"""

import heapq
import random
from collections.abc import Callable

import attrs

from rmqlab.dledger.bodies import HeartBeatRequest, HeartBeatResponse, VoteRequest, VoteResponse
from rmqlab.dledger.elector import Elector, Outgoing
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member, Role
from rmqlab.dledger.rounds import VoteRound

CALL_TIMEOUT = 3000


@attrs.define
class Node:
    """One member, with its ballot as the file keeps it."""

    settings: GroupSettings
    chance: random.Random
    saved: Ballot = attrs.field(factory=Ballot)
    elector: Elector = attrs.field(init=False)
    is_up: bool = True

    def __attrs_post_init__(self) -> None:
        self.start(-1, -1)

    def start(self, end_term: int, end_index: int) -> None:
        member = Member(self.settings, self._save, self.saved, end_index, end_term)
        self.elector = Elector(member, self.chance.randrange)
        self.is_up = True

    def restart(self) -> None:
        """Lose all but the ballot and the log."""
        self.start(self.member.end_term, self.member.end_index)

    def _save(self, ballot: Ballot) -> None:
        self.saved = ballot

    @property
    def member(self) -> Member:
        return self.elector.member


@attrs.define
class Electorate:
    """All members of a group, and what is under way between them. Time is ms."""

    size: int
    chance: random.Random
    loss: float = 0.0
    repeats: float = 0.0
    max_delay: int = 20
    step: int = 10
    now: int = 0
    isolated: set[str] = attrs.field(factory=set)
    leaders: dict[int, set[str]] = attrs.field(factory=dict)
    """The members that were leader, by term."""
    nodes: dict[str, Node] = attrs.field(init=False)
    _events: list[tuple[int, int, Callable[[], None]]] = attrs.field(factory=list)
    enable_batch_push: bool = False
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        peers = {f"n{number}": f"host:{number}" for number in range(self.size)}
        self.nodes = {
            peer: Node(
                GroupSettings(group="g", self_id=peer, peers=peers, enable_batch_push=self.enable_batch_push),
                self.chance,
            )
            for peer in peers
        }

    def run(self, duration: int) -> None:
        """Let time pass; each member ticks at each step."""
        end = self.now + duration
        while self.now < end:
            self.now += self.step
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for peer, node in self.nodes.items():
                if node.is_up:
                    self._tick(peer)

    def _tick(self, peer: str) -> None:
        self.nodes[peer].elector.tick(self.now)
        self._collect(peer)

    def current_leaders(self) -> list[str]:
        return [peer for peer, node in self.nodes.items() if node.is_up and node.member.role is Role.LEADER]

    def followers_of(self, leader: str) -> list[str]:
        return [
            peer
            for peer, node in self.nodes.items()
            if node.member.role is Role.FOLLOWER and node.member.leader_id == leader
        ]

    def _collect(self, peer: str) -> None:
        """Send what a member wants to send, and note whether it leads."""
        node = self.nodes[peer]
        for outgoing in node.elector.take_requests():
            self._call(peer, node.elector, outgoing)
        for change in node.elector.take_role_changes():
            if change.role is Role.LEADER:
                self.leaders.setdefault(change.term, set()).add(peer)

    def _later(self, delay: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def _call(self, sender: str, elector: Elector, outgoing: Outgoing) -> None:
        """Send a request, perhaps twice, and return one response or, at the timeout, none."""
        is_answered = [False]

        def give(response: VoteResponse | HeartBeatResponse | None) -> None:
            if is_answered[0] or self.nodes[sender].elector is not elector:
                return
            is_answered[0] = True
            if isinstance(outgoing.round, VoteRound):
                elector.receive_vote(outgoing.round, response if isinstance(response, VoteResponse) else None, self.now)
            else:
                heartbeat = response if isinstance(response, HeartBeatResponse) else None
                elector.receive_heartbeat(outgoing.round, outgoing.peer, heartbeat, self.now)
            self._collect(sender)

        def deliver() -> None:
            node = self.nodes[outgoing.peer]
            if not node.is_up or self._is_cut(sender, outgoing.peer):
                return
            response: VoteResponse | HeartBeatResponse
            if isinstance(outgoing.request, VoteRequest):
                response = VoteResponse.decode(node.elector.handle_vote(outgoing.request).encode())
            else:
                assert isinstance(outgoing.request, HeartBeatRequest)
                response = node.elector.handle_heart_beat(outgoing.request, self.now)
            self._collect(outgoing.peer)
            if not self._is_lost():
                self._later(self._delay(), lambda: None if self._is_cut(outgoing.peer, sender) else give(response))

        for _ in range(2 if self.chance.random() < self.repeats else 1):
            if not self._is_lost():
                self._later(self._delay(), deliver)
        self._later(CALL_TIMEOUT, lambda: give(None))

    def _is_cut(self, one: str, other: str) -> bool:
        return one in self.isolated or other in self.isolated

    def _is_lost(self) -> bool:
        return self.chance.random() < self.loss

    def _delay(self) -> int:
        return self.chance.randint(1, self.max_delay)
