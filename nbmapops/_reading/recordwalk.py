"""Reading, compiled: records, which are maps of numbers, text, lists of text and None.

A record becomes the columns and values of its row, by scikit-learn's rule: a number stands in the
column of its key, a text in the column of the name ``key=text``. The walk of `dictwalk` and what
keeps it safe, with more kinds of value, and these look-ups:

* ``words[key]`` is the column of a number;
* ``categories[key][text]`` is the column of a text; where it is not known yet, the name is made,
  looked up among the words and kept there;
* a memo from (address of the key, address of the text) to column, which lives as long as one call:
  afterwards an address may be another object's. 9 ns an entry, where the look-ups
  take 30 (asv: dicts.Records).

Names are learned in the order in which scikit-learn learns them, and only for entries that are
taken, so that a record that ends the walk leaves no name that another reader would not learn.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core.errors import NumbaError
from numba.extending import overload

from nbmapops._jit import Untyped, inlined, kernel
from nbmapops._load import undisturbed
from nbmapops._reading.dictwalk import (
    _GO,
    DONE,
    FULL,
    STOP,
    _complete,
    _count,
    _learn,
    _note,
)
from nbmapops._reading.objects import (
    ADDRESSES,
    BOOL,
    FLOAT,
    FLOAT32,
    FLOAT64,
    FLOAT_AT,
    GROWING_CELL,
    INT,
    LIST,
    NEXT_CELL,
    STR,
    TUPLE,
    TYPE_COUNT,
    WORD,
    c_function,
    clear_error,
    dict_get,
    dict_set,
    dict_size,
    double_at,
    error_occurred,
    helper,
    int_at,
    int_new,
    is_int,
    is_type,
    list_item,
    list_size,
    new_cells,
    new_notes,
    overflowed,
    peek,
    prefetch,
    reader_of,
    release,
    set_word,
    single_at,
    store,
    tuple_item,
    tuple_size,
    type_of,
    word_at,
)
from nbmapops._reading.objects import available as _dicts_can_be_read
from nbmapops.kernels.order import RANKED, ascends, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._constants import Array, Integer

__all__ = ["DONE", "FULL", "STOP", "Walk", "arrange", "available"]

IGNORE, REFUSE, LEARN = 0, 1, 2
"""What becomes of an unknown name: the entry is left out, ends the walk, or the name is learned."""

_TYPES = (
    type(None), set, frozenset, np.str_, np.bool_,
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
)  # fmt: skip
_NONE, _SET, _FROZENSET, _NUMPY_STR, _NUMPY_BOOL, _INT8 = range(TYPE_COUNT, TYPE_COUNT + 6)
_INT16, _INT32, _INT64, _UINT8, _UINT16, _UINT32, _UINT64 = range(_INT8 + 1, _INT8 + 8)
# After the addresses of types stand those of objects, and then numbers.
_WORDS, _CATEGORIES, _SPARE, _SEPARATOR = range(_UINT64 + 1, _UINT64 + 5)
_UNKNOWN, _NONE_AS, _ROUNDS, _LOW, _HIGH = range(_SEPARATOR + 1, _SEPARATOR + 6)
_CALL, _MEMO, _SHIFT = range(_HIGH + 1, _HIGH + 4)

# What a look-up gives in place of a column.
_LEFT_OUT, _STOPPED, _NO_SPARE, _NOT_NOTED = -1, -2, -3, -4

_ANY_ROOM = 1 << 62
_SLOT = 32  # bytes of a slot of the memo; two of them share a cache line
_TEXT_AT = 48  # about where a short str has its text, often in another cache line than its type
_NUMBER_AT = 16  # of the number in a NumPy scalar
_TABLE_AT, _MASK_AT = 40, 32  # of a set's table, and of the number of its last slot

_concat = c_function("PyUnicode_Concat", WORD, WORD, WORD)
_exact_text = c_function("PyUnicode_FromObject", WORD, WORD)
_text_of = c_function("PyObject_Str", WORD, WORD)

_int8_at, _uint8_at = (reader_of(kind, ir.IntType(8)) for kind in (types.int8, types.uint8))
_int16_at, _uint16_at = (reader_of(kind, ir.IntType(16)) for kind in (types.int16, types.uint16))
_int32_at, _uint32_at = (reader_of(kind, ir.IntType(32)) for kind in (types.int32, types.uint32))


@helper
def _numpy_int(item: int, kind: int, known: int) -> tuple[bool, Integer]:
    """Return whether a value is an integer of NumPy that int64 holds, and that integer."""
    at = item + _NUMBER_AT
    if is_type(kind, known, _INT64):
        return True, word_at(at)
    if is_type(kind, known, _INT32):
        return True, np.int64(_int32_at(at))
    if is_type(kind, known, _UINT8) or is_type(kind, known, _NUMPY_BOOL):
        return True, np.int64(_uint8_at(at))
    if is_type(kind, known, _INT16):
        return True, np.int64(_int16_at(at))
    if is_type(kind, known, _INT8):
        return True, np.int64(_int8_at(at))
    if is_type(kind, known, _UINT32):
        return True, np.int64(_uint32_at(at))
    if is_type(kind, known, _UINT16):
        return True, np.int64(_uint16_at(at))
    number = 0
    if is_type(kind, known, _UINT64):
        number = word_at(at)
        return number >= 0, number
    return False, number


def _in_range(values: Array, j: int, known: int) -> bool:
    """Tell whether an integer that was stored is one that the result's dtype holds."""
    raise NotImplementedError


