"""The list of faults that `make mutants` puts into the code, one at a time.

Each `*.txt` beside this file holds faults of one area. A fault is one line of the source and its replacement:

    # A report of fewer than 8 bytes counts as one.
    @ broker/ha/stream.py : tests/broker/ha/test_stream.py
    - whole = len(data) & ~7
    + whole = len(data)

The comment explains the error, or, for a fault that no test can notice, `equivalent:` and why. Behind the colon are the
tests that should notice it. The old text is looked for without its indentation and has to occur once in its file; where
it occurs more often, `@ FILE [2 of 3] : TESTS` says which is meant.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

FOLDER = Path(__file__).parent
_HEAD = re.compile(r"@ (?P<file>\S+)(?: \[(?P<nth>\d+) of (?P<of>\d+)\])? : (?P<tests>.+)")


class ListError(ValueError):
    """The list does not fit its form, or the sources.

    The text names the fault and its line.
    """


@attrs.frozen(kw_only=True)
class Fault:
    """One plausible mistake."""

    place: str
    """Where it is in the list: `store.txt:12`."""
    comment: str
    file: str
    tests: tuple[str, ...]
    old: str
    new: str
    nth: int = 1
    of: int = 1

    @property
    def is_equivalent(self) -> bool:
        """True for a fault without any effect on tests, as its comment explains."""
        return self.comment.startswith("equivalent:")

    def applied_to(self, source: str) -> str:
        """Return the source with this fault in it.

        ListError if the old line does not occur as often as the list says.
        """
        lines = source.split("\n")
        found = [index for index, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != self.of:
            raise ListError(f"{self.place}: {self.file} has {len(found)} lines {self.old!r}, expected {self.of}")
        line = lines[found[self.nth - 1]]
        lines[found[self.nth - 1]] = line.replace(self.old, self.new)
        return "\n".join(lines)


def read_faults(folder: Path = FOLDER) -> list[Fault]:
    """Read all lists. ListError for an entry that does not fit the form."""
    return [fault for path in sorted(folder.glob("*.txt")) for fault in _read(path)]


def _read(path: Path) -> Iterator[Fault]:
    number = 1
    for part in path.read_text().rstrip().split("\n\n"):
        lines = part.split("\n")
        yield _parse(f"{path.name}:{number}", lines)
        number += len(lines) + 1


def _parse(place: str, lines: list[str]) -> Fault:
    comment = " ".join(line[1:].strip() for line in lines if line.startswith("#"))
    rest = [line for line in lines if not line.startswith("#")]
    head = _HEAD.fullmatch(rest[0]) if len(rest) == 3 else None
    if head is None or not comment or not rest[1].startswith("- ") or rest[2][:1] != "+":
        raise ListError(f"{place}: expected a comment, `@ FILE : TESTS`, `- OLD` and `+ NEW`")
    return Fault(
        place=place,
        comment=comment,
        file=head["file"],
        tests=tuple(head["tests"].split()),
        old=rest[1][2:].strip(),
        new=rest[2][2:].strip() or "pass",
        nth=int(head["nth"] or 1),
        of=int(head["of"] or 1),
    )
