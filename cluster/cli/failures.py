"""Failures of disks, paths and output; commands whose exit status is a result."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence

_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors of writes and syncs, which name no file."""
_UNSHOWN_OPTION = "--secret-key"
_ENVIRONMENT = ("RMQLAB_ACCESS_KEY", "RMQLAB_SECRET_KEY")
JUDGING = frozenset(
    {"check", "audit", "report", "run", "repro", "scenarios", "compare", "hunt", "diff", "wait", "demo"}
)
"""Commands whose exit status 1 is a result, such as the verdict `violated`: whatever prevents a result ends with 2."""


def disk_failure(exc: BaseException) -> OSError | None:
    """Return the failure of a path or a disk; None for a defect.

    A path that was given, or the machine, is its cause: a traceback would not help.
    """
    if isinstance(exc, BaseExceptionGroup):
        failures = [disk_failure(one) for one in exc.exceptions]
        return None if None in failures else failures[0]
    if isinstance(exc, OSError) and (exc.filename is not None or exc.errno in _DISK_FAILURES):
        return exc
    return None


def undecodable_word(exc: BaseException, words: Sequence[str]) -> str | None:
    """Return a text about the first word that is no text, if it made a command fail.

    Python keeps such bytes as lone surrogates. Paths may have them; messages, and what is encoded as UTF-8, may not.
    """
    if not _is_surrogate_failure(exc):
        return None
    expected = "is not valid text in this locale; expected UTF-8"
    for before, word in zip(["", *words], words, strict=False):
        if not _is_text(word):
            is_secret = before == _UNSHOWN_OPTION or word.startswith(f"{_UNSHOWN_OPTION}=")
            return f"the value of {_UNSHOWN_OPTION} {expected}" if is_secret else f"{word!r} {expected}"
    return next((f"{name} {expected}" for name in _ENVIRONMENT if not _is_text(os.environ.get(name, ""))), None)


def _is_text(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _is_surrogate_failure(exc: BaseException | None) -> bool:
    """Return True if a lone surrogate caused this exception, or one of its group."""
    if isinstance(exc, BaseExceptionGroup):
        return any(map(_is_surrogate_failure, exc.exceptions))
    return isinstance(exc, UnicodeError) or (exc is not None and _is_surrogate_failure(exc.__cause__))


class OutputClosedError(Exception):
    """Nobody reads what a command prints, as after `| head -1`.

    Not an OSError, which some commands report as the failure of a file.
    """


class OutputFailedError(Exception):
    """What a command prints cannot be written, as to a full disk.

    The text is the system's reason. Not an OSError, as OutputClosedError.
    """

    def __str__(self) -> str:
        return f"cannot write the output: {self.args[0]}"


@contextlib.contextmanager
def writing_output() -> Iterator[None]:
    """Let failures that name no file be those of the command's output."""
    try:
        yield
    except BrokenPipeError:
        raise OutputClosedError from None
    except OSError as exc:
        if exc.filename is not None:
            raise
        raise OutputFailedError(exc.strerror) from None


def has_only(exc: BaseException, *kinds: type[BaseException]) -> bool:
    """Return True for an exception of these kinds, or a group of tasks with no other."""
    if isinstance(exc, BaseExceptionGroup):
        return all(has_only(one, *kinds) for one in exc.exceptions)
    return isinstance(exc, kinds)


def first_of(exc: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return this exception, or the first one of its group, that is of a kind."""
    if isinstance(exc, BaseExceptionGroup):
        return next(filter(None, (first_of(one, kind) for one in exc.exceptions)), None)
    return exc if isinstance(exc, kind) else None


def discard_output() -> None:
    """Let stdout lead nowhere: the interpreter flushes it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
