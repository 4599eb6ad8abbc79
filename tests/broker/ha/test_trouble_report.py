"""`ha_report_trouble` on a slave, which reports before it closes the connection."""

import contextlib
import errno
import logging
import struct
from collections.abc import AsyncIterator
from typing import Any, cast

import attrs
import pytest
import trio

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master_precheck import Identity
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import MemoryLog, Recorder
from rmqlab.broker.ha.trouble_report import LEAST_INTERVAL, TroubleReporter
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.testing import ScriptedClient

MASTER = "10.0.0.1:10911"
FULL = OSError(errno.ENOSPC, "No space left on device")


@attrs.define
class Reports:
    """A reporter, its connection to the master, and its clock."""

    client: ScriptedClient = attrs.field(factory=ScriptedClient)
    known_master: KnownMaster = attrs.field(factory=lambda: KnownMaster(address=MASTER))
    seconds: float = 100.0
    reporter: TroubleReporter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        identity, client = Identity("DefaultCluster", "broker-a"), cast("Any", self.client)
        self.reporter = TroubleReporter(identity, 1, "broker-a-s", client, self.known_master, lambda: self.seconds)

    def replies(self, code: ResponseCode | None) -> None:
        self.client.replies[MASTER] = None if code is None else Command(code, remark="a remark")

    @property
    def texts(self) -> list[str]:
        return [command.ext_fields["text"] for _, _, command in self.client.asked]


async def test_the_report_has_all_that_its_master_checks() -> None:
    reports = Reports()
    await reports.reporter.report("full\n" + "x" * 5000, 4711)
    ((_, address, command),) = reports.client.asked
    assert (address, command.code) == (MASTER, RequestCode.REPORT_SLAVE_TROUBLE)
    assert command.ext_fields == {
        "clusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "1",
        "slaveName": "broker-a-s",
        "haPort": "4711",
        "text": ("full\\n" + "x" * 5000)[:200],
    }


async def test_reports_leave_a_second_between_them() -> None:
    reports = Reports()
    for text in ("first", "too soon"):
        await reports.reporter.report(text, 1)
    reports.seconds += LEAST_INTERVAL
    await reports.reporter.report("later", 1)
    assert reports.texts == ["first", "later"]


async def test_without_a_registered_master_there_is_no_report() -> None:
    reports = Reports(known_master=KnownMaster())
    await reports.reporter.report("full", 1)
    assert reports.texts == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (ResponseCode.SUCCESS, 0),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 0),
        (ResponseCode.NO_PERMISSION, 1),
        (None, 1),
    ],
)
async def test_a_refusal_changes_nothing_and_is_logged_once(
    caplog: pytest.LogCaptureFixture, code: ResponseCode | None, lines: int
) -> None:
    """A real master replies code 3."""
    reports = Reports()
    reports.replies(code)
    for _ in range(3):
        await reports.reporter.report("full", 1)
        reports.seconds += LEAST_INTERVAL
    assert reports.texts == ["full"] * 3
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == lines


# ---- the slave's side of replication -------------------------------------------------------------------------


@attrs.define
class Observer:
    """In the place of a TroubleReporter: holds each report until a test lets it go on."""

    recorder: Recorder
    reports: list[tuple[str, int]] = attrs.field(factory=list)
    may_end: trio.Event = attrs.field(factory=trio.Event)

    async def report(self, text: str, ha_port: int) -> None:
        self.reports.append((text, ha_port))
        self.recorder.changed()
        await self.may_end.wait()


@attrs.define
class RejectsAll:
    """In the place of a MasterPrecheck."""

    verdict = "it belongs to another group"

    async def is_fit(self, _ha_address: str, _settings: HaSettings) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    def begin(self, _settings: HaSettings) -> None: ...

    def find_fault(self) -> str | None: ...


@attrs.define
class Following:
    """A slave that follows a socket of the test."""

    reactor: Reactor
    nursery: trio.Nursery
    recorder: Recorder
    listener: trio.SocketListener
    log: MemoryLog = attrs.field(factory=lambda: MemoryLog(first=0))
    streams: list[trio.SocketStream] = attrs.field(factory=list)
    observer: Observer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.observer = Observer(self.recorder)

    async def connect(self, *, switch: bool = True, **options: Any) -> trio.SocketStream:
        host, port = self.listener.socket.getsockname()
        settings = HaSettings(ha_report_at_once=True, ha_report_trouble=switch, ha_master_address=f"{host}:{port}")
        slave = HaSlave(
            self.reactor,
            self.log,
            settings,
            KnownMaster.from_settings(settings),
            on_received=self.recorder.changed,
            emit=self.recorder.emit,
            trouble_observer=self.observer,
            **options,
        )
        self.nursery.start_soon(slave.run_forever)
        self.streams.append(await self.listener.accept())
        return self.streams[0]


@pytest.fixture
async def following(reactor: Reactor, nursery: trio.Nursery, recorder: Recorder) -> AsyncIterator[Following]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made = Following(reactor, nursery, recorder, listener)
    yield made
    for one in (listener, *made.streams):
        await trio.aclose_forcefully(one)
    nursery.cancel_scope.cancel()


async def until_closed(stream: trio.SocketStream) -> None:
    """Read to the end of the stream."""
    with trio.fail_after(30), contextlib.suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass


def frame(offset: int, body: bytes) -> bytes:
    return struct.pack(">qi", offset, len(body)) + body


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (0, "cannot append 5 bytes at 0: No space left on device"),
        (7, "it sent bytes from 7 on, our log ends at 5"),
    ],
)
async def test_a_slave_reports_its_trouble_and_closes_afterwards(
    following: Following, recorder: Recorder, offset: int, text: str
) -> None:
    if offset:
        following.log.append(b"12345")
    else:
        following.log.fails_with = FULL
    stream = await following.connect()
    await stream.send_all(frame(offset, b"hello"))
    await recorder.wait_until(lambda: bool(following.observer.reports))
    assert following.observer.reports == [(text, stream.socket.getpeername()[1])]
    assert "ha_client_disconnected" not in recorder.kinds
    following.observer.may_end.set()
    await until_closed(stream)
    await recorder.wait_until(lambda: "ha_client_disconnected" in recorder.kinds)
    assert recorder.reasons("ha_client_disconnected") == [text]


async def test_a_slave_reports_that_it_rejects_its_master(following: Following, recorder: Recorder) -> None:
    stream = await following.connect(master_check=RejectsAll())
    await recorder.wait_until(lambda: bool(following.observer.reports))
    assert following.observer.reports == [("it belongs to another group", stream.socket.getpeername()[1])]
    following.observer.may_end.set()
    await until_closed(stream)


async def test_in_4_9_a_slave_reports_nothing(following: Following, recorder: Recorder) -> None:
    following.log.fails_with = FULL
    stream = await following.connect(switch=False)
    await stream.send_all(frame(0, b"hello"))
    await recorder.wait_until(lambda: "ha_client_disconnected" in recorder.kinds)
    assert following.observer.reports == []


async def test_an_end_that_the_master_made_is_not_reported(following: Following, recorder: Recorder) -> None:
    stream = await following.connect()
    await stream.aclose()
    await recorder.wait_until(lambda: "ha_client_disconnected" in recorder.kinds)
    assert following.observer.reports == []
