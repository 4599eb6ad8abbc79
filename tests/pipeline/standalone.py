"""A Standalone cluster of Spark, whose workers have a Python without this package."""

import contextlib
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Sequence

import attrs
import pyspark

from rmqlab.pipeline.spark.java import Java, find_java
from rmqlab.pipeline.spark.spark_home import Machine, java_options, make_overlay

_PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy")
_SECONDS = 300.0


@attrs.frozen
class BareCluster:
    """A master with workers, and the environment of a driver that uses it."""

    url: str
    python: pathlib.Path
    environment: dict[str, str]


@contextlib.contextmanager
def bare_cluster(directory: pathlib.Path, *, workers: int) -> Iterator[BareCluster]:
    """Run a master and workers of one core each, until the block ends."""
    java = find_java()
    home = make_overlay(pathlib.Path(pyspark.__file__).parent, java)
    archive = [f"-XX:SharedArchiveFile={path}" for path in home.glob("classes.jsa")]
    core = next((home / "jars").glob("spark-core_*.jar")).name
    environment = _without_ours(os.environ) | {
        "JAVA_HOME": str(_make_java_home(directory / "java", java, archive)),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": core.removeprefix("spark-core_").partition("-")[0],
    }
    options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    program = [str(java.program), *archive, *java_options(java, Machine(heap="256m")), "-cp", f"{home}/jars/*"]
    with contextlib.ExitStack() as running:

        def start(name: str, *arguments: str) -> Callable[[], str]:
            log = directory / f"{name}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [*program, *arguments], stdout=out, stderr=out, env=environment, cwd=directory
                )
            running.callback(process.wait)
            running.callback(process.terminate)  # a worker then stops its executors
            return log.read_text

        read = start("master", "org.apache.spark.deploy.master.Master", *options)
        url = _wait_for(r"spark://127\.0\.0\.1:\d+", read)
        limits = ["--cores", "1", "--memory", "1g"]
        for number in range(workers):
            place = ["--work-dir", str(directory / f"work-{number}")]
            start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, *limits, *place, url)
        yield BareCluster(url, make_python(directory / "python"), environment)


def make_python(directory: pathlib.Path) -> pathlib.Path:
    """Return an interpreter with Spark's packages, and without this one."""
    venv.create(directory, symlinks=True)
    site = next(directory.glob("lib/python*/site-packages"))
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        installed = pathlib.Path(spec.origin).parent
        for part in (installed, installed.with_name(f"{name}.libs")):
            if part.exists():
                (site / part.name).symlink_to(part)
    return directory / "bin" / "python"


def _without_ours(environment: "os._Environ[str]") -> dict[str, str]:
    return {key: value for key, value in environment.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}


def _make_java_home(directory: pathlib.Path, java: Java, archive: Sequence[str]) -> pathlib.Path:
    """Return a JAVA_HOME for executors.

    They start faster with it, and on a runtime without the module for vectors. The archive of a local session's classes
    fits to a class path without directories.
    """
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    options = [*archive, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    program.write_text(f"""\
#!/bin/sh
for one in "$@"; do
    shift
    case "$one" in
    --add-modules=jdk.incubator.vector) ;;
    */conf/:*) set -- "$@" "${{one#*/conf/:}}" ;;
    *) set -- "$@" "$one" ;;
    esac
done
exec {shlex.join([str(java.program), *options])} "$@"
""")
    program.chmod(0o755)
    return directory


def _wait_for(pattern: str, read: Callable[[], str]) -> str:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if found := re.search(pattern, read()):
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} in {read()}")
