"""Plays docs/lessons.md, and compares the output that it shows."""

import functools
import pathlib
import re
import shlex
from collections.abc import Iterator

import attrs
import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from tests.interop.waiting import wait_until

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "lessons.md"
_TRIES = 60.0
"""Seconds in which a command that only reads must print what the page shows."""
_READS = ("offsets", "status", "diff", "topics route", "check")


@attrs.frozen
class Command:
    """A command of the page, without `rmqlab`, and the lines that it must print."""

    words: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def only_reads(self) -> bool:
        return " ".join(self.words).startswith(_READS)


def commands_of(text: str) -> Iterator[Command]:
    """Yield the commands of all blocks; pauses for a reader are left out."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shown = part.splitlines()
            program, *words = shlex.split(line, comments=True)
            if program == "rmqlab":
                yield Command(tuple(words), tuple(map(normal, shown)))
            else:
                assert program == "sleep"


def normal(line: str) -> str:
    """Return a line without the cluster's part of addresses, and with single spaces."""
    return " ".join(re.sub(r"\b127\.\d+\.\d+\.", "127.", line).split())


def prints_what_is_shown(command: Command) -> bool:
    """Run a command, which must succeed if the page shows no output."""
    words = [*command.words, "--rate", "5"] if command.words[0] == "up" else command.words
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app, words)
    print(f"$ rmqlab {shlex.join(words)}\n{done.output}")
    printed = {normal(line) for line in done.output.splitlines()}
    return printed.issuperset(command.shown) and (bool(command.shown) or done.exit_code == 0)


@pytest.mark.timeout(300)
def test_the_lessons_show_what_happens(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQLAB_HOME", str(tmp_path))
    purge, *commands = commands_of(PAGE.read_text("utf-8"))  # there is no cluster to purge here
    assert purge.words == ("down", "--purge")
    assert [commands[0].words[0], commands[-1].words[0]] == ["up", "down"]
    try:
        for command in commands:
            if command.only_reads:
                wait_until(functools.partial(prints_what_is_shown, command), str(command), _TRIES)
            else:
                assert prints_what_is_shown(command), str(command)
    finally:
        CliRunner().invoke(app, ["down", "--purge"])
