"""A simulated group whose members have logs in files, and appends to its leaders."""

import random
from collections.abc import Callable
from pathlib import Path

import attrs

from rmqlab.dledger.bodies import AppendEntryResponse, PushEntryRequest, PushEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.pusher import Push
from rmqlab.dledger.replication import Replication
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.electorate import CALL_TIMEOUT, Electorate

Reply = Callable[[PushEntryResponse], None]
DATA_FILE = 2048
INDEX_FILE = 16 * 32


@attrs.define
class Replicas(Electorate):
    """Electors and replication of all members. `root` has a directory per member."""

    root: Path = attrs.field(kw_only=True)
    replications: dict[str, Replication[bytes, Reply]] = attrs.field(factory=dict, init=False)
    acknowledged: dict[int, bytes] = attrs.field(factory=dict, init=False)
    """Bodies whose append succeeded, by index."""
    refused: list[AppendEntryResponse] = attrs.field(factory=list, init=False)
    batches: list[int] = attrs.field(factory=list, init=False)
    """Number of entries of each batch that was sent."""

    @classmethod
    def of(cls, root: Path, size: int, seed: int, **settings: float) -> "Replicas":
        group = cls(size, random.Random(seed), root=root, **settings)  # type: ignore[arg-type]  # loss, max_delay
        for peer in group.nodes:
            group.open_log(peer)
        return group

    def open_log(self, peer: str) -> None:
        store = EntryStore.open(self.root / peer, DATA_FILE, INDEX_FILE)
        self.replications[peer] = Replication.of(self.nodes[peer].member, store)

    def restart(self, peer: str) -> None:
        """Lose all but the files, as after kill -9."""
        self.nodes[peer].restart()
        self.open_log(peer)

    def bodies(self, peer: str) -> list[bytes]:
        store = self.replications[peer].store
        return [store.get(index).body for index in range(store.end_index + 1)]

    def append(self, peer: str, body: bytes) -> DLedgerCode | None:
        """Append at a member. Return the code of a refusal."""
        try:
            self.replications[peer].append([body], body, self.now)
        except DLedgerError as exc:
            return exc.code
        self._collect(peer)
        return None

    def _tick(self, peer: str) -> None:
        self.nodes[peer].elector.tick(self.now)
        self.replications[peer].work(self.now)
        self._collect(peer)

    def _collect(self, peer: str) -> None:
        Electorate._collect(self, peer)
        replication = self.replications.get(peer)
        if replication is None:
            return
        for calls in replication.truncations.take_started():
            run_calls(calls)
            replication.work(self.now)
        for push in replication.take_pushes():
            self._push(peer, replication, push)
        for reply, response in replication.take_responses():
            reply(response)
        for body, outcome in replication.take_outcomes():
            if outcome.dledger_code is DLedgerCode.SUCCESS:
                assert self.acknowledged.setdefault(outcome.index, body) == body
            else:
                self.refused.append(outcome)

    def _push(self, sender: str, replication: Replication[bytes, Reply], push: Push) -> None:
        raw = push.request.encode()
        self.batches.append(len(push.request.batch_entry))
        is_answered = [False]

        def give(response: PushEntryResponse | None) -> None:
            if is_answered[0] or self.replications[sender] is not replication or not self.nodes[sender].is_up:
                return
            is_answered[0] = True
            replication.receive(push, response, self.now)
            self._collect(sender)

        def reply(response: PushEntryResponse) -> None:
            if not self._is_lost():
                decoded = PushEntryResponse.decode(response.encode())
                self._later(self._delay(), lambda: None if self._is_cut(push.peer, sender) else give(decoded))

        def deliver() -> None:
            if not self.nodes[push.peer].is_up or self._is_cut(sender, push.peer):
                return
            refused = self.replications[push.peer].handle_push(PushEntryRequest.decode(raw), reply, self.now)
            if refused is not None:
                reply(refused)
            self._collect(push.peer)

        for _ in range(2 if self.chance.random() < self.repeats else 1):
            if not self._is_lost():
                self._later(self._delay(), deliver)
        self._later(CALL_TIMEOUT, lambda: give(None))

    def leader(self) -> str:
        """Return the only leader."""
        (leader,) = self.current_leaders()
        return leader

    def heal(self) -> None:
        """End all faults, and let the group settle."""
        self.loss, self.repeats, self.max_delay = 0.0, 0.0, 20
        self.isolated.clear()
        for peer, node in self.nodes.items():
            if not node.is_up:
                self.restart(peer)
        self.run(60_000)
