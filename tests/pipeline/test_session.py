import os
import pathlib
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqlab.pipeline import environment, session
from rmqlab.pipeline.errors import NoSparkError
from rmqlab.pipeline.java import Java, find_java
from rmqlab.pipeline.masters import check_master
from rmqlab.pipeline.spark_home import JAVA_OPTIONS_VARIABLE, Machine, make_overlay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import sys
from typing import TYPE_CHECKING
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
    with pytest.raises(NoSparkError, match=r"pyarrow cannot be imported: `pip install 'rmqlab\[spark\]'`"):
        session.check_installed()


def test_an_overlay_is_made_once_and_holds_the_installed_jars(tmp_path: pathlib.Path) -> None:
    spark_home = tmp_path / "pyspark"
    (spark_home / "jars").mkdir(parents=True)
    java = find_java()
    made = make_overlay(spark_home, java, tmp_path / "cache")
    assert made == make_overlay(spark_home, java, tmp_path / "cache")
    assert (made / "jars").resolve() == spark_home / "jars"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [made.name]


def test_runs_of_all_sizes_share_an_archive_of_classes() -> None:
    small, large = (
        environment.local_environment(machine) for machine in (Machine(), Machine(heap="2g", is_short=False))
    )
    assert small["SPARK_HOME"] == large["SPARK_HOME"]
    assert "-Xmx1g" in small[JAVA_OPTIONS_VARIABLE].split()
    assert "-Xmx2g" in large[JAVA_OPTIONS_VARIABLE].split()


def test_the_first_jvm_leaves_an_archive_of_classes_that_later_ones_share(tmp_path: pathlib.Path) -> None:
    java = tmp_path / "java"
    java.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/arguments\n'
        'for one in "$@"; do case "$one" in -XX:ArchiveClassesAtExit=*) touch "${one#*=}";; esac; done\nexit 3\n'
    )
    java.chmod(0o755)
    spark_home = tmp_path / "pyspark"
    (spark_home / "jars").mkdir(parents=True)
    made = make_overlay(spark_home, Java(java, 17, "nowhere"), tmp_path / "cache")
    submit = [str(made / "bin" / "spark-submit"), "a b"]
    options = dict(os.environ) | {JAVA_OPTIONS_VARIABLE: "-Xmx1g -Xms1g"}
    for option in ("-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="):
        assert subprocess.run(submit, check=False, env=options).returncode == 3
        arguments = (tmp_path / "arguments").read_text().splitlines()
        assert arguments[0].startswith(option)
        assert arguments[1:3] == ["-Xmx1g", "-Xms1g"]
        assert arguments[-2:] == ["org.apache.spark.deploy.SparkSubmit", "a b"]
        assert sorted(path.name for path in made.glob("classes.*")) == ["classes.jsa"]
    del options[JAVA_OPTIONS_VARIABLE]  # as for the driver of a cluster
    assert subprocess.run(submit, check=False, env=options).returncode == 3
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in (tmp_path / "arguments").read_text().splitlines()


def test_the_users_python_runs_the_tasks_and_ours_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dtheirs=1")
    for wanted in (environment.local_environment(Machine()), environment.cluster_environment(ship=True)):
        with environment.set_environment(wanted):
            assert os.environ["PYSPARK_PYTHON"] == "/bin/sh"
            assert os.environ["PYSPARK_DRIVER_PYTHON"] != "/bin/sh"
            assert os.environ["SPARK_SUBMIT_OPTS"].startswith("-Dtheirs=1")
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dtheirs=1"
    assert "log4j2.configurationFile=file:///" in wanted["SPARK_SUBMIT_OPTS"]


def test_without_the_users_choice_workers_run_their_python_of_the_same_version_if_we_ship(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environment.cluster_environment(ship=False)["PYSPARK_PYTHON"] == sys.executable
    wanted = environment.cluster_environment(ship=True)
    assert wanted["PYSPARK_PYTHON"] == environment.PYTHON_NAME
    with environment.set_environment(wanted):
        # On this machine the name is this interpreter.
        asked = [environment.PYTHON_NAME, "-c", "import sys; print(sys.prefix)"]
        assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout == f"{sys.prefix}\n"
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_python_for_tasks_that_this_machine_lacks_is_named_before_a_jvm_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_start", None)
    for settings in ({"spark.pyspark.python": "/nowhere/python"}, {}):
        with pytest.raises(NoSparkError, match=r"this machine cannot run /nowhere/python, .*such as python3\.\d+$"):
            session.open_session(settings=settings).__enter__()
        monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_master_that_does_not_answer_is_said_in_a_line_before_a_jvm_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_start", None)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(
        NoSparkError, match=rf"^no Spark master answers \({address}: .*refused\)\. Start one .*--master"
    ):
        session.open_session(f"spark://{address}").__enter__()


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("sprak://a:7077", r"is no Spark master; expected local\[\*\], .* spark://host:7077"),
        ("spark//a:7077", "is no Spark master"),
        ("local[two]", "is no Spark master"),
        ("spark://a", "'a' is not host:port"),
        ("sc://a:15002", "for Spark Connect open the session yourself"),
    ],
)
def test_a_master_of_unknown_form_is_refused_with_the_forms(master: str, said: str) -> None:
    with pytest.raises(NoSparkError, match=said):
        session.open_session(master).__enter__()


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


def test_a_file_for_executors_that_there_is_not_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NoSparkError, match=r"there is no file .*/some.zip; expected"):
        session.open_session(py_files=[str(tmp_path / "some.zip")]).__enter__()


OPEN_AT_EXIT = """
from rmqlab.pipeline.session import open_session

still_open = open_session("local[1]")
print(still_open.__enter__().range(3).count())
"""


@pytest.mark.long  # it starts a Spark of its own
def test_a_session_that_is_open_at_exit_ends_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AT_EXIT], check=False, capture_output=True, text=True, timeout=500
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


@pytest.mark.spark
def test_no_query_leaves_a_directory_where_the_user_is(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """Reading a file by its name in SQL makes Spark's warehouse."""
    spark.range(3).write.parquet(f"{tmp_path}/numbers")
    assert spark.sql(f"select * from parquet.`{tmp_path}/numbers`").count() == 3
    assert not pathlib.Path("spark-warehouse").exists()
