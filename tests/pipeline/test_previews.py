"""Rows have the same order, in whichever order Spark returns them."""

import itertools
from typing import Any

from pyspark.sql import Row

from rmqlab.pipeline.audit.facts import _place_in_time
from rmqlab.pipeline.audit.previews import join_groups


def test_first_rows_are_in_order() -> None:
    counts = [Row(key="a", found=3), Row(key="b", found=1)]
    first = [Row(key="a", nth=nth, place=nth * 10) for nth in (1, 2, 3)] + [Row(key="b", nth=1, place=7)]
    for rows in itertools.permutations(first):
        groups = join_groups(counts, rows)
        assert [row.place for row in groups["a"].first] == [10, 20, 30]
        assert [row.place for row in groups["b"].first] == [7]


def test_events_are_in_the_order_of_sql() -> None:
    def event(at: int | None, process: str, place: int) -> Any:
        return Row(seq=Row(at=at, last=process == "cluster", process=process, place=place))

    ordered = [
        event(None, "a", 0), event(None, "b", 0), event(None, "cluster", 0), event(5, "b", 9), event(5, "cluster", 1),
        event(5, "cluster", 2), event(6, "a", 10),
    ]  # fmt: skip
    for rows in itertools.islice(itertools.permutations(ordered), 0, None, 7):
        assert sorted(rows, key=_place_in_time) == ordered
