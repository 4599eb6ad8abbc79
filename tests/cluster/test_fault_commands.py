"""Faults as a user types them, on a real cluster."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from rmqlab.client.broker_api import PullStatus
from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.pull import PullConsumer
from rmqlab.cluster.__main__ import app


@attrs.frozen
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def rmqlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A command for the one cluster of this file."""
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str) -> Done:
        result = CliRunner().invoke(app, arguments, prog_name="rmqlab")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_HOME", str(home))
        # A machine that is busy is no faster because the cluster's clock is: 200 ms in a queue are few.
        patient = ("--set", "brokerFastFailureEnable=false", "--set", "registerBrokerTimeoutMills=60000")
        started = run("up", "--role", "SYNC_MASTER", "--rate", "4", *patient, "--detach")
        assert started.returncode == 0, started.stderr
        yield run
        assert run("down").returncode == 0


@pytest.fixture(autouse=True)
def _healed(rmqlab: Run) -> Iterator[None]:
    yield
    rmqlab("heal", "all")
    assert rmqlab("wait", "ready").returncode == 0


PRODUCE = ("produce", "--timeout", "100")


def listed(rmqlab: Run) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = json.loads(rmqlab("faults", "--json").stdout)
    return faults


def wait_spent(rmqlab: Run, fault: str) -> None:
    """Wait until the supervisor has received the report of a spent fault."""
    for _ in range(50):
        if fault not in {one["id"] for one in listed(rmqlab)}:
            return
    raise AssertionError(listed(rmqlab))


def outcomes(done: Done) -> list[str]:
    return [event["outcome"] for event in map(json.loads, done.stdout.splitlines()) if event["kind"] == "sent"]


