"""Sends that wait for the disk and for a slave."""

import pytest

from rmqlab.broker.waits.pending_acks import PendingAcks, WaitingSend
from rmqlab.store.results import PutStatus


class Sends:
    """Records the status of each send."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, PutStatus]] = []

    def waiting(self, name: str) -> WaitingSend:
        return WaitingSend(lambda status, _cause: self.outcomes.append((name, status)))


def slave_waits() -> PendingAcks:
    return PendingAcks(3.0, PutStatus.FLUSH_SLAVE_TIMEOUT)


def disk_waits() -> PendingAcks:
    return PendingAcks(5.0, PutStatus.FLUSH_DISK_TIMEOUT)


def test_one_ack_answers_every_send_before_it() -> None:
    """store-ha#52."""
    sends, waits = Sends(), slave_waits()
    for name, end in (("a", 10), ("b", 20), ("c", 30)):
        waits.add(end, sends.waiting(name), now=0.0)
    waits.advance(20)
    assert sends.outcomes == [("a", PutStatus.PUT_OK), ("b", PutStatus.PUT_OK)]
    assert len(waits) == 1


def test_a_send_that_is_covered_already_does_not_wait() -> None:
    waits = slave_waits()
    waits.advance(100)
    send = Sends().waiting("a")
    waits.add(100, send, now=0.0)
    assert send.waits == 0


def test_a_lower_ack_does_not_lower_the_acknowledged_offset() -> None:
    waits = slave_waits()
    waits.advance(100)
    waits.advance(50)
    assert waits.reached == 100


def test_five_parallel_sends_all_time_out_together() -> None:
    """store-ha#51: deadlines are absolute, so those in a line do not add up."""
    sends, waits = Sends(), slave_waits()
    for index in range(5):
        waits.add(10 * (index + 1), sends.waiting(str(index)), now=0.1 * index)
    waits.expire(2.9)
    assert sends.outcomes == []
    waits.expire(3.5)
    assert sends.outcomes == [(str(index), PutStatus.FLUSH_SLAVE_TIMEOUT) for index in range(5)]


@pytest.mark.parametrize("disk_first", [True, False])
def test_a_send_waits_for_the_later_of_disk_and_slave(disk_first: bool) -> None:  # noqa: FBT001
    """store-ha#56: the waits run side by side."""
    sends, disk, slave = Sends(), disk_waits(), slave_waits()
    send = sends.waiting("a")
    disk.add(10, send, now=0.0)
    slave.add(10, send, now=0.0)
    first, second = (disk, slave) if disk_first else (slave, disk)
    first.advance(10)
    assert sends.outcomes == []
    second.advance(10)
    assert sends.outcomes == [("a", PutStatus.PUT_OK)]


@pytest.mark.parametrize("disk_first", [True, False])
def test_where_both_fail_the_slave_is_named(disk_first: bool) -> None:  # noqa: FBT001
    """store-ha#56."""
    sends, disk, slave = Sends(), disk_waits(), slave_waits()
    send = sends.waiting("a")
    disk.add(10, send, now=0.0)
    slave.add(10, send, now=0.0)
    for waits in (disk, slave) if disk_first else (slave, disk):
        waits.expire(6.0)
    assert sends.outcomes == [("a", PutStatus.FLUSH_SLAVE_TIMEOUT)]


def test_a_missing_slave_is_named_though_the_disk_fails_too() -> None:
    sends, disk = Sends(), disk_waits()
    send = sends.waiting("a")
    send.status = PutStatus.SLAVE_NOT_AVAILABLE
    disk.add(10, send, now=0.0)
    disk.expire(6.0)
    assert sends.outcomes == [("a", PutStatus.SLAVE_NOT_AVAILABLE)]


def test_the_disk_alone_gives_ten_after_five_seconds() -> None:
    """store-ha#29."""
    sends, disk = Sends(), disk_waits()
    disk.add(10, sends.waiting("a"), now=0.0)
    disk.expire(4.9)
    assert sends.outcomes == []
    disk.expire(5.0)
    assert sends.outcomes == [("a", PutStatus.FLUSH_DISK_TIMEOUT)]


def test_all_waiting_sends_fail_when_the_ack_is_impossible() -> None:
    waits, outcomes = slave_waits(), list[tuple[PutStatus, str | None]]()
    sends = [WaitingSend(lambda _status, _cause: None) for _ in range(2)]
    for end, send in enumerate(sends):
        waits.add(end + 1, send, now=0.0)
    waits.fail(PutStatus.SLAVE_NOT_AVAILABLE, "it is gone")
    outcomes += [(send.status, send.cause) for send in sends]
    assert outcomes == [(PutStatus.SLAVE_NOT_AVAILABLE, "it is gone")] * 2
    assert len(waits) == 0


def test_an_expired_send_gets_the_cause_if_it_is_known() -> None:
    waits, send = slave_waits(), WaitingSend(lambda _status, _cause: None)
    waits.add(7, send, now=0.0)
    waits.expire(3.0, lambda record_end: f"nobody has {record_end}")
    assert (send.status, send.cause) == (PutStatus.FLUSH_SLAVE_TIMEOUT, "nobody has 7")
