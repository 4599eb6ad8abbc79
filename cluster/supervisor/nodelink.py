"""The supervisor's end of one process's control channel."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import trio

from rmqlab.faults.rules import NodeRules
from rmqlab.runtime.bounds import SNAPSHOT, bounded, cut_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.node.controlmessages import (
    CONTROL,
    Event,
    Hello,
    LogMark,
    Message,
    Ready,
    RulesSet,
    SetRules,
    Snapshot,
    SnapshotRequest,
    Stopping,
)
from rmqlab.runtime.node.mapcodec import ControlError
from rmqlab.runtime.node.mapstream import receive_messages

HELLO_SECONDS = 10.0
_SHOWN_CHARACTERS = 300


@attrs.define(eq=False)
class NodeLink:
    """A connection to a process that has sent its Hello."""

    stream: trio.abc.Stream
    hello: Hello
    rules: NodeRules = attrs.field(factory=NodeRules, init=False)
    """The fault rules that the process has acknowledged."""
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _asked: dict[int, trio.MemorySendChannel[Mapping[str, Any]]] = attrs.field(factory=dict, init=False)
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _sent_rules: dict[int, tuple[NodeRules, trio.Event]] = attrs.field(factory=dict, init=False)

    async def snapshot(self, seconds: float) -> Mapping[str, Any] | None:
        """Return the process's live facts.

        None without a response within `seconds`, in real time.
        """
        number = next(self._numbers)
        send, receive = trio.open_memory_channel[Mapping[str, Any]](1)
        self._asked[number] = send
        try:
            with trio.move_on_after(real_seconds(seconds)):
                async with self._sending:
                    await self.stream.send_all(CONTROL.encode(SnapshotRequest(number)))
                return await receive.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel):
            pass
        finally:
            self._asked.pop(number, None)
            send.close()
            receive.close()
        return None

    async def set_rules(self, rules: NodeRules) -> None:
        """Send fault rules and wait for the acknowledgement.

        There is no timeout, because the process may be paused.
        """
        number = next(self._numbers)
        taken = trio.Event()
        self._sent_rules[number] = rules, taken
        async with self._sending:
            await self.stream.send_all(CONTROL.encode(SetRules(number, rules.to_plain())))
        await taken.wait()

    async def mark(self, text: str) -> None:
        """Send a text for the log of the process."""
        async with self._sending:
            await self.stream.send_all(CONTROL.encode(LogMark(text)))

    def rules_set(self, done: RulesSet) -> None:
        """Handle the acknowledgement of fault rules."""
        if sent_rules := self._sent_rules.pop(done.id, None):
            self.rules, taken = sent_rules
            taken.set()

    def snapshot_received(self, snapshot: Snapshot) -> None:
        """Pass a snapshot to the task that waits for it. A late one is dropped."""
        if waiting := self._asked.pop(snapshot.id, None):
            waiting.send_nowait(bounded(snapshot.facts, SNAPSHOT))


async def serve_node_connection(
    stream: trio.abc.Stream,
    admit: Callable[[NodeLink], bool],
    on_message: Callable[[NodeLink, Ready | Event | Stopping], object],
) -> None:
    """Serve one connection until it ends.

    It must begin, within HELLO_SECONDS, with a Hello that `admit` accepts.

    Raises ControlError for invalid and for unexpected messages. `on_message` is called with messages that are not
    responses, and must not raise.
    """
    link: NodeLink | None = None

    def handle(message: Message) -> None:
        nonlocal link
        if link is None:
            if not isinstance(message, Hello) or not admit(newcomer := NodeLink(stream, message)):
                raise unexpected(message)
            link = newcomer
            waiting.deadline = float("inf")
            return
        match message:
            case Ready() | Event() | Stopping():
                on_message(link, message)
            case Snapshot():
                link.snapshot_received(message)
            case RulesSet():
                link.rules_set(message)
            case _:
                raise unexpected(message)

    with trio.move_on_after(real_seconds(HELLO_SECONDS)) as waiting:
        await receive_messages(stream, CONTROL, handle)


def unexpected(message: object) -> ControlError:
    """Return the error for a message that is well-formed but unexpected."""
    return ControlError(f"unexpected {cut_text(repr(message), _SHOWN_CHARACTERS)}")
