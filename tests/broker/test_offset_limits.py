"""Committed offsets fit into a frame.

A slave copies no larger table, and a promoted one would have old offsets.
"""

import itertools
import pathlib

import pytest

from rmqlab.broker import offsets as module
from rmqlab.broker.offsets import ConsumerOffsetTable
from rmqlab.remoting.frame import MAX_FRAME
from rmqlab.runtime.dispatch import Refusal

LONGEST = -(2**63)
ROOM_FOR_HEADERS = 4096


@pytest.mark.parametrize("queues", [1, 1000])
def test_a_full_table_fits_into_a_slaves_copy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", module.MAX_BYTES // 16)
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")

    def fill() -> None:
        for number in itertools.count():
            table.commit(f'g"{number // queues}', "T", -(2**31) + number % queues, LONGEST)

    with pytest.raises(Refusal, match="delete consumer groups"):
        fill()
    size = len(table.encode())
    assert 0.9 * module.MAX_BYTES < size <= module.MAX_BYTES
    assert 16 * size < MAX_FRAME - ROOM_FOR_HEADERS
    table.commit('g"0', "T", -(2**31), 5)  # a known queue
    table.remove_group('g"0')
    table.commit('g"0', "T", 0, 5)


def test_groups_cannot_be_cloned_into_a_full_table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each clone of a group with 4,000,000 offsets took 400 MB, and none was refused."""
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    for queue_id in range(10):
        table.commit("g", "T", queue_id, 1)
    monkeypatch.setattr(module, "MAX_OFFSETS", 25)
    table.clone("g", "second", "T")
    table.clone("g", "second", "T")
    with pytest.raises(Refusal):
        table.clone("g", "third", "T")
    assert table.topics_of("third") == []


def test_the_size_is_that_of_what_is_held(tmp_path: pathlib.Path) -> None:
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    table.commit("g", "T", 0, 1)
    before = table._bytes
    table.commit("h", "T", 0, 1)
    table.commit("h", "T", 1, 1)
    table.commit("h", "T", 1, 2)
    table.merge("T@h", {0: 1}, {})
    table.merge("T@new", {0: 1, 1: 2}, {2: 3})
    assert table._bytes > before
    table.remove_group("new")
    table.remove_group("h")
    assert table._bytes == before
    table.save()
    assert ConsumerOffsetTable(tmp_path / "consumerOffset.json")._bytes == before
