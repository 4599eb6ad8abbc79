"""Times at which a bad network delivers bytes. No socket, no clock."""

import math
import random
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from rmqlab.faults import Bandwidth, Blackhole, Cut, Latency, Loss, Refuse, Reorder, Reset, Slice, SlowReader
from rmqlab.faults.link.fault import impairment_of
from rmqlab.faults.link.netem import (
    MOST_PARTS,
    NARROW_ROOM,
    PACKET,
    ROOM,
    UNIMPAIRED,
    Impairment,
    LinkDirection,
    next_retransmission,
)


def drain(direction: LinkDirection, now: float, limit: int = ROOM) -> bytes:
    out = b""
    while (part := direction.take(limit, now)) is not None:
        out += part
    return out


ENDS: Final[dict[str, Any]] = {"src": "broker-a", "dst": "broker-a-s"}


def test_rules_add_up_or_the_worst_of_them_counts() -> None:
    faults = [
        Latency(**ENDS, millis=250, jitter_millis=10),
        Latency(**ENDS, millis=500),
        Bandwidth(**ENDS, bytes_per_second=1000),
        Bandwidth(**ENDS, bytes_per_second=10),
        Slice(**ENDS, segment_bytes=7),
        Slice(**ENDS, segment_bytes=3, gap_millis=20),
        Cut(**ENDS, after_bytes=9),
    ]
    assert impairment_of(faults) == Impairment(
        latency=0.75, jitter=0.01, bytes_per_second=10, segment=3, gap=0.02, cut_after=9
    )
    assert impairment_of([]) == impairment_of([Refuse(**ENDS)]) == UNIMPAIRED
    assert impairment_of([Blackhole(**ENDS), Reset(**ENDS)]) == Impairment(is_blocked=True, is_reset=True)


def test_latency_keeps_everything_back_for_so_long_the_end_as_well() -> None:
    direction = LinkDirection(Impairment(latency=2))
    direction.push(b"a", 0)
    direction.push(b"b", 1)
    direction.push_end(None, 1)
    assert direction.next_at() == 2
    assert drain(direction, 1.9) == b""
    assert drain(direction, 2) == b"a"
    assert not direction.is_ended(2.9)
    assert drain(direction, 3) == b"b"
    assert direction.is_ended(3)
    assert direction.error is None


@hypothesis.given(
    parts=st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.floats(0, 3)), max_size=20), seed=st.integers()
)
def test_jitter_never_lets_one_overtake_another(parts: list[tuple[bytes, float]], seed: int) -> None:
    direction = LinkDirection(Impairment(latency=1, jitter=5), rng=random.Random(seed))
    now, out = 0.0, b""
    for data, pause in parts:
        now += pause
        direction.push(data, now)
        out += drain(direction, now)
    assert out + drain(direction, now + 6) == b"".join(data for data, _ in parts)


def test_losses_and_windows_add_up_or_the_worst_of_them_counts() -> None:
    faults = [
        Loss(**ENDS, percent=50),
        Loss(**ENDS, percent=50),
        Reorder(**ENDS, percent=25),
        Reorder(**ENDS, percent=100, late_millis=20),
        SlowReader(**ENDS, read_bytes=10, window_bytes=500),
        SlowReader(**ENDS, read_bytes=20),
    ]
    assert impairment_of(faults) == Impairment(
        loss=0.75, reordering=1.0, reorder_delay=0.02, bytes_per_second=10, window=500
    )


def test_a_lost_packet_and_all_behind_it_arrive_at_a_retransmission() -> None:
    """The draws of this seed: packets 2 and 3 are lost once, packet 4 three times."""

    class Draws(random.Random):
        def random(self) -> float:
            return next(draws)

    lost, passes = 0.0, 0.9
    draws = iter([passes, lost, passes, lost, passes, lost, lost, lost, passes, passes])
    direction = LinkDirection(Impairment(loss=0.5), rng=Draws())
    sent = bytes(number for number in range(5) for _ in range(PACKET))
    direction.push(sent, 10)
    assert drain(direction, 10) == sent[:PACKET]
    assert direction.next_at() == pytest.approx(10.2)
    assert drain(direction, 10.2) == sent[PACKET : 3 * PACKET]
    assert direction.next_at() == pytest.approx(10 + 0.2 + 0.4 + 0.8)
    assert drain(direction, 11.4) == sent[3 * PACKET :]


@pytest.mark.parametrize("kind", [Impairment(loss=0.4), Impairment(reordering=0.5, reorder_delay=0.3)])
@hypothesis.given(parts=st.lists(st.tuples(st.binary(max_size=4000), st.floats(0, 1)), max_size=20), seed=st.integers())
def test_no_byte_is_missing_or_overtakes_another(kind: Impairment, parts: list[tuple[bytes, float]], seed: int) -> None:
    direction = LinkDirection(kind, rng=random.Random(seed))
    now, out = 0.0, b""
    for data, pause in parts:
        now += pause
        direction.push(data, now)
        out += drain(direction, now)
    assert out + drain(direction, now + 1e9) == b"".join(data for data, _ in parts)


def test_as_many_packets_are_lost_as_the_fault_says() -> None:
    direction = LinkDirection(Impairment(loss=0.1), rng=random.Random(1))
    late = 0
    for number in range(10_000):
        now = number * 1e4
        direction.push(b"x", now)
        late += direction.next_at() > now
        drain(direction, now + 9e3)
    assert 900 < late < 1100


def test_an_overtaken_packet_arrives_a_little_later() -> None:
    direction = LinkDirection(Impairment(reordering=1.0, reorder_delay=0.005))
    direction.push(b"x", 1)
    assert direction.next_at() == pytest.approx(1.005)


