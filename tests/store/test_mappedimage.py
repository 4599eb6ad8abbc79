"""Files that are mapped: what would end the process with SIGBUS is copied instead."""

import mmap
import os
from pathlib import Path

import pytest

from rmqlab.store.files import fileimage, mappedimage
from rmqlab.store.files.mappedimage import MappedImage

_STEP = 4 * mmap.PAGESIZE
_DATA = bytes(range(256)) * (16 * mmap.PAGESIZE // 256) + b"end"


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileimage, "_STEP", _STEP)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "0"
    path.write_bytes(_DATA)
    return path


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_file_is_mapped_up_to_its_end(path: Path) -> None:
    with MappedImage.open(path) as image:
        for begin in range(0, len(_DATA), 1000):
            image.load(begin, begin + 1500)
            assert image.view[begin : begin + 1500] == _DATA[begin : begin + 1500]
        assert is_mapped(path)
        image.load(0, 10)
        assert image.view[:10] == _DATA[:10]
    del image
    assert not is_mapped(path)


def test_a_window_may_end_behind_a_file_of_whole_pages(tmp_path: Path) -> None:
    path, data = tmp_path / "0", _DATA[: 16 * mmap.PAGESIZE]
    path.write_bytes(data)
    with MappedImage.open(path) as image:
        image.load(0, len(data))
        image.load(len(data) - 10, len(data) + 100)
        assert image.view[-10:] == data[-10:]
        image.load(len(data), len(data) + 100)
        assert is_mapped(path)


def test_a_file_is_copied_by_a_kernel_that_reports_errors_as_signals_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mappedimage, "_POPULATE_READ", 9999)
    with MappedImage.open(path) as image:
        image.load(5000, 6000)
        assert image.view[5000:6000] == _DATA[5000:6000]
        assert not is_mapped(path)


def test_a_file_that_was_truncated_meanwhile_is_copied(path: Path) -> None:
    left = 6 * mmap.PAGESIZE
    with MappedImage.open(path) as image:
        image.load(0, 10)
        os.truncate(path, left)
        image.load(0, 8 * mmap.PAGESIZE)
        assert image.view[: 8 * mmap.PAGESIZE] == _DATA[:left] + bytes(2 * mmap.PAGESIZE)


def test_bytes_behind_the_data_are_zeros_and_take_no_memory(tmpfs_path: Path) -> None:
    path = tmpfs_path / "0"
    with path.open("wb") as file:
        file.write(_DATA)
        file.truncate(2 * len(_DATA))
    blocks = path.stat().st_blocks
    with MappedImage.open(path) as image:
        image.load(0, 10)
        assert is_mapped(path)
        image.load(5, len(_DATA) + 5000)
        assert image.view[5 : len(_DATA) + 5000] == _DATA[5:] + bytes(5000)
    assert path.stat().st_blocks == blocks


def test_a_file_with_a_hole_in_its_data_is_copied(tmpfs_path: Path) -> None:
    path = tmpfs_path / "0"
    hole = 4 * mmap.PAGESIZE
    with path.open("wb") as file:
        file.write(_DATA[: mmap.PAGESIZE])
        file.seek(hole)
        file.write(_DATA)
    blocks = path.stat().st_blocks
    with MappedImage.open(path) as image:
        image.load(0, hole + len(_DATA))
        assert not is_mapped(path)
        expected = _DATA[: mmap.PAGESIZE] + bytes(hole - mmap.PAGESIZE) + _DATA
        assert image.view[: len(expected)] == expected
    assert path.stat().st_blocks == blocks


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    with MappedImage.open(tmp_path / "0") as image:
        image.load(0, 100)
        assert len(image.view) == 0
