import pytest

from rmqlab.runtime.text.time_text import time_given


@pytest.mark.parametrize(
    ("timeout", "whole", "text"),
    [
        (3.0, None, "3 s"),
        (0.05, None, "50 ms"),
        (0.00085, None, "0.85 ms"),
        (2.9991, 3.0, "3 s"),
        (1.2, 3.0, "the 1200 ms left of 3 s"),
        (0.00085, 3.0, "the 1 ms left of 3 s"),
        (0.0, 0.5, "the 0 ms left of 500 ms"),
    ],
)
def test_a_rest_of_a_time_limit_names_the_whole(timeout: float, whole: float | None, text: str) -> None:
    assert time_given(timeout, whole) == text
