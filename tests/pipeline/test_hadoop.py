"""What Hadoop's client for HDFS gets from its environment. No HDFS is needed."""

import os
import pathlib

import pyarrow.fs
import pytest

from rmqlab.pipeline.errors import NoPathError
from rmqlab.pipeline.paths import hadoop
from rmqlab.pipeline.paths.remotepaths import remote_paths


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without Hadoop, as of a user of Spark."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLASSPATH", "")  # so that it is restored


def test_hadoop_classes_are_those_of_spark_after_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    hadoop.set_class_path()
    first, *jars = os.environ["CLASSPATH"].split(os.pathsep)
    names = [pathlib.Path(jar).name.rstrip("-.0123456789jar") for jar in jars]
    assert first == "/etc/hadoop"
    assert {"hadoop-client-api", "hadoop-client-runtime", "commons-lang"} <= set(names)
    assert all(pathlib.Path(jar).is_file() for jar in jars)


def test_a_class_path_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASSPATH", "/mine/*")
    hadoop.set_class_path()
    assert os.environ["CLASSPATH"] == "/mine/*"


def test_classes_are_those_of_an_installed_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    hadoop.set_class_path()
    assert os.environ["CLASSPATH"] == str(tmp_path / "jars" / "one.jar")


def test_a_uri_without_a_host_is_of_the_default_file_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "log").write_bytes(b"123")
    opened: list[str] = []

    def open_it(host: str) -> pyarrow.fs.FileSystem:
        opened.append(host)
        return pyarrow.fs.LocalFileSystem()

    monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", open_it)
    (found,) = remote_paths(f"hdfs://{tmp_path}/log")
    assert (str(found), found.size, found.read_bytes()) == (f"hdfs://{tmp_path}/log", 3, b"123")
    assert set(opened) == {"default"}


def test_missing_requirements_of_hdfs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise OSError("Unable to load libjvm")

    monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", refuse)
    with pytest.raises(NoPathError, match=r"cannot read hdfs:///a: Unable to load libjvm\. This needs a JVM .*webhdfs"):
        remote_paths("hdfs:///a")
