"""Empty, short or garbage store files: a start works or fails with one clear line.

Reads never raise.
"""

import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqlab.remoting.message import decode_message
from rmqlab.store.files.disk import StoreError
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.lock import AbortFile, StoreLock
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config

Open = Callable[..., MessageStore]

KINDS = ["commitlog/*", "consumequeue/orders/0/*", "index/*", "checkpoint", "abort", "lock", "config/rmqlab.flushed"]
COUNT = 90


def fill(store: MessageStore) -> None:
    for number in range(COUNT):
        store.put(new_message(b"x" * 900, queue_id=number % 2, keys=f"k{number}", tags="a"))
    for job in (store.flush_job(), store.flush_queues_job()):
        assert job is not None
        job.run()
        store.flushed(job)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several files of each kind, as a kill left it."""
    root = tmp_path_factory.mktemp("damaged")
    store = MessageStore.open(small_config(root / "store", max_index_num=40), now_millis=ManualClock(step=1))
    fill(store)
    shutil.copytree(root / "store", root / "killed")
    store.close()
    return root / "killed"


def contents(raw: bytes) -> Iterator[bytes]:
    chance = random.Random(len(raw))
    yield from (b"", raw[:10] or b"ten bytes.", raw[: len(raw) // 2], raw + b"x")
    yield from (byte * len(raw) for byte in (b"\x00", b"\x7f", b"\x80", b"\xff"))
    yield b"\x7f" * 40 + raw[40:]
    for _ in range(6):
        at = chance.randrange(len(raw) + 1)
        yield raw[:at] + chance.randbytes(len(raw) - at)
        spoilt = bytearray(raw)
        for _ in range(min(len(raw), 100)):
            spoilt[chance.randrange(len(raw))] = chance.randrange(256)
        yield bytes(spoilt)


def read_all(store: MessageStore) -> None:
    for topic, queue_id in store.topics_queues():
        for offset in (-1, 0, 1, 30, 45, 10**12):
            store.get_message(topic, queue_id, offset, 32, lambda _code: True)
            store.message_store_time(topic, queue_id, offset)
            store.queue_entries(topic, queue_id, offset, 32)
        store.offset_by_time(topic, queue_id, store.now_millis())
    for number in range(COUNT):
        for begin, end in ((0, 2**62), (store.now_millis() - 50, store.now_millis())):
            for found in store.query("orders", f"k{number}", 32, begin, end).buffers:
                assert decode_message(found).properties["KEYS"] == f"k{number}"
    store.check_disk()
    run_calls(store.deletion_of_expired(5))


def opened_and_read(root: Path) -> str | None:
    """Why the store does not open; None where it does."""
    try:
        store = MessageStore.open(small_config(root, max_index_num=40), now_millis=ManualClock(step=1))
    except StoreError as exc:
        return str(exc)
    read_all(store)
    store.put(new_message())
    store.close()
    return None


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_keeps_no_store_from_starting_without_saying_why(
    killed: Path,
    quick_path: Path,
    kind: str,
    is_clean: bool,  # noqa: FBT001
) -> None:
    paths = sorted(killed.glob(kind))
    assert paths
    for path in {paths[0], paths[-1]}:
        for content in contents(path.read_bytes()):
            root = quick_path / "store"
            shutil.copytree(killed, root)
            if is_clean:
                (root / "abort").unlink()
            (root / path.relative_to(killed)).write_bytes(content)
            why = opened_and_read(root)
            assert why is None or (str(root) in why and "\n" not in why)
            shutil.rmtree(root)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("content", [b"", b"\x7f" * (40 + 400 + 40 * 20)], ids=["empty", "garbage"])
def test_an_empty_or_garbled_index_file_goes_and_the_rest_is_found(
    open_store: Open,
    tmp_path: Path,
    content: bytes,
    at: int,
    is_clean: bool,  # noqa: FBT001
) -> None:
    """issue 12.11: left by a kill, ENOSPC or EIO between creation and ftruncate.

    The newest is made again.
    """
    store = open_store(max_index_num=40)
    fill(store)
    store.close()
    if not is_clean:
        (tmp_path / "store" / "abort").touch()
    path = sorted((tmp_path / "store" / "index").iterdir())[at]
    path.write_bytes(content)
    again = open_store(max_index_num=40)
    found = [number for number in range(COUNT) if again.query("orders", f"k{number}", 9, 0, 2**62).buffers]
    assert found == list(range(39 if at == 0 else 0, COUNT))
    assert all(file.stat().st_size for file in (tmp_path / "store" / "index").iterdir())


def test_an_index_chain_that_runs_in_a_ring_ends(open_store: Open) -> None:
    store = open_store()
    for _ in range(3):
        store.put(new_message(keys="same"))
    assert store.index is not None
    mapped, entries_at = store.index.files[0].file.map, 40 + 4 * 100
    mapped[entries_at + 20 + 16 : entries_at + 20 + 20] = (3).to_bytes(4, "big")  # the first leads to the last
    assert len(store.query("orders", "same", 64, 0, 2**62).buffers) == 3


def test_an_entry_that_leads_to_another_message_is_not_followed(open_store: Open) -> None:
    """issue 12.13: as a truncation left them before."""
    store = open_store()
    offsets = [store.put(new_message(keys=f"k{number}")).physical_offset for number in range(3)]
    assert store.index is not None
    mapped, entry_at = store.index.files[0].file.map, 40 + 4 * 100 + 20
    for elsewhere in (offsets[1], offsets[1] + 1, 10**9):
        mapped[entry_at + 4 : entry_at + 12] = elsewhere.to_bytes(8, "big")
        assert store.query("orders", "k0", 9, 0, 2**62).buffers == []


def test_a_lock_file_that_links_to_itself_is_a_named_reason(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("lock")
    with pytest.raises(OSError, match="symbolic links"):
        StoreLock.acquire(tmp_path / "lock")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        there = Path.cwd()
        os.chdir(path.parent)  # a socket's path has at most 108 bytes
        try:
            one.bind(path.name)
        finally:
            os.chdir(there)


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a missing file": lambda path: path.symlink_to("nowhere"),
    "a loop of links": lambda path: path.symlink_to(path.name),
    "a directory": Path.mkdir,
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("below", ["commitlog/*", "consumequeue/orders/0/*", "index/*"])
def test_an_entry_that_is_no_file_does_not_count_as_an_empty_file(
    killed: Path, quick_path: Path, below: str, kind: str
) -> None:
    """An empty last file is deleted, and a log without files makes the queues empty."""
    paths = sorted(killed.glob(below))
    for path in (paths[0], paths[-1]):
        root = quick_path / "store"
        shutil.copytree(killed, root)
        odd = root / path.relative_to(killed)
        odd.unlink()
        ODD[kind](odd)
        with pytest.raises(OSError, match=f"it is {kind}: expected a file|levels of symbolic links") as caught:
            opened_and_read(root)
        assert caught.value.filename == str(odd)
        assert os.path.lexists(odd)
        shutil.rmtree(root)


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "a directory"])
@pytest.mark.parametrize(
    "below", ["commitlog", "consumequeue", "consumequeue/orders", "consumequeue/orders/0", "index"]
)
def test_an_entry_that_is_no_directory_does_not_count_as_missing(
    killed: Path, quick_path: Path, below: str, kind: str
) -> None:
    root = quick_path / "store"
    shutil.copytree(killed, root)
    shutil.rmtree(root / below)
    ODD[kind](root / below)
    with pytest.raises(OSError, match=r"Not a directory|No such file|levels of symbolic links") as caught:
        opened_and_read(root)
    assert caught.value.filename == str(root / below)


def test_a_file_of_a_file_manager_beside_topics_is_ignored(killed: Path, quick_path: Path) -> None:
    root = quick_path / "store"
    shutil.copytree(killed, root)
    (root / "consumequeue" / ".DS_Store").write_text("x")
    (root / "consumequeue" / "notes.txt").write_text("x")
    assert opened_and_read(root) is None


def test_a_link_named_abort_marks_a_crash(killed: Path, quick_path: Path) -> None:
    root = quick_path / "store"
    shutil.copytree(killed, root)
    (root / "abort").unlink()
    (root / "abort").symlink_to("nowhere")
    assert AbortFile(root / "abort").exists


ENTRY_SIZE = 20


def entered(store: MessageStore) -> list[list[tuple[int, int, int]]]:
    return [
        [
            entry
            for at in range(store.max_queue_offset("orders", number))
            for entry in store.queue_entries("orders", number, at, 1)
        ]
        for number in range(2)
    ]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(
    ("at", "damage"),
    [(25, bytes(64)), (0, b"\xff" * ENTRY_SIZE * 40), (44, b"\x80")],
    ids=["zeros", "most of it", "the last"],
)
def test_damaged_entries_are_made_again_from_the_log(
    killed: Path,
    quick_path: Path,
    caplog: pytest.LogCaptureFixture,
    at: int,
    damage: bytes,
    is_clean: bool,  # noqa: FBT001
) -> None:
    """Of a clean stop, the entries before which another queue ends as well.

    RocketMQ dispatches from the end of the last record in any queue only, and appends before entries that it dropped.
    """
    root = quick_path / "store"
    shutil.copytree(killed, root)
    store = MessageStore.open(small_config(root, max_index_num=40), now_millis=ManualClock(step=1))
    whole = entered(store)
    if is_clean:
        store.close()
    else:
        store._release()
    path = next((root / "consumequeue" / "orders" / "0").iterdir())
    raw = path.read_bytes()
    path.write_bytes(raw[: at * ENTRY_SIZE] + damage + raw[at * ENTRY_SIZE + len(damage) :])
    for _ in range(2):
        store = MessageStore.open(small_config(root, max_index_num=40), now_millis=ManualClock(step=1))
        assert entered(store) == whole
        store.close()
    assert (f"{path.parent}: entries from" in caplog.text) == is_clean


@pytest.mark.parametrize("at_other", [40, 44, 45])
def test_no_entry_gets_a_wrong_offset_after_damaged_ones_of_expired_records(
    killed: Path, quick_path: Path, at_other: int
) -> None:
    """Nor where another queue is made again from records before."""
    root = quick_path / "store"
    shutil.copytree(killed, root)
    store = MessageStore.open(small_config(root, max_index_num=40), now_millis=ManualClock(step=1))
    whole = entered(store)
    store.close()
    min((root / "commitlog").iterdir()).unlink()
    for number, at in ((0, 10), (1, at_other)):
        path = next((root / "consumequeue" / "orders" / str(number)).iterdir())
        raw = path.read_bytes()
        damage = b"\xff" * ENTRY_SIZE * (len(whole[number]) - at)
        path.write_bytes(raw[: at * ENTRY_SIZE] + damage + raw[at * ENTRY_SIZE + len(damage) :])
    store = MessageStore.open(small_config(root, max_index_num=40), now_millis=ManualClock(step=1))
    assert store.max_queue_offset("orders", 0) == 10
    assert store.max_queue_offset("orders", 1) == len(whole[1])
    assert entered(store)[1][-5:] == whole[1][-5:]
    store.close()


def test_a_file_of_another_place_in_the_log_keeps_a_store_from_starting(killed: Path, quick_path: Path) -> None:
    root = quick_path / "store"
    shutil.copytree(killed, root)
    first, second = sorted((root / "commitlog").iterdir())[:2]
    shutil.copy(first, second)
    assert opened_and_read(root) == f"{second} begins with the record of commit log offset 0: it is another file"


def test_a_missing_file_of_the_log_is_logged(killed: Path, quick_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As MappedFileQueue.checkSelf."""
    root = quick_path / "store"
    shutil.copytree(killed, root)
    path = root / "commitlog" / f"{3 * 65536:020d}"
    first, second = sorted((root / "commitlog").iterdir())
    raw = bytearray(first.read_bytes())
    raw[28:36] = (3 * 65536).to_bytes(8, "big")  # the physical offset of its first record
    path.write_bytes(raw)
    opened_and_read(root)
    assert f"{path} does not follow {second.name}: files between them are missing" in caplog.text