def _rare_number(item: int, cells: int, known: int, values: Array, j: int) -> bool:
    """Store as ``values[j]`` a number that `store` does not take; False if it is not taken."""
    raise NotImplementedError


@overload(_in_range)
def _overload_in_range(values: Array, j: int, known: int) -> Untyped:  # noqa: ARG001
    return _any_float if values.dtype == types.float64 else _int_in_range


@overload(_rare_number)
def _overload_number(item: int, cells: int, known: int, values: Array, j: int) -> Untyped:  # noqa: ARG001
    return _rare_float if values.dtype == types.float64 else _rare_int


def _any_float(values: Array, j: int, known: int) -> bool:  # noqa: ARG001
    return True


def _int_in_range(values: Array, j: int, known: int) -> bool:
    return bool(word_at(known + 8 * _LOW) <= values[j] <= word_at(known + 8 * _HIGH))


def _rare_float(item: int, cells: int, known: int, values: Array, j: int) -> bool:
    kind = type_of(item)
    if is_type(kind, known, _NONE):
        none = word_at(known + 8 * _NONE_AS)
        values[j] = np.nan if none > 0 else 0.0
        return none >= 0
    taken, number = _numpy_int(item, kind, known)
    if is_int(item, known):
        number = int_at(item, cells)
        taken = not overflowed(cells)
    value = np.float64(number)
    if not taken or (
        word_at(known + 8 * _ROUNDS) == 0
        and not -(2**53) <= number <= 2**53
        and (value >= 2.0**63 or np.int64(value) != number)
    ):
        return False
    values[j] = value
    return True


def _rare_int(item: int, cells: int, known: int, values: Array, j: int) -> bool:  # noqa: ARG001
    kind = type_of(item)
    taken, number = _numpy_int(item, kind, known)
    if not taken:
        value = np.nan
        if is_type(kind, known, FLOAT) or is_type(kind, known, FLOAT64):
            value = double_at(item + FLOAT_AT)
        elif is_type(kind, known, FLOAT32):
            value = np.float64(single_at(item + FLOAT_AT))
        if not -(2.0**63) <= value < 2.0**63:
            return False
        number = np.int64(value)
    values[j] = number
    return bool(word_at(known + 8 * _LOW) <= number <= word_at(known + 8 * _HIGH))


