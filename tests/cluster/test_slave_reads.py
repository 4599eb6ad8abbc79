"""Reads of slow consumers, shown by assuming little memory."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app

pytestmark = pytest.mark.timeout(300)

COUNT = 1200
SIZE = 1000
MEMORY = 1_000_000
"""Bytes: beyond 40 % of it a message counts as being on disk."""


def rmqlab(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="rmqlab")
    assert result.exit_code == 0, result.output
    return result.stdout


def events_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_consumer_far_behind_is_sent_to_the_slave_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """store-ha#66, #67: the master sends beyond 40 % of memory, the slave sends back.

    The slave does that when the reader is near the end again.
    """
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    wanted = {
        "totalMemory": MEMORY,
        "slaveReadEnable": "true",
        "defaultTopicQueueNums": 1,
        "registerBrokerTimeoutMills": 60_000,  # its slave is in the route, however busy the machine
    }
    settings = [word for key, value in wanted.items() for word in ("--set", f"{key}={value}")]
    rmqlab("up", "-n", "x", "--detach", "--role", "ASYNC_MASTER", "--rate", "10", *settings)
    try:
        rmqlab("wait", "-n", "x", "slave-connected", "broker-a")
        rmqlab(
            "produce", "-n", "x", "-t", "orders", "-r", "0", "-c", str(COUNT), "--size", str(SIZE), "--timeout", "100"
        )
        rmqlab("wait", "-n", "x", "slave-caught-up", "broker-a")
        rmqlab("wait", "-n", "x", "route-has", "broker-a-s")
        text = rmqlab("consume", "-n", "x", "-t", "orders", "-g", "late", "-c", str(COUNT), "--json")
    finally:
        CliRunner().invoke(app, ["down", "-n", "x"])
    delivered = [event for event in events_of(text) if event.get("kind") == "delivered"]
    offsets_by_broker = {0: set[int](), 1: set[int]()}
    for event in delivered:
        offsets_by_broker[event["from_broker_id"]].add(event["offset"])
    assert offsets_by_broker[0]
    assert offsets_by_broker[1]
    far = COUNT - MEMORY * 40 // 100 // SIZE  # messages before this one are on disk, give or take their overhead
    assert min(offsets_by_broker[0]) == 0  # it had received no offset yet
    assert max(offsets_by_broker[1]) < far + 100
    assert max(offsets_by_broker[0]) > far
