"""The two text files of a member: `checkpoint` and `currterm` (section 1.5)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rmqlab.store.files.disk import Disk, StoreCorrupt

MOST_BYTES: Final = 2**16
"""Size of such a file. It has two lines."""


def save(disk: Disk, path: Path, pairs: Mapping[str, str | int], *, is_synced: bool = False) -> None:
    """Replace the file; the old content stays in `NAME.bak` (dledger#6).

    OSError: the file has its old content, or the new one without being durable.

    DLedger deletes the old file before it renames the new one. A kill in between loses term and vote, so this renames
    over the old file. `is_synced`: the new content is on disk when this returns, as a power loss could otherwise bring
    the old one back.
    """
    new = path.with_name(f"{path.name}.tmp")
    disk.make_directory(path.parent)
    disk.write_file(new, "".join(f"{key}={value}\n" for key, value in pairs.items()).encode())
    if is_synced:
        with disk.opened(new) as descriptor:
            disk.sync(descriptor)
    if disk.exists(path):
        disk.write_file(path.with_name(f"{path.name}.bak"), disk.read_file(path, MOST_BYTES))
    disk.rename(new, path)
    if is_synced:
        disk.sync_directory(path.parent)


def load(disk: Disk, path: Path) -> dict[str, str]:
    """Return the pairs of a file, empty if it is missing.

    OSError, also for one above `MOST_BYTES`.
    """
    if not disk.exists(path):
        return {}
    lines = disk.read_file(path, MOST_BYTES).decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def number(pairs: Mapping[str, str], key: str, path: Path, default: int) -> int:
    """Return a number of a file, or the default without the key.

    StoreCorrupt for other text: a member that forgets its term could vote twice in it.
    """
    text = pairs.get(key, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise StoreCorrupt(f"{path}: {key}={text[:40]}, expected a number") from None
