"""Records the run for planted violations: quiet, without findings."""

import collections
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import NoRouteError
from rmqlab.client.instance import open_client
from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.remoting.bodies.topic import TopicConfig
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.journals.journalentry import JournalEntry

TOPIC = "orders"
LATER_TOPIC = "reminders"
PAID_TOPIC = "payments"
GROUP = "shop"
SAMPLE = "sample"
SAMPLED = 60
"""Messages that a second group consumes, before it ends: its offsets stay within the queues."""
SENDS = 480
"""At 12 a second: the topics are older than the 30 s below which `topics_missing` does not count them."""
QUEUES = 4
"""Of each topic at each master."""
DELAYED_SENDS = 12
HALF_SENDS = 12
"""Of each producer of half messages."""
_TIMEOUT = 120
"""Real seconds for each thing that is waited for."""

SPEC = ClusterSpec(
    name="planted",
    groups=2,
    role="SYNC_MASTER",
    rate=4,  # at higher ones a pull is overdue when the machine is busy for a second
    broker_settings={
        "keep_newer_consumer_offsets": True,  # `own_offsets_overwritten` is measured
        "broker_fast_failure_enable": False,  # a busy machine must not become a refused send
        "mapped_file_size_commit_log": 64 * 1024,  # several files in each log
        "mapped_file_size_consume_queue": 20 * 1000,
        "max_hash_slot_num": 500,
        "max_index_num": 2000,
    },
)
"""A slave and an acknowledgement from it for each master, so that every store has every acknowledged message."""


PRODUCERS: Sequence[Mapping[str, Any]] = (
    {"topic": TOPIC, "group": "till", "rate_per_second": 12.0, "count": SENDS, "tags": "new"},
    {"topic": LATER_TOPIC, "group": "clerk", "count": DELAYED_SENDS, "delay_level": 1},
    {"topic": PAID_TOPIC, "group": "bank", "count": HALF_SENDS, "transaction": "commit"},
    {"topic": PAID_TOPIC, "group": "bank", "count": HALF_SENDS, "transaction": "rollback"},
)


async def record(directory: Path) -> None:
    """Run a cluster until all messages are delivered and saved, and stop it cleanly.

    It has producers and consumers.
    """
    async with open_cluster(SPEC, directory=directory) as cluster:
        for group in ("broker-a", "broker-b"):
            await cluster.wait_until(f"slave-in-sync {group}")
        await _create_topics(cluster)
        producers = [
            await cluster.run_workload("rmqlab.cluster.workload.produce", {"send_timeout": 60.0, **config})
            for config in PRODUCERS
        ]
        await _until(cluster, _has_sent({TOPIC, LATER_TOPIC, PAID_TOPIC}))
        consumers = [
            await cluster.run_workload(
                "rmqlab.cluster.workload.consume", {"topic": topic, "group": group, "orderly": True}
            )
            for topic, group in ((TOPIC, GROUP), (LATER_TOPIC, "desk"), (PAID_TOPIC, "ledger"))
        ]
        sample = {"topic": TOPIC, "group": SAMPLE, "orderly": True, "count": SAMPLED}
        sampler = await cluster.run_workload("rmqlab.cluster.workload.consume", sample)
        await sampler.wait_ended(seconds=_TIMEOUT)
        for producer in producers:
            await producer.wait_ended(seconds=_TIMEOUT)
        await _until(cluster, _has_delivered({TOPIC: SENDS, LATER_TOPIC: DELAYED_SENDS, PAID_TOPIC: HALF_SENDS}))
        for group in ("broker-a", "broker-b"):
            await cluster.wait_until(f"slave-caught-up {group}")
        for consumer in consumers:
            await consumer.stop()
        for group in ("broker-a", "broker-b"):  # the tables of a slave are compared if they have the master's version
            await cluster.wait_until(f"metadata-synced {group}")


async def _create_topics(cluster: Cluster) -> None:
    """Create the topics at both masters, and wait for their routes.

    A topic that is created by its first message is at one master alone for some time, and so are its next messages.
    """
    async with open_client(ClientConfig(namesrv_addr=cluster.namesrv_addr)) as client:
        admin = Admin(client)
        for topic in (TOPIC, LATER_TOPIC, PAID_TOPIC):
            config = TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for cluster_name in (await admin.cluster_info()).cluster_addr_table:
                await admin.create_topic_in_cluster(cluster_name, config)
            with trio.fail_after(real_seconds(_TIMEOUT)):
                while not await _is_routed(admin, topic):  # noqa: ASYNC110 -- nobody would set an event
                    await trio.sleep(0.05)


async def _is_routed(admin: Admin, topic: str) -> bool:
    with contextlib.suppress(NoRouteError):
        return len((await admin.topic_route(topic)).broker_datas) == SPEC.groups
    return False


async def _until(cluster: Cluster, is_enough: Callable[[Iterable[JournalEntry]], bool]) -> None:
    """Wait until the journal fulfils the condition."""
    with trio.fail_after(real_seconds(_TIMEOUT)):
        async with cluster.follow_journal() as batches:
            async for _ in batches:
                if is_enough(cluster.journal()):
                    return


def _has_sent(topics: set[str]) -> Callable[[Iterable[JournalEntry]], bool]:
    return lambda entries: topics <= {str(entry.fields["topic"]) for entry in entries if entry.kind == "sent"}


def _has_delivered(wanted: dict[str, int]) -> Callable[[Iterable[JournalEntry]], bool]:
    def is_enough(entries: Iterable[JournalEntry]) -> bool:
        counts = collections.Counter(str(entry.fields["topic"]) for entry in entries if entry.kind == "delivered")
        return all(counts[topic] >= count for topic, count in wanted.items())

    return is_enough


def main(directory: Path) -> None:
    """Record a run in a directory that does not exist yet."""
    trio.run(record, directory)
