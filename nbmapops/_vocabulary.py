"""Vocabulary: the words of a DictVectorizer, and the index that finds their columns.

Text words are found through a dict, int64 words through the arrays that `nbmapops.kernels`
reads (described there). Small tables are made by NumPy; Numba is loaded only for a hash.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from nbmapops._constants import FORMAT, HASH, INT64_MAX, INT64_MIN, RANGE, TABLE
from nbmapops._foreign import let_out
from nbmapops._load import imported, load_kernels
from nbmapops._reading.columns import is_column, is_integer, plain_column, refuse_missing
from nbmapops.errors import show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbmapops._constants import Array

__all__ = [
    "Index",
    "Vocabulary",
    "build_index",
    "check_pruning",
    "counted_words",
    "map_counts",
    "pruned",
    "range_index",
    "table_index",
    "unknown_column",
    "unknown_columns",
]

Kind = Literal["int64", "string"]


class Index(NamedTuple):
    """The four read-only arrays that the kernels take as the index of a vocabulary."""

    header: NDArray[np.int64]
    pilots: NDArray[np.uint16]
    slots: NDArray[np.int64]
    table: NDArray[np.int32]


# Above it `in` does not copy all words into a dict: 60 MB for 10**6 words.
_FEW_WORDS = 1 << 10


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _index(
    header: Sequence[int],
    pilots: NDArray[np.uint16] | None = None,
    slots: NDArray[np.int64] | None = None,
    table: NDArray[np.int32] | None = None,
) -> Index:
    padded = [FORMAT, *header, *[0] * (7 - len(header))]
    return Index(
        _frozen(np.array(padded, np.int64)),
        _frozen(np.empty(0, np.uint16) if pilots is None else pilots),
        _frozen(np.empty(0, np.int64) if slots is None else slots),
        _frozen(np.empty(0, np.int32) if table is None else table),
    )


@lru_cache(maxsize=64)
def range_index(columns: int, low: int = 0) -> Index:
    """Index of the words ``low, low + 1, ..., low + columns - 1``."""
    return _index([RANGE, columns, low])


def table_index(columns_of: NDArray[np.int32]) -> Index:
    """Index of the words ``0, 1, ...`` with the given columns; -1: that number is not a word."""
    if len(columns_of) == 0:
        return range_index(0)
    table = np.array(columns_of, np.int32)
    return _index([TABLE, int(table.max()) + 1, 0], table=table)


def build_index(
    words: NDArray[np.int64],
    columns: NDArray[np.int64] | None = None,
    width: int | None = None,
) -> Index:
    """Index of distinct int64 words.

    Parameters
    ----------
    words : int64 array, shape (n,)
        No word twice, or a ValueError.
    columns : int64 array, shape (n,), optional
        The column of each word; its position when not given.
    width : int, optional
        The number of columns, when `columns` are given.

    Returns
    -------
    Index
        The same bytes for the same words, always.
    """
    n = len(words)
    if n == 0:
        return range_index(0)
    words = _frozen(np.ascontiguousarray(words, np.int64).view())
    low, high = int(words.min()), int(words.max())
    span = high - low + 1
    if columns is None and span == n and int(words[0]) == low and bool((np.diff(words) == 1).all()):
        return range_index(n, low)
    places = np.arange(n) if columns is None else columns
    total = n if width is None else width
    if span <= 4 * n:
        table = np.full(span, -1, np.int32)
        table[words - low] = places
        if np.count_nonzero(table >= 0) < n:
            raise ValueError("a word is repeated")
        return _index([TABLE, total, low], table=table)
    return _hash_index(words, places if columns is not None else None, total)


def _hash_index(words: NDArray[np.int64], columns: NDArray[np.int64] | None, width: int) -> Index:
    hashlib = imported("hashlib")  # 2 ms, which no other vocabulary needs
    kernels = load_kernels()
    n = len(words)
    bits = max(1, (n // 4).bit_length())  # 2 to 4 words a bucket
    digest = hashlib.blake2b(words.astype("<i8", copy=False).data, digest_size=32).digest()
    attempt = 0
    while True:
        # A chosen set of words cannot be bad for a number that follows from the set itself.
        seed = hashlib.blake2b(digest, digest_size=8, salt=attempt.to_bytes(8, "little"))
        multiplier = int.from_bytes(seed.digest(), "little", signed=True) | 1
        n_slots = n + n // 4 + 8 + attempt * (n // 16 + 4)
        pilots = np.zeros(1 << bits, np.uint16)
        slots = np.empty(2 * n_slots, np.int64)
        status = kernels.build_hash(words, n_slots, bits, multiplier, pilots, slots)
        if status == kernels.OK:
            break
        # Many copies of one word look like a multiplier that does not spread the words.
        if status >= 0 or len(np.unique(words)) < n:
            raise ValueError("a word is repeated")
        attempt += 1
    if columns is not None:
        held = slots[1::2]
        used = held >= 0
        held[used] = columns[held[used]]
    return _index([HASH, width, 0, n_slots, bits, multiplier], pilots, slots)


def _listed(words: object, kind: Kind, name: str) -> Sequence[object] | Array:
    """Return `words` as a list, a tuple or an array; a TypeError where order would be guessed."""
    if isinstance(words, (list, tuple)):
        return words
    if isinstance(words, (str, bytes, bytearray, memoryview, Mapping, AbstractSet)):
        # In gensim and scikit-learn a vocabulary is a dict of word -> column.
        remedy = "; of a dict d of word -> column, sorted(d, key=d.get)"
        remedy = remedy if isinstance(words, Mapping) else ""
        raise TypeError(
            f"{name} must be a sequence of words in column order (a list, a tuple, an array), "
            f"not {type(words).__name__}{remedy}"
        )
    if is_column(words):
        column = plain_column(words, f"{name}: the words")
        if isinstance(column, list):
            return column
        if column.ndim != 1:
            raise ValueError(f"{name} must have one dimension, not {column.ndim}")
        if kind == "int64" and column.dtype.kind in "iub":
            return column
        return column.tolist() if column.dtype.kind in "OUT" else list(column)
    if isinstance(words, Sequence):
        return list(words)
    raise TypeError(
        f"{name} must be a sequence of words (a list, a tuple, an array), "
        f"not {type(words).__name__}; pass list(...) of it"
    )


def _exact_int(word: object) -> int | None:
    if isinstance(word, int):
        return int.__index__(word)
    if isinstance(word, np.generic) and word.dtype.kind in "iub":
        return int(cast("Any", word))
    return None


def _exact_str(word: object) -> str | None:
    return str.__str__(word) if isinstance(word, str) else None


def _int64_words(words: Sequence[object] | Array, name: str) -> NDArray[np.int64]:
    if isinstance(words, np.ndarray):
        if words.dtype.kind != "u" or words.itemsize < 8:
            return np.array(words, np.int64)
        words = words.tolist()
    if set(map(type, words)) <= {int, bool}:
        try:
            return np.array(words, np.int64)
        except OverflowError as error:  # told below, with its place
            let_out(error)
    exact = np.empty(len(words), np.int64)
    for i, word in enumerate(words):
        number = _exact_int(word)
        if number is None:
            refuse_missing(words, f"{name}: the words")
            raise TypeError(
                f"{name}: word {i} is {show(word)} ({type(word).__name__}); words must be integers"
            )
        if not INT64_MIN <= number <= INT64_MAX:
            # Python refuses to write out an int of thousands of digits.
            shown = number if number.bit_length() < 128 else f"of {number.bit_length()} bits"
            raise OverflowError(
                f"{name}: word {i} is an integer, {shown}, that int64 cannot hold; "
                f"pass the words as text in string_vocabulary"
            )
        exact[i] = number
    return exact


def _string_words(words: Sequence[object] | Array, name: str) -> tuple[str, ...]:
    if set(map(type, words)) <= {str}:
        return tuple(cast("Sequence[str]", words))
    exact = []
    for i, word in enumerate(words):
        text = _exact_str(word)
        if text is None:
            refuse_missing(words, f"{name}: the words")
            raise TypeError(
                f"{name}: word {i} is {show(word)} ({type(word).__name__}); words must be str"
            )
        exact.append(text)
    return tuple(exact)


def _first_columns(words: Iterable[int] | Iterable[str]) -> dict[Any, int]:
    columns: dict[Any, int] = {}
    for column, word in enumerate(words):
        columns.setdefault(word, column)
    return columns


def _has_repeats(words: NDArray[np.int64]) -> bool:
    if bool((words[1:] > words[:-1]).all()):
        return False
    ascending = np.sort(words)
    return bool((ascending[1:] == ascending[:-1]).any())


# ------------------------------------------------------------------------------- unknown keys
_U30, _U27, _U31 = np.uint64(30), np.uint64(27), np.uint64(31)
_STEP, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def unknown_columns(keys: NDArray[np.int64] | Sequence[str], n: int) -> NDArray[np.int64]:
    """Return which of `n` columns each unknown key goes to, 0 to n - 1: the same everywhere.

    A key has a number x: an int64 itself modulo 2**64, a text the CRC-32 (as in zlib) of its
    UTF-8, in which lone surrogates are encoded like any code point. Modulo 2**64 throughout::

        x = x + 0x9E3779B97F4A7C15  # the finaliser of SplitMix64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
        x = (x ^ x >> 27) * 0x94D049BB133111EB
        column = (x ^ x >> 31) % n

    Parameters
    ----------
    keys : int64 array or sequence of str, shape (k,)
    n : int
        At least 1.

    Returns
    -------
    int64 array, shape (k,)

    Examples
    --------
    >>> unknown_columns(np.array([0, 1, -1]), 1000).tolist()
    [535, 465, 936]
    >>> unknown_columns(["", "a", "é"], 1000).tolist()
    [535, 774, 104]
    """
    if isinstance(keys, np.ndarray):
        numbers = keys.astype(np.int64).view(np.uint64)
    else:
        texts = (key.encode("utf-8", "surrogatepass") for key in keys)
        numbers = np.fromiter(map(zlib.crc32, texts), np.uint64, len(keys))
    # Arithmetic of arrays wraps around in silence.
    numbers = numbers + _STEP
    numbers = (numbers ^ numbers >> _U30) * _FIRST
    numbers = (numbers ^ numbers >> _U27) * _SECOND
    return ((numbers ^ numbers >> _U31) % np.uint64(n)).astype(np.int64)


def unknown_column(key: int | str, n: int) -> int:
    """Return which of `n` columns an unknown key goes to: see `unknown_columns`."""
    x = key if isinstance(key, int) else zlib.crc32(key.encode("utf-8", "surrogatepass"))
    mask = 2**64 - 1
    x = (x + int(_STEP)) & mask
    x = (x ^ x >> 30) * int(_FIRST) & mask
    x = (x ^ x >> 27) * int(_SECOND) & mask
    return (x ^ x >> 31) % n


# ------------------------------------------------------------------------------- fewer words
def check_pruning(min_maps: object, max_words: object, operator: str) -> tuple[int, int | None]:
    """Return the limits of `pruned` as ints; a TypeError or ValueError for any other."""
    limits = {"min_maps": min_maps, "max_words": max_words}
    for name, limit in limits.items():
        if name == "max_words" and limit is None:
            continue
        if not is_integer(limit) or limit < 1:
            error = ValueError if is_integer(limit) else TypeError
            or_none = " or None" if name == "max_words" else ""
            raise error(f"{operator}: {name} must be an integer >= 1{or_none}, not {show(limit)}")
    return int(cast("int", min_maps)), None if max_words is None else int(cast("int", max_words))


def map_counts(
    columns: NDArray[np.int64], offsets: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Return in how many maps each word stands.

    Parameters
    ----------
    columns : int64 array, shape (nnz,)
        The word of each entry, from 0; -1 for an entry without a word.
    offsets : int64 array, shape (B + 1,)
        Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``; it may hold a word twice.
    width : int
        The number of words.

    Returns
    -------
    int64 array, shape (width,)
    """
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(columns, kind="stable")  # the maps of a word stay in order
    columns, maps = columns[order], maps[order]
    first = np.ones(len(columns), bool)
    first[1:] = (columns[1:] != columns[:-1]) | (maps[1:] != maps[:-1])
    return np.bincount(columns[first & (columns >= 0)], minlength=width).astype(np.int64)


