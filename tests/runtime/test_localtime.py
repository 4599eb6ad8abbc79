"""Local time of any moment."""

from datetime import datetime

import pytest

from rmqlab.runtime.text.localtime import local_time


def test_a_moment_is_that_of_the_machine() -> None:
    assert local_time(1_795_200_000_999).timestamp() == 1_795_200_000


@pytest.mark.parametrize(
    ("millis", "year"),
    [(10**15, 9999), (2**63 - 1, 9999), (10**300, 9999), (-(10**15), 1), (-(2**63), 1), (-(10**300), 1)],
)
def test_a_moment_that_python_lacks_is_the_nearest(millis: int, year: int) -> None:
    """A clock step, or the store time of a hostile record."""
    assert local_time(millis).year == year
    assert isinstance(local_time(millis), datetime)
