"""The runner of suites: flaky tests, failed tests, and tests never repeated."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

FAILS_ONCE = """
def test_{name}():
    import pathlib
    marker = pathlib.Path(__file__).with_name("{name}.ran")
    first = not marker.exists()
    marker.touch()
    assert not first
"""
FAILS = """
def test_{name}():
    assert False
"""
PASSES = """
def test_{name}():
    pass
"""
SKIPS = """
import pytest

def test_{name}():
    pytest.skip("not today")
"""


@pytest.fixture
def suite(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "test_good.py").write_text(PASSES.format(name="good") + SKIPS.format(name="skipped"))
    return tmp_path


def run(suite: pathlib.Path, *arguments: str) -> tuple[int, list[str], str]:
    """Exit status, the closing lines, and all that was printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.fspath(ROOT),
        "PYTEST_ADDOPTS": "-p xdist -p no:cacheprovider",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # others take a second to import, in each process
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.run_suite", "fake", *arguments],
        cwd=suite,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    closing = [line for line in done.stdout.splitlines() if line.startswith("fake: ")]
    return done.returncode, closing, done.stdout + done.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_test_that_passes_alone_is_flaky_and_counts_as_passed(suite: pathlib.Path, jobs: str) -> None:
    (suite / "test_odd.py").write_text(FAILS_ONCE.format(name="odd"))
    status, closing, output = run(suite, "--jobs", jobs)
    assert (status, closing) == (0, ["fake: 2 passed, 0 failed, 1 skipped"])
    assert "FLAKY test_odd.py::test_odd\n" in output


def test_a_test_that_fails_twice_has_failed(suite: pathlib.Path) -> None:
    (suite / "test_odd.py").write_text(FAILS.format(name="bad") + FAILS_ONCE.format(name="odd"))
    status, closing, output = run(suite)
    assert (status, closing) == (1, ["fake: 2 passed, 1 failed, 1 skipped"])
    assert "FLAKY test_odd.py::test_odd\n" in output
    assert "FLAKY test_odd.py::test_bad\n" not in output


def test_a_test_runs_again_with_no_other_beside_it_and_with_the_same_options(suite: pathlib.Path) -> None:
    """Two tests that fail only together; an option is needed to collect one of them."""
    text = "import sys\n\ndef test_{name}():\n    sys.{name} = True\n    assert not hasattr(sys, '{other}')\n"
    (suite / "test_a.py").write_text(text.format(name="a", other="b"))
    (suite / "test_b.py").write_text(text.format(name="b", other="a"))
    status, closing, output = run(suite, "test_a.py", "test_b.py", "--", "-k", "test_a or test_b", "-v")
    assert (status, closing) == (0, ["fake: 2 passed, 0 failed, 0 skipped"])
    assert "FLAKY test_b.py::test_b\n" in output
    assert output.count("test_a.py::test_a PASSED") == 1
    assert output.count("test_b.py::test_b PASSED") == 1


def test_many_failures_are_a_breakage_and_nothing_runs_again(suite: pathlib.Path) -> None:
    (suite / "test_odd.py").write_text("".join(FAILS_ONCE.format(name=f"odd{number}") for number in range(6)))
    status, closing, output = run(suite)
    assert (status, closing) == (1, ["fake: 1 passed, 6 failed, 1 skipped"])
    assert "once more" not in output


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("1", (2, ["fake: 0 passed, 1 failed, 0 skipped"])),
        ("2", (1, ["fake: 1 passed, 1 failed, 1 skipped"])),  # pytest-xdist runs what it could collect
    ],
)
def test_a_file_that_cannot_be_collected_fails_the_suite(
    suite: pathlib.Path, jobs: str, expected: tuple[int, list[str]]
) -> None:
    (suite / "test_broken.py").write_text("import no_such_module\n")
    status, closing, output = run(suite, "--jobs", jobs)
    assert (status, closing) == expected
    assert "once more" not in output


def test_a_crashed_worker_fails_the_suite(suite: pathlib.Path) -> None:
    (suite / "test_deadly.py").write_text("import os\n\ndef test_deadly():\n    os._exit(0)\n")
    status, closing, output = run(suite, "--jobs", "2")
    assert (status, closing) == (1, ["fake: 1 passed, 1 failed, 1 skipped"])
    assert "once more" not in output


def test_a_suite_without_tests_has_failed(suite: pathlib.Path) -> None:
    status, closing, _ = run(suite, "--", "-k", "nothing")
    assert (status, closing) == (5, ["fake: 0 passed, 1 failed, 0 skipped"])


def test_an_error_after_a_test_is_a_failure_of_the_test(suite: pathlib.Path) -> None:
    (suite / "test_after.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef spoilt():\n    yield\n    assert False\n\n"
        "def test_after(spoilt):\n    pass\n"
    )
    status, closing, _ = run(suite)
    assert (status, closing) == (1, ["fake: 1 passed, 1 failed, 1 skipped"])
