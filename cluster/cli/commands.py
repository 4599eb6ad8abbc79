"""The table of commands, by purpose.

The module of a command is imported when the command is used.

A new command is one line of the table: where it is, and the first sentence of its docstring.
`tests/cluster/cli/test_commands.py` compares the sentences with the docstrings, and the table with that of actions.
"""

import difflib
import importlib
import traceback
from typing import Any, NamedTuple

import click

from rmqlab.cluster.cli.failures import (
    JUDGING,
    OutputClosedError,
    OutputFailedError,
    discard_output,
    disk_failure,
    first_of,
    has_only,
    undecodable_word,
    writing_output,
)
from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.runtime.text.errorline import print_error
from rmqlab.verdict.runs import NoHomeError

_CLI = "rmqlab.cluster.cli"
ACTION = f"{_CLI}.act:ACTION_COMMANDS"
_OPERATE = f"{_CLI}.operate"
_WORDS = "rmqlab.words"
"""Key of the words of the command line in the meta of a context."""
_SPARK = "rmqlab.pipeline.commands"  # found by name: `cluster` does not import `pipeline`


class Entry(NamedTuple):
    """One line of the table."""

    place: str
    """`module:name` of the command, or of a mapping of commands by name."""
    help: str
    is_hidden: bool = False


PURPOSES: dict[str, dict[str, Entry]] = {
    "Clusters": {
        "up": Entry(f"{_CLI}.up:up", "Start a cluster, and stop it at Ctrl-C (or, with --detach, at `rmqlab down`)."),
        "down": Entry(f"{_CLI}.up:down", "Stop a cluster in order."),
        "ls": Entry(f"{_CLI}.overview:ls", "List the clusters of this machine: running or stopped, and where."),
        "add": Entry(f"{_CLI}.change:add_app", "Add a group, a slave or a nameserver to a running cluster."),
        "remove": Entry(
            f"{_CLI}.change:remove", "Stop nodes and take them out of a running cluster; their data stay on disk."
        ),
        "demo": Entry(
            f"{_CLI}.demo:demo", "Start a cluster, load it, kill its master, and show the events and the losses."
        ),
    },
    "See what happens": {
        "status": Entry(
            f"{_CLI}.show:status", "Show nodes, replication lag, and the routes of each nameserver, as reported now."
        ),
        "watch": Entry(
            f"{_CLI}.watch:watch", "Show the live view of a running cluster until q or Ctrl-C; the cluster runs on."
        ),
        "events": Entry(f"{_CLI}.show:events", "Show events, in the order in which the supervisor received them."),
        "logs": Entry(f"{_CLI}.show:logs", "Show the logs of nodes, also of a stopped cluster."),
        "mark": Entry(
            f"{_CLI}.mark:mark",
            "Write a line into every node's log, and an event, to align them in time.",
        ),
        "wait": Entry(f"{_CLI}.act:wait", "Wait until a condition is true; exit status 1 if it is not in time."),
    },
    "Act on nodes": {
        "kill": Entry(ACTION, "Kill with SIGKILL: nothing is flushed or unregistered, the sockets close."),
        "start": Entry(ACTION, "Start nodes that do not run, and return when they are ready."),
        "stop": Entry(ACTION, "Stop in order: a broker unregisters first."),
        "restart": Entry(ACTION, "Stop nodes that run, start all of them, and return when they are ready."),
        "pause": Entry(ACTION, "Freeze with SIGSTOP: the sockets stay open, nothing answers."),
        "resume": Entry(ACTION, "Continue a paused node with SIGCONT."),
        "promote": Entry(ACTION, "Make a slave a master: stop it, set broker id 0, start it on its store."),
        "demote": Entry(ACTION, "Make a master a slave: stop it, set a free broker id, start it on its store."),
        "power-loss": Entry(ACTION, "Kill, then erase what was not yet synced to disk; `start` recovers the rest."),
        "wipe": Entry(ACTION, "Kill, then delete the store: the next `start` finds an empty disk."),
        "diff": Entry(
            f"{_CLI}.diff:diff", "Compare two commit logs: common range, first different byte, affected messages."
        ),
        "diverged": Entry(
            f"{_CLI}.diverged:diverged", "List, export or send again the messages that a slave cut from its log."
        ),
    },
    "Faults": {
        "fault": Entry(f"{_CLI}.fault:fault_app", "Put a fault in force."),
        "isolate": Entry(ACTION, "Cut a node off: packets from and to it vanish."),
        "faults": Entry(f"{_CLI}.fault:faults", "List the faults in force."),
        "heal": Entry(f"{_CLI}.fault:heal", "End faults, by their ids or all of them."),
    },
    "Load": {
        "produce": Entry(
            f"{_CLI}.work:produce", "Send messages from a process of the cluster, and count their outcomes."
        ),
        "consume": Entry(
            f"{_CLI}.work:consume", "Consume a topic in a process of the cluster, and count the deliveries."
        ),
    },
    "What operators do": {
        "topics": Entry(f"{_OPERATE}.topics:topics_app", "List, create, update, delete and show topics."),
        "groups": Entry(
            f"{_OPERATE}.groups:groups_app",
            "List, create, update and delete consumer groups, and show how far they are behind.",
        ),
        "offsets": Entry(
            f"{_OPERATE}.offsets:offsets_app",
            "Show the offsets of consumer groups at masters and slaves, and reset them.",
        ),
        "messages": Entry(
            f"{_OPERATE}.messages:messages_app", "Show messages by id, unique key, key, or queue and offset."
        ),
        "config": Entry(
            f"{_OPERATE}.config:config_app", "Show and change settings of running brokers and nameservers."
        ),
        "wipe-write-perm": Entry(
            f"{_OPERATE}.permissions:wipe_write_perm",
            "Let producers avoid a broker: remove its write permission at all nameservers.",
        ),
        "add-write-perm": Entry(f"{_OPERATE}.permissions:add_write_perm", "Undo wipe-write-perm."),
    },
    "Judge a run": {
        "check": Entry(
            f"{_CLI}.check:check", "Judge a run by journals and stores: loss, duplicates, order, outages, detection."
        ),
        "audit": Entry(f"{_SPARK}:audit", "Judge a run again on Spark, at any size: sent messages against all stores."),
        "report": Entry(f"{_SPARK}:report", "Write an HTML page about an audited run: verdict, timelines, evidence."),
        "plant": Entry(
            f"{_CLI}.plant:plant",
            "Copy a run, plant one violation in the copy, and print the expected findings.",
            is_hidden=True,
        ),
    },
    "Scenarios": {
        "scenarios": Entry(f"{_CLI}.scenario:scenarios", "List the canonical scenarios, or run them all."),
        "run": Entry(f"{_CLI}.scenario:run", "Run a scenario and judge it."),
        "repro": Entry(f"{_CLI}.scenario:repro", "Run the scenarios that reproduce an issue."),
        "compare": Entry(
            f"{_CLI}.compare:compare", "Play a scenario in 4.9, hardened, promoted by hand, and on DLedger."
        ),
        "hunt": Entry(
            f"{_CLI}.hunt:hunt", "Play random schedules of faults on simulated clusters until a claim breaks."
        ),
    },
}
"""The commands by purpose, in the order of `rmqlab --help`."""

