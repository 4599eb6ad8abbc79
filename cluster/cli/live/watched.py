"""The cluster of a live view, supervised by this process or another one."""

import contextlib
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import attrs
import trio

from rmqlab.cluster.actions.action import NodeAction
from rmqlab.cluster.apimethods import ClusterClosedError
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.command import (
    COMMANDS,
    SILENT_SECONDS,
    CommandFailedError,
    CommandRequest,
    CommandResult,
    CommandUsageError,
    Failure,
    Item,
    check_responds,
    error_of,
    explain_absence,
    invalid_reply,
)
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.faults import FaultError
from rmqlab.runtime.node.mapcodec import CHUNK, ControlError


class ActionFailedError(Exception):
    """An action of a key failed. The text is one line."""


class WatchedCluster(Protocol):
    """Interface of a cluster to the live view."""

    leaving: str
    """Label of the key that ends the view: `quit` stops the cluster, `leave` does not."""

    async def status(self) -> Document:
        """Return the document of `rmqlab status --json`. NoClusterError after its end."""
        ...

    async def wait_changed(self) -> None:
        """Wait for the next event."""
        ...

    def follow(self) -> contextlib.AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """Iterate over events from now on. The iterator may end early."""
        ...

    async def act(self, action: NodeAction[Any], target: str) -> None:
        """Do an action. Raise ActionFailedError if it fails."""
        ...

    async def heal(self, *ids: str) -> None:
        """End faults. Raise ActionFailedError if that fails."""
        ...

    async def leave(self) -> None:
        """End the view."""
        ...


_FAILURES = (NodeFailedError, WrongStateError, FaultError, ForkServerGoneError, ClusterClosedError)


@attrs.define(eq=False)
class LocalCluster:
    """A cluster of this process. It ends with the view."""

    cluster: Cluster
    leaving: str = "quit"

    async def status(self) -> Document:
        return await live_status(self.cluster.supervisor)  # also while the cluster stops

    async def wait_changed(self) -> None:
        await self.cluster.events.wait_changed()

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async def events() -> AsyncGenerator[dict[str, Any], None]:
            async with self.cluster.events.follow() as following:
                async for event in following:
                    yield event.as_json()

        async with aclosing(events()) as generator:
            yield generator

    async def act(self, action: NodeAction[Any], target: str) -> None:
        try:
            await self.cluster.act(action, target)
        except _FAILURES as exc:
            raise ActionFailedError(str(exc)) from exc

    async def heal(self, *ids: str) -> None:
        try:
            await self.cluster.supervisor.faults.heal(*ids)
        except _FAILURES as exc:
            raise ActionFailedError(str(exc)) from exc

    async def leave(self) -> None:
        await trio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGINT)  # as Ctrl-C: a second one kills


@attrs.define(eq=False)
class RemoteCluster:
    """A cluster that another process supervises. It keeps running when the view ends."""

    directory: ClusterDirectory
    leaving: str = "leave"
    past: int = 50
    """How many past events to show first."""
    left: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set when the user leaves."""
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def status(self) -> Document:
        document: Document = await self._ask("status")
        return document

    async def wait_changed(self) -> None:
        await self._changed.wait()

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async def events() -> AsyncGenerator[dict[str, Any], None]:
            past, self.past = (
                self.past,
                0,
            )  # only the first time: a later call follows a break, and they have been shown
            asked = self._messages("events", last=past, follow=True, every=False)
            async with aclosing(asked) as messages:
                async for message in messages:
                    if isinstance(message, Item):
                        self._changed.set()
                        self._changed = trio.Event()
                        yield message.value

        async with aclosing(events()) as generator:
            yield generator

    async def act(self, action: NodeAction[Any], target: str) -> None:
        await self._send(action.name, target=target)

    async def heal(self, *ids: str) -> None:
        await self._send("heal", ids=list(ids))

    async def leave(self) -> None:
        await trio.lowlevel.checkpoint()
        self.left.set()

    async def _send(self, verb: str, **arguments: Any) -> None:
        try:
            await self._ask(verb, **arguments)
        except (CommandFailedError, CommandUsageError) as exc:
            raise ActionFailedError(str(exc)) from exc

    async def _ask(self, verb: str, **arguments: Any) -> Any:
        value = None
        async with aclosing(self._messages(verb, **arguments)) as messages:
            async for message in messages:
                value = message.value
        return value

    async def _messages(self, verb: str, **arguments: Any) -> AsyncGenerator[Item | CommandResult, None]:
        """Send a command; yield items, then the reply (see `supervisor.command`)."""
        try:
            stream = await trio.open_unix_socket(self.directory.command_socket)
        except OSError:
            raise NoClusterError(explain_absence(self.directory)) from None
        decoder = COMMANDS.decoder()
        async with stream:
            try:
                await stream.send_all(COMMANDS.encode(CommandRequest(verb, arguments)))
                while data := await _received(stream, self.directory):
                    decoder.feed(bytes(data))
                    for message in decoder.messages():
                        match message:
                            case Failure():
                                raise error_of(message)
                            case Item():
                                yield message
                            case CommandResult():
                                yield message
                                return
            except trio.BrokenResourceError:
                pass  # the supervisor has ended, as at the end of the stream
            except ControlError as exc:
                raise CommandFailedError(invalid_reply(self.directory.path.name, exc)) from None
        raise NoClusterError(explain_absence(self.directory))


async def _received(stream: trio.SocketStream, directory: ClusterDirectory) -> bytes:
    """Return the next bytes from the supervisor.

    CommandFailedError if it does not respond.
    """
    while True:
        with trio.move_on_after(SILENT_SECONDS):
            return bytes(await stream.receive_some(CHUNK))
        await trio.to_thread.run_sync(check_responds, directory, abandon_on_cancel=True)
