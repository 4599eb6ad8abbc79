"""Runtime info, statistics and housekeeping (broker-requests sections 6.5, 6.6).

Item: broker-requests#55.
"""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from rmqlab.broker.loops import _sample_stats_forever
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.runtime import BrokerStatsData, KVTable
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.runtime.net.alignedtimer import AlignedTimer
from rmqlab.store.files.diskcalls import run_calls

OpenBroker = Callable[..., TalkingBroker]


def info(talk: TalkingBroker) -> dict[str, str]:
    reply = talk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert (reply.code, reply.raw_fields) == (ResponseCode.SUCCESS, None)
    return KVTable.decode(reply.body).table


def sample(talk: TalkingBroker) -> None:
    talk.clock.advance(10)
    talk.broker.stats.sample(talk.clock.now_millis())


RATES = ("putTps", "getTransferedTps", "getTotalTps", "getFoundTps", "getMissTps")
NUMBERS = (
    "sendThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueSize",
    "pullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "pageCacheLockTimeMills",
    "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow",
    "brokerVersion", "bootTimestamp", "earliestMessageTimeStamp",
)  # fmt: skip


@pytest.mark.parametrize("is_slave", [False, True])
def test_values_that_cluster_list_parses_are_parseable(
    talk: TalkingBroker, slave: TalkingBroker, *, is_slave: bool
) -> None:
    """broker-requests#55: on a broker that has just started, master or slave."""
    table = info(slave if is_slave else talk)
    for name in RATES:
        assert [float(rate) for rate in table[name].split(" ")] == [0.0, 0.0, 0.0]
    for name in NUMBERS:
        int(table[name])
    for name in ("commitLogDiskRatio", "consumeQueueDiskRatio"):
        assert -1 <= float(table[name]) <= 1
    assert (table["brokerVersion"], table["brokerVersionDesc"]) == ("409", "V4_9_8")


def test_values_that_only_tools_of_5x_look_for_are_there_where_that_is_switched_on(
    talk: TalkingBroker, open_broker: OpenBroker
) -> None:
    """4.9.8 has none of them."""
    table, with_5x = info(talk), info(open_broker("for-5x", serve_requests_of_5x=True))
    assert with_5x.keys() - table.keys() == {"brokerActive", "getTransferredTps"} | {
        key for key in with_5x if key.startswith("commitLogDiskRatio_")
    }
    assert with_5x["getTransferredTps"] == with_5x["getTransferedTps"]


def test_traffic_is_measured(talk: TalkingBroker) -> None:
    for _ in range(20):
        talk.send("T")
    talk.pull("T")
    talk.pull("T", 20)
    sample(talk)
    table = info(talk)
    size = talk.broker.store.max_commit_log_offset
    assert [table[name].split(" ")[0] for name in RATES] == ["2.0", "2.0", "0.2", "0.1", "0.1"]
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("20", "20")
    assert (table["putMessageTimesTotal"], table["putMessageSizeTotal"]) == ("20", str(size))
    assert table["putMessageAverageSize"] == str(size / 20)
    assert (table["commitLogMinOffset"], table["commitLogMaxOffset"]) == ("0", str(size))
    assert table["remainHowManyDataToFlush"] == f"{size / 1024:.1f} KiB"
    assert table["dispatchBehindBytes"] == "0"
    assert table["putMessageDistributeTime"].startswith("[<=0ms]:")


def test_an_empty_store_looks_as_in_the_recording(talk: TalkingBroker) -> None:
    """Recording b1."""
    table = info(talk)
    expected = {
        "commitLogMinOffset": "-1", "commitLogMaxOffset": "0", "earliestMessageTimeStamp": "-1",
        "putMessageTimesTotal": "1", "putMessageAverageSize": "0.0", "remainHowManyDataToFlush": "0 B",
        "remainTransientStoreBufferNumbs": "2147483647", "dispatchMaxBuffer": "0", "putLatency99": "0.00",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
    }  # fmt: skip
    assert {name: table[name] for name in expected} == expected


def test_the_first_messages_time_is_known_once_the_log_is_longer_than_two_messages_may_be(talk: TalkingBroker) -> None:
    """As in 4.9, whose tools show an age of 50 years until then (recording b3)."""
    began = talk.clock.now_millis()
    talk.send("T", body=bytes(1000))
    talk.clock.advance(5)
    assert info(talk)["earliestMessageTimeStamp"] == "-1"
    talk.broker.reconfigure(talk.broker.settings.changed({"maxMessageSize": "500"}))
    assert info(talk)["earliestMessageTimeStamp"] == str(began)


def test_how_long_a_broker_runs(talk: TalkingBroker) -> None:
    talk.clock.advance(2 * 86_400 + 3 * 3600 + 4 * 60 + 5)
    assert info(talk)["runtime"] == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"


def test_delay_offsets_are_those_that_delivery_goes_by(talk: TalkingBroker) -> None:
    """broker-requests#54: bare numbers as keys.

    Runtime info sets them against the ends of the queues.
    """
    assert talk.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{}}'
    talk.send("T", DELAY="3")
    talk.broker.delay.offsets = {1: 2, 3: 0}
    assert talk.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{1:2,3:0}}'
    table = info(talk)
    assert (table["scheduleMessageOffset_1"], table["scheduleMessageOffset_3"]) == ("2,0", "0,1")


