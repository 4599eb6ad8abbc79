"""Which holes in journals are evidence gaps, and what they make unknown."""

from typing import Any

import attrs
import pytest

from rmqlab.runtime.journals.journalentry import CLOSED, JournalEntry
from rmqlab.runtime.journals.journalreader import Torn
from rmqlab.runtime.journals.journalsurvey import Break, JournalSurvey, Stretch
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap, find_gaps
from rmqlab.verdict.metrics import Source
from rmqlab.verdict.weakening import weaken


def journal(process: str, *kinds: str, **changes: Any) -> JournalSurvey:
    whole = JournalSurvey(process=process, size=1000)
    for seq, kind in enumerate(kinds, 1):
        whole.add((seq * 10, JournalEntry(seq, process, kind, {}, seq)))
    return attrs.evolve(whole, **changes)


SUPERVISOR = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped")
PRODUCER = journal("produce-1", "sent", "produced", CLOSED)


def supervised(*kinds: str, node: str = "produce-1", **fields: Any) -> list[JournalEntry]:
    return [JournalEntry(at, node, kind, fields if kind == "node_ready" else {}) for at, kind in enumerate(kinds)]


STOPPED = supervised("node_spawned", "node_ready", "node_stopped")
KILLED = supervised("node_spawned", "node_ready", "node_killed")
RUNNING = supervised("node_spawned", "node_ready")


@pytest.mark.parametrize(
    ("surveys", "events"),
    [
        ([SUPERVISOR, PRODUCER], STOPPED),
        ([SUPERVISOR, journal("produce-1", "sent", tail_bytes=5)], KILLED),
        ([SUPERVISOR, journal("produce-1", "sent")], KILLED),
        ([journal("cluster", "node_ready"), journal("produce-1", "sent", tail_bytes=5)], RUNNING),
        ([SUPERVISOR], supervised("node_spawned", "node_killed")),
        ([SUPERVISOR, journal("produce-1", "sent", last_seq=0)], STOPPED),
    ],
    ids=["whole", "torn by kill -9", "cut by kill -9", "still running", "killed before it began", "old version"],
)
def test_a_complete_run_has_no_gaps(surveys: list[JournalSurvey], events: list[JournalEntry]) -> None:
    assert find_gaps(surveys, events) == ()


@pytest.mark.parametrize(
    ("surveys", "events", "text"),
    [
        (
            [SUPERVISOR],
            STOPPED,
            "journal/produce-1.msgpack is missing, unreadable, or no regular file, and the supervisor started produce-1",
        ),
        ([PRODUCER], STOPPED, "journal/cluster.msgpack, the supervisor's journal, is missing"),
        ([SUPERVISOR, journal("produce-1", "sent")], STOPPED, "its end is missing: produce-1 stopped in good order"),
        ([SUPERVISOR, journal("produce-1")], STOPPED, "its end is missing"),
        (
            [SUPERVISOR, journal("produce-1", "sent", tail_bytes=5)],
            STOPPED,
            "its last 5 bytes are no entry, and produce-1 was not killed",
        ),
        (
            [SUPERVISOR, attrs.evolve(PRODUCER, torn=[Torn(7, 9)], torn_bytes=9)],
            KILLED,
            "journal/produce-1.msgpack: 9 bytes are no entry: 9 at byte 7",
        ),
        ([SUPERVISOR, attrs.evolve(PRODUCER, breaks=[Break(7, 2, 5)])], KILLED, "3 entries are missing before byte 7"),
        ([SUPERVISOR, attrs.evolve(PRODUCER, breaks=[Break(7, 2, 3)])], KILLED, "1 entry is missing before byte 7"),
        ([SUPERVISOR, attrs.evolve(PRODUCER, breaks=[Break(7, 5, 2)])], KILLED, "entry 2 is repeated, or too late"),
        ([journal("cluster", "node_ready"), PRODUCER], RUNNING, "it does not record that produce-1 ended"),
        (
            [SUPERVISOR, journal("broker-a", tail_bytes=3000)],
            supervised("node_spawned", "node_ready", "node_killed", node="broker-a", broker_name="broker-a"),
            "journal/broker-a.msgpack: it has no event, and broker-a was ready",
        ),
        ([attrs.evolve(SUPERVISOR, tail_bytes=3), PRODUCER], STOPPED, "cluster.msgpack: its last 3 bytes are no entry"),
    ],
)
def test_a_gap_is_said_with_file_process_and_bytes(
    surveys: list[JournalSurvey], events: list[JournalEntry], text: str
) -> None:
    (gap,) = find_gaps(surveys, events)
    assert text in gap.text


