"""Conformance tables name every item of the checklists and each claiming test."""

import ast
import functools
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

TESTS = pathlib.Path(__file__).parent


class Checklist(NamedTuple):
    """One checklist: how docstrings cite it, the table's file, its items."""

    name: str
    file: str
    items: range


CHECKLISTS = [
    Checklist("remoting", "conformance_remoting.md", range(1, 45)),
    Checklist("store-ha", "conformance_store_ha.md", range(1, 77)),
    Checklist("broker-requests", "conformance_broker_requests.md", range(1, 67)),
    Checklist("dledger", "conformance_dledger.md", range(1, 63)),
]
each_checklist = pytest.mark.parametrize("checklist", CHECKLISTS, ids=[one.name for one in CHECKLISTS])


def cited_items(name: str, text: str) -> set[int]:
    """Return a docstring's checklist items: `remoting#3, #4` or `remoting#30 to #32`."""
    items = set()
    for first, more, last in re.findall(rf"{name}#(\d+)(?!\.?\d)((?:, #\d+)*)(?: to #(\d+))?", text):
        items |= {int(first), *map(int, re.findall(r"\d+", more))}
        items |= set(range(int(first), int(last) + 1)) if last else set()
    return items


@functools.cache
def texts_of_tests() -> list[tuple[str, str]]:
    """Return docstring and parameters of each test, by its id.

    Parsing all tests takes seconds.
    """
    return [
        (
            f"{path.relative_to(TESTS)}::{node.name}",
            "\n".join([ast.get_docstring(node) or "", *map(ast.unparse, node.decorator_list)]),
        )
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    ]


def claims(name: str) -> Iterator[tuple[int, str]]:
    """Yield (item, test) for each item in a test's docstring or parameters."""
    for test, text in texts_of_tests():
        for item in cited_items(name, text):
            yield item, test


def table(file: str) -> dict[int, tuple[set[str], str]]:
    """Read the table: by item, the tests and what waits."""
    rows = {}
    for line in (TESTS / file).read_text("utf-8").splitlines():
        if match := re.match(r"\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", line):
            rows[int(match[1])] = set(re.findall(r"`([^`]+)`", match[2])), match[3].strip()
    return rows


@each_checklist
def test_every_item_is_proven_or_says_why_it_waits(checklist: Checklist) -> None:
    rows = table(checklist.file)
    assert sorted(rows) == list(checklist.items)
    assert [item for item, (tests, waits) in rows.items() if not tests and not waits] == []


@each_checklist
def test_the_table_says_what_the_tests_say(checklist: Checklist) -> None:
    """A test that is renamed, added or taken away has to be so in the table too."""
    claimed: dict[int, set[str]] = {item: set() for item in checklist.items}
    for item, test in claims(checklist.name):
        claimed[item].add(test)
    for item, (tests, _) in table(checklist.file).items():
        assert tests <= claimed[item], f"item {item}: no such claim: {sorted(tests - claimed[item])}"


def test_citations_are_understood() -> None:
    assert cited_items("remoting", "remoting#3, #4. And remoting#30 to #32; store-ha#7, remoting#4.2") == {
        3,
        4,
        30,
        31,
        32,
    }
