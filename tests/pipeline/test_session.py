import os
import pathlib
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
import pytest

from rmqlab.pipeline import commands, session
from rmqlab.pipeline.errors import NoSparkError, first_and_last_cause
from rmqlab.pipeline.spark import environment
from rmqlab.pipeline.spark.java import Java, find_java
from rmqlab.pipeline.spark.masters import check_master
from rmqlab.pipeline.spark.spark_home import JAVA_OPTIONS_VARIABLE, Machine, make_overlay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import sys
import time
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


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(NoSparkError, match=r"pyarrow cannot be imported: `pip install '/path/to/rmqlab\[spark\]'`"):
        session.check_installed()


def test_a_report_without_the_extra_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(click.exceptions.Exit):
        commands._write_page(tmp_path)
    assert capsys.readouterr().err.startswith("rmqlab: pyarrow cannot be imported: `pip install")


def test_an_overlay_is_made_once_and_holds_the_installed_jars(tmp_path: pathlib.Path) -> None:
    spark_home = tmp_path / "pyspark"
    (spark_home / "jars").mkdir(parents=True)
    java = find_java()
    made = make_overlay(spark_home, java, tmp_path / "cache")
    assert made == make_overlay(spark_home, java, tmp_path / "cache")
    assert (made / "jars").resolve() == spark_home / "jars"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [made.name]
    os.utime(spark_home / "jars", (1, 1))  # another PySpark at the same path
    assert made != make_overlay(spark_home, java, tmp_path / "cache")


def test_runs_of_all_sizes_share_an_archive_of_classes() -> None:
    small, large = (
        environment.local_environment(machine) for machine in (Machine(), Machine(heap="2g", is_short=False))
    )
    assert small["SPARK_HOME"] == large["SPARK_HOME"]
    assert "-Xmx1g" in small[JAVA_OPTIONS_VARIABLE].split()
    assert "-Xmx2g" in large[JAVA_OPTIONS_VARIABLE].split()


WRITING = "-XX:ArchiveClassesAtExit= -XX:DumpLoadedClassList= -XX:SharedArchiveFile="
FAKE_JAVA = f"""#!/bin/sh
printf "%s\\n" "$@" >>DIRECTORY/arguments
case "$1" in -Xshare:dump) shift 2;; esac
for option in {WRITING}; do
    case "$1" in "$option"*) echo "$$" >>"${{1#*=}}";; esac
done
exit 3
"""
"""It records its arguments, one in a line, and writes what a JVM with its first option would write."""


class FakeHome:
    """A home whose Java is FAKE_JAVA."""

    def __init__(self, directory: pathlib.Path, version: int, *, has_base: bool) -> None:
        self.record = directory / "arguments"
        program = directory / "java" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(FAKE_JAVA.replace("DIRECTORY", str(directory)))
        program.chmod(0o755)
        if has_base:
            base = program.parents[1] / "lib" / "server" / "classes.jsa"
            base.parent.mkdir(parents=True)
            base.touch()
        (directory / "pyspark" / "jars").mkdir(parents=True)
        self.made = make_overlay(directory / "pyspark", Java(program, version, "nowhere"), directory / "cache")

    def submit(self, options: str | None = "-Xmx1g -Xms1g") -> list[list[str]]:
        """Start Spark; return the arguments of each JVM, when all of them have ended."""
        self.record.unlink(missing_ok=True)
        environment = {key: value for key, value in os.environ.items() if key != JAVA_OPTIONS_VARIABLE}
        environment |= {} if options is None else {JAVA_OPTIONS_VARIABLE: options}
        program = [str(self.made / "bin" / "spark-submit"), "a b"]
        assert subprocess.run(program, check=False, env=environment, stdout=subprocess.PIPE).returncode == 3
        deadline = time.monotonic() + 60
        while self.files() not in ([], ["classes.jsa"]):
            assert time.monotonic() < deadline, self.files()
            time.sleep(0.01)
        end = ["org.apache.spark.deploy.SparkSubmit", "a b"]
        jvms = self.record.read_text().split("\n".join([*end, ""]))
        assert jvms.pop() == ""
        return [jvm.splitlines() for jvm in jvms]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.made.glob("classes.*"))


