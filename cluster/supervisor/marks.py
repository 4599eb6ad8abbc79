"""Marks in the logs of all processes and in the events, to line them up."""

import contextlib
import logging
from typing import Final

import trio

from rmqlab.cluster.supervisor.nodelink import NodeLink
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.text.printable import printable

log = logging.getLogger(__name__)

LONGEST: Final = 200
"""Characters of a mark."""
SEND_SECONDS: Final = 5.0


class BadMarkError(ValueError):
    """The text cannot be a mark."""


def mark_text(text: str) -> str:
    """Return a text as logs have it. BadMarkError if it is empty or too long."""
    text = printable(text.strip())
    if not 0 < len(text) <= LONGEST:
        raise BadMarkError(f"a mark of {len(text)} characters: expected 1 to {LONGEST}")
    return text


async def mark_logs(supervisor: Supervisor, text: str) -> list[str]:
    """Record a mark, and send it to all processes. Return their names.

    A paused process writes it when it is resumed. BadMarkError for a text that is empty or too long.
    """
    text = mark_text(text)
    supervisor.record("", "marked", text=text)
    log.info("mark: %s", text)
    marked: list[str] = []

    async def send(name: str, link: NodeLink) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            with trio.move_on_after(real_seconds(SEND_SECONDS)):
                await link.mark(text)
                marked.append(name)

    async with trio.open_nursery() as nursery:
        for name, link in supervisor.processes.links.items():
            nursery.start_soon(send, name, link)
    return [name for name in supervisor.nodes if name in marked]
