"""Random faults under many seeds: no other findings may occur.

Run it: `make clean-runs`. Each seed plays the scenario `random-faults` (masters killed, frozen and cut off), keeps its
stores, and is judged by `rmqlab check`. A finding is unexplained if its metric is in ZERO and its value is not 0, or
unknown. Exit status 0: none; 1: some, and which seed shows them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import attrs

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.findings import Finding

SCENARIO = "random-faults"
ZERO = (
    "lost",
    "divergence",
    "stored_unsent",
    "order.stored",
    "duplicates.unexplained",
    "offset_file_behind",
    "clock_disagreement",
    "corrupt",
    "place_disagreement",
    "content_disagreement",
    "origin_disagreement",
    "header_disagreement",
    "stored_uncommitted",
    "delivered_early",
    "overdue",
    "store_time_disagreement",
    "unreadable",
    "dangling",
    "unqueued",
    "unindexed",
    "delivered_unstored",
    "topics_missing",
    "groups_missing",
    "offset_file_ahead",
    "delay_offset_behind",
    "delay_offset_ahead",
)
"""Metrics that no fault of the scenario may move: it takes no disk, no record and no clock away."""
MAY_BE_UNKNOWN = (
    "offset_file_behind",
    "clock_disagreement",
    "unqueued",
    "unindexed",
    "offset_file_ahead",
    "delay_offset_behind",
)
"""Of these: unknown if no event proves anything, as after a kill. That is not a gap in the evidence."""


@attrs.frozen
class Played:
    """One seed and its unexplained findings."""

    seed: int
    verdict: str
    seconds: float
    wrong: tuple[str, ...]


def play(seed: int, home: Path) -> Played:
    """Play one seed. The run's directory is deleted unless something is wrong."""
    command = [sys.executable, "-m", "rmqlab.cluster", "run", SCENARIO, "--seed", str(seed), "--keep-stores", "--json"]
    ended = subprocess.run(command, env={**os.environ, "RMQLAB_HOME": str(home)}, stdout=subprocess.PIPE, check=False)
    document = json.loads(ended.stdout)
    directory = Path(document["directory"])
    wrong = tuple(unexplained(iter(judge_directory(directory))))
    if document["verdict"] != "holds":
        wrong += (f"the scenario's claim is {document['verdict']}",)
    if not wrong:
        rmtree(directory)
    return Played(seed, document["verdict"], document["seconds"], wrong)


def unexplained(findings: Iterator[Finding]) -> Iterator[str]:
    """Name each finding that random faults do not explain."""
    for finding in findings:
        name = finding.metric.partition(" ")[0]
        if name not in ZERO:
            continue
        if finding.value:
            first = finding.evidence[0].text if finding.evidence else ""
            yield f"{finding.metric}: {finding.value:g} {finding.unit}. {first}"
        elif not finding.is_known and name not in MAY_BE_UNKNOWN:
            yield f"{finding.metric}: unknown: {finding.missing}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Random faults under many seeds: nothing may be found.")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1, help="The first seed.")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="rmqlab-clean-"))
    bad = 0
    for seed in range(options.first, options.first + options.seeds):
        played = play(seed, home)
        bad += bool(played.wrong)
        print(f"seed {seed:4}  {played.verdict:8}  {played.seconds:5.1f} s  {'; '.join(played.wrong)}", flush=True)
    if not bad:
        rmtree(home)
    print(f"{options.seeds} seeds, {bad} with findings that their faults do not explain" + (f": {home}" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