def test_the_first_jvm_leaves_an_archive_of_classes_that_later_ones_share(tmp_path: pathlib.Path) -> None:
    home = FakeHome(tmp_path, 17, has_base=True)
    for option in ("-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="):
        ((first, *others),) = home.submit()
        assert first.startswith(option)
        assert others[:2] == ["-Xmx1g", "-Xms1g"]
        assert home.files() == ["classes.jsa"]
    ((_, *others),) = home.submit(options=None)  # as for the driver of a cluster
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in others


def test_a_new_archive_removes_those_that_no_session_used_for_days(tmp_path: pathlib.Path) -> None:
    home = FakeHome(tmp_path, 17, has_base=True)
    cache = home.made.parent
    old, used = "spark-00112233445566aa", "spark-00112233445566bb"
    for name, days in ((old, 4), (used, 0), ("spark-theirs", 4), ("other-00112233445566aa", 4)):
        archive = cache / name / "classes.jsa"
        archive.parent.mkdir()
        archive.touch()
        then = time.time() - days * 86_400
        os.utime(archive, (then, then))
    home.submit()
    kept = {path.parent.name for path in cache.glob("*/classes.jsa")}
    assert kept == {home.made.name, used, "spark-theirs", "other-00112233445566aa"}
    mine = home.made / "classes.jsa"
    os.utime(mine, (0, 0))
    home.submit()
    assert mine.stat().st_mtime > 0  # its use keeps it


def test_of_a_trimmed_runtime_a_second_jvm_makes_the_archive(tmp_path: pathlib.Path) -> None:
    home = FakeHome(tmp_path, 25, has_base=False)
    listing, dumping = home.submit()
    assert listing[0].startswith("-XX:DumpLoadedClassList=")
    listed = listing[0].partition("=")[2]
    assert dumping[:3] == [
        "-Xshare:dump",
        f"-XX:SharedClassListFile={listed}",
        f"-XX:SharedArchiveFile={listed}.jsa",
    ]
    assert dumping[3:] == listing[1:]
    ((using, *_),) = home.submit()
    assert using == f"-XX:SharedArchiveFile={home.made}/bin/../classes.jsa"


def test_no_java_complains_of_an_archive_that_does_not_fit(tmp_path: pathlib.Path) -> None:
    for version, silence in ((17, []), (25, ["-Xlog:aot*=off:stderr", "-Xlog:cds*=off:stderr"])):
        (arguments,) = FakeHome(tmp_path / str(version), version, has_base=True).submit()
        assert [one for one in arguments if "=off" in one] == silence


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
        NoSparkError, match=rf"^no Spark master responds \({address}: .*refused\)\. Start one .*--master"
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


def test_yarn_without_its_configuration_is_refused_before_a_jvm_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(session, "_start", None)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(NoSparkError, match=r"^master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: .*yarn-site\.xml"):
        session.open_session("yarn").__enter__()
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path / "away"))
    with pytest.raises(NoSparkError, match=r"^YARN_CONF_DIR=/\S*/away is not a directory; expected that of core-site"):
        session.open_session("yarn").__enter__()
    (tmp_path / "away").mkdir()
    check_master("yarn")


SCHEDULER = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
	at org.apache.spark.errors.SparkCoreErrors$.externalSchedulerError(SparkCoreErrors.scala:1)
Caused by: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class some.Mapping not found
	at org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2)
Caused by: java.lang.ClassNotFoundException: Class some.Mapping not found
	... 20 more
"""


def test_the_cause_of_a_failed_start_is_named() -> None:
    assert first_and_last_cause(SCHEDULER) == (
        "org.apache.spark.SparkException: External scheduler cannot be instantiated, "
        "caused by java.lang.ClassNotFoundException: Class some.Mapping not found"
    )
    first, _, _ = SCHEDULER.partition("Caused by")
    assert first_and_last_cause(first) == "org.apache.spark.SparkException: External scheduler cannot be instantiated"
    assert first_and_last_cause("no cause\nat all") == "no cause"
    assert first_and_last_cause("") == ""


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
