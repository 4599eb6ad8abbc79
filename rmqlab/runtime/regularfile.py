"""Opens files that may have been replaced by pipes or directories.

To open a pipe waits until a program writes to it, so a command would never end.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

MOST_BYTES: Final = 64 * 2**20
"""Bytes of a file that is read as a whole."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    OSError if it cannot be opened, or is a directory, a pipe, a socket or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(descriptor, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Raise OSError unless an open file is a regular one.

    IsADirectoryError for a directory, EINVAL for others.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file.

    OSError as `open_regular`, or for one with more than `most` bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most} bytes", os.fspath(path))
    return content


def read_regular_text(path: str | os.PathLike[str], most: int = MOST_BYTES) -> str:
    """Return the text of a regular file in UTF-8, with `\\n` for each line break.

    OSError as `read_regular`; UnicodeDecodeError.
    """
    return read_regular(Path(path), most).decode().replace("\r\n", "\n").replace("\r", "\n")


def odd_kind(path: Path) -> str | None:
    """Return the kind of a path that is no regular file, such as `a loop of links`.

    None for a regular file, or nothing. OSError if that cannot be found out.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "a link to a missing file" if path.is_symlink() else None
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
        return "a loop of links"
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "a device")


_KINDS: Final = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
