"""Consumer offsets that a slave keeps and hands back: decision, then switches.

The two switches are tested with pairs of brokers.
"""

import pathlib
from typing import Any

import pytest
import trio
import trio.testing

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.metadata import HAND_BACK_AFTER, MetadataSync
from rmqlab.broker.tables.offset_handback import kept_offsets
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.offset import UpdateConsumerOffsetRequestHeader

MASTER = "10.0.0.1:10911"


@pytest.mark.parametrize(
    ("ours", "theirs", "own", "forgotten", "kept"),
    [
        pytest.param({0: 15}, {0: 10}, set(), False, {}, id="a master that lives moves it back: a reset"),
        pytest.param({0: 15}, {0: 10}, {0}, False, {0: 15}, id="committed here"),
        pytest.param({0: 15}, {0: 15}, {0}, False, {}, id="the master has as much"),
        pytest.param({0: 15}, {0: 20}, {0}, True, {}, id="the master has more"),
        pytest.param({0: 15}, {}, {0}, False, {0: 15}, id="committed here, and the master has none"),
        pytest.param({0: 15}, {0: 10}, set(), True, {0: 15}, id="the master forgot it"),
        pytest.param({0: 15}, {}, set(), True, {}, id="the master has none: perhaps deleted"),
        pytest.param({0: 15, 1: 9}, {0: 10, 1: 5}, {1}, False, {1: 9}, id="queue by queue"),
    ],
)
def test_offsets_kept_after_a_hand_back(
    ours: dict[int, int],
    theirs: dict[int, int],
    own: set[int],
    forgotten: bool,  # noqa: FBT001 - a column of the table
    kept: dict[int, int],
) -> None:
    assert kept_offsets(ours, theirs, own, has_forgotten=forgotten) == kept


class LivingMaster:
    """Replaces a RemotingClient: a master with offsets, which accepts commits."""

    def __init__(self, offsets: dict[str, dict[int, int]]) -> None:
        self.offsets = offsets
        self.boot: str | None = "1000"
        self.commits: list[tuple[str, int, int]] = []
        self.refuses_commits = False
        self.lacks_runtime_info = False
        self.refuses_offsets = False

    async def request(self, _address: str, command: Command, _timeout: float) -> Command:
        if command.code == RequestCode.GET_ALL_CONSUMER_OFFSET and not self.refuses_offsets:
            return Command(ResponseCode.SUCCESS, body=ConsumerOffsets(offset_table=self.offsets).encode())
        if command.code == RequestCode.GET_BROKER_RUNTIME_INFO and not self.lacks_runtime_info:
            table = {} if self.boot is None else {"bootTimestamp": self.boot}
            return Command(ResponseCode.SUCCESS, body=KVTable(table=table).encode())
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and not self.refuses_commits:
            fields = command.header(UpdateConsumerOffsetRequestHeader)
            key = f"{fields.topic}@{fields.consumer_group}"
            assert fields.only_forward
            self.commits.append((key, fields.queue_id, fields.commit_offset))
            self.offsets.setdefault(key, {})[fields.queue_id] = fields.commit_offset
            return Command(ResponseCode.SUCCESS)
        return Command(ResponseCode.SYSTEM_ERROR, remark="not now")