def test_a_slow_reader_accepts_no_more_than_its_window() -> None:
    direction = LinkDirection(Impairment(bytes_per_second=100, window=300))
    assert direction.room == 300
    direction.push(bytes(300), 0)
    assert direction.room == 0
    assert len(drain(direction, 1)) == pytest.approx(100, abs=2)


def test_bandwidth_limits_both_the_output_and_the_accepted_input() -> None:
    direction = LinkDirection(Impairment(bytes_per_second=1000))
    direction.push(bytes(5000), 0)
    out = [len(drain(direction, second)) for second in range(1, 6)]
    assert sum(out) == 5000
    assert all(count == pytest.approx(1000, abs=11) for count in out)
    direction.push(bytes(NARROW_ROOM), 6)
    assert direction.room == 0


def test_an_idle_link_gathers_no_bandwidth() -> None:
    direction = LinkDirection(Impairment(bytes_per_second=1000))
    direction.push(bytes(3000), 100)
    assert len(drain(direction, 101)) == pytest.approx(1000, abs=11)


def test_segments_are_delivered_one_by_one_with_a_gap() -> None:
    direction = LinkDirection(Impairment(segment=2, gap=0.5))
    direction.push(b"abcde", 0)
    taken = []
    for moment in (0.0, 0.4, 0.5, 1.0, 1.4, 1.5):
        part = direction.take(100, moment)
        taken.append(None if part is None else bytes(part))
    assert taken == [b"ab", None, b"cd", b"e", None, None]


def test_a_cut_lets_so_many_bytes_pass_and_then_it_is_the_end() -> None:
    direction = LinkDirection(Impairment(cut_after=6))
    direction.push(b"abcd", 0)
    assert drain(direction, 0) == b"abcd"
    direction.push(b"efgh", 0)
    assert drain(direction, 0) == b"ef"
    assert direction.is_ended(0)


def test_of_two_cuts_the_earlier_end_counts_and_its_heal_leaves_the_other() -> None:
    direction = LinkDirection(Impairment(cut_after=100))
    direction.set_impairment(Impairment(cut_after=6), 0)
    direction.push(b"abcd", 0)
    assert drain(direction, 0) == b"abcd"
    direction.set_impairment(Impairment(cut_after=6, latency=1), 0)  # another fault begins: no change of the cut
    direction.push(b"ef", 0)
    direction.set_impairment(Impairment(cut_after=100), 1)
    assert drain(direction, 1) == b"ef"
    assert not direction.is_cut
    direction.set_impairment(Impairment(cut_after=6), 1)
    direction.push(b"ghijklmn", 1)
    assert drain(direction, 1) == b"ghijkl"
    assert direction.is_ended(1)


def test_a_cut_that_begins_later_ends_no_connection_later() -> None:
    direction = LinkDirection(Impairment(cut_after=6))
    direction.push(b"abcd", 0)
    assert drain(direction, 0) == b"abcd"
    direction.set_impairment(Impairment(cut_after=5), 0)
    direction.push(b"efgh", 0)
    assert drain(direction, 0) == b"ef"
    assert direction.is_cut


def test_unused_bytes_are_not_counted_for_the_cut() -> None:
    direction = LinkDirection(Impairment(cut_after=2))
    direction.push(b"abcd", 0)
    part = direction.take(100, 0)
    assert part is not None
    direction.untake(part[1:], 0)
    assert drain(direction, 0) == b"b"
    assert direction.is_cut


def test_a_blackhole_keeps_all_and_gives_it_back_at_the_next_retransmission_after_the_heal() -> None:
    direction = LinkDirection(Impairment(is_blocked=True))
    direction.push(b"abc", 10.0)
    direction.push(b"def", 11.0)
    assert direction.next_at() == math.inf
    direction.set_impairment(UNIMPAIRED, 14.0)
    assert not direction.is_transparent(14.0)
    assert direction.next_at() == pytest.approx(10 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2)  # the moment before was 13.0
    assert drain(direction, 16.2) == b"abcdef"
    assert direction.is_transparent(16.2)


def test_a_blackhole_in_which_nothing_was_lost_leaves_no_trace() -> None:
    direction = LinkDirection(Impairment(is_blocked=True))
    direction.set_impairment(UNIMPAIRED, 14.0)
    assert direction.is_transparent(14.0)


def test_bytes_in_flight_when_a_blackhole_begins_are_lost() -> None:
    direction = LinkDirection(Impairment(latency=1))
    direction.push(b"a", 0)
    direction.set_impairment(Impairment(is_blocked=True), 0.5)
    assert drain(direction, 5) == b""
    assert direction.is_anything_lost


@hypothesis.given(lost_at=st.floats(0, 1e6), waited=st.floats(0, 1e5))
def test_retransmissions_are_never_past_and_at_most_two_minutes_or_as_long_as_the_outage_ahead(
    lost_at: float, waited: float
) -> None:
    now = lost_at + waited
    ahead = next_retransmission(lost_at, now) - now
    assert -1e-6 <= ahead <= min(120, max(0.2, waited + 0.2)) + 1e-6


def test_tiny_sends_in_flight_are_limited_as_large_ones() -> None:
    """Four million sends of a byte took 1 GB.

    A heal delivered all of them in one pass.
    """
    direction = LinkDirection(Impairment(is_blocked=True))
    pushed = 0
    while direction.room:
        direction.push(b"x", 0.0)
        pushed += 1
    assert pushed == MOST_PARTS
    direction.set_impairment(UNIMPAIRED, 1.0)
    assert bytes(direction.take(10, 1000.0) or b"") == b"x"
    assert direction.room > 0
    assert len(drain(direction, 1000.0)) == MOST_PARTS - 1
