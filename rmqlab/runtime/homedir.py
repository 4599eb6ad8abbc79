"""The home directory of the user."""

from pathlib import Path


def home_directory() -> Path | None:
    """Return the user's home directory.

    None for a user without one, as in containers that run as any user id.
    """
    try:
        return Path.home()
    except RuntimeError:
        return None
