"""Flow control: sends that wait too long are rejected with code 2.

Source: broker-requests section 1.9.
"""

import json
import re
from collections.abc import Callable

import pytest

from rmqlab.broker.testing import TalkingBroker, pull_fields, send_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode

Opener = Callable[..., TalkingBroker]
HEARTBEAT = json.dumps({"clientID": "c", "consumerDataSet": [], "producerDataSet": []}).encode()


def send(talk: TalkingBroker, code: int = RequestCode.SEND_MESSAGE_V2) -> tuple[int, str]:
    reply = talk.ask(code, send_fields("T"), b"hello")
    return reply.code, reply.remark or ""


def test_a_send_that_has_waited_200_ms_is_refused_and_not_stored(talk: TalkingBroker) -> None:
    """broker-requests#24."""
    talk.passing.waited = talk.passing.worked = 0.337
    code, remark = send(talk)
    assert code == ResponseCode.SYSTEM_BUSY
    assert re.fullmatch(
        r"\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, period in queue: \d+ms, size of queue: 0",
        remark,
    )
    assert talk.broker.store.max_commit_log_offset == 0
    talk.passing.waited = talk.passing.worked = 0
    assert send(talk)[0] == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("code", "body", "limit"),
    [
        (RequestCode.SEND_MESSAGE, b"", 0.2),
        (RequestCode.SEND_BATCH_MESSAGE, b"", 0.2),
        (RequestCode.CONSUMER_SEND_MSG_BACK, b"", 0.2),
        (RequestCode.PULL_MESSAGE, b"", 5.0),
        (RequestCode.LITE_PULL_MESSAGE, b"", 5.0),
        (RequestCode.HEART_BEAT, HEARTBEAT, 31.0),
        (RequestCode.END_TRANSACTION, b"", 3.0),
    ],
)
def test_each_kind_of_request_may_wait_its_own_time(talk: TalkingBroker, code: int, body: bytes, limit: float) -> None:
    """broker-requests#24."""
    talk.passing.waited = talk.passing.worked = limit * 0.9
    assert talk.ask(code, pull_fields("T"), body).code != ResponseCode.SYSTEM_BUSY
    talk.passing.waited = talk.passing.worked = limit + 0.01
    assert talk.ask(code, pull_fields("T"), body).code == ResponseCode.SYSTEM_BUSY


def test_other_requests_wait_without_a_limit(talk: TalkingBroker) -> None:
    talk.passing.waited = talk.passing.worked = 600.0
    assert talk.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS


def test_time_that_others_had_the_processor_does_not_count(talk: TalkingBroker) -> None:
    talk.passing.waited, talk.passing.worked = 60.0, 0.1
    assert send(talk)[0] == ResponseCode.SUCCESS


def test_sends_behind_a_message_that_took_long_to_write_are_refused(talk: TalkingBroker) -> None:
    """broker-requests#24: the disk blocks, and this thread with it."""
    assert send(talk)[0] == ResponseCode.SUCCESS
    talk.broker.stats.put_times.count(1.5)
    talk.passing.waited = 600.0
    assert send(talk)[1].startswith(
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
    )
    assert talk.ask(RequestCode.PULL_MESSAGE, pull_fields("T")).code == ResponseCode.SUCCESS
    talk.passing.waited = 0  # the next pass
    assert send(talk)[0] == ResponseCode.SUCCESS


def test_an_overloaded_broker_drops_oneway_sends_without_a_reply(talk: TalkingBroker) -> None:
    """broker-requests#2."""
    talk.passing.waited = talk.passing.worked = 1.0
    assert talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"hello", oneway=True) == []
    assert talk.broker.store.max_commit_log_offset == 0


def test_limits_are_settings_and_count_at_once(open_broker: Opener) -> None:
    talk = open_broker(wait_time_mills_in_send_queue=500)
    talk.passing.waited = talk.passing.worked = 0.4
    assert send(talk)[0] == ResponseCode.SUCCESS
    talk.passing.waited = talk.passing.worked = 0.6
    assert send(talk)[0] == ResponseCode.SYSTEM_BUSY
    talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerFastFailureEnable=false\n")
    assert send(talk)[0] == ResponseCode.SUCCESS
