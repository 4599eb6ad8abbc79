"""Key-value namespaces that administrators keep in a nameserver's file.

The file survives a restart of the nameserver. Nameservers do not share it: mqadmin writes to each of them. One
namespace has a meaning here: order topics.

Source: remoting-and-nameserver sections 3.2, 4.11, 4.12; class KVConfigManager.
"""

import itertools
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import attrs
import msgspec

from rmqlab.remoting.body import BodyError, Table
from rmqlab.runtime.regularfile import read_regular
from rmqlab.store.files.configfile import backup_path, save_config_file

logger = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Topic, then `brokerName:queueNums` joined by `;`. In every reply to a registration; in routes only if enabled."""


MAX_KEYS = 50_000
MAX_NAME_SIZE = 4_096
"""Characters of a namespace and a key together."""
MAX_FILE_SIZE = 8 * 2**20
"""Bytes. The file is written at every change, or group of changes."""
_MOST_LINES = 1000
"""Entries of the table that are logged."""
_LONGEST_TEXT = 1000
"""Characters of one text in such a line."""


class KvFileError(Exception):
    """Neither the KV file nor its backup can be read.

    The text names the file and the cause.
    """


class KvLimitError(Exception):
    """The table would exceed a limit (issue 12.6).

    The message names the limit.
    """


class _KvFile(Table, frozen=True, kw_only=True):
    """KVConfigSerializeWrapper. It reads what fastjson reads, as people write it."""

    config_table: dict[str, dict[str, str | None]]

    @classmethod
    def normalized(cls, value: Any) -> Any:
        """Convert numbers, booleans and objects in place of values to text."""
        table = value.get("configTable") if isinstance(value, dict) else None
        for values in table.values() if isinstance(table, dict) else ():
            if isinstance(values, dict):
                values |= {key: _text_of(item) for key, item in values.items() if not isinstance(item, str)}
        return value


def _text_of(value: object) -> str:
    return msgspec.json.encode(value).decode()


@attrs.frozen
class KvChange:
    """A value to set, or a key to remove."""

    namespace: str | None
    key: str | None
    value: str | None = None
    """None is kept in memory only."""
    removes: bool = False


@attrs.define(eq=False)
class KvDraft:
    """A changed copy of the table, to be saved before the table takes its place.

    Copies only the namespaces that change.
    """

    path: str | pathlib.Path
    namespaces: dict[str, dict[str, str | None]]
    keys: int
    size: int
    """Bytes of the file, or a few more: a value of None and the comma of a last entry count."""
    _copied: set[str] = attrs.field(factory=set, init=False)

    def make(self, change: KvChange) -> None:
        """Set a value, or remove a key if it is there.

        KvLimitError: nothing changed.
        """
        if change.removes:
            self._delete(change.namespace, change.key)
        else:
            assert change.namespace is not None
            assert change.key is not None
            self._put(change.namespace, change.key, change.value)

    def _put(self, namespace: str, key: str, value: str | None) -> None:
        if len(namespace) + len(key) > MAX_NAME_SIZE:
            raise KvLimitError(f"a namespace and a key have at most {MAX_NAME_SIZE} characters")
        values = self.namespaces.get(namespace, {})
        if key not in values and self.keys >= MAX_KEYS:
            raise KvLimitError(f"this nameserver has {MAX_KEYS} keys")
        size = self.size + _entry_size(key, value)
        size += -_entry_size(key, values[key]) if key in values else 0
        size += 0 if namespace in self.namespaces else _namespace_size(namespace)
        if size > MAX_FILE_SIZE:
            raise KvLimitError(f"all values together take more than {MAX_FILE_SIZE} bytes")
        self.size = size
        self.keys += key not in values
        self._own(namespace)[key] = value

    def _delete(self, namespace: str | None, key: str | None) -> None:
        if namespace is None or key is None or key not in self.namespaces.get(namespace, {}):
            return
        self.keys -= 1
        self.size -= _entry_size(key, self._own(namespace).pop(key))

    def _own(self, namespace: str) -> dict[str, str | None]:
        if namespace not in self._copied:
            self._copied.add(namespace)
            self.namespaces[namespace] = dict(self.namespaces.get(namespace, {}))
        return self.namespaces[namespace]

    def save(self) -> None:
        """Write the file. OSError: the file is as before."""
        content = _KvFile(config_table={name: _without_nulls(values) for name, values in self.namespaces.items()})
        save_config_file(pathlib.Path(self.path), msgspec.json.encode(content))


@attrs.define(eq=False)
class KvConfig:
    """The table.

    A namespace whose last key was deleted stays, unlike one that was never written.
    """

    path: str | pathlib.Path
    namespaces: dict[str, dict[str, str | None]] = attrs.field(factory=dict)
    _keys: int = attrs.field(init=False)
    _size: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._keys = sum(map(len, self.namespaces.values()))
        self._size = len(msgspec.json.encode(_KvFile(config_table={}))) + sum(
            _namespace_size(name) + sum(_entry_size(key, value) for key, value in values.items())
            for name, values in self.namespaces.items()
        )

    def draft(self) -> KvDraft:
        """Return a copy to change."""
        return KvDraft(self.path, dict(self.namespaces), self._keys, self._size)

    def adopt(self, draft: KvDraft) -> None:
        """Replace the table by a draft that is saved."""
        self.namespaces, self._keys, self._size = draft.namespaces, draft.keys, draft.size

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """Return a value, or None."""
        if namespace is None or key is None:
            return None
        return self.namespaces.get(namespace, {}).get(key)

    def listing(self, namespace: str | None) -> bytes | None:
        """Return a namespace as the body of a response; None if it was never written."""
        values = None if namespace is None else self.namespaces.get(namespace)
        return None if values is None else msgspec.json.encode({"table": _without_nulls(values)})

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table for the log, in RocketMQ's form.

        Control characters are escaped, and long content is cut.
        """
        yield "-" * 56
        yield f"configTable SIZE: {len(self.namespaces)}"
        entries = ((name, key, value) for name, values in self.namespaces.items() for key, value in values.items())
        for name, key, value in itertools.islice(entries, _MOST_LINES):
            yield f"configTable NS: {_plain(name)} Key: {_plain(key)} Value: {_plain(str(value))}"
        if any(True for _ in entries):
            yield f"configTable: only the first {_MOST_LINES} entries are shown"


