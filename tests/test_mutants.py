"""The lists of `make mutants` and `make planted-bugs` fit the sources and tests.

Each old line and each named test exists.
"""

from pathlib import Path

import pytest

from tests.mutants.faults import Fault, ListError, read_faults
from tests.planted_bugs.__main__ import bugs

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
