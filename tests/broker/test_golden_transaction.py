"""The recorded transactions of a Java producer, replayed to our broker.

It stores and asks what RocketMQ stored and asked. Recording c_transaction: a commit, a rollback, and three left open,
which are committed, rolled back, and left open once more and then committed when the broker asks. Only commit log
offsets differ, for our log begins empty; a reply of the producer names the offsets that the broker sent, so they are
replaced by ours.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest

from rmqlab.broker.deferred.transactions import TransactionCheck
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import RESPONSE, Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.remoting.message import (
    MESSAGE_MAGIC,
    StoredMessage,
    decode_message,
    decode_messages,
    parse_offset_message_id,
)

RECORDING = pathlib.Path(__file__).parents[1] / "golden" / "wire" / "c_transaction.jsonl"
FIRST_BORN = 1_795_199_562_954
"""Born time of the first half message, at 2.54 s of the recording."""
ROUNDS = (52.95, 112.95)
"""When the recorded broker checked."""
REPLAYED = (RequestCode.HEART_BEAT, RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION)
MAGIC = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)

SAME_FIELDS = (
    "topic", "queue_id", "queue_offset", "flag", "sys_flag", "body_crc", "body", "born_timestamp", "reconsume_times",
    "properties",
)  # fmt: skip


def decoded(row: dict[str, Any]) -> Command:
    [frame] = FrameDecoder().feed(bytes.fromhex(row["hex"]))
    return decode_command(frame)


@attrs.frozen
class Recording:
    """The producer's sends, replies and checks, and the consumer's messages."""

    sent: list[tuple[float, Command]]
    replies: Mapping[int, Command]
    asked: list[Command]
    pulled: list[StoredMessage]


@pytest.fixture(scope="module")
def recording() -> Recording:
    rows = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    mine = [(row, decoded(row)) for row in rows if "producer" in row["who"] and "slave" not in (row["from"], row["to"])]
    bodies = [decoded(row).body for row in rows if row["from"] == "master" and row["header"]["flag"] & RESPONSE]
    return Recording(
        sent=[
            (row["t"], command) for row, command in mine if row["to"] == "master" and row["header"]["code"] in REPLAYED
        ],
        replies={command.opaque: command for row, command in mine if row["from"] == "master" and command.is_response},
        asked=[command for row, command in mine if command.code == RequestCode.CHECK_TRANSACTION_STATE],
        pulled=[message for body in bodies if body[4:8] == MAGIC for message in decode_messages(body)],
    )


class Replay:
    """The recorded requests in order and at their times, with our offsets."""

    def __init__(self, talk: TalkingBroker, recording: Recording) -> None:
        self.talk, self.recording = talk, recording
        self.ours: dict[int, int] = {}  # commit log offsets, by the recorded one
        self.check = TransactionCheck(talk.broker)
        talk.clock.wall_epoch_millis = FIRST_BORN - 2540

    async def run(self) -> None:
        rounds: Iterator[float | None] = iter((*ROUNDS, None))
        next_round = next(rounds)
        for at, command in self.recording.sent:
            if next_round is not None and at > next_round:
                self.talk.clock.seconds = next_round
                await self.check.check()
                self.learn_checks()
                next_round = next(rounds)
            self.talk.clock.seconds = at
            self.send(command)

    def send(self, command: Command) -> None:
        fields = dict(command.ext_fields)
        if command.code == RequestCode.END_TRANSACTION:
            fields["commitLogOffset"] = str(self.ours[int(fields["commitLogOffset"])])
        replies = self.talk.exchange(command.code, fields, command.body, oneway=command.is_oneway)
        if command.code == RequestCode.SEND_MESSAGE_V2:
            reply = self.recording.replies[command.opaque]
            self.ours[offset_of(reply)] = offset_of(replies[0])
            for field in ("queueId", "queueOffset", "MSG_REGION", "TRACE_ON"):
                assert replies[0].ext_fields[field] == reply.ext_fields[field]

    def learn_checks(self) -> None:
        for ours, theirs in zip(self.talk.peer.asked, self.recording.asked, strict=False):
            self.ours[int(theirs.ext_fields["commitLogOffset"])] = int(ours.ext_fields["commitLogOffset"])

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        buffers = self.talk.broker.store.get_message(topic, queue_id, 0, 32).buffers
        return list(decode_messages(b"".join(buffers)))


def offset_of(reply: Command) -> int:
    return parse_offset_message_id(reply.ext_fields["msgId"])[2]


def facts(message: StoredMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name in SAME_FIELDS}


@pytest.fixture
async def replay(talk: TalkingBroker, recording: Recording) -> Replay:
    made = Replay(talk, recording)
    await made.run()
    return made


async def test_consumers_get_the_messages_that_were_committed_and_no_other(replay: Replay) -> None:
    """store-ha#71, broker-requests#49, #50: topic, queue, sysFlag 8, properties.

    The property preparedTransactionOffset is checked too.
    """
    ours = [message for queue_id in range(4) for message in replay.stored("GTx", queue_id)]
    theirs = sorted(replay.recording.pulled, key=lambda message: (message.queue_id, message.queue_offset))
    assert len(theirs) == 3
    assert [facts(message) for message in ours] == [facts(message) for message in theirs]
    assert [message.prepared_transaction_offset for message in ours] == [
        replay.ours[message.prepared_transaction_offset] for message in theirs
    ]


async def test_the_producer_is_asked_the_same_questions(replay: Replay) -> None:
    """store-ha#72, broker-requests#51, #52: header fields and the message in the body."""
    ours, theirs = replay.talk.peer.asked, replay.recording.asked
    assert len(theirs) == 4
    for mine, recorded in zip(ours, theirs, strict=True):
        assert mine.is_oneway
        assert mine.ext_fields.keys() == recorded.ext_fields.keys()
        for field in ("tranStateTableOffset", "msgId", "transactionId"):
            assert mine.ext_fields[field] == recorded.ext_fields[field]
        shown, expected = decode_message(mine.body), decode_message(recorded.body)
        assert facts(shown) == facts(expected)
        assert shown.prepared_transaction_offset == expected.prepared_transaction_offset == 0
        assert shown.physical_offset == int(mine.ext_fields["commitLogOffset"])
        assert shown.physical_offset == parse_offset_message_id(mine.ext_fields["offsetMsgId"])[2]
        assert expected.physical_offset == int(recorded.ext_fields["commitLogOffset"])


async def test_half_and_op_queue_are_those_of_the_recorded_slave_sync(replay: Replay) -> None:
    """Nine half messages, five op records.

    The group's offsets are at the ends after one more round (f_slave_sync).
    """
    halves = replay.stored(names.HALF_TOPIC)
    assert [message.properties.get("TRANSACTION_CHECK_TIMES") for message in halves] == [None] * 5 + ["1"] * 3 + ["2"]
    assert {(message.queue_id, message.sys_flag) for message in halves} == {(0, 0)}
    ops = replay.stored(names.OP_HALF_TOPIC)
    assert [message.body for message in ops] == [b"0", b"1", b"5", b"6", b"8"]
    replay.talk.clock.advance(60)
    await replay.check.check()
    offsets = replay.talk.broker.offsets
    assert offsets.query("CID_RMQ_SYS_TRANS", names.HALF_TOPIC, 0) == 9
    assert offsets.query("CID_RMQ_SYS_TRANS", names.OP_HALF_TOPIC, 0) == 5
