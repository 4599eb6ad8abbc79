"""A server that replies as a nameserver, broker and HA master should not.

Our clients and slaves are led to it.
"""

import functools
import gzip
import json
import struct
from pathlib import Path
from typing import Any

import attrs
import trio

from rmqlab.remoting.codes import RequestCode
from tests.fuzz.frames import BODIES, Fields, encode, garbage
from tests.fuzz.odd import Odd

REPLY = 1
TO_CLIENTS = (
    *(RequestCode.CHECK_TRANSACTION_STATE, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
    *(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT),
    *(RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
REPLY_FIELDS = (
    *("msgId", "queueId", "queueOffset", "transactionId", "nextBeginOffset", "minOffset", "maxOffset", "offset"),
    *("suggestWhichBrokerId", "masterAddr", "haServerAddr", "version", "brokerName", "topicSysFlag", "groupSysFlag"),
)


@attrs.define(eq=False)
class EvilServer:
    """Replies to every request that it can parse, in half of the cases plausibly."""

    odd: Odd
    address: str = ""
    replies: int = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until either side has enough."""
        kept = bytearray()
        try:
            while data := await stream.receive_some(2**16):
                kept += data
                while len(kept) >= 8 and len(kept) >= (size := 4 + struct.unpack_from(">i", kept)[0]):
                    payload = bytes(kept[4:size])
                    del kept[:size]
                    await stream.send_all(self._reply_to(payload))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()

    def _reply_to(self, payload: bytes) -> bytes:
        self.replies += 1
        odd = self.odd
        header_size = struct.unpack_from(">I", payload)[0] & 0xFFFFFF
        try:
            head = json.loads(payload[4 : 4 + header_size])
            code, opaque = int(head["code"]), int(head["opaque"])
        except ValueError:
            return garbage(odd)
        if odd.often(0.02):
            return garbage(odd)
        reply = encode(odd, self._code(), opaque, self._fields(), self._body(code), flag=REPLY)
        if odd.often(0.05):
            push = encode(odd, odd.choice(TO_CLIENTS), 1, self._fields(), self._body(code), flag=odd.choice((0, 2)))
            return reply + push if odd.often(0.5) else push + reply
        return reply

    def _code(self) -> int:
        odd = self.odd
        return 0 if odd.often(0.9) else odd.choice((*range(26), 200, 205, 206, 207, 208, 209, 70000, -1))

    def _fields(self) -> Fields:
        odd = self.odd
        fields: Fields = [(name, str(odd.choice((0, 0, 1, 5)))) for name in REPLY_FIELDS]
        fields[0] = "msgId", "7F4D0114000018B4AAC20000"
        for name, value in (("masterAddr", self.address), ("haServerAddr", self.address)):
            fields.append((name, value if odd.often(0.5) else odd.text()))
        for _ in range(odd.choice((0, 0, 1, 2))):
            at = odd.randrange(len(fields))
            fields[at : at + 1] = odd.choice(([], [(fields[at][0], odd.text())]))
        return fields

    def _body(self, code: int) -> bytes:
        odd = self.odd
        if odd.often(0.05):
            return odd.json_body(odd.choice(BODIES))
        match code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return self._spoiled(self._route())
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                brokers = {"broker-a": self._route()["brokerDatas"][0]}
                return self._spoiled({"brokerAddrTable": brokers, "clusterAddrTable": {"c": ["broker-a"]}})
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return self._spoiled({"consumerIdList": ["127.0.0.1@1", odd.text()]})
            case RequestCode.PULL_MESSAGE:
                record = _record()
                return odd.damaged(record * odd.randrange(1, 4)) if odd.often(0.7) else record
        return b"" if odd.often(0.5) else odd.json_body(odd.choice(BODIES))

    def _spoiled(self, value: Any) -> bytes:
        for _ in range(self.odd.choice((0, 0, 0, 0, 0, 1, 2))):
            value = self.odd.spoiled(value)
        return json.dumps(value).encode("utf-8", "surrogatepass")

    def _route(self) -> dict[str, Any]:
        queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2, "topicSysFlag": 0}
        broker = {"cluster": "c", "brokerName": "broker-a", "brokerAddrs": {"0": self.address}}
        return {"queueDatas": [queues], "brokerDatas": [broker], "filterServerTable": {}, "orderTopicConf": None}


@functools.cache
def _record() -> bytes:
    """The first record of a real broker's commit log."""
    path = min((Path(__file__).parents[1] / "golden" / "store" / "master" / "commitlog").iterdir())
    log = gzip.decompress(path.read_bytes())
    return log[: struct.unpack_from(">i", log)[0]]


async def serve_ha(odd: Odd, stream: trio.abc.Stream) -> None:
    """Be a master whose frames are wrong: sizes, offsets, records, cuts."""
    try:
        end = int.from_bytes((await stream.receive_some(8))[:8], "big", signed=True)
        for _ in range(odd.randrange(1, 20)):
            if odd.often(0.8):
                body = odd.choice((_odd_record(odd, end), b""))
                frame = struct.pack(">qi", end, len(body)) + body
                end += len(body)
            else:
                frame = _bad_frame(odd, end)
            cut = odd.randrange(len(frame)) if odd.often(0.2) else len(frame)
            await stream.send_all(frame[:cut])
            await stream.send_all(frame[cut:])
        await stream.receive_some(64)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        with trio.CancelScope(shield=True):
            await stream.aclose()


def _odd_record(odd: Odd, at: int) -> bytes:
    """A whole record for its place in the log, whose numbers are odd."""
    record = bytearray(_record())
    record[28:36] = at.to_bytes(8, "big", signed=True)
    for begin, size in odd.choice(((), (), ((20, 8),), ((12, 4),), ((28, 8), (40, 8)), ((36, 4),), ((56, 8),))):
        numbers = (-1, 0, 1, 2, 2 ** (8 * size - 2), 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))
        record[begin : begin + size] = odd.choice(numbers).to_bytes(size, "big", signed=True)
    return bytes(record)


def _bad_frame(odd: Odd, end: int) -> bytes:
    """A frame that does not continue the log, or brings garbage."""
    size = odd.choice((0, 0, 10, 200, -1, 2**31 - 1, 32 * 1024))
    offset = odd.choice((0, end, end, end - 1, -1, 2**40, 2**63 - 1, 7))
    body = odd.choice((odd.binary(), b"\0" * 200, _record()))
    frame = struct.pack(">qi", offset, size if odd.often(0.3) else len(body)) + body
    return odd.damaged(frame) if odd.often(0.3) else frame
