"""Registered expressions: live and dead clients, and the file's content."""

import collections
import json
import pathlib
from collections.abc import Callable

import attrs
import pytest
import trio

from rmqlab.broker.filter.bloom import BloomFilter
from rmqlab.broker.filter.table import MAX_NAME_SIZE, ConsumerFilterTable
from rmqlab.remoting.bodies.filter import ConsumerFilterData, FilterDataByTopic, FilterTableBody
from rmqlab.remoting.bodies.heartbeat import SubscriptionData

DAY = 86_400_000
BLOOM = BloomFilter.of(20, 32)


@attrs.define
class Scene:
    """A table, its clock, its file."""

    path: pathlib.Path
    now: int = 1_000_000
    table: ConsumerFilterTable = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.open()

    def open(self, bloom: BloomFilter = BLOOM) -> None:
        self.table = ConsumerFilterTable(self.path, lambda: self.now, bloom, DAY)

    def register(self, expression: str = "a > 1", version: int = 1, topic: str = "T") -> None:
        collections.deque(self.table.register("G", [subscription(expression, version, topic)]))

    @property
    def known(self) -> ConsumerFilterData:
        data = self.table.find("T", "G")
        assert data is not None
        return data


def subscription(expression: str, version: int, topic: str = "T", kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Scene:
    return Scene(tmp_path / "consumerFilter.json")


def test_tag_and_empty_expressions_are_not_kept(scene: Scene) -> None:
    collections.deque(scene.table.register("G", [subscription("TagA", 1, kind="TAG"), subscription("", 1, "U")]))
    assert scene.table.topics == {}


def test_a_newer_expression_replaces_an_older_one(scene: Scene) -> None:
    scene.register("a > 1", 5)
    scene.register("a > 2", 4)
    assert (scene.known.expression, scene.known.client_version) == ("a > 1", 5)
    scene.now += 10
    scene.register("a > 3", 6)
    assert (scene.known.expression, scene.known.client_version, scene.known.born_time) == ("a > 3", 6, 1_000_010)


def test_a_newer_version_of_the_same_expression_is_no_new_birth(scene: Scene) -> None:
    scene.register("a > 1", 5)
    scene.now += 10
    scene.register("a > 1", 6)
    assert (scene.known.client_version, scene.known.born_time) == (6, 1_000_000)


def test_an_invalid_expression_is_not_registered_and_removes_the_old_one(scene: Scene) -> None:
    scene.register("a >", 1)
    assert scene.table.find("T", "G") is None
    scene.register("a > 1", 2)
    scene.register("a >", 3)
    assert scene.table.find("T", "G") is None


def test_a_group_that_is_gone_is_dead_and_lives_again_when_it_returns(scene: Scene) -> None:
    scene.register(version=5)
    scene.now += 10
    scene.table.unregister("G")
    assert (scene.known.dead_time, scene.known.is_dead) == (1_000_010, True)
    scene.now += 10
    scene.table.unregister("G")
    assert scene.known.dead_time == 1_000_010
    scene.register(version=5)
    assert (scene.known.dead_time, scene.known.is_dead) == (0, False)


def test_a_topic_that_a_group_no_longer_names_is_dead(scene: Scene) -> None:
    scene.register()
    scene.register(topic="U")
    assert scene.known.is_dead


def test_the_dead_are_forgotten_after_a_day(scene: Scene) -> None:
    scene.register()
    scene.table.unregister("G")
    scene.now += DAY - 1
    scene.table.save()
    assert scene.known.is_dead
    scene.now += 1
    scene.table.save()
    assert scene.path.read_text() == '{\n\t"filterDataByTopic":{}\n}'


def test_the_file_is_that_of_4_9_and_is_read_again(scene: Scene) -> None:
    scene.register("a > 1", 7)
    scene.table.save()
    assert json.loads(scene.path.read_text()) == {
        "filterDataByTopic": {
            "T": {
                "groupFilterData": {
                    "G": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": BLOOM.data("G#T").bit_pos},
                        "bornTime": 1_000_000,
                        "clientVersion": 7,
                        "consumerGroup": "G",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "a > 1",
                        "expressionType": "SQL92",
                        "topic": "T",
                    }
                },
                "topic": "T",
            }
        }
    }
    scene.now += 100_000
    scene.open()
    assert (scene.known.expression, scene.known.dead_time) == ("a > 1", 1_070_000)  # 30 s before the start


def test_a_filter_registered_just_before_a_start_has_equal_born_and_dead_times(scene: Scene) -> None:
    scene.register()
    scene.table.save()
    scene.open()
    assert scene.known.dead_time == scene.known.born_time


def test_a_file_with_bits_of_another_size_is_not_used(scene: Scene) -> None:
    scene.register()
    scene.table.save()
    scene.open(BloomFilter.of(20, 64))
    assert scene.table.topics == {}


