"""Finds gaps in the journals of a run, for both judges.

`rmqlab.verdict.weakening` says which findings depend on them.
"""

import collections
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from rmqlab.runtime.journals.journalentry import OPENED, JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX, SUPERVISOR
from rmqlab.runtime.journals.journalsurvey import Break, JournalSurvey
from rmqlab.verdict.metrics import Source

FOLLOWED_KINDS: Final = (
    "node_spawned",
    "node_ready",
    "node_stopped",
    "node_killed",
    "node_crashed",
    "cluster_stopped",
)
"""Events of the supervisor that `find_gaps` needs."""
_KILLED: Final = ("node_killed", "node_crashed")
_BEGINS: Final = ("node_spawned", "node_ready")
_OF_PRODUCERS: Final = ("sent", "attempt_failed", "produced")
_OF_CONSUMERS: Final = ("delivered", "committed", "consumed", "rebalanced")
LOG_SAMPLED: Final = "log_sampled"
_OF_SERVERS: Final = ("registered", "broker_registered")
"""A broker is ready as soon as a nameserver accepted its registration. Before, it may already sample its log."""
_FOREIGN_SLACK: Final = 10_000
"""Minimum distance in milliseconds between the lifetime of a process and events of another run."""
_SHOWN = 3
"""Maximum number of damaged positions that a text names for one file."""


@attrs.frozen(kw_only=True)
class Gap:
    """One incomplete or missing journal."""

    process: str
    sources: frozenset[Source]
    """The kinds of journals that the process wrote, as far as they are known."""
    text: str
    """The missing evidence, with file and bytes."""
    may_exceed: bool = False
    """True if the journal has foreign or repeated entries. These can increase values, which are then unknown."""
    brokers: frozenset[str] = frozenset()
    """Broker names of the process; empty if it is no broker, or if those of a start or of other entries are unknown."""
    groups: frozenset[str] = frozenset()
    """Consumer groups of the process; empty as for `brokers`."""


def find_gaps(
    surveys: Iterable[JournalSurvey],
    supervised: Iterable[JournalEntry],
    *,
    are_clocks_right: bool = True,
    recorded_run: str = "",
) -> tuple[Gap, ...]:
    """Return the gaps in the journals of a run.

    `supervised` are the entries of FOLLOWED_KINDS, by time. `are_clocks_right` is False in a run with a `clock` fault:
    times of entries are no evidence then. `recorded_run` is the id of the run outside of the journals; empty if
    unknown.
    """
    known = {survey.process: survey for survey in surveys}
    run = _run_of(known, recorded_run)
    lifetimes = _lifetimes(supervised)
    outside = {
        name for name, one in known.items() if are_clocks_right and _is_outside(one, lifetimes.get(name, _Lifetime()))
    }
    if len(outside) > 1 and len(outside) * 2 > sum(name in lifetimes for name in known):
        outside = {SUPERVISOR}  # most processes are right, so it is the supervisor's journal that is not of this run
    gaps = []
    for process in sorted({*known, *lifetimes, SUPERVISOR}):
        lifetime = lifetimes.get(process, _Lifetime())
        survey = known.get(process)
        foreign = "" if survey is None else _foreign(survey, run, is_outside=process in outside)
        incomplete = [] if survey is None else list(_incomplete(survey, lifetime, lifetimes, known))
        text = _missing(process, lifetime) if survey is None else "; ".join([foreign] * bool(foreign) + incomplete)
        if text:
            sources = frozenset(Source) if foreign else _sources(process, survey, lifetime)
            may_exceed = bool(foreign) or _repeats(survey) or _is_altered(survey)
            known_scope = lifetime if lifetime.names_all and not foreign else _Lifetime()
            gaps.append(
                Gap(
                    process=process,
                    sources=sources,
                    text=text,
                    may_exceed=may_exceed,
                    brokers=frozenset(known_scope.brokers),
                    groups=frozenset(known_scope.groups),
                )
            )
    return tuple(gaps)


