"""Comparison of a run of benchmarks with a kept one."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.bench.against import KeptResultError, compare, read_kept, worsening
from tests.bench.tables import Table, write

BEFORE = Table(
    "Sends", ["threads", "real", "ratio", "us"],
    [["1", 900, 1.0, 450.0], ["4", 3000, 1.2, 160.0], ["16", 5000, None, 90.0]],
    better={2: "more", 3: "less"},
)  # fmt: skip


def kept(*tables: Table) -> list[dict[str, Any]]:
    plain: list[dict[str, Any]] = json.loads(json.dumps([attrs.asdict(table) for table in tables]))
    return plain


def test_only_figures_that_are_over_10_percent_worse_are_reported() -> None:
    now = attrs.evolve(
        BEFORE, rows=[["1", 10, 0.91, 496.0], ["4", 10, 1.07, 120.0], ["16", 10, 0.1, 90.0], ["64", 10, 0.1, 9000.0]]
    )
    found = compare(kept(BEFORE), [now])
    assert found.rows == [["Sends: 1: us", 450.0, 496.0, "10%"], ["Sends: 4: ratio", 1.2, 1.07, "11%"]]
    assert found.notes == "5 figures compared, 2 of them worse by more than 10%."


def test_a_run_against_itself_is_not_worse() -> None:
    found = compare(kept(BEFORE), [BEFORE])
    assert found.rows == []
    assert found.notes.startswith("5 figures compared, 0 ")


def test_tables_that_the_kept_run_lacks_are_not_compared() -> None:
    assert compare([], [BEFORE]).notes.startswith("0 figures compared")
    assert compare(kept(attrs.evolve(BEFORE, title="Other")), [BEFORE]).notes.startswith("0 figures compared")


def test_a_row_may_have_the_other_direction() -> None:
    before = Table("Catch-up", ["", "ratio"], [["MB/s", 1.0], ["CPU", 1.0]], better={1: "less"})
    now = attrs.evolve(before, rows=[["MB/s", 0.5], ["CPU", 0.5]], better_in_row={"MB/s": "more"})
    assert [row[0] for row in compare(kept(before), [now]).rows] == ["Catch-up: MB/s: ratio"]


@pytest.mark.parametrize(
    ("old", "new", "by_less", "by_more"),
    [(10.0, 12.0, 0.2, -0.2), (10.0, 8.0, -0.2, 0.2), (0.0, 0.0, 0.0, 0.0), (0.0, 1.0, float("inf"), float("-inf"))],
)
def test_worsening_is_a_share_of_the_old_figure(old: float, new: float, by_less: float, by_more: float) -> None:
    assert worsening(old, new, "less") == pytest.approx(by_less)
    assert worsening(old, new, "more") == pytest.approx(by_more)


def test_a_written_benchmark_file_is_readable(tmp_path: Path) -> None:
    write([BEFORE], tmp_path)
    assert compare(read_kept(tmp_path / "bench.json"), [BEFORE]).rows == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[{}]", '[{"title": 1, "columns": [], "rows": []}]', '{"title": 1}'])
def test_another_file_is_rejected_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(KeptResultError, match=r"other\.json"):
        read_kept(path)
    with pytest.raises(KeptResultError, match=r"missing\.json"):
        read_kept(tmp_path / "missing.json")
