"""The size of receives."""

from rmqlab.runtime.net.channel_limits import FRAMES_PER_PASS, RECEIVE_SIZE, SMALLEST_RECEIVE
from rmqlab.runtime.net.receive_size import ReceiveSize


def test_a_receive_with_many_frames_makes_the_next_one_smaller() -> None:
    size = ReceiveSize()
    size.fit(100_000, 4 * FRAMES_PER_PASS + 4)  # of 1000 bytes each
    assert size.bytes == 1000 * FRAMES_PER_PASS
    size.fit(SMALLEST_RECEIVE, 1000)
    assert size.bytes == SMALLEST_RECEIVE


def test_a_full_receive_with_few_frames_makes_the_next_one_larger() -> None:
    size = ReceiveSize()
    size.fit(100_000, 4 * FRAMES_PER_PASS + 4)
    before = size.bytes
    size.fit(before - 1, 1)  # all that had arrived
    assert size.bytes == before
    size.fit(before, 1)
    assert size.bytes == 2 * before
    for _ in range(9):
        size.fit(size.bytes, 1)
    assert RECEIVE_SIZE <= size.bytes < 2 * RECEIVE_SIZE