@attrs.define
class _Lifetime:
    """The start and end of a process, from the supervisor's events."""

    was_ready: bool = False
    last: str = ""
    """Kind of the latest event."""
    began_at: int | None = None
    """Time of the first start, in milliseconds; None if the supervisor recorded no start."""
    ended_at: int = 0
    """Time of the latest event."""
    starts: int = 0
    """Number of starts that the supervisor recorded."""
    sources: frozenset[Source] = frozenset()
    """From the process's own `node_ready`; empty for a workload."""
    brokers: set[str] = attrs.field(factory=set)
    """Broker names in each `node_ready`."""
    groups: set[str] = attrs.field(factory=set)
    """Consumer groups in each `node_ready`."""
    is_starting: bool = False
    """True if the latest start has not become ready."""
    has_nameless_start: bool = False
    """True if an earlier start never became ready."""

    @property
    def names_all(self) -> bool:
        """True if the names of each start are known.

        A start that never became ready has none, and may have worked.
        """
        return not (self.is_starting or self.has_nameless_start)

    @property
    def ended_in_order(self) -> bool:
        return self.last == "node_stopped"

    @property
    def may_be_torn(self) -> bool:
        """True if the process was killed, or may be writing just now."""
        return self.last in (*_KILLED, "node_spawned", "node_ready")


def _lifetimes(supervised: Iterable[JournalEntry]) -> dict[str, _Lifetime]:
    lifetimes: dict[str, _Lifetime] = {}
    for entry in supervised:
        lifetime = lifetimes.setdefault(entry.node or SUPERVISOR, _Lifetime())
        lifetime.last = entry.kind
        if entry.kind in _BEGINS and lifetime.began_at is None:
            lifetime.began_at = entry.at_millis
        lifetime.ended_at = entry.at_millis
        if entry.kind == "node_spawned":
            lifetime.starts += 1
            lifetime.has_nameless_start |= lifetime.is_starting
            lifetime.is_starting = True
        if entry.kind == "node_ready":
            lifetime.is_starting = False
            lifetime.was_ready = True
            lifetime.sources = _sources_of_node(entry)
            lifetime.brokers |= _names(entry, "broker_name")
            lifetime.groups |= _names(entry, "group")
    return lifetimes


def _names(ready: JournalEntry, field: str) -> set[str]:
    return {str(name)} if (name := ready.fields.get(field)) else set()


def _sources_of_node(ready: JournalEntry) -> frozenset[Source]:
    if ready.fields.get("broker_name"):
        return frozenset({Source.BROKERS})
    return frozenset({Source.NAMESERVERS}) if ready.fields.get("address") else frozenset()


def _sources(process: str, survey: JournalSurvey | None, lifetime: _Lifetime) -> frozenset[Source]:
    if process == SUPERVISOR:
        return frozenset({Source.SUPERVISOR})
    if lifetime.sources:
        return lifetime.sources
    kinds = survey.kinds if survey is not None else {}
    found = {Source.PRODUCERS} if any(kind in kinds for kind in _OF_PRODUCERS) else set()
    found |= {Source.CONSUMERS} if any(kind in kinds for kind in _OF_CONSUMERS) else set()
    return frozenset(found or {Source.PRODUCERS, Source.CONSUMERS})


def _missing(process: str, lifetime: _Lifetime) -> str:
    """Return the text about a missing journal.

    Empty for a process that ended before it did anything.
    """
    file = f"journal/{process}{SUFFIX}"
    if process == SUPERVISOR:
        return f"{file}, the supervisor's journal, is missing, unreadable, or no regular file"
    return (
        f"{file} is missing, unreadable, or no regular file, and the supervisor started {process}"
        if lifetime.was_ready or lifetime.ended_in_order
        else ""
    )


def _is_outside(survey: JournalSurvey, lifetime: _Lifetime) -> bool:
    """True if all entries are dated before a process began or after it ended."""
    if lifetime.began_at is None or survey.earliest is None or survey.latest is None:
        return False
    ended_at = lifetime.ended_at if lifetime.ended_in_order or lifetime.last in _KILLED else math.inf
    return survey.latest < lifetime.began_at - _FOREIGN_SLACK or survey.earliest > ended_at + _FOREIGN_SLACK


