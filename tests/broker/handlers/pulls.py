"""Pulls of a test, and what they return."""

from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import decode_messages


def pull(talk: TalkingBroker, topic: str, offset: int = 0, **changes: object) -> Command:
    (reply,) = talk.pull(topic, offset, **changes)
    return reply


def outcome(reply: Command) -> tuple[int, int]:
    return reply.code, int(reply.ext_fields["nextBeginOffset"])


def bodies(reply: Command) -> list[bytes]:
    return [message.body for message in decode_messages(reply.body)]


def replicate(master: TalkingBroker, slave: TalkingBroker) -> None:
    """Bring topics and messages to a slave, as replication and metadata sync do."""
    slave.broker.topics.replace_all(master.broker.topics.wrapper())
    store = slave.broker.store
    start = store.max_commit_log_offset
    store.append_raw(start, master.broker.store.read_log(start, 1 << 20))
    store.dispatch()
