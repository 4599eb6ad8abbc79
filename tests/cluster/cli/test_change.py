"""The commands add and remove, and options for settings, as a user types them."""

import json
import pathlib
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def rmqlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a command in a home with one cluster, which runs."""
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str) -> Result:
        return CliRunner(env={"RMQLAB_HOME": str(home)}).invoke(app, arguments, prog_name="rmqlab")

    up = run("up", "--slaves", "0", "--detach", "--set", "broker-a:syncFlushTimeout=3000")
    assert up.exit_code == 0, up.stderr
    assert "broker-a: sync_flush_timeout=3000" in up.stdout
    yield run
    assert run("down").exit_code == 0


def node_settings(rmqlab: Run) -> object:
    return json.loads(rmqlab("status", "--json").stdout)["node_settings"]


def test_nodes_can_be_added_and_removed(rmqlab: Run) -> None:
    added = rmqlab("add", "slave", "broker-a", "--set", "slaveReadEnable=true")
    assert added.stdout.startswith("broker-a-s is ready at 127."), added.stderr
    assert node_settings(rmqlab)["broker-a-s"] == {"slave_read_enable": True}  # type: ignore[index]  # a JSON document
    (nameserver,) = json.loads(rmqlab("add", "nameserver", "--json").stdout)
    assert (nameserver["name"], nameserver["state"], nameserver["uninformed"]) == ("namesrv-2", "ready", [])
    (removed,) = json.loads(rmqlab("remove", "namesrv-1", "--json").stdout)
    assert (removed["name"], pathlib.Path(removed["data_dir"]).name) == ("namesrv-1", "namesrv-1")
    back = rmqlab("add", "nameserver", "namesrv-1").stdout.splitlines()
    assert back[0].startswith("namesrv-1 is ready")
    assert back[1:] == ["brokers register with it within 30 s; running clients keep their list of nameservers"]
    gone = rmqlab("remove", "broker-a:slave").stdout
    assert gone.startswith("broker-a-s is removed; its data stay in ")
    assert pathlib.Path(gone.split()[-1], "store").is_dir()
    assert "broker-a-s" not in node_settings(rmqlab)  # type: ignore[operator]  # a JSON document


def test_a_restart_changes_settings(rmqlab: Run) -> None:
    done = rmqlab("restart", "broker-a", "--set", "slaveReadEnable=true")
    assert done.stdout.startswith("broker-a is ready (pid "), done.stderr
    assert node_settings(rmqlab) == {
        "broker-a": {"sync_flush_timeout": 3000},
        "broker-a:master": {"slave_read_enable": True},
    }


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("add slave broker-b", 2, "unknown name 'broker-b'; did you mean broker-a?"),
        ("add group broker-a", 1, "broker-a is already a group of this cluster"),
        ("add group --set broker-a:x=1", 2, "--set broker-a:x: expected a key without a target"),
        ("add group --set slaveRedEnable=true", 2, "unknown key slave_red_enable; did you mean slave_read_enable?"),
        ("add slave broker-a -n other", 1, "no cluster other in "),
        ("remove broker-b:*", 2, "no node 'broker-b:*' here"),
        ("remove broker-a", 1, "broker-a is the last broker group"),
        ("restart broker-a --set brokerId=3", 2, "broker setting broker_id: each node has its own"),
        ("restart namesrv-2 --set slaveReadEnable=true", 1, "namesrv-2 is a nameserver: only brokers have settings"),
        ("start broker-a --set slaveReadEnable=false", 1, "broker-a is already ready (pid "),
        ("up --detach", 1, "cluster default is already up: `rmqlab down` stops it; `rmqlab add`, `rmqlab remove` and"),
    ],
)
def test_an_invalid_change_is_reported_in_one_line_and_changes_nothing(
    rmqlab: Run, arguments: str, status: int, said: str
) -> None:
    before = json.loads(rmqlab("status", "--json").stdout)
    done = rmqlab(*arguments.split())
    assert (done.exit_code, done.stdout) == (status, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    after = json.loads(rmqlab("status", "--json").stdout)
    names = [[node["name"] for node in document["nodes"]] for document in (before, after)]
    assert names[0] == names[1]
    assert before["node_settings"] == after["node_settings"]


def test_up_rejects_settings_for_no_broker(rmqlab: Run) -> None:
    done = rmqlab("up", "-n", "new", "--detach", "--set", "broker-z:slaveReadEnable=true")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no broker 'broker-z' here; did you mean broker-a?" in done.stderr
    done = rmqlab("up", "-n", "new", "--detach", "--set", "namesrv-1:slaveReadEnable=true")
    assert "namesrv-1 is a nameserver: expected a broker" in done.stderr
    done = rmqlab("up", "-n", "new", "--detach", "--unset", "broker-a:slaveReadEnable")
    assert "--unset broker-a:slaveReadEnable: the cluster has no such setting; it has: none" in done.stderr
