"""The page of an audited run: its content, and a browser without console messages."""

import json
import pathlib
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmqlab.pipeline.report.data import Facts, NoAuditError, RunData
from rmqlab.pipeline.report.page import write_report
from rmqlab.pipeline.report.story import anchor_of
from rmqlab.pipeline.tables.audittable import Column
from rmqlab.pipeline.tables.audittables import TABLES
from rmqlab.verdict.html.svg import Axis, Plot, log_ticks, short, ticks

if TYPE_CHECKING:
    from tests.pipeline.audited import Audited

FIGURES = (
    "Node status, routes and availability",
    "Sends",
    "Latency",
    "Replication lag",
    "Consumer offsets",
    "Deliveries",
)
SIMPLE_TYPES = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_()}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIETLY = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def page(planted_audit: "Audited") -> pathlib.Path:
    """The page of a made-up run with everything in it."""
    directory = planted_audit.directory
    return write_report(directory, directory / "report.html")


def test_the_page_is_self_contained_and_complete(page: pathlib.Path) -> None:
    text = page.read_text()
    assert all(f"<h2>{title}</h2>" in text for title in FIGURES)
    assert text.count("<svg") == len(FIGURES)
    assert 'class="verdict violated"' in text
    assert "lost.SLAVE_NOT_AVAILABLE" in text
    assert text.count("<script") == 1
    assert "alert(&#x27;not run&#x27;)" in text
    assert not [word for word in ("http://", "https://", "@import", "url(") if word in text]
    drawings = text[text.index("<svg") : text.rindex("</svg>") + 6].split("</svg>")[:-1]
    for drawing in drawings:
        ET.fromstring(drawing[drawing.index("<svg") :] + "</svg>")


def test_every_link_of_the_page_leads_to_something_on_it(page: pathlib.Path) -> None:
    text = page.read_text()
    wanted = set(re.findall(r'href="#([^"]+)"', text))
    assert wanted
    assert wanted <= set(re.findall(r' id="([^"]+)"', text))


def test_only_what_violates_the_verdict_is_red(page: pathlib.Path) -> None:
    text = page.read_text()
    bad = set(re.findall(r'<tr id="([^"]+)" class="bad">', text))
    violating = json.loads((page.parent / "audit" / "audit.json").read_text())["violating"]
    assert {anchor_of(metric) for metric in violating} <= bad
    assert bad - {anchor_of(metric) for metric in violating} == {"m-lost.SEND_OK", "m-lost.SLAVE_NOT_AVAILABLE"}
    assert "--bad" not in re.sub(r"\.bad [^}]*}|--bad:[^;]*;|tr\.bad[^}]*}", "", text[: text.index("</style>")])


def test_zero_and_unknown_metrics_are_folded(page: pathlib.Path) -> None:
    text = page.read_text()
    shown = text[text.index('<section id="findings">') : text.index('<details class="folded">')]
    assert "<td>0 " not in shown
    assert "<td>unknown" not in shown