@pytest.mark.parametrize(
    ("fields", "kinds", "sources"),
    [
        ({"broker_name": "broker-a", "address": "1:2"}, ["registered"], {Source.BROKERS}),
        ({"address": "1:2"}, [], {Source.NAMESERVERS}),
        ({}, ["sent"], {Source.PRODUCERS}),
        ({}, ["delivered"], {Source.CONSUMERS}),
        ({}, [], {Source.PRODUCERS, Source.CONSUMERS}),
    ],
)
def test_a_gap_is_in_what_the_process_saw(fields: dict[str, Any], kinds: list[str], sources: set[Source]) -> None:
    events = supervised("node_spawned", "node_ready", "node_stopped", **fields)
    (gap,) = find_gaps([SUPERVISOR, journal("produce-1", *kinds)], events)
    assert gap.sources == sources


@pytest.mark.parametrize(
    ("fields", "brokers", "groups"),
    [
        ({"broker_name": "broker-a", "address": "1:2"}, {"broker-a"}, set()),
        ({"group": "shop"}, set(), {"shop"}),
        ({}, set(), set()),
    ],
)
def test_a_gap_names_whom_it_concerns(fields: dict[str, Any], brokers: set[str], groups: set[str]) -> None:
    events = supervised("node_spawned", "node_ready", "node_stopped", **fields)
    (gap,) = find_gaps([SUPERVISOR, journal("produce-1")], events)
    assert ({*gap.brokers}, {*gap.groups}) == (brokers, groups)
    other = JournalSurvey(process="produce-1", size=1000)
    other.add((10, JournalEntry(1, "produce-2", "sent", {}, 1)))
    (gap,) = find_gaps([SUPERVISOR, other], events)
    assert not gap.brokers | gap.groups, "entries of others may be affected, too"


@pytest.mark.parametrize(
    "kinds",
    [
        ("node_spawned", "node_killed", "node_spawned", "node_ready", "node_stopped"),
        ("node_spawned", "node_ready", "node_killed", "node_spawned", "node_killed"),
    ],
)
def test_a_start_that_never_became_ready_may_have_worked_for_any_group(kinds: tuple[str, ...]) -> None:
    (gap,) = find_gaps([SUPERVISOR], supervised(*kinds, group="other", broker_name="broker-a"))
    assert not gap.groups | gap.brokers


def test_a_gap_names_the_groups_of_all_starts_that_became_ready() -> None:
    (gap,) = find_gaps(
        [SUPERVISOR],
        supervised("node_spawned", "node_ready", "node_killed")
        + [
            JournalEntry(at, "produce-1", kind, {"group": "shop"})
            for at, kind in enumerate(("node_spawned", "node_ready"), 5)
        ],
    )
    assert gap.groups == {"shop"}


def of(metric: str, value: float) -> Finding:
    return Finding(metric=metric, unit="messages", value=value)


def weakened(finding: Finding, gap: Gap) -> tuple[object, bool]:
    (found,) = weaken([finding], [gap], METRICS)
    assert bool(found.missing) is (found.value is None)
    return found.value, found.is_at_least


CUT = Gap(process="produce-1", sources=frozenset({Source.PRODUCERS}), text="cut")


@pytest.mark.parametrize(
    ("finding", "known"),
    [
        (of("lost", 0), (None, False)),
        (of("lost", 3), (3, True)),
        (of("sent", 7), (7, True)),
        (of("write_unavailable broker-a", 2.0), (None, False)),
        (of("stale_route produce-1", 2.0), (None, False)),
        (of("stale_route namesrv-1", 2.0), (2.0, False)),
        (of("divergence broker-a-s", 0), (0, False)),
        (of("replication_lag broker-a-s", 0), (0, False)),
        (of("no_such_metric", 0), (0, False)),
    ],
)
def test_a_gap_weakens_the_metrics_that_rest_on_it(finding: Finding, known: tuple[object, bool]) -> None:
    assert weakened(finding, CUT) == known


@pytest.mark.parametrize(
    ("metric", "excuses"),
    [
        ("place_disagreement", {Source.BROKERS, Source.SUPERVISOR}),
        ("origin_disagreement", {Source.BROKERS, Source.SUPERVISOR}),
        ("header_disagreement", {Source.BROKERS, Source.SUPERVISOR}),
        ("delivered_early", {Source.BROKERS, Source.SUPERVISOR, Source.PRODUCERS}),
        ("overdue", {Source.BROKERS, Source.SUPERVISOR}),
        ("store_time_disagreement", {Source.SUPERVISOR}),
    ],
)
def test_a_lost_journal_may_hide_what_explains_a_contradiction(metric: str, excuses: set[Source]) -> None:
    """Removed records, faults of clocks, changed settings, and failed attempts."""
    for source in Source:
        gap = Gap(process="one", sources=frozenset({source}), text="cut")
        value, _ = weakened(of(metric, 2), gap)
        assert value == (None if source in excuses else 2), source


