"""What a simulation replaces below the servers."""

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rmqlab.runtime import stopwatch
from rmqlab.runtime.identity import Identity, process_id, set_identity, unique_number
from rmqlab.runtime.net.network import KernelNetwork, network, set_network
from rmqlab.runtime.net.worker import InlineCalls, block, each_in_thread, in_thread, run_inline
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.machine import Machine, set_machine, this_machine


async def test_calls_run_in_a_thread() -> None:
    assert await in_thread(threading.get_ident) != threading.get_ident()


async def test_inline_calls_run_at_once_and_take_their_time_afterwards(autojump_clock: MockClock) -> None:
    """A slow sync: the caller waits, and other tasks of the node run meanwhile."""
    run_inline(InlineCalls())

    def sync(seconds: float) -> tuple[int, float]:
        block(seconds, threading.Event())
        block(seconds, threading.Event())
        return threading.get_ident(), autojump_clock.current_time()

    assert await in_thread(sync, 1.5) == (threading.get_ident(), 0.0)
    assert trio.current_time() == 3.0
    await in_thread(threading.get_ident)
    assert trio.current_time() == 3.0, "a call that does not block takes no time"


async def test_inline_calls_side_by_side_take_their_own_time_each(autojump_clock: MockClock) -> None:
    run_inline(InlineCalls())
    ends: dict[float, float] = {}

    async def call(seconds: float) -> None:
        await in_thread(block, seconds, threading.Event())
        ends[seconds] = autojump_clock.current_time()

    async with trio.open_nursery() as nursery:
        for seconds in (1.0, 2.0, 0.0):
            nursery.start_soon(call, seconds)
    assert ends == {0.0: 0.0, 1.0: 1.0, 2.0: 2.0}


async def test_calls_one_after_the_other_have_their_effects_one_after_the_other(autojump_clock: MockClock) -> None:
    """A process that is killed during a slow sync has not made the calls that follow."""
    run_inline(InlineCalls())
    done: list[tuple[str, float]] = []

    def sync(name: str) -> None:
        block(1.0, threading.Event())
        done.append((name, autojump_clock.current_time()))

    with trio.move_on_after(1.5):
        await each_in_thread([partial(sync, "log"), partial(sync, "queue"), partial(sync, "checkpoint")])
    assert done == [("log", 0.0), ("queue", 1.0)]


async def test_calls_one_after_the_other_run_in_one_thread() -> None:
    threads: list[int] = []
    await each_in_thread([lambda: threads.append(threading.get_ident())] * 2)
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_a_healed_block_in_a_thread_ends_at_once() -> None:
    healed = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_thread, block, 600.0, healed)
        healed.set()


async def test_the_identity_is_that_of_the_process_unless_given() -> None:
    assert process_id() == os.getpid()
    assert unique_number() < unique_number()
    set_identity(Identity(1234))
    assert [process_id(), unique_number(), unique_number()] == [1234, 1, 2]


def test_outside_of_a_run_the_identity_is_that_of_the_process() -> None:
    assert process_id() == os.getpid()
    assert isinstance(network(), KernelNetwork)


async def test_a_network_is_that_of_its_run() -> None:
    other = KernelNetwork()
    assert network() is not other
    set_network(other)
    assert network() is other


@pytest.fixture
def own_clocks() -> Iterator[None]:
    before = stopwatch.wall, stopwatch.cpu
    yield
    stopwatch.replace(*before)


@pytest.mark.usefixtures("own_clocks")
def test_the_stopwatch_can_be_replaced() -> None:
    stopwatch.replace(lambda: 5.0, lambda: 2.0)
    assert (stopwatch.wall(), stopwatch.cpu()) == (5.0, 2.0)


@pytest.fixture
def own_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = this_machine()
    monkeypatch.undo()  # of the used space that all tests see
    yield
    set_machine(before)


class Small(Machine):
    def memory_bytes(self) -> int:
        return 7

    def used_percent(self, path: Path) -> int:  # noqa: ARG002 -- a machine's form
        return 99


def test_memory_and_used_space_are_those_of_the_machine(own_machine: None, tmp_path: Path) -> None:  # noqa: ARG001
    assert StoreConfig(store_path_root_dir=tmp_path).total_memory > 2**20
    assert 0 < Disk().used_percent(tmp_path) <= 100
    assert Disk().used_percent(tmp_path / "missing") == -1
    set_machine(Small())
    assert StoreConfig(store_path_root_dir=tmp_path).total_memory == 7
    assert Disk().used_percent(tmp_path) == 99
