"""Identifiers that distinguish this process and its parts from others.

Used in names of clients, in message ids, and for the supervisor.

Nodes of a simulation share a process: each gets an id of its own, and numbers that are the same in every run.
"""

import itertools
import os
import time
from collections.abc import Iterator

import attrs
import trio


@attrs.frozen
class Identity:
    """The identity of one process."""

    process_id: int
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    """Numbers of which no other process with this id has the same."""


_IDENTITY = trio.lowlevel.RunVar[Identity | None]("identity of this process", default=None)


def set_identity(identity: Identity) -> None:
    """Set an identity of this trio run, instead of that of its process."""
    _IDENTITY.set(identity)


def process_id() -> int:
    """Return the id of this process."""
    given = _given()
    return os.getpid() if given is None else given.process_id


def unique_number() -> int:
    """Return a number that no process with this id returned before."""
    given = _given()
    return time.monotonic_ns() if given is None else next(given.numbers)


def _given() -> Identity | None:
    return _IDENTITY.get() if trio.lowlevel.in_trio_run() else None
