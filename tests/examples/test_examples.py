"""The example scripts, run as a reader would run them, against our servers."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@contextlib.contextmanager
def serving(module: str, config: pathlib.Path, ready: str) -> Iterator[str]:
    """Run a server process; give the address that its ready line tells."""
    with subprocess.Popen(
        [sys.executable, "-m", module, str(config)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if found := re.search(ready, line):
                    yield found[1]
                    break
            else:
                raise AssertionError("".join(lines))
        finally:
            process.terminate()
            process.communicate(timeout=30)


@pytest.fixture(scope="module")
def namesrv_addr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server and one master, on ports that the system chooses."""
    home = tmp_path_factory.mktemp("cluster")
    (home / "ns.toml").write_text(
        f'listen_port = 0\nkv_config_path = "{home}/kv.json"\nconfig_store_path = "{home}/ns.properties"\n'
    )
    with serving("nameserver", home / "ns.toml", r"READY (\S+)") as address:
        (home / "broker.toml").write_text(
            f'namesrv_addr = "{address}"\nlisten_port = 0\nfast_listen_port = 0\nha_listen_port = 0\n'
            f'store_path_root_dir = "{home}/store"\nmapped_file_size_commit_log = 4194304\n'
        )
        with serving("broker", home / "broker.toml", r" ready address=(\S+)"):
            yield address


def run(name: str, *args: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_produced_is_consumed_and_pulled_and_counted(namesrv_addr: str) -> None:
    produced = run("produce", namesrv_addr, "orders")
    assert [line.split()[:3] for line in produced] == [[str(number), "SEND_OK", "broker-a"] for number in range(10)]
    bodies = {f"order {number}" for number in range(10)}
    assert {" ".join(line.split()[3:]) for line in run("consume", namesrv_addr, "orders", "--count", "10")} == bodies
    assert {" ".join(line.split()[3:]) for line in run("pull", namesrv_addr, "orders")} == bodies
    broker, *queues = run("admin", namesrv_addr, "--topic", "orders")
    assert broker.startswith("DefaultCluster broker-a master ")
    assert sum(int(line.split()[3]) for line in queues) == 10
    assert "topic orders" in run("admin", namesrv_addr)


def test_a_consumer_that_is_interrupted_ends_without_noise(namesrv_addr: str) -> None:
    run("produce", namesrv_addr, "interrupted")
    with subprocess.Popen(
        [sys.executable, "-u", "examples/consume.py", namesrv_addr, "interrupted"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        assert "order" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
