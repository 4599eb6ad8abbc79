"""The table of kinds in docs/planted.md, from their declarations.

`python -m tests.planted.page` writes it.
"""

from pathlib import Path

from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.model import Expected, Kind

PAGE = Path(__file__).parents[2] / "docs" / "planted.md"
_BEGIN = "| kind | what is planted | a judge must report | may also change |\n"


def render_table() -> str:
    """Return the table, as Markdown."""
    return _BEGIN + "|---|---|---|---|\n" + "".join(map(_row, KINDS.values()))


def with_table(text: str) -> str:
    """Return the text of the page with its table replaced."""
    before, begin, after = text.partition(_BEGIN)
    assert begin, f"{PAGE} has no table of kinds"
    _, end, rest = after.partition("\n\n")
    return before + render_table() + ("\n" + rest if end else "")


def _row(kind: Kind) -> str:
    expected = "; ".join(map(_expectation, kind.expects))
    consequences = " ".join(f"`{metric}`" for metric in kind.consequences)
    return f"| `{kind.name}` | {kind.does} | {expected} | {consequences} |\n"


def _expectation(expected: Expected) -> str:
    unknown = " unknown" if expected.is_unknown else ""
    return f"`{expected.metric}`{unknown}" + (f", with {expected.must_name}" if expected.must_name else "")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