def test_a_browser_shows_the_plots_and_its_console_stays_empty(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"there is no browser: none of {', '.join(BROWSERS)} is on PATH")
    common = [browser, *QUIETLY, f"--user-data-dir={tmp_path}/profile"]
    logged = [*common, "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()]
    done = subprocess.run(logged, check=True, capture_output=True, text=True, timeout=240)
    assert done.stdout.count("<svg") == len(FIGURES)
    assert "CONSOLE" not in done.stderr
    picture = tmp_path / "page.png"
    subprocess.run([*common, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=240)
    assert picture.stat().st_size > 20_000


def test_an_unaudited_run_is_reported_with_a_remedy(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NoAuditError, match="run `rmqlab audit"):
        write_report(tmp_path, tmp_path / "report.html")


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"{}", b'{"tables": 5}', b"[" * 100_000, b'{"\xff": 1}'])
def test_a_damaged_summary_is_reported_with_a_remedy(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_bytes(content)
    with pytest.raises(NoAuditError, match=r"audit\.json is damaged: run `rmqlab audit .*` again"):
        write_report(tmp_path, tmp_path / "report.html")


SUMMARY: dict[str, Any] = {
    "verdict": "violated", "why": ["lost: 3"], "warnings": [], "violating": ["lost"], "began_at": 1, "ended_at": 2,
    "findings": {"lost": {"value": 3, "unit": "messages", "at_least": False, "missing": "", "evidence": []}},
    "presence": [{"outcome": "SEND_OK", "broker": "a", "nodes": ["a"], "is_consumed": True, "messages": 3}],
}  # fmt: skip


def write_audit(directory: pathlib.Path, **changed: Any) -> None:
    """Write an audit: its summary with other values of some members, two tables."""
    tables = directory / "audit"
    for name in ("raw_events", "outages"):
        (tables / name).mkdir(parents=True)
        columns = {one.name: pa.array([], SIMPLE_TYPES[one.type]) for one in columns_of(name)}
        pq.write_table(pa.table(columns), tables / name / "all.parquet")
    (tables / "audit.json").write_text(json.dumps({**SUMMARY, "tables": str(tables), **changed}))


def columns_of(table: str) -> list[Column]:
    """Return the columns of a table with simple types."""
    (columns,) = [one.columns for one in TABLES if one.name == table]
    return [column for column in columns if column.type in SIMPLE_TYPES]


def test_a_page_needs_only_the_members_that_it_reads(tmp_path: pathlib.Path) -> None:
    write_audit(tmp_path)
    assert "Lost: 3" in write_report(tmp_path, tmp_path / "report.html").read_text()


def test_a_run_that_was_copied_is_reported_by_its_own_tables(tmp_path: pathlib.Path) -> None:
    """The summary has the path at which they were written."""
    write_audit(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    (tmp_path / "old" / "audit" / "raw_events" / "all.parquet").write_bytes(b"no parquet")
    page = write_report(tmp_path / "new", tmp_path / "report.html").read_text()
    assert f"<code>{tmp_path}/new/audit</code>" in page


@pytest.mark.parametrize(("pieces", "text"), [(99, "98 more<"), (100, "99 more (a finding keeps at most 100)<")])
def test_a_page_says_that_evidence_is_limited(tmp_path: pathlib.Path, pieces: int, text: str) -> None:
    lost = SUMMARY["findings"]["lost"] | {"value": 107, "evidence": [{"says": f"m-{n}"} for n in range(pieces)]}
    write_audit(tmp_path, findings={"lost": lost})
    assert text in write_report(tmp_path, tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    "changed",
    [
        {"verdict": "perhaps"},
        {"why": "lost"},
        {"warnings": [1]},
        {"violating": None},
        {"began_at": "now"},
        {"ended_at": 10**16},
        {"findings": {"lost": 3}},
        {"findings": {"lost": SUMMARY["findings"]["lost"] | {"value": "3"}}},
        {"presence": [{"outcome": "SEND_OK"}]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_summary_with_other_types_is_damaged(tmp_path: pathlib.Path, changed: dict[str, Any]) -> None:
    write_audit(tmp_path, **changed)
    with pytest.raises(NoAuditError, match=r"audit\.json is damaged: run `rmqlab audit .*` again"):
        write_report(tmp_path, tmp_path / "report.html")


@pytest.mark.parametrize("table", ["raw_events", "outages"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet" * 9], ids=["empty", "truncated", "text"])
def test_a_damaged_table_is_reported_with_a_remedy(tmp_path: pathlib.Path, table: str, content: bytes) -> None:
    write_audit(tmp_path)
    (tmp_path / "audit" / table / "all.parquet").write_bytes(content)
    with pytest.raises(NoAuditError, match=rf"{table} is damaged: run `rmqlab audit .*` again"):
        write_report(tmp_path, tmp_path / "report.html")


def test_tables_of_another_version_are_reported_with_a_remedy(tmp_path: pathlib.Path) -> None:
    (tmp_path / "outages").mkdir()
    columns = {one.name: pa.array([None], SIMPLE_TYPES[one.type]) for one in columns_of("outages")}
    old = {"operation": "way", "broker": "who"}
    data = RunData(
        directory=tmp_path, summary={}, claim="", verdict_document={}, facts=Facts(), events=[], tables=tmp_path
    )
    pq.write_table(pa.table({old.get(name, name): rows for name, rows in columns.items()}), tmp_path / "outages" / "0")
    with pytest.raises(NoAuditError, match=r"outages lacks the columns operation, broker: .* Run `rmqlab audit"):
        data.table("outages")
    pq.write_table(pa.table(columns | {"began_at": pa.array(["now"])}), tmp_path / "outages" / "0")
    with pytest.raises(NoAuditError, match="outages lacks the columns began_at: "):
        data.table("outages")
    pq.write_table(pa.table(columns), tmp_path / "outages" / "0")
    assert len(data.table("outages")) == 1


def test_axes_have_round_ticks() -> None:
    assert ticks(0, 61.3, 10) == [0, 10, 20, 30, 40, 50, 60]
    assert ticks(0, 0.9, 4) == pytest.approx([0, 0.5])
    assert log_ticks(2500) == [1, 10, 100, 1000, 10000]
    assert [short(value) for value in (0, 950, 1500, 2e6)] == ["0", "950", "1.5k", "2M"]


def test_values_outside_an_axis_are_clamped_to_its_border() -> None:
    axis = Axis(0, 10, 100, 200)
    assert [axis.at(value) for value in (-5, 0, 5, 10, 99)] == [100, 100, 150, 200, 200]


def test_a_line_has_no_bridge_over_a_gap() -> None:
    plot = Plot("x", 100, 100)
    plot.line([(0, 1), (1, 2), (50, 1), (51, 2)], Axis(0, 2, 90, 10), "series-0", widest=10)
    assert plot.marks[-1].count("M") == 2
