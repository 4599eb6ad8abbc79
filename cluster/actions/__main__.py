"""Prints the table of actions as docs/command-line.md has it."""

from rmqlab.cluster.actions.table import ACTIONS


def action_table() -> str:
    """Return a Markdown table: a row for each action, with the first line of its help."""
    rows = [
        f"| `{action.name}` | {f'`{action.key}`' if action.key else ''} | {action.help.splitlines()[0]} |"
        for action in ACTIONS.values()
    ]
    return "\n".join(["| action | key | what it does |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(action_table())