def counted_words(
    keys: NDArray[np.int64], words: Sequence[str] | None, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | list[str], NDArray[np.int64]]:
    """Return the distinct keys of maps as they are first seen, and in how many maps each stands.

    Parameters
    ----------
    keys : int64 array, shape (nnz,)
        The keys, or the codes of text keys.
    words : sequence of str, optional
        What the codes mean; words may repeat, and need not be used.
    offsets : int64 array, shape (B + 1,)
        Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``.

    Returns
    -------
    words : int64 array or list of str, shape (V,)
    counts : int64 array, shape (V,)
    """
    if words is not None:
        number: dict[str, int] = {}
        keys = np.array([number.setdefault(word, len(number)) for word in words], np.int64)[keys]
    ascending, first, columns = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    counts = map_counts(columns, offsets, len(ascending))[order]
    if words is None:
        return ascending[order], counts
    names = list(number)
    return [names[place] for place in ascending[order].tolist()], counts


def pruned(counts: NDArray[np.int64], min_maps: int, max_words: int | None) -> NDArray[np.int64]:
    """Return the places of the words that stay, ascending.

    Words of fewer maps than `min_maps` go; then the `max_words` that stand in most maps stay, of
    those in equally many the earlier.

    Parameters
    ----------
    counts : int64 array, shape (V,)
        From `map_counts`, for words in the order of the columns.
    min_maps : int
    max_words : int, optional

    Returns
    -------
    int64 array

    Examples
    --------
    >>> pruned(np.array([3, 1, 2, 3, 2]), 2, 3).tolist()
    [0, 2, 3]
    """
    kept = np.flatnonzero(counts >= min_maps)
    if max_words is not None and len(kept) > max_words:
        kept = np.sort(kept[np.argsort(-counts[kept], kind="stable")[:max_words]])
    return kept


