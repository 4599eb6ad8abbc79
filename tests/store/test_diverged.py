"""Reading what a slave cut from its log."""

import pathlib
import shutil

import pytest

from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline import diverged
from rmqlab.store.offline.diverged import MOST_DAMAGES, CutDamage, CutMessage, read_diverged
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import save_from, truncate


def saved(root: pathlib.Path, count: int = 300, first: int = 5) -> pathlib.Path:
    """Store messages k-0, k-1, ... over several files, and cut all from one on."""
    store = MessageStore.open(small_config(root), now_millis=ManualClock())
    offsets = [store.put(new_message(b"x" * 400, unique_key=f"k-{number}")).physical_offset for number in range(count)]
    path = save_from(store, offsets[first])
    truncate(store, offsets[first])
    store.close()
    assert path is not None
    return path


def keys(root: pathlib.Path) -> list[str]:
    return [one.message.properties["UNIQ_KEY"] for one in read_diverged(root) if isinstance(one, CutMessage)]


def damages(root: pathlib.Path) -> list[str]:
    return [one.reason for one in read_diverged(root) if isinstance(one, CutDamage)]


def test_all_that_was_cut_is_read_over_the_ends_of_files(tmp_path: pathlib.Path) -> None:
    saved(tmp_path)
    assert keys(tmp_path) == [f"k-{number}" for number in range(5, 300)]
    assert damages(tmp_path) == []


def test_a_store_without_truncations_has_no_diverged_messages(tmp_path: pathlib.Path) -> None:
    assert list(read_diverged(tmp_path)) == []


def test_later_cuts_follow_earlier_ones(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, count=10)
    shutil.copy(path, path.with_name(f"{path.name[:20]}.9"))  # long before
    assert keys(tmp_path) == [f"k-{number}" for number in range(5, 10)] * 2
    first = next(iter(read_diverged(tmp_path)))
    assert first.file.name.endswith(".9")


def test_damage_hides_only_the_record_that_it_is_in(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, count=10)
    content = bytearray(path.read_bytes())
    content[4] ^= 0xFF  # the magic of the first record
    content[-40] ^= 0xFF  # the body of the last one
    path.write_bytes(content)
    assert keys(tmp_path) == [f"k-{number}" for number in range(6, 9)]
    assert damages(tmp_path) == ["no record begins here", "a record whose body does not match its checksum"]


def test_a_file_that_was_cut_short_gives_what_it_has(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, count=10)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 100])
    assert keys(tmp_path) == [f"k-{number}" for number in range(5, 9)]
    assert damages(tmp_path) == ["no record begins here"]


def test_strange_files_are_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "diverged" / "sub").mkdir(parents=True)
    (tmp_path / "diverged" / "notes.txt").write_text("x")
    assert damages(tmp_path) == ["not a file that a slave saved: expected OFFSET.MILLIS as its name"] * 2
    (tmp_path / "diverged" / f"{0:020d}.2").write_bytes(b"\xff" * 4096)
    assert damages(tmp_path).count("no record begins here") == 1
    assert keys(tmp_path) == []


def test_an_empty_file_and_a_rest_that_is_too_short_for_a_record_are_named(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, count=10)
    path.write_bytes(path.read_bytes() + b"abc")
    path.with_name(f"{0:020d}.1").write_bytes(b"")
    assert keys(tmp_path) == [f"k-{number}" for number in range(5, 10)]
    assert damages(tmp_path) == ["an empty file: the slave ended before it had written it", "no record begins here"]


def test_files_beyond_the_limit_are_named_and_not_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, count=10)
    later = path.with_name(f"{path.name}0")
    shutil.copy(path, later)
    limit = path.stat().st_size
    monkeypatch.setattr(diverged, "MOST_BYTES", limit)
    assert keys(tmp_path) == [f"k-{number}" for number in range(5, 10)]
    assert [one for one in read_diverged(tmp_path) if isinstance(one, CutDamage)] == [
        CutDamage(later, 0, f"not read: with earlier files it exceeds {limit} bytes")
    ]


def test_a_file_with_many_damages_is_not_read_to_its_end(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"x" * 400, b"y" * 400))  # the checksum of no body matches
    found = damages(tmp_path)
    assert len(found) == MOST_DAMAGES + 1
    assert found[-1] == f"not read from here on: {MOST_DAMAGES} damages before it"