@helper
def _column_at(found: int, cells: int, known: int) -> int:
    """Return the column that is the value of a word."""
    if not is_type(type_of(found), known, INT):
        return _STOPPED
    column = int_at(found, cells)
    if overflowed(cells) or not 0 <= column < dict_size(word_at(known + 8 * _WORDS)):
        return _STOPPED
    return column


@helper
def _of_name(name: int, cells: int, known: int) -> int:
    """Return the column of a name, which is looked up or learned."""
    words = word_at(known + 8 * _WORDS)
    found = dict_get(words, name)
    if found != 0:
        return _column_at(found, cells, known)
    if error_occurred() != 0:
        clear_error()
        return _STOPPED
    unknown = word_at(known + 8 * _UNKNOWN)
    if unknown == LEARN:
        return _learn(words, name)
    return _LEFT_OUT if unknown == IGNORE else _STOPPED


@helper
def _name_of(key: int, text: int, known: int) -> int:
    """Return a new reference to the name ``key=text``, or 0."""
    separator = word_at(known + 8 * _SEPARATOR)
    if is_type(type_of(key), known, STR):
        front = _concat(key, separator)
    else:
        digits = _text_of(key)
        front = _concat(digits, separator) if digits != 0 else digits
        if digits != 0:
            release(digits)
    name = _concat(front, text) if front != 0 else front
    if front != 0:
        release(front)
    return name


@helper
def _texts_of(key: int, known: int) -> int:
    """Return the dict of the columns of this key's texts, 0 where there is none, or `_NO_SPARE`."""
    categories = word_at(known + 8 * _CATEGORIES)
    inner = dict_get(categories, key)
    if inner == 0 and error_occurred() == 0:
        # To make a dict may start the garbage collector, which runs any code.
        spare, used = word_at(known + 8 * _SPARE), dict_size(categories)
        if used >= list_size(spare):
            return _NO_SPARE
        inner = list_item(spare, used)
        if dict_set(categories, key, inner) != 0:
            inner = 0
    if inner == 0:
        clear_error()
    return inner


@helper
def _keep(texts: int, text: int, column: int, known: int) -> None:
    """Keep the column of a text for the next time; a failure costs nothing but that."""
    if column < 0 and dict_size(texts) > dict_size(word_at(known + 8 * _WORDS)):
        return  # texts that are unknown and ever new would pile up
    number = int_new(column)
    if number == 0 or dict_set(texts, text, number) != 0:
        clear_error()
    if number != 0:
        release(number)


@helper
def _of_text(key: int, text: int, cells: int, known: int) -> int:
    """Return the column of a text, an exact str."""
    texts = _texts_of(key, known)
    if texts <= 0:
        return _NO_SPARE if texts < 0 else _STOPPED
    found = dict_get(texts, text)
    if found != 0:
        column = int_at(found, cells)
        if column >= 0:
            return column
        return _LEFT_OUT if word_at(known + 8 * _UNKNOWN) == IGNORE else _STOPPED
    name = _name_of(key, text, known) if error_occurred() == 0 else 0
    if name == 0:
        clear_error()
        return _STOPPED
    column = _of_name(name, cells, known)
    release(name)
    if column >= _LEFT_OUT:
        _keep(texts, text, column, known)
    return column


@helper
def _look_up(key: int, text: int, cells: int, known: int) -> int:
    """Return the column of a number (`text` is 0) or a text under a key."""
    kind = type_of(key)
    if not is_type(kind, known, STR) and not is_type(kind, known, INT):
        # True and 1 are the same key of a dict, and not the same in a name.
        return _of_name(key, cells, known) if text == 0 and is_type(kind, known, BOOL) else _STOPPED
    if text == 0:
        return _of_name(key, cells, known)
    if is_type(type_of(text), known, STR):
        return _of_text(key, text, cells, known)
    exact = _exact_text(text)
    if exact == 0:
        clear_error()
        return _STOPPED
    column = _of_text(key, exact, cells, known)
    release(exact)
    return column


