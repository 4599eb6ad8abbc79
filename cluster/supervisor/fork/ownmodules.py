"""Command lines of our own modules as processes."""

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours.

    `-P`: without it, Python imports modules from the current directory first, and a user's `typing.py` there would
    replace the standard one.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
