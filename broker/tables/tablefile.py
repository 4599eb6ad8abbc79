"""Files of topics and groups: written whole, encoded only where changed.

The files are written at every change. With 20,000 topics encoding takes 0.3 s, and any client may cause it by sending
to a new topic (issue 12.6, 12.13).
"""

import abc
import pathlib
from collections.abc import Callable, Mapping

import attrs
import trio

from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.remoting.body import Body, encode_pretty_entry
from rmqlab.store.files.configfile import keep_config_file

SAVED_AT_ONCE = 5_000
"""Entries up to which a file is written with each change, as in 4.9.8. That of a larger table follows within 5 s."""
_ENCODED_AT_ONCE = 100
_SPARE = 1000
"""Entries of former keys that are kept before all of them are forgotten."""


Defer = Callable[[Callable[[], None]], None]
"""Calls a function at the end of a pass of the event loop, as `Reactor.defer` does."""


def at_once(fn: Callable[[], None]) -> None:
    """Call a function at once, instead of at the end of a pass."""
    fn()


class TooManyError(Exception):
    """A master has more topics or groups than its slave keeps."""


@attrs.define(eq=False)
class TableFile:
    """Encodes one kind of body, of which one member is a table of frozen values."""

    member: str
    """Name of that member in the text."""
    _entries: dict[str, tuple[object, bytes]] = attrs.field(factory=dict, init=False)

    def encode(self, empty: Body, table: Mapping[str, object]) -> bytes:
        """Return the bytes of `encode_pretty` for a body with this table.

        `empty` is the body without it.
        """
        text = empty.encode_pretty()
        if not table:
            return text
        lines = b",".join([self._entry(key, value) for key, value in table.items()])
        if len(self._entries) > len(table) + _SPARE:
            self._entries = {key: entry for key, entry in self._entries.items() if key in table}
        head = f'"{self.member}":{{'.encode()
        return text.replace(head + b"}", head + lines + b"\n\t}")

    async def prepare(self, table: Mapping[str, object]) -> None:
        """Encode the entries of a large table in slices.

        Without this, the first change would encode the whole table. A small table is encoded at its first change: that
        costs little, and an idle broker has no changes.
        """
        if len(table) <= _ENCODED_AT_ONCE:
            return
        for number, (key, value) in enumerate(list(table.items())):
            self._entry(key, value)
            if number % _ENCODED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    def _entry(self, key: str, value: object) -> bytes:
        known = self._entries.get(key)
        if known is None or (known[0] is not value and known[0] != value):
            known = self._entries[key] = value, encode_pretty_entry(key, value)
        return known[1]


class VersionedTable(abc.ABC):
    """A table with a data version and a file.

    Every change moves the version and is saved at the end of the pass of the event loop (store-ha#63): a heartbeat may
    make 2000 groups. That of a large table is saved at the next `save_changes` or `save_in_slices`.
    """

    def __init__(self, member: str, path: pathlib.Path, now_millis: Callable[[], int], defer: Defer) -> None:
        self.file = TableFile(member)
        self.data_version = DataVersion(timestamp=now_millis(), counter=0)
        self._path = path
        self._now_millis = now_millis
        self._defer = defer
        self._is_unsaved = False

    @abc.abstractmethod
    def rows(self) -> Mapping[str, object]:
        """Return the table itself: frozen values by name."""

    @abc.abstractmethod
    def empty_wrapper(self) -> Body:
        """Return the body of this version, without rows."""

    def bump_version(self) -> None:
        """Move the version for a change beside the table."""
        known = self.data_version.counter
        counter = known + 1 if known < 2**63 - 1 else 0  # a slave may have received the maximum from its master
        self.data_version = DataVersion(timestamp=self._now_millis(), counter=counter)

    async def save_in_slices(self) -> None:
        """Write the file as `save_changes`.

        The entries are encoded in slices, between which other tasks run.
        """
        if self._is_unsaved:
            await self.file.prepare(self.rows())
        self.save_changes()

    def save_changes(self) -> None:
        """Write the file if a change of a large table is not in it yet."""
        if self._is_unsaved:
            self.save()

    def save(self) -> None:
        """Write the file."""
        self._is_unsaved = False
        keep_config_file(self._path, self.file.encode(self.empty_wrapper(), self.rows()))

    def _adopt_version(self, version: DataVersion, rows: int, most: int, what: str) -> bool:
        """Replace the version by that of a master's table, before its rows replace these.

        False if the versions are equal: then the tables are, too. TooManyError above `most` rows.
        """
        if version == self.data_version:
            return False
        if rows > most:
            raise TooManyError(f"{rows} {what}, at most {most}")
        self.data_version = version
        return True

    def _changed(self) -> None:
        self.bump_version()
        self._save_soon()

    def _save_soon(self) -> None:
        """Write the file; a small one once for all changes of a pass."""
        was_unsaved, self._is_unsaved = self._is_unsaved, True
        if not was_unsaved and len(self.rows()) <= SAVED_AT_ONCE:
            self._defer(self.save_changes)
