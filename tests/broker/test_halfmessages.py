"""Verdicts and op records of half messages, without a store.

Source: store-and-ha section 7.1.
"""

from collections.abc import Callable

import attrs
import pytest

from rmqlab.broker.deferred.halfmessages import (
    MILLIS_PER_HOUR,
    CheckAction,
    CheckLimits,
    OpRecords,
    check_action,
    check_request,
    committed,
    discarded_copy,
    op_record,
    postponed,
    renewed,
    resolved_offset,
)
from rmqlab.remoting.message import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_PGROUP,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_PREPARED_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_UNIQ_KEY,
    NewMessage,
    RecordError,
    StoredMessage,
    body_crc,
    decode_message,
    format_properties,
)

LIMITS = CheckLimits(timeout=6000, check_max=15, reserved_time=72 * MILLIS_PER_HOUR)
BORN = 1_800_000_000_000


def half_message(**properties: str) -> StoredMessage:
    properties = {
        PROPERTY_REAL_TOPIC: "orders",
        PROPERTY_REAL_QID: "3",
        PROPERTY_PGROUP: "P",
        PROPERTY_UNIQ_KEY: "U",
        **properties,
    }
    return StoredMessage(
        store_size=0, body_crc=body_crc(b"body"), queue_id=0, flag=7, queue_offset=5, physical_offset=1000, sys_flag=0,
        born_timestamp=BORN, born_host=("10.0.0.1", 5), store_timestamp=BORN + 2, store_host=("10.0.0.2", 10911),
        reconsume_times=0, prepared_transaction_offset=0, body=b"body", topic="RMQ_SYS_TRANS_HALF_TOPIC",
        properties_text=format_properties(properties), properties=properties,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "age", "verdict"),
    [
        ({}, 0, CheckAction.WAIT),
        ({}, 5999, CheckAction.WAIT),
        ({}, 6000, CheckAction.CHECK),
        ({}, -1, CheckAction.CHECK),
        ({PROPERTY_TRANSACTION_CHECK_TIMES: "14"}, 6000, CheckAction.CHECK),
        ({PROPERTY_TRANSACTION_CHECK_TIMES: "15"}, 6000, CheckAction.DISCARD),
        ({PROPERTY_TRANSACTION_CHECK_TIMES: "many"}, 6000, CheckAction.CHECK),
        ({}, 72 * MILLIS_PER_HOUR, CheckAction.CHECK),
        ({}, 72 * MILLIS_PER_HOUR + 1, CheckAction.DISCARD),
        ({}, 2**63 - 1, CheckAction.DISCARD),
        ({}, 2**63, CheckAction.CHECK),  # overflows to an age below 0
        ({PROPERTY_CHECK_IMMUNITY_TIME: "100"}, 99_999, CheckAction.POSTPONE),
        ({PROPERTY_CHECK_IMMUNITY_TIME: "100"}, 100_000, CheckAction.CHECK),
        ({PROPERTY_CHECK_IMMUNITY_TIME: "1"}, 1000, CheckAction.CHECK),
        ({PROPERTY_CHECK_IMMUNITY_TIME: "-1"}, 5999, CheckAction.POSTPONE),
        ({PROPERTY_CHECK_IMMUNITY_TIME: "long"}, 6000, CheckAction.CHECK),
        ({PROPERTY_CHECK_IMMUNITY_TIME: str(2**53)}, 6000, CheckAction.POSTPONE),
        ({PROPERTY_CHECK_IMMUNITY_TIME: str(2**62)}, 0, CheckAction.CHECK),  # 1000 times that is 0 in 64 bits
    ],
)
def test_age_and_number_of_checks_decide(properties: dict[str, str], age: int, verdict: CheckAction) -> None:
    """store-ha#72: checked after 6 s or its own time, at most 15 times and 72 h."""
    assert check_action(half_message(**properties), LIMITS, BORN + age, BORN + 3) is verdict


@pytest.mark.parametrize(("times", "verdict"), [(None, CheckAction.CHECK), ("0", CheckAction.DISCARD)])
def test_a_message_without_a_count_is_checked_once_even_if_no_check_is_allowed(
    times: str | None, verdict: CheckAction
) -> None:
    """TransactionalMessageServiceImpl.needDiscard compares only a count that exists."""
    half = half_message(**({} if times is None else {PROPERTY_TRANSACTION_CHECK_TIMES: times}))
    assert check_action(half, attrs.evolve(LIMITS, check_max=0), BORN + 6000, BORN + 6000) is verdict


@pytest.mark.parametrize(
    ("properties", "began", "verdict"),
    [
        ({}, BORN + 2, CheckAction.WAIT),
        ({}, BORN + 3, CheckAction.CHECK),
        ({PROPERTY_CHECK_IMMUNITY_TIME: "1"}, BORN + 2, CheckAction.WAIT),
        ({PROPERTY_TRANSACTION_CHECK_TIMES: "15"}, BORN + 2, CheckAction.DISCARD),
    ],
)
def test_a_message_stored_after_the_round_began_waits(
    properties: dict[str, str], began: int, verdict: CheckAction
) -> None:
    """TransactionalMessageServiceImpl.check: "Fresh stored"."""
    assert check_action(half_message(**properties), LIMITS, BORN - 1, began) is verdict


