"""Reading, the way back: a batch of maps as an Arrow map column."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from nbmapops._reading.arrowdata import Text
from nbmapops._reading.arrowlib import pa
from nbmapops._reading.entries import Int64Keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._constants import Array
    from nbmapops._reading.arrowlib import ArrowArray, ArrowChunks
    from nbmapops._reading.entries import Entries, KeyColumn

_MOST = 2**31 - 1  # entries, or bytes of text, that int32 offsets reach


def map_column(entries: Entries, null_maps: Array | None) -> ArrowArray:
    """Return the ``pyarrow.MapArray`` of a batch; numbers and Arrow text in one piece are shared.

    Raises
    ------
    ValueError
        Text with a lone surrogate, which is not Unicode.
    OverflowError
        More than 2**31 - 1 entries.
    """
    keys, values, offsets = entries
    if len(values) > _MOST:
        raise OverflowError(
            f"MapBatch: {len(values)} entries are more than an Arrow map column can hold "
            f"({_MOST}); convert parts: batch[start:stop].to_arrow()"
        )
    items = _text(values, "value") if values.dtype == object else pa.array(values)
    columns = [_keys(keys), items]
    # as the map's type has it: with a nullable key, pyarrow 18 ends the process in validate()
    fields = [pa.field("key", columns[0].type, nullable=False), pa.field("value", items.type)]
    pairs = pa.StructArray.from_arrays(columns, fields=fields)
    valid = None if null_maps is None else pa.array(~null_maps).buffers()[1]
    return pa.Array.from_buffers(
        pa.map_(columns[0].type, items.type),
        len(offsets) - 1,
        [valid, pa.py_buffer(offsets.astype(np.int32))],
        children=[pairs],
    )


def _keys(keys: KeyColumn) -> ArrowArray:
    if isinstance(keys, Int64Keys):
        return pa.array(keys.array)
    if isinstance(keys, Text):
        return _whole(keys.to_arrow())
    codes, words = cast("tuple[Array, Sequence[str]]", keys.encode())
    used = np.zeros(len(words), np.bool_)
    used[codes] = True
    if not used.all():  # a slice may have words that Arrow cannot hold outside of it
        words = [words[number] for number in np.flatnonzero(used).tolist()]
        codes = (np.cumsum(used) - 1)[codes]
    texts = _text(words, "key")
    sizes = np.fromiter((len(word.encode()) for word in words), np.int64, len(words))
    return _wide(texts, int(sizes[codes].sum())).take(pa.array(codes))


def _text(texts: Sequence[str] | Array, what: str) -> ArrowArray:
    try:
        array = pa.array(texts, pa.string())
    except UnicodeEncodeError as error:
        raise ValueError(
            f"MapBatch: {what} {error.object!r} is not Unicode text, and Arrow holds no other"
        ) from None
    return pa.array(texts, pa.large_string()) if isinstance(array, pa.ChunkedArray) else array


def _whole(text: ArrowChunks) -> ArrowArray:
    """Return chunks as one array."""
    if text.num_chunks == 1:
        return text.chunk(0)
    if pa.types.is_dictionary(text.type):
        return text.combine_chunks()
    return _wide(text, text.nbytes).combine_chunks()


def _wide(text: ArrowArray | ArrowChunks, size: int) -> ArrowArray | ArrowChunks:
    """Return text in a type whose offsets reach `size` bytes."""
    return text.cast(pa.large_string()) if size > _MOST else text
