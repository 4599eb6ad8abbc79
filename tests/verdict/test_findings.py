"""Texts of evidence that both judges share."""

import pytest

from rmqlab.verdict.findings import failed_attempts


@pytest.mark.parametrize(
    ("failures", "windows", "text"),
    [
        (1, 1, "1 attempt failed in 0.50 s"),
        (7, 1, "7 attempts failed in 0.50 s"),
        (7, 3, "7 attempts failed in 0.50 s; the longest of 3 windows"),
    ],
)
def test_one_window_is_not_counted(failures: int, windows: int, text: str) -> None:
    assert failed_attempts(failures, 0.5, windows) == text
