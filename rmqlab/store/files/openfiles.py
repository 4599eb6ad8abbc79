"""A bounded number of mapped queue files for all queues of a store.

A mapping needs a descriptor and counts against the system's limit of mappings. Clients decide how many queue files a
broker has, so a file is mapped when it is used, and the file that was mapped longest ago is unmapped for it. The order
of use is not recorded: that would cost time at each entry, and would save a file in use at most one mapping for each
`limit` others.
"""

import contextlib
import errno
import mmap
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from rmqlab.store.files.disk import Disk
from rmqlab.store.files.logfile import LogFile, map_file

T = TypeVar("T")

_SHARE: Final = 4
"""One descriptor in so many may belong to a queue file; the others are for connections."""
_LEAST: Final = 16
_MOST: Final = 16_384
"""A process may have 65,530 mappings on Linux unless configured otherwise."""
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Mapped(Protocol):
    """A file that can be mapped again."""

    def unmap(self) -> None: ...


def default_limit() -> int:
    """Return the number of queue files to keep mapped, from the limit of descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(soft // _SHARE, _MOST))


@attrs.define(eq=False)
class OpenFiles:
    """The mapped files, in the order of their mapping."""

    limit: int = attrs.field(factory=default_limit)
    _mapped: dict[Mapped, None] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._mapped)

    def add(self, file: Mapped) -> None:
        """Add a newly mapped file; unmap the oldest one if the limit is exceeded."""
        self._mapped[file] = None
        self._shrink(self.limit)

    def remove(self, file: Mapped) -> bool:
        """Remove a file. True if it was mapped."""
        if file not in self._mapped:
            return False
        del self._mapped[file]
        return True

    def opening(self, open_it: Callable[[], T]) -> T:
        """Call `open_it`.

        If the process or the system has no descriptor or mapping left, close half of the files and retry.

        OSError as from the call.
        """
        try:
            return open_it()
        except OSError as exc:
            if exc.errno not in _TOO_MANY or not self._mapped:
                raise
        self._shrink(len(self._mapped) // 2)
        return open_it()

    def _shrink(self, count: int) -> None:
        while len(self._mapped) > count:
            oldest = next(iter(self._mapped))
            del self._mapped[oldest]
            oldest.unmap()


@attrs.define(eq=False)
class QueueFile(LogFile):
    """A log file that is mapped on demand, and unmapped when too many are mapped.

    `map` and `view` map it: they raise OSError if the system cannot, and StoreCorrupt for a file whose length has
    changed. While it is unmapped it has no `room`, so a writer that calls `ensure_room` maps it first.
    """

    map: mmap.mmap = attrs.field(init=False)
    view: memoryview = attrs.field(init=False)
    pool: OpenFiles = attrs.field(kw_only=True)

    @classmethod
    def create(cls, path: Path, size: int, disk: Disk, pool: OpenFiles, first_step: int, last_step: int) -> "QueueFile":
        """Create a file, or reuse an empty file that an error left. OSError if that fails."""
        file = cls.existing(path, size, disk, pool, first_step, last_step)
        file.bring_in(create=True)
        return file

    @staticmethod
    def existing(path: Path, size: int, disk: Disk, pool: OpenFiles, first_step: int, last_step: int) -> "QueueFile":
        """Return an existing file, unmapped."""
        return _Unmapped(path, int(path.name), size, first_step, last_step, disk, pool=pool)

    def bring_in(self, *, create: bool) -> None:
        """Map it. OSError, StoreCorrupt."""
        self.map = self.pool.opening(
            partial(map_file, self.path, self.size, self.disk, create=create, is_scattered=True)
        )
        self.view = memoryview(self.map)
        self.__class__ = QueueFile
        self.pool.add(self)

    def allocate(self, start: int, end: int) -> None:
        self.pool.opening(partial(LogFile.allocate, self, start, end))

    def unmap(self) -> None:
        """Unmap; written bytes stay.

        The mapping itself is released when its last view is released.
        """
        with contextlib.suppress(BufferError):
            self.view.release()
            self.map.close()
        del self.map, self.view
        self.room = 0
        self.__class__ = _Unmapped

    def close(self) -> None:
        self.end_appends()
        if self.pool.remove(self):
            self.unmap()


@attrs.define(eq=False)
class _Unmapped(QueueFile):
    """A queue file while it is not mapped.

    A class of its own, because `__getattr__` slows all attributes of a class, and a mapped file is a hot path.
    """

    if not TYPE_CHECKING:  # type checkers still find misspelt names

        def __getattr__(self, name: str) -> object:
            """Map the file, which makes it a `QueueFile`.

            Python calls this only for a field without a value.
            """
            if name not in ("map", "view"):
                raise AttributeError(name)
            self.bring_in(create=False)
            return getattr(self, name)
