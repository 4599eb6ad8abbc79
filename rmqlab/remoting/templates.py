"""Fast parsing of binary ext fields that resemble previous ones.

Successive requests of a client differ in few values, and rarely in their lengths: a queue id, a time, a message id. A
template splits a block that differs from previous ones only in such values with one call of struct.unpack, and only
these values of the typed header are parsed again.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from rmqlab.remoting.header import Header, HeaderError, field_readers, header_from_fields

MAX_SIZE = 2048
"""Maximum size of a block with a template, in bytes."""
MAX_TEMPLATES = 512
PATIENCE = 8
"""Number of blocks of a template's size, but with other names or lengths, after which it is replaced."""

H = TypeVar("H", bound=Header)


def text_of(raw: bytes) -> str:
    """Decode UTF-8 as Java does: invalid bytes become replacement characters."""
    return raw.decode("utf-8", "replace")


class TemplateFields(msgspec.Struct, eq=False):
    """Ext fields that match a template, and their values of its varying fields."""

    template: "Template"
    values: Sequence[bytes]

    def as_dict(self) -> dict[str, str]:
        """Return all fields by name, in their order on the wire."""
        own = zip(self.template.varying, map(text_of, self.values), strict=True)
        return {**self.template.fields, **dict(own)}

    def header(self, kind: type[H]) -> H:
        """Return the fields as a typed header. HeaderError if they do not fit."""
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
    """Makes typed headers of the fields that match one template."""

    base: Any
    """The header of the template's own fields; None if they are invalid."""
    reads: Sequence[tuple[int, str, Callable[[bytes], object]]]
    """Index of each varying value, its field, and its parser, which returns None if the slow path must parse it."""


class Template:
    """A block of ext fields in which some values vary, but not their sizes."""

    def __init__(self, block: bytes, fields: Mapping[str, str], sizes: Sequence[int], varying: Sequence[str]) -> None:
        """`sizes` are the sizes of the values, in bytes."""
        self.fields, self.sizes, self.varying = dict(fields), list(sizes), list(varying)
        self._misses = 0
        self._readers: dict[type[Header], _Reader] = {}
        edges = [0, *self._varying_edges(), len(block)]
        lengths = [end - start for start, end in itertools.pairwise(edges)]
        self._unpack = struct.Struct("".join(f"{length}s" for length in lengths)).unpack
        self._fixed = self._unpack(block)[::2]

    def _varying_edges(self) -> Iterator[int]:
        """Yield the start and end of each varying value, in bytes."""
        at = 0
        for name, size in zip(self.fields, self.sizes, strict=True):
            at += 2 + len(name.encode()) + 4 + size
            if name in self.varying:
                yield from (at - size, at)

    def match(self, block: bytes) -> TemplateFields | None:
        """Split a block of the template's size. None if it does not match."""
        parts = self._unpack(block)
        return TemplateFields(self, parts[1::2]) if parts[::2] == self._fixed else None

    def grown(self, block: bytes, fields: Mapping[str, str], sizes: Sequence[int]) -> "Template":
        """Return the template to use after a block that did not match.

        `fields` and `sizes` are those parsed from the block.
        """
        if [*fields] == [*self.fields] and sizes == self.sizes:
            varying = {name for name, value in fields.items() if value != self.fields[name]}.union(self.varying)
            return Template(block, fields, sizes, [name for name in fields if name in varying])
        self._misses += 1
        return self if self._misses < PATIENCE else Template(block, fields, sizes, [])

    def reader(self, kind: type[Header]) -> _Reader:
        """Return the reader for headers of this class."""
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