def test_a_committed_message_is_the_half_message_elsewhere() -> None:
    """store-ha#71, broker-requests#49: sysFlag 8 and the half message's offset differ.

    All other fields are as they were.
    """
    half = half_message(TAGS="red")
    message = committed(half)
    assert (message.topic, message.queue_id, message.sys_flag) == ("orders", 3, 8)
    assert message.prepared_transaction_offset == 1000
    assert (message.properties, message.body, message.flag) == (half.properties_text, b"body", 7)
    assert (message.born_timestamp, message.born_host, message.store_host) == (BORN, half.born_host, half.store_host)


def test_an_op_record_has_the_offset_in_digits_and_the_tag_d() -> None:
    """store-ha#71."""
    record = op_record(1234, ("10.0.0.2", 10911), BORN)
    assert (record.topic, record.queue_id, record.body) == ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"1234")
    assert record.properties == "WAIT\x01true\x02TAGS\x01d"
    assert (record.born_host, record.born_timestamp) == (("10.0.0.2", 10911), BORN)


def test_a_postponed_message_remembers_where_it_stood_at_first() -> None:
    once = postponed(half_message())
    assert f"{PROPERTY_TRAN_PREPARED_QUEUE_OFFSET}\x015" in once.properties
    twice = postponed(half_message(**{PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: "2"}))
    assert f"{PROPERTY_TRAN_PREPARED_QUEUE_OFFSET}\x012" in twice.properties


def test_a_postponement_counts_as_a_check_and_clears_wait() -> None:
    """TransactionalMessageServiceImpl.needDiscard counts before all else."""
    copy = postponed(half_message(WAIT="true", **{PROPERTY_TRANSACTION_CHECK_TIMES: "3"}))
    assert f"{PROPERTY_TRANSACTION_CHECK_TIMES}\x014\x02" in copy.properties
    assert "WAIT\x01false\x02" in copy.properties


@pytest.mark.parametrize("copied", [renewed, postponed])
def test_a_copy_in_the_half_queue_loses_flag_and_reconsume_times(copied: Callable[[StoredMessage], NewMessage]) -> None:
    """TransactionalMessageBridge.renewHalfMessageInner."""
    copy = copied(attrs.evolve(half_message(), reconsume_times=4))
    assert (copy.flag, copy.reconsume_times) == (0, 0)


@pytest.mark.parametrize(
    ("times", "then"), [(None, "1"), ("14", "15"), ("15", "15"), ("many", "0"), ("99999999999", "0")]
)
def test_a_discarded_message_has_one_more_check_unless_it_had_all(times: str | None, then: str) -> None:
    """TransactionalMessageServiceImpl.needDiscard: an invalid number of checks is -1."""
    half = half_message(**({} if times is None else {PROPERTY_TRANSACTION_CHECK_TIMES: times}))
    copy = discarded_copy(half, check_max=15)
    assert f"{PROPERTY_TRANSACTION_CHECK_TIMES}\x01{then}" in copy.properties.split("\x02")
    assert copy.flag == 7


def test_a_check_shows_the_message_as_sent_at_the_offsets_of_its_new_half() -> None:
    """broker-requests#51, #52."""
    half = half_message(**{PROPERTY_TRANSACTION_CHECK_TIMES: "1"})
    assert f"{PROPERTY_TRANSACTION_CHECK_TIMES}\x012" in renewed(half).properties
    asked = check_request(half, queue_offset=9, physical_offset=2000)
    shown = decode_message(asked.body)
    assert (shown.topic, shown.queue_id, shown.queue_offset, shown.physical_offset) == ("orders", 3, 9, 2000)
    assert shown.properties == half.properties | {"TRANSACTION_CHECK_TIMES": "2", "WAIT": "false"}
    assert shown.store_size == len(asked.body)
    assert shown.is_intact
    unchanged = attrs.evolve(
        shown, topic=half.topic, queue_id=0, queue_offset=5, physical_offset=1000, store_size=0,
        properties=half.properties, properties_text=half.properties_text,
    )  # fmt: skip
    assert unchanged == half


# ---- op records ------------------------------------------------------------------------------------------


def test_op_records_resolve_their_half_messages_and_are_used_up_from_the_front() -> None:
    ops = OpRecords(progress=10)
    for half_offset in (7, 5, 6):
        ops.add(half_offset)
    assert ops.take(4) is False
    assert ops.take(5) is True
    assert ops.progress == 10  # the one before it is not used up
    assert ops.take(7) is True
    assert (ops.progress, ops.next_offset) == (12, 13)
    assert ops.take(5) is False
    assert ops.take(6) is True
    assert ops.progress == 13


def test_op_records_that_resolve_nothing_more_are_used_up_at_once() -> None:
    ops = OpRecords(progress=0)
    ops.add(None)
    ops.add(3)
    ops.add(None)
    assert ops.progress == 1
    assert ops.take(3)
    assert ops.progress == 3
    assert not ops._used, "what is behind the progress is not kept"


@pytest.mark.parametrize(
    ("body", "tag", "text"),
    [
        (b"5", "d", ""),
        (b"9", "d", ""),
        (b"10", "d", "half message 10, the half queue ends at 10"),
        (b"5", "x", "tag 'x', expected 'd'"),
        (b"", "d", "body b'', expected an offset"),
        (b"5 ", "d", "expected an offset"),
        (b"9" * 20, "d", "expected an offset"),
    ],
)
def test_an_op_record_names_a_half_message_that_there_is(body: bytes, tag: str, text: str) -> None:
    record = attrs.evolve(half_message(TAGS=tag), body=body)
    if text:
        with pytest.raises(RecordError, match=text):
            resolved_offset(record, 10)
    else:
        assert resolved_offset(record, 10) == int(body)
