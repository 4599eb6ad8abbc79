"""A small SPARK_HOME over the installed PySpark, for local runs.

It starts twice as fast, and with any Java runtime. PySpark starts `bin/spark-submit` of its home, and its workers
import it from `python/lib/pyspark.zip`. The installed script starts a second JVM only to build a command line, with an
option that a trimmed runtime rejects; the archive contains no bytecode. Our script starts Java directly, and there is
no archive: workers import the installed package (spark.md, 1, 2).

    <directory>/jars -> the installed jars      python/lib/  empty
    <directory>/bin/spark-submit                conf/log4j2.properties   errors only
    <directory>/bin/python                      this interpreter, with rmqlab.pipeline.spark.daemon for pyspark.daemon
    <directory>/classes.jsa                     the JVM's archive of loaded classes, after the first run
    <directory>/classes.new.*                   what it is made of, while it is made

The JVM's options come from the variable JAVA_OPTIONS_VARIABLE, so that runs of all sizes share one archive.

Spark applies `spark.python.daemon.module` only to the parents of its tasks' processes, not to planners: so
`bin/python` replaces the module for both.
"""

import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs

from rmqlab.pipeline.errors import NoSparkError
from rmqlab.pipeline.spark.java import Java
from rmqlab.runtime.homedir import home_directory

JAVA_OPTIONS_VARIABLE = "RMQLAB_SPARK_JAVA_OPTIONS"
"""The environment variable with the JVM's options for `bin/spark-submit`, separated by spaces.

Without it, they are those of `Machine()`: a driver of a cluster may have this directory as its SPARK_HOME."""
ERRORS_TO_STDERR = "-XX:+DisplayVMOutputToStderr"
"""Option of the JVM: without it, what prevents its start, such as a heap that is too large, is on stdout."""
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.util.calendar",
)  # fmt: skip
"""Packages of module java.base that Spark accesses (class JavaModuleOptions)."""

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.writes.name = org.apache.spark.sql.execution.datasources.v2
logger.writes.level = off
logger.streams.name = org.apache.spark.sql.execution.streaming
logger.streams.level = off
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.masters.name = org.apache.spark.deploy.client
logger.masters.level = off
logger.backend.name = org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
logger.backend.level = off
logger.inbox.name = org.apache.spark.rpc.netty.Inbox
logger.inbox.level = off
"""
"""The disabled loggers print stacks of a hundred lines for errors that the caller receives as exceptions."""


_KEY_LENGTH = 16
_UNUSED_DAYS = 2
"""Days after which an unused archive is removed when another is written: its modification is its last use."""


@attrs.frozen(kw_only=True)
class Machine:
    """Settings of a local run's JVM."""

    heap: str = "1g"
    is_short: bool = True
    """True disables the optimizing compiler: start takes a third less time, runs over 20 s a quarter more."""


def java_options(java: Java, machine: Machine) -> list[str]:
    """Return the options of Spark's launcher, without a module for linear algebra."""
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    options += ["-XX:+IgnoreUnrecognizedVMOptions", "-Dio.netty.tryReflectionSetAccessible=true"]
    if java.version >= 22:
        options += ["--enable-native-access=ALL-UNNAMED"]
    if java.version >= 24:
        options += ["--sun-misc-unsafe-memory-access=allow"]
    if machine.is_short:
        # The default code cache of a single compiler is full after about ten queries, and all code is recompiled.
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC"]
        options += ["-XX:MetaspaceSize=256m"]
    return [*options, f"-Xmx{machine.heap}", "-Djava.net.preferIPv4Stack=true"]


def make_overlay(spark_home: Path, java: Java, cache: Path | None = None) -> Path:
    """Return the directory, and create it if missing.

    Its content depends only on the arguments, and on this interpreter. A new installation of Java or PySpark at the
    same path has another directory: the archive of the former one does not fit.

    Raises OSError if it cannot be created.
    """
    jars = spark_home / "jars"
    programs = {"spark-submit": _submit(java), "python": _python()}
    installed = [str(path.stat().st_mtime_ns) for path in (jars, java.program)]
    content = "\n".join([str(jars), *installed, _QUIET, *programs.values()])
    key = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:_KEY_LENGTH]
    made = (cache or _cache()) / f"spark-{key}"  # the name that _submit removes archives by
    if not (made / "bin" / "spark-submit").exists():
        _make(made, jars, programs)
    return made


def make_log_settings(cache: Path | None = None) -> Path:
    """Return the file with log levels for a driver with another SPARK_HOME.

    Creates it if missing. Raises OSError.
    """
    return _make_file("log4j2", "log4j2.properties", _QUIET, 0o600, cache)


