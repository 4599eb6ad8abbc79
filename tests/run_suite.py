"""Run a test suite, repeat each failed test alone, and print a closing line.

    python -m tests.run_suite NAME [--jobs N] [PATH...] [-- PYTEST_OPTION...]

A test that passes alone is printed as `FLAKY node-id` and counts as passed. Nothing runs again after a collection
error, a crash, an interruption, or more than five failures: then something is broken. Run it in pytest's root
directory. Exit status: 0 when every test passed, at once or alone; otherwise pytest's own, or 1.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

import attrs
import pytest

MAX_RETRIED = 5
_PHASES = ("setup", "call", "teardown")


@attrs.define(eq=False)
class Recorder:
    """A pytest plugin that records the outcome of each test, and other errors."""

    outcomes: dict[str, str] = attrs.field(factory=dict)
    """`passed`, `failed` or `skipped` by node id; a failure in any phase is a failure of the test."""
    breakages: list[str] = attrs.field(factory=list)
    """Files that cannot be collected, and tests during which a worker process died."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.breakages.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when not in _PHASES:  # pytest-xdist reports the death of a worker as a phase "???"
            self.breakages.append(report.nodeid)
        elif report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped or report.when == "call":
            self.outcomes.setdefault(report.nodeid, report.outcome)

    def count(self, outcome: str) -> int:
        return sum(1 for one in self.outcomes.values() if one == outcome)

    def failed(self) -> list[str]:
        return [node_id for node_id, outcome in self.outcomes.items() if outcome == "failed"]


@attrs.frozen
class Result:
    """The result of a suite."""

    passed: int
    skipped: int
    flaky: Sequence[str]
    """Node ids that failed first and passed alone; `passed` includes them."""
    failed: Sequence[str]
    exit_status: int

    def closing_lines(self, name: str) -> list[str]:
        """The last line has a form that CI reads.

        It never says `0 failed` for a suite that failed.
        """
        failed = len(self.failed) or int(self.exit_status != 0)
        return [
            *(f"FLAKY {node_id}" for node_id in self.flaky),
            *(f"FAILED {node_id}" for node_id in self.failed),
            f"{name}: {self.passed} passed, {failed} failed, {self.skipped} skipped",
        ]


def judge(recorder: Recorder, exit_status: int, passes_alone: Callable[[str], bool]) -> Result:
    """Run failed tests again where that makes sense, and count."""
    failed = recorder.failed()
    flaky: list[str] = []
    is_retried = exit_status == pytest.ExitCode.TESTS_FAILED and not recorder.breakages and len(failed) <= MAX_RETRIED
    if is_retried:
        flaky = [node_id for node_id in failed if passes_alone(node_id)]
    left = [*recorder.breakages, *(node_id for node_id in failed if node_id not in flaky)]
    is_good = exit_status == pytest.ExitCode.OK or (is_retried and flaky and not left)
    return Result(
        passed=recorder.count("passed") + len(flaky),
        skipped=recorder.count("skipped"),
        flaky=flaky,
        failed=left,
        exit_status=0 if is_good else exit_status or 1,
    )


def passes_alone(node_id: str, options: Sequence[str]) -> bool:
    """Run one test in a process of its own."""
    print(f"\n== once more, alone: {node_id}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", *options, node_id], check=False).returncode == 0


def main(argv: Sequence[str]) -> int:
    cut = argv.index("--") if "--" in argv else len(argv)
    options = argv[cut + 1 :]
    parser = argparse.ArgumentParser(prog="python -m tests.run_suite", epilog="After `--`: options of pytest.")
    parser.add_argument("name", help="the first word of the closing line")
    parser.add_argument("path", nargs="*", help="what pytest collects; its configured test paths unless given")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes; the tests of a file stay together")
    arguments = parser.parse_args(argv[:cut])
    workers = ["-n", str(arguments.jobs), "--dist", "loadscope", "--no-loadscope-reorder", "--max-worker-restart", "0"]
    recorder = Recorder()
    status = pytest.main([*(workers if arguments.jobs > 1 else []), *options, *arguments.path], plugins=[recorder])
    result = judge(recorder, int(status), lambda node_id: passes_alone(node_id, options))
    print("\n".join(result.closing_lines(arguments.name)), flush=True)
    return result.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
