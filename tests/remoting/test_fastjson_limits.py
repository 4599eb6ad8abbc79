"""Texts of the dialect that consist of one repeated part.

A frame of spaces held up a server for 17 s, and took 2 GB.
"""

import re
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqlab.remoting.bodies.offset import ConsumeStats
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codec import DIALECT_LIMITS, decode_command
from rmqlab.remoting.fastjson import (
    BODY_LIMITS,
    TABLE_LIMITS,
    FastJsonError,
    TextLimits,
    parse_dialect,
    parse_fastjson,
)
from rmqlab.remoting.frame import JSON, Frame, RemoteProtocolError

SIZE = 2**20
MAX_CALLS = 200
"""Calls of Python functions in one parse of a few values. Before, there was one for each escape."""
PEAK = 24
"""Bytes of memory for each byte of text, at most. Before, there were 128 for each space."""
ROUNDS = [" ", "\t", "\n", r"\n", r"\x41", r"\v", r"\'", r"\q", r"\\", "\\u0041", "\\ud83d", "1", "a", "*", "\u20ac"]


def measured(text: str) -> tuple[Any, int, int]:
    """Return the value of a text, and the calls and bytes of memory for it."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    raw = text.encode()
    tracemalloc.start()
    sys.setprofile(count)
    try:
        value = parse_fastjson(raw)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return value, calls, peak


@pytest.mark.parametrize("form", ["{a:1%s}", "{a:%s1}", "{a:'%s'}", "{a:1,%s:1}", "{a:/*%s*/1}", "{a://%s\n1}"])
@pytest.mark.parametrize("part", ROUNDS, ids=ascii)
def test_one_repeated_part_needs_few_calls_and_little_memory(form: str, part: str) -> None:
    text = form.replace("%s", part * (SIZE // len(part.encode())))
    try:
        value, calls, peak = measured(text)
    except FastJsonError:
        return  # at once; the next test has those of them that are valid
    assert "a" in value
    assert calls < MAX_CALLS
    assert peak < PEAK * SIZE


@pytest.mark.parametrize(
    "text", ["{a:%s1}", "{a:1}%s", '{a:"%s"}', "{a:/*%s*/1}", "{a:1//%s\n}", "{%s'a':1}"], ids=ascii
)
def test_valid_texts_of_a_repeated_part_are_parsed(text: str) -> None:
    assert "a" in parse_fastjson(text.replace("%s", " " * SIZE).encode())


@pytest.mark.parametrize("comment", ["/**/ ", "//\n"])
def test_comments_count_as_values(comment: str) -> None:
    limits = TextLimits(values=10, size=SIZE)
    assert parse_fastjson(b"{a:1%s}" % (comment.encode() * 8), limits) == {"a": 1}
    with pytest.raises(FastJsonError, match="more than 10 values"):
        parse_fastjson(b"{a:1%s}" % (comment.encode() * 9), limits)


def test_the_dialect_of_a_table_has_a_limit_of_its_own() -> None:
    """A client of a hostile server parsed 1,400,000 values for 2 s."""
    queue = b"{brokerName:'a',queueId:0,topic:'t'}:{brokerOffset:1,consumerOffset:1,lastTimestamp:1}"
    assert ConsumeStats.decode(b"{offsetTable:{%b}}" % queue).offset_table
    assert sum(map(queue.count, (b",", b":", b"{"))) * 40_000 < TABLE_LIMITS.dialect_values
    items = b"1," * TABLE_LIMITS.dialect_values + b"1"
    assert parse_fastjson(b'{"a":[%b]}' % items, TABLE_LIMITS)["a"][0] == 1
    with pytest.raises(FastJsonError, match=f"more than {TABLE_LIMITS.dialect_values} values that only fastjson"):
        parse_fastjson(b"{a:[%b]}" % items, TABLE_LIMITS)


@pytest.mark.parametrize("comment", ["/*", "/*/", "/**", "/* * /"])
def test_comments_without_end_are_rejected(comment: str) -> None:
    with pytest.raises(FastJsonError, match="a comment without end"):
        parse_fastjson(f"{{a:{comment}1}}".encode())


def test_bodies_that_are_too_long_are_rejected() -> None:
    blanks = b" " * (BODY_LIMITS.size - len(b'{counter:"1"}'))
    assert DataVersion.decode(b'{counter:%b"1"}' % blanks).counter == 1
    with pytest.raises(BodyError, match=f"bytes: more than {BODY_LIMITS.size}"):
        DataVersion.decode(b'{counter:%b "1"}' % blanks)


def test_headers_that_are_too_long_for_the_dialect_close_the_connection() -> None:
    blanks = b" " * (DIALECT_LIMITS.size - len(b"{code:10}"))
    assert decode_command(Frame(JSON, b"{code:%b10}" % blanks)).code == 10
    with pytest.raises(RemoteProtocolError, match=f"bytes: more than {DIALECT_LIMITS.size}"):
        decode_command(Frame(JSON, b"{code:%b 10}" % blanks))


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


def one_by_one(text: str) -> str:
    """Replace each escape on its own."""
    plain = _ESCAPE.sub(
        lambda match: chr(int(match[1] or match[2], 16)) if match[3] is None else _ESCAPED.get(match[3], match[3]), text
    )
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@example(r"\\u0041 \\\u0041 \u00\41 \u00\\41 \x4\1 \\x41 \ud83d\ude00 \ud83d\\ude00 \ude00 \'\"\/" + "\\\n")
@given(st.text(alphabet="\\\\\\ux041dD8eq'\"/bv\n\x00\u20ac", max_size=30))
def test_all_escapes_at_a_time_mean_what_each_means(text: str) -> None:
    inner = re.sub(r"((?:\\.|[^\\'])*+).*", r"\1", text, flags=re.DOTALL)  # up to a quote, or a backslash at the end
    assert parse_dialect(f"'{inner}'".encode()) == one_by_one(inner)
