"""The operators' commands on real RocketMQ, beside mqadmin's output.

What changes something is read back with mqadmin, and what mqadmin changed is read with ours.
"""

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.cluster.__main__ import app
from rmqlab.remoting.fastjson import parse_fastjson
from tests.interop.java import Mqadmin
from tests.interop.realrocketmq import RealCluster

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def ours(real_shared: RealCluster) -> Run:
    """Run a command of ours on the real cluster; return its JSON, or its error."""

    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--namesrv", real_shared.namesrv, "--json"], prog_name="rmqlab")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr

    return run


@pytest.fixture(scope="module")
def theirs(mqadmin: Mqadmin, real_shared: RealCluster) -> Callable[..., str]:
    def run(*words: str) -> str:
        return mqadmin.run(real_shared.namesrv, *words)

    return run


def fresh(prefix: str) -> str:
    """A topic or group that no other test uses."""
    return f"{prefix}-{os.urandom(4).hex()}"


def route_of(theirs: Callable[..., str], topic: str) -> Any:
    """Return what mqadmin prints of a route: JSON, but for the keys that are numbers."""
    return parse_fastjson(theirs("topicRoute", "-t", topic).encode())


def send(namesrv: str, topic: str, count: int) -> None:
    """Send messages with the keys k0, k1, ..."""

    async def run() -> None:
        async with open_client(ClientConfig(namesrv_addr=namesrv)) as client:
            producer = Producer(client, "operators")
            for number in range(count):
                await producer.send(Message(topic=topic, body=b'{"n": %d}' % number, keys=f"k{number}", tags="t"))

    trio.run(run)


def test_order_topics_are_those_of_mqadmin(ours: Run, theirs: Callable[..., str], real_shared: RealCluster) -> None:
    """One that we make, and one that mqadmin makes."""
    topic, broker = fresh("Op"), real_shared.broker_name
    made = ours("topics", "create", topic, "--queues", "3", "--order")
    assert (made["order_config"], made["brokers"][0]["order"]) == (f"{broker}:3", True)
    theirs("updateTopic", "-c", real_shared.cluster_name, "-t", topic, "-r", "5", "-w", "5", "-o", "true")
    (listed,) = (one for one in ours("topics", "list")["topics"] if one["topic"] == topic)
    assert (listed["order_config"], listed["brokers"][0]["order"]) == (f"{broker}:5", True)
    assert ours("topics", "update", topic, "--no-order")["order_config"] is None
    ours("topics", "delete", topic)


def test_topics_are_those_of_mqadmin(ours: Run, theirs: Callable[..., str], real_shared: RealCluster) -> None:
    topic, broker = fresh("Op"), real_shared.broker_name
    made = ours("topics", "create", topic, "--queues", "3", "--permission", "rw")
    assert made["brokers"] == [{"broker": broker, "read_queues": 3, "write_queues": 3, "permission": 6, "order": False}]
    assert "already exists" in ours("topics", "create", topic)
    changed = ours("topics", "update", topic, "--write-queues", "2", "--permission", "r")
    assert changed["brokers"] == [
        {"broker": broker, "read_queues": 3, "write_queues": 2, "permission": 4, "order": False}
    ]
    route = route_of(theirs, topic)
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 4)
    (seen,) = ours("topics", "route", topic)
    assert (seen["read_queues"], seen["write_queues"], seen["permission"]) == (3, 2, 4)
    addresses = {int(key): value for key, value in route["brokerDatas"][0]["brokerAddrs"].items()}
    assert {int(key): value for key, value in seen["addresses"].items()} == addresses
    assert {one["topic"] for one in ours("topics", "list", "--all")["topics"]} >= set(theirs("topicList").split())
    assert f"did you mean {topic}?" in ours("topics", "route", topic[:-1] + "x")
    deleted = ours("topics", "delete", topic)
    assert (deleted["brokers"], deleted["messages"]) == ([broker], 0)
    assert topic not in theirs("topicList").split()


