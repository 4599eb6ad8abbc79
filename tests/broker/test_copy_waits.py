"""Sends that wait for different numbers of copies."""

import attrs
import pytest

from rmqlab.broker.waits.copy_waits import CopyWaits
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.store.results import PutStatus


@attrs.define
class Counter:
    """Copies of a log, as a test sets them."""

    offsets: dict[int, int] = attrs.field(factory=dict)
    logs: int = 3

    def copied_offset(self, copies: int) -> int:
        return self.offsets.get(copies, -1)

    def has_enough(self, copies: int) -> bool:
        return copies <= self.logs

    def explain(self, record_end: int, copies: int) -> str:
        return f"{record_end} needs {copies}"


@attrs.define
class Sends:
    """The waiting sends of a test, and their outcomes by name."""

    waits: CopyWaits
    counter: Counter
    outcomes: dict[str, tuple[PutStatus, str | None]] = attrs.field(factory=dict)

    def add(self, name: str, end_offset: int, copies: int, *, now: float = 0.0) -> WaitingSend:
        send = WaitingSend(lambda status, cause: self.outcomes.update({name: (status, cause)}))
        self.waits.add(end_offset, send, self.counter, copies, now=now)
        return send


@pytest.fixture
def sends() -> Sends:
    return Sends(CopyWaits(3.0), Counter())


OK = (PutStatus.PUT_OK, None)


def test_each_send_is_released_at_its_own_number_of_copies(sends: Sends) -> None:
    """An important message does not hold up those behind it."""
    sends.add("three", 10, 3)
    sends.add("two", 20, 2)
    sends.add("by 4.9's rule", 30, 0)
    sends.counter.offsets = {0: 30, 2: 20, 3: 5}
    sends.waits.advance(sends.counter)
    assert sends.outcomes == {"two": OK, "by 4.9's rule": OK}
    assert len(sends.waits) == 1
    sends.counter.offsets[3] = 10
    sends.waits.advance(sends.counter)
    assert sends.outcomes["three"] == OK


def test_a_send_that_is_copied_already_does_not_wait(sends: Sends) -> None:
    """A report beyond the log's end, which 4.9 accepts, covers later sends."""
    sends.counter.offsets = {2: 100}
    assert sends.add("covered", 100, 2).waits == 0
    assert sends.add("not covered", 101, 2).waits == 1


def test_late_sends_get_the_cause_for_their_number_of_copies(sends: Sends) -> None:
    sends.add("two", 10, 2)
    sends.add("three", 20, 3, now=1.0)
    sends.waits.expire(3.0, sends.counter)
    assert sends.outcomes == {"two": (PutStatus.FLUSH_SLAVE_TIMEOUT, "10 needs 2")}
    sends.waits.expire(4.0, sends.counter)
    assert sends.outcomes["three"] == (PutStatus.FLUSH_SLAVE_TIMEOUT, "20 needs 3")


def test_a_lost_slave_fails_only_the_sends_that_need_it(sends: Sends) -> None:
    sends.add("two", 10, 2)
    sends.add("three", 20, 3)
    sends.counter.logs = 2
    sends.waits.fail_lost(sends.counter, "it is gone")
    assert sends.outcomes == {"three": (PutStatus.SLAVE_NOT_AVAILABLE, "it is gone")}


def test_a_new_timeout_counts_for_the_sends_that_follow(sends: Sends) -> None:
    sends.add("before", 10, 2)
    sends.waits.set_timeout(9.0)
    sends.add("after", 20, 2)
    sends.waits.expire(8.9, sends.counter)
    assert list(sends.outcomes) == ["before"]
    sends.waits.expire(9.0, sends.counter)
    assert list(sends.outcomes) == ["before", "after"]
