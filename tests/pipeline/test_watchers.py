"""Spans, against counting instants."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.pipeline.audit.watchers import Span, shared, uncovered

END = 30
spans = st.builds(
    lambda at, length: (at, None if at + length > END else at + length), st.integers(0, END), st.integers(1, END)
)


def instants(*known: Span) -> set[int]:
    return {now for now in range(END + 10) if any(at <= now and (end is None or now < end) for at, end in known)}


@given(spans, st.lists(spans, max_size=6))
def test_uncovered_spans_overlap_no_other_span(span: Span, covers: list[Span]) -> None:
    left = list(uncovered(span, covers))
    assert instants(*left) == instants(span) - instants(*covers)
    assert all(one[1] is not None and one[1] < other[0] for one, other in itertools.pairwise(left))


@given(spans, spans)
def test_shared_spans_are_in_both(one: Span, other: Span) -> None:
    both = shared(one, other)
    assert instants(*([both] if both else [])) == instants(one) & instants(other)
