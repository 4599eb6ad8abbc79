"""Scenarios: their files, their ends, and their output.

A run that holds, one that is interrupted, one that others join, those side by side and the one at two rates have real
processes. The others are simulated.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner, Result

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.cluster.__main__ import app
from rmqlab.cluster.scenario.binding import BindingError
from rmqlab.cluster.scenario.load import parse_scenario
from rmqlab.cluster.scenario.model import Action, Expectation, Scenario, Step
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.run import run_scenario
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.journals.journalreader import read_journals

pytestmark = pytest.mark.timeout(300)  # whole runs of clusters: long on a busy machine

SMALL = """\
name = "small"
claim = "what is sent is stored"
sources = ["rmq#1"]

[cluster]
slaves = 0
rate = 10

[[workload]]
name = "orders"
kind = "produce"
topic = "orders"
send_timeout = 60.0
count = 20

[[step]]
wait = "ended orders"
fault = { type = "clock", target = "broker-a", kind = "step", millis = 1000 }

[[step]]
mark = "done"

"""
HOLDS = SMALL + '[[expect]]\nmetric = "lost"\nequals = "0 messages"\n'
VIOLATED = SMALL + '[[expect]]\nmetric = "lost"\nat_least = "1 messages"\n'
UNKNOWN = SMALL.replace("ended orders", "event power_lost").replace("count = 20", "count = 20\n") + (
    '[[expect]]\nevent = "sent"\nafter = "done"\nequals = "0 events"\n'
)


def rmqlab(home: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmqlab.cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "RMQLAB_HOME": str(home), "COLUMNS": "200"},
    )


def in_process(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Return the result of a command that needs no process of its own."""
    monkeypatch.setenv("RMQLAB_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "200")
    return CliRunner().invoke(app, arguments, prog_name="rmqlab")


def test_a_claim_that_holds_exits_with_0_and_leaves_a_run_to_look_at(tmp_path: pathlib.Path) -> None:
    (tmp_path / "small.toml").write_text(HOLDS)
    done = rmqlab(tmp_path, "run", str(tmp_path / "small.toml"), "--seed", "7", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "holds"
    assert document["command"] == f"rmqlab run {tmp_path}/small.toml --seed 7 --rate 10"
    run = tmp_path / "runs" / "small" / "latest"
    assert run.resolve() == pathlib.Path(document["directory"])
    assert (run / "scenario.toml").read_text() == HOLDS
    facts = json.loads((run / "run.json").read_text())
    assert (facts["seed"], facts["rate"], facts["profile"]) == (7, 10, "4.9")
    assert json.loads((run / "verdict.json").read_text()) == document
    assert document["resources"]["start_seconds"] > 0
    assert document["resources"]["cpu_seconds"] > 0
    assert document["resources"]["memory_bytes"] is None or document["resources"]["memory_bytes"] > 2**20
    assert json.loads((run / "checks.json").read_text())["sent.SEND_OK"]["value"] == 20
    history = (run / "history.txt").read_text()
    assert "sent SEND_OK" in history
    assert history.index("fault_applied") < history.index("fault_healed") < history.index("cluster_stopped")
    assert (run / "broker-a" / "node.log").exists()
    assert not (run / "broker-a" / "store").exists(), "nobody needs the store of a claim that holds"


def test_a_violation_exits_with_1_and_keeps_the_stores(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(VIOLATED)
    done = in_process(tmp_path, monkeypatch, "run", str(tmp_path / "small.toml"), "--simulated")
    assert done.exit_code == 1
    assert "violated: what is sent is stored" in done.stdout
    assert "✗ lost: 0 messages  (at least 1 message)" in done.stdout
    assert "replay: rmqlab run" in done.stdout
    assert (tmp_path / "runs" / "small" / "latest" / "broker-a" / "store" / "commitlog").is_dir()


def test_the_profile_of_the_file_is_played_unless_an_option_says_another(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SMALL.replace("[cluster]", '[cluster]\nprofile = "hardened"')
    assert text != SMALL
    (tmp_path / "small.toml").write_text(text)
    for options, profile in (([], "hardened"), (["--profile", "4.9"], "4.9")):
        words = ["run", str(tmp_path / "small.toml"), "--simulated", "--json", *options]
        document = json.loads(in_process(tmp_path, monkeypatch, *words).stdout)
        assert document["profile"] == profile
        assert ("--profile" in document["command"]) == bool(options)


def test_a_scenario_without_expectations_gets_the_verdict_of_check(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.toml").write_text(SMALL + '[[step]]\nkill = "broker-a"\n\n[[step]]\nwipe = "broker-a"\n')
    done = in_process(tmp_path, monkeypatch, "run", str(tmp_path / "small.toml"), "--simulated")
    assert done.exit_code == 1, done.output
    assert "lost: 20 messages" in done.stdout
    (written,) = tmp_path.glob("runs/small/*Z*/verdict.json")
    assert any(line.startswith("lost: 20 messages") for line in json.loads(written.read_text())["why"])


def test_a_step_that_cannot_go_on_leaves_what_follows_unknown_and_says_why(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = UNKNOWN.replace('wait = "event power_lost"', 'wait = "event power_lost"\nwithin = "1 s"')
    text += '\n[[expect]]\nevent = "node_killed"\nat_least = "1 event"\n'
    (tmp_path / "small.toml").write_text(text)
    done = in_process(tmp_path, monkeypatch, "run", str(tmp_path / "small.toml"), "--simulated", "--json")
    assert done.exit_code == 2, done.stdout + done.stderr
    document = json.loads(done.stdout)
    seen = "no such event since the last action, 0 before it"
    assert document["missing"] == [f"step 1: 'event power_lost' is not true after 1 s; last seen: {seen}"]
    assert document["expectations"][0]["missing"] == "the run did not reach 'done'"
    assert document["expectations"][1]["missing"] == "the run ended early"


@pytest.mark.parametrize("wait", ["event power_lost", "stopped broker-a"])
def test_the_limit_of_a_wait_is_exact_in_a_simulation(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    text = UNKNOWN.replace("event power_lost", f'{wait}"\nwithin = "2 s')
    (tmp_path / "small.toml").write_text(text)
    done = in_process(tmp_path, monkeypatch, "run", str(tmp_path / "small.toml"), "--simulated", "--json")
    (missing,) = json.loads(done.stdout)["missing"]
    assert missing.startswith(f"step 1: {wait!r} is not true after 2 s")
    journal = read_journals(tmp_path / "runs" / "small" / "latest" / "journal")
    begin, end = (entry.at_millis for entry in journal if entry.kind == "step")
    assert 2000 <= end - begin <= 2500


def test_an_interrupted_run_heals_stops_its_processes_and_can_be_looked_at(tmp_path: pathlib.Path) -> None:
    (tmp_path / "small.toml").write_text(HOLDS.replace('mark = "done"', 'after = "1 h"\nmark = "done"'))
    command = [sys.executable, "-m", "rmqlab.cluster", "run", str(tmp_path / "small.toml")]
    environment = {**os.environ, "RMQLAB_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if " s  fault " in line:
                break
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 2
    assert errors.startswith("rmqlab: interrupted; all nodes are stopped. Recorded so far: ")
    latest = tmp_path / "runs" / "small" / "latest"
    verdict = json.loads((latest / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["missing"]) == ("unknown", ["the run was interrupted"])
    history = (latest / "history.txt").read_text()
    assert history.index("fault_applied") < history.index("fault_healed") < history.index("cluster_stopped")
    assert not (latest / "control.sock").exists()
    checked = json.loads(rmqlab(tmp_path, "check", str(latest), "--json").stdout)["findings"]
    assert (checked["lost"]["value"], checked["sent.SEND_OK"]["value"]) == (0, 20)
    output = rmqlab(tmp_path, "events", "--name", str(latest), "--all", "-l", "1000").stdout
    assert output.count(" sent ") == 20
    assert output.index("fault_healed") < output.index("cluster_stopped")


def test_an_attached_run_stays_up_for_others_whose_traffic_is_in_the_journal(tmp_path: pathlib.Path) -> None:
    (tmp_path / "small.toml").write_text(HOLDS)
    command = [sys.executable, "-m", "rmqlab.cluster", "run", str(tmp_path / "small.toml"), "--attach"]
    environment = {**os.environ, "RMQLAB_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        namesrv_addr = ""
        for line in run.stdout:
            if found := re.search(r"NAMESRV_ADDR='(.*)'", line):
                namesrv_addr = found[1]
            if "stays up" in line:
                break
        latest = tmp_path / "runs" / "small" / "latest"
        status = rmqlab(tmp_path, "status", "--name", str(latest), "--json")
        assert json.loads(status.stdout)["rate"] == 1
        message_id = trio.run(send_pull_and_commit, namesrv_addr)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=60)
    assert (run.returncode, errors) == (0, "")
    assert "holds: what is sent is stored" in output
    served = [entry.fields for entry in read_journals(latest / "journal") if entry.kind == "served"]
    outside = [fields for fields in served if message_id in (fields.get("message_ids") or ())]
    assert [(fields["code"], fields["topic"]) for fields in outside] == [(0, "orders")]
    theirs = [fields for fields in served if fields["group"] == "outside-puller"]
    assert [(fields["request"], fields["code"], fields["topic"]) for fields in theirs] == [
        ("PULL_MESSAGE", 0, "orders"),
        ("UPDATE_CONSUMER_OFFSET", 0, "orders"),
    ]
    assert (theirs[0]["offset"], theirs[1]["offset"]) == (0, theirs[0]["result_offset"])


async def send_pull_and_commit(namesrv_addr: str) -> str:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        sent = await Producer(client, "outside").send(Message(topic="orders", body=b"x"))
        puller = PullConsumer(client, "outside-puller")
        queue = (await puller.queues("orders"))[0]
        await puller.commit(queue, (await puller.pull(queue, 0)).next_offset)
        return sent.message_id


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "kill-master", "--attach", "--rate", "5"], "the rate is 1"),
        (["run", "kill-mastr"], "did you mean kill-master"),
        (["run", "none.toml"], "no scenario file none.toml"),
        (["run", "kill-master", "--profile", "hard"], "profiles: 4.9, hardened"),
        (["repro", "rmq#1"], "no scenario reproduces rmq#1"),
    ],
)
def test_invalid_arguments_exit_with_2_before_anything_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    done = in_process(tmp_path, monkeypatch, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_invalid_scenario_file_is_reported_with_its_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.toml").write_text(HOLDS.replace("rate = 10", "rats = 10"))
    done = in_process(tmp_path, monkeypatch, "run", str(tmp_path / "small.toml"))
    assert done.exit_code == 2
    assert done.stderr == f"rmqlab: {tmp_path}/small.toml:7: cluster.rats: no such key; did you mean rate?\n"


def test_scenarios_are_listed_and_run_side_by_side(tmp_path: pathlib.Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "small.toml").write_text(
        HOLDS + '[hardened]\n[[hardened.expect]]\nmetric = "lost"\nat_most = "1 messages"\n'
    )
    assert "what is sent is stored" in rmqlab(tmp_path, "scenarios", "--dir", str(tmp_path / "files")).stdout
    done = rmqlab(tmp_path, "scenarios", "--run", "--dir", str(tmp_path / "files"))
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("small"))
    assert row.count("holds") == 2


def test_violated_outweighs_unknown_where_both_profiles_are_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = '[[hardened.expect]]\nevent = "power_lost"\ntake = "delay"\nafter = "done"\nat_most = "1 s"\n'
    (tmp_path / "small.toml").write_text(VIOLATED + f'[hardened]\ndrop = ["lost"]\n{never}')
    words = ["run", str(tmp_path / "small.toml"), "--profile", "both", "--simulated", "--json"]
    done = in_process(tmp_path, monkeypatch, *words)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [document["verdict"] for document in documents] == ["violated", "unknown"]
    assert [document["command"].partition(" --profile ")[2] for document in documents] == ["", "hardened"]
    assert done.exit_code == 1


async def test_a_scenario_can_be_made_and_run_by_a_program(tmp_path: pathlib.Path) -> None:
    scenario = Scenario(
        name="made",
        claim="a killed master is out of the route at once",
        cluster=ClusterSpec(name="x", slaves=0, rate=5),
        steps=(
            Step(action=Action("kill", "broker-a:master"), label="death"),
            Step(wait="route-gone broker-a:master", within=60),
        ),
        expectations=(
            Expectation(event="broker_connection_lost", take="delay", after="death", at_most=Quantity(5, "s")),
        ),
    )
    run = await run_scenario(scenario, directory=RunDirectory.create("made", tmp_path))
    assert run.verdict == "holds", run.reasons()
    assert run.judged[0].finding.evidence[0].entries[0].fields["broker_name"] == "broker-a"
    nobody = attrs.evolve(scenario, steps=(Step(action=Action("kill", "broker-b")),), expectations=())
    with pytest.raises(BindingError, match="no node 'broker-b' here"):
        await run_scenario(nobody, directory=RunDirectory.create("made", tmp_path))


FACTS = """\
name = "facts"
claim = "RocketMQ's periods are the same at any rate"

[cluster]
role = "SYNC_MASTER"

[[workload]]
name = "orders"
kind = "produce"
topic = "orders"
send_timeout = 60.0
rate_per_second = 2.0
start = "step"

[[step]]
wait = "slave-connected broker-a"
label = "connected"

[[step]]
wait = "slave-in-sync broker-a"
produce = "orders"

[[step]]
wait = "sent.SEND_OK orders 1"
pause = "broker-a:slave"
label = "freeze"

[[step]]
wait = "sent.FLUSH_SLAVE_TIMEOUT orders 3"
stop-workload = "orders"

[[expect]]
name = "a send that waits for a frozen slave"
event = "sent"
where = { node = "orders", outcome = "FLUSH_SLAVE_TIMEOUT" }
take = "min"
field = "took"
at_least = "3 s"
at_most = "4 s"

[[expect]]
name = "slaves"
event = "ha_connected"
after = "connected"
equals = "0 events"
"""


TOLERANCES = {
    "a send that waits for a frozen slave": 1.0,  # RocketMQ looks at the waiting sends once a second
    "slaves": 0.0,
}
"""Seconds of the cluster's clock by which the protocol itself may differ from one time to the next."""


async def facts(rate: float, root: pathlib.Path) -> Run:
    scenario = parse_scenario(FACTS)
    scenario = attrs.evolve(scenario, cluster=attrs.evolve(scenario.cluster, rate=rate))
    return await run_scenario(scenario, Options(seed=1), directory=RunDirectory.create("facts", root))


def first_report_seconds(run: Run) -> float:
    """Return seconds from a slave's connection to its first report (5 s to the tick).

    Source: store-and-ha section 4.2.
    """
    entries = reversed(read_journals(run.directory.cluster.journal_dir))  # it may connect again: the first counts
    at = {entry.kind: entry.at_millis for entry in entries}
    return (at["ha_first_report"] - at["ha_connected"]) / 1000


async def test_the_same_facts_at_rate_1_and_at_rate_30(tmp_path: pathlib.Path) -> None:
    """Facts agree within their tolerance and both runs' stated allowance.

    The allowance is the time that the machine needs, times the rate.
    """
    slow, fast = await facts(1, tmp_path), await facts(30, tmp_path)
    assert slow.verdict == "holds", slow.reasons()
    assert fast.verdict == "holds", fast.reasons()
    for one, other in zip(slow.judged, fast.judged, strict=True):
        values: list[Any] = [one.finding.value, other.finding.value]
        tolerance = TOLERANCES[one.expectation.title]
        assert abs(values[0] - values[1]) <= tolerance + one.late + other.late, one.expectation.title
    for run in (slow, fast):
        assert first_report_seconds(run) == pytest.approx(5, abs=0.1 + max(one.late for one in run.judged))
