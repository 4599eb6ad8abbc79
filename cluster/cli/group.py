"""Command groups that print full summaries in their help."""

from collections.abc import Iterable

import click

_LONGEST = 1000


class CommandGroup(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's form
        """Return the names in the order of `add_command`; click sorts them."""
        return [*self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- as above
        """Write the first sentence of each command."""
        self.write_section(formatter, "Commands", self.commands.values())

    def write_section(self, formatter: click.HelpFormatter, title: str, commands: Iterable[click.Command]) -> None:
        """Write a title and the commands that are not hidden.

        Long summaries are wrapped, never cut.
        """
        width = max(map(len, self.commands))
        with formatter.section(title):
            formatter.write_dl(
                [
                    ((command.name or "").ljust(width), command.get_short_help_str(_LONGEST))
                    for command in commands
                    if not command.hidden
                ]
            )
