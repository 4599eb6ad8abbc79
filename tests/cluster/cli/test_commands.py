"""The table of commands against the commands themselves."""

import os
import pathlib
import subprocess
import sys

import pytest

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.cli.commands import COMMANDS, LazyCommand

LONG = 1000
HEAVY = {"trio", "cattrs", "asyncio", "rmqlab.cluster.lab", "rmqlab.faults", "rmqlab.remoting", "rmqlab.store"}
"""Modules that take longer to import than a short command needs as a whole."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_of_the_table_is_what_the_command_says_of_itself(name: str) -> None:
    lazy = app.commands[name]
    assert isinstance(lazy, LazyCommand)
    command = lazy.load()
    assert command.name == name
    assert command.get_short_help_str(LONG) == COMMANDS[name].help


def test_every_action_is_in_the_table() -> None:
    assert COMMANDS.keys() >= ACTIONS.keys()


def test_help_of_the_program_and_of_a_group_imports_no_command() -> None:
    assert imported_by("--help").isdisjoint(entry.place.partition(":")[0] for entry in COMMANDS.values())


@pytest.mark.parametrize("arguments", ["--version", "--help", "kill --json broker-a", "wait --json ready", "status"])
def test_a_short_command_imports_nothing_heavy(arguments: str, tmp_path: pathlib.Path) -> None:
    imported = imported_by(*arguments.split(), home=tmp_path)
    assert "rmqlab.cluster.cli.terms" in imported
    assert imported & HEAVY == set()
    if "--json" in arguments:
        assert "rich" not in imported


def imported_by(*arguments: str, home: pathlib.Path | None = None) -> set[str]:
    """Return the modules that a process has imported at the end of a command."""
    script = f"""
import sys
from rmqlab.cluster.__main__ import main
sys.argv = ["rmqlab", *{arguments!r}]
try:
    main()
except SystemExit:
    pass
print("\\n".join(["", "modules:", *sys.modules]))
"""
    environment = {**os.environ, "RMQLAB_HOME": str(home or "/nowhere")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return {*done.stdout.partition("modules:\n")[2].split()}