@inlined
def _bucket_of(key: int, text: int, memo: int, shift: np.uint64) -> int:
    """Return the address of the two slots for a key and the text under it (0: a number)."""
    mixed = np.uint64(key ^ (key >> 12)) * np.uint64(0x9E3779B97F4A7C15)
    mixed += np.uint64(text ^ (text >> 12)) * np.uint64(0xC2B2AE3D27D4EB4F)
    return memo + 2 * _SLOT * np.int64(mixed >> shift)  # type: ignore[return-value]


@inlined
def _noted(bucket: int, key: int, text: int, call: int) -> int:
    """Return the column that was noted in this call for this key and text, or `_NOT_NOTED`."""
    for slot in (bucket, bucket + _SLOT):
        if word_at(slot) == key and word_at(slot + 8) == text:
            call_and_column = word_at(slot + 16)
            if call_and_column >> 32 == call:
                return (call_and_column & 0xFFFFFFFF) - 1
    return _NOT_NOTED


@helper
def _remember(bucket: int, key: int, text: int, call: int, cells: int, known: int) -> int:
    """Look up a column, and note it in place of the older one of two."""
    column = _look_up(key, text, cells, known)
    if _LEFT_OUT <= column < 1 << 31:
        for word in range(bucket, bucket + 24, 8):
            set_word(word + _SLOT, word_at(word))
        set_word(bucket, key)
        set_word(bucket + 8, text)
        set_word(bucket + 16, (call << 32) + column + 1)
    return column


@inlined
def _column_of(
    key: int, text: int, call: int, memo: int, shift: np.uint64, cells: int, known: int
) -> int:
    """Return the column of a number (`text` is 0) or a text under a key, by the memo if it can."""
    bucket = _bucket_of(key, text, memo, shift)
    column = _noted(bucket, key, text, call)
    if column == _NOT_NOTED:
        column = _remember(bucket, key, text, call, cells, known)
    return column


@helper
def _is_text(item: int, known: int) -> bool:
    kind = type_of(item)
    return bool(is_type(kind, known, STR) or is_type(kind, known, _NUMPY_STR))


@helper
def _slots(item: int, known: int) -> int:
    """Return the length of a list or tuple, the size of a set's table, -1 for anything else."""
    kind = type_of(item)
    if is_type(kind, known, LIST):
        return list_size(item)
    if is_type(kind, known, TUPLE):
        return tuple_size(item)
    if is_type(kind, known, _SET) or is_type(kind, known, _FROZENSET):
        return word_at(item + _MASK_AT) + 1
    return -1


@helper
def _slot(item: int, kind: int, i: int, known: int) -> int:
    """Return the address of an item, 0 for a slot of a set without one."""
    if is_type(kind, known, LIST):
        return list_item(item, i)
    if is_type(kind, known, TUPLE):
        return tuple_item(item, i)
    entry = word_at(item + _TABLE_AT) + 16 * i
    # A removed item has left a hash that no object has.
    return word_at(entry) if word_at(entry + 8) != -1 else 0


@helper
def _several(
    key: int, item: int, cells: int, known: int, columns: Array, values: Array, j: int
) -> int:
    """Read a list, tuple or set of text as entries; where they end, or why they are not taken."""
    call = word_at(known + 8 * _CALL)
    memo, shift = word_at(known + 8 * _MEMO), np.uint64(word_at(known + 8 * _SHIFT))
    slots = _slots(item, known)
    if slots < 0:
        return _STOPPED
    kind = type_of(item)
    for i in range(slots):
        text = _slot(item, kind, i, known)
        if text == 0:
            continue
        if not _is_text(text, known):
            return _STOPPED
        if j >= len(columns):
            return _NO_SPARE
        column = _column_of(key, text, call, memo, shift, cells, known)
        if column >= 0:
            columns[j] = column
            values[j] = 1
            j += 1
        elif column != _LEFT_OUT:
            return column
    return j


