"""One remoting request over a socket of its own, in the plainest JSON form.

The probes of these tests must not use the code under test, so this knows nothing of `remoting/`.
"""

import json
import socket
import struct
import time
from typing import Any

import attrs

from tests.interop.waiting import wait_until

GET_ROUTE_INFO_BY_TOPIC = 105
SEND_MESSAGE = 10
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
UPDATE_AND_CREATE_TOPIC = 17
VIEW_MESSAGE_BY_ID = 33
GET_ALL_TOPIC_CONFIG = 21
GET_BROKER_RUNTIME_INFO = 28
GET_MAX_OFFSET = 30
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
CONSUMER_SEND_MSG_BACK = 36
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201

SUCCESS = 0
SYSTEM_BUSY = 2
BUSY_SECONDS = 60.0
"""How long a broker may reject a message because it is busy."""


@attrs.frozen
class Answer:
    code: int
    remark: str | None
    fields: dict[str, str]
    body: bytes


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def ask(address: str, code: int, fields: dict[str, str], body: bytes = b"", timeout: float = 15.0) -> Answer:
    head = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 409, "extFields": fields}
    header = json.dumps(head).encode()
    with socket.create_connection(split_address(address), timeout) as sock:
        sock.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        reader = sock.makefile("rb")
        with reader:
            length, header_length = struct.unpack(">II", _exactly(reader.read(8), 8))
            payload = _exactly(reader.read(length - 4), length - 4)
    reply: dict[str, Any] = json.loads(payload[: header_length & 0xFFFFFF])
    return Answer(reply["code"], reply.get("remark"), reply.get("extFields") or {}, payload[header_length & 0xFFFFFF :])


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ConnectionError(f"closed after {len(data)} of {length} bytes")
    return data


def dledger(address: str, code: int, **members: object) -> dict[str, Any]:
    """A request to the port of a DLedger member: the JSON of its response's body."""
    answer = ask(address, code, {}, json.dumps(members).encode())
    body: dict[str, Any] = json.loads(answer.body)
    return body | {"header code": answer.code}


def route_of(namesrv: str, topic: str) -> dict[str, dict[int, str]]:
    """Broker name to {broker id: address} as this nameserver believes.

    Empty if it knows no route.
    """
    answer = ask(namesrv, GET_ROUTE_INFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
    if answer.code != SUCCESS:
        return {}
    brokers = json.loads(answer.body)["brokerDatas"]
    return {broker["brokerName"]: {int(key): at for key, at in broker["brokerAddrs"].items()} for broker in brokers}


def queue_count(namesrv: str, topic: str) -> int:
    """Queues of a topic at its first broker that can be read; 0 if there is no route."""
    answer = ask(namesrv, GET_ROUTE_INFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
    return int(json.loads(answer.body)["queueDatas"][0]["readQueueNums"]) if answer.code == SUCCESS else 0


def send(
    broker: str, topic: str, body: bytes, *, queue_id: int = 0, timeout: float = 10.0, properties: str = ""
) -> Answer:
    """SEND_MESSAGE: code 0 is stored and replicated, 10-12 stored with a warning.

    A broker rejects a request that has waited for 200 ms (BrokerFastFailure), as it does on a busy machine. The message
    is not stored, and is sent again.
    """
    fields = {
        "producerGroup": "interop-probe",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        answer = ask(broker, SEND_MESSAGE, fields, body, timeout)
        if answer.code != SYSTEM_BUSY or time.monotonic() >= deadline:
            return answer


def create_topic(broker: str, topic: str, queues: int = 4) -> None:
    """Create a topic at a master."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    _reply_of(broker, UPDATE_AND_CREATE_TOPIC, fields)


def max_offset(broker: str, topic: str, queue_id: int) -> int:
    answer = _reply_of(broker, GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    return int(answer.fields["offset"])


def pull(broker: str, topic: str, queue_id: int, offset: int) -> tuple[Answer, list[bytes]]:
    """PULL_MESSAGE with its own subscription, not held; return the bodies."""
    fields = {
        "consumerGroup": "interop-probe",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    answer = ask(broker, PULL_MESSAGE, fields)
    return answer, _bodies(answer.body)


def query(broker: str, topic: str, key: str) -> list[bytes]:
    """QUERY_MESSAGE: the bodies of the messages under a key."""
    fields = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    return _bodies(ask(broker, QUERY_MESSAGE, fields).body)


def view(broker: str, message_id: str) -> list[bytes]:
    """VIEW_MESSAGE_BY_ID: the body of the message that an offset message id names."""
    return _bodies(_reply_of(broker, VIEW_MESSAGE_BY_ID, {"offset": str(int(message_id[-16:], 16))}).body)


def _bodies(records: bytes) -> list[bytes]:
    """Of records one after the other; their hosts are IPv4."""
    bodies, at = [], 0
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        (length,) = struct.unpack_from(">i", records, at + 84)
        bodies.append(records[at + 88 : at + 88 + length])
        at += size
    return bodies


def knows_topic(broker: str, topic: str) -> bool:
    """A slave learns of topics every ten seconds.

    Until then it serves none of their messages.
    """
    return f'"{topic}"'.encode() in _reply_of(broker, GET_ALL_TOPIC_CONFIG, {}).body


def knows_group(broker: str, group: str) -> bool:
    """As `knows_topic`."""
    return f'"{group}"'.encode() in _reply_of(broker, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}).body


def commit_offset(broker: str, group: str, topic: str, queue_id: int, offset: int) -> None:
    """UPDATE_CONSUMER_OFFSET."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
    _reply_of(broker, UPDATE_CONSUMER_OFFSET, fields)


def committed_offset(broker: str, group: str, topic: str, queue_id: int) -> int | None:
    """QUERY_CONSUMER_OFFSET; None if the broker has no offset."""
    answer = ask(broker, QUERY_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)})
    return int(answer.fields["offset"]) if answer.code == SUCCESS else None


def send_back(broker: str, group: str, offset: int, delay_level: int) -> None:
    """CONSUMER_SEND_MSG_BACK: redeliver the message at a log offset to the group."""
    fields = {"offset": str(offset), "group": group, "delayLevel": str(delay_level), "unitMode": "false"}
    _reply_of(broker, CONSUMER_SEND_MSG_BACK, fields)


def runtime_info(broker: str) -> dict[str, str]:
    """What brokerStatus prints.

    In its first second a real broker has nothing to print, and answers with an error.
    """

    def body() -> bytes | None:
        answer = ask(broker, GET_BROKER_RUNTIME_INFO, {})
        return answer.body if answer.code == SUCCESS else None

    table: dict[str, str] = json.loads(wait_until(body, f"{broker} tells its runtime info"))["table"]
    return table


def _reply_of(address: str, code: int, fields: dict[str, str]) -> Answer:
    answer = ask(address, code, fields)
    if answer.code != SUCCESS:
        raise ConnectionError(f"{address} answers {answer.code} to request {code}: {answer.remark}")
    return answer