def test_entries_of_another_process_are_named_and_prove_nothing() -> None:
    foreign = JournalSurvey(process="produce-1", size=1000)
    for seq, kind in enumerate(("sent", "sent", CLOSED), 1):
        foreign.add((seq * 10, JournalEntry(seq, "produce-2", kind, {}, seq)))
    (gap,) = find_gaps([SUPERVISOR, foreign], STOPPED)
    assert gap.text == "journal/produce-1.msgpack: 3 of its 3 entries are of another process, the first of produce-2"
    assert gap.sources == frozenset(Source)
    assert weakened(of("lost", 3), gap) == (None, False)


def test_an_event_of_the_supervisor_belongs_in_its_own_journal() -> None:
    (gap,) = find_gaps([SUPERVISOR, journal("produce-1", "node_ready", "sent", CLOSED)], STOPPED)
    assert "1 of its 3 entries are of another process, the first of cluster" in gap.text


def dated(survey: JournalSurvey, at: int) -> JournalSurvey:
    return attrs.evolve(survey, earliest=at, latest=at + 1)


def test_a_journal_of_another_time_is_of_another_run_unless_a_clock_was_set_wrong() -> None:
    surveys = [SUPERVISOR, dated(PRODUCER, 86_400_000)]
    (gap,) = find_gaps(surveys, STOPPED)
    assert "no entry is of the time in which produce-1 ran" in gap.text
    assert weakened(of("lost", 3), gap) == (None, False)
    assert weakened(of("clock_disagreement produce-1", 3), gap) == (3, True)
    assert find_gaps(surveys, STOPPED, are_clocks_right=False) == ()


def test_if_all_processes_are_of_another_time_the_supervisor_s_journal_is() -> None:
    others = [journal(name, "sent", CLOSED) for name in ("produce-1", "produce-2")]
    events = [*STOPPED, *supervised("node_spawned", "node_ready", "node_stopped", node="produce-2")]
    (gap,) = find_gaps([SUPERVISOR, *(dated(one, 86_400_000) for one in others)], events)
    assert gap.process == "cluster"
    assert "its events are of another time than those of the processes" in gap.text


def test_repeated_entries_give_no_lower_bound() -> None:
    (gap,) = find_gaps([SUPERVISOR, attrs.evolve(PRODUCER, breaks=[Break(7, 5, 2)])], KILLED)
    assert weakened(of("sent", 7), gap) == (None, False)


def workload(*events: tuple[str, dict[str, Any]]) -> JournalSurvey:
    """Survey a workload's journal of version 4 that ended in good order."""
    whole = JournalSurvey(process="produce-1", size=1000)
    opened: tuple[str, dict[str, Any]] = ("journal_opened", {"run": "a1"})
    closed: tuple[str, dict[str, Any]] = (CLOSED, {})
    for seq, (kind, fields) in enumerate((opened, *events, closed), 1):
        whole.add((seq * 10, JournalEntry(seq, "produce-1", kind, fields, seq)))
    return whole


PLACE = {"broker": "broker-a", "queue": 0, "offset": 0}
SENT = ("sent", {"outcome": "SEND_OK", **PLACE})


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ((SENT, ("produced", {"sent": 1, "SEND_OK": 1})), None),
        ((SENT, ("produced", {"sent": 2, "SEND_OK": 2})), "it has 1 sends with SEND_OK, and produce-1 counted 2"),
        ((SENT, SENT, ("produced", {"sent": 1, "SEND_OK": 1})), "it has 2 sends with SEND_OK, and produce-1 counted 1"),
        ((("sent", {"outcome": "refused"}), ("produced", {"sent": 1, "SEND_OK": 1})), "it has 1 sends with refused"),
        ((("consumed", {"delivered": 3}),), "it has 0 deliveries, and produce-1 counted 3 when it ended"),
        ((SENT,), "it has no event produced, in which produce-1 counted its sends when it ended"),
    ],
    ids=["equal", "removed", "repeated", "changed", "deliveries", "no count"],
)
def test_a_workload_counts_its_own_events(events: tuple[tuple[str, dict[str, Any]], ...], message: str | None) -> None:
    opened = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped", runs=["a1"])
    gaps = find_gaps([opened, workload(*events)], STOPPED)
    found = [gap for gap in gaps if gap.process == "produce-1"]
    assert bool(found) == bool(message)
    assert message is None or message in found[0].text


