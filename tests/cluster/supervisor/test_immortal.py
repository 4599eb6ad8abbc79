"""Immortal objects, where Python has them: references are not counted."""

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys
from rmqlab.cluster.supervisor.fork.immortal import make_objects_immortal

class Point:
    def __init__(self, x):
        self.x = x

points = [Point(f"{n} of the {n}th") for n in range(1000)]
made = make_objects_immortal()
again = make_objects_immortal()

def growth(one):
    before = sys.getrefcount(one)
    references = [one] * 5
    return sys.getrefcount(one) - before

later = Point("later")
print(made, again, growth(points[7]), growth(points[7].x), growth(Point.__init__), growth(later), gc.get_freeze_count())
"""
_HAS_IMMORTAL = sys.implementation.name == "cpython" and sys.version_info >= (3, 12)


@pytest.fixture(scope="module")
def printed() -> list[int]:
    """Number of objects made immortal, then again; growths of counts by 5 references."""
    run = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    return [int(number) for number in run.stdout.split()]


def test_references_to_immortal_objects_are_not_counted(printed: list[int]) -> None:
    made, again, *growths = printed[:5]
    if _HAS_IMMORTAL:
        assert made > 2000
        assert again < made / 100  # what was allocated meanwhile
        assert growths == [0, 0, 0]
    else:
        assert (made, again) == (0, 0)
        assert growths == [5, 5, 5]


def test_later_objects_are_mortal(printed: list[int]) -> None:
    assert printed[5] == 5


def test_garbage_collection_visits_none_of_them(printed: list[int]) -> None:
    assert printed[6] > 1000
