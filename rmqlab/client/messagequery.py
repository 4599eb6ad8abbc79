"""Queries of single messages: by id, by key, by unique key.

Source: broker-requests section 5; class MQAdminImpl.
"""

import functools

from rmqlab.client.admin import reader
from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage, received, received_all
from rmqlab.client.replies import read_body
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rmqlab.remoting.message import PROPERTY_UNIQ_KEY, decode_message, parse_offset_message_id
from rmqlab.runtime.config.valuetypes import checked

FOREVER = 2**63 - 1
MAX_FOUND = 64
"""Maximum number of messages in one broker's reply."""


@checked
async def view_message(client: Client, offset_message_id: str, *, address: str | None = None) -> ReceivedMessage:
    """Read the message of an offset message id, from its broker or from another copy.

    RecordError for an invalid id, BrokerError if there is no message.
    """
    host, port, offset = parse_offset_message_id(offset_message_id)
    response = await client.ask(
        address or f"{host}:{port}", RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset)
    )
    return received(read_body(response, decode_message), "", client.config.namespace)


@checked
async def query_by_key(
    client: Client, topic: str, key: str, *, max_num: int = MAX_FOUND, begin: int = 0, end: int = FOREVER
) -> list[ReceivedMessage]:
    """Return messages of a topic with this key, stored in a range of milliseconds."""
    topic = client.named(topic)
    found = await _query(client, topic, key, max_num, begin, end)
    return [message for message in found if key in message.keys.split(" ") and message.stored.topic == topic]


@checked
async def query_by_unique_key(client: Client, topic: str, unique_key: str) -> ReceivedMessage | None:
    """Return the message that its producer gave this id; None if there is none.

    The first copy, if a retry has stored it again.
    """
    topic = client.named(topic)
    found = await _query(client, topic, unique_key, MAX_FOUND, 0, FOREVER, "true")
    same = [message for message in found if message.properties.get(PROPERTY_UNIQ_KEY) == unique_key]
    return min(same, key=lambda message: message.store_timestamp, default=None)


async def _query(
    client: Client, topic: str, key: str, max_num: int, begin: int, end: int, unique_key_flag: str | None = None
) -> list[ReceivedMessage]:
    """Query every broker of the topic: its master, or a slave if there is no master."""
    header = QueryMessageRequestHeader(
        topic=topic,
        key=key,
        max_num=max_num,
        begin_timestamp=begin,
        end_timestamp=end,
        unique_key_flag=unique_key_flag,
    )
    found: list[ReceivedMessage] = []
    route = await client.fetch_route(topic)
    for data in route.broker_datas:
        try:
            response = await client.ask(reader(data), RequestCode.QUERY_MESSAGE, header, timeout=6.0)
        except BrokerError as exc:
            if exc.code != ResponseCode.QUERY_NOT_FOUND:
                raise
        else:
            namespace = client.config.namespace
            parse = functools.partial(received_all, broker_name=data.broker_name, namespace=namespace, wanted=max_num)
            found += read_body(response, parse)
    return found
