"""Namespaces of keys and values that administrators keep in a nameserver, and the file that outlives it.

Nameservers do not share it: mqadmin writes to each of them. One namespace has a meaning here: order topics.

Source: remoting-and-nameserver sections 3.2, 4.11, 4.12; class KVConfigManager.
"""

import itertools
import pathlib
from collections.abc import Iterator

import attrs
import msgspec

from store.configfile import backup_path, save_config_file

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Topic, then `brokerName:queueNums` joined by `;`. Answered to every registration; in routes only if enabled."""


_MOST_LINES = 1000
_LONGEST_TEXT = 1000


class KvFileError(Exception):
    """Neither the KV file nor its backup can be read. The text says which and why."""


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str | None]]


@attrs.define(eq=False)
class KvConfig:
    """The table. A namespace whose last key was deleted stays, and is not the same as one never written."""

    path: str | pathlib.Path
    namespaces: dict[str, dict[str, str | None]] = attrs.field(factory=dict)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value and write the file. A value of None is kept in memory only."""
        self.namespaces.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str | None, key: str | None) -> None:
        """Remove a key, if it is there, and write the file in any case."""
        if namespace is not None and key is not None:
            self.namespaces.get(namespace, {}).pop(key, None)
        self._save()

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """Answer a value, or None."""
        if namespace is None or key is None:
            return None
        return self.namespaces.get(namespace, {}).get(key)

    def listing(self, namespace: str | None) -> bytes | None:
        """Give a namespace as the body of a response, or None where it was never written."""
        values = None if namespace is None else self.namespaces.get(namespace)
        return None if values is None else msgspec.json.encode({"table": _without_nulls(values)})

    def lines(self) -> Iterator[str]:
        """The table as it is logged, in RocketMQ's form. Line breaks and the like are escaped, and much is left out."""
        yield "-" * 56
        yield f"configTable SIZE: {len(self.namespaces)}"
        entries = ((name, key, value) for name, values in self.namespaces.items() for key, value in values.items())
        for name, key, value in itertools.islice(entries, _MOST_LINES):
            yield f"configTable NS: {_plain(name)} Key: {_plain(key)} Value: {_plain(str(value))}"
        if any(True for _ in entries):
            yield f"configTable: only the first {_MOST_LINES} entries are shown"

    def _save(self) -> None:
        namespaces = {name: _without_nulls(values) for name, values in self.namespaces.items()}
        save_config_file(pathlib.Path(self.path), msgspec.json.encode(_KvFile(namespaces)))


def load_kv_config(path: str | pathlib.Path) -> KvConfig:
    """Read the file; a missing one makes an empty table.

    Where the file is damaged, or gone while its backup is there, the backup is read: RocketMQ would start
    empty, and write that at the next change. KvFileError where the backup is no better.
    """
    failures = []
    for candidate in (pathlib.Path(path), backup_path(pathlib.Path(path))):
        try:
            return KvConfig(path, msgspec.json.decode(candidate.read_bytes(), type=_KvFile).config_table)
        except FileNotFoundError:
            continue
        except (OSError, msgspec.DecodeError) as exc:
            failures.append(f"{candidate}: {exc}")
    if failures:
        raise KvFileError("; ".join(failures))
    return KvConfig(path)


def _without_nulls(values: dict[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in values.items() if value is not None}


def _plain(text: str) -> str:
    """A sender's text on one line of a log."""
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
    return shown if shown.isprintable() else repr(shown)
