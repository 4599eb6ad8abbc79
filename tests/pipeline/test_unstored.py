"""The audit names messages that are gone, and missing stores, as the checks do."""

import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from tests.cluster.checks.test_unstored import METRIC, young_run
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_young_message_was_not_deleted_for_its_age(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    assert compare(spark, write_run(young_run(), tmp_path / "run")).findings[METRIC].value == 1


@pytest.mark.long
def test_both_judges_name_an_empty_store_alike(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(young_run(), tmp_path / "run")
    shutil.rmtree(directory / "broker-a-s" / "store")
    (directory / "broker-a-s" / "store").mkdir()
    found = compare(spark, directory).findings[METRIC].missing
    assert found == judge_directory(directory)[METRIC].missing
    assert found == f"broker-a-s: no store in {directory / 'broker-a-s' / 'store'}"