_SAME_LIKENESS = 0.1
"""Names whose similarity to a word differs by less are suggested together."""
COMMANDS = {name: entry for commands in PURPOSES.values() for name, entry in commands.items()}
"""All commands by name."""


class LazyCommand(click.Command):
    """A command whose module is imported only when the command is used."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help, hidden=entry.is_hidden)
        self.place = entry.place

    def load(self) -> click.Command:
        """Import the command's module, and return the command with its parameters."""
        module, _, attribute = self.place.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        command: click.Command = found[self.name] if isinstance(found, dict) else found
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return a context of the command itself.

        That parses its arguments, and may print its help.
        """
        command = self.load()
        with writing_output():
            return command.make_context(*args, **kwargs)


def _keep_nearest(word: str, names: list[str] | None) -> None:
    """Remove names that are clearly less similar to a word than the nearest one."""
    if names:
        likeness = {name: difflib.SequenceMatcher(None, word, name).ratio() for name in names}
        names[:] = [name for name in names if likeness[name] >= max(likeness.values()) - _SAME_LIKENESS]


def _check_place(option: str, ctx: click.Context) -> None:
    """Raise NoSuchOption with a hint if a subcommand has the unknown option.

    As in `rmqlab -n shop status`.
    """
    group = ctx.command
    if isinstance(group, click.Group):
        commands = (one.load() if isinstance(one, LazyCommand) else one for one in group.commands.values())
        if any(option in parameter.opts for command in commands for parameter in command.params):
            text = f"No such option '{option}' here. It belongs behind the name of the subcommand."
            raise click.NoSuchOption(option, text, ctx=ctx) from None


class CommandTable(CommandGroup):
    """A group with the commands of the table, listed by purpose."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for commands in PURPOSES.values():
            for name, entry in commands.items():
                self.add_command(LazyCommand(name, entry))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, and keep them for errors.

        A full disk is reported in one line, as for other commands.
        """
        ctx.meta[_WORDS] = tuple(args)
        try:
            with writing_output():  # of --help, --version and the like, which print here
                return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            _check_place(exc.option_name, ctx)
            raise
        except OutputClosedError:
            discard_output()
            raise click.exceptions.Exit(1) from None
        except OutputFailedError as exc:
            print_error(str(exc))
            discard_output()
            raise click.exceptions.Exit(1) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and suggest the nearest names for an unknown one.

        click suggests only options of similar length, not `--rate-per-second` for `--rate`, and lists up to three names
        by the alphabet, such as `restart`, `start` and `status` for `statsu`.
        """
        try:
            return self._invoke(ctx)
        except click.NoSuchCommand as exc:
            _keep_nearest(exc.command_name, exc.possibilities)
            raise
        except click.NoSuchOption as exc:
            _keep_nearest(exc.option_name, exc.possibilities)
            at = exc.ctx or ctx
            _check_place(exc.option_name, at)
            names = [name for one in at.command.params for name in one.opts if name.startswith(f"{exc.option_name}-")]
            if not names:
                raise
            text = f"No such option '{exc.option_name}'. Did you mean {' or '.join(map(repr, names))}?"
            raise click.NoSuchOption(exc.option_name, text, ctx=at) from None

    def _invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors of judging commands end with status 2.

        Their status 1 is a result. Others end with 1.
        """
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except NoHomeError as exc:
            print_error(str(exc))
            raise click.exceptions.Exit(2) from None
        except BaseException as exc:
            if has_only(exc, KeyboardInterrupt):
                if ctx.invoked_subcommand not in JUDGING:
                    raise KeyboardInterrupt from None  # click prints a line
                print_error("interrupted: no result")
            elif has_only(exc, OutputClosedError, BrokenPipeError):  # quietly: the reader has what it wanted
                discard_output()
            elif (unwritten := first_of(exc, OutputFailedError)) is not None:
                print_error(str(unwritten))
                discard_output()
            elif not isinstance(exc, Exception):
                raise
            elif (text := undecodable_word(exc, ctx.meta[_WORDS])) is not None:
                print_error(text)
                raise click.exceptions.Exit(2) from None
            elif (failure := disk_failure(exc)) is not None:
                print_error(f"{failure.filename or 'the disk or the output'}: {failure.strerror}")
            elif ctx.invoked_subcommand in JUDGING:
                traceback.print_exc()
            else:
                raise
        raise click.exceptions.Exit(2 if ctx.invoked_subcommand in JUDGING else 1)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's form
        """Write a section for each purpose."""
        for purpose, names in PURPOSES.items():
            self.write_section(formatter, purpose, [self.commands[name] for name in names])
