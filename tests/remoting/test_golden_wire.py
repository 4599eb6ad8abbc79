"""Every frame of a real RocketMQ 4.9.4, decoded, typed and encoded again.

Bodies are compared byte by byte, for the order of members, the form of keys and the absence of blanks are part
of what clients rely on (broker-requests#54, remoting#15, #16, #17).
"""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs
import pytest

from rmqlab.remoting.bodies import group, heartbeat, offset, queue, registration, route, runtime, topic
from rmqlab.remoting.body import Body
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.frame import JSON, FrameDecoder
from rmqlab.remoting.header import Header, header_to_fields
from rmqlab.remoting.headers import broker_admin, nameserver, pull, query, send
from rmqlab.remoting.headers import group as group_headers
from rmqlab.remoting.headers import offset as offset_headers
from rmqlab.remoting.headers import topic as topic_headers
from rmqlab.remoting.properties import parse_properties_text, write_properties_text

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "wire"
FILES = sorted(path.name for path in GOLDEN.glob("*.jsonl") if not path.name.endswith("_ha_stream.jsonl"))
NOT_OURS = {"Signature", "AccessKey", "ReqT"}
"""Ext fields that any request may carry and no header class names (broker-requests#6)."""


class Exchange(NamedTuple):
    """A response and its request, or a request alone."""

    request: Command
    command: Command


Rewrite = Callable[[bytes, Exchange], bytes]
"""Reads a body and writes it again."""


def typed(kind: type[Body]) -> Rewrite:
    return lambda body, _: kind.decode(body).encode()


def messages(body: bytes, _: Exchange) -> bytes:
    return body  # records and message bodies; they have tests of their own


def properties_text(body: bytes, _: Exchange) -> bytes:
    return write_properties_text(parse_properties_text(body.decode())).encode()


def registered(body: bytes, exchange: Exchange) -> bytes:
    header = exchange.command.header(nameserver.RegisterBrokerRequestHeader)
    assert header.body_crc32 == registration.body_crc32(body)
    compressed = bool(header.compressed)
    read = registration.decode_registration(body, version=exchange.command.version, compressed=compressed)
    return registration.encode_compressed(read) if compressed else read.encode()


def routed(body: bytes, exchange: Exchange) -> bytes:
    asked = exchange.request.header(nameserver.GetRouteInfoRequestHeader)
    read = route.TopicRouteData.decode(body)
    is_standard = exchange.request.version >= 401 or asked.accept_standard_json_only
    return read.encode_browser_compatible() if is_standard else read.encode()


def reset(body: bytes, _: Exchange) -> bytes:
    read = offset.ResetOffsetBody.decode(body)
    is_for_c = body.startswith(b'{"offsetTable":[')  # the admin request named CPP as its language
    return offset.ResetOffsetBodyForC.of(read).encode() if is_for_c else read.encode()


@attrs.frozen
class Shape:
    """Types of one request code's header and body, both ways. None: no type."""

    request: type[Header] | None = None
    response: type[Header] | None = None
    request_body: Rewrite | None = None
    response_body: Rewrite | None = None


SEND = (send.SendMessageRequestHeader, send.SendMessageResponseHeader, messages)
SEND_V2 = (send.SendMessageRequestHeaderV2, send.SendMessageResponseHeader, messages)
TOPIC_LIST = Shape(response_body=typed(topic.TopicList))

