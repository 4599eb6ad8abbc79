"""The form of docstrings that CONTRIBUTING.md asks for (issue 13.5)."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PLACES = ("broker", "cluster", "nameserver", "rmqlab", "examples", "tests")
LONGEST = 80
"""Characters of a docstring's first line."""
MOST_LINES = 400
"""Lines of a file."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[pathlib.Path]:
    """Return all Python files once, without those behind rmqlab's links."""
    return [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py")) if not _is_linked(path)]


def _is_linked(path: pathlib.Path) -> bool:
    return path.resolve() != ROOT.resolve() / path.relative_to(ROOT)


def long_first_lines(tree: ast.Module) -> Iterator[str]:
    """Yield the first lines of docstrings that are too long."""
    for node in ast.walk(tree):
        if isinstance(node, _Documented):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if len(first) > LONGEST:
                yield first


@pytest.mark.parametrize("place", PLACES)
def test_docstrings_begin_with_a_short_line_and_files_are_short(place: str) -> None:
    own = [path for path in sources() if path.is_relative_to(ROOT / place)]
    texts = {path.relative_to(ROOT): path.read_text() for path in own}
    assert len(texts) > 5
    long_lines = {path: found for path, text in texts.items() if (found := list(long_first_lines(ast.parse(text))))}
    assert long_lines == {}
    assert {path: count for path, text in texts.items() if (count := len(text.splitlines())) > MOST_LINES} == {}


def test_the_check_finds_long_first_lines() -> None:
    text = f'"""Short.\n\n{"x" * 90}\n"""\ndef f():\n    """{"y" * 81}"""\n'
    assert list(long_first_lines(ast.parse(text))) == ["y" * 81]
