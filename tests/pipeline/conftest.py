"""One Spark session for all tests of this folder, small and quiet.

The suite is `make spark`; it needs the extra.

Without the extra nothing here can be imported: then the files are not even collected.
"""

import contextlib
import gzip
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import ClientError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.remoting.bodies.topic import TopicConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.audited import Audited

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "store"

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_*.py"]

pytest.register_assert_rewrite("tests.pipeline.violations")


LONGEST = (
    "test_agreement", "test_topicsource", "test_audit_stores", "test_missing_brokers", "test_audit", "test_shipping",
    "test_topicselection", "test_messagesizes", "test_report", "test_topicwriter", "test_repeated_writes",
    "test_executions", "test_sources", "test_auditframes", "test_deletions", "test_odd_runs", "test_storesource",
    "test_planted", "test_order",
)  # fmt: skip
"""Files in the order of their start, the longest first: so two processes end at about the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem if item.path.parent == HERE else "", len(places)))
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(1200))  # a JVM starts slowly on a busy machine


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from rmqlab.pipeline.session import open_session

    with open_session("local[2,4]", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture(scope="session")
def planted_audit(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Audited":
    """The audit of a run with every planted violation.

    It has a fault whose target has markup, too.
    """
    from rmqlab.pipeline.audit.size import Scale
    from tests.pipeline.audited import audited
    from tests.pipeline.violations import planted_run, write_run

    run = planted_run()
    run.add("", "fault_applied", id="f1", fault="disk", target="<script>alert('not run')</script>")
    return audited(spark, write_run(run, tmp_path_factory.mktemp("planted")), Scale.SMALL)


@pytest.fixture(scope="session")
def manifest() -> dict[str, Any]:
    """What the recorded stores hold; `bulk_messages` is the list itself."""
    content: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
    bulk = gzip.decompress((GOLDEN / content["bulk_messages"]).read_bytes())
    return content | {"bulk_messages": [json.loads(line) for line in bulk.splitlines()]}


@pytest.fixture(scope="session")
def golden(manifest: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Unpack a real RocketMQ's stores, and return the directory that contains them.

    They are `master`, `slave` and `master-kill9`.
    """
    root = tmp_path_factory.mktemp("golden")
    for entry in manifest["files"]:
        packed = GOLDEN / entry["path"]
        target = (root / entry["path"]).with_name(entry["name"])
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = packed.read_bytes()
        raw = gzip.decompress(raw) if packed.suffix == ".gz" else raw
        target.write_bytes(raw.ljust(entry.get("original_size", 0), b"\0"))
    return root


@pytest.fixture
def write_log(tmp_path: pathlib.Path) -> Callable[..., pathlib.Path]:
    """Writes one commit log file of records with these bodies below `tmp_path / node`.

    Returns the store's directory.
    """
    from rmqlab.remoting.message import StoredMessage, body_crc, encode_message

    def writer(node: str, bodies: list[bytes], *, size: int = 64 * 1024, **changes: Any) -> pathlib.Path:
        raw = b""
        for number, body in enumerate(bodies):
            values: dict[str, Any] = {
                "store_size": 0, "body_crc": body_crc(body), "queue_id": number % 4, "flag": 0,
                "queue_offset": number // 4, "physical_offset": len(raw), "sys_flag": 0,
                "born_timestamp": 1_700_000_000_000 + number, "born_host": ("127.0.0.1", 4000),
                "store_timestamp": 1_700_000_000_001 + number, "store_host": ("127.0.0.1", 10911),
                "reconsume_times": 0, "prepared_transaction_offset": 0, "body": body, "topic": "orders",
                "properties_text": f"KEYS\x01n{number}\x02UNIQ_KEY\x01{number:032X}", "properties": {},
            }  # fmt: skip
            raw += encode_message(StoredMessage(**(values | changes)))
        store = tmp_path / node / "store"
        (store / "commitlog").mkdir(parents=True)
        (store / "commitlog" / f"{0:020d}").write_bytes(raw.ljust(size, b"\0"))
        return store

    return writer


class Lab:
    """A cluster of real processes, controlled by the command line as by a user."""

    def __init__(self, home: pathlib.Path, *options: str) -> None:
        self.environment = {**os.environ, "RMQLAB_HOME": str(home)}
        self.home = home
        self.namesrv_addr = json.loads(self.run("up", "--detach", "--json", *options))["namesrv_addr"]

    def run(self, *arguments: str) -> str:
        """A command of rmqlab; its output. It must succeed."""
        program = [sys.executable, "-m", "rmqlab.cluster", *arguments]
        done = subprocess.run(program, check=False, capture_output=True, text=True, env=self.environment, timeout=300)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """A command of rmqlab that runs during the test."""
        program = [sys.executable, "-m", "rmqlab.cluster", *arguments]
        return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)

    def send(self, topic: str, bodies: Sequence[bytes], **changes: Any) -> None:
        """Send messages one by one, all of them stored."""

        async def send_all() -> None:
            async with open_client(ClientConfig(namesrv_addr=self.namesrv_addr)) as client:
                producer = Producer(client, "tests")
                for body in bodies:
                    await producer.send(Message(topic=topic, body=body, **changes))

        trio.run(send_all)

    def bodies(self, topic: str) -> list[bytes]:
        return [message.body for message in self.messages(topic)]

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """All messages of a topic, as a plain client reads them."""

        async def read() -> list[ReceivedMessage]:
            found: list[ReceivedMessage] = []
            async with open_client(ClientConfig(namesrv_addr=self.namesrv_addr)) as client:
                consumer = PullConsumer(client, "tests")
                for queue in await consumer.queues(topic):
                    offset = 0
                    while (pulled := await consumer.pull(queue, offset)).messages:
                        found += pulled.messages
                        offset = pulled.next_offset
            return found

        return trio.run(read)

    def create_topic(self, topic: str, queues: int) -> None:
        """Create a topic, and wait until the nameserver knows it.

        Before that, a producer would use the default topic's route.
        """

        async def create() -> None:
            async with open_client(ClientConfig(namesrv_addr=self.namesrv_addr)) as client:
                admin = Admin(client)
                config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
                for cluster in (await admin.cluster_info()).cluster_addr_table:
                    await admin.create_topic_in_cluster(cluster, config)
                with trio.fail_after(60):
                    while not await is_routed(admin):  # noqa: ASYNC110 -- nobody would set an event
                        await trio.sleep(0.05)

        async def is_routed(admin: Admin) -> bool:
            with contextlib.suppress(ClientError):  # no route yet
                route = await admin.topic_route(topic)
                return {data.write_queue_nums for data in route.queue_datas} == {queues}
            return False

        trio.run(create)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master and its slave. All files share them: each has topics of its own."""
    lab = Lab(tmp_path_factory.mktemp("lab"), "--role", "ASYNC_MASTER")
    lab.run("wait", "slave-connected", "broker-a")
    yield lab
    lab.run("down")


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster to break, called `broken`."""
    lab = Lab(tmp_path_factory.mktemp("own"), "--role", "ASYNC_MASTER", "--name", "broken")
    lab.run("wait", "slave-connected", "broker-a", "--name", "broken")
    yield lab
    lab.run("down", "--name", "broken")
