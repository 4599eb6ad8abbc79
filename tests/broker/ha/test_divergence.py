"""The search for the divergence of two logs, given as lists of record sizes."""

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.broker.ha.divergence import Span, common_end


def search(sizes: list[int], same: int, *, end: int | None = None, start: int = 0) -> tuple[int | None, list[Span]]:
    """Search a log of such records from `start`; the other log has the first `same`."""
    ends = list(accumulate(sizes, initial=start))[1:]

    def record_before(offset: int) -> Span | None:
        at = bisect_right(ends, offset)
        return Span(ends[at - 1] - sizes[at - 1], sizes[at - 1]) if at else None

    common = ends[same - 1] if same else start
    asked: list[Span] = []
    question = common_end(record_before, ends[-1] if end is None and ends else end or start)
    try:
        asked.append(next(question))
        while True:
            asked.append(question.send(asked[-1].end <= common))
    except StopIteration as done:
        return done.value, asked


def test_equal_logs_cost_one_question() -> None:
    assert search([100] * 1000, 1000) == (100_000, [Span(99_900, 100)])


def test_logs_without_common_bytes_have_no_common_end() -> None:
    end, _ = search([100] * 1000, 0)
    assert end is None


def test_an_empty_log_has_nothing_to_ask_about() -> None:
    assert search([], 0) == (None, [])


def test_the_part_that_only_one_has_is_not_asked_about() -> None:
    """Also a record that the shorter log's end cuts in two."""
    end, asked = search([100] * 10, 5, end=550)
    assert (end, asked) == (500, [Span(400, 100)])


@pytest.mark.parametrize("same", [1, 2, 499_999, 999_998, 999_999])
def test_a_log_of_a_million_records_costs_some_forty_questions(same: int) -> None:
    end, asked = search([100] * 1_000_000, same)
    assert end == same * 100
    assert len(asked) <= 45


def test_one_large_record_before_many_small_ones_does_not_make_it_a_walk() -> None:
    end, asked = search([100, 4_000_000, *[100] * 20_000], 1)
    assert end == 100
    assert len(asked) <= 80


@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=60), st.data(), st.integers(0, 2**40))
def test_the_common_part_ends_where_the_last_equal_record_does(
    sizes: list[int], data: st.DataObject, start: int
) -> None:
    same = data.draw(st.integers(0, len(sizes)))
    end, asked = search(sizes, same, start=start)
    assert end == (start + sum(sizes[:same]) if same else None)
    assert len(set(asked)) == len(asked)
