"""Small files that are replaced as a whole, with the old content in `.bak`.

Source: store-and-ha section 5.4; MixAll.string2File, ConfigManager. As in RocketMQ, files are not synced:
after a power loss, only the `.bak` may be left.
"""

import contextlib
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from rmqlab.runtime.regularfile import MOST_BYTES
from rmqlab.store.files.disk import Disk, StoreError

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_TABLE_BYTES: Final = 2**30
"""Maximum size of a table's file. The largest tables that clients can create have several hundred MB."""

_disks: list[Disk] = [Disk()]
"""A stack: the last disk is in use."""


@contextlib.contextmanager
def on_disk(disk: Disk) -> Iterator[None]:
    """Read and write all small files of this process through `disk`.

    Fault injection passes a `FaultyDisk`.
    """
    _disks.append(disk)
    try:
        yield
    finally:
        _disks.remove(disk)


def save_config_file(path: pathlib.Path, content: bytes) -> None:
    """Replace X by `content`; a reader finds the old or the new file whole.

    Writes `X.tmp`, keeps the former X as `X.bak`, and renames `X.tmp`. Raises OSError, which leaves X as it was.
    """
    disk = _disks[-1]
    disk.make_directory(path.parent)
    temporary = _beside(path, ".tmp")
    try:
        disk.write_file(temporary, content)
        with contextlib.suppress(FileNotFoundError):
            _keep_backup(path, disk)
        disk.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)  # a partial file uses space on a full disk
        raise


def _keep_backup(path: pathlib.Path, disk: Disk) -> None:
    """Make `X.bak` a backup of X: a hard link, or else a copy.

    A link needs no room on a full disk.
    """
    linked = _beside(path, ".old")
    disk.unlink(linked)
    try:
        disk.link(path, linked)
    except PermissionError:  # a file system without hard links
        disk.write_file(linked, disk.read_file(path, MOST_TABLE_BYTES))
    disk.rename(linked, backup_path(path))


_unsaved: dict[pathlib.Path, bytes] = {}
_busy: set[pathlib.Path] = set()
"""Tables that are being saved."""
_busy_changed = threading.Condition()


@contextlib.contextmanager
def _alone(path: pathlib.Path) -> Iterator[None]:
    """Wait until no other thread saves a table, and let none begin during the block.

    Two at a time would write into one temporary file.
    """
    with _busy_changed:
        _busy_changed.wait_for(lambda: path not in _busy)
        _busy.add(path)
    try:
        yield
    finally:
        with _busy_changed:
            _busy.remove(path)
            _busy_changed.notify_all()


def keep_config_file(path: pathlib.Path, content: bytes) -> None:
    """Save a table; after a failure, `keep_unsaved_files` retries.

    Logs the first failure and the later success, once each.
    """
    with _alone(path):
        _keep(path, content)


def keep_unsaved_files() -> None:
    """Retry to save the tables whose last save failed.

    Not those that a thread saves now: their content is newer.
    """
    for path in list(_unsaved):
        if path in _busy:
            continue
        with _alone(path):
            if (content := _unsaved.get(path)) is not None:
                _keep(path, content)


def _keep(path: pathlib.Path, content: bytes) -> None:
    try:
        save_config_file(path, content)
    except OSError as exc:
        if path not in _unsaved:
            logger.error("%s is not saved: %s; tried again until it is", path, exc.strerror or exc)  # noqa: TRY400 - the disk's fault, not the code's
        _unsaved[path] = content
    else:
        if _unsaved.pop(path, None) is not None:
            logger.warning("%s is saved again", path)


def load_config_file(path: pathlib.Path, decode: Callable[[bytes], T]) -> T | None:
    """Read X, or `X.bak` if X is missing, empty or broken.

    None if there is no content: both are missing or empty, or X is broken and `X.bak` missing or empty (store-ha#62).

    `decode` raises ValueError for broken content. StoreError if the file exists and the disk cannot read it, or if it
    has more than `MOST_TABLE_BYTES`: otherwise its older `.bak` would be saved over it. StoreError also for a broken
    `X.bak`, as ConfigManager.loadBak: an empty table would be saved over both.
    """
    backup = backup_path(path)
    try:
        if (content := _content(path)) is not None:
            return decode(content)
    except ValueError as exc:
        logger.warning("%s is not used: %s", path, exc)
    try:
        return None if (content := _content(backup)) is None else decode(content)
    except ValueError as exc:
        raise StoreError(f"{backup} is damaged: {exc}; if it and {path.name} are deleted, the table is empty") from exc


def _content(path: pathlib.Path) -> bytes | None:
    """Return the content of a file; None if it is missing or empty.

    StoreError if the disk cannot read it.
    """
    try:
        content = _disks[-1].read_file(path, MOST_TABLE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    if content.strip():
        return content
    logger.warning("%s is not used: it is empty", path)
    return None


def read_config_file(path: pathlib.Path, decode: Callable[[bytes], T], never_written: T | None = None) -> T | None:
    """Read X for a judge; None if X is missing, empty, broken or unreadable.

    `X.bak` is not read: it is older than the last saved table. `never_written` is returned if the
    directory of X has neither of them: a broker writes X when it has something to save.
    """
    try:
        disk = _disks[-1]
        if disk.exists(path.parent) and not disk.exists(path) and not disk.exists(backup_path(path)):
            return never_written
        if disk.exists(path) and disk.file_size(path) > MOST_BYTES:
            logger.warning("%s is not used: more than %s bytes", path, MOST_BYTES)
            return None
        content = _content(path)
        return None if content is None else decode(content)
    except (StoreError, OSError) as exc:
        logger.warning("%s", exc)
    except ValueError as exc:
        logger.warning("%s is not used: %s", path, exc)
    return None


def backup_path(path: pathlib.Path) -> pathlib.Path:
    """Return the path of a file's former content."""
    return _beside(path, ".bak")


def _beside(path: pathlib.Path, suffix: str) -> pathlib.Path:
    return path.with_name(path.name + suffix)