def test_one_statistic_is_viewed(talk: TalkingBroker) -> None:
    """Section 6.5: minute, hour and day."""
    talk.send("T")
    talk.pull("T", consumerGroup="g")
    sample(talk)
    for name, key in (("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@g"), ("BROKER_PUT_NUMS", "DefaultCluster")):
        reply = talk.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
        data = BrokerStatsData.decode(reply.body)
        assert (data.stats_minute.sum, data.stats_minute.tps, data.stats_day.sum) == (1, 0.1, 0)


def test_a_statistic_that_is_not_there_is_a_system_error(talk: TalkingBroker) -> None:
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "NoSuch"}
    assert talk.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields).code == ResponseCode.SYSTEM_ERROR


def fill_three_files(talk: TalkingBroker) -> None:
    for _ in range(5):
        talk.send("T", body=bytes(500_000))


def test_old_files_are_deleted_by_hand_at_any_hour(talk: TalkingBroker) -> None:
    """Code 329.

    store-ha#30: only those whose time is over, never the last, by the next 20 rounds of cleaning.
    """
    fill_three_files(talk)
    store = talk.broker.store
    assert talk.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code == ResponseCode.SUCCESS
    assert [run_calls(store.deletion_of_expired(7)) for _ in range(20)] == [[]] * 20
    talk.clock.advance(73 * 3600)
    assert run_calls(store.deletion_of_expired(7)) == []
    talk.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    assert len(run_calls(store.deletion_of_expired(7))) == 2
    assert info(talk)["commitLogMinOffset"] == str(2 * 1_048_576)


async def test_queue_files_of_messages_that_are_gone_are_dropped(talk: TalkingBroker) -> None:
    """Code 306. A file may take 100 ms, so the reply follows later."""
    fill_three_files(talk)
    talk.broker.store.log.files.drop_first()
    talk.peer.replies.clear()
    assert talk.exchange(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE) == []
    await talk.tasks.run_all()
    assert [reply.code for reply in talk.peer.replies] == [ResponseCode.SUCCESS]
    assert talk.broker.store.min_queue_offset("T", 0) == 2


async def test_a_slave_counts_what_it_copies_as_put(
    talk: TalkingBroker, slave: TalkingBroker, autojump_clock: trio.testing.MockClock
) -> None:
    """As in recording b3: 8 messages on the master, 8 on the slave."""
    del autojump_clock  # asked for because it makes time pass
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_sample_stats_forever, slave.broker, AlignedTimer())
        await trio.testing.wait_all_tasks_blocked()
        for topic in "TTTU":
            talk.send(topic)
        slave.broker.store.append_raw(0, talk.broker.store.read_log(0, 1 << 20))
        slave.broker.store.dispatch()
        slave.clock.advance(10)
        await trio.sleep(10.5)
        nursery.cancel_scope.cancel()
    table = info(slave)
    assert (table["msgPutTotalTodayNow"], table["putTps"].split(" ")[0]) == ("4", "0.4")
    assert table["putMessageSizeTotal"] == str(talk.broker.store.max_commit_log_offset)


def test_capacities_of_thread_pools_are_those_of_the_settings(talk: TalkingBroker) -> None:
    """AdminBrokerProcessor.prepareRuntimeInfo."""
    keys = ("sendThreadPoolQueueCapacity", "EndTransactionThreadPoolQueueCapacity")
    assert [info(talk)[key] for key in keys] == ["10000", "100000"]
    change = b"sendThreadPoolQueueCapacity=7\nendTransactionPoolQueueCapacity=8"
    talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, change)
    assert [info(talk)[key] for key in keys] == ["7", "8"]


def test_a_delivery_counts_as_a_send_to_its_topic_and_a_pull_of_the_delay(talk: TalkingBroker) -> None:
    """ScheduleMessageService.PutResultProcess.onSuccess."""
    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    talk.broker.delay.deliver_due()
    stats = talk.broker.stats
    assert {topic: put.messages for topic, put in stats.items.topic_puts.items()} == {
        names.SCHEDULE_TOPIC: 1,
        "orders": 1,
    }
    assert {key: get.messages for key, get in stats.items.group_gets.items()} == {
        "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER": 1
    }
    assert (stats.items.broker_puts["DefaultCluster"].messages, stats.put_total, stats.gets.messages) == (2, 2, 0)
    assert list(stats.items.queue_puts) == ["SCHEDULE_TOPIC_XXXX@0"]
    assert list(stats.items.queue_gets) == ["SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER"]


def test_deliveries_do_not_count_if_the_settings_say_so(talk: TalkingBroker) -> None:
    talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"enableScheduleMessageStats=false")
    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    talk.broker.delay.deliver_due()
    items = talk.broker.stats.items
    assert (list(items.topic_puts), items.group_gets, items.queue_gets) == ([names.SCHEDULE_TOPIC], {}, {})


def test_statistics_of_deleted_topics_and_groups_end_with_them_if_set(talk: TalkingBroker) -> None:
    """Setting autoDeleteUnusedStats."""
    items = talk.broker.stats.items
    for setting, left in (("false", True), ("true", False)):
        talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoDeleteUnusedStats=" + setting.encode())
        talk.send("orders")
        items.count_group_get("other", "g", 1, 1)
        assert talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == ResponseCode.SUCCESS
        assert talk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}).code == ResponseCode.SUCCESS
        assert ("orders" in items.topic_puts, "other@g" in items.group_gets) == (left, left)