def test_a_file_is_written_only_after_a_change(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12.6: all expressions were written each 10 s."""
    written: list[pathlib.Path] = []
    monkeypatch.setattr("rmqlab.broker.filter.table.keep_config_file", lambda path, _content: written.append(path))
    changes: list[Callable[[], object]] = [
        lambda: None,
        scene.register,
        lambda: scene.register(version=2),
        lambda: scene.table.unregister("G"),
        lambda: setattr(scene, "now", scene.now + 2 * DAY),
    ]
    for change in changes:
        change()
        before = len(written)
        scene.table.save()
        scene.table.save()
        assert len(written) == before + 1


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILTERS", 1), ("MAX_CHARACTERS", 17)])
def test_so_many_expressions_are_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(f"rmqlab.broker.filter.table.{limit}", value)
    scene.register()
    scene.register(topic="Other")
    assert (scene.table.find("T", "G") is None, scene.table.find("Other", "G")) == (False, None)


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILTERS", 1), ("MAX_CHARACTERS", 17)])
def test_room_is_free_again_after_removal_and_expiry(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"rmqlab.broker.filter.table.{limit}", value)
    scene.register()
    scene.register("a >", 2)
    scene.register(topic="Other")
    assert scene.table.find("Other", "G") is not None
    scene.table.save()
    scene.open()
    scene.register(version=3)
    assert scene.table.find("T", "G") is None, "the loaded filter counts"
    scene.now += 2 * DAY
    scene.table.save()
    scene.register(version=4)
    assert scene.known.client_version == 4


def test_a_filter_with_long_names_is_not_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat with a topic of 4 million characters took 2 s."""
    monkeypatch.setattr("rmqlab.broker.filter.table.compiled", pytest.fail)
    monkeypatch.setattr(BloomFilter, "data", pytest.fail)
    scene.register(topic="t" * MAX_NAME_SIZE)
    assert scene.table.topics == {}


def test_filters_with_long_names_of_a_file_are_dropped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as unlimited:
        unlimited.setattr("rmqlab.broker.filter.table.MAX_NAME_SIZE", 10**6)
        scene.register(topic="t" * MAX_NAME_SIZE)
        scene.register()
    scene.table.save()
    scene.open()
    assert scene.table.topics.keys() == {"T"}


@pytest.mark.parametrize("filters", [0, 1, 7])
def test_the_file_is_the_same_in_slices(scene: Scene, monkeypatch: pytest.MonkeyPatch, filters: int) -> None:
    monkeypatch.setattr("rmqlab.broker.filter.table._ENCODED_AT_ONCE", 2)
    for number in range(filters):
        one = subscription("a = '\u00e9'", 1, f"T{number % 3}")
        collections.deque(scene.table.register(f"G{number}", [one]))
    trio.run(scene.table.save_in_slices)
    tables = {
        topic: FilterDataByTopic(group_filter_data=groups, topic=topic) for topic, groups in scene.table.topics.items()
    }
    assert scene.path.read_bytes() == FilterTableBody(filter_data_by_topic=tables).encode_pretty()
    assert sum(map(len, scene.table.topics.values())) == filters


def test_a_change_during_a_save_is_saved_by_the_next(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def change_and_write(write: Callable[..., None], *args: object) -> None:
        scene.register(topic="Other")
        write(*args)

    monkeypatch.setattr("rmqlab.broker.filter.table.in_thread", change_and_write)
    scene.register()
    trio.run(scene.table.save_in_slices)
    assert json.loads(scene.path.read_bytes())["filterDataByTopic"].keys() == {"T"}
    scene.table.save()
    assert json.loads(scene.path.read_bytes())["filterDataByTopic"].keys() == {"T", "Other"}


def test_a_full_table_compiles_no_further_expression(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat of 30,000 expressions took more than 100 s."""
    monkeypatch.setattr("rmqlab.broker.filter.table.MAX_FILTERS", 1)
    scene.register()
    monkeypatch.setattr("rmqlab.broker.filter.table.compiled", pytest.fail)
    scene.register(topic="Other")
    assert scene.table.find("Other", "G") is None


def test_a_save_that_a_stop_cancels_is_made_at_the_stop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.register()

    async def main() -> None:
        with trio.CancelScope() as scope:

            async def stopped(*_args: object) -> None:
                scope.cancel()
                await trio.lowlevel.checkpoint()

            monkeypatch.setattr("rmqlab.broker.filter.table.in_thread", stopped)
            await scene.table.save_in_slices()

    trio.run(main)
    scene.table.save()
    assert json.loads(scene.path.read_bytes())["filterDataByTopic"].keys() == {"T"}
