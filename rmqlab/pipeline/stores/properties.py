"""Parse the properties of many messages at once, from the column of their texts.

A text is a list of pairs, each `name \\x01 value`, separated by \\x02. The rules are those of
`rmqlab.remoting.message.parse_properties`: pairs without name or value do not count, and the last of a name wins.
"""

import attrs
import numpy as np
import pyarrow as pa

from rmqlab.pipeline.stores.bytecolumns import numbers, slices
from rmqlab.remoting.message import NAME_END, PAIR_END


@attrs.frozen(eq=False)
class Properties:
    """All pairs of a column of texts, as positions in its buffer, in ascending order."""

    content: pa.Buffer
    messages: int
    rows: np.ndarray
    """The message of each pair."""
    begins: np.ndarray
    name_ends: np.ndarray
    ends: np.ndarray

    def column(self, name: str) -> pa.Array:
        """Return the value of one property; null if it is missing."""
        wanted = name.encode()
        found = np.flatnonzero(self.name_ends - self.begins == len(wanted))
        found = found[numbers(_bytes(self.content), self.begins[found], f"S{len(wanted)}") == wanted]
        chosen = np.full(self.messages, -1)
        chosen[self.rows[found]] = np.arange(len(found))  # of equal indices, numpy keeps the last assignment
        return slices(self.content, self.name_ends[found] + 1, self.ends[found], chosen, kind=pa.string())

    def maps(self) -> pa.Array:
        """Return all properties of each message, in the order of first occurrence."""
        names = slices(self.content, self.begins, self.name_ends, kind=pa.string())
        codes = names.dictionary_encode().indices.to_numpy()
        keys = pa.array(self.rows * (len(codes) + 1) + codes).dictionary_encode()  # of (message, name)
        last = np.zeros(len(keys.dictionary), np.int64)
        last[keys.indices.to_numpy()] = np.arange(len(codes))
        offsets = np.zeros(self.messages + 1, np.int32)
        np.cumsum(np.bincount(self.rows[last], minlength=self.messages), out=offsets[1:])
        values = slices(self.content, self.name_ends + 1, self.ends, last, kind=pa.string())
        return pa.MapArray.from_arrays(offsets, names.take(pa.array(last)), values)


def find_properties(texts: pa.Array) -> Properties:
    """Find the pairs in a column of stored texts, which has no nulls."""
    _, offset_buffer, content = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    content = (content or pa.py_buffer(b"")).slice(offsets[0], offsets[-1] - offsets[0])
    raw = _bytes(content)
    rows, begins, ends = _pieces(np.flatnonzero(raw == ord(PAIR_END)), offsets - offsets[0])
    marks = np.append(np.flatnonzero(raw == ord(NAME_END)), len(raw))
    name_ends = marks[np.searchsorted(marks[:-1], begins)]
    counts = (name_ends > begins) & (name_ends + 1 < ends)
    return Properties(content, len(texts), rows[counts], begins[counts], name_ends[counts], ends[counts])


def _pieces(separators: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, begin and end of the parts between separators.

    A text with n separators has n + 1.
    """
    before = np.searchsorted(separators, offsets)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(before) + 1)
    begins, ends = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    is_first, is_last = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    is_first[before[:-1] + np.arange(len(offsets) - 1)] = True
    is_last[before[1:] + np.arange(len(offsets) - 1)] = True
    begins[is_first], begins[~is_first] = offsets[:-1], separators + 1
    ends[is_last], ends[~is_last] = offsets[1:], separators
    return rows, begins, ends


def _bytes(content: pa.Buffer) -> np.ndarray:
    return np.frombuffer(content, np.uint8)
