import os
import pathlib
import subprocess
import sys

import pytest

from rmqlab.pipeline import session
from rmqlab.pipeline.java import find_java
from rmqlab.pipeline.spark_home import Machine, make_overlay

PROGRAM = """
import sys
from rmqlab.pipeline.session import open_session

with open_session("local[1]") as spark:
    rows = spark.read.format("rocketmq-store").load(sys.argv[1]).count()
print(rows)
"""


@pytest.mark.long  # it starts a Spark of its own
def test_spark_says_nothing_but_the_answer_on_the_java_of_a_package(golden: pathlib.Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": "/nowhere:/bin"}
    java = find_java(environment)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, golden / "master"],
        check=False, capture_output=True, text=True, env=environment, timeout=500,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("2161\n", ""), java


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(session.NoSparkError, match=r"pyarrow cannot be imported: `pip install 'rmqlab\[spark\]'`"):
        session.check_installed()


def test_an_overlay_is_made_once_and_holds_the_installed_jars(tmp_path: pathlib.Path) -> None:
    spark_home = tmp_path / "pyspark"
    (spark_home / "jars").mkdir(parents=True)
    java = find_java()
    made = make_overlay(spark_home, java, Machine(heap="2g"), tmp_path / "cache")
    assert made == make_overlay(spark_home, java, Machine(heap="2g"), tmp_path / "cache")
    assert made != make_overlay(spark_home, java, Machine(heap="1g"), tmp_path / "cache")
    assert (made / "jars").resolve() == spark_home / "jars"
    assert "-Xmx2g" in (made / "bin" / "spark-submit").read_text()
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(
        {made.name, make_overlay(spark_home, java, Machine(heap="1g"), tmp_path / "cache").name}
    )
