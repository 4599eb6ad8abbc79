"""The list of commands in `rmqlab --help`, by purpose, with whole summaries."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

PANELS: Final[Mapping[str, Sequence[str]]] = {
    "Clusters": ("up", "down", "ls", "demo"),
    "See what happens": ("status", "watch", "events", "logs", "mark", "wait"),
    "Act on nodes": (
        *("kill", "start", "stop", "restart", "pause", "resume", "promote", "demote", "power-loss", "wipe"),
        *("diff", "diverged"),
    ),
    "Faults": ("fault", "isolate", "faults", "heal"),
    "Load": ("produce", "consume"),
    "Judge a run": ("check", "audit", "report"),
    "Scenarios": ("scenarios", "run", "repro", "compare", "hunt"),
}
"""Commands by purpose, in the order of the list. A command that is not here comes last."""
OTHERS: Final = "Other commands"
_LONGEST_SUMMARY: Final = 500


class CommandList(typer.core.TyperGroup):
    """The group of all commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each purpose. Long summaries are wrapped, never cut."""
        summaries = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                summaries[name] = command.get_short_help_str(_LONGEST_SUMMARY)
        width = max(map(len, summaries), default=0)
        known = {name for names in PANELS.values() for name in names}
        others = [name for name in summaries if name not in known]
        for title, names in {**PANELS, OTHERS: others}.items():
            rows = [(name.ljust(width), summaries[name]) for name in names if name in summaries]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
