"""The environment variables that PySpark and its JVM read at their start.

Spark runs one Python, PYSPARK_PYTHON, for tasks on workers and on this machine to plan reads. A bare name such as
python3.11 is searched on each machine. Here the name of this interpreter's version is this interpreter.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rmqlab.pipeline.errors import NoSparkError
from rmqlab.pipeline.spark.java import NoJavaError, find_java
from rmqlab.pipeline.spark.spark_home import (
    ERRORS_TO_STDERR,
    JAVA_OPTIONS_VARIABLE,
    Machine,
    java_options,
    make_log_settings,
    make_overlay,
    make_python,
)

PYTHON_VERSION: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
PYTHON_NAME: Final = f"python{PYTHON_VERSION}"


def local_environment(machine: Machine) -> dict[str, str]:
    """Return the home of a local run, and the interpreter of its planners.

    Raises NoSparkError.
    """
    import pyspark  # noqa: PLC0415 - not without the extra

    try:
        java = find_java()
        home = make_overlay(Path(pyspark.__file__).parent, java)
    except NoJavaError as exc:
        raise NoSparkError(str(exc)) from None
    except OSError as exc:
        raise _no_cache(exc) from None
    python = str(home / "bin" / "python")
    return {
        "SPARK_HOME": str(home),
        JAVA_OPTIONS_VARIABLE: " ".join(java_options(java, machine)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": python,
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or python,
    }


def cluster_environment(*, ship: bool) -> dict[str, str]:
    """Return the interpreters of a driver and its tasks, and JVM log levels.

    The user's come first.

    Raises NoSparkError.
    """
    try:
        log = f"-Dlog4j2.configurationFile={make_log_settings().as_uri()}"
    except OSError as exc:
        raise _no_cache(exc) from None
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {ERRORS_TO_STDERR} {log}".strip()
    # Workers to which the package is shipped hardly have an interpreter at this one's path.
    default = PYTHON_NAME if ship else sys.executable
    return {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or default,
        "SPARK_SUBMIT_OPTS": options,
    }


@contextlib.contextmanager
def set_environment(wanted: dict[str, str]) -> Iterator[None]:
    """Set variables for the block, with PYTHON_NAME as this interpreter.

    Raises NoSparkError if this machine cannot run the Python of tasks.
    """
    try:
        programs = make_python(PYTHON_NAME).parent
    except OSError as exc:
        raise _no_cache(exc) from None
    wanted = wanted | {
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        "PYTHONSAFEPATH": "1",  # a user's `queue.py` in the working directory must not replace the standard one
    }
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        _check_python(wanted["PYSPARK_PYTHON"])
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _no_cache(exc: OSError) -> NoSparkError:
    return NoSparkError(
        f"{exc.filename}: {exc.strerror}. Spark needs files there: set XDG_CACHE_HOME to a directory that you can write"
    )


def _check_python(python: str) -> None:
    if shutil.which(python) is None:
        raise NoSparkError(
            f"this machine cannot run {python}, the Python for tasks: Spark runs it here too, to plan reads. Set"
            f" PYSPARK_PYTHON to a Python {PYTHON_VERSION} that workers and this machine have, such as {PYTHON_NAME}"
        )
