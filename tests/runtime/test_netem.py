"""When bytes come out of a bad network. No socket, no clock."""

import math
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from rmqlab.runtime.fault_rules import LinkRule
from rmqlab.runtime.netem import NARROW_ROOM, ROOM, UNIMPAIRED, Impairment, LinkDirection, next_retransmission


def drain(pipe: LinkDirection, now: float, limit: int = ROOM) -> bytes:
    out = b""
    while (part := pipe.take(limit, now)) is not None:
        out += part
    return out


def rule(kind: str, **fields: float) -> LinkRule:
    return LinkRule(id="f1", kind=kind, is_outbound=False, **fields)  # type: ignore[arg-type]


def test_rules_add_up_or_the_worst_of_them_counts() -> None:
    rules = [
        rule("latency", millis=250, jitter_millis=10),
        rule("latency", millis=500),
        rule("bandwidth", bytes_per_second=1000),
        rule("bandwidth", bytes_per_second=10),
        rule("slice", count=7),
        rule("slice", count=3, millis=20),
        rule("cut", count=9),
    ]
    assert Impairment.of(rules) == Impairment(
        latency=0.75, jitter=0.01, bytes_per_second=10, segment=3, gap=0.02, cut_after=9
    )
    assert Impairment.of([]) == Impairment.of([rule("refuse")]) == UNIMPAIRED
    assert Impairment.of([rule("blackhole"), rule("reset")]) == Impairment(is_blocked=True, is_reset=True)


def test_latency_keeps_everything_back_for_so_long_the_end_as_well() -> None:
    pipe = LinkDirection(Impairment(latency=2))
    pipe.push(b"a", 0)
    pipe.push(b"b", 1)
    pipe.push_end(None, 1)
    assert pipe.next_at() == 2
    assert drain(pipe, 1.9) == b""
    assert drain(pipe, 2) == b"a"
    assert not pipe.is_ended(2.9)
    assert drain(pipe, 3) == b"b"
    assert pipe.is_ended(3)
    assert pipe.error is None


@hypothesis.given(
    parts=st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.floats(0, 3)), max_size=20), seed=st.integers()
)
def test_jitter_never_lets_one_overtake_another(parts: list[tuple[bytes, float]], seed: int) -> None:
    pipe = LinkDirection(Impairment(latency=1, jitter=5), chance=random.Random(seed))
    now, out = 0.0, b""
    for data, pause in parts:
        now += pause
        pipe.push(data, now)
        out += drain(pipe, now)
    assert out + drain(pipe, now + 6) == b"".join(data for data, _ in parts)


def test_bandwidth_lets_so_many_bytes_a_second_out_and_takes_no_more_than_a_little_in() -> None:
    pipe = LinkDirection(Impairment(bytes_per_second=1000))
    pipe.push(bytes(5000), 0)
    out = [len(drain(pipe, second)) for second in range(1, 6)]
    assert sum(out) == 5000
    assert all(count == pytest.approx(1000, abs=11) for count in out)
    pipe.push(bytes(NARROW_ROOM), 6)
    assert pipe.room == 0


def test_what_waits_idle_gathers_no_bandwidth() -> None:
    pipe = LinkDirection(Impairment(bytes_per_second=1000))
    pipe.push(bytes(3000), 100)
    assert len(drain(pipe, 101)) == pytest.approx(1000, abs=11)


def test_slices_come_one_by_one_with_a_gap() -> None:
    pipe = LinkDirection(Impairment(segment=2, gap=0.5))
    pipe.push(b"abcde", 0)
    taken = []
    for moment in (0.0, 0.4, 0.5, 1.0, 1.4, 1.5):
        part = pipe.take(100, moment)
        taken.append(None if part is None else bytes(part))
    assert taken == [b"ab", None, b"cd", b"e", None, None]


def test_a_cut_lets_so_many_bytes_pass_and_then_it_is_the_end() -> None:
    pipe = LinkDirection(Impairment(cut_after=6))
    pipe.push(b"abcd", 0)
    assert drain(pipe, 0) == b"abcd"
    pipe.push(b"efgh", 0)
    assert drain(pipe, 0) == b"ef"
    assert pipe.is_ended(0)


def test_what_could_not_be_used_is_not_counted_for_the_cut() -> None:
    pipe = LinkDirection(Impairment(cut_after=2))
    pipe.push(b"abcd", 0)
    part = pipe.take(100, 0)
    assert part is not None
    pipe.untake(part[1:], 0)
    assert drain(pipe, 0) == b"b"
    assert pipe.is_cut


def test_a_blackhole_keeps_all_and_gives_it_back_at_the_next_retransmission_after_the_heal() -> None:
    pipe = LinkDirection(Impairment(is_blocked=True))
    pipe.push(b"abc", 10.0)
    pipe.push(b"def", 11.0)
    assert pipe.next_at() == math.inf
    pipe.set_impairments(UNIMPAIRED, 14.0)
    assert not pipe.is_straight(14.0)
    assert pipe.next_at() == pytest.approx(10 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2)  # the moment before was 13.0
    assert drain(pipe, 16.2) == b"abcdef"
    assert pipe.is_straight(16.2)


def test_a_blackhole_in_which_nothing_was_lost_leaves_no_trace() -> None:
    pipe = LinkDirection(Impairment(is_blocked=True))
    pipe.set_impairments(UNIMPAIRED, 14.0)
    assert pipe.is_straight(14.0)


def test_what_is_under_way_when_the_blackhole_begins_is_lost_as_well() -> None:
    pipe = LinkDirection(Impairment(latency=1))
    pipe.push(b"a", 0)
    pipe.set_impairments(Impairment(is_blocked=True), 0.5)
    assert drain(pipe, 5) == b""
    assert pipe.is_anything_lost


@hypothesis.given(lost_at=st.floats(0, 1e6), waited=st.floats(0, 1e5))
def test_retransmissions_are_never_past_and_at_most_two_minutes_or_as_long_as_the_outage_ahead(
    lost_at: float, waited: float
) -> None:
    now = lost_at + waited
    ahead = next_retransmission(lost_at, now) - now
    assert -1e-6 <= ahead <= min(120, max(0.2, waited + 0.2)) + 1e-6
