"""Suggestions for misspelt names."""

import pytest

from rmqlab.runtime.text.nearmiss import LONGEST_WORD, near_miss

KNOWN = ("listen_port", "broker_role", "broker_id")


@pytest.mark.parametrize(
    ("word", "most", "expected"),
    [
        ("listen_prot", 1, "; did you mean listen_port?"),
        ("LISTEN_PORT", 1, "; did you mean listen_port?"),
        ("broker_i", 2, "; did you mean broker_id or broker_role?"),
        ("broker_i", 1, "; did you mean broker_id?"),
        ("zzz", 1, ""),
        ("", 1, ""),
    ],
)
def test_similar_names_are_suggested_whatever_their_case(word: str, most: int, expected: str) -> None:
    assert near_miss(word, KNOWN, most) == expected


def test_the_written_form_of_a_known_name_is_suggested() -> None:
    assert near_miss("slavereadenabel", iter(["slaveReadEnable"])) == "; did you mean slaveReadEnable?"


@pytest.mark.parametrize(("extra", "is_compared"), [(0, True), (1, False)])
def test_long_words_are_not_compared(extra: int, is_compared: bool) -> None:  # noqa: FBT001
    word = "x" * (LONGEST_WORD + extra)
    assert bool(near_miss(word, ["x" * LONGEST_WORD])) == is_compared
