"""Ext fields that are like others before them are read as if they were the first."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting import codec
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.command import Command, request
from rmqlab.remoting.frame import ROCKETMQ, FrameDecoder
from rmqlab.remoting.header import Header, HeaderError, header_from_fields
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqlab.remoting.templates import PATIENCE, TemplateFields

SEND = {
    "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01AA\x02WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip

LONG = SEND | {
    "producerGroup": "producers", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "1", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0",
}  # fmt: skip
"""Read in both versions of the header."""

one_of_a_size = st.sampled_from(
    ["7", "3", "-", "x", "中", "true", "fals", "TRUE", "9999999999", "2147483648", "+000000001"]
)


@pytest.fixture(autouse=True)
def no_templates() -> Iterator[None]:
    codec._templates.clear()
    yield
    codec._templates.clear()


def received(fields: dict[str, str]) -> Command:
    """As it is received."""
    (frame,) = FrameDecoder().feed(encode_command(request(310, fields, serialize_type=ROCKETMQ)))
    return decode_command(frame)


def header_or_error(make: Callable[..., Header], *arguments: object) -> Header | str:
    try:
        return make(*arguments)
    except HeaderError as exc:
        return str(exc)


def is_like_another(command: Command) -> bool:
    return isinstance(command.raw_fields, TemplateFields)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "e", "g", "i", "k", "odd"]), one_of_a_size, min_size=1), max_size=20)
)
def test_whatever_came_before_a_block_means_what_it_says(changes: list[dict[str, str]]) -> None:
    codec._templates.clear()
    for change in changes:
        fields = SEND | change
        command = received(fields)
        anew = header_or_error(header_from_fields, SendMessageRequestHeaderV2, fields)
        assert header_or_error(command.header, SendMessageRequestHeaderV2) == anew
        assert list(command.ext_fields.items()) == list(fields.items())


def test_after_one_that_differs_in_a_value_others_that_do_are_alike() -> None:
    assert not is_like_another(received(SEND))
    assert is_like_another(received(SEND))
    assert not is_like_another(received(SEND | {"e": "1"}))
    alike = received(SEND | {"e": "2"})
    assert is_like_another(alike)
    assert alike.header(SendMessageRequestHeaderV2).queue_id == 2
    assert not is_like_another(received(SEND | {"g": "1700000000001", "e": "3"}))
    assert is_like_another(received(SEND | {"g": "1700000000002", "e": "4"}))
    assert not is_like_another(received(SEND | {"g": "17", "e": "4"})), "another size"


def test_a_template_of_other_names_or_lengths_gives_way_in_time() -> None:
    received(SEND | {"d": "4", "e": "10"})
    for _ in range(PATIENCE):
        assert not is_like_another(received(SEND | {"d": "16", "e": "1"}))
    assert is_like_another(received(SEND | {"d": "16", "e": "1"}))


def test_the_same_fields_are_read_as_headers_of_several_kinds() -> None:
    for value in ("1", "2", "3"):
        command = received(LONG | {"e": value})
        assert command.header(SendMessageRequestHeaderV2).queue_id == int(value)
        with pytest.raises(HeaderError, match="consumerGroup"):
            command.header(PullMessageRequestHeader)
        assert command.header(SendMessageRequestHeader) == header_from_fields(
            SendMessageRequestHeader, LONG | {"e": value}
        )