class SlowMaster(LivingMaster):
    """Replies after a second."""

    SECONDS = 1.0

    async def request(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as a client
        await trio.sleep(self.SECONDS)
        return await super().request(address, command, timeout)


class Slave:
    """A slave's tables and their sync."""

    def __init__(self, tmp_path: pathlib.Path, master: LivingMaster, **switches: bool) -> None:
        config = BrokerConfig(broker_role="SLAVE", broker_id=1)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.offsets = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
        self.offsets.notes_own = True
        self.sync = MetadataSync(
            "10.0.0.2:10911",
            TopicTable(config, tmp_path / "topics.json", lambda: 1000),
            self.offsets,
            SubscriptionGroupTable(config, tmp_path / "subscriptionGroup.json", lambda: 1000),
            tmp_path / "delayOffset.json",
            master,  # type: ignore[arg-type]
            lambda kind, **fields: self.events.append((kind, fields)),
            KnownMaster(),
        )
        self.sync.known_master.address = MASTER
        for name, value in switches.items():
            setattr(self.sync, name, value)

    def position(self, queue_id: int = 0) -> int | None:
        return self.offsets.query("g", "T", queue_id)


async def test_in_4_9_what_was_committed_to_the_slave_is_lost_when_the_master_returns(tmp_path: pathlib.Path) -> None:
    """Scenario 7, store-ha#69."""
    master = LivingMaster({"T@g": {0: 10}})
    slave = Slave(tmp_path, master)
    slave.offsets.commit("g", "T", 0, 15)
    await slave.sync.sync()
    assert slave.position() == 10
    assert master.commits == []


async def test_with_keep_newer_consumer_offsets_it_stays_on_the_slave(tmp_path: pathlib.Path) -> None:
    master = LivingMaster({"T@g": {0: 10, 1: 7}})
    slave = Slave(tmp_path, master, keeps_newer=True)
    slave.offsets.commit("g", "T", 0, 15)
    for _ in range(3):
        await slave.sync.sync()
    assert (slave.position(0), slave.position(1)) == (15, 7)
    assert [event for event in slave.events if event[0].startswith("consumer")] == [
        ("consumer_offsets_kept", {"key": "T@g", "queues": {0: (15, 10)}})
    ]
    assert master.commits == []


async def test_with_keep_newer_consumer_offsets_what_a_restarted_master_forgot_stays(tmp_path: pathlib.Path) -> None:
    """Its file is up to 5 s old after a kill; the slave had copied more."""
    master = LivingMaster({"T@g": {0: 15}})
    slave = Slave(tmp_path, master, keeps_newer=True)
    await slave.sync.sync()
    master.offsets["T@g"][0], master.boot = 10, "2000"
    for _ in range(3):
        await slave.sync.sync()
    assert slave.position() == 15


async def test_a_copy_of_offsets_that_fails_leaves_what_the_restarted_master_forgot_to_the_next(
    tmp_path: pathlib.Path,
) -> None:
    """The first sync after the restart copies the start time, and not the offsets."""
    master = LivingMaster({"T@g": {0: 15}})
    slave = Slave(tmp_path, master, keeps_newer=True)
    await slave.sync.sync()
    master.offsets["T@g"][0], master.boot, master.refuses_offsets = 10, "2000", True
    await slave.sync.sync()
    master.refuses_offsets = False
    for _ in range(2):
        await slave.sync.sync()
    assert slave.position() == 15


async def test_with_keep_newer_consumer_offsets_a_reset_at_a_living_master_is_followed(tmp_path: pathlib.Path) -> None:
    """Else a consumer that falls back to the slave would miss the reset messages."""
    master = LivingMaster({"T@g": {0: 15}})
    slave = Slave(tmp_path, master, keeps_newer=True, hands_back=True)
    await slave.sync.sync()
    master.offsets["T@g"][0] = 3
    await slave.sync.sync()
    assert slave.position() == 3
    assert master.commits == []


@pytest.mark.parametrize("lacks_runtime_info", [True, False], ids=["request refused", "no boot time in the reply"])
async def test_a_master_that_does_not_say_when_it_started_moves_nothing_back(
    tmp_path: pathlib.Path,
    lacks_runtime_info: bool,  # noqa: FBT001 - a column of the table
) -> None:
    master = LivingMaster({"T@g": {0: 15}})
    slave = Slave(tmp_path, master, keeps_newer=True)
    master.boot, master.lacks_runtime_info = None, lacks_runtime_info
    await slave.sync.sync()
    master.offsets["T@g"][0] = 3
    await slave.sync.sync()
    assert slave.position() == 15


async def test_with_hand_back_consumer_offsets_the_master_gets_them(tmp_path: pathlib.Path) -> None:
    """By request 15, which any master takes. Once it has them, it leads again."""
    master = LivingMaster({"T@g": {0: 10, 1: 7}})
    slave = Slave(tmp_path, master, hands_back=True)
    slave.offsets.commit("g", "T", 0, 15)
    slave.offsets.commit("new", "T", 2, 1)
    await slave.sync.sync()
    assert master.offsets == {"T@g": {0: 15, 1: 7}, "T@new": {2: 1}}
    assert ("consumer_offsets_handed_back", {"key": "T@g", "queues": {0: 15}}) in slave.events
    await slave.sync.sync()
    assert len(master.commits) == 2
    assert slave.offsets.own == {}
    master.offsets["T@g"][0] = 12
    await slave.sync.sync()
    assert slave.position() == 12


async def test_a_master_that_does_not_take_them_is_asked_again(tmp_path: pathlib.Path) -> None:
    master = LivingMaster({"T@g": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    slave.offsets.commit("g", "T", 0, 15)
    master.refuses_commits = True
    await slave.sync.sync()
    assert slave.position() == 15
    master.refuses_commits = False
    await slave.sync.sync()
    assert master.offsets == {"T@g": {0: 15}}


async def test_a_failed_hand_back_after_a_successful_one_is_logged_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    master = LivingMaster({"T@g": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    for offset, refuses in ((15, True), (15, False), (20, True)):
        slave.offsets.commit("g", "T", 0, offset)
        master.refuses_commits = refuses
        await slave.sync.sync()
    assert caplog.text.count("not handed back") == 2


async def test_offsets_committed_to_a_slave_are_handed_back_before_the_next_sync(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A consumer of the slave commits and ends, and the next asks the master."""
    master = LivingMaster({"T@g": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.sync.hand_back_forever)
        for queue_id in (0, 1):
            slave.offsets.commit("g", "T", queue_id, 15)
            slave.sync.committed_here("T@g")
        await trio.sleep(2 * HAND_BACK_AFTER)
        assert master.offsets == {"T@g": {0: 15, 1: 15}}
        await trio.sleep(60)
        assert len(master.commits) == 2
        slave.offsets.commit("g", "T", 0, 16)
        slave.sync.committed_here("T@g")
        await trio.sleep(2 * HAND_BACK_AFTER)
        assert master.offsets["T@g"][0] == 16
        nursery.cancel_scope.cancel()
    assert autojump_clock.current_time() > 60


@pytest.mark.parametrize(("hands_back", "address"), [(False, MASTER), (True, None)])
async def test_nothing_is_noted_without_the_switch_or_a_master(
    tmp_path: pathlib.Path,
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the time passes at once
    hands_back: bool,  # noqa: FBT001 - a column of the table
    address: str | None,
) -> None:
    master = LivingMaster({"T@g": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=hands_back)
    slave.sync.known_master.address = address
    with trio.move_on_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slave.sync.hand_back_forever)
            slave.offsets.commit("g", "T", 0, 15)
            slave.sync.committed_here("T@g")
    assert master.commits == []


async def test_hand_backs_follow_one_another(tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock) -> None:
    """A sync hands back an older offset first, never last."""
    master = SlowMaster({"T@g": {0: 10, 1: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.sync.hand_back_forever)
        for queue_id in (0, 1):
            slave.offsets.commit("g", "T", queue_id, 15)
        nursery.start_soon(slave.sync.sync)
        await trio.sleep(5.5 * SlowMaster.SECONDS)  # the sync has copied, and hands back the first queue
        slave.offsets.commit("g", "T", 1, 20)
        slave.sync.committed_here("T@g")
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert master.commits[:2] == [("T@g", 0, 15), ("T@g", 1, 15)]
    assert master.offsets["T@g"] == {0: 15, 1: 20}
    assert autojump_clock.current_time() > 30


async def test_a_hand_back_that_waited_for_another_does_not_use_a_forgotten_master(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The role of the broker changes meanwhile, and its master may be another broker."""
    master = SlowMaster({"T@g": {0: 10}, "T@h": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.sync.hand_back_forever)
        slave.offsets.commit("g", "T", 0, 15)
        nursery.start_soon(slave.sync.sync)
        await trio.sleep(4.5 * SlowMaster.SECONDS)  # the sync has copied, and hands back
        slave.offsets.commit("h", "T", 0, 15)
        slave.sync.committed_here("T@h")
        await trio.sleep(HAND_BACK_AFTER + SlowMaster.SECONDS / 10)
        slave.sync.forget_master()
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert master.commits == [("T@g", 0, 15)]
    assert autojump_clock.current_time() > 30


async def test_offsets_that_the_master_got_meanwhile_are_not_reported_as_handed_back(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A sync can copy while a hand-back waits for the master."""
    master = SlowMaster({"T@g": {0: 10}, "T@h": {0: 10}})
    slave = Slave(tmp_path, master, hands_back=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.sync.hand_back_forever)
        for group in ("g", "h"):
            slave.offsets.commit(group, "T", 0, 15)
            slave.sync.committed_here(f"T@{group}")
        await trio.sleep(HAND_BACK_AFTER + SlowMaster.SECONDS / 2)  # it commits the first
        master.offsets["T@h"] = {0: 15}
        await slave.sync._apply_offsets(ConsumerOffsets(offset_table=master.offsets).encode())
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    handed_back = [fields for kind, fields in slave.events if kind == "consumer_offsets_handed_back"]
    assert handed_back == [{"key": "T@g", "queues": {0: 15}}]
    assert autojump_clock.current_time() > 30