def _run_of(known: Mapping[str, JournalSurvey], recorded: str) -> str:
    """Return the id of the run; empty if no journal has an id, as before version 4.

    Without a recorded id it is that of most journals, or of the supervisor's journal if two are equally frequent.
    """
    if recorded:
        return recorded
    votes = collections.Counter(run for survey in known.values() for run in survey.runs)
    supervisors = known[SUPERVISOR].runs if SUPERVISOR in known else []
    return max(sorted(votes), key=lambda run: (votes[run], run in supervisors), default="")


def _foreign(survey: JournalSurvey, run: str, *, is_outside: bool) -> str:
    """Return a text about entries of another process or run; empty without any."""
    file = f"journal/{survey.process}{SUFFIX}"
    if others := [one for one in survey.runs if one != run]:
        return f"{file}: it is of another run, {', '.join(others[:_SHOWN])}; this one is {run}"
    if run and not survey.runs and survey.has_begin:
        return f"{file}: it begins with no entry that names the run, {run}: it is of another run"
    if survey.foreign:
        count = f"{survey.foreign} of its {survey.entries} entries are"
        return f"{file}: {count} of another process, the first of {survey.foreign_of}"
    if is_outside and survey.process == SUPERVISOR:
        return f"{file}: its events are of another time than those of the processes: it is of another run"
    if is_outside:
        return (
            f"{file}: no entry is of the time in which {survey.process} ran: it is of another run, or its clock was off"
        )
    return ""


def _repeats(survey: JournalSurvey | None) -> bool:
    return survey is not None and any(one.found < one.expected for one in survey.breaks)


def _is_altered(survey: JournalSurvey | None) -> bool:
    """Return True if a start of a process has other bytes than were written.

    No entry of that start is missing.
    """
    return survey is not None and survey.is_altered


def _ran_once(supervisor: JournalSurvey | None) -> bool:
    """Return True if the supervisor has one whole run in its journal.

    One that was killed may not have recorded the last process that it started.
    """
    return supervisor is not None and supervisor.kinds[OPENED] <= 1 and not (supervisor.torn_bytes or supervisor.breaks)


def _counts_all(survey: JournalSurvey) -> bool:
    """Return True if a workload counted all of its sends and deliveries.

    It does if it started once and ended in good order.
    """
    return _ended_once(survey) and bool(survey.kinds["produced"] + survey.kinds["consumed"])


def _ended_once(survey: JournalSurvey) -> bool:
    return survey.kinds[OPENED] == 1 and survey.is_closed


def _uncounted(survey: JournalSurvey) -> Iterator[str]:
    """Yield a text if the count of a workload that ended is missing."""
    for kind, summary, what in (("sent", "produced", "sends"), ("delivered", "consumed", "deliveries")):
        if _ended_once(survey) and survey.kinds[kind] and not survey.kinds[summary]:
            yield f"it has no event {summary}, in which {survey.process} counted its {what} when it ended"


def _miscounted(survey: JournalSurvey) -> Iterator[str]:
    for name in sorted({*survey.counted, *survey.stated}):
        found, stated = survey.counted[name], survey.stated[name]
        if found < stated or (found > stated and name != "delivered"):  # `duplicates` has repeated deliveries
            what = "deliveries" if name == "delivered" else f"sends with {name}"
            yield f"it has {found} {what}, and {survey.process} counted {stated} when it ended"


def _unrecorded(survey: JournalSurvey, lifetime: _Lifetime) -> Iterator[str]:
    """Yield what a process of journal version 4 always records, and this one did not."""
    if survey.kinds[OPENED] and survey.unchecked:
        count = "a send has" if survey.unchecked == 1 else f"{survey.unchecked} sends have"
        yield f"{count} no checksum, which {survey.process} records for each message"
    if survey.kinds[OPENED] and survey.unplaced:
        count = "an acknowledged send has" if survey.unplaced == 1 else f"{survey.unplaced} acknowledged sends have"
        yield f"{count} no broker, queue or offset, which {survey.process} records"
    is_broker = Source.BROKERS in lifetime.sources
    if is_broker and _ended_once(survey) and not survey.kinds[LOG_SAMPLED]:
        yield f"it has no event {LOG_SAMPLED}, in which {survey.process} records the end of its log when it stops"


