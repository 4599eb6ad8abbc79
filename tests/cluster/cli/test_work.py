"""Workloads in a cluster that wants signatures."""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.supervisor.fork.ownmodules import module_command

Run = Callable[..., Result]
KEYS = {"RMQLAB_ACCESS_KEY": "shop-writes", "RMQLAB_SECRET_KEY": "secret-of-shop"}
_ACCOUNTS = """\
accounts:
- accessKey: shop-writes
  secretKey: secret-of-shop
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def rmqlab(home: pathlib.Path) -> Iterator[Run]:
    """Run a command of a home that has one cluster, which rejects unsigned requests."""
    accounts = home / "rocketmq" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(_ACCOUNTS)

    def run(*arguments: str, **env: str) -> Result:
        return CliRunner(env={"RMQLAB_HOME": str(home), **env}).invoke(app, arguments, prog_name="rmqlab")

    settings = ("--set", "acl_enable=true", "--set", f"rocketmq_home={home / 'rocketmq'}")
    up = run("up", "--slaves", "0", "--detach", *settings)
    assert up.exit_code == 0, up.stderr
    yield run
    assert run("down").exit_code == 0


def test_produce_and_consume_sign_with_the_account_that_they_are_given(rmqlab: Run) -> None:
    account = ("--access-key", "shop-writes", "--secret-key", "secret-of-shop")
    made = rmqlab("produce", "-t", "orders", "-c", "3", "-r", "0", *account)
    assert made.exit_code == 0, made.stdout + made.stderr
    got = rmqlab("consume", "-t", "orders", "-c", "3", "--json", **KEYS)
    assert got.exit_code == 0, got.stdout + got.stderr
    events = [json.loads(line) for line in got.stdout.splitlines()]
    assert sorted(event["number"] for event in events if event["kind"] == "delivered") == [1, 2, 3]
    assert "route_missing" not in {event["kind"] for event in events}


def test_the_counts_of_failures_are_printed_before_the_totals(rmqlab: Run) -> None:
    unsigned = rmqlab("produce", "-t", "orders", "-c", "5", "-r", "0")
    lines = unsigned.stdout.splitlines()
    counted = [number for number, line in enumerate(lines) if line.endswith(" times)")]
    (total,) = (number for number, line in enumerate(lines) if "  produced  " in line)
    assert counted
    assert max(counted) < total, unsigned.stdout


def test_a_consumer_without_a_route_says_that_it_waits_for_one(rmqlab: Run, home: pathlib.Path) -> None:
    assert rmqlab("status").exit_code == 0
    command = module_command("rmqlab.cluster", "consume", "-t", "none-yet")
    env = {**os.environ, **KEYS, "RMQLAB_HOME": str(home)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        try:
            assert any("no route of topic none-yet yet: waiting for one" in line for line in consumer.stdout)
        finally:
            consumer.terminate()


@pytest.mark.parametrize("env", [{}, {**KEYS, "RMQLAB_SECRET_KEY": "secret-of-mallory"}], ids=["unsigned", "wrong"])
def test_unsigned_and_wrongly_signed_requests_are_rejected(rmqlab: Run, env: dict[str, str]) -> None:
    refused = rmqlab("produce", "-t", "orders", "-c", "40", "-r", "0", **env)
    assert refused.exit_code == 1
    assert "AclException" in refused.stdout
    assert " times)" in refused.stdout
    assert len(refused.stdout.splitlines()) < 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--access-key", "shop-writes", "--secret-key", "123456"], "the secret key has 6 characters: plain_acl.yml"),
        (["--access-key", "shop", "--secret-key", "secret-of-shop"], "the access key has 4 characters: plain_acl.yml"),
        (["--access-key", "shop-writes"], "the secret key is missing"),
        (["--secret-key", "secret-of-shop"], "the access key is missing"),
    ],
)
@pytest.mark.parametrize("command", ["produce", "consume"])
def test_invalid_account_keys_are_reported_without_printing_them(
    rmqlab: Run, command: str, arguments: list[str], text: str
) -> None:
    done = rmqlab(command, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr
    assert "123456" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_secret_stays_in_no_file(rmqlab: Run, home: pathlib.Path) -> None:
    """Only the workload's settings file has it, until the process has read it.

    Only its owner can read this file.
    """
    assert rmqlab("produce", "-t", "orders", "-c", "1", "-r", "0", **KEYS).exit_code == 0
    secret = KEYS["RMQLAB_SECRET_KEY"].encode()
    assert rmqlab("down").exit_code == 0  # or a file that a broker replaces is gone before it is read
    files = [path for path in (home / "default").rglob("*") if path.is_file() and "commitlog" not in path.parts]
    assert [path for path in files if secret in path.read_bytes()] == []
    made_by_us = [path for path in files if "store" not in path.parts]
    assert [path for path in made_by_us if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ("produce --size 67108865", "0<=x<=67108864"),
        ("produce --size-spread 67108865", "0<=x<=67108864"),
        ("produce --senders 10001", "1<=x<=10000"),
        ("produce --rate-per-second 1000001", "0<=x<=1000000"),
        ("produce --timeout 2592001", "0.001<=x<=2592000"),
        ("consume --work 2592001", "0<=x<=2592000"),
    ],
)
def test_values_that_no_workload_accepts_are_errors_of_their_options(words: str, bound: str) -> None:
    """The process of the workload rejected them, and named its settings file."""
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert f"Invalid value for '{words.split()[1]}'" in done.stderr
    assert bound in done.stderr
