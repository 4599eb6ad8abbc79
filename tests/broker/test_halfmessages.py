"""What becomes of half messages, without a store: verdicts, records, op records (store-and-ha section 7.1)."""

import pathlib
from collections.abc import Iterator

import attrs
import pytest

from broker.halfmessages import (
    CheckLimits,
    OpRecords,
    Verdict,
    check_request,
    check_times,
    committed,
    given_up,
    judge,
    op_record,
    postponed,
    renewed,
)
from remoting import names
from remoting.codes import RequestCode
from remoting.message import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_PREPARED_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_WAIT,
    NewMessage,
    StoredMessage,
    decode_message,
    decode_messages,
    encode_message,
    java_hash,
    offset_message_id,
)
from remoting.testing import recorded_frames
