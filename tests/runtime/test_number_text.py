"""Numbers for people."""

import pytest

from rmqlab.runtime.text.number_text import plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3.0, "3"),
        (0.25, "0.25"),
        (9.4451239, "9.44512"),
        (999_999, "999999"),
        (1_234_567, "1234567"),
        (-1_234_567.8, "-1234568"),
        (2e9, "2000000000"),
        (0.00001, "0.00001"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_has_no_exponent(value: float, text: str) -> None:
    assert plain(value) == text


def test_rounding_up_to_a_thousand_gives_no_exponent() -> None:
    assert f"{999.6:.3g}" == "1e+03"
    assert plain(999.6, 3) == "1000"
