"""Runtime info of a broker, and housekeeping requests.

Sources: broker-requests sections 6.5, 6.6; AdminBrokerProcessor. Every value of runtime info is measured. Ours has no
queues between receiving a request and handling it, so the sizes and waits of RocketMQ's thread pools are truly 0, and
so is the time for which its put lock is held.
"""

from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.codes import VERSION, RequestCode, ResponseCode, version_name
from rmqlab.remoting.headers.broker_admin import ViewBrokerStatsDataRequestHeader
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.runtime.net.worker import calls_in_thread
from rmqlab.store.files.machine import this_machine

THREAD_POOLS = {
    "sendThreadPoolQueue": "send_thread_pool_queue_capacity",
    "pullThreadPoolQueue": "pull_thread_pool_queue_capacity",
    "queryThreadPoolQueue": "query_thread_pool_queue_capacity",
}
"""RocketMQ's queues, and the settings of their capacities, which tools show."""
NO_TRANSIENT_STORE = 2**31 - 1


def get_broker_runtime_info(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return all that is measured, as keys and values of text."""
    table = _store_values(broker) | _traffic_values(broker) | _broker_values(broker) | _delay_values(broker)
    if broker.serves_5x:
        table |= {"brokerActive": "true", "getTransferredTps": table["getTransferedTps"]}
    return Reply(body=KVTable(table=table).encode())


def _store_values(broker: Broker) -> dict[str, str]:
    store, config = broker.store, broker.store.config
    root, log_dir = config.store_path_root_dir, config.store_path_commit_log
    space = store.disk.space(root)
    log_ratio = store.disk.used_percent(log_dir if log_dir.is_dir() else root) / 100
    end = store.max_commit_log_offset
    return {
        "commitLogMinOffset": str(store.min_commit_log_offset if end > 0 else -1),
        "commitLogMaxOffset": str(end),
        "commitLogDiskRatio": str(log_ratio),
        f"commitLogDiskRatio_{this_machine().path_name(log_dir)}": str(log_ratio),
        "consumeQueueDiskRatio": str(store.disk.used_percent(root) / 100),
        "commitLogDirCapacity": f"Total : {_human(space.total)}, Free : {_human(space.free)}.",
        "dispatchBehindBytes": str(store.dispatch_behind_bytes),
        "dispatchMaxBuffer": "0",  # RocketMQ never sets it
        "remainHowManyDataToFlush": _human(end - store.flushed_offset),
        "remainTransientStoreBufferNumbs": str(NO_TRANSIENT_STORE),
        "earliestMessageTimeStamp": str(_earliest_millis(broker)),
    }


def _earliest_millis(broker: Broker) -> int:
    """Return the store time of the first message in ms.

    -1 while the first file has fewer bytes than twice the largest message: RocketMQ reads that many to find the
    message. Its tools then show an age of more than 50 years.
    """
    store = broker.store
    start = store.min_commit_log_offset
    if len(store.read_log(start, 2 * store.config.max_message_size)) < 2 * store.config.max_message_size:
        return -1
    return store.log.stored_at(start)


def _traffic_values(broker: Broker) -> dict[str, str]:
    stats = broker.stats
    puts = max(stats.put_total, 1)  # as RocketMQ: never 0
    return {
        "putTps": stats.put_tps(),
        "getFoundTps": stats.found_tps(),
        "getMissTps": stats.miss_tps(),
        "getTotalTps": stats.get_total_tps(),
        "getTransferedTps": stats.transferred_tps(),
        "putMessageTimesTotal": str(puts),
        "putMessageFailedTimes": str(stats.put_failures),
        "putMessageSizeTotal": str(stats.put_size_total),
        "putMessageAverageSize": str(stats.put_size_total / puts),
        "putMessageEntireTimeMax": str(stats.put_times.longest),
        "putMessageDistributeTime": str(stats.put_times),
        "putLatency99": f"{stats.put_times.percentile(0.99):.2f}",
        "putLatency999": f"{stats.put_times.percentile(0.999):.2f}",
        "getMessageEntireTimeMax": str(stats.get_times.longest),
        "msgPutTotalYesterdayMorning": str(stats.days.put_yesterday),
        "msgPutTotalTodayMorning": str(stats.days.put_today),
        "msgPutTotalTodayNow": str(stats.put_total),
        "msgGetTotalYesterdayMorning": str(stats.days.get_yesterday),
        "msgGetTotalTodayMorning": str(stats.days.get_today),
        "msgGetTotalTodayNow": str(stats.gets.messages),
    }


def _broker_values(broker: Broker) -> dict[str, str]:
    unused = broker.settings.unused
    values = {
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": version_name(VERSION),
        "bootTimestamp": str(broker.started_at_millis),
        "runtime": _span((broker.now_millis() - broker.started_at_millis) // 1000),
        "startAcceptSendRequestTimeStamp": str(broker.config.start_accept_send_request_time_stamp),
        "pageCacheLockTimeMills": "0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": str(unused.end_transaction_pool_queue_capacity),
    }
    for pool, capacity in THREAD_POOLS.items():
        values[f"{pool}Size"] = "0"
        values[f"{pool}Capacity"] = str(getattr(unused, capacity))
        values[f"{pool}HeadWaitTimeMills"] = "0"
    return values


def _delay_values(broker: Broker) -> dict[str, str]:
    """Return the progress of each delay level in use, and the end of its queue."""
    return {
        f"scheduleMessageOffset_{level}": f"{done},{broker.store.max_queue_offset(names.SCHEDULE_TOPIC, level - 1)}"
        for level, done in broker.delay.offsets.items()
    }


def _human(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**power:.1f} {' KMGTPE'[power]}iB"


def _span(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def view_broker_stats_data(broker: Broker, header: ViewBrokerStatsDataRequestHeader, _request: Request) -> Reply:
    """Return one statistic over the last minute, hour and day."""
    data = broker.stats.items.view(header.stats_name, header.stats_key or "")
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"nothing was counted for {header.stats_name} {header.stats_key}")
    return Reply(body=data.encode())


def get_all_delay_offset(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return the progress of each delay level, for a slave."""
    return Reply(body=broker.delay.body().encode())


def clean_expired_consumequeue(broker: Broker, _header: None, request: Request) -> None:
    """Drop queue files that point only to messages that are gone."""
    broker.run_for_request(request, _clean_expired_consumequeue, broker, request)


async def _clean_expired_consumequeue(broker: Broker, request: Request) -> None:
    await calls_in_thread(broker.store.queues.deletion_of_expired(broker.store.min_commit_log_offset))
    request.reply(Reply())


def delete_expired_commitlog(broker: Broker, _header: None, _request: Request) -> Reply:
    """Let the next 20 rounds of cleaning delete expired commit log files at any hour."""
    broker.store.cleaner.delete_by_hand()
    return Reply()


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.GET_BROKER_RUNTIME_INFO, None, get_broker_runtime_info),
    Route(RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStatsDataRequestHeader, view_broker_stats_data),
    Route(RequestCode.GET_ALL_DELAY_OFFSET, None, get_all_delay_offset),
    Route(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, None, clean_expired_consumequeue),
    Route(RequestCode.DELETE_EXPIRED_COMMITLOG, None, delete_expired_commitlog),
]
