"""The command line as a user types it, on real clusters."""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app


@attrs.frozen
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]

PATIENT = ("--set", "brokerFastFailureEnable=false")
"""A machine that is busy is no faster because the cluster's clock is: 200 ms in a queue are few."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_HOME", str(path))
        yield path


@pytest.fixture(scope="module")
def rmqlab(home: pathlib.Path) -> Run:
    """Run a command in this process (they only talk to supervisors).

    The supervisors are processes of their own.
    """
    assert home.exists()

    def run(*arguments: str) -> Done:
        result = CliRunner().invoke(app, arguments, prog_name="rmqlab")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="module")
def shared(rmqlab: Run) -> Iterator[dict[str, Any]]:
    """A cluster that tests may act on, if they leave it as it was."""
    spec = ("--role", "SYNC_MASTER", "--rate", "4", *PATIENT)
    done = rmqlab("up", "--name", "shared", *spec, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)
    assert rmqlab("down", "-n", "shared").returncode == 0


def status(rmqlab: Run, name: str) -> dict[str, Any]:
    """Return the status once every node has responded.

    A node that takes more than a second is shown without its facts.
    """
    for _ in range(60):
        document: dict[str, Any] = json.loads(rmqlab("status", "-n", name, "--json").stdout)
        logs = [node["commit_log"] for node in document["nodes"] if node["kind"] == "broker"]
        if None not in (*logs, *document["routes"].values()):
            return document
    raise AssertionError(document)


def test_up_prints_one_object_with_the_address_of_every_node(shared: dict[str, Any], home: pathlib.Path) -> None:
    assert set(shared) == {"name", "namesrv_addr", "nodes"}
    namesrv, master, slave = shared["nodes"]
    assert shared["namesrv_addr"] == namesrv["address"]
    assert {key: master[key] for key in ("name", "kind", "role", "broker_id", "data_dir")} == {
        "name": "broker-a",
        "kind": "broker",
        "role": "SYNC_MASTER",
        "broker_id": 0,
        "data_dir": str(home / "shared" / "broker-a"),
    }
    assert (slave["name"], slave["role"], slave["broker_id"]) == ("broker-a-s", "SLAVE", 1)
    assert slave["ha_address"] == slave["address"].replace("10911", "10912")
    assert (namesrv["role"], namesrv["ha_address"], namesrv["broker_id"]) == (None, None, None)
    assert len({node["pid"] for node in shared["nodes"]}) == 3


def test_status_prints_offsets_lag_and_routes(shared: dict[str, Any], rmqlab: Run) -> None:
    document = status(rmqlab, "shared")
    assert [node["state"] for node in document["nodes"]] == ["ready"] * 3
    assert document["nodes"][1]["commit_log"]["min"] == 0
    assert document["replication"][0]["slave"] == "broker-a-s"
    assert document["routes"]["namesrv-1"]["broker-a"]["0"] == shared["nodes"][1]["address"]
    assert rmqlab("wait", "-n", "shared", "slave-in-sync", "broker-a").returncode == 0
    shown = rmqlab("status", "-n", "shared").stdout
    assert "slaveAckOffset" in shown
    assert "time runs 4 times as fast" in shown


@pytest.mark.usefixtures("shared")
def test_the_route_of_a_killed_master_is_dropped_and_restored(rmqlab: Run) -> None:
    assert rmqlab("kill", "-n", "shared", "broker-a:master").stdout == "broker-a is killed\n"
    assert rmqlab("wait", "-n", "shared", "route-gone", "broker-a:master").returncode == 0
    assert rmqlab("wait", "-n", "shared", "killed", "broker-a", "--timeout", "1").returncode == 0
    started = rmqlab("start", "-n", "shared", "broker-a", "--json")
    (node,) = json.loads(started.stdout)
    assert node["state"] == "ready"
    assert rmqlab("wait", "-n", "shared", "route-has", "broker-a:master").returncode == 0
    kinds = [json.loads(line)["kind"] for line in rmqlab("events", "-n", "shared", "--json").stdout.splitlines()]
    assert "node_killed" in kinds
    assert "ready" in rmqlab("logs", "-n", "shared", "broker-a", "-l", "5").stdout


@pytest.mark.usefixtures("shared")
def test_produced_messages_are_consumed_and_replicated(rmqlab: Run) -> None:
    assert rmqlab("wait", "-n", "shared", "slave-in-sync", "broker-a").returncode == 0
    sends = ("-t", "orders", "--count", "30", "--rate-per-second", "0", "--timeout", "100")
    made = rmqlab("produce", "-n", "shared", *sends, "--json")
    assert made.returncode == 0, made.stderr
    sent = [event for event in map(json.loads, made.stdout.splitlines()) if event["kind"] == "sent"]
    assert {event["number"] for event in sent} == set(range(1, 31))
    stored = {"SEND_OK", "SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT"}
    assert {event["outcome"] for event in sent} <= stored
    got = rmqlab("consume", "-n", "shared", "-t", "orders", "--count", "30", "--json")
    assert got.returncode == 0, got.stderr
    delivered = [event for event in map(json.loads, got.stdout.splitlines()) if event["kind"] == "delivered"]
    assert {event["number"] for event in delivered} == set(range(1, 31))
    assert rmqlab("wait", "-n", "shared", "slave-caught-up", "broker-a").returncode == 0


@pytest.mark.usefixtures("shared")
def test_produce_fails_when_nothing_is_stored(rmqlab: Run) -> None:
    refused = rmqlab("produce", "-n", "shared", "-t", "SELF_TEST_TOPIC", "-c", "2", "-r", "0")
    assert refused.returncode == 1
    assert "rmqlab: none of 2 sends is known to be stored" in refused.stderr
    assert "sent #1 refused" in refused.stdout


@pytest.mark.usefixtures("shared")
def test_refuses_a_state_that_a_node_has_already_in_both_directions(rmqlab: Run) -> None:
    assert rmqlab("pause", "-n", "shared", "broker-a-s").returncode == 0
    again = rmqlab("pause", "-n", "shared", "broker-a-s")
    assert (again.returncode, again.stderr) == (1, "rmqlab: broker-a-s is already paused\n")
    assert rmqlab("resume", "-n", "shared", "broker-a-s").returncode == 0
    assert rmqlab("resume", "-n", "shared", "broker-a-s").returncode == 1


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["kill", "-n", "shared", "broker-x"], 2, "nodes: namesrv-1, broker-a, broker-a-s"),
        (["logs", "-n", "shared", "broker-x"], 2, "broker-a:slave"),
        (["wait", "-n", "shared", "redy"], 2, "conditions: ready"),
        (
            ["wait", "-n", "shared", "stopped", "broker-a", "--timeout", "2"],
            1,
            "'stopped broker-a' is not true after 2 s; last seen: broker-a is ready",
        ),
        (["resume", "-n", "shared", "broker-a"], 1, "broker-a is ready, not paused"),
        (["start", "-n", "shared", "broker-a"], 1, "broker-a is already ready (pid "),
        (["up", "-n", "shared", "-d"], 1, "cluster shared is already up: `rmqlab down --name shared` stops it"),
        (["status", "-n", "nobody"], 1, "no cluster nobody in "),
        (["down", "-n", "nobody"], 1, "there are: shared"),
        (["status", "-n", "..x"], 2, "cluster name"),
        (["status", "-n", "./gone/x"], 1, "/gone/x: expected the directory of a cluster"),
        (["up", "-n", "./x", "-d"], 2, "a name without / for a new one"),
        (["produce", "-n", "shared", "-t", "a b"], 2, "topic 'a b' has a character"),
        (["produce", "-n", "shared", "--group", "a b"], 2, "group 'a b' has a character"),
        (["consume", "-n", "shared", "-g", ""], 2, "the group is blank"),
        (["consume", "-n", "shared", "--from", "middle"], 2, "--from middle: expected first or last"),
        (["up", "-n", "y", "--groups", "0"], 2, "groups = 0: expected 1 to 1232"),
        (["up", "-n", "y", "--nameservers", "0"], 2, "nameservers = 0: expected 1 to 19"),
        (
            ["up", "-n", "y", "--mode", "dledger", "--replicas", "0"],
            2,
            "replicas = 0: expected an odd number, 1 to 1231",
        ),
        (["up", "-n", "y", "--set", "foo=1"], 2, "unknown key foo; RocketMQ's settings files have no similar key"),
        (["up", "-n", "y", "--groups", "100000000"], 2, "groups = 100000000: expected 1 to 1232"),
        (["up", "-n", "y", "--role", "MASTER"], 2, "SYNC_MASTER"),
        (["up", "-n", "y", "--profile", "hard"], 2, "profile = 'hard': expected 4.9 or hardened"),
        (["up", "-n", "y", "--rate", "0"], 2, "rate = 0.0: expected 0.01 to 1000"),
        (["up", "-n", "y", "--rate", "1e9"], 2, "rate = 1000000000.0: expected 0.01 to 1000"),
        (["up", "-n", "y", "--set", "x"], 2, "expected KEY=VALUE"),
        (["up", "-n", "y", "--set", "brokerRol=X"], 2, "unknown key broker_rol; did you mean broker_role?"),
        (["up", "-n", "y", "--set", "traceOn=7"], 2, "trace_on = 7: expected true or false"),
        (["up", "-n", "y", "--set", "brokerRole=SLAVE"], 2, "each node has its own; say --role"),
        (["up", "-n", "y", "--set", "inSyncReplicas=3"], 2, "a group has 2 logs"),
        (["up", "-n", "y", "--unset", "traceOn"], 2, "--unset traceOn: the cluster has no such setting; it has: none"),
        (["diff", "-n", "shared", "namesrv-1", "broker-a"], 2, "namesrv-1 is a nameserver: only brokers"),
        (["up", "--grups", "2"], 2, "--grups"),
        (["explode"], 2, "explode"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(rmqlab: Run, arguments: list[str], status: int, text: str) -> None:
    done = rmqlab(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_profile_reaches_the_brokers(rmqlab: Run, home: pathlib.Path) -> None:
    done = rmqlab("up", "-n", "hard", "--profile", "hardened", "--rate", "4", "--detach")
    assert done.returncode == 0, done.stderr
    assert rmqlab("wait", "slave-connected", "broker-a-s", "-n", "hard").returncode == 0
    assert rmqlab("down", "-n", "hard").returncode == 0
    texts = [path.read_text() for path in (home / "hard").glob("broker-a*/*.toml")]
    assert len(texts) == 2
    assert all('profile = "hardened"' in text for text in texts)
    refused = rmqlab("up", "-n", "hard", "--profile", "softened", "--detach")
    assert refused.returncode == 2
    assert "profile" in refused.stderr


def test_a_broker_that_cannot_start_fails_the_start_with_its_own_words(
    rmqlab: Run, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text("accounts: [{accessKey: short, secretKey: 12345678}]")
    settings = ("--set", "aclEnable=true", "--set", f"rocketmqHome={tmp_path}")
    done = rmqlab("up", "-n", "bad", "--slaves", "0", *settings, "--detach")
    assert done.returncode == 1
    assert "broker-a ended with exit status 1" in done.stderr
    assert "ACL files cannot be used" in done.stderr
    assert not (home / "bad" / "control.sock").exists()
    assert "no cluster bad" in rmqlab("status", "-n", "bad").stderr  # what failed is not what the next start means


def test_settings_stay_until_they_are_taken_back(rmqlab: Run, home: pathlib.Path) -> None:
    def up(*arguments: str) -> dict[str, Any]:
        assert rmqlab("up", "-n", "kept", "--slaves", "0", "--detach", *arguments).returncode == 0
        settings: dict[str, Any] = status(rmqlab, "kept")["broker_settings"]
        assert rmqlab("down", "-n", "kept").returncode == 0
        return settings

    assert up("--set", "traceOn=false") == {"trace_on": False}
    assert up("--set", "regionId=here") == {"trace_on": False, "region_id": "here"}
    assert 'region_id = "here"' in (home / "kept" / "broker-a" / "config.toml").read_text()
    assert up("--unset", "traceOn") == {"region_id": "here"}


def test_a_setting_without_effect_is_reported_before_the_start(rmqlab: Run) -> None:
    done = rmqlab("up", "-n", "vain", "--slaves", "0", "--set", "serverSelectorThreads=7", "--detach")
    assert (done.returncode, done.stderr) == (0, "rmqlab: no effect here: server_selector_threads\n")
    assert rmqlab("down", "-n", "vain", "--purge").returncode == 0


def test_an_invalid_home_is_reported_in_one_line(rmqlab: Run, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_HOME", str(tmp_path / "file"))
        for arguments, status in ((("up", "--detach"), 1), (("up",), 1), (("demo",), 2)):
            done = rmqlab(*arguments)
            assert done.returncode == status
            assert done.stderr.startswith("rmqlab: ")
            assert done.stderr.count("\n") == 1


def test_an_invalid_network_is_reported_in_one_line(rmqlab: Run) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_NETWORK", "127.300")
        for arguments in (("up", "--detach"), ("scenarios",), ("status",)):
            done = rmqlab(*arguments)
            assert (done.returncode, done.stderr) == (
                2,
                "rmqlab: RMQLAB_NETWORK is '127.300': expected 127.1 to 127.254\n",
            )


def test_the_version_is_printed(rmqlab: Run) -> None:
    assert re.fullmatch(r"rmqlab \d+\.\d+\.\d+\n", rmqlab("--version").stdout)


def test_events_pass_over_single_messages_unless_asked(rmqlab: Run, shared: dict[str, Any]) -> None:
    assert shared["name"] == "shared"
    assert rmqlab("produce", "-n", "shared", "-t", "events", "-c", "3", "-r", "0").returncode == 0

    def kinds(*options: str) -> set[str]:
        lines = rmqlab("events", "-n", "shared", "--json", "-l", "10000", *options).stdout.splitlines()
        return {json.loads(line)["kind"] for line in lines}

    assert "sent" in kinds("--all")
    assert "sent" not in kinds()
    assert "node_ready" in kinds()
    assert kinds("--kind", "sent") == {"sent"}
    assert kinds("--kind", "sent", "-k", "node_ready") == {"sent", "node_ready"}


def test_events_are_filtered_by_kind_and_node(rmqlab: Run, shared: dict[str, Any], home: pathlib.Path) -> None:
    assert shared["name"] == "shared"

    def nodes(*options: str) -> set[str]:
        lines = rmqlab("events", "-n", "shared", "--json", "-l", "10000", *options).stdout.splitlines()
        return {json.loads(line)["node"] for line in lines}

    assert nodes("--node", "broker-a") == {"broker-a"}
    assert nodes("--node", "cluster") == {""}
    assert nodes("--node", "broker-a", "--node", "namesrv-1", "--kind", "node_ready") == {"broker-a", "namesrv-1"}
    (home / "stopped").mkdir()
    shutil.copytree(home / "shared" / "journal", home / "stopped" / "journal")
    for name in ("shared", "stopped"):
        for option, text in (
            (("--kind", "node_redy"), "no kind of event 'node_redy'; did you mean node_ready?"),
            (("--node", "brokr-a"), "; did you mean broker-a?"),
        ):
            done = rmqlab("events", "-n", name, *option)
            assert (done.returncode, done.stdout) == (2, "")
            assert text in done.stderr
    lines = rmqlab("events", "-n", "stopped", "--json", "--kind", "node_ready", "--node", "broker-a").stdout
    assert {(one["kind"], one["node"]) for one in map(json.loads, lines.splitlines())} == {("node_ready", "broker-a")}


def test_a_taken_port_is_reported_with_its_holder_and_nothing_starts(rmqlab: Run) -> None:
    assert rmqlab("up", "-n", "taken", "--slaves", "0", "--detach").returncode == 0
    host = status(rmqlab, "taken")["nodes"][1]["address"].partition(":")[0]
    assert rmqlab("down", "-n", "taken").returncode == 0
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 10911))
        holder.listen()
        done = rmqlab("up", "-n", "taken", "--detach")
    assert done.returncode == 1
    assert f"broker-a: {host}:10911 is taken by pid {os.getpid()}," in done.stderr
    assert rmqlab("down", "-n", "taken", "--purge").returncode == 0
    assert "no cluster taken" in rmqlab("status", "-n", "taken").stderr


def test_a_detached_supervisor_killed_with_9_leaves_nothing_behind(rmqlab: Run) -> None:
    assert rmqlab("up", "-n", "victim", "--detach").returncode == 0
    document = status(rmqlab, "victim")
    rmqlab("pause", "-n", "victim", "broker-a")
    ends = [os.pidfd_open(node["pid"]) for node in document["nodes"]]
    os.kill(document["supervisor_pid"], signal.SIGKILL)
    for end in ends:
        with os.fdopen(end) as descriptor:
            assert select.select([descriptor], [], [], 30)[0]
    again = rmqlab("up", "-n", "victim", "--detach", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["namesrv_addr"] == document["namesrv_addr"]
    assert rmqlab("down", "-n", "victim").returncode == 0


def test_ctrl_c_in_the_foreground_stops_all_without_noise(home: pathlib.Path, rmqlab: Run) -> None:
    command = [sys.executable, "-m", "rmqlab.cluster", "up", "-n", "front", "--slaves", "0"]
    environment = {**os.environ, "RMQLAB_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        shown = []
        for line in up.stdout:
            shown.append(line)
            if "Ctrl-C" in line:
                break
        assert rmqlab("produce", "-n", "front", "-c", "3", "-r", "0").returncode == 0
        up.send_signal(signal.SIGINT)
        rest, errors = up.communicate(timeout=30)
    assert (up.returncode, errors) == (0, "")
    assert rest.endswith("stopped\n")
    assert "SEND_OK=3" in rest
    assert "outcome=" not in rest, "single messages are the business of who sends them"
    text = "".join(shown)
    assert re.search(r"export NAMESRV_ADDR='[\d.:]+'", text)
    assert re.search(r"broker-a +ASYNC_MASTER +ready", text)
