"""Quick checks: judge a run from its journals and stores, in plain Python.

`judge_run` computes every metric of `rmqlab.verdict.catalogue` (`rmqlab check --metrics` prints them) for which the run
has evidence, and reports for the others what is missing. Each module here computes one group of metrics.
"""

import errno
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from rmqlab.cluster.checks import (
    clocks,
    contents,
    detection,
    divergence,
    duetimes,
    duplicates,
    headers,
    loss,
    offsetfiles,
    order,
    origins,
    overdue,
    ownoffsets,
    places,
    records,
    replication,
    rollbacks,
    routes,
    sidefiles,
    storefiles,
    tablefiles,
    unavailability,
    uncommitted,
    unreplicated,
    unstored,
)
from rmqlab.cluster.checks.copies import Stores
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.cluster.checks.storereader import is_store, read_stores
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import merge_entries
from rmqlab.runtime.journals.journalsurvey import JournalSurvey, survey_journals
from rmqlab.store.offline.irregularfiles import store_places
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.clocksteps import with_clock_steps
from rmqlab.verdict.conditions import Conditions, read_conditions
from rmqlab.verdict.doubts import ClockDependencies, withdraw_doubtful
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Judgement, conclude
from rmqlab.verdict.logcover import weaken_by_stores
from rmqlab.verdict.runrecord import NO_RECORD, RunRecord, read_record
from rmqlab.verdict.straystores import stray_remarks, stray_stores

CHECKS: tuple[Callable[[History, Stores], Iterator[Finding]], ...] = (
    loss.judge,
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
    places.judge,
    contents.judge,
    tablefiles.judge,
    clocks.judge,
)


def judge_run(
    entries: Sequence[JournalEntry],
    stores: Mapping[str, Path],
    surveys: Sequence[JournalSurvey] | None = None,
    record: RunRecord = NO_RECORD,
) -> Judgement:
    """Judge a run by the entries of all its journals and its brokers' stores.

    `stores` maps the name of each broker's node to the root of its store. `surveys` list what is missing in the
    journals' files; None for entries that were not read from files. `record` are the facts of its cluster that other
    files have. Changes nothing; the nodes may still be running. Raises OSError if a store cannot be read.
    """
    history = read_history(entries)
    return judge(history, read_stores(stores, history), read_conditions(entries, surveys, record))


def judge_directory(directory: Path) -> Judgement:
    """Judge a run or a cluster by its directory.

    The journals are in `journal`, the store of each broker in `<node>/store`. Raises OSError if there is no journal, or
    a file cannot be read.
    """
    return judge_with_history(directory)[1]


def judge_with_history(directory: Path) -> tuple[History, Judgement]:
    """Judge as `judge_directory`; return the history as well."""
    journals, surveys = survey_journals(directory / "journal")
    if not any(journals):
        raise FileNotFoundError(errno.ENOENT, "no journal", str(directory / "journal"))
    entries = merge_entries(*journals)
    history = read_history(entries)
    places, record = dict(_places(directory, history)), read_record(directory)
    strays = stray_stores(places, {entry.node for entry in entries}, record)
    stores = read_stores({node: path for node, path in places.items() if node not in strays}, history)
    stores = attrs.evolve(stores, remarks=(*stores.remarks, *stray_remarks(strays)))
    return history, judge(history, stores, read_conditions(entries, surveys, record))


def _places(directory: Path, history: History) -> Iterator[tuple[str, Path]]:
    """Yield the stores of a run by node, but none of nodes that never began.

    A node that was ready must have a store: its place is yielded if it is missing, too.
    """
    for path, trouble in store_places(directory):
        node = path.parent.name
        if trouble or node in history.members or is_store(path):
            yield node, path


def judge(history: History, stores: Stores, conditions: Conditions) -> Judgement:
    """Compute all metrics, and derive the verdict from them."""
    measured = [
        *itertools.chain.from_iterable(check(history, stores) for check in CHECKS),
        *duplicates.judge(history, stores, conditions),
        *uncommitted.judge(history, stores, conditions),
        *unreplicated.judge(history, stores, conditions.role),
        *ownoffsets.judge(history, stores, conditions),
        *origins.judge(history, stores, conditions),
        *headers.judge(history, stores, conditions),
        *duetimes.judge(history, stores, conditions),
        *overdue.judge(history, stores, conditions),
        loss.judge_stored_unsent(history, stores, conditions.sent_until(history.ended_at)),
    ]
    clocks_judged = with_clock_steps(measured, conditions.went_back)
    doubtless = withdraw_doubtful(clocks_judged, _clock_dependencies(history))
    remarks = (
        *stores.remarks,
        *sidefiles.remarks(history, stores),
        *sidefiles.offset_remarks(history, stores, conditions),
        *sidefiles.commit_remarks(history, stores, conditions),
    )
    earned = weaken_by_stores(doubtless, stores.incomplete, stores.misplaced, conditions.broker_names)
    return conclude(earned, METRICS, conditions, remarks)


def _clock_dependencies(history: History) -> ClockDependencies:
    senders = dict.fromkeys(send.node for send in history.sends)
    return ClockDependencies(groups=history.groups_of, senders=senders, masters=history.roles.masters_of_slaves)
