"""Requests that are not handled as they should be.

No socket: a peer that keeps the bytes written to it.
"""

from collections.abc import Iterator

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.faults import AnswerRequest, DelayRequest, DropRequest
from rmqlab.faults.process import following
from rmqlab.faults.request.fault import RequestFault
from rmqlab.faults.request.hook import RequestFaults
from rmqlab.faults.rules import NodeRules, OwnRule
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.runtime.net.dispatch import Buffer, Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.node_faults import NodeFaults
from rmqlab.runtime.net.timers import Timers

PULL, SEND = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE


@attrs.define(eq=False)
class Caller:
    peer: str = "127.0.0.1:1"
    is_closed: bool = False
    answers: list[Command] = attrs.field(factory=list)
    _decoder: FrameDecoder = attrs.field(factory=FrameDecoder)

    def write(self, *buffers: Buffer) -> None:
        self.answers += [decode_command(frame) for buffer in buffers for frame in self._decoder.feed(bytes(buffer))]

    @property
    def codes(self) -> list[int]:
        return [answer.code for answer in self.answers]


def respond(_state: None, _header: None, _request: Request) -> Reply:
    return Reply(remark="handled")


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def dispatcher() -> Dispatcher[None]:
    return Dispatcher(handler_table([Route(PULL, None, respond), Route(SEND, None, respond)]), None)


@pytest.fixture
def faults(dispatcher: Dispatcher[None]) -> Iterator[NodeFaults]:
    made = NodeFaults()
    hook = RequestFaults(made, Timers())
    hook.watch(dispatcher)
    with following(made, hook.follow):
        yield made


def play(faults: NodeFaults, **by_id: RequestFault) -> None:
    rules = tuple(OwnRule(id=fault_id, fault=fault) for fault_id, fault in by_id.items())
    faults.set(NodeRules(own=rules).to_plain())


async def test_a_code_gets_the_set_reply_n_times_and_the_last_one_is_reported(
    caller: Caller, dispatcher: Dispatcher[None], faults: NodeFaults
) -> None:
    spent: list[str] = []
    play(faults, f1=AnswerRequest(target="a", code="PULL_MESSAGE", times=2, remark="too busy"))
    with faults.observing_spent(spent.append):
        for code in (PULL, SEND, PULL, PULL):
            dispatcher.serve(caller, request(code))
    assert caller.codes == [2, 0, 2, 0]
    assert caller.answers[0].remark == "too busy"
    assert spent == ["f1"]


async def test_changed_rules_do_not_reset_the_count(
    caller: Caller, dispatcher: Dispatcher[None], faults: NodeFaults
) -> None:
    busy = AnswerRequest(target="a", code="PULL_MESSAGE", times=2)
    play(faults, f1=busy)
    dispatcher.serve(caller, request(PULL))
    play(faults, f1=busy, f2=DropRequest(target="a", code="1"))
    for _ in range(2):
        dispatcher.serve(caller, request(PULL))
    assert caller.codes == [2, 2, 0]


async def test_dropped_is_neither_handled_nor_answered_until_healed(
    caller: Caller, dispatcher: Dispatcher[None], faults: NodeFaults
) -> None:
    play(faults, f1=DropRequest(target="a", code="PULL_MESSAGE"))
    dispatcher.serve(caller, request(PULL))
    assert caller.codes == []
    play(faults)
    assert dispatcher.inject_fault is None
    dispatcher.serve(caller, request(PULL))
    assert caller.codes == [0]


async def test_delayed_is_handled_later_unless_its_caller_has_gone(
    caller: Caller, dispatcher: Dispatcher[None], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    faults, timers = NodeFaults(), Timers()
    hook = RequestFaults(faults, timers)
    hook.watch(dispatcher)
    hook.follow(NodeRules(own=(OwnRule(id="f1", fault=DelayRequest(target="a", code="PULL_MESSAGE", millis=1500)),)))
    nursery.start_soon(timers.run_forever)
    gone = Caller(is_closed=True)
    dispatcher.serve(caller, request(PULL))
    dispatcher.serve(gone, request(PULL))
    await trio.sleep(1.4)
    assert caller.codes == []
    await trio.sleep(0.2)
    assert (caller.codes, gone.codes) == ([0], [])
    assert autojump_clock.current_time() == pytest.approx(1.6)


async def test_timers_call_in_order_even_what_is_asked_for_late(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    timers, called = Timers(), list[tuple[str, float]]()
    nursery.start_soon(timers.run_forever)
    for name, moment in (("third", 3.0), ("first", 1.0), ("second", 2.0)):
        timers.call_at(moment, lambda name=name: called.append((name, autojump_clock.current_time())))  # type: ignore[misc]
    await trio.sleep(10)
    assert called == [("first", 1.0), ("second", 2.0), ("third", 3.0)]
