"""Reading, entries: the keys, values and offsets of many maps, and what a column of keys is.

A column of keys is int64, codes of words, str objects, or Arrow text: one small protocol.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count, repeat
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, cast

import numpy as np

from nbmapops._vocabulary import Index, range_index, table_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmapops._constants import Array
    from nbmapops._types import Key, Value
    from nbmapops._vocabulary import Vocabulary

KeyKind = Literal["int64", "string"]
KINDS = {"q": "int64", "l": "int64", "f": "float32", "d": "float64", "O": "string"}
"""The kind of values by the character of their dtype."""


class KeyColumn(Protocol):
    """The keys of a batch.

    Two implementations stand here; the others are `nbmapops._reading.objecttext.ObjectText` and
    `nbmapops._reading.arrowdata.Text`.
    """

    kind: ClassVar[KeyKind]

    def __len__(self) -> int:
        """Return the number of entries."""

    def __getitem__(self, entries: slice) -> KeyColumn:
        """Return the entries of a slice of step 1, without a copy."""

    def take(self, entries: Array) -> KeyColumn:
        """Return the entries at these positions."""

    def to_array(self) -> Array:
        """Return the keys as a read-only array: int64, or objects that are str."""

    def encode(self) -> tuple[Array, Sequence[int] | Sequence[str]]:
        """Return codes and words; words may repeat, and need not be used."""

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """Return the numbers and the index that the kernels take for a vocabulary of this kind."""

    def shares_memory(self, out: Array) -> bool:
        """Tell whether an array lies, perhaps, in the same memory."""


def readonly(array: Array) -> Array:
    """Return a read-only view.

    Numba compiles a kernel anew for writable and for read-only arrays; inputs are always the
    latter, so every kernel has one specialisation for each dtype.
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def int_array(values: Sequence[int]) -> Array:
    """Return ints as an int64 array."""
    return np.array(values, np.int64)


class Int64Keys:
    """Integer keys: a read-only, C-contiguous int64 array."""

    __slots__ = ("array",)

    kind: ClassVar[KeyKind] = "int64"

    def __init__(self, array: Array) -> None:
        self.array = readonly(array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, entries: slice) -> Int64Keys:
        return Int64Keys(self.array[entries])

    def take(self, entries: Array) -> Int64Keys:
        """See `KeyColumn`."""
        return Int64Keys(self.array[entries])

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        return self.array

    def encode(self) -> tuple[Array, Sequence[int]]:
        """See `KeyColumn`."""
        words, codes = np.unique(self.array, return_inverse=True)
        return codes, words.tolist()

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`."""
        return self.array, vocabulary.index

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return np.may_share_memory(out, self.array)


class TextKeys:
    """Text keys as codes of words, so that each distinct word is looked up once.

    Words may repeat (an Arrow dictionary may) and need not be used. Keys that a reader has looked
    up already have the words of the vocabulary itself, and -1 where they are not among them.
    """

    __slots__ = ("codes", "words")

    kind: ClassVar[KeyKind] = "string"

    def __init__(self, codes: Array, words: Sequence[str]) -> None:
        self.codes = readonly(codes)
        self.words = words

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, entries: slice) -> TextKeys:
        return TextKeys(self.codes[entries], self.words)

    def take(self, entries: Array) -> TextKeys:
        """See `KeyColumn`."""
        return TextKeys(self.codes[entries], self.words)

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        words = np.empty(len(self.words), object)
        words[:] = self.words
        return readonly(cast("Array", words[self.codes]))

    def encode(self) -> tuple[Array, Sequence[str]]:
        """See `KeyColumn`."""
        return self.codes, self.words

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`."""
        if self.words is vocabulary.words:
            return self.codes, range_index(len(self.words))
        column_of = vocabulary.columns.get
        columns = np.fromiter(map(column_of, self.words, repeat(-1)), np.int32, len(self.words))
        return self.codes, table_index(columns)

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return np.may_share_memory(out, self.codes)


def text_keys(keys: Iterable[str]) -> TextKeys:
    """Return str keys as codes and words."""
    # No Python code runs for a key: 130 ns, not 260 (asv: dictvectorizer.TextKeys).
    words: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(words.__getitem__, keys), np.int64)
    return TextKeys(codes, tuple(words))


def empty_keys(kind: str) -> KeyColumn:
    """Return a column without an entry."""
    return Int64Keys(int_array([])) if kind == "int64" else TextKeys(int_array([]), ())


class Entries(NamedTuple):
    """The entries of many maps: canonical, read-only and valid.

    Attributes
    ----------
    keys : KeyColumn of n entries
    values : ndarray of shape (n,)
        int64, float32, float64, or objects that are str.
    offsets : ndarray of int64, shape (B + 1,)
        Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``; rises from 0 to n.
    """

    keys: KeyColumn
    values: Array
    offsets: Array

    @property
    def value_kind(self) -> str:
        """Return "int64", "float32", "float64" or "string"."""
        return KINDS[self.values.dtype.char]

    def map_of(self, entry: int) -> int:
        """Return the number of the map that an entry belongs to."""
        return int(np.searchsorted(self.offsets, entry, "right")) - 1

    def map_numbers(self) -> Array:
        """Return the map of each entry, int64 of shape (n,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def map(self, number: int) -> tuple[list[Key], list[Value]]:
        """Return keys and values of one map as Python scalars (np.float32 for float32 values)."""
        start, stop = int(self.offsets[number]), int(self.offsets[number + 1])
        values = self.values[start:stop]
        scalars = list(values) if values.dtype == np.float32 else values.tolist()
        return self.keys[start:stop].to_array().tolist(), scalars

    def before(self, number: int) -> Entries:
        """Return the maps before map `number`."""
        end = int(self.offsets[number])
        return Entries(self.keys[:end], self.values[:end], self.offsets[: number + 1])