def load_kv_config(path: str | pathlib.Path) -> KvConfig:
    """Read the file; a missing or empty one makes an empty table.

    If the file is damaged, or missing while its backup is there, the backup is read. RocketMQ's start fails then, or it
    starts empty, and writes that at the next change. KvFileError if the backup is damaged, too, or the file cannot be
    read: the older backup would be saved over it.
    """
    failures: list[str] = []
    for candidate in (pathlib.Path(path), backup_path(pathlib.Path(path))):
        try:
            if not (content := read_regular(candidate)).strip():
                logger.warning("%s is not used: it is empty", candidate)
                continue
            content.decode()  # else the parser would replace what is damaged
            return KvConfig(path, _KvFile.decode(content).config_table)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise KvFileError("; ".join([*failures, f"{candidate}: {exc.strerror or exc}"])) from exc
        except (UnicodeDecodeError, BodyError) as exc:
            failures.append(f"{candidate}: {exc}")
            logger.warning("%s is not used: %s", candidate, exc)
    if failures:
        raise KvFileError("; ".join(failures))
    return KvConfig(path)


def _without_nulls(values: dict[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in values.items() if value is not None}


def _entry_size(key: str, value: str | None) -> int:
    """Return the bytes of an entry in the file, with colon and comma."""
    return len(msgspec.json.encode(key)) + len(msgspec.json.encode(value)) + 2


def _namespace_size(name: str) -> int:
    """Return the bytes of a namespace in the file, without its entries."""
    return len(msgspec.json.encode(name)) + len(":{},")


def _plain(text: str) -> str:
    """Return a sender's text on one line, cut at _LONGEST_TEXT characters."""
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
    return shown if shown.isprintable() else repr(shown)