def make_python(name: str, cache: Path | None = None) -> Path:
    """Return a program of this name that runs this interpreter, with our daemon.

    Creates it if missing. Raises OSError.
    """
    return _make_file("python", name, _python(), 0o700, cache)


def _make_file(folder: str, name: str, content: str, mode: int, cache: Path | None) -> Path:
    """Return a file in a folder of its own, whose name depends on the content."""
    key = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:16]
    made = (cache or _cache()) / f"{folder}-{key}" / name
    if not made.exists():
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".new-") as scratch:
            fresh = Path(scratch) / name
            fresh.write_text(content)
            fresh.chmod(mode)
            fresh.replace(made)
    return made


def _make(made: Path, jars: Path, programs: Mapping[str, str]) -> None:
    made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=".new-") as scratch:
        fresh = Path(scratch) / "home"
        for folder in ("bin", "python/lib", "conf"):
            (fresh / folder).mkdir(parents=True)
        (fresh / "jars").symlink_to(jars)
        (fresh / "conf" / "log4j2.properties").write_text(_QUIET)
        for name, script in programs.items():
            program = fresh / "bin" / name
            program.write_text(script)
            program.chmod(0o755)
        try:
            fresh.rename(made)
        except OSError:  # another process created the same directory first
            if not (made / "bin" / "spark-submit").exists():
                raise


def _python() -> str:
    """Return a script that starts this interpreter.

    `-P`: without the current directory on its path.
    """
    return f"""#!/bin/sh
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    set -- -m rmqlab.pipeline.spark.daemon "$@"
fi
exec {shlex.quote(sys.executable)} -P "$@"
"""


def _submit(java: Java) -> str:
    """Return a script that starts Java with the class-data archive, or makes it.

    Java ignores an archive of another Java or of other jars. What a killed JVM left of one is removed later: other JVMs
    may be writing theirs now. A new archive removes those that no session has used for some days: they are mostly of
    former versions, but two installations may share the cache.
    """
    program = shlex.quote(str(java.program))
    making = _MAKING_ON_BASE if has_base_archive(java) else _MAKING_WHOLE
    return f"""#!/bin/sh
here=$(dirname "$0")/..
set -- ${{{JAVA_OPTIONS_VARIABLE}-{" ".join(java_options(java, Machine()))}}} -Xlog:disable -Xlog:all=error:stderr {_silence(java)}\\
    {ERRORS_TO_STDERR} -Dlog4j2.configurationFile="file:$here/conf/log4j2.properties" \\
    -cp "$here/jars/*" org.apache.spark.deploy.SparkSubmit "$@"
if [ -f "$here/classes.jsa" ]; then
    touch -c "$here/classes.jsa" 2>/dev/null
    exec {program} -XX:SharedArchiveFile="$here/classes.jsa" "$@"
fi
find "$here" -maxdepth 1 -name "classes.new.*" -mmin +60 -exec rm -f {{}} +
(cd "$here/.." && find . -maxdepth 2 -path "./spark-{"[0-9a-f]" * _KEY_LENGTH}/classes.jsa" -mmin +{_UNUSED_DAYS * 24 * 60} -exec rm -f {{}} +)
{making.format(java=program)}exit $status
"""


_MAKING_ON_BASE = """\
{java} -XX:ArchiveClassesAtExit="$here/classes.new.$$" "$@"
status=$?
mv -f "$here/classes.new.$$" "$here/classes.jsa" 2>/dev/null
"""
"""The first JVM makes an archive on top of Java's own at its exit, which is after Python's."""

_MAKING_WHOLE = """\
new="$here/classes.new.$$"
{java} -XX:DumpLoadedClassList="$new" "$@"
status=$?
if [ -s "$new" ]; then
    nice {java} -Xshare:dump -XX:SharedClassListFile="$new" -XX:SharedArchiveFile="$new.jsa" "$@"
    mv -f "$new.jsa" "$here/classes.jsa"
    rm -f "$new"
fi </dev/null >/dev/null 2>&1 &
"""
"""Trimmed runtimes have no archive of their own: another JVM makes one of all classes that the first JVM has listed.

It takes several times as long, so it is in the background, without the streams of the caller."""


def has_base_archive(java: Java) -> bool:
    """Return True if the runtime has an archive of Java's own classes."""
    return (java.program.resolve().parent.parent / "lib" / "server" / "classes.jsa").exists()


def _silence(java: Java) -> str:
    """Return options for no errors about an archive that does not fit.

    Older Javas print none.
    """
    return "'-Xlog:aot*=off:stderr' '-Xlog:cds*=off:stderr' " if java.version >= 24 else ""


def _cache() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "rmqlab"
    if (home := home_directory()) is None:
        raise NoSparkError("this user has no home directory: set XDG_CACHE_HOME to a directory for the files of Spark")
    return home / ".cache" / "rmqlab"
