"""The acts of the demo: each performs an action and waits for its effects.

Events are printed as they happen.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs
import trio

from rmqlab.cluster.demo.account import OutcomeTable, count_outcomes
from rmqlab.cluster.demo.narrator import Line, Narrator
from rmqlab.cluster.demo.timeline import Timeline
from rmqlab.cluster.lab import Cluster, Workload
from rmqlab.cluster.scenario.probe import send_directly
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.store.log.loglayout import log_directory
from rmqlab.store.offline.scan import LogScan

TOPIC = "orders"
MASTER, SLAVE = "broker-a:master", "broker-a:slave"
SPEC = ClusterSpec(name="demo", role="SYNC_MASTER", rate=5.0)
PATIENCE = 40.0
"""Timeout of each wait, in real seconds."""
HOLD = 0.25
"""Real seconds by which each line is delayed, because earlier events of other journals can be read later."""


class Stage(Protocol):
    """The output of the story."""

    def act(self, title: str, explanation: str) -> None:
        """Begin another act."""

    def line(self, line: Line) -> None:
        """Show one line of the timeline."""

    def say(self, text: str) -> None:
        """Show text outside the timeline."""

    def nodes(self, document: dict[str, Any]) -> None:
        """Show the nodes of the cluster."""


@attrs.frozen
class Ending:
    """The result of the demo."""

    reckoning: OutcomeTable
    is_promoted: bool
    """True if the slave became a master: in 4.9 it never does."""
    late_reader_got: int

    @property
    def holds(self) -> bool:
        """True if no acknowledged message is lost, and no slave was promoted.

        RocketMQ promises both.
        """
        return not self.reckoning.lost and not self.is_promoted


@attrs.define
class Story:
    """One run of the demo."""

    cluster: Cluster
    stage: Stage
    narrator: Narrator = attrs.field(init=False)
    seen: list[JournalEntry] = attrs.field(factory=list, init=False)
    """All events read from the journals."""
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)
    timeline: Timeline = attrs.field(factory=Timeline, init=False)
    killed_at: int = 0
    """Time of the kill, in ms of the cluster's clock."""

    def __attrs_post_init__(self) -> None:
        nodes = list(self.cluster.supervisor.nodes.values())
        names = {node.address: f"the {_kind(node.role)}" for node in nodes}
        if len({node.host for node in nodes}) == len(nodes):
            names |= {node.host: f"the {_kind(node.role)}" for node in nodes}
        self.narrator = Narrator(names)

    async def run(self) -> Ending:
        """Run all acts, and return the result."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._narrate_forever)
            nursery.start_soon(self._show_forever)
            await self._begin()
            consumer, producer = await self._load()
            await self._kill()
            late = await self._read_from_slave()
            is_promoted = await self._look_for_promotion()
            await self._come_back()
            ending = await self._reckon(producer, consumer, late, is_promoted=is_promoted)
            nursery.cancel_scope.cancel()
        return ending

    # ---- the acts ----------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._act(
            "A cluster",
            "A nameserver lists which broker serves which topic. The master accepts messages; its\n"
            "slave copies them. SYNC_MASTER: a send returns SEND_OK only when the\n"
            "slave has the message, too.",
            at_millis=0,  # before the node_spawned events in the journal
        )
        document = await self.cluster.status()
        self._show(lambda: self.stage.nodes(document))
        self._say("waiting for the slave: a 4.9 slave connects after 5 s, and reports its offset 5 s later ...")
        await self.cluster.wait_until(_is_in_sync, PATIENCE)

    async def _load(self) -> tuple[Workload, Workload]:
        self._act("Work", "A producer sends 20 messages a second, a consumer group reads them.")
        producer = await self.cluster.run_workload(
            "rmqlab.cluster.workload.produce", {"topic": TOPIC, "group": "web", "rate_per_second": 20.0}
        )
        # A consumer that starts before its topic exists finds it up to 30 s later, when it polls the route again.
        await self._until(self._happened(_is_sent("SEND_OK")), "the first message")
        consumer = await self.cluster.run_workload("rmqlab.cluster.workload.consume", {"topic": TOPIC, "group": "shop"})
        await self._until(lambda: len(self._delivered_to(consumer)) >= 200, "deliveries")
        return consumer, producer

    async def _kill(self) -> None:
        self._act(
            "kill -9",
            "The master is killed with SIGKILL. Its sockets close; its disk is unchanged.",
        )
        self.narrator.renew()
        self.killed_at = self.cluster.supervisor.clock.wall_millis()
        await self.cluster.kill(MASTER)
        await self.cluster.wait_until(f"route-gone {MASTER}", PATIENCE)
        await self._until(self._happened(_goes_to("pulling_from", 1)), "the consumer to read from the slave")
        await self._until(self._happened(_goes_to("committing_to", 1)), "the consumer to commit to the slave")

    async def _read_from_slave(self) -> int:
        """Let another group read all messages from the slave.

        Return the number of deliveries.
        """
        stored = sum(outcome == "SEND_OK" for outcome in self.narrator.outcomes.values())
        reader = await self.cluster.run_workload("rmqlab.cluster.workload.consume", {"topic": TOPIC, "group": "late"})
        await self._until(lambda: len(self._delivered_to(reader)) >= stored, "the late reader")
        got = len(self._delivered_to(reader))
        self._say(f"a group that starts only now reads all of it from the slave: {got} messages")
        await reader.stop()
        return got

    async def _look_for_promotion(self) -> bool:
        document = await self.cluster.status()
        slave = next(node for node in document["nodes"] if node["broker_id"])
        masters = [address for view in document["routes"].values() for address in view["broker-a"].get("0", ())]
        code, remark = await send_directly(slave["address"], TOPIC)
        if code is None:
            raise TimeoutError(f"no response of the slave to a send: {remark}")
        is_promoted = bool(masters) or slave["role"] != "SLAVE" or code != ResponseCode.SERVICE_NOT_AVAILABLE
        self._say(
            "no slave was promoted: the slave is still a SLAVE, the route has no broker id 0, and a message sent"
            f" straight to the slave is refused with code {code} ({ResponseCode.SERVICE_NOT_AVAILABLE.name})"
            if not is_promoted
            else "the slave was promoted: that is not RocketMQ 4.9"
        )
        return is_promoted

    async def _come_back(self) -> None:
        self._act(
            "The master comes back",
            "It is started again, on its old disk. At first no slave is connected to wait\n"
            "for; then one is connected but silent for 5 s, and sends time out though they\n"
            "are stored: the retries store them once more.",
        )
        self.narrator.renew()
        started_at = self.cluster.supervisor.clock.wall_millis()
        await self.cluster.start(MASTER)
        await self._until(self._happened(_is_sent("SEND_OK"), started_at), "SEND_OK")
        reads_again = self._happened(_goes_to("pulling_from", 0), started_at)
        await self._until(reads_again, "the consumer to read from the master")

    async def _reckon(self, producer: Workload, consumer: Workload, late: int, *, is_promoted: bool) -> Ending:
        self._act("The result", "The outcomes at the producer, compared with both disks and the deliveries.")
        await producer.stop()
        acked = {number for number, outcome in self.narrator.outcomes.items() if outcome == "SEND_OK"}
        await self._until(lambda: acked <= set(self._delivered_to(consumer)), "the last deliveries")
        await consumer.stop()
        await self.cluster.wait_until(f"slave-caught-up {MASTER}", PATIENCE)
        logs = []
        for target in (MASTER, SLAVE):
            (node,) = self.cluster.supervisor.find(target)
            root = self.cluster.supervisor.directory.data_dir(node.name) / "store"
            logs.append(await trio.to_thread.run_sync(_numbers_in, root))
        reckoning = count_outcomes(self.narrator.outcomes, logs[0], logs[1], self.narrator.deliveries)
        return Ending(reckoning, is_promoted, late)

    # ---- watching ----------------------------------------------------------------------------------------

    async def _narrate_forever(self) -> None:
        async with self.cluster.follow_journal() as batches:
            async for batch in batches:
                self.seen += batch
                for event in batch:
                    for line in self.narrator.lines(event):
                        self.timeline.add(line.at_millis, functools.partial(self.stage.line, line))
                self._news.set()
                self._news = trio.Event()

    async def _show_forever(self) -> None:
        clock = self.cluster.supervisor.clock
        try:
            while True:
                self.timeline.show_until(clock.wall_millis() - round(HOLD * 1000 * clock.rate))
                await trio.sleep(real_seconds(HOLD / 5))
        finally:
            self.timeline.show_all()

    def _show(self, show: Callable[[], None], at_millis: int | None = None) -> None:
        self.timeline.add(self.cluster.supervisor.clock.wall_millis() if at_millis is None else at_millis, show)

    def _act(self, title: str, explanation: str, *, at_millis: int | None = None) -> None:
        self._show(lambda: self.stage.act(title, explanation), at_millis)

    def _say(self, text: str) -> None:
        self._show(lambda: self.stage.say(text))

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds.

        TimeoutError, with its description, after PATIENCE.
        """
        with trio.move_on_after(real_seconds(PATIENCE)):
            while not holds():
                await self._news.wait()
            return
        raise TimeoutError(f"timeout after {PATIENCE:g} s while waiting for {what}")

    def _happened(self, matches: Callable[[JournalEntry], bool], since_millis: int = 0) -> Callable[[], bool]:
        """Return a condition that holds once a matching event was read."""
        return lambda: any(event.at_millis >= since_millis and matches(event) for event in self.seen)

    def _delivered_to(self, workload: Workload) -> list[int]:
        return self.narrator.deliveries.get(workload.name, [])


def _kind(role: str | None) -> str:
    return "slave" if role == "SLAVE" else "master" if role else "nameserver"


def _is_in_sync(document: dict[str, Any]) -> bool:
    return all(row["inSync"] for row in document["replication"])


def _goes_to(kind: str, broker_id: int) -> Callable[[JournalEntry], bool]:
    return lambda event: event.kind == kind and event.fields["broker_id"] == broker_id


def _is_sent(outcome: str) -> Callable[[JournalEntry], bool]:
    return lambda event: event.kind == "sent" and event.fields["outcome"] == outcome


def _numbers_in(root: Path) -> list[int]:
    """Return the numbers of the demo's messages in a store, once per stored copy."""
    messages = LogScan(log_directory(root)).messages()
    return [int(message.body.partition(b" ")[0]) for message in messages if message.topic == TOPIC]