def _incomplete(
    survey: JournalSurvey, lifetime: _Lifetime, lifetimes: Mapping[str, _Lifetime], known: Mapping[str, JournalSurvey]
) -> Iterator[str]:
    file = f"journal/{survey.process}{SUFFIX}"
    if survey.torn_bytes:
        places = ", ".join(f"{torn.size} at byte {torn.at}" for torn in survey.torn[:_SHOWN])
        yield f"{file}: {survey.torn_bytes} bytes are no entry: {places}{_more(survey.torn)}"
    if survey.breaks:
        places = ", ".join(map(_broken, survey.breaks[:_SHOWN]))
        yield f"{file}: {places}{_more(survey.breaks)}"
    if _is_altered(survey):
        yield (
            f"{file}: entries were changed, removed or added: the checksum with which {survey.process} closed it is that"
            " of other bytes"
        )
    if 0 < lifetime.starts < survey.kinds[OPENED] and _ran_once(known.get(SUPERVISOR)):
        yield (
            f"{file}: it has {survey.kinds[OPENED]} starts, and the supervisor recorded {lifetime.starts}: one was added"
            " here, or removed there"
        )
    if survey.entries and survey.kinds[OPENED] and not survey.is_numbered:
        yield f"{file}: its entries have no numbers, although a journal that names its run has them"
    if _counts_all(survey):
        yield from (f"{file}: {line}" for line in _miscounted(survey))
    yield from (f"{file}: {line}" for line in _uncounted(survey))
    yield from (f"{file}: {line}" for line in _unrecorded(survey, lifetime))
    if survey.process == SUPERVISOR:
        yield from _cut_supervisor(file, survey, lifetimes, known)
    elif survey.tail_bytes and not lifetime.may_be_torn:
        yield f"{file}: its last {survey.tail_bytes} bytes are no entry, and {survey.process} was not killed"
    elif lifetime.ended_in_order and (survey.is_numbered or not survey.entries) and not survey.is_closed:
        yield f"{file}: its end is missing: {survey.process} stopped in good order, and no entry says so"
    elif survey.entries == survey.kinds[OPENED] and Source.BROKERS in lifetime.sources:
        yield f"{file}: it has no event, and {survey.process} was ready: a broker registers first"


def _broken(found: Break) -> str:
    if found.found > found.expected:
        count = found.found - found.expected
        return f"{count} {'entry is' if count == 1 else 'entries are'} missing before byte {found.at}"
    return f"entry {found.found} is repeated, or too late, at byte {found.at}"


def _more(places: Sequence[object]) -> str:
    return f" and {len(places) - _SHOWN} more places" if len(places) > _SHOWN else ""


def _cut_supervisor(
    file: str, survey: JournalSurvey, lifetimes: Mapping[str, _Lifetime], known: Mapping[str, JournalSurvey]
) -> Iterator[str]:
    """Yield a text if the supervisor's journal lacks its end.

    A supervisor records the end of each process and, as its last entry, its own end.
    """
    if survey.tail_bytes:
        yield f"{file}: its last {survey.tail_bytes} bytes are no entry"
    if survey.kinds[OPENED] and survey.kinds["cluster_ready"] and not survey.kinds["cluster_starting"]:
        yield f"{file}: it has no cluster_starting, which names role and profile, although the cluster was ready"
    if unready := [name for name, one in known.items() if name != SUPERVISOR and _served(one, lifetimes.get(name))]:
        yield (
            f"{file}: it does not record that {', '.join(unready)} became ready, although the journal there has events"
        )
    if survey.last_kind == "cluster_stopped":
        return
    unnoticed = [name for name, one in known.items() if one.is_closed and not _has_ended(lifetimes.get(name))]
    if unnoticed:
        yield f"{file}: its end is missing: it does not record that {', '.join(unnoticed)} ended"


def _served(survey: JournalSurvey, lifetime: _Lifetime | None) -> bool:
    """Return True if a server worked, but was never recorded as ready.

    The supervisor records that. A process that was killed, or runs, may have worked just before it was ready.
    """
    works = any(kind in survey.kinds for kind in _OF_SERVERS)
    return works and survey.is_closed and (lifetime is None or not lifetime.was_ready)


def _has_ended(lifetime: _Lifetime | None) -> bool:
    return lifetime is not None and (lifetime.ended_in_order or lifetime.last in _KILLED)
