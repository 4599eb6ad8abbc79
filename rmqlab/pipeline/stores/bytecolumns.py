"""Gather numbers and byte strings from many buffer positions, without a loop."""

import numpy as np
import pyarrow as pa


def numbers(raw: np.ndarray, at: np.ndarray, kind: str) -> np.ndarray:
    """Return a number of a numpy type from each byte position, in native byte order."""
    dtype = np.dtype(kind)
    if not len(at):
        return np.empty(0, dtype.newbyteorder("="))
    # A number begins at every byte of this view: indexing it reads unaligned numbers without copying their bytes first.
    at_every_byte = np.ndarray(len(raw) - dtype.itemsize + 1, dtype, raw, 0, (1,))
    return at_every_byte[at].astype(dtype.newbyteorder("="))


def slices(
    content: pa.Buffer, begins: np.ndarray, ends: np.ndarray, chosen: np.ndarray | None = None, *, kind: pa.DataType
) -> pa.Array:
    """Return slices of a buffer below 2 GiB as an Arrow column of text or bytes.

    The slices must be in ascending order and must not overlap. `chosen` are the indices of the slices to return, in any
    order; -1 is null. Without it all are returned. Text is not validated.
    """
    # Gaps and slices alternate in one array on the buffer itself: `take` copies each slice once, in C++.
    borders = np.zeros(2 * len(begins) + 1, np.int32)
    borders[1::2], borders[2::2] = begins, ends
    alternating = pa.Array.from_buffers(kind, 2 * len(begins), [None, pa.py_buffer(borders), content])
    if chosen is None:
        return alternating.take(pa.array(np.arange(1, 2 * len(begins), 2)))
    return alternating.take(pa.array(2 * chosen + 1, mask=chosen < 0))
