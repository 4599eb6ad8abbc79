"""The conformance table names every item of the checklist, and every test that claims one."""

import ast
import pathlib
import re
from collections.abc import Iterator

TESTS = pathlib.Path(__file__).parent
ITEMS = range(1, 45)
_CITED = re.compile(r"remoting#(\d+)(?!\.?\d)((?:, #\d+)*)(?: to #(\d+))?")


def cited_items(text: str) -> set[int]:
    """Give the items that a docstring cites: `remoting#3, #4` or `remoting#30 to #32`."""
    items = set()
    for first, more, last in _CITED.findall(text):
        items |= {int(first), *map(int, re.findall(r"\d+", more))}
        items |= set(range(int(first), int(last) + 1)) if last else set()
    return items


def claims() -> Iterator[tuple[int, str]]:
    """Give (item, test) for each test that names an item in its docstring or its parameters."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                text = "\n".join([ast.get_docstring(node) or "", *map(ast.unparse, node.decorator_list)])
                for item in cited_items(text):
                    yield item, f"{path.relative_to(TESTS)}::{node.name}"


def table() -> dict[int, tuple[set[str], str]]:
    """Read the table: by item, the tests and what waits."""
    rows = {}
    for line in (TESTS / "conformance_remoting.md").read_text("utf-8").splitlines():
        if match := re.match(r"\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", line):
            rows[int(match[1])] = set(re.findall(r"`([^`]+)`", match[2])), match[3].strip()
    return rows


def test_every_item_is_proven_or_says_why_it_waits() -> None:
    rows = table()
    assert sorted(rows) == list(ITEMS)
    assert [item for item, (tests, waits) in rows.items() if not tests and not waits] == []


def test_the_table_says_what_the_tests_say() -> None:
    """A test that is renamed, added or taken away has to be so in the table too."""
    claimed: dict[int, set[str]] = {item: set() for item in ITEMS}
    for item, test in claims():
        claimed[item].add(test)
    for item, (tests, _) in table().items():
        assert tests <= claimed[item], f"item {item}: no such claim: {sorted(tests - claimed[item])}"


def test_citations_are_understood() -> None:
    assert cited_items("remoting#3, #4. And remoting#30 to #32; store-ha#7, remoting#4.2") == {3, 4, 30, 31, 32}
