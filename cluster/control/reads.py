"""Topics, groups and offsets as the servers report them, over our own client.

Each call opens a client and closes it. ReadFailedError without a reply in time.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import NoRouteError
from rmqlab.client.groupadmin import GroupAdmin
from rmqlab.client.instance import FAILURES, Client, open_client
from rmqlab.cluster.supervisor.processes import leaves
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.clock import real_seconds

T = TypeVar("T")
Document = dict[str, Any]

READ_SECONDS = 10.0


class NotFoundError(Exception):
    """The nameserver in use knows no route of this topic or group."""


class ReadFailedError(Exception):
    """A server rejected the request, or did not reply."""


async def topics(namesrv_addr: str) -> Document:
    """Return the names of all topics."""
    return {"topics": await _ask(namesrv_addr, lambda client: Admin(client).topics())}


async def topics_of_broker(namesrv_addr: str, address: str) -> Document:
    """Return the names of the topics that one broker has."""
    found = await _ask(namesrv_addr, lambda client: Admin(client).topic_configs(address))
    return {"topics": sorted(found.topic_config_table)}


async def route(namesrv_addr: str, topic: str) -> Document:
    """Return the queues of a topic, and the addresses of its brokers. NotFoundError."""
    found = await _ask(namesrv_addr, lambda client: Admin(client).topic_route(topic))
    return {
        "topic": topic,
        "queues": [
            {
                "broker": data.broker_name,
                "read_queues": data.read_queue_nums,
                "write_queues": data.write_queue_nums,
                "perm": data.perm,
            }
            for data in found.queue_datas
        ],
        "brokers": {
            data.broker_name: {str(broker_id): address for broker_id, address in sorted(data.broker_addrs.items())}
            for data in found.broker_datas
        },
    }


async def groups(namesrv_addr: str) -> Document:
    """Return the consumer groups of all masters.

    The settings are those of the first master that has the group."""
    return {"groups": await _ask(namesrv_addr, _groups)}


async def _groups(client: Client) -> list[Document]:
    info = await Admin(client).cluster_info()
    found: dict[str, Document] = {}
    for broker, data in sorted(info.broker_addr_table.items()):
        if MASTER_ID not in data.broker_addrs:
            continue
        for name, config in (await GroupAdmin(client).groups(data.broker_addrs[MASTER_ID])).items():
            settings = {
                "group": name,
                "brokers": [],
                "consume_enable": config.consume_enable,
                "broker_id": config.broker_id,
                "which_broker_when_consume_slowly": config.which_broker_when_consume_slowly,
                "retry_max_times": config.retry_max_times,
            }
            found.setdefault(name, settings)["brokers"].append(broker)
    return [found[name] for name in sorted(found)]


async def offsets(namesrv_addr: str, group: str, topic: str | None) -> Document:
    """Return the offsets of a group, and its lag in messages. NotFoundError."""
    stats = await _ask(namesrv_addr, lambda client: GroupAdmin(client).consume_stats(group, topic))
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "broker_offset": offset.broker_offset,
            "consumer_offset": offset.consumer_offset,
            "lag": offset.broker_offset - offset.consumer_offset,
            "last_timestamp": offset.last_timestamp,
        }
        for queue, offset in stats.offset_table.items()
    ]
    queues.sort(key=lambda row: (row["topic"], row["broker"], row["queue_id"]))
    return {"group": group, "lag": sum(row["lag"] for row in queues), "queues": queues}


async def _ask(namesrv_addr: str, ask: Callable[[Client], Awaitable[T]]) -> T:
    try:
        with trio.fail_after(real_seconds(READ_SECONDS)):
            async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
                return await ask(client)
    except* FAILURES as group:
        exc = next(leaves(group))
        raise (NotFoundError if isinstance(exc, NoRouteError) else ReadFailedError)(str(exc)) from None
    except* trio.TooSlowError:
        raise ReadFailedError(f"no reply within {READ_SECONDS:g} s") from None
    raise AssertionError("a result or an error")
