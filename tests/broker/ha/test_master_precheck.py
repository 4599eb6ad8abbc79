"""A slave's caution before it follows, and what comes without it: pairs of 4.9 and the switches, on real stores."""

import contextlib
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.master_precheck import (
    TIMEOUT,
    CheckUnsupported,
    Identity,
    MasterPrecheck,
    identity_of,
    log_span_of,
)
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.channel import ConnectError, RequestTimeoutError
from rmqlab.runtime.reactor import Reactor
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import reset_store, truncate

FILE = 65_536
OUR_CLUSTER = Identity("DefaultCluster", "broker-a")

Opener = Callable[..., TalkingBroker]


@attrs.define
class Line:
    """In the place of a RemotingClient: every address leads to one broker."""

    broker: TalkingBroker
    refuses: set[int] = attrs.field(factory=set)
    fails_with: Exception | None = None
    asked: list[tuple[str, int]] = attrs.field(factory=list)

    async def request(self, address: str, command: Command, _timeout: float) -> Command:
        await trio.lowlevel.checkpoint()
        self.asked.append((address, command.code))
        if self.fails_with is not None:
            raise self.fails_with
        if command.code in self.refuses:
            return Command(ResponseCode.NO_PERMISSION, remark="not for you")
        return self.broker.serve(command)[0]


@attrs.define
class Pair:
    """A master that listens, and a slave that may follow it."""

    reactor: Reactor
    nursery: trio.Nursery
    told: Recorder
    master: TalkingBroker
    ha: HaMaster
    slave: TalkingBroker
    line: Line
    ha_address: str
    identity: Identity = OUR_CLUSTER

    @property
    def source(self) -> MessageStore:
        return self.master.broker.store

    @property
    def copy(self) -> MessageStore:
        return self.slave.broker.store

    def examination(self, known_master: KnownMaster | None = None) -> MasterPrecheck:
        line: Any = self.line
        return MasterPrecheck(self.copy, self.identity, line, self.told.emit, known_master or KnownMaster())

    async def is_fit(self, **switches: bool) -> bool:
        return await self.examination().is_fit(self.ha_address, HaSettings(**switches))  # type: ignore[arg-type]

    def follow(self, **switches: bool) -> None:
        """Let the slave run, at once."""
        settings = HaSettings(ha_report_at_once=True, ha_master_address=self.ha_address, **switches)

        def received() -> None:
            self.copy.dispatch()
            self.told.changed()

        slave = HaSlave(
            self.reactor,
            self.copy,
            settings,
            KnownMaster.from_settings(settings),
            on_received=received,
            caution=self.examination(),
            emit=self.told.emit,
        )
        self.nursery.start_soon(slave.run_forever)

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            await self.told.wait_until(holds)

    async def until_caught_up(self) -> None:
        await self.until(lambda: self.copy.max_commit_log_offset == self.source.max_commit_log_offset)


@pytest.fixture
async def pair(open_broker: Opener, reactor: Reactor, nursery: trio.Nursery, told: Recorder) -> AsyncIterator[Pair]:
    sizes = {"mapped_file_size_commit_log": FILE}
    master = open_broker("master", **sizes)
    slave = open_broker("slave", broker_role="SLAVE", broker_id=1, **sizes)
    ha = HaMaster(reactor, master.broker.store, HaSettings(), on_ack=told.acked, emit=told.emit)
    host, port = ha.listen("127.0.0.1", 0)
    nursery.start_soon(ha.run_forever)
    yield Pair(reactor, nursery, told, master, ha, slave, Line(master), f"{host}:{port}")
    nursery.cancel_scope.cancel()
    ha.close()


@pytest.fixture
def open_broker(tmp_path: pathlib.Path) -> Any:
    from rmqlab.broker.testing import open_talking_broker

    stack = contextlib.ExitStack()

    def open_one(name: str, **settings: Any) -> TalkingBroker:
        talk = open_talking_broker(tmp_path / name, **settings)
        stack.callback(talk.broker.store.close)
        return talk

    with stack:
        yield open_one


