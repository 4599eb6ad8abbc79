"""Files with secrets in a cluster directory, always readable by the owner only."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 in a directory of mode 0700.

    Creates both if missing. OSError.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.chmod(0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # also for an existing file
        file.write(text)
