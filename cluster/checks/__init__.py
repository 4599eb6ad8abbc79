"""Quick checks: what became of a run, judged from its journal and its stores alone, in plain Python.

`judge_run` measures everything that it can, and says of the rest what is missing. A metric is called `NAME`,
`NAME.CLASS` or `NAME TARGET`; `rmqlab check --metrics` prints the table. Each module of this package defines its metrics
exactly, with their units and with what makes them unknown:

    loss            lost, lost.OUTCOME, expired, missing NODE, sent, sent.OUTCOME, stored.indeterminate, stored.refused,
                    unclaimed
    duplicates      stored_twice, duplicates, duplicates.CAUSE
    unavailability  write_unavailable BROKER|QUEUE, read_unavailable BROKER|QUEUE,
                    group_read_unavailable GROUP
    detection       detection WATCHER
    routes          stale_route WATCHER, missing_route NAMESERVER, route_disagreement
    order           order.stored, order.delivered GROUP
    replication     replication_lag SLAVE, replication_lag_left SLAVE
    divergence      divergence SLAVE, behind SLAVE, ahead SLAVE
    clocks          clock_disagreement NODE
    offsetfiles     offset_file_behind NODE
    rollbacks       offset_rollbacks, offset_rollbacks GROUP, rolled_back GROUP

BROKER is a broker name (`broker-a`), NODE and SLAVE a node (`broker-a-s`), QUEUE is `topic@broker-a:0`, GROUP a
consumer group, NAMESERVER `namesrv-1`, and a WATCHER is a nameserver or a workload (`produce-1`).
"""

import errno
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from rmqlab.cluster.checks import (
    clocks,
    detection,
    divergence,
    duplicates,
    loss,
    offsetfiles,
    order,
    replication,
    rollbacks,
    routes,
    unavailability,
)
from rmqlab.cluster.checks.copies import Stores, read_stores
from rmqlab.cluster.checks.findings import Finding, Findings, Metric
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.runtime.journal import JournalEntry, read_journals


@attrs.frozen
class Check:
    """One module's metrics, and the function that measures them."""

    metrics: tuple[Metric, ...]
    judge: Callable[[History, Stores], Iterator[Finding]]


CHECKS = tuple(
    Check(module.METRICS, module.judge)
    for module in (
        loss,
        duplicates,
        order,
        unavailability,
        detection,
        routes,
        rollbacks,
        offsetfiles,
        replication,
        divergence,
        clocks,
    )
)
METRICS = tuple(itertools.chain.from_iterable(check.metrics for check in CHECKS))


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
    findings = itertools.chain.from_iterable(check.judge(history, stores) for check in CHECKS)
    return Findings({finding.metric: finding for finding in findings}, METRICS)