def send(talk: TalkingBroker, count: int, text: str, *, size: int = 1000) -> None:
    for number in range(count):
        talk.send("T", number % 4, text.encode() * (size // len(text)))


def replicate(source: MessageStore, copy: MessageStore, end: int | None = None) -> None:
    end = source.max_commit_log_offset if end is None else end
    while (at := copy.max_commit_log_offset) < end:
        assert copy.append_raw(at, source.read_log(at, end - at))
    copy.dispatch()


def lose(talk: TalkingBroker, end: int) -> None:
    """What a power loss and a restart make of a master."""
    truncate(talk.broker.store, end)


def log_bytes(store: MessageStore, start: int = 0) -> bytes:
    parts = []
    while view := store.read_log(start, 2**20):
        parts.append(bytes(view))
        start += len(view)
    return b"".join(parts)


def part_ways(pair: Pair, *, slave_has: int = 30, master_keeps: int = 20, master_adds: int = 0) -> int:
    """Scenario 16: the slave has records that its master lost. Answers where they part."""
    send(pair.master, master_keeps, "common")
    common = pair.source.max_commit_log_offset
    send(pair.master, slave_has - master_keeps, "lost")
    replicate(pair.source, pair.copy)
    lose(pair.master, common)
    send(pair.master, master_adds, "others!")
    return common


# ---- ha_truncate_diverged ------------------------------------------------------------------------------------


async def test_in_4_9_a_slave_ahead_of_its_master_diverges_silently(pair: Pair) -> None:
    """Scenario 16, section 4.9: connected, caught up, acknowledged, and other bytes than the master's."""
    part_ways(pair, master_adds=15)
    pair.follow()
    await pair.until_caught_up()
    assert log_bytes(pair.copy) != log_bytes(pair.source)


@pytest.mark.parametrize("master_adds", [0, 3, 15, 200])
async def test_with_ha_truncate_diverged_it_is_cut_to_the_common_part_and_follows(pair: Pair, master_adds: int) -> None:
    """Whether the master has passed its end yet or not, files later too. What was cut is kept beside."""
    common = part_ways(pair, master_adds=master_adds)
    had, ours = pair.copy.max_commit_log_offset, log_bytes(pair.copy)
    pair.follow(ha_truncate_diverged=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)
    for queue_id in range(4):
        ends = [store.max_queue_offset("T", queue_id) for store in (pair.copy, pair.source)]
        assert ends[0] == ends[1]
    ((_, fields),) = [event for event in pair.told.events if event[0] == "log_truncated"]
    assert (fields["had"], fields["end"]) == (had, common)
    assert await trio.Path(fields["kept"]).read_bytes() == ours[common:]
    send(pair.master, 5, "later")
    pair.ha.push()
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)


async def test_a_slave_that_diverged_before_the_switch_was_on_is_mended_at_its_end(pair: Pair) -> None:
    """Its last records are the master's other ones cut in two, and its dispatch is stuck there: a real 4.9 slave's fate."""
    common = part_ways(pair, master_adds=3)
    pair.copy.append_raw(pair.copy.max_commit_log_offset, b"\x11" * 700)
    pair.copy.dispatch()
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == common


async def test_equal_logs_are_left_alone_for_two_requests(pair: Pair) -> None:
    send(pair.master, 20, "common")
    replicate(pair.source, pair.copy)
    send(pair.master, 20, "news")
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert [code for _, code in pair.line.asked] == [
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.VIEW_MESSAGE_BY_ID,
    ]
    assert pair.told.events == []


async def test_a_record_cut_in_two_is_fetched_again(pair: Pair) -> None:
    """Nobody can tell whether the master has the rest of that one."""
    send(pair.master, 20, "common")
    whole = pair.source.max_commit_log_offset
    send(pair.master, 1, "last")
    replicate(pair.source, pair.copy, whole + 300)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == whole


async def test_half_of_the_very_first_record_is_fetched_again(pair: Pair) -> None:
    send(pair.master, 3, "first")
    replicate(pair.source, pair.copy, 300)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert (pair.copy.max_commit_log_offset, pair.copy.log.files.files) == (0, [])


async def test_a_slave_whose_last_whole_record_expired_begins_at_the_master_s_first_byte(pair: Pair) -> None:
    send(pair.master, 100, "x")
    replicate(pair.source, pair.copy, FILE + 300)
    pair.source.log.files.drop_first()
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == FILE


@pytest.mark.parametrize("master_has", [0, 2, 50])
async def test_a_log_with_nothing_in_common_is_not_touched(pair: Pair, master_has: int) -> None:
    """A wiped master, or a foreign one: the slave may have the only copy. It waits for a person to decide."""
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    ours = log_bytes(pair.copy)
    reset_store(pair.source)
    pair.source.queues.recover_counters()
    send(pair.master, master_has, "new")
    assert not await pair.is_fit(ha_truncate_diverged=True, ha_restart_expired_slave=True)
    assert log_bytes(pair.copy) == ours
    ((kind, fields),) = pair.told.events
    assert kind == "ha_master_examined"
    assert "has nothing in common with its own" in fields["verdict"]


def expire_all_but_an_empty_file(pair: Pair) -> int:
    """The slave's disk is full when its log rolls: the next file gets no byte, all others expire. Returns where it begins."""
    send(pair.master, 150, "before")
    copy = pair.copy
    end = 2 * FILE
    while (at := copy.max_commit_log_offset) < end:
        assert copy.append_raw(at, pair.source.read_log(at, end - at))
    copy.dispatch()
    copy.append_raw(end, b"")
    for _ in range(2):
        copy.log.files.drop_first()
    assert (copy.min_commit_log_offset, copy.max_commit_log_offset) == (end, end)
    assert copy.record_before(end) is not None
    return end


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_slave_whose_files_all_expired_follows_on_where_it_was(pair: Pair, is_restarted: bool) -> None:  # noqa: FBT001
    """Issue 12.10: its queues name records that it no longer has; 4.9 follows, and so must the switches."""
    end = expire_all_but_an_empty_file(pair)
    if is_restarted:
        config = pair.copy.config
        pair.copy.close()
        pair.slave.broker.store = MessageStore.open(config, now_millis=pair.source.now_millis, is_slave=True)
    pair.follow(ha_truncate_diverged=True, ha_restart_expired_slave=True, ha_verify_received=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy, end) == log_bytes(pair.source, end)
    assert not {"ha_master_examined", "log_dropped", "log_truncated"} & set(pair.told.kinds)
    for queue_id in range(4):
        assert pair.copy.max_queue_offset("T", queue_id) == pair.source.max_queue_offset("T", queue_id)
    pair.copy.close()


async def test_half_a_record_behind_expired_files_is_fetched_again_from_there(pair: Pair) -> None:
    """Not from the begin of the master's last file: what lies between would be missing."""
    end = expire_all_but_an_empty_file(pair)
    pair.copy.append_raw(end, pair.source.read_log(end, 300))
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert (pair.copy.min_commit_log_offset, pair.copy.max_commit_log_offset) == (end, end)


async def test_an_empty_log_beyond_its_masters_end_begins_again(pair: Pair) -> None:
    expire_all_but_an_empty_file(pair)
    reset_store(pair.source)
    pair.source.queues.recover_counters()
    send(pair.master, 3, "new")
    pair.follow(ha_truncate_diverged=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)
    assert "log_dropped" in pair.told.kinds


async def test_of_a_log_that_expired_in_part_only_what_is_left_is_compared(pair: Pair) -> None:
    """Its first files are gone, and what is left differs from the master's: nothing says that they ever were one."""
    send(pair.master, 80, "ours")
    replicate(pair.source, pair.copy)
    pair.copy.log.files.drop_first()
    ours = log_bytes(pair.copy, FILE)
    lose(pair.master, 0)
    send(pair.master, 40, "other")
    send(pair.master, 60, "another")
    assert not await pair.is_fit(ha_truncate_diverged=True)
    assert log_bytes(pair.copy, FILE) == ours


# ---- ha_restart_expired_slave --------------------------------------------------------------------------------


async def test_in_4_9_a_slave_whose_data_expired_never_advances(pair: Pair, mock_clock: MockClock) -> None:
    """Scenario 10, store-ha#57."""
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    send(pair.master, 200, "new")
    pair.source.log.files.drop_first()
    had = pair.copy.max_commit_log_offset
    pair.follow()
    await pair.told.wait_until(lambda: "ha_first_report" in pair.told.kinds)
    mock_clock.autojump_threshold = 0.01
    await trio.sleep(60)
    assert pair.copy.max_commit_log_offset == had
    assert pair.ha.connection_count == 1


async def test_with_ha_restart_expired_slave_it_starts_anew(pair: Pair) -> None:
    """With what its master still has: its last file, unless that gives all."""
    pair.ha.settings = HaSettings(ha_bootstrap_from_first_byte=True)
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    send(pair.master, 200, "new")
    pair.source.log.files.drop_first()
    pair.follow(ha_restart_expired_slave=True)
    await pair.until_caught_up()
    assert pair.copy.min_commit_log_offset == FILE
    assert log_bytes(pair.copy, FILE) == log_bytes(pair.source, FILE)
    assert pair.copy.max_queue_offset("T", 0) == pair.source.max_queue_offset("T", 0)
    assert "log_dropped" in pair.told.kinds
    pair.copy.close()


# ---- ha_check_master -----------------------------------------------------------------------------------------


async def test_in_4_9_an_empty_slave_copies_any_master(pair: Pair) -> None:
    pair.identity = Identity("DefaultCluster", "broker-b")
    send(pair.master, 5, "foreign")
    pair.follow()
    await pair.until_caught_up()


async def test_with_ha_check_master_only_one_of_its_own_group(pair: Pair) -> None:
    pair.identity = Identity("DefaultCluster", "broker-b")
    send(pair.master, 5, "foreign")
    pair.follow(ha_check_master=True)
    await pair.until(lambda: "ha_master_examined" in pair.told.kinds)
    assert pair.copy.max_commit_log_offset == 0
    (said,) = [fields["verdict"] for kind, fields in pair.told.events if kind == "ha_master_examined"]
    assert said == (
        f"master {pair.ha_address} is not followed: "
        "it belongs to broker-a in DefaultCluster, we to broker-b in DefaultCluster"
    )
    assert "ha_client_connected" not in pair.told.kinds


async def test_with_ha_check_master_its_own_is_followed(pair: Pair) -> None:
    send(pair.master, 5, "ours")
    pair.follow(ha_check_master=True)
    await pair.until_caught_up()


# ---- masters that do not answer, or not so -------------------------------------------------------------------

ALL = {"ha_check_master": True, "ha_truncate_diverged": True, "ha_restart_expired_slave": True}


@pytest.mark.parametrize(
    "failure", [ConnectError("nobody there"), RequestTimeoutError(f"no answer within {TIMEOUT} s")]
)
async def test_a_master_that_does_not_answer_is_not_followed_yet_and_that_is_said_once(
    pair: Pair, failure: Exception
) -> None:
    pair.line.fails_with = failure
    examination = pair.examination()
    for _ in range(3):
        assert not await examination.is_fit(pair.ha_address, HaSettings(**ALL))  # type: ignore[arg-type]
    said = f"master {pair.ha_address} is not followed: {failure}"
    assert [fields["verdict"] for _, fields in pair.told.events] == [said]
    assert examination.verdict == said
    pair.line.fails_with = None
    assert await examination.is_fit(pair.ha_address, HaSettings(**ALL))  # type: ignore[arg-type]
    assert examination.verdict == ""


@pytest.mark.parametrize("refused", [RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO])
async def test_a_master_that_refuses_such_questions_is_followed_as_in_4_9(pair: Pair, refused: RequestCode) -> None:
    part_ways(pair, master_adds=15)
    had = log_bytes(pair.copy)
    pair.line.refuses.add(refused)
    assert await pair.is_fit(**ALL)
    assert log_bytes(pair.copy) == had
    ((_, fields),) = pair.told.events
    assert fields["verdict"].startswith(f"master {pair.ha_address} is followed unexamined, as 4.9 does it: code 16")


async def test_without_switches_nothing_is_asked(pair: Pair) -> None:
    assert await pair.is_fit()
    assert pair.line.asked == []


async def test_who_is_asked(pair: Pair) -> None:
    """What the nameservers say of the master; the port below, as 4.9 has it, where its address was set by hand."""
    known_master = KnownMaster("10.0.0.9:10911")
    examination = pair.examination(known_master)
    await examination.is_fit("10.0.0.1:10912", HaSettings(ha_check_master=True))
    await examination.is_fit("10.0.0.1:10912", HaSettings(ha_check_master=True, ha_master_address="10.0.0.1:10912"))
    known_master.address = None
    await examination.is_fit("10.0.0.2:10912", HaSettings(ha_check_master=True))
    assert [address for address, _ in pair.line.asked] == ["10.0.0.9:10911", "10.0.0.1:10911", "10.0.0.2:10911"]


SPANS = [
    b'{"table":{"commitLogMinOffset":"%s","commitLogMaxOffset":"%s"}}' % span
    for span in ((b"x", b"9"), (b"9", b"x"), (b"9" * 5000, b"9" * 5000), (b"9" * 30, b"9" * 31), (b"9000000000", b"5"))
]
"""A slave that believed them would drop its log, for it ends before the master's begins."""


@pytest.mark.parametrize("body", [b"", b"brokerName=b\n", b"\xff\xfe", b"{}", *SPANS])
def test_an_answer_that_says_nothing_is_none(body: bytes) -> None:
    with pytest.raises(CheckUnsupported):
        identity_of(body)
    with pytest.raises(CheckUnsupported):
        log_span_of(body)


# ---- ha_verify_received --------------------------------------------------------------------------------------


async def test_in_4_9_a_slave_writes_what_is_no_record_and_its_queues_stop_there(pair: Pair) -> None:
    """Section 4.9, 3.4: the commit log grows, the queues do not."""
    send(pair.master, 10, "good")
    good = pair.source.max_commit_log_offset
    send(pair.master, 10, "bad")
    pair.source.log.files.files[-1].map[good + 4 : good + 8] = b"oops"  # the magic
    pair.follow()
    await pair.until_caught_up()
    assert pair.copy.dispatched_offset == good


@pytest.mark.parametrize("at", [0, 3, 5, 8, 30, 90, 500])
async def test_with_ha_verify_received_nothing_is_kept_that_is_no_record(pair: Pair, at: int) -> None:
    """Size, magic, checksum, offset, lengths, body: the link is closed, and what is good stays."""
    send(pair.master, 10, "good")
    good = pair.source.max_commit_log_offset
    send(pair.master, 10, "bad")
    pair.source.log.files.files[-1].map[good + at] ^= 0x40
    pair.follow(ha_verify_received=True)
    await pair.until(lambda: "ha_client_disconnected" in pair.told.kinds)
    assert pair.copy.max_commit_log_offset == pair.copy.dispatched_offset == good
    reason = pair.told.reasons("ha_client_disconnected")[0]
    assert reason.startswith(f"what it sent from {good} on is no record")
    assert max(pair.told.acks, default=0) <= good


async def test_with_ha_verify_received_a_good_log_passes_whole(pair: Pair) -> None:
    """Files, blanks and frames that cut records included."""
    send(pair.master, 30, "good", size=5000)
    pair.follow(ha_verify_received=True)
    await pair.until(lambda: pair.copy.max_commit_log_offset >= pair.source.max_commit_log_offset)
    start = pair.copy.min_commit_log_offset
    assert log_bytes(pair.copy, start) == log_bytes(pair.source, start)
