"""A producer that a broker asks about its transactions."""

from rmqlab.broker.deferred.transactions import TransactionCheck
from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.heartbeat import HeartbeatData, ProducerData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import StoredMessage, decode_messages

COMMIT, ROLLBACK = 8, 12
"""Bits of an END_TRANSACTION header (class MessageSysFlag)."""


class Producer:
    """A broker with the check, and its producers. Time moves only by `advance`."""

    def __init__(self, talk: TalkingBroker) -> None:
        self.talk = talk
        self.check = TransactionCheck(talk.broker)
        self.join(talk.peer)

    def join(self, peer: ScriptedPeer, group: str = "P") -> None:
        data = HeartbeatData(client_id=peer.peer, producer_data_set=[ProducerData(group_name=group)])
        assert self.talk.ask(RequestCode.HEART_BEAT, None, data.encode(), peer=peer).code == ResponseCode.SUCCESS

    def send(self, body: bytes = b"body", **properties: str) -> Command:
        """Send a half message, born now."""
        named = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U", **properties}
        text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
        fields = {
            "a": "P", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "4", "h": "0", "i": text,
            "g": str(self.talk.clock.now_millis()),
        }  # fmt: skip
        (reply,) = self.talk.exchange(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert reply.code == ResponseCode.SUCCESS
        return reply

    async def after(self, seconds: float) -> list[Command]:
        """Let time pass, have a round of checks.

        Return the checks that this broker's own peer received in it.
        """
        self.talk.clock.advance(seconds)
        before = len(self.talk.peer.asked)
        await self.check.check()
        return self.talk.peer.asked[before:]

    def end_transaction(self, asked: Command, decision: int) -> None:
        """End the transaction as a checked producer does: with the request's offsets."""
        fields = {
            "producerGroup": "P",
            "tranStateTableOffset": asked.ext_fields["tranStateTableOffset"],
            "commitLogOffset": asked.ext_fields["commitLogOffset"],
            "commitOrRollback": str(decision),
            "fromTransactionCheck": "true",
            "msgId": asked.ext_fields["msgId"],
        }
        assert self.talk.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS

    def end(self, sent: Command, decision: int) -> None:
        """End it by the offsets of the send's reply, without a check."""
        (half,) = [half for half in self.stored(names.HALF_TOPIC) if half.offset_message_id == sent.ext_fields["msgId"]]
        fields = {
            "producerGroup": "P", "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset), "commitOrRollback": str(decision), "msgId": "U",
        }  # fmt: skip
        assert self.talk.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        return list(decode_messages(b"".join(self.talk.broker.store.get_message(topic, queue_id, 0, 32).buffers)))

    def progress(self) -> tuple[int | None, int | None]:
        """How far the half queue and the op queue are done."""
        query = self.talk.broker.offsets.query
        return query("CID_RMQ_SYS_TRANS", names.HALF_TOPIC, 0), query("CID_RMQ_SYS_TRANS", names.OP_HALF_TOPIC, 0)
