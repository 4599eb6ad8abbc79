"""A small text file that is replaced as a whole, its former content kept as `.bak`.

Source: remoting-and-nameserver section 4.11; MixAll.string2File.
"""

import pathlib


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Write `.tmp`, copy what there was to `.bak`, put `.tmp` in place: a reader finds the old text or the new."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, "utf-8")
    if path.exists():
        backup_path(path).write_bytes(path.read_bytes())
    temporary.replace(path)


def backup_path(path: str | pathlib.Path) -> pathlib.Path:
    """Where the former content is kept."""
    path = pathlib.Path(path)
    return path.with_name(path.name + ".bak")
