"""Headers of sends."""

import msgspec
import pytest

from rmqlab.remoting.header import (
    FALSE,
    TRUE,
    HeaderError,
    JavaBoolean,
    header_from_fields,
    header_from_json,
    header_to_fields,
)
from rmqlab.remoting.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)

NAMES = b"""{"producerGroup":"P","topic":"T","defaultTopic":"TBW102","defaultTopicQueueNums":"4","queueId":"-1",
    "sysFlag":"1","bornTimestamp":"1795197778877","flag":"7","properties":"KEYS\\u0001k","reconsumeTimes":"2",
    "unitMode":"false","maxReconsumeTimes":"16","batch":"true"}"""
LETTERS = b"""{"a":"P","b":"T","c":"TBW102","d":"4","e":"-1","f":"1","g":"1795197778877","h":"7","i":"KEYS\\u0001k",
    "j":"2","k":"false","l":"16","m":"true","n":"broker-a"}"""
JS = b'{"a":"P","b":"T","c":"TBW102","d":4,"e":0,"f":0,"g":1795197778877,"h":0,"i":"","j":0,"k":false}'


def test_names_and_letters_say_the_same() -> None:
    """broker-requests#11"""
    named = header_from_json(SendMessageRequestHeader, NAMES)
    lettered = header_from_json(SendMessageRequestHeaderV2, LETTERS)
    attributes = SendMessageRequestHeader.__struct_fields__
    assert attributes == SendMessageRequestHeaderV2.__struct_fields__
    assert [getattr(named, name) for name in attributes] == [getattr(lettered, name) for name in attributes]
    assert sorted(header_to_fields(lettered)) == list("abcdefghijklm")
    assert isinstance(lettered, SendMessageRequestHeader)


def test_a_js_client_sends_numbers_and_no_batch_field() -> None:
    """broker-requests#12"""
    header = header_from_json(SendMessageRequestHeaderV2, JS)
    assert (header.queue_id, header.born_timestamp, header.properties) == (0, 1795197778877, "")
    assert (header.batch, header.unit_mode, header.max_reconsume_times) == (FALSE, FALSE, None)


@pytest.mark.parametrize(
    ("value", "meant"),
    [('"true"', TRUE), ('"TRUE"', TRUE), ("true", TRUE), ('"1"', FALSE), ("1", FALSE), ('"x"', FALSE)],
)
def test_only_the_text_true_is_true(value: str, meant: JavaBoolean) -> None:
    """broker-requests#4"""
    wire = JS.replace(b'"k":false', b'"k":false,"m":' + value.encode())
    assert header_from_json(SendMessageRequestHeaderV2, wire).batch is meant


@pytest.mark.parametrize("missing", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_missing_header_field_is_decoded_as_none(missing: str) -> None:
    """broker-requests 0.1, 1.1: 4.9.8 logs it, and continues."""
    header = header_from_json(SendMessageRequestHeaderV2, LETTERS.replace(f'"{missing}":'.encode(), b'"z":'))
    names = {field.encode_name: field.name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)}
    assert getattr(header, names[missing]) is None


@pytest.mark.parametrize("text", ["abc", "2147483648", " 1", ""])
def test_an_invalid_number_is_named(text: str) -> None:
    """remoting#7, class FastCodesHeader"""
    with pytest.raises(HeaderError, match="SendMessageRequestHeaderV2: e is not a number"):
        header_from_fields(SendMessageRequestHeaderV2, {"e": text})


def test_a_response_gives_region_and_trace_their_own_names() -> None:
    """broker-requests#20"""
    failed = SendMessageResponseHeader(region="DefaultRegion", trace_on=TRUE)
    assert header_to_fields(failed) == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def test_a_message_handed_back_needs_offset_group_and_level() -> None:
    """broker-requests#47"""
    wire = b'{"offset":"100","group":"G","delayLevel":"-1"}'
    header = header_from_json(ConsumerSendMsgBackRequestHeader, wire)
    assert header == ConsumerSendMsgBackRequestHeader(offset=100, group="G", delay_level=-1)