SHAPES = {
    RequestCode.SEND_MESSAGE: Shape(*SEND),
    RequestCode.SEND_MESSAGE_V2: Shape(*SEND_V2),
    RequestCode.SEND_BATCH_MESSAGE: Shape(*SEND_V2),
    RequestCode.SEND_REPLY_MESSAGE_V2: Shape(*SEND_V2),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Shape(send.ReplyMessageRequestHeader, None, messages),
    RequestCode.CONSUMER_SEND_MSG_BACK: Shape(send.ConsumerSendMsgBackRequestHeader),
    RequestCode.END_TRANSACTION: Shape(send.EndTransactionRequestHeader),
    RequestCode.CHECK_TRANSACTION_STATE: Shape(send.CheckTransactionStateRequestHeader, None, messages),
    RequestCode.PULL_MESSAGE: Shape(pull.PullMessageRequestHeader, pull.PullMessageResponseHeader, None, messages),
    RequestCode.QUERY_MESSAGE: Shape(query.QueryMessageRequestHeader, query.QueryMessageResponseHeader, None, messages),
    RequestCode.VIEW_MESSAGE_BY_ID: Shape(query.ViewMessageRequestHeader, None, None, messages),
    RequestCode.QUERY_CONSUME_QUEUE: Shape(
        query.QueryConsumeQueueRequestHeader, response_body=typed(queue.QueryConsumeQueueResponseBody)
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: Shape(
        offset_headers.QueryConsumerOffsetRequestHeader, offset_headers.QueryConsumerOffsetResponseHeader
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: Shape(
        offset_headers.UpdateConsumerOffsetRequestHeader, offset_headers.UpdateConsumerOffsetResponseHeader
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Shape(
        offset_headers.SearchOffsetRequestHeader, offset_headers.SearchOffsetResponseHeader
    ),
    RequestCode.GET_MAX_OFFSET: Shape(
        offset_headers.GetMaxOffsetRequestHeader, offset_headers.GetMaxOffsetResponseHeader
    ),
    RequestCode.GET_MIN_OFFSET: Shape(
        offset_headers.GetMinOffsetRequestHeader, offset_headers.GetMinOffsetResponseHeader
    ),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Shape(
        offset_headers.GetEarliestMsgStoretimeRequestHeader, offset_headers.GetEarliestMsgStoretimeResponseHeader
    ),
    RequestCode.HEART_BEAT: Shape(request_body=typed(heartbeat.HeartbeatData)),
    RequestCode.CHECK_CLIENT_CONFIG: Shape(request_body=typed(heartbeat.CheckClientRequestBody)),
    RequestCode.UNREGISTER_CLIENT: Shape(
        group_headers.UnregisterClientRequestHeader, group_headers.UnregisterClientResponseHeader
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Shape(
        group_headers.GetConsumerListByGroupRequestHeader,
        group_headers.GetConsumerListByGroupResponseHeader,
        response_body=typed(group.GetConsumerListByGroupResponseBody),
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Shape(group_headers.NotifyConsumerIdsChangedRequestHeader),
    RequestCode.LOCK_BATCH_MQ: Shape(
        request_body=typed(queue.LockBatchRequestBody), response_body=typed(queue.LockBatchResponseBody)
    ),
    RequestCode.UNLOCK_BATCH_MQ: Shape(request_body=typed(queue.UnlockBatchRequestBody)),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Shape(request_body=typed(group.SubscriptionGroupConfig)),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Shape(response_body=typed(group.SubscriptionGroupWrapper)),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Shape(
        group_headers.GetConsumerConnectionListRequestHeader, response_body=typed(group.ConsumerConnection)
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Shape(
        group_headers.GetProducerConnectionListRequestHeader, response_body=typed(group.ProducerConnection)
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: Shape(response_body=typed(group.ProducerTableInfo)),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Shape(group_headers.DeleteSubscriptionGroupRequestHeader),
    RequestCode.GET_CONSUME_STATS: Shape(
        group_headers.GetConsumeStatsRequestHeader, response_body=typed(offset.ConsumeStats)
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: Shape(
        group_headers.GetConsumeStatsInBrokerHeader, response_body=typed(offset.ConsumeStatsList)
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Shape(
        group_headers.QueryTopicConsumeByWhoRequestHeader, response_body=typed(topic.GroupList)
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Shape(response_body=typed(offset.ConsumerOffsets)),
    RequestCode.GET_ALL_DELAY_OFFSET: Shape(response_body=typed(offset.DelayOffsets)),
    RequestCode.UPDATE_AND_CREATE_TOPIC: Shape(topic_headers.CreateTopicRequestHeader),
    RequestCode.GET_ALL_TOPIC_CONFIG: Shape(
        None, topic_headers.GetAllTopicConfigResponseHeader, None, typed(topic.TopicConfigSerializeWrapper)
    ),
    RequestCode.GET_TOPIC_STATS_INFO: Shape(
        topic_headers.GetTopicStatsInfoRequestHeader, response_body=typed(topic.TopicStatsTable)
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: Shape(topic_headers.DeleteTopicRequestHeader),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TOPIC_LIST,
    RequestCode.UPDATE_BROKER_CONFIG: Shape(request_body=properties_text),
    RequestCode.GET_BROKER_CONFIG: Shape(None, broker_admin.GetBrokerConfigResponseHeader, None, properties_text),
    RequestCode.GET_BROKER_RUNTIME_INFO: Shape(response_body=typed(runtime.KVTable)),
    RequestCode.VIEW_BROKER_STATS_DATA: Shape(
        broker_admin.ViewBrokerStatsDataRequestHeader, response_body=typed(runtime.BrokerStatsData)
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Shape(broker_admin.ResetOffsetRequestHeader, None, reset),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Shape(
        broker_admin.ResetOffsetRequestHeader, response_body=typed(offset.ResetOffsetBody)
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Shape(
        broker_admin.GetConsumerRunningInfoRequestHeader, response_body=typed(runtime.ConsumerRunningInfo)
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Shape(
        broker_admin.ConsumeMessageDirectlyResultRequestHeader,
        None,
        messages,
        typed(runtime.ConsumeMessageDirectlyResult),
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Shape(),
    RequestCode.CLEAN_UNUSED_TOPIC: Shape(),
    RequestCode.DELETE_EXPIRED_COMMITLOG: Shape(),
    RequestCode.PUT_KV_CONFIG: Shape(nameserver.PutKVConfigRequestHeader),
    RequestCode.GET_KV_CONFIG: Shape(nameserver.GetKVConfigRequestHeader, nameserver.GetKVConfigResponseHeader),
    RequestCode.DELETE_KV_CONFIG: Shape(nameserver.DeleteKVConfigRequestHeader),
    RequestCode.REGISTER_BROKER: Shape(
        nameserver.RegisterBrokerRequestHeader,
        nameserver.RegisterBrokerResponseHeader,
        registered,
        typed(runtime.KVTable),
    ),
    RequestCode.UNREGISTER_BROKER: Shape(nameserver.UnRegisterBrokerRequestHeader),
    RequestCode.QUERY_DATA_VERSION: Shape(
        nameserver.QueryDataVersionRequestHeader,
        nameserver.QueryDataVersionResponseHeader,
        typed(topic.DataVersion),
        typed(topic.DataVersion),
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Shape(nameserver.GetRouteInfoRequestHeader, response_body=routed),
    RequestCode.GET_BROKER_CLUSTER_INFO: Shape(response_body=typed(route.ClusterInfo)),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TOPIC_LIST,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Shape(
        nameserver.WipeWritePermOfBrokerRequestHeader, nameserver.WipeWritePermOfBrokerResponseHeader
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Shape(
        nameserver.AddWritePermOfBrokerRequestHeader, nameserver.AddWritePermOfBrokerResponseHeader
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Shape(nameserver.DeleteTopicFromNamesrvRequestHeader),
    RequestCode.UPDATE_NAMESRV_CONFIG: Shape(request_body=properties_text),
    RequestCode.GET_NAMESRV_CONFIG: Shape(response_body=properties_text),
}

UNKNOWN_CODE = 9999
"""Sent on purpose."""


def recorded(name: str) -> Iterator[tuple[bytes, dict[str, object], Exchange | None]]:
    """Give each frame as bytes and as the recorder read it.

    A response with its request, where that is in the file.
    """
    asked: dict[tuple[int, str, int], Command] = {}
    for line in (GOLDEN / name).read_text().splitlines():
        entry = json.loads(line)
        wire = bytes.fromhex(entry["hex"])
        [frame] = FrameDecoder().feed(wire)
        command = decode_command(frame)
        if command.is_response:
            request = asked.pop((entry["stream"], entry["to"], command.opaque), None)
        else:
            request = asked[entry["stream"], entry["from"], command.opaque] = command
        yield wire, entry["header"], Exchange(request, command) if request else None


@pytest.mark.parametrize("name", FILES)
def test_every_frame_is_understood_and_written_again(name: str) -> None:
    """remoting#3, #4, #5, #8"""
    for wire, header, _ in recorded(name):
        [frame] = FrameDecoder().feed(wire)
        command = decode_command(frame)
        seen = (command.code, command.opaque, command.flag, command.version, command.language, command.remark)
        assert seen == tuple(header.get(key) for key in ("code", "opaque", "flag", "version", "language", "remark"))
        assert command.ext_fields == header.get("extFields", {})
        assert (command.raw_fields is None) == ("extFields" not in header)
        assert encode_command(command) == wire


@pytest.mark.parametrize("name", FILES)
def test_every_set_of_ext_fields_round_trips_through_its_typed_header(name: str) -> None:
    """broker-requests#6, #20, #26"""
    for _, _, exchange in recorded(name):
        if exchange is None or exchange.command.raw_fields is None or exchange.request.code == UNKNOWN_CODE:
            continue
        shape = SHAPES[RequestCode(exchange.request.code)]
        kind = shape.response if exchange.command.is_response else shape.request
        fields = {key: text for key, text in exchange.command.ext_fields.items() if key not in NOT_OURS}
        assert header_to_fields(exchange.command.header(kind or Header)) == fields


@pytest.mark.parametrize("name", FILES)
def test_every_body_round_trips_through_its_typed_body(name: str) -> None:
    """remoting#15, #16, #19, #20, #21, #22, #28; broker-requests#54"""
    for _, _, exchange in recorded(name):
        if exchange is None or not exchange.command.body:
            continue
        shape = SHAPES[RequestCode(exchange.request.code)]
        rewrite = shape.response_body if exchange.command.is_response else shape.request_body
        assert rewrite is not None, exchange.request.code
        assert rewrite(exchange.command.body, exchange) == exchange.command.body


def test_the_recordings_hold_both_header_codecs_and_most_codes() -> None:
    codes, codecs = set(), set()
    for name in FILES:
        for _, _, exchange in recorded(name):
            if exchange:
                codes.add(exchange.request.code)
                codecs.add(exchange.request.serialize_type == JSON)
    assert codecs == {True, False}
    assert len(codes - {UNKNOWN_CODE}) >= 60
