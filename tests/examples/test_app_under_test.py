"""The pytest plugin, as used by a team that installed rmqlab with its application."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(400)  # whole runs of pytest: long on a busy machine

ROOT = pathlib.Path(__file__).parents[2]

BAD = """\
import pytest

def test_that_fails(rmq_cluster):
    rmq_cluster.produce("orders", 3)
    assert rmq_cluster.findings()["lost"].value == 0
    rmq_cluster.pause("broker-a:master")
    raise AssertionError("fails, with the cluster's events in the report")

@pytest.mark.rmq_cluster(slave=3)
def test_with_a_misspelt_key(rmq_cluster):
    pass

@pytest.mark.rmq_cluster("SYNC_MASTER")
def test_with_a_value_without_a_key(rmq_cluster):
    pass

@pytest.mark.rmq_cluster(role="MASTER")
def test_with_an_invalid_role(rmq_cluster):
    pass

@pytest.mark.rmq_cluster(broker_settings={"flush_disk_typ": "SYNC_FLUSH"})
def test_with_a_misspelt_setting(rmq_cluster):
    pass

async def test_in_trio(rmq_trio_cluster):
    await rmq_trio_cluster.kill("broker-a:slave")
    await rmq_trio_cluster.wait_until("killed broker-a:slave")
"""


def start(cwd: pathlib.Path, scratch: pathlib.Path, *arguments: str) -> subprocess.Popen[str]:
    """Run pytest in `cwd`.

    `scratch` is its own: in the one that all runs of a user share, two that end at once
    sweep out each other's garbage, and pytest warns of that.
    """
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={scratch}", *arguments]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_tests_of_the_small_application_pass_in_two_processes_at_once(tmp_path: pathlib.Path) -> None:
    app = ROOT / "examples" / "app_under_test"
    with (
        start(app, tmp_path / "one", "-k", "arrives") as one,
        start(app, tmp_path / "other", "-k", "no_order_is_lost") as other,
    ):
        for run in (one, other):
            output, _ = run.communicate(timeout=300)
            assert run.returncode == 0, output
            assert "1 passed" in output


def test_a_failed_test_reports_the_events_and_a_misspelt_key_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    (tmp_path / "test_bad.py").write_text(BAD)
    with start(tmp_path, tmp_path / "scratch") as run:
        output, _ = run.communicate(timeout=300)
    assert run.returncode == 1, output
    assert "1 failed, 1 passed, 4 errors" in output
    assert "During handling of the above exception" not in output
    events = [line for line in output.splitlines() if re.match(r" +\+\d+\.\d{3} s  ", line)]
    assert any(line.endswith("…") for line in events), output  # of a new route, which lists all topics
    assert max(map(len, events)) == 120
    assert "what happened in rmq_cluster" in output
    assert sum(map(int, re.findall(r"(\d) x sent SEND_OK", output))) == 3, output  # an event may come between two
    assert "node_paused" in output
    assert re.search("slave.*did you mean slaves", output), output
    assert "rmq_cluster: 'SYNC_MASTER': expected keys of ClusterSpec, such as slaves=2" in output