class Vocabulary:
    """Words in column order, and where each word's column is.

    Immutable. Made by `from_words`; equal words make equal vocabularies with equal pickles.
    """

    __slots__ = (
        "_ascending", "_columns", "_hash", "_index", "arrow_words", "copies", "kind",
        "text_index", "words",
    )  # fmt: skip

    kind: Kind
    words: Any  # a read-only int64 array, or a tuple of str
    copies: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    arrow_words: Any  # words as Arrow text, made and kept by the adapter
    text_index: Any  # the table of text words, made and kept by the compiled lookup

    def __init__(self, words: NDArray[np.int64] | tuple[str, ...]) -> None:
        self.kind = "string" if isinstance(words, tuple) else "int64"
        self.words = words if isinstance(words, tuple) else _frozen(words)
        self.copies = None
        self.arrow_words = None
        self.text_index = None
        self._columns: dict[Any, int] | None = None
        self._index: Index | None = None
        self._ascending: tuple[NDArray[np.int64], NDArray[np.int64] | None] | None = None
        self._hash: int | None = None
        if self._repeats():
            columns = np.arange(len(self.words))
            firsts = np.array([self.columns[word] for word in self._listed()], np.int64)
            later = firsts < columns
            self.copies = _frozen(columns[later]), _frozen(firsts[later])

    def _repeats(self) -> bool:
        if self.kind == "string":
            return len(self.columns) < len(self.words)
        return _has_repeats(self.words)

    @classmethod
    def from_words(
        cls, words: object, kind: Kind, *, name: str = "int64_vocabulary", repeats: bool = False
    ) -> Vocabulary:
        """Check `words` and hold them as exact int or str.

        Parameters
        ----------
        words : sequence
            A list, a tuple, an array or an Arrow array, in column order.
        kind : {"int64", "string"}
            What the words are.
        name : str
            How messages call `words`.
        repeats : bool
            Whether a word may stand more than once.

        Returns
        -------
        Vocabulary

        Raises
        ------
        TypeError
            For a dict, a set, a bare str, and words of another type.
        OverflowError
            For an integer outside int64.
        ValueError
            For a repeated word, or an array that has not one dimension.
        """
        listed = _listed(words, kind, name)
        made = cls(_int64_words(listed, name) if kind == "int64" else _string_words(listed, name))
        if made.copies is not None and not repeats:
            column, first = int(made.copies[0][0]), int(made.copies[1][0])
            raise ValueError(
                f"{name}: word {show(made._listed()[column])} is repeated "
                f"(words {first} and {column}); each word stands for one column"
            )
        return made

    def _listed(self) -> Sequence[int] | Sequence[str]:
        words: Sequence[int] | Sequence[str] = (
            self.words if self.kind == "string" else self.words.tolist()
        )
        return words

    @property
    def columns(self) -> dict[Any, int]:
        """First column of every word."""
        # Two threads may both build this or the index: they build the same, so the last one wins.
        if self._columns is None:
            self._columns = _first_columns(self._listed())
        return self._columns

    @property
    def index(self) -> Index:
        """The index of int64 words, over distinct words with their first columns."""
        if self._index is None:
            if self.kind == "string":
                raise TypeError("words of type str have no int64 index")
            if self.copies is None:
                self._index = build_index(self.words)
            else:
                firsts = np.delete(np.arange(len(self.words)), self.copies[0])
                self._index = build_index(self.words[firsts], firsts, len(self.words))
        return self._index

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, key: object) -> bool:
        exact = _exact_int(key) if self.kind == "int64" else _exact_str(key)
        if exact is None:
            return False
        if isinstance(exact, str) or self._columns is not None or len(self) <= _FEW_WORDS:
            return exact in self.columns
        if not INT64_MIN <= exact <= INT64_MAX:
            return False
        return bool(self.find(np.array([exact], np.int64))[0] >= 0)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first column of each int64 key, -1 for one that is not a word.

        A binary search, without a compiler: for few keys, or for many where Numba is not loaded.

        Parameters
        ----------
        keys : int64 array, shape (n,)

        Returns
        -------
        int64 array, shape (n,)
        """
        if len(self) == 0:
            return np.full(len(keys), -1, np.int64)
        if self._ascending is None:
            words: NDArray[np.int64] = self.words
            order = None
            if not bool((words[1:] > words[:-1]).all()):
                order = np.argsort(words, kind="stable")  # of copies the first column comes first
                words = words[order]
            self._ascending = words, order
        words, order = self._ascending
        places = np.searchsorted(words, keys)
        places[places == len(words)] = 0
        columns = places if order is None else order[places]
        return np.where(words[places] == keys, columns, -1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        if self.kind != other.kind:
            return False
        if self.kind == "string":
            return bool(self.words == other.words)
        return bool(np.array_equal(self.words, other.words))

    def __hash__(self) -> int:
        if self._hash is None:
            words = self.words if self.kind == "string" else self.words.tobytes()
            self._hash = hash((self.kind, words))
        return self._hash

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} {self.kind} words>"

    def state(self) -> tuple[Any, ...]:
        """Return what a pickle holds: the same bytes for equal words, no hash of a str.

        Text is packed into one string, so that it makes no difference which of the words (or of
        the caller's other objects) are the same str object.
        """
        if self.kind == "string":
            lengths = np.fromiter(map(len, self.words), "<i8", len(self.words))
            text = "".join(self.words).encode("utf-8", "surrogatepass")
            return (FORMAT, self.kind, text, lengths.tobytes())
        arrays = [array.astype(array.dtype.newbyteorder("<")).tobytes() for array in self.index]
        return (FORMAT, self.kind, self.words.astype("<i8").tobytes(), *arrays)

    @classmethod
    def from_state(cls, state: tuple[Any, ...]) -> Vocabulary:
        """Rebuild what `state` described; an index of another format is made anew.

        Parameters
        ----------
        state : tuple
            From `state`.

        Returns
        -------
        Vocabulary
        """
        number, kind, packed, *arrays = state
        if kind == "string":
            text = packed.decode("utf-8", "surrogatepass")
            ends = np.cumsum(np.frombuffer(arrays[0], "<i8")).tolist()
            return cls(tuple(text[a:b] for a, b in zip([0, *ends], ends, strict=False)))
        made = cls(np.frombuffer(packed, "<i8").astype(np.int64))
        if number == FORMAT:
            types = ("<i8", "<u2", "<i8", "<i4")
            made._index = Index(
                *(
                    _frozen(np.frombuffer(array, dtype).astype(dtype[1:]))
                    for array, dtype in zip(arrays, types, strict=True)
                )
            )
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Vocabulary.from_state, (self.state(),)
