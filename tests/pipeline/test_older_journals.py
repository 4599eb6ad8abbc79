"""Both judges know less from journals of older versions."""

import pathlib
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import body_crc
from rmqlab.verdict.verdict import Verdict
from tests.pipeline.violations import clean_run, compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_both_need_the_role_and_every_checksum(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    run.send(20, at=["broker-a"], crc=content_crc(body_crc(b"x"), 0, "", ""))
    summary = compare(spark, write_run(run, tmp_path / "old"))
    assert summary.verdict is Verdict.UNKNOWN
    assert not summary.findings["unreplicated broker-a"].is_known
    assert summary.findings["content_disagreement"].missing == "12 sends of the journal have no checksum"
    run.entries = [
        attrs.evolve(one, fields={**one.fields, "crc": 1}) if one.fields.get("number") == 0 else one
        for one in run.entries
    ]
    found = compare(spark, write_run(run, tmp_path / "altered")).findings["content_disagreement"]
    assert (found.value, found.is_at_least) == (1, True)
