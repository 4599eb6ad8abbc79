"""Registration with failures: invalid or late replies, and errors of our own."""

import pathlib
from types import SimpleNamespace

import msgspec
import pytest

from rmqlab.broker.scripted import ScriptedTasks
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.testing import ScriptedClient
from tests.broker.registrations import FIRST, open_registration, registration_reply

NONSENSE = {
    "a body that is no JSON": registration_reply({}, b"\xff\x00 what"),
    "a table of another type": registration_reply({}, b'{"table":[1,2]}'),
    "values of another type": registration_reply({}, b'{"table":{"T":{"a":1}}}'),
    "a body nested deep": registration_reply({}, b"[" * 100_000),
    "an unknown code": Command(70_000, remark="what\x1b[31m" * 1000),
    "a negative code": Command(-1),
    "fields that are no object": Command(ResponseCode.SUCCESS, raw_fields=msgspec.Raw(b"[1]")),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
async def test_an_invalid_reply_is_logged_once_and_the_next_nameserver_is_used(
    tmp_path: pathlib.Path, nonsense: Command, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 12.14: it ended the broker."""
    good = registration_reply(
        {"masterAddr": "m:10911", "haServerAddr": "m:10912"}, b'{"table":{"BenchmarkTest":"b:4"}}'
    )
    registration, masters = open_registration(tmp_path, ScriptedClient({"n1:9876": nonsense, "n2:9876": good}))
    for _ in range(3):
        await registration._register(is_forced=True)
    assert "n2:9876" in registration.registered
    assert masters[-1] == ("m:10911", "m:10912")
    assert len(caplog.records) <= 1
    assert "\x1b" not in caplog.text
    assert len(caplog.text) < 1000
    assert not registration.errors.counts


@pytest.mark.parametrize(
    "address",
    [
        "m",
        ":10911",
        "m:",
        "m:99999",
        "m:0",
        "m:-1",
        "m:" + "9" * 5000,
        "m:x",
        "h" * 400 + ":1",
        "\x1b[2J:1",
        "\u00e9:1",
        "\ud800:1",
    ],
)
async def test_an_invalid_master_address_is_ignored_and_logged_once(
    tmp_path: pathlib.Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = registration_reply({"masterAddr": address, "haServerAddr": address})
    registration, masters = open_registration(tmp_path, ScriptedClient({FIRST: said}), namesrv_addr=FIRST)
    for _ in range(3):
        await registration._register(is_forced=True)
    assert masters == [(None, None)] * 3
    assert len(caplog.records) == 2  # for each of both addresses
    assert "\x1b" not in caplog.text


async def test_a_slave_that_is_sent_to_itself_stays_without_a_master(tmp_path: pathlib.Path) -> None:
    said = registration_reply({"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"})
    registration, masters = open_registration(
        tmp_path, ScriptedClient({FIRST: said}), namesrv_addr=FIRST, broker_role="SLAVE", broker_id=1
    )
    await registration._register(is_forced=True)
    assert masters == [(None, None)]


@pytest.mark.parametrize(
    "nonsense",
    [
        registration_reply({"changed": "false"}, b"\xff what"),
        registration_reply({"changed": "false"}, b'{"counter":"many"}'),
    ],
)
async def test_a_data_version_that_does_not_parse_counts_as_another(
    tmp_path: pathlib.Path, nonsense: Command, caplog: pytest.LogCaptureFixture
) -> None:
    """BrokerOuterAPI.needRegister."""
    client = ScriptedClient({("n1:9876", RequestCode.QUERY_DATA_VERSION): nonsense})
    registration, _ = open_registration(tmp_path, client)
    for _ in range(2):
        await registration._register(is_forced=False)
    assert [command.code for _, _, command in client.asked].count(RequestCode.REGISTER_BROKER) == 4
    assert len(caplog.records) == 1


VERSION = (FIRST, RequestCode.QUERY_DATA_VERSION)
RECOVERIES = {
    "a nameserver that is away": (FIRST, None, registration_reply({})),
    "an invalid address of the master": (
        FIRST,
        registration_reply({"masterAddr": "m"}),
        registration_reply({"masterAddr": "m:10911"}),
    ),
    "a version that does not parse": (
        VERSION,
        registration_reply({"changed": "false"}, b"what"),
        registration_reply({"changed": "false"}),
    ),
}


@pytest.mark.parametrize(("asked", "failure", "success"), RECOVERIES.values(), ids=RECOVERIES)
async def test_a_failure_that_returns_after_a_success_is_logged_again(
    tmp_path: pathlib.Path,
    asked: str | tuple[str, int],
    failure: Command | None,
    success: Command,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client, namesrv_addr=FIRST)
    for reply in (failure, failure, success, failure):
        client.replies[asked] = reply
        await registration._register(is_forced=asked != VERSION)
    assert len(caplog.records) == 2


async def test_a_registration_callback_runs_although_another_one_raises(tmp_path: pathlib.Path) -> None:
    tasks = ScriptedTasks()
    registration, _ = open_registration(tmp_path, ScriptedClient(), tasks)
    notified: list[str] = []

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    registration.register_soon("TBW102", then=fail)
    registration.register_soon("TBW102", then=lambda: notified.append("second"))
    await tasks.run_all()
    assert notified == ["second"]
    assert registration.errors.counts == {"registration callback": 1}


async def test_an_unexpected_failure_does_not_stop_the_other_nameservers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ScriptedClient()
    ask = client.request

    async def fail(address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109
        if address == "n1:9876":
            raise RuntimeError("a fault of ours")
        return await ask(address, command, timeout)

    registration, _ = open_registration(tmp_path, client)
    monkeypatch.setattr(registration, "client", SimpleNamespace(request=fail))
    await registration._register(is_forced=True)
    assert registration.registered == {"n2:9876"}
    assert registration.errors.counts == {"registration": 1}


async def test_topics_that_do_not_fit_into_a_frame_are_named_and_not_sent(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nameserver resets the connection of a larger frame, and neither side says why."""
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client)
    monkeypatch.setattr("rmqlab.broker.registration.MAX_BODY", 100)
    for _ in range(2):
        await registration._register_topics(registration.topics.topics.values())
    assert client.asked == []
    (record,) = caplog.records
    assert f"not registered: {len(registration.topics.topics)} topics have" in record.message
    assert record.message.endswith("at most 100: delete some")
