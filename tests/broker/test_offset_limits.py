"""Committed offsets fit into a frame.

A slave copies no larger table, and a promoted one would have old offsets.
"""

import contextlib
import itertools
import pathlib
from collections.abc import Iterable

import pytest

from rmqlab.broker.tables import offsets as module
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.remoting.frame import MAX_FRAME
from rmqlab.runtime.net.dispatch import Refusal

LONGEST = -(2**63)
ROOM_FOR_HEADERS = 4096


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the limits of bytes to a sixteenth."""
    for name in ("MAX_BYTES", "MAX_BYTES_FOR_NEW"):
        monkeypatch.setattr(module, name, getattr(module, name) // 16)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("queues", [1, 1000])
@pytest.mark.parametrize("offset", [1, LONGEST])
def test_a_full_table_fits_into_a_slaves_copy(tmp_path: pathlib.Path, queues: int, offset: int) -> None:
    """Also after each of its offsets has become as long as it may."""
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")

    def commit_all(numbers: Iterable[int], offset: int) -> None:
        for number in numbers:
            table.commit(f'g"{number // queues}', "T", -(2**31) + number % queues, offset)

    with pytest.raises(Refusal, match=r"720896 bytes, with .* delete groups"):
        commit_all(itertools.count(), offset)
    size = len(table.encode()) - len('{"offsetTable":{}')
    assert 0.9 * module.MAX_BYTES_FOR_NEW < size <= module.MAX_BYTES_FOR_NEW
    table.remove_group('g"0')
    commit_all([0], offset)
    count = sum(map(len, table.offsets.values()))
    with contextlib.suppress(Refusal):
        commit_all(range(count), LONGEST)
    size = len(table.encode())
    assert size <= module.MAX_BYTES + len('{"offsetTable":{}')
    assert 16 * size < MAX_FRAME - ROOM_FOR_HEADERS


def test_a_hundred_thousand_groups_have_room(tmp_path: pathlib.Path) -> None:
    """Offsets count with the digits that they have."""
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    for number in range(100_000):
        for queue_id in range(4):
            table.commit(f"consumers-of-orders-{number}", "orders", queue_id, 12_345)


def test_groups_cannot_be_cloned_into_a_full_table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each clone of a group with 4,000,000 offsets took 400 MB, and none was refused."""
    table = ConsumerOffsetTable(tmp_path / "consumerOffset.json")
    for queue_id in range(10):
        table.commit("g", "T", queue_id, 1)
    table.clone("g", "second", "T")
    monkeypatch.setattr(module, "MAX_BYTES_FOR_NEW", table._bytes + 10)
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
    assert table._bytes == before == len(table.encode()) - len('{"offsetTable":{}')
    table.save()
    assert ConsumerOffsetTable(tmp_path / "consumerOffset.json")._bytes == before