def test_offsets_and_messages_are_those_of_mqadmin(
    ours: Run, theirs: Callable[..., str], real_shared: RealCluster
) -> None:
    topic, group, broker = fresh("Op"), fresh("OpGroup"), real_shared.broker_name
    ours("topics", "create", topic, "--queues", "2")
    send(real_shared.namesrv, topic, 10)
    status = ours("topics", "status", topic)
    rows = [line.split() for line in theirs("topicStatus", "-t", topic).splitlines() if line.startswith(broker)]
    assert [(str(one["queue"]), str(one["min_offset"]), str(one["max_offset"])) for one in status] == [
        tuple(row[1:4]) for row in sorted(rows, key=lambda row: int(row[1]))
    ]
    assert sum(one["max_offset"] for one in status) == 10

    made = ours("groups", "create", group, "--when-slow", "2", "--retries", "3")
    assert (made["brokers"][0]["when_slow"], made["brokers"][0]["retries"]) == (2, 3)
    listed = {one["group"]: one for one in ours("groups", "list")}
    assert listed[group]["brokers"] == made["brokers"]
    moved = ours("offsets", "reset", group, topic, "--time", "now")
    assert sum(one["after"] for one in moved["queues"]) == 10
    back = ours("offsets", "reset", group, topic, "--offset", "1", "--queue", f"{broker}:0")
    assert [(one["queue"], one["after"]) for one in back["queues"]] == [(0, 1)]
    shown = ours("offsets", "show", group)
    assert {one["queue"]: one["committed"]["0"] for one in shown["queues"] if one["topic"] == topic}[0] == 1
    assert "resetOffsetByTime" not in theirs("resetOffsetByTime", "-g", group, "-t", topic, "-s", "now")
    shown = ours("offsets", "show", group, "--topic", topic)
    assert sum(one["committed"]["0"] for one in shown["queues"]) == 10
    assert "is outside of" in ours("offsets", "reset", group, topic, "--offset", "99")
    lag = ours("groups", "lag", group)[0]
    assert lag["group"] == group

    (at,) = ours("messages", "at", f"{topic}@{broker}:1", "2")
    text = theirs("queryMsgByOffset", "-t", topic, "-b", broker, "-i", "1", "-o", "2")
    assert at["message_id"] in text or at["offset_message_id"] in text
    by_id = theirs("queryMsgById", "-i", at["offset_message_id"])
    assert re.search(rf"Queue Offset: +{at['queue_offset']}\b", by_id)
    for words in (
        ("messages", "id", at["offset_message_id"]),
        ("messages", "unique-key", topic, at["message_id"]),
        ("messages", "key", topic, at["keys"]),
        ("messages", "id", at["offset_message_id"], "--at", f"{broker}:slave"),
    ):
        (found,) = ours(*words)
        assert {**found, "broker": broker} == at, words
    assert json.loads(at["text"]) == {"n": int(at["keys"][1:])}
    assert at["offset_message_id"][:-4] in theirs("queryMsgByKey", "-t", topic, "-k", at["keys"]) or at[
        "message_id"
    ] in theirs("queryMsgByKey", "-t", topic, "-k", at["keys"])

    assert ours("groups", "delete", group, "--offsets")["brokers"] == [broker]
    assert group not in {one["group"] for one in ours("groups", "list")}
    assert f"unknown group '{group}'" in ours("groups", "delete", group)
    assert ours("topics", "delete", topic)["messages"] == 10


def test_settings_and_write_permission_are_those_of_mqadmin(
    ours: Run, theirs: Callable[..., str], real_shared: RealCluster
) -> None:
    broker, address = real_shared.broker_name, real_shared.master.address
    key = "maxTransferCountOnMessageInMemory"
    (before,) = ours("config", "get", broker, key)
    assert re.search(rf"{key}\s*=\s*{before['settings'][key]}\b", theirs("getBrokerConfig", "-b", address))
    try:
        (changed,) = ours("config", "set", broker, f"{key}=31")
        assert (changed["before"], changed["after"]) == (before["settings"][key], "31")
        assert re.search(rf"{key}\s*=\s*31\b", theirs("getBrokerConfig", "-b", address))
    finally:
        theirs("updateBrokerConfig", "-b", address, "-k", key, "-v", before["settings"][key])
    assert ours("config", "get", broker, key) == [before]
    assert f"did you mean {key}?" in ours("config", "get", f"{broker}:slave", key[:-1])
    assert ours("config", "get", "namesrv", "listenPort")[0]["settings"]["listenPort"] in real_shared.namesrv

    topic = fresh("Op")
    ours("topics", "create", topic)
    wiped = ours("wipe-write-perm", broker)
    assert list(wiped["topics"]) == [real_shared.namesrv]
    assert ours("topics", "route", topic)[0]["permission"] == 4
    again = ours("add-write-perm", broker)
    assert again["topics"] == wiped["topics"]
    assert route_of(theirs, topic)["queueDatas"][0]["perm"] == 6
    assert f"did you mean {broker}?" in ours("wipe-write-perm", broker + "x")
    ours("topics", "delete", topic)