def test_a_deleted_file_that_stayed_is_no_gap(killed: Path, quick_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As `LogFile.discard` leaves it on a disk that refuses to delete it."""
    root = quick_path / "store"
    shutil.copytree(killed, root)
    path = root / "commitlog" / f"{3 * 65536:020d}"
    path.write_bytes(bytes(40) + b"x" * (65536 - 40))
    opened_and_read(root)
    assert "files between them are missing" not in caplog.text
    assert f"{path} does not follow {65536:020d} and begins with zeros: it is deleted" in caplog.text
    assert not path.exists()


def test_a_log_that_is_cut_at_its_damage_is_logged(
    killed: Path, quick_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = quick_path / "store"
    shutil.copytree(killed, root)
    (path,) = sorted((root / "commitlog").iterdir())[-1:]
    with path.open("r+b") as file:
        file.write(bytes(64))
    opened_and_read(root)
    assert f"{root / 'commitlog'} is cut at {int(path.name)}, where no valid record follows" in caplog.text
    shutil.rmtree(root / "commitlog")
    opened_and_read(root)
    assert f"{root / 'commitlog'} has no files: the consume queues are deleted" in caplog.text


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_messages_behind_a_missing_file_of_the_log_are_dispatched(open_store: Open, is_clean: bool) -> None:  # noqa: FBT001
    """As CommitLog.recoverAbnormally does.

    New messages were in no queue, though acknowledged.
    """
    store = open_store()
    offsets = [store.put(new_message(b"x" * 900, keys=f"k{number}")).physical_offset for number in range(COUNT * 3)]
    root, size = store.config.store_path_root_dir, store.config.mapped_file_size_commit_log
    store.close()
    if not is_clean:
        (root / "abort").touch()
    (root / "commitlog" / f"{size:020d}").unlink()
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    again = open_store()
    last = again.put(new_message(b"new", keys="new"))
    left = [number for number, offset in enumerate(offsets) if offset // size != 1]
    assert again.dispatch_behind_bytes == 0
    assert again.max_queue_offset("orders", 0) == last.queue_offset + 1 == len(left) + 1
    assert again.get_message("orders", 0, last.queue_offset, 1).count == 1
    found = [number for number in range(len(offsets)) if again.query("orders", f"k{number}", 9, 0, 2**62).buffers]
    assert found == left
    assert again.query("orders", "new", 9, 0, 2**62).buffers
