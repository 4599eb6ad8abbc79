"""The tables of an audit, as people read them."""

import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun, write_journals
from rmqlab.pipeline.tables.audittables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "notebook.py"
INTERNAL = {"repeated"}
"""Tables between two queries of the audit, which nobody reads."""


@pytest.fixture(scope="module")
def run(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An audited run: ten messages, one of them refused, some consumed twice."""
    from rmqlab.pipeline.audit.audit import audit_run

    made_up = MadeUpRun()
    for number in range(9):
        made_up.send(number)
        made_up.deliver(number, number)
    made_up.deliver(3, 3)
    made_up.commit(9)
    made_up.commit(4)
    made_up.send(9, "refused")
    directory = tmp_path_factory.mktemp("run")
    write_journals(made_up.entries, directory / "journal")
    audit_run(spark, directory)
    return directory


def test_the_declared_tables_are_those_of_an_audit(spark: "SparkSession", run: pathlib.Path) -> None:
    from rmqlab.pipeline.auditframes import audit_frames

    frames = audit_frames(spark, run)
    assert {path.name for path in (run / "audit").iterdir() if path.is_dir()} <= {*frames} | INTERNAL
    for table in TABLES:
        columns = {field.name: field.dataType.simpleString() for field in frames[table.name].schema}
        assert columns == {one.name: one.type for one in table.columns}, table.name
        assert {*table.key} <= columns.keys()


def test_a_key_identifies_a_row(spark: "SparkSession", run: pathlib.Path) -> None:
    from rmqlab.pipeline.auditframes import audit_frames

    frames = audit_frames(spark, run)
    assert frames["fates"].count() == 10
    for table in TABLES:
        frame = frames[table.name]
        if table.key:
            assert frame.select(*(f"`{name}`" for name in table.key)).distinct().count() == frame.count(), table.name


@pytest.mark.long
def test_a_key_identifies_a_row_of_a_run_with_violations(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    from rmqlab.pipeline.audit.audit import audit_run
    from rmqlab.pipeline.auditframes import audit_frames
    from tests.pipeline.violations import planted_run, write_run

    directory = write_run(planted_run(), tmp_path)
    audit_run(spark, directory)
    frames = audit_frames(spark, directory)
    filled = {table.name for table in TABLES if not frames[table.name].isEmpty()}
    assert filled > {"fates", "outages", "offset_moves", "repeats", "late_deliveries", "inversions", "divergences"}
    for table in TABLES:
        rows = frames[table.name].select(*(f"`{name}`" for name in table.key)).collect() if table.key else []
        assert len(set(map(repr, rows))) == len(rows), table.name


def test_an_unknown_table_and_a_run_without_tables_are_refused(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    from rmqlab.pipeline.auditframes import AuditFrames, NotAuditedError, audit_frames

    with pytest.raises(KeyError, match="no table 'fate'; did you mean fates"):
        AuditFrames(spark, tmp_path)["fate"]
    run = MadeUpRun()
    write_journals(run.entries, tmp_path / "journal")
    with pytest.raises(NotAuditedError, match=f"first: rmqlab audit {tmp_path}"):
        audit_frames(spark, tmp_path)


def test_a_table_describes_itself(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    from rmqlab.pipeline.auditframes import AuditFrames

    lines = AuditFrames(spark, tmp_path).describe("behind_spans").splitlines()
    assert lines[:2] == [
        "behind_spans: Intervals in which a slave was behind its master without a break.",
        "key: slave, at",
    ]
    assert lines[-1] == "  until  bigint: end, ms; null if it lasts until the end of the run"


@pytest.mark.long
def test_the_notebook_plots_a_run(run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    picture = tmp_path / "run.png"
    done = subprocess.run(
        [sys.executable, NOTEBOOK, run, picture], check=True, capture_output=True, text=True, timeout=300
    )
    assert "lost: 9 messages" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
