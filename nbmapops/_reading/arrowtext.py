"""Reading, Arrow text: keys that stay in Arrow until pyarrow looks them up."""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from nbmapops._reading.arrowdata import (
    Int64Array,
    as_values,
    buffer_view,
    is_words,
    joined,
    null_mask,
    plain_array,
    validate_text,
)
from nbmapops._reading.arrowlib import pa, pc
from nbmapops._reading.entries import KeyKind, TextKeys, readonly
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._reading.arrowlib import ArrowArray, ArrowChunks
    from nbmapops._vocabulary import Index, Vocabulary

Int32Array = npt.NDArray[np.int32]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Text:
    """Text keys that stay in Arrow: strings, or dictionaries of strings, without nulls."""

    __slots__ = ("_data",)

    kind: ClassVar[KeyKind] = "string"

    def __init__(self, data: ArrowChunks) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def to_arrow(self) -> ArrowChunks:
        """Return the keys as a ``pyarrow.ChunkedArray``."""
        return self._data

    def __getitem__(self, part: slice) -> Text:
        """Return the entries of a slice of step 1, without a copy."""
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError("text keys are sliced with step 1")
        return Text(self._data.slice(start, max(stop - start, 0)))

    def take(self, entries: Array) -> TextKeys:
        """See `KeyColumn`."""
        codes, words = self.encode()
        return TextKeys(codes[entries], words)

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        parts = [as_values(plain_array(chunk)) for chunk in self._data.chunks]
        return readonly(joined(parts, np.dtype(object)))

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return any(
            np.may_share_memory(out, np.frombuffer(buffer, np.uint8))
            for chunk in self._data.chunks
            for buffer in chunk.buffers()
            if buffer is not None
        )

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`: the columns, which may lie in an Arrow buffer."""
        return readonly(self.columns(vocabulary)), range_index(len(vocabulary))

    def columns(self, vocabulary: Vocabulary) -> Int32Array:
        """Return the column of each key in a vocabulary of text, -1 where it is not a word."""
        if not is_words(self._data.type):
            return _columns_of(self._data, vocabulary)
        parts: list[Int32Array] = []
        dictionary, table = None, None
        for chunk in map(plain_array, self._data.chunks):
            if dictionary is None or not dictionary.equals(chunk.dictionary):
                dictionary = chunk.dictionary
                same = _are_words(dictionary, vocabulary)  # then positions are columns
                table = None if same else _columns_of(dictionary, vocabulary)
            positions = buffer_view(chunk.indices)
            if table is not None:
                # Faster than table[positions] (asv: arrow.Csr); all positions are checked already.
                positions = table.take(positions, mode="clip")
            parts.append(positions)
        return joined(parts, np.dtype(np.int32))

    def encode(self) -> tuple[Int64Array, tuple[str, ...]]:
        """Return codes and words; those of dictionaries may repeat, and need not be used."""
        data = self._data
        data = data.unify_dictionaries() if is_words(data.type) else data.dictionary_encode()
        codes = [buffer_view(chunk.indices).astype(np.int64) for chunk in data.chunks]
        words = tuple(data.chunk(0).dictionary.to_pylist()) if codes else ()
        return joined(codes, np.dtype(np.int64)), words


def text_of(column: ArrowChunks, name: str) -> Text:
    """Return a ChunkedArray of text without nulls as keys; `name` is the front of messages."""
    try:
        for chunk in column.chunks:
            chunk.validate()
            validate_text(chunk)
    except pa.ArrowException as error:
        raise ValueError(f"{name} are a corrupt Arrow column: {error}") from error
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return Text(column)


def _are_words(dictionary: ArrowArray, vocabulary: Vocabulary) -> bool:
    """Whether a dictionary is the vocabulary, so that its positions are the columns."""
    if len(dictionary) != len(vocabulary) or vocabulary.copies is not None:
        return False
    return bool(dictionary.cast(pa.large_string()).equals(_word_set(vocabulary)))


def _columns_of(text: ArrowArray, vocabulary: Vocabulary) -> Int32Array:
    """Return the columns of text, -1 where it is not a word."""
    if len(text) < len(vocabulary):  # pyarrow would first hash every word
        found = map(vocabulary.columns.get, text.to_pylist(), repeat(-1))
        return np.fromiter(found, np.int32, len(text))
    parts: list[Int32Array] = []
    found = pc.index_in(text, value_set=_word_set(vocabulary))
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else [found]:
        columns, missing = buffer_view(chunk), null_mask(chunk)
        if missing is not None:
            # Faster than columns[missing] = -1 where many keys are missing (asv: arrow.Csr).
            columns = columns + 1
            columns *= ~missing
            columns -= 1
        parts.append(columns)
    return joined(parts, np.dtype(np.int32))


def _word_set(vocabulary: Vocabulary) -> ArrowArray:
    """Return words as Arrow text, null for one with a lone surrogate: no Arrow text equals it."""
    if vocabulary.arrow_words is None:
        words = vocabulary.words
        try:
            vocabulary.arrow_words = pa.array(words, pa.large_string())
        except UnicodeEncodeError:
            fit = [None if _SURROGATE.search(word) else word for word in words]
            vocabulary.arrow_words = pa.array(fit, pa.large_string())
    return vocabulary.arrow_words
