"""A disk that forgets unsynced bytes, for processes that end at one of its calls."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from tests.store.failingdisk import FailingDisk

PAGE: Final = 4096

Forgets = Callable[[int], bool]
"""True for the number of a changed page that a power loss reverts."""


class Killed(BaseException):
    """The process ends here: no handler of errors may see it."""


@attrs.define(eq=False)
class ForgetfulDisk(FailingDisk):
    """Keeps what each file below `root` had when it was synced.

    Raises `Killed` at a call.
    """

    root: Path = attrs.field(kw_only=True)
    _synced: dict[Path, bytes] = attrs.field(factory=dict, init=False)
    _named: set[Path] = attrs.field(factory=set, init=False)
    """Files whose names are durable."""
    _deleted: dict[Path, bytes] = attrs.field(factory=dict, init=False)
    """Files whose deletion is not durable."""

    def __attrs_post_init__(self) -> None:
        """Take all that is there as durable."""
        for path in self.root.rglob("*"):
            if path.is_file():
                self._synced[path] = path.read_bytes()
        self._named = set(self._synced)

    def _point(self, name: str) -> None:
        at = len(self.names)
        self.names.append(name)
        if at == self.fails_at:
            raise Killed

    def sync(self, _descriptor: int) -> None:
        super().sync(_descriptor)
        path = Path(f"/proc/self/fd/{_descriptor}").readlink()
        self._synced[path] = path.read_bytes()
        self._commit()

    def _commit(self) -> None:
        """Make all names durable, as a journal of ext4 or xfs does with any sync."""
        self._named.update(found for found in self.root.rglob("*") if found.is_file())
        self._deleted.clear()

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if path in self._named:
            self._named.remove(path)
            self._deleted[path] = self._synced.get(path, b"")
        self._synced.pop(path, None)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._commit()

    def lose_power(self, forgets: Forgets, *, keeps_names: bool) -> None:
        """Revert pages to what was synced.

        A file that was never synced has zeros. `keeps_names`: creations and deletions of files are on disk, as if the
        file system had written its journal just before. Otherwise they are undone, unless their directory was synced.
        """
        for path in sorted(path for path in self.root.rglob("*") if path.is_file()):
            if not keeps_names and path not in self._named:
                path.unlink()
            else:
                self._forget(path, forgets)
        for path, content in self._deleted.items() if not keeps_names else ():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _forget(self, path: Path, forgets: Forgets) -> None:
        now = path.read_bytes()
        before = self._synced.get(path, b"").ljust(len(now), b"\0")
        pages = [
            before[at : at + PAGE] if forgets(number) else now[at : at + PAGE]
            for number, at in enumerate(range(0, len(now), PAGE))
        ]
        path.write_bytes(b"".join(pages)[: len(now)])


def copy_store(source: Path, target: Path) -> None:
    """Replace a store by a copy of another one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def forgets_all(_number: int) -> bool:
    return True


def forgets_even(number: int) -> bool:
    return number % 2 == 0


def forgets_odd(number: int) -> bool:
    return number % 2 == 1