@helper
def _ask_for_texts(notes: int, n: int) -> None:
    """Ask for the memory of texts early: 7 % less for new ones (asv: dicts.Records)."""
    for note in range(notes, notes + 16 * n, 16):
        prefetch(word_at(note) + _TEXT_AT)
        prefetch(word_at(note + 8) + _TEXT_AT)


@partial(kernel, nogil=False)  # the GIL is held
def _walk_records(
    maps: int, first: int, known: int, columns: Array, values: Array, offsets: Array
) -> tuple[int, int]:
    """Read records; see `Walk.read`."""
    stop = _count(maps, known)
    if first < 0 or stop < 0:
        return 0, STOP
    cells, notes = new_cells(), new_notes()
    call = word_at(known + 8 * _CALL)
    memo, shift = word_at(known + 8 * _MEMO), np.uint64(word_at(known + 8 * _SHIFT))
    set_word(cells + NEXT_CELL, first)
    set_word(cells + GROWING_CELL, word_at(known + 8 * _WORDS))
    ends = np.zeros(len(offsets), np.int64)  # of the maps' own entries, which may be left out
    entry, j, done, next_end, reason = 0, 0, 0, 0, _GO
    while reason == _GO:
        n, reason = _note(maps, first, stop, _ANY_ROOM, known, cells, notes, ends)
        _ask_for_texts(notes, n)
        for note in range(notes, notes + 16 * n, 16):
            if entry == next_end:
                while ends[done + 1] <= entry:
                    done += 1
                    offsets[done] = j
                next_end = ends[done + 1]
            if j >= len(columns):
                return done, FULL
            key, value = word_at(note), word_at(note + 8)
            text = 0
            if _is_text(value, known):
                text = value
                values[j] = 1
            elif store(value, cells, known, values, j) and _in_range(values, j, known):
                pass  # in this order, which saves a call for every number
            elif not _rare_number(value, cells, known, values, j):
                end = _several(key, value, cells, known, columns, values, j)
                if end < 0:
                    return done, FULL if end == _NO_SPARE else STOP
                j, entry = end, entry + 1
                continue
            column = _column_of(key, text, call, memo, shift, cells, known)
            if column >= 0:
                columns[np.uint64(j)] = column
                j += 1
            elif column != _LEFT_OUT:
                return done, FULL if column == _NO_SPARE else STOP
            entry += 1
    while done < _complete(cells, first):
        done += 1
        offsets[done] = j
    return done, reason


