"""Numbers with a noun."""

import pytest

from rmqlab.runtime.text.counted import counted


@pytest.mark.parametrize(
    ("number", "plural", "text"),
    [
        (1, "messages", "1 message"),
        (0, "messages", "0 messages"),
        (2, "messages", "2 messages"),
        (1, "deliveries", "1 delivery"),
        (1, "entries", "1 entry"),
        ("1", "times", "1 time"),
        ("1.5", "times", "1.5 times"),
        (1.0, "s", "1.0 s"),
        (1, "bytes", "1 byte"),
    ],
)
def test_a_noun_is_singular_after_one(number: float | str, plural: str, text: str) -> None:
    assert counted(number, plural) == text
