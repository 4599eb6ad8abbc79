"""Texts of evidence that both judges share."""

import pytest

from rmqlab.verdict.findings import failed_attempts, listed, unsent_text


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


def test_evidence_lists_some_places_of_a_message_and_counts_the_others() -> None:
    places = [str(number) for number in range(100_000)]
    assert listed(places[:12]) == ", ".join(places[:12])
    assert listed(places) == f"{', '.join(places[:12])} and 99988 more"
    assert len(unsent_text(places, ["broker-a"])) < 200