class Walk:
    """The compiled walk over the records of one call of the estimator.

    Use it only if `available` is true.

    Parameters
    ----------
    words : dict
        The column of each name: an exact dict whose keys are exact str, int and bool.
    separator : str
        An exact str, between key and text in a name.
    unknown : {`IGNORE`, `REFUSE`, `LEARN`}
        What becomes of a name that is not among the words; a name that is learned gets
        ``len(words)``.
    none : float or None
        What a None becomes, NaN or 0; None ends the walk.
    rounds : bool
        Whether an int is taken that float64 does not hold, where values are float64.
    low, high : int
        The least and the largest integer that is taken, where values are int64.
    """

    def __init__(
        self,
        words: dict[object, int],
        separator: str,
        unknown: int,
        none: float | None,
        rounds: bool,
        low: int,
        high: int,
    ) -> None:
        self._words = words
        self._separator = separator
        self._categories: dict[object, dict[str, int]] = {}
        self._spare: list[dict[str, int]] = []
        self._memo = np.zeros(0, np.int64)
        none_as = -1 if none is None else int(none != 0)
        objects = words, self._categories, self._spare, separator
        options = unknown, none_as, rounds, low, high
        self._context = np.array(
            [*ADDRESSES, *map(id, (*_TYPES, *objects)), *options, 0, 0, 0], np.int64
        )

    def read(
        self, maps: Sequence[object], first: int, columns: Array, values: Array, offsets: Array
    ) -> tuple[int, int]:
        """Read ``maps[first]``, ``maps[first + 1]``, ... into arrays, as far as that goes.

        Parameters
        ----------
        maps : list or tuple
            Exactly a list or a tuple. Taken out of it are exact dict, Counter and defaultdict
            objects with exact str or int keys (bool for numbers) and values that are numbers of
            Python or NumPy, text, None, or exact lists, tuples and sets of text.
        first : int
            Number of the map to begin with, not negative.
        columns : int32 array
            Receives the columns.
        values : float64 or int64 array of the same length
            Receives the values, 1 for a text.
        offsets : int64 array
            ``offsets[i + 1]`` becomes the end of the i-th map read.

        Returns
        -------
        count : int
            How many maps were read completely.
        reason : int
            `DONE`: there are no more maps. `FULL`: there is no room for the next map; call again
            with more, or, if maps were read, with the same. `STOP`: the next map is, or holds,
            something that plain Python must look at.
        """
        while len(self._spare) < 2 * len(self._categories) + 8:
            self._spare.append({})
        self._reserve_memo()
        self._context[_CALL] += 1
        return _walk_records(id(maps), first, self._context.ctypes.data, columns, values, offsets)

    def _reserve_memo(self) -> None:
        # With eight slots a word few words share two slots; 2**14 slots are 512 KiB.
        bits = min(max((8 * len(self._words)).bit_length(), 10), 14)
        if self._memo.size < 4 << bits:
            self._memo = np.zeros(4 << bits, np.int64)
            self._context[_MEMO] = self._memo.ctypes.data
            self._context[_SHIFT] = 65 - bits


_STABLE = 16


@helper
def _renumber(columns: Array, lo: int, hi: int, column_of: Array) -> bool:
    """Write the column of each code in its place; False where a code has no column."""
    for i in range(lo, hi):
        code = columns[i]
        if not 0 <= code < len(column_of):
            return False
        columns[i] = column_of[code]
    return True


@helper
def _sort_stably(columns: Array, values: Array, lo: int, hi: int) -> None:
    """Sort a few entries, equal columns in their order: an insertion sort."""
    for i in range(lo + 1, hi):
        column, value, j = columns[i], values[i], i
        while j > lo and columns[j - 1] > column:
            columns[j], values[j] = columns[j - 1], values[j - 1]
            j -= 1
        columns[j], values[j] = column, value


@kernel
def _arrange(
    columns: Array, values: Array, offsets: Array, first: int, last: int, column_of: Array
) -> int:
    """Sort rows in place; how many are not sorted, or -1 for rows that are none. See `arrange`."""
    local, ranks = np.empty(RANKED, columns.dtype), np.empty(RANKED, columns.dtype)
    held = np.empty(RANKED, values.dtype)
    unsorted = 0
    for row in range(first, last):
        lo, hi = offsets[row], offsets[row + 1]
        if not 0 <= lo <= hi <= min(len(columns), len(values)):
            return -1
        if len(column_of) > 0 and not _renumber(columns, lo, hi, column_of):
            return -1
        n = hi - lo
        if ascends(columns, lo, n):
            continue
        if n <= RANKED and rank(columns, lo, n, local, ranks):
            at = np.uint64(lo)
            for i in range(np.uint64(n)):
                held[i] = values[at + i]
            for i in range(np.uint64(n)):
                place = at + np.uint64(ranks[i])
                columns[place] = local[i]
                values[place] = held[i]
        elif n <= _STABLE:
            _sort_stably(columns, values, lo, hi)
        else:
            unsorted += 1
    return unsorted


