"""The example scripts, run as a reader would run them, against our servers."""

import contextlib
import pathlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.timeout(400)  # several programs each: long on a busy machine

ROOT = pathlib.Path(__file__).parents[2]


@contextlib.contextmanager
def serving(module: str, config: pathlib.Path, ready: str) -> Iterator[str]:
    """Run a server process; return the address in its ready line."""
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


@contextlib.contextmanager
def master_serving(home: pathlib.Path, *settings: str) -> Iterator[str]:
    """Run a nameserver and one master; return the nameserver's address.

    The system chooses their ports. `settings` are lines of the broker's TOML file.
    """
    (home / "ns.toml").write_text(
        f'listen_port = 0\nkv_config_path = "{home}/kv.json"\nconfig_store_path = "{home}/ns.properties"\n'
    )
    with serving("nameserver", home / "ns.toml", r"READY (\S+)") as address:
        lines = (
            f'namesrv_addr = "{address}"',
            *(f"{kind}listen_port = 0" for kind in ("", "fast_", "ha_")),
            f'store_path_root_dir = "{home}/store"',
            "mapped_file_size_commit_log = 4194304",
            *settings,
        )
        (home / "broker.toml").write_text("\n".join(lines))
        with serving("broker", home / "broker.toml", r" ready address=(\S+)"):
            yield address


@pytest.fixture(scope="module")
def namesrv_addr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with master_serving(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def run(name: str, *args: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_produced_messages_are_consumed_pulled_and_counted(namesrv_addr: str) -> None:
    produced = run("produce", namesrv_addr, "orders")
    assert [line.split()[:3] for line in produced] == [[str(number), "SEND_OK", "broker-a"] for number in range(10)]
    bodies = {f"order {number}" for number in range(10)}
    assert {" ".join(line.split()[3:]) for line in run("consume", namesrv_addr, "orders", "--count", "10")} == bodies
    assert {" ".join(line.split()[3:]) for line in run("pull", namesrv_addr, "orders")} == bodies
    broker, *queues = run("admin", namesrv_addr, "--topic", "orders")
    assert broker.startswith("DefaultCluster broker-a master ")
    assert sum(int(line.split()[3]) for line in queues) == 10
    assert "topic orders" in run("admin", namesrv_addr)


CLIENTS = sorted(
    path.stem for path in (ROOT / "examples").glob("*.py") if "without_traceback()" in path.read_text(encoding="utf-8")
)


def test_without_a_nameserver_an_example_ends_with_one_line() -> None:
    assert {"ordered", "delayed", "pull", "asyncio_app", "admin"} <= {*CLIENTS}
    endless = {"consume", "produce"}  # waits for the route, and prints an outcome for each message
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for name in sorted({*CLIENTS} - endless):
            command = [sys.executable, f"examples/{name}.py", address, *(["carts"] if name != "admin" else [])]
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
                env={"PYTHONPATH": str(ROOT)},
            )
            last = f"no nameserver can be reached: no connection to {address}: Connection refused"
            assert (name, done.returncode, done.stderr.splitlines()[-1]) == (name, 1, last)
            assert "Traceback" not in done.stderr


def test_every_way_to_send_is_shown(namesrv_addr: str) -> None:
    sent, batch, queue, background, oneway = run("producers", namesrv_addr, "sends")
    assert sent.startswith("sent SEND_OK ")
    assert batch == "batch SEND_OK 3"
    assert queue == "queue 0"
    assert background == "background 5"
    assert oneway.startswith("oneway ")


def test_messages_of_one_customer_stay_in_order(namesrv_addr: str) -> None:
    assert run("ordered", namesrv_addr, "carts") == [
        f"{customer} opened filled paid shipped" for customer in ("ann", "bob", "eve")
    ]


def test_a_delayed_message_is_delivered_later(namesrv_addr: str) -> None:
    at_once, later = sorted(run("delayed", namesrv_addr, "reminders"))  # who starts late finds both there
    assert at_once == "level 0 came after 0 s"
    assert re.fullmatch(r"level 1 came after [1-9]\d* s", later)


def test_a_transaction_is_consumed_or_never_was(namesrv_addr: str) -> None:
    assert run("transaction", namesrv_addr, "payments") == [
        "bob 30 SEND_OK ROLLBACK",
        "ann 30 SEND_OK COMMIT",
        "consumed: ann 30",
    ]


def test_no_transaction_begins_where_the_slave_is_missing(tmp_path: pathlib.Path) -> None:
    with master_serving(tmp_path, 'broker_role = "SYNC_MASTER"') as address:
        assert run("transaction", address, "payments") == [
            "bob 30 SLAVE_NOT_AVAILABLE ROLLBACK",
            "ann 30 SLAVE_NOT_AVAILABLE ROLLBACK",
            "no transaction is committed, thus nothing to consume",
        ]


def test_a_request_gets_a_reply_or_reports_a_timeout(namesrv_addr: str) -> None:
    assert run("request_reply", namesrv_addr, "prices") == [
        "RB-1 costs 9.99",
        "RB-2 costs 24.50",
        "RB-3 - the request to prices is stored, but no reply arrived within 5 s",
    ]


def test_every_member_gets_what_is_broadcast(namesrv_addr: str) -> None:
    items = " ".join(f"item-{number}" for number in range(5))
    assert sorted(run("broadcast", namesrv_addr, "news")) == [f"paper {items}", f"radio {items}"]


def test_a_lite_pull_consumer_begins_where_it_wants(namesrv_addr: str) -> None:
    assert run("lite_pull", namesrv_addr, "lite") == ["3 order 3", "4 order 4", "5 order 5"]


def test_the_client_works_in_an_application_on_asyncio(namesrv_addr: str) -> None:
    *sent, received = run("asyncio_app", namesrv_addr, "asynchronous")
    assert sent == ["sent SEND_OK"] * 10
    assert received == ", ".join(["received", *(f"order {number}" for number in range(10))])


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


def test_an_invalid_address_ends_an_example_with_one_line() -> None:
    command = [sys.executable, "examples/pull.py", "nonsense", "carts"]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env=environment)
    line = "namesrv_addr = 'nonsense': expected host:port, several separated by ;\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)
