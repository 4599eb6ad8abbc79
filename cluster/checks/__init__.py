"""Quick checks: what became of a run, judged from its journal and its stores alone, in plain Python.

`judge_run` measures everything that it can, and says of the rest what is missing. `rmqlab.verdict.catalogue` declares the
metrics (`rmqlab check --metrics` prints them); each module here computes one group of them.
"""

import errno
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from rmqlab.cluster.checks import (
    clocks,
    detection,
    divergence,
    duplicates,
    loss,
    offsetfiles,
    order,
    records,
    replication,
    rollbacks,
    routes,
    storefiles,
    tablefiles,
    unavailability,
    unstored,
)
from rmqlab.cluster.checks.copies import Stores, read_stores
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.runtime.journal import JournalEntry, read_journals
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.doubts import withdraw_doubtful
from rmqlab.verdict.findings import Finding, Findings

CHECKS: tuple[Callable[[History, Stores], Iterator[Finding]], ...] = (
    loss.judge,
    duplicates.judge,
    order.judge,
    unavailability.judge,
    detection.judge,
    routes.judge,
    rollbacks.judge,
    offsetfiles.judge,
    replication.judge,
    divergence.judge,
    records.judge,
    storefiles.judge,
    unstored.judge,
    tablefiles.judge,
    clocks.judge,
)


def judge_run(entries: Iterable[JournalEntry], stores: Mapping[str, Path]) -> Findings:
    """Judge a run. `entries` are of all journals; `stores` are the root of each broker's store, by its node's name.

    Nothing is changed, and the nodes may still run. OSError where a store cannot be read.
    """
    history = read_history(entries)
    return judge(history, read_stores(stores, history))


def judge_directory(directory: Path) -> Findings:
    """Judge a run or a cluster by its directory: journals in `journal`, the store of each broker in `<node>/store`.

    OSError where there is no journal, or a file cannot be read.
    """
    entries = read_journals(directory / "journal")
    if not entries:
        raise FileNotFoundError(errno.ENOENT, "no journal", str(directory / "journal"))
    return judge_run(entries, {path.parent.name: path for path in sorted(directory.glob("*/store"))})


def judge(history: History, stores: Stores) -> Findings:
    """Let every check measure what it can."""
    measured = itertools.chain.from_iterable(check(history, stores) for check in CHECKS)
    findings = withdraw_doubtful(measured, history.group_of)
    return Findings({finding.metric: finding for finding in findings}, METRICS)