def arrange(
    columns: Array, values: Array, offsets: Array, first: int, last: int, column_of: Array
) -> bool:
    """Put the entries of rows in the order of their columns, in place.

    Parameters
    ----------
    columns : int32 array
        The column of each entry, or a code for it.
    values : array
        The values.
    offsets : int64 array
        Row i is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    first, last : int
        The rows, without the last.
    column_of : int32 array
        The column of each code; empty: these are columns already.

    Returns
    -------
    bool
        Whether all of these rows are sorted now. Not sorted are rows of more than 64 entries, and
        those of more than 16 with a column twice: SciPy's sort shuffles these, and who compares
        with it must use it.

    Raises
    ------
    RuntimeError
        An offset or a code that is none.
    """
    kind = {4: np.int32, 8: np.int64}.get(values.itemsize)
    if kind is None:  # rare enough to need no kernel
        if len(column_of):
            part = columns[offsets[first] : offsets[last]]
            part[:] = column_of[part]
        return False
    unsorted = _arrange(columns, values.view(kind), offsets, first, last, column_of)
    if unsorted < 0:
        raise RuntimeError("rows changed while they were sorted")
    return unsorted == 0


@cache
def available() -> bool:
    """Tell whether `Walk` can be used in this process; tested once.

    Returns
    -------
    bool
        False where `objects.available` is, or after a surprise in the layout of objects.
    """
    if not (_dicts_can_be_read() and undisturbed(_layout_holds)):
        return False
    try:
        return _answers_hold()
    except NumbaError:  # a kernel that this version of Numba cannot compile is not used
        return False


def _layout_holds() -> bool:
    """Check the offsets that the kernels read at."""
    numbers = (np.int8(-3), np.int16(-3), np.int32(-3), np.int64(-3), np.uint8(3), np.uint16(3))
    kinds = {"i": "c_int", "u": "c_uint", "b": "c_uint"}
    texts = {f"t{n}" for n in range(5)}
    table = peek(ctypes.c_ssize_t, texts, _TABLE_AT)
    size = peek(ctypes.c_ssize_t, texts, _MASK_AT) + 1
    if not (set.__basicsize__ == frozenset.__basicsize__ == 200 and size in (16, 32)):
        return False
    slots = [ctypes.c_ssize_t.from_address(table + 8 * n).value for n in range(2 * size)]
    found = {slots[n] for n in range(0, 2 * size, 2)} - {0}
    return (
        found == set(map(id, texts))
        and all(
            peek(getattr(ctypes, f"{kinds[each.dtype.kind]}{8 * each.itemsize}"), each, _NUMBER_AT)
            == each
            for each in (*numbers, np.uint32(3), np.uint64(3), np.True_)
        )
        and all(
            binding.address_of_symbol(name)
            for name in ("PyUnicode_Concat", "PyUnicode_FromObject", "PyObject_Str")
        )
    )


def _answers_hold() -> bool:
    """Walk a record whose answer is known."""
    texts = {"p", "q"}
    texts.discard("p")
    record = {
        "a": 2.5, "b": "x", "c": ("y", "x"), "d": texts, "e": None, 7: "x", True: np.int8(-3),
        "f": np.uint32(2**32 - 1), "g": np.str_("z"), "b=x": True,
    }  # fmt: skip
    words: dict[object, int] = {"a": 0}
    columns, values, offsets = np.zeros(16, np.int32), np.zeros(16), np.zeros(3, np.int64)
    walk = Walk(words, "=", LEARN, float("nan"), False, 0, 0)
    holds = walk.read([record, {"a": b""}], 0, columns, values, offsets) == (1, STOP)
    names = ["a", "b=x", "c=y", "c=x", "d=q", "e", "7=x", True, "f", "g=z"]
    expected = [2.5, 1, 1, 1, 1, 0, 1, -3, 2**32 - 1, 1, 1]
    return (
        holds
        and list(words) == names
        and offsets[1] == 11
        and columns[:11].tolist() == [*range(10), 1]
        and np.nan_to_num(values[:11]).tolist() == expected
    )
