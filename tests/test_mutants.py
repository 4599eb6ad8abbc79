"""The lists of `make mutants` and `make planted-bugs` fit the sources and tests.

Each old line and each named test exists.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tests.mutants.__main__ import SECONDS, TIMES, examine
from tests.mutants.faults import Fault, ListError, read_faults
from tests.planted_bugs.__main__ import bugs

if TYPE_CHECKING:
    from tests.mutants.workshop import Workshop

ROOT = Path(__file__).parents[1]
FAULTS = read_faults()


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.place) for fault in FAULTS])
def test_a_fault_applies_to_its_source_and_has_tests(fault: Fault) -> None:
    source = (ROOT / fault.file).read_text()
    assert fault.applied_to(source) != source
    assert all((ROOT / test).exists() for test in fault.tests)


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.place) for bug in bugs()])
def test_a_planted_bug_applies_to_its_source(bug: Fault) -> None:
    source = (ROOT / bug.file).read_text()
    assert bug.applied_to(source) != source


def test_the_list_is_long_enough_and_explains_its_equivalents() -> None:
    assert len(FAULTS) >= 150
    assert all(len(fault.comment) > len("equivalent: ") + 20 for fault in FAULTS if fault.is_equivalent)


def test_an_entry_without_the_parts_of_its_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("# A comment.\n@ broker/main.py : tests/broker\n- old\n")
    with pytest.raises(ListError, match=r"bad.txt:1: expected a comment"):
        read_faults(tmp_path)


def test_a_line_that_is_not_there_as_often_as_the_list_says_is_refused() -> None:
    fault = Fault(place="x.txt:1", comment="c", file="f.py", tests=("t",), old="a = 1", new="a = 2")
    assert fault.applied_to("if x:\n    a = 1\n") == "if x:\n    a = 2\n"
    with pytest.raises(ListError, match=r"f\.py has 2 lines 'a = 1', expected 1"):
        fault.applied_to("a = 1\na = 1")


class Bench:
    """A workshop that records how long tests may take."""

    def __init__(self) -> None:
        self.limits: list[float] = []

    @contextmanager
    def changed(self, _fault: Fault) -> Iterator[None]:
        yield

    def run(self, _arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        self.limits.append(seconds)
        return None, ""


@pytest.mark.parametrize(("usual", "limit"), [(1.0, SECONDS), (SECONDS, TIMES * SECONDS)])
def test_on_a_busy_machine_the_tests_of_a_fault_get_more_time(usual: float, limit: float) -> None:
    bench = Bench()
    assert examine(cast("Workshop", bench), FAULTS[0], usual).outcome == "hung"
    assert bench.limits == [limit]
