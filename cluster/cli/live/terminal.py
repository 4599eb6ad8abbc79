"""The live view on a terminal: draws, reads keys, runs their commands."""

import collections
import contextlib
import functools
import os
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, NoReturn

import attrs
import trio
from rich.console import Console
from rich.live import Live

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.cli.failures import OutputFailedError
from rmqlab.cluster.cli.live.keys import Act, Heal, KeyCommand, Quit, Selection, decode_keys, press
from rmqlab.cluster.cli.live.rates import Rates
from rmqlab.cluster.cli.live.view import render_live
from rmqlab.cluster.cli.live.watched import ActionFailedError, WatchedCluster
from rmqlab.runtime.clock import real_seconds

PROBE_SECONDS = 0.5
DRAW_SECONDS = 0.05
"""Least real seconds between two pictures."""
EVENTS_KEPT = 200


def is_terminal(console: Console) -> bool:
    """True if a person can see the output and type."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty()


@attrs.define(eq=False)
class LiveView:
    """The screen. Four tasks read the status, the events and the keys, and draw."""

    subject: WatchedCluster
    console: Console
    document: dict[str, Any]
    selection: Selection = attrs.field(factory=Selection)
    rates: Rates = attrs.field(factory=Rates)
    events: collections.deque[dict[str, Any]] = attrs.field(factory=lambda: collections.deque(maxlen=EVENTS_KEPT))
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self, keyboard: int) -> NoReturn:
        """Show the cluster until cancelled; then restore the terminal, if it still exists."""
        live = Live(console=self.console, screen=True, auto_refresh=False, transient=True)
        with raw_keys(keyboard):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._probe_forever)
                    nursery.start_soon(self._follow_forever)
                    nursery.start_soon(self._read_forever, keyboard, nursery)
                    await self._paint_forever(live)
            finally:
                with contextlib.suppress(OSError, OutputFailedError):
                    live.stop()
        raise AssertionError("the painter never ends")

    async def _probe_forever(self) -> NoReturn:
        """Read the status after an event, and at least twice a second.

        At most every 0.1 s, to spare the nodes.
        """
        while True:
            self.document = {**await self.subject.status()}
            self.rates.add(self.document)
            self._changed.set()
            with trio.move_on_after(real_seconds(PROBE_SECONDS)):
                await self.subject.wait_changed()
            await trio.sleep(real_seconds(PROBE_SECONDS / 5))

    async def _follow_forever(self) -> NoReturn:
        while True:  # a reader that fell behind is ended, and starts again
            async with self.subject.follow() as events:
                async for event in events:
                    self.events.append(event)
                    self._changed.set()

    async def _read_forever(self, keyboard: int, nursery: trio.Nursery) -> None:
        while data := await read_keyboard(keyboard):
            for key in decode_keys(data):
                self.selection, command = press(self.selection, key, self.document)
                if command is not None:
                    nursery.start_soon(self._do, command)
                self._changed.set()

    async def _paint_forever(self, live: Live) -> NoReturn:
        """Draw after each change, in a thread.

        A terminal that is stopped (Ctrl-S) must not block the supervisor.
        """
        try:
            live.start()
            while True:
                self._changed = trio.Event()  # before drawing: a change meanwhile needs another picture
                size, leaving = self.console.size, self.subject.leaving
                picture = render_live(
                    self.document, self.selection, tuple(self.events), *size, leaving, self.rates.by_node()
                )
                show = functools.partial(live.update, picture, refresh=True)
                await trio.to_thread.run_sync(show, abandon_on_cancel=True)
                await self._changed.wait()
                await trio.sleep(real_seconds(DRAW_SECONDS))
        except (OSError, OutputFailedError):  # the terminal is gone; its end (SIGHUP) stops the cluster in order
            await trio.sleep_forever()

    async def _do(self, command: KeyCommand) -> None:
        """Run the command of a key, and show its outcome."""
        match command:
            case Quit():
                self._say("leaving ..." if self.subject.leaving == "leave" else "stopping the cluster ...")
                await self.subject.leave()
                return
            case Heal(ids=ids):
                self._say(f"healing {', '.join(ids)} ...")
            case Act(action=action, target=target):
                self._say(f"{ACTIONS[action].doing} {target} ...")
        try:
            if isinstance(command, Heal):
                await self.subject.heal(*command.ids)
                self._say(f"healed {', '.join(command.ids)}")
            else:
                await self.subject.act(ACTIONS[command.action], command.target)
                self._say(f"{command.action} {command.target}: done")
        except ActionFailedError as exc:
            self._say(str(exc).partition("\n")[0])

    def _say(self, text: str) -> None:
        self.selection = attrs.evolve(self.selection, message=text)
        self._changed.set()


@contextlib.contextmanager
def raw_keys(keyboard: int) -> Iterator[None]:
    """Read keys one by one, without echo. Ctrl-C stays a signal."""
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # it may be gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


async def read_keyboard(keyboard: int) -> bytes:
    """Return the bytes of the next keys; empty once the terminal is closed."""
    await trio.lowlevel.wait_readable(keyboard)
    try:
        return os.read(keyboard, 1024)
    except OSError:
        return b""
