"""Numbers in text that anyone may have written."""

import pytest

from rmqlab.runtime.text.digits import number_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        (b"007", 7),
        ("9" * 18, 10**18 - 1),
        ("", None),
        (b"", None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("²", None),
        ("٣", None),
        ("9" * 19, None),
        (b"9" * 5000, None),
    ],
)
def test_ascii_digits_are_a_number(text: str | bytes, number: int | None) -> None:
    assert number_of(text) == number
