"""Table files: the same text as a full encoding, at the cost of the changes only."""

import pytest

from rmqlab.broker.tables.tablefile import TableFile
from rmqlab.remoting.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import encode_pretty_entry


def test_the_text_is_that_of_the_whole_body_whatever_changed_meanwhile() -> None:
    file = TableFile("topicConfigTable")
    topics: dict[str, TopicConfig] = {}
    for step in range(40):
        name = f"T{step % 7}"
        if step % 5 == 4:
            topics.pop(name, None)
        else:
            topics[name] = TopicConfig(topic_name=name, perm=step % 8, order=step % 2 == 0)
        whole = TopicConfigSerializeWrapper(topic_config_table=dict(topics))
        assert file.encode(TopicConfigSerializeWrapper(), topics) == whole.encode_pretty()


def test_only_the_entry_that_changed_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12.13: each topic creation cost 16 microseconds per existing topic."""
    file, topics = TableFile("topicConfigTable"), {f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(500)}
    file.encode(TopicConfigSerializeWrapper(), topics)
    encoded: list[object] = []

    def counted(key: object, value: object) -> bytes:
        encoded.append(value)
        return encode_pretty_entry(key, value)

    monkeypatch.setattr("rmqlab.broker.tables.tablefile.encode_pretty_entry", counted)
    topics["T7"] = TopicConfig(topic_name="T7", perm=4)
    file.encode(TopicConfigSerializeWrapper(), topics)
    assert encoded == [topics["T7"]]


def test_equal_entries_that_a_slave_copied_are_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy of the master's table has new values, mostly equal to the old ones."""
    file, topics = TableFile("topicConfigTable"), {f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(5)}
    before = file.encode(TopicConfigSerializeWrapper(), topics)

    def fail(key: object, _value: object) -> bytes:
        raise AssertionError(f"{key} is encoded again")

    monkeypatch.setattr("rmqlab.broker.tables.tablefile.encode_pretty_entry", fail)
    copied = {name: TopicConfig(topic_name=name) for name in topics}
    assert file.encode(TopicConfigSerializeWrapper(), copied) == before
