"""Tables of topics and of groups fit into a frame."""

import itertools
import pathlib
from collections.abc import Callable, Iterator

import pytest

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.tableroom import TableRoom
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.registration import RegisterBrokerBody
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.frame import MAX_FRAME
from rmqlab.runtime.net.dispatch import Refusal

LONG = "x" * 100
ROOM_FOR_HEADERS = 4096


def _later(_fn: Callable[[], None]) -> None:
    """Save never: only the table in memory counts."""


def _until_refused(make: Callable[[str], object], name: str) -> Iterator[str]:
    """Make entries until there is no room; give their names."""
    for number in itertools.count():
        try:
            if make(f"{name}{number}") is None:
                return
        except Refusal:
            return
        yield f"{name}{number}"


def test_a_full_table_of_topics_fits_into_a_registration_and_into_a_slaves_copy(tmp_path: pathlib.Path) -> None:
    """A larger registration is rejected, and the nameservers drop the broker."""
    topics = TopicTable(BrokerConfig(), tmp_path / "topics.json", lambda: 1, _later)

    def create(name: str) -> object:
        return topics.create_from_default(name, names.DEFAULT_TOPIC, 4, unit_mode=False, is_retry=False)

    retries = list(_until_refused(lambda name: topics.create_plain(name, 1), f"{names.RETRY_PREFIX}{LONG}"))
    assert len(retries) > 10_000
    own = list(_until_refused(create, LONG))
    assert len(own) > 10_000, "topics of groups do not keep out those of clients"
    body = RegisterBrokerBody(topic_config_serialize_wrapper=topics.wrapper()).encode()
    assert 13 * 2**20 < len(body) < MAX_FRAME - ROOM_FOR_HEADERS
    assert len(topics.wrapper().encode()) < MAX_FRAME - ROOM_FOR_HEADERS
    topics.delete(own[0])
    assert topics.has_room(own[0])
    assert not topics.has_room(f"{names.DLQ_PREFIX}{LONG}")
    topics.delete(retries[0])
    topics.create_plain(f"{names.DLQ_PREFIX}{LONG}"[: len(retries[0])], 1)
    assert topics.create_plain(names.TRANS_CHECK_MAX_TIME_TOPIC, 1).topic_name == names.TRANS_CHECK_MAX_TIME_TOPIC


def test_a_full_table_of_groups_fits_into_a_slaves_copy(tmp_path: pathlib.Path) -> None:
    groups = SubscriptionGroupTable(BrokerConfig(), tmp_path / "subscriptionGroup.json", lambda: 1, _later)
    made = list(_until_refused(groups.find, LONG))
    assert groups._room.bytes > 14 * 2**20
    assert len(groups.wrapper().encode()) < MAX_FRAME - ROOM_FOR_HEADERS
    assert groups.find(made[0]) is not None
    groups.delete(made[0])
    assert groups.find(made[0]) is not None


def test_a_copied_table_and_a_read_one_are_counted(tmp_path: pathlib.Path) -> None:
    topics = TopicTable(BrokerConfig(), tmp_path / "topics.json", lambda: 1)
    topics.create_plain("%RETRY%g", 1)
    again = TopicTable(BrokerConfig(), tmp_path / "topics.json", lambda: 1)
    assert (again._room.bytes, again._group_room.entries) == (topics._room.bytes, 1)
    again.replace_all(TopicConfigSerializeWrapper(data_version=topics.data_version, topic_config_table={}))
    assert again._group_room.entries == 1, "the version is the same"
    topics.bump_version()
    again.replace_all(TopicConfigSerializeWrapper(data_version=topics.data_version, topic_config_table={}))
    assert again._room.entries == again._room.bytes == again._group_room.entries == again._group_room.bytes == 0


def test_escaped_names_cost_what_their_json_has() -> None:
    room = TableRoom(max_entries=10, max_bytes=20, entry_bytes=0)
    assert room.has_room("12345678")
    assert not room.has_room("\x00\x00")


def test_without_room_for_its_retry_topic_a_group_consumes_and_sends_nothing_back(talk: TalkingBroker) -> None:
    talk.heartbeat("known", "T")
    room = talk.broker.topics._group_room
    room.max_entries = room.entries
    talk.heartbeat("late", "T")
    assert set(talk.broker.consumers.groups) == {"known", "late"}
    assert talk.broker.topics.get("%RETRY%late") is None
    assert talk.send("own").code == ResponseCode.SUCCESS
    reply = talk.send("%RETRY%other")
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "no room for topic" in (reply.remark or "")
    talk.heartbeat("known", "T")


@pytest.mark.parametrize("name", ["%RETRY%known", "T"])
def test_a_deleted_topic_leaves_its_room(talk: TalkingBroker, name: str) -> None:
    topics = talk.broker.topics
    before = topics._room.bytes, topics._group_room.bytes
    topics.create_plain(name, 1)
    topics.create_plain(name, 1)
    assert (topics._room.bytes, topics._group_room.bytes) != before
    topics.delete(name)
    topics.delete(name)
    assert (topics._room.bytes, topics._group_room.bytes) == before