def test_a_send_without_its_checksum_is_a_gap() -> None:
    opened = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped", runs=["a1"])
    sends = [("sent", {**SENT[1], "message_id": name, "crc": crc}) for name, crc in (("A", 5), ("B", None))]
    batch = ("sent", {**SENT[1], "message_id": "C,D", "crc": None})
    counted = ("produced", {"sent": 3, "SEND_OK": 3})
    (gap,) = find_gaps([opened, workload(*sends, batch, counted)], STOPPED)
    assert "a send has no checksum, which produce-1 records for each message" in gap.text
    assert find_gaps([opened, workload(sends[0], batch, ("produced", {"sent": 2, "SEND_OK": 2}))], STOPPED) == ()


@pytest.mark.parametrize("name", PLACE)
def test_an_acknowledged_send_without_its_place_is_a_gap(name: str) -> None:
    opened = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped", runs=["a1"])
    counted = ("produced", {"sent": 1, "SEND_OK": 1})
    unplaced = ("sent", {**SENT[1], name: None})
    (gap,) = find_gaps([opened, workload(unplaced, counted)], STOPPED)
    assert "an acknowledged send has no broker, queue or offset, which produce-1 records" in gap.text


def test_a_workload_that_started_twice_counted_only_once() -> None:
    survey = workload(SENT, ("journal_opened", {"run": "a1"}), SENT, ("produced", {"sent": 1, "SEND_OK": 1}))
    assert not [gap for gap in find_gaps([SUPERVISOR, survey], STOPPED) if "counted" in gap.text]


def test_a_process_starts_as_often_as_the_supervisor_records() -> None:
    opened = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped", runs=["a1"])
    restarted = workload(SENT, ("journal_opened", {"run": "a1"}), SENT, ("produced", {"sent": 1, "SEND_OK": 1}))
    (gap,) = find_gaps([opened, restarted], STOPPED)
    assert gap.text.endswith("it has 2 starts, and the supervisor recorded 1: one was added here, or removed there")
    assert find_gaps([opened, restarted], [STOPPED[0], *STOPPED]) == ()


def test_values_of_an_altered_journal_are_not_known() -> None:
    survey = attrs.evolve(
        workload(SENT, ("produced", {"sent": 1, "SEND_OK": 1})),
        stretches=[Stretch(begin=0, crc=7, is_opened=True), Stretch(begin=9, sealed=8)],
    )
    opened = journal("cluster", "cluster_starting", "node_spawned", "node_ready", "cluster_stopped", runs=["a1"])
    (gap,) = find_gaps([opened, survey], STOPPED)
    assert "the checksum with which produce-1 closed it is that of other bytes" in gap.text
    assert weakened(of("sent", 7), gap) == (None, False)
    assert find_gaps([opened, attrs.evolve(survey, breaks=[Break(7, 5, 9)])], STOPPED)[0].may_exceed is False
    (gap,) = find_gaps([opened, attrs.evolve(survey, breaks=[Break(11, 5, 9)])], STOPPED)
    assert gap.may_exceed
    assert "of other bytes" in gap.text


def test_a_journal_that_names_its_run_has_numbers() -> None:
    survey = attrs.evolve(workload(SENT), last_seq=0)
    assert any("its entries have no numbers" in gap.text for gap in find_gaps([SUPERVISOR, survey], STOPPED))


def test_a_server_that_worked_became_ready() -> None:
    broker = journal("broker-a", "log_sampled", "registered", CLOSED)
    ready = supervised("node_spawned", "node_ready", "node_stopped", node="broker-a", broker_name="broker-a")
    silent = [one for one in ready if one.kind != "node_ready"]
    assert find_gaps([SUPERVISOR, broker], ready) == ()
    (gap,) = find_gaps([SUPERVISOR, broker], silent)
    assert gap.process == "cluster"
    assert "does not record that broker-a became ready" in gap.text


def test_a_broker_without_a_nameserver_is_never_ready() -> None:
    broker = journal("broker-a", "log_sampled", CLOSED)
    silent = supervised("node_spawned", "node_stopped", node="broker-a")
    assert find_gaps([SUPERVISOR, broker], silent) == ()


def test_a_cluster_that_was_ready_named_its_role() -> None:
    kinds = ("journal_opened", "node_spawned", "node_ready", "cluster_ready", "cluster_stopped")
    (gap,) = find_gaps([journal("cluster", *kinds)], [])
    assert "it has no cluster_starting" in gap.text
