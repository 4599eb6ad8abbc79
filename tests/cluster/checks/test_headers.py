"""Records whose headers contradict sends, deliveries or half messages."""

from typing import Any, cast

import attrs
import pytest

from rmqlab.cluster.checks import headers
from rmqlab.cluster.checks.copies import Header
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun
from rmqlab.remoting.message import (
    COMPRESSED,
    MULTI_TAGS,
    STORE_HOST_IPV6,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.store.offline.scan import Hole
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Source

METRIC = "header_disagreement"
OURS = Header(sys_flag=0, store_host=ADDRESSES["broker-a"], reconsume_times=0, real_topic="")
RETRY = "%RETRY%shop"


def with_header(run: MadeUpRun, at: int = -1, *, prepared_at: int = 0, kept: bool = True, **fields: Any) -> None:
    """Give the record at a place of each log a header."""
    for log in run.logs.values():
        header = attrs.evolve(OURS, **fields)
        log[at] = attrs.evolve(log[at], header=header, prepared_at=prepared_at, content_crc=5 if kept else None)


def sent_run(sent: int | None = 0, **fields: Any) -> MadeUpRun:
    run = MadeUpRun()
    run.send(1, sys_flag=sent)
    with_header(run, **fields)
    return run


def judged(run: MadeUpRun) -> Finding:
    return run.judge()[METRIC]


def faults(run: MadeUpRun) -> str:
    found = judged(run)
    assert found.message_ids == (("ID000001",) if found.value else ())
    return found.evidence[0].text.partition("commit log offset ")[2] if found.evidence else ""


@pytest.mark.parametrize(
    ("sent", "stored"),
    [(0, 0), (COMPRESSED, COMPRESSED), (0, MULTI_TAGS), (0, STORE_HOST_IPV6), (None, COMPRESSED)],
)
def test_a_record_with_the_flags_of_its_send_agrees(sent: int | None, stored: int) -> None:
    assert judged(sent_run(sent, sys_flag=stored)).value == 0


@pytest.mark.parametrize(
    ("sent", "stored"),
    [(0, COMPRESSED), (COMPRESSED, 0), (0, TRANSACTION_ROLLBACK), (0, TRANSACTION_PREPARED), (0, 1 << 12)],
)
def test_another_flag_is_named(sent: int, stored: int) -> None:
    assert f"has sysFlag {stored}" in faults(sent_run(sent, sys_flag=stored))


def test_a_store_host_outside_of_the_broker_name_is_named() -> None:
    assert "store host 10.9.8.7:10911" in faults(sent_run(store_host="10.9.8.7:10911"))


def test_a_slave_may_have_stored_it_first() -> None:
    """A slave that becomes master stores messages with its own address."""
    assert judged(sent_run(store_host=ADDRESSES["broker-a-s"])).value == 0


def test_the_addresses_of_another_broker_name_do_not_count() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-a-s", "broker-b"))
    run.send(1)
    for node in ("broker-a", "broker-a-s"):
        log = run.logs[node]
        log[-1] = attrs.evolve(log[-1], header=attrs.evolve(OURS, store_host=ADDRESSES["broker-b"]))
    assert "store host" in faults(run)


def test_hosts_are_not_compared_if_an_event_of_the_supervisor_may_be_missing() -> None:
    run = sent_run(store_host="10.9.8.7:10911")
    gap = Gap(process="cluster", sources=frozenset({Source.SUPERVISOR}), text="cut")
    (finding,) = headers.judge(run.history(), run.stores(), Conditions(gaps=(gap,)))
    assert finding.value == 0


@pytest.mark.parametrize("key", ["broker_ip1", "listen_port"])
def test_hosts_are_not_compared_if_a_broker_got_another_address(key: str) -> None:
    run = sent_run(store_host="10.9.8.7:10911")
    conditions = Conditions(changed_settings=frozenset({key}))
    (finding,) = headers.judge(run.history(), run.stores(), conditions)
    assert finding.value == 0


def test_reconsume_times_without_a_retry_are_named() -> None:
    assert "reconsume times 3" in faults(sent_run(reconsume_times=3))


def retried_run(stored: int, *delivered: int) -> MadeUpRun:
    run = MadeUpRun()
    run.send(1)
    offset = run.store("ID000001", Queue(RETRY, "broker-a", 0), run.logs)
    with_header(run, kept=False, reconsume_times=stored)
    for times in delivered:
        run.deliver(1, offset, times=times)
        run.entries[-1] = attrs.evolve(run.entries[-1], fields={**run.entries[-1].fields, "topic": RETRY})
    return run


@pytest.mark.parametrize(("stored", "delivered"), [(1, ()), (1, (1,)), (2, (2, 3, 4)), (2, (4, 2))])
def test_a_retry_has_the_times_of_its_first_delivery(stored: int, delivered: tuple[int, ...]) -> None:
    """A consumer that tries a message again by itself adds to them."""
    assert judged(retried_run(stored, *delivered)).value == 0


@pytest.mark.parametrize(("stored", "delivered"), [(4, (1,)), (0, (1,)), (3, (2, 3)), (1, (2, 3))])
def test_other_times_than_those_of_the_delivery_are_named(stored: int, delivered: tuple[int, ...]) -> None:
    expected = f"reconsume times {stored}, and was delivered with {min(delivered)}"
    assert expected in faults(retried_run(stored, *delivered))


@pytest.mark.parametrize("stored", [0, 2])
def test_a_delivery_without_recorded_times_shows_nothing(stored: int) -> None:
    run = retried_run(stored, 1)
    run.entries[-1] = attrs.evolve(run.entries[-1], fields={**run.entries[-1].fields, "reconsume_times": None})
    assert judged(run).value == 0


@pytest.mark.parametrize(("stored", "found"), [(1, 0), (4, 1)])
def test_a_missing_delivery_may_explain_fewer_times_but_not_more(stored: int, found: int) -> None:
    run = retried_run(stored, 2)
    gap = Gap(process="consume-1", sources=frozenset({Source.CONSUMERS}), text="cut")
    (finding,) = headers.judge(run.history(), run.stores(), Conditions(gaps=(gap,)))
    assert finding.value == found


def committed_run(prepared_at: int, sys_flag: int = TRANSACTION_COMMIT) -> MadeUpRun:
    """Store a message at 0, a half message at 200, and what became of it at 400."""
    run = MadeUpRun()
    run.send(0)
    run.store("ID000001", Queue(HALF_TOPIC, "broker-a", 0), run.logs)
    with_header(run, kept=False)
    run.send(1, sys_flag=TRANSACTION_PREPARED, held_in=f"{HALF_TOPIC}:0")
    with_header(run, sys_flag=sys_flag, prepared_at=prepared_at)
    return run


def test_a_committed_message_has_the_place_of_its_half_message() -> None:
    assert judged(committed_run(200)).value == 0


@pytest.mark.parametrize(("prepared_at", "sys_flag"), [(0, TRANSACTION_COMMIT), (77, TRANSACTION_COMMIT), (200, 0)])
def test_another_place_or_no_commit_is_named(prepared_at: int, sys_flag: int) -> None:
    assert f"prepared transaction offset {prepared_at}" in faults(committed_run(prepared_at, sys_flag))


def test_a_place_without_a_transaction_is_named() -> None:
    assert "prepared transaction offset 77" in faults(sent_run(None, prepared_at=77))


def test_a_half_message_and_a_retry_have_no_place_of_another() -> None:
    run = committed_run(200)
    with_header(run, 1, kept=False, prepared_at=5)
    assert "prepared transaction offset 5" in faults(run)
    retried = retried_run(1)
    with_header(retried, kept=False, sys_flag=TRANSACTION_COMMIT, prepared_at=5)
    assert "prepared transaction offset 5" in faults(retried)


def test_a_half_message_before_the_first_file_is_not_missed() -> None:
    run = committed_run(77)
    stores = run.stores()
    later = {node: attrs.evolve(store, begin=100) for node, store in stores.nodes.items()}
    (finding,) = headers.judge(run.history(), attrs.evolve(stores, nodes=later), Conditions())
    assert finding.value == 0


def test_a_half_message_has_no_bit_of_a_transaction() -> None:
    run = committed_run(200)
    with_header(run, 1, kept=False, sys_flag=TRANSACTION_PREPARED)
    assert "sysFlag 4" in faults(run)


def test_records_after_a_removal_are_not_compared() -> None:
    run = MadeUpRun()
    run.add("broker-a", "log_truncated", before=100, after=0)
    run.send(1)
    with_header(run, store_host="10.9.8.7:10911")
    assert judged(run).value == 0


def test_messages_that_were_sent_twice_are_not_compared() -> None:
    run = sent_run(store_host="10.9.8.7:10911")
    run.send(1)
    assert judged(run).value == 0


def test_a_delayed_record_is_compared_as_its_topic_is() -> None:
    run = MadeUpRun()
    run.store("ID000001", Queue(SCHEDULE_TOPIC, "broker-a", 0), run.logs)
    run.send(1)
    with_header(run)
    with_header(run, 0, reconsume_times=1, real_topic="orders")
    assert "reconsume times 1" in faults(run)
    with_header(run, 0, kept=False, reconsume_times=1, real_topic=RETRY)
    assert judged(run).value == 0


def test_what_a_client_sent_on_to_another_topic_is_not_compared() -> None:
    run = sent_run(COMPRESSED, real_topic="another", reconsume_times=2)
    assert judged(run).value == 0


@pytest.mark.parametrize("sent", [1.0, float("nan"), True, 2**40 + 1, "1"])
def test_a_flag_that_is_no_number_of_32_bits_is_unknown(sent: object) -> None:
    assert judged(sent_run(cast("int", sent))).value == 0


def test_nothing_sent_is_unknown() -> None:
    assert judged(MadeUpRun()).missing == "no workload of the journal sent anything"


def test_a_missing_store_makes_it_a_lower_bound() -> None:
    run = sent_run()
    run.unread.add("broker-a-s")
    assert judged(run).is_at_least


MANY = 20_000


def test_evidence_of_a_message_with_many_places_and_deliveries_is_short() -> None:
    run = sent_run(store_host="10.9.8.7:10911")
    copy, entry = run.logs["broker-a"][0], run.entries[-1]
    run.logs["broker-a"] = [attrs.evolve(copy, offset=nth, log_offset=nth * 200) for nth in range(MANY)]
    run.entries += [attrs.evolve(entry, kind="attempt_failed", fields={"message_id": "ID000001"})] * MANY
    (piece,) = judged(run).evidence
    assert len(piece.text) < 2000
    assert "more" in piece.text
    assert len(piece.entries) < 20


def test_many_committed_messages_and_damaged_places_are_compared_in_linear_time() -> None:
    """To compare each of 20,000 places with each gap would take minutes."""
    run = committed_run(200)
    stores = run.stores()
    store = stores.nodes["broker-a"]
    half, committed = store.copies[1:3]
    halves = [attrs.evolve(half, log_offset=1_000_000 + nth) for nth in range(MANY)]
    others = [attrs.evolve(committed, offset=nth, prepared_at=nth * 10 + 5) for nth in range(MANY)]
    holes = tuple(Hole(nth * 10, 9, "cut") for nth in reversed(range(MANY)))
    found = attrs.evolve(store, copies=(*halves, *others), damaged=tuple(halves), holes=holes)
    by_message = {"ID000001": found.copies}
    judged_stores = attrs.evolve(stores, nodes={"broker-a": found}, by_message=by_message)
    (finding,) = headers.judge(run.history(), judged_stores, Conditions())
    assert finding.value == 0
    assert not found.is_damaged_at(9)
    assert found.is_damaged_at(1_000_003)
