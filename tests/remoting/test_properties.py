"""Java's `key=value` text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting.properties import parse_properties_text, properties_file_text, write_properties_text

PLAIN = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\\=:#! \t\f\r\n"), min_size=1)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("brokerName = broker-a\r\nbrokerId=0\r", {"brokerName": "broker-a", "brokerId": "0"}),
        ("a b\nc:d\ne\nf=\n=g\nh==i", {"a": "b", "c": "d", "e": "", "f": "", "": "g", "h": "=i"}),
        ("# note\n  ! note\n\n k=v # not a note", {"k": "v # not a note"}),
        ("list=a;\\\n   b;\\\n   c\nend=x\\\\\nopen=y\\", {"list": "a;b;c", "end": "x\\", "open": "y"}),
        ("a\\ b\\=c=\\u00e9\\t\\n\\q", {"a b=c": "é\t\nq"}),
        ("k=1\nk=2", {"k": "2"}),
        ("face=\\ud83d\\ude00", {"face": "\U0001f600"}),
        ("storePath=/tmp/a b ", {"storePath": "/tmp/a b "}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, pairs: dict[str, str]) -> None:
    """remoting-and-nameserver 3.3, broker-requests#61"""
    assert parse_properties_text(text) == pairs


@given(st.dictionaries(PLAIN, PLAIN))
def test_written_properties_are_read_again(pairs: dict[str, str]) -> None:
    """remoting#39"""
    assert parse_properties_text(write_properties_text(pairs)) == pairs


def test_each_pair_ends_its_line_and_nothing_is_escaped() -> None:
    """RocketMQ's own writer does not escape: reading loses a backslash in a value."""
    assert write_properties_text({"a": "b=c", "d": "C:\\x"}) == "a=b=c\nd=C:\\x\n"


ANY = st.text(alphabet=st.one_of(st.sampled_from("\\=:#! \t\f\r\nu0aé"), st.characters(codec="utf-8")), max_size=12)


@given(st.dictionaries(ANY.filter(bool), ANY))
def test_properties_with_any_characters_round_trip_through_a_file(pairs: dict[str, str]) -> None:
    """issue 12.1: no value becomes another line or another key."""
    assert parse_properties_text(properties_file_text(pairs)) == pairs
