"""Key-value namespaces that administrators keep in a nameserver's file.

The file survives a restart of the nameserver. Nameservers do not share it: mqadmin writes to each of them. One
namespace has a meaning here: order topics.

Source: remoting-and-nameserver sections 3.2, 4.11, 4.12; class KVConfigManager.
"""

import itertools
import logging
import pathlib
from collections.abc import Iterator, Mapping

import attrs
import msgspec

from rmqlab.runtime.regularfile import read_regular
from rmqlab.store.configfile import backup_path, save_config_file

logger = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Topic, then `brokerName:queueNums` joined by `;`. In every reply to a registration; in routes only if enabled."""


_MOST_LINES = 1000
_LONGEST_TEXT = 1000


class KvFileError(Exception):
    """Neither the KV file nor its backup can be read.

    The text names the file and the cause.
    """


MAX_KEYS = 50_000
MAX_NAME_SIZE = 4_096
"""Characters of a namespace and a key together."""
MAX_FILE_SIZE = 8 * 2**20
"""Bytes. The file is written at every change."""


class KvLimitError(Exception):
    """The table would exceed a limit (issue 12.6).

    The message names the limit.
    """


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str | None]]


@attrs.define(eq=False)
class KvConfig:
    """The table.

    A namespace whose last key was deleted stays, unlike one that was never written.
    """

    path: str | pathlib.Path
    namespaces: dict[str, dict[str, str | None]] = attrs.field(factory=dict)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value and write the file.

        A value of None is kept in memory only. KvLimitError or OSError: nothing changed.
        """
        if len(namespace) + len(key) > MAX_NAME_SIZE:
            raise KvLimitError(f"a namespace and a key have at most {MAX_NAME_SIZE} characters")
        values = self.namespaces.get(namespace, {})
        if key not in values and sum(map(len, self.namespaces.values())) >= MAX_KEYS:
            raise KvLimitError(f"this nameserver has {MAX_KEYS} keys")
        content = self._content(self.namespaces | {namespace: values | {key: value}})
        if len(content) > MAX_FILE_SIZE:
            raise KvLimitError(f"all values together take more than {MAX_FILE_SIZE} bytes")
        save_config_file(pathlib.Path(self.path), content)
        self.namespaces.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str | None, key: str | None) -> None:
        """Remove a key, if it is there, and write the file in any case.

        OSError: nothing changed.
        """
        values = {} if namespace is None else self.namespaces.get(namespace, {})
        left = {name: value for name, value in values.items() if name != key}
        changed = {} if namespace not in self.namespaces else {namespace: left}
        save_config_file(pathlib.Path(self.path), self._content(self.namespaces | changed))
        self.namespaces |= changed

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

    @staticmethod
    def _content(namespaces: Mapping[str, dict[str, str | None]]) -> bytes:
        return msgspec.json.encode(_KvFile({name: _without_nulls(values) for name, values in namespaces.items()}))


def load_kv_config(path: str | pathlib.Path) -> KvConfig:
    """Read the file; a missing one makes an empty table.

    Where the file is damaged, or gone while its backup is there, the backup is read: RocketMQ would start empty, and
    write that at the next change. KvFileError if the backup is damaged too, or the file cannot be read: the older
    backup would be saved over it.
    """
    failures: list[str] = []
    for candidate in (pathlib.Path(path), backup_path(pathlib.Path(path))):
        try:
            return KvConfig(path, msgspec.json.decode(read_regular(candidate), type=_KvFile).config_table)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise KvFileError("; ".join([*failures, f"{candidate}: {exc.strerror or exc}"])) from exc
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            failures.append(f"{candidate}: {exc}")
            logger.warning("%s is not used: %s", candidate, exc)
    if failures:
        raise KvFileError("; ".join(failures))
    return KvConfig(path)


def _without_nulls(values: dict[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in values.items() if value is not None}


def _plain(text: str) -> str:
    """Return a sender's text on one line, cut at _LONGEST_TEXT characters."""
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
    return shown if shown.isprintable() else repr(shown)
