"""A power loss on real processes: the tail is lost, and only `diff` shows it."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config

pytestmark = pytest.mark.timeout(300)  # a dozen commands, three starts of brokers: long on a slow machine

Run = Callable[..., Result]

PATIENT = ("--set", "brokerFastFailureEnable=false", "--set", "registerBrokerTimeoutMills=60000")
"""A machine that is busy is no faster because the cluster's clock is: 200 ms in a queue are few."""
NEVER = 10**9
"""ms between two syncs: the test loses the messages that are not yet synced."""


@pytest.fixture
def rmqlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a command on the cluster `x`; a test that fails leaves no cluster behind."""
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))

    def run(verb: str, *arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, [verb, "--name", "x", *arguments], prog_name="rmqlab")
        assert result.exit_code == status, f"{verb}: {result.exit_code} {result.output}"
        return result

    yield run
    CliRunner().invoke(app, ["down", "--name", "x"])


def sent_ids(done: Result) -> list[str]:
    """Unique ids of the messages of `produce --json`, in the order of the replies."""
    events = [json.loads(line) for line in done.stdout.splitlines()]
    sent = [event for event in events if event.get("kind") == "sent"]
    assert {event["outcome"] for event in sent} == {"SEND_OK"}
    return [event["message_id"] for event in sent]


def compared(rmqlab: Run, status: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        rmqlab("diff", "broker-a:master", "broker-a:slave", "--json", "-l", "99", status=status).stdout
    )
    return document


def test_the_directory_of_a_node_means_its_store(tmp_path: Path) -> None:
    for node in ("broker-a", "broker-a-s"):
        with contextlib.closing(
            MessageStore.open(small_config(tmp_path / node / "store"), now_millis=ManualClock())
        ) as store:
            store.put(new_message())
    found = CliRunner().invoke(app, ["diff", str(tmp_path / "broker-a"), str(tmp_path / "broker-a-s" / "store")])
    assert found.exit_code == 0, found.output


def test_a_power_loss_of_an_async_master_and_the_silent_divergence_that_follows(rmqlab: Run) -> None:
    """Issue 3 item 7; store-and-ha section 4.9."""
    settings = ("flushIntervalCommitLog", "flushCommitLogThoroughInterval")
    options = [option for key in settings for option in ("--set", f"{key}={NEVER}")]
    rmqlab("up", "--detach", "--role", "ASYNC_MASTER", "--flush", "ASYNC_FLUSH", "--rate", "4", *PATIENT, *options)
    produce = ("-t", "orders", "-r", "0", "--timeout", "100", "--json", "-c")
    kept = sent_ids(rmqlab("produce", *produce, "20"))
    rmqlab("restart", "broker-a:master")  # a stop in order syncs
    lost = sent_ids(rmqlab("produce", *produce, "30"))
    rmqlab("wait", "slave-caught-up", "broker-a")
    assert compared(rmqlab, status=0)["verdict"] == "equal"

    (node,) = json.loads(rmqlab("power-loss", "broker-a:master", "--json").stdout)
    assert node["state"] == "power-lost"
    assert node["lost"]["messages"] == 30
    found = compared(rmqlab, status=1)
    assert found["first_difference"] is None
    assert found["a"]["max_offset"] == node["lost"]["flushed"] == found["common_to"]
    assert found["b"]["max_offset"] == node["lost"]["flushed"] + node["lost"]["log_bytes"]
    assert {record["message_id"] for record in found["b"]["beyond"]["first"]} == set(lost)
    output = rmqlab("diff", "broker-a:master", "broker-a:slave", status=1).stdout
    assert "broker-a:slave has 30 messages" in output
    assert "beyond the other's end" in output

    rmqlab("start", "broker-a:master")
    rmqlab("wait", "ready")
    fresh = sent_ids(rmqlab("produce", *produce, "10", "--size", "100"))
    found = compared(rmqlab, status=1)
    assert found["a"]["min_offset"] == 0
    assert node["lost"]["flushed"] <= found["first_difference"] < found["common_to"]
    assert found["last_common"]["message_id"] in kept
    assert {record["message_id"] for record in found["a"]["differing"]["first"]} == set(fresh)
    of_slave = [record for part in ("differing", "beyond") for record in found["b"][part]["first"]]
    assert {record["message_id"] for record in of_slave} == set(lost)

    (node,) = json.loads(rmqlab("wipe", "broker-a:slave", "--json").stdout)
    assert (node["state"], node["deleted_files"] > 3) == ("killed", True)
    assert "there is nothing to wipe" in rmqlab("wipe", "namesrv-1", status=1).stderr


def test_sync_flush_loses_nothing_that_it_has_acknowledged(rmqlab: Run) -> None:
    """Section 3.6: SEND_OK means on disk; each group of sends is synced at once."""
    unhurried = ("--set", f"flushIntervalCommitLog={NEVER}", "--set", "syncFlushTimeout=100000")  # a disk may be slow
    options = ("--slaves", "0", "--flush", "SYNC_FLUSH", *unhurried)
    rmqlab("up", "--detach", "--rate", "4", *PATIENT, *options)
    sent = sent_ids(rmqlab("produce", "-t", "orders", "-r", "0", "--json", "-c", "50", "--timeout", "100"))
    (node,) = json.loads(rmqlab("power-loss", "broker-a", "--json").stdout)
    assert len(sent) == 50
    assert (node["state"], node["lost"]["log_bytes"], node["lost"]["messages"]) == ("power-lost", 0, 0)
    assert node["lost"]["flushed"] > 50 * 128


def test_logs_with_nothing_in_common_are_unknown_with_status_2(rmqlab: Run, tmp_path: Path) -> None:
    for name, count in (("early", 1), ("late", 300)):
        with contextlib.closing(MessageStore.open(small_config(tmp_path / name), now_millis=ManualClock())) as store:
            for _ in range(count):
                store.put(new_message(b"x" * 500))
    (tmp_path / "late" / "commitlog" / f"{0:020d}").unlink()
    done = rmqlab("diff", f"{tmp_path}/early", f"{tmp_path}/late", "--json", status=2)
    assert json.loads(done.stdout)["verdict"] == "unknown"


def test_incomparable_runs_are_reported_with_status_2(rmqlab: Run, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for target, text in [
        (f"{tmp_path}/here", "is not a store"),
        (f"{tmp_path}/nowhere", "is not a store"),
        ("broker-a", "no cluster x in"),
    ]:
        assert text in rmqlab("diff", target, target, status=2).stderr
