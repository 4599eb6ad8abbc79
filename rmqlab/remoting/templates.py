"""Binary ext fields that are like others before them.

One client's requests of a kind differ in a few values, seldom in the lengths of these: a queue id, a time, a message
id. A block that is like one before it but for such values is taken apart by one call, and of its typed header only
they are read anew.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from rmqlab.remoting.header import Header, HeaderError, field_readers, header_from_fields

MAX_SIZE = 2048
"""Bytes of a block that is worth a template."""
MAX_TEMPLATES = 512
PATIENCE = 8
"""So many blocks of a template's size, but of other names or lengths, and it gives way."""

H = TypeVar("H", bound=Header)


def text_of(raw: bytes) -> str:
    """Names and values, as Java reads them: what is no UTF-8 becomes replacement characters."""
    return raw.decode("utf-8", "replace")


class AlikeFields(msgspec.Struct, eq=False):
    """Ext fields by what they are like, and the values that are their own."""

    template: "Template"
    values: Sequence[bytes]

    def as_dict(self) -> dict[str, str]:
        """All of them by name, in their order."""
        own = zip(self.template.varying, map(text_of, self.values), strict=True)
        return {**self.template.fields, **dict(own)}

    def header(self, kind: type[H]) -> H:
        """Read them as a typed header. HeaderError where they do not make one."""
        base, reads = self.template.reader(kind)
        if base is not None:
            changes: dict[str, Any] = {}
            for at, name, read in reads:
                changes[name] = found = read(self.values[at])
                if found is None:
                    break
            else:
                header: H = msgspec.structs.replace(base, **changes)
                return header
        return header_from_fields(kind, self.as_dict())


class _Reader(NamedTuple):
    """What makes a typed header of alike fields."""

    base: Any
    """One that was made of such; None where they make none."""
    reads: Sequence[tuple[int, str, Callable[[bytes], object]]]
    """Which of the varying values becomes which field, and how: None where that needs a closer look."""


class Template:
    """A block of ext fields of which some values may vary, but not in size."""

    def __init__(self, block: bytes, fields: Mapping[str, str], sizes: Sequence[int], varying: Sequence[str]) -> None:
        """`sizes` are those of the values, in bytes."""
        self.fields, self.sizes, self.varying = dict(fields), list(sizes), list(varying)
        self._misses = 0
        self._readers: dict[type[Header], _Reader] = {}
        edges = [0, *self._varying_edges(), len(block)]
        lengths = [end - start for start, end in itertools.pairwise(edges)]
        self._unpack = struct.Struct("".join(f"{length}s" for length in lengths)).unpack
        self._fixed = self._unpack(block)[::2]

    def _varying_edges(self) -> Iterator[int]:
        """Where the values that vary begin and end."""
        at = 0
        for name, size in zip(self.fields, self.sizes, strict=True):
            at += 2 + len(name.encode()) + 4 + size
            if name in self.varying:
                yield from (at - size, at)

    def match(self, block: bytes) -> AlikeFields | None:
        """Take a block of the template's size apart. None where it is not like it."""
        parts = self._unpack(block)
        return AlikeFields(self, parts[1::2]) if parts[::2] == self._fixed else None

    def grown(self, block: bytes, fields: Mapping[str, str], sizes: Sequence[int]) -> "Template":
        """What to go on with after a block that did not match: as `fields` and `sizes` it was taken apart by hand."""
        if [*fields] == [*self.fields] and sizes == self.sizes:
            varying = {name for name, value in fields.items() if value != self.fields[name]}.union(self.varying)
            return Template(block, fields, sizes, [name for name in fields if name in varying])
        self._misses += 1
        return self if self._misses < PATIENCE else Template(block, fields, sizes, [])

    def reader(self, kind: type[Header]) -> _Reader:
        """What makes typed headers of this kind."""
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = self._make_reader(kind)
        return reader

    def _make_reader(self, kind: type[Header]) -> _Reader:
        try:
            base = header_from_fields(kind, self.fields)
        except HeaderError:
            return _Reader(None, [])
        places = {name: at for at, name in enumerate(self.varying)}
        sizes = dict(zip(self.fields, self.sizes, strict=True))
        reads: list[tuple[int, str, Callable[[bytes], object]]] = []
        for field in field_readers(kind):
            at = places.get(field.wire_name)
            if at is not None:
                is_sure = sizes[field.wire_name] <= field.sure_digits
                reads.append((at, field.name, _number if is_sure else functools.partial(_by_text, field.read)))
        return _Reader(base, reads)


def _number(raw: bytes) -> int | None:
    return int(raw) if raw.isdigit() else None


def _by_text(read: Callable[[str], object], raw: bytes) -> object:
    return read(text_of(raw))