def test_a_fault_is_applied_listed_shown_by_status_and_healed(rmqlab: Run) -> None:
    assert rmqlab("faults").stdout == "no fault is in force\n"
    message = rmqlab(
        "fault", "link", "broker-a-s", "broker-a:master", "--kind", "latency", "--millis", "200", "--jitter", "50",
        "--only", "ha",
    )  # fmt: skip
    assert (message.returncode, message.stderr) == (0, "")
    (fault,) = listed(rmqlab)
    line = "link broker-a-s -> broker-a:master latency only=ha millis=200 jitter_millis=50"
    assert message.stdout == f"{fault['id']}: {line}\n"
    assert (fault["type"], fault["src"], fault["millis"]) == ("link", "broker-a-s", 200)
    assert line in rmqlab("status").stdout
    assert json.loads(rmqlab("status", "--json").stdout)["faults"] == [fault]
    alone = json.loads(rmqlab("isolate", "namesrv-1", "--json").stdout)
    assert rmqlab("heal", fault["id"]).stdout == f"{fault['id']} is healed: {line}\n"
    assert [one["id"] for one in listed(rmqlab)] == [alone["id"]]
    assert json.loads(rmqlab("heal", "all", "--json").stdout) == [alone]
    assert rmqlab("heal", "all").stdout == "no fault is in force\n"
    kinds = [json.loads(line)["kind"] for line in rmqlab("events", "--json", "-l", "500").stdout.splitlines()]
    assert kinds.count("fault_applied") == kinds.count("fault_healed") == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("isolate broker-b", "no node 'broker-b' here; nodes: namesrv-1, broker-a"),
        ("fault link broker-a broker-a-s --kind latancy", "did you mean latency?"),
        ("fault link broker-a broker-a-s --kind latency", "--kind latency needs --millis"),
        ("fault link broker-a broker-a-s --kind reset --millis 5", "--kind reset does not accept --millis"),
        ("fault disk namesrv-1 --kind full", "namesrv-1 is a nameserver: expected a broker"),
        ("fault request broker-a SEND_MESAGE", "did you mean SEND_MESSAGE?"),
        ("fault clock broker-a --kind skew", "--kind skew needs --ppm"),
        ("fault random --of kil", "did you mean kill?"),
        ("fault random --on master", "did you mean masters?"),
        ("heal f999", "no fault 'f999' in force; in force: none"),
    ],
)
def test_invalid_fault_commands_are_reported_and_change_nothing(rmqlab: Run, command: str, message: str) -> None:
    done = rmqlab(*command.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(rmqlab) == []


def test_one_fault_at_several_targets_and_one_action_on_a_whole_group(rmqlab: Run) -> None:
    full = json.loads(rmqlab("fault", "disk", "broker-a:slave", "broker-a", "-k", "full", "--json").stdout)
    assert full["target"] == "broker-a:slave,broker-a"
    assert rmqlab("fault", "link", "broker-a:*", "namesrv-1", "-k", "reset").returncode == 0
    assert rmqlab("heal", "all").returncode == 0
    done = rmqlab("pause", "broker-a:*", "namesrv-2")
    assert (done.returncode, "no node 'namesrv-2' here" in done.stderr) == (2, True)
    paused = rmqlab("pause", "broker-a:*", "namesrv-1", "--json")
    assert [node["state"] for node in json.loads(paused.stdout)] == ["paused"] * 3
    assert rmqlab("wait", "paused", "broker-a:*").returncode == 0
    assert rmqlab("resume", "namesrv-1", "broker-a:*").returncode == 0
    assert rmqlab("wait", "route-has", "broker-a:*").returncode == 0  # the nameserver saw resets


def test_sends_are_answered_as_the_fault_wants_so_many_times_and_then_it_is_over(rmqlab: Run) -> None:
    assert rmqlab(*PRODUCE, "-c", "1", "--json").returncode == 0  # the topic is made
    message = rmqlab(
        "fault", "request", "broker-a", "SEND_MESSAGE_V2", "--times", "3", "--remark", "too busy", "--json"
    )
    fault = json.loads(message.stdout)
    sent = rmqlab(*PRODUCE, "-c", "5", "--senders", "1", "--retries", "0", "-r", "0", "--json")
    assert [outcome == "refused" for outcome in outcomes(sent)] == [True, True, True, False, False]
    assert "too busy" in sent.stdout
    wait_spent(rmqlab, fault["id"])
    assert listed(rmqlab) == []
    events = [json.loads(line) for line in rmqlab("events", "--json", "-l", "500").stdout.splitlines()]
    (healed,) = [event for event in events if event["kind"] == "fault_healed" and event["id"] == fault["id"]]
    assert healed["reason"] == "spent"


def test_a_disk_that_does_not_sync_and_one_that_is_full(rmqlab: Run) -> None:
    """Under ASYNC_FLUSH, a failed sync is internal; a full disk is rejected (code 14)."""
    rmqlab("fault", "disk", "broker-a", "--kind", "failing-sync")
    sent = rmqlab(*PRODUCE, "-c", "3", "-r", "0", "--json")
    assert not {"refused"} & set(outcomes(sent))
    rmqlab("fault", "disk", "broker-a", "--kind", "used", "--percent", "97")

    for _ in range(50):  # the disk is looked at every 10 s of the cluster's clock
        sent = rmqlab(*PRODUCE, "-c", "10", "-r", "10", "--retries", "0", "--json")
        if "refused" in outcomes(sent):
            break
    assert "refused" in outcomes(sent)
    rmqlab("heal", "all")
    for _ in range(50):
        sent = rmqlab(*PRODUCE, "-c", "10", "-r", "10", "--retries", "0", "--json")
        if "refused" not in outcomes(sent):
            break
    assert "refused" not in outcomes(sent)


def test_a_forged_report_acknowledges_unreplicated_messages(rmqlab: Run) -> None:
    """store-and-ha section 4.9: SYNC_MASTER returns SEND_OK though its slave is dead."""
    assert rmqlab("kill", "broker-a-s").returncode == 0
    lonely = rmqlab(*PRODUCE, "-c", "2", "-r", "0", "--json")
    assert outcomes(lonely) == ["SLAVE_NOT_AVAILABLE"] * 2
    assert rmqlab("fault", "ha-report", "broker-a:master", "--repeat").returncode == 0
    for _ in range(50):
        fooled = rmqlab(*PRODUCE, "-c", "2", "-r", "0", "--json")
        if outcomes(fooled) == ["SEND_OK"] * 2:
            break
    assert outcomes(fooled) == ["SEND_OK"] * 2
    rmqlab("heal", "all")
    assert rmqlab("start", "broker-a-s").returncode == 0


def test_random_faults_are_the_seeds_and_leave_nothing_behind(rmqlab: Run) -> None:
    done = rmqlab(
        "fault", "random", "--every", "4", "--heal-after", "3", "--count", "2", "--seed", "3", "--of", "pause,isolate",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    strikes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [strike["at"] for strike in strikes] == [4, 7, 8, 11]
    assert {strike["target"] for strike in strikes} == {"broker-a"}
    assert {strike["error"] for strike in strikes} == {None}
    assert listed(rmqlab) == []
    assert rmqlab("wait", "ready").returncode == 0


async def stored_at(namesrv_addr: str, topic: str) -> list[int]:
    """Store timestamps of a topic's messages, in order."""
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        consumer, stamps = PullConsumer(client, "reader"), list[int]()
        for queue in await consumer.queues(topic):
            offset = await consumer.min_offset(queue)
            while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
                stamps += [message.store_timestamp for message in result.messages]
                offset = result.next_offset
    return sorted(stamps)


def test_messages_use_the_broker_clock_and_events_the_cluster_clock(rmqlab: Run) -> None:
    document = json.loads(rmqlab("status", "--json").stdout)
    rmqlab("fault", "clock", "broker-a", "--kind", "step", "--millis", "-3600000")
    sent = rmqlab(*PRODUCE, "-t", "early", "-c", "1", "--json")
    (event,) = [event for event in map(json.loads, sent.stdout.splitlines()) if event["kind"] == "sent"]
    # The broker registers a new topic after it has acknowledged the first send.
    assert rmqlab("wait", "topic-known", "namesrv-1", "early").returncode == 0
    (stored,) = trio.run(stored_at, document["namesrv_addr"], "early")
    assert event["at"] >= document["clock_millis"]
    assert event["at"] - 3_600_000 - 600_000 < stored < event["at"] - 3_600_000 + 600_000
    rmqlab("heal", "all")
    rmqlab(*PRODUCE, "-t", "early", "-c", "1")
    stamps = trio.run(stored_at, document["namesrv_addr"], "early")
    assert len(stamps) == 2
    assert stamps[1] - stamps[0] > 3_000_000
