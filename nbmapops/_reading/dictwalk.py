"""Read Python dicts from compiled code, through CPython's stable C API.

A list of dicts becomes three arrays (keys, values, offsets) without a Python object made or a
bytecode run for an entry: 6 ns an entry where `np.fromiter` takes 40.

What keeps this safe:

* The kernels hold the GIL (no ``nogil`` here), so no other thread can change a dict, a list or a
  reference count while they run, and borrowed references stay valid.
* Nothing they call can run user code: keys and values are looked at only when their type is
  exactly one of those listed in `_TYPES`. Anything else ends the walk, and plain Python, which
  may raise and run whatever it likes, takes over at that map.
* No call can leave an exception behind: each is made where it cannot fail, or its error is cleared.
* The few facts about object layout that are used are tested when `available` is first called; any
  surprise (another implementation, a free-threaded build) means that nothing here is used.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from collections import Counter, defaultdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from nbmapops import kernels
from nbmapops._jit import kernel
from nbmapops._reading.arrays import readonly

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._constants import Integer
    from nbmapops._vocabulary import Index

__all__ = ["DONE", "FULL", "PIECE", "STOP", "available", "row_filler", "walk", "walk_csr"]

DONE, FULL, STOP = 0, 1, 2
_GO = -1

PIECE = 1 << 12
"""How many entries `walk_csr` reads before it writes them: 64 KiB, which stay in cache."""

_Function = TypeVar("_Function", bound="Callable[..., object]")


def _helper(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it: 2.4 s, not 3.0, until `available` answers."""
    return register_jitable(function)


# The types that the kernels know. A subclass is never taken for one of these.
_TYPES = (list, tuple, dict, Counter, defaultdict, int, bool, str, float, np.float64, np.float32)
_LIST, _TUPLE, _DICT, _COUNTER, _DEFAULTDICT, _INT, _BOOL, _STR, _FLOAT, _FLOAT64, _FLOAT32 = range(
    len(_TYPES)
)
_TYPE_COUNT = len(_TYPES)
# Addresses differ between processes: they reach a kernel, whose code may come from the disk
# cache, as an argument. One int costs less than an array (25 ns against 45 a call).
_ADDRESSES = np.array([id(each) for each in _TYPES], np.int64)
_KNOWN: int = _ADDRESSES.ctypes.data

_TYPE_AT = 8  # offset of the type pointer in an object
_FLOAT_AT = 16  # of the number in a float, np.float64 or np.float32
_HEAD_AT = 16  # of an int's length and sign
_DIGIT_AT = 24  # of its lowest 30 bits
_ITEM, _LEFT, _NEXT, _END, _GROWING = 32, 40, 48, 56, 64  # in the cells of a walk: see `_cells`
_TAGGED = sys.version_info >= (3, 12)  # how length and sign are written: see `_int_at`

_SIZE_AT = 16  # of a dict's number of entries
_TABLE_AT = 32  # of the address of its table

_LINE = 64  # bytes that one prefetch asks for
_NOTED = 32  # entries whose keys and values are asked for before the first of them is read
_MAP_AHEAD, _TABLE_AHEAD = 8, 4  # how many maps ahead the dict and its table are asked for

_WORD = types.intp
_C_NAMES: list[str] = []


def _c_function(name: str, result: Any, *arguments: Any) -> Any:
    _C_NAMES.append(name)
    return types.ExternalFunction(name, result(*arguments))


_list_size = _c_function("PyList_Size", _WORD, _WORD)
_list_item = _c_function("PyList_GetItem", _WORD, _WORD, _WORD)
_tuple_size = _c_function("PyTuple_Size", _WORD, _WORD)
_tuple_item = _c_function("PyTuple_GetItem", _WORD, _WORD, _WORD)
_dict_size = _c_function("PyDict_Size", _WORD, _WORD)
_dict_next = _c_function("PyDict_Next", types.int32, _WORD, _WORD, _WORD, _WORD)
_dict_get = _c_function("PyDict_GetItemWithError", _WORD, _WORD, _WORD)
_dict_set = _c_function("PyDict_SetItem", types.int32, _WORD, _WORD, _WORD)
_int_new = _c_function("PyLong_FromSsize_t", _WORD, _WORD)
_int_value = _c_function("PyLong_AsLongLongAndOverflow", types.int64, _WORD, _WORD)
_release = _c_function("Py_DecRef", types.void, _WORD)
_error = _c_function("PyErr_Occurred", _WORD)
_clear_error = _c_function("PyErr_Clear", types.void)


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


@_intrinsic
def _cells(_typing: Any) -> Any:
    """Address of nine zeroed words on the stack.

    Position, key, value, overflow; then what `_note` keeps: the map that it is in, how many
    entries of it are left, the number of the next map, the end of all entries of the maps begun,
    and the dict that grows during the walk, which can be none of the maps.
    """

    def build(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        zeros = ir.Constant(ir.ArrayType(ir.IntType(64), 9), None)
        cells = cgutils.alloca_once_value(builder, zeros)  # type: ignore[no-untyped-call]
        return builder.ptrtoint(cells, zeros.type.element)

    return types.intp(), build


@_intrinsic
def _notes(_typing: Any) -> Any:
    """Address of room on the stack for what `_note` notes: `_NOTED` times key and value."""

    def build(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        kind = ir.ArrayType(ir.IntType(64), 2 * _NOTED)
        notes = cgutils.alloca_once(builder, kind)  # type: ignore[no-untyped-call]
        return builder.ptrtoint(notes, kind.element)

    return types.intp(), build


@_intrinsic
def _prefetch(_typing: Any, _address: Any) -> Any:
    """Ask for the cache line of an address; no address whatever can fault."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), build


@_intrinsic
def _set_word(_typing: Any, _address: Any, _word: Any) -> Any:
    """Write an 8-byte word to an address."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, word = arguments
        builder.store(word, builder.inttoptr(address, word.type.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), build


def _reader(result: Any, kind: Any) -> Any:
    """Intrinsic that reads what stands at an address."""

    def read(_typing: Any, _address: Any) -> Any:
        def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

        return result(types.intp), build

    return _intrinsic(read)


_word_at = _reader(types.intp, ir.IntType(64))
_double_at = _reader(types.float64, ir.DoubleType())
_digit_at = _reader(types.uint32, ir.IntType(32))
_single_at = _reader(types.float32, ir.FloatType())


@_helper
def _type_of(item: Any) -> Any:
    return _word_at(item + _TYPE_AT)


@_helper
def _is(kind: Any, known: Any, number: Any) -> Any:
    return kind == _word_at(known + 8 * number)


@_helper
def _is_int(item: Any, known: Any) -> Any:
    kind = _type_of(item)
    return _is(kind, known, _INT) or _is(kind, known, _BOOL)


@_helper
def _is_map(item: Any, known: Any) -> Any:
    kind = _type_of(item)
    return _is(kind, known, _DICT) or _is(kind, known, _DEFAULTDICT) or _is(kind, known, _COUNTER)


@_helper
def _int_at(item: Any, cells: Any) -> Any:
    """Value of an int; the overflow cell is not 0 afterwards if int64 cannot hold it.

    Ints of up to two digits, of 30 bits each, are read in place: a call costs 1.7 ns more for
    each of them, and 12 ns more where ints of one digit and of two come in random order.
    """
    head = _word_at(item + _HEAD_AT)
    if _TAGGED:  # digits * 8 + flag + sign, where the sign is 0 for +, 1 for zero, 2 for -
        short, two, sign = 0 <= head < 24, head >= 16, 1 - (head & 3)
    else:  # number of digits, negative for a negative int
        short, two = -2 <= head <= 2, (head > 1) | (head < -1)
        sign = np.int64(head > 0) - np.int64(head < 0)
    if short:
        # Without a second digit the first is read again: no byte behind the int is read.
        high = np.int64(_digit_at(item + _DIGIT_AT + 4 * np.int64(two))) << 30
        return sign * (np.int64(_digit_at(item + _DIGIT_AT)) + high * np.int64(two))
    return _int_value(item, cells + 24)


@_helper
def _overflowed(cells: Any) -> Any:
    return _word_at(cells + 24) != 0


@_helper
def _float64_from_int(item: Any, cells: Any, values: Any, j: Any) -> Any:
    number = _int_at(item, cells)
    value = np.float64(number)
    if _overflowed(cells):
        return False
    if not -(2**53) <= number <= 2**53 and (value >= 2.0**63 or np.int64(value) != number):
        return False
    values[j] = value
    return True


def _store(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    """Store the value at address `item` as ``values[j]``; False if it is not taken."""
    raise NotImplementedError


@overload(_store)
def _overload_store(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:  # noqa: ARG001
    stores = {
        types.float64: _store_float64,
        types.int64: _store_int64,
        types.float32: _store_float32,
    }
    return stores.get(values.dtype)


def _store_float64(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    kind = _type_of(item)
    if _is(kind, known, _FLOAT) or _is(kind, known, _FLOAT64):
        values[j] = _double_at(item + _FLOAT_AT)
        return True
    if _is_int(item, known):
        return _float64_from_int(item, cells, values, j)
    if _is(kind, known, _FLOAT32):
        values[j] = _single_at(item + _FLOAT_AT)
        return True
    return False


def _store_int64(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    if not _is_int(item, known):
        return False
    values[j] = _int_at(item, cells)
    return not _overflowed(cells)


def _store_float32(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:  # noqa: ARG001
    if not _is(_type_of(item), known, _FLOAT32):
        return False
    values[j] = _single_at(item + _FLOAT_AT)
    return True


@_helper
def _count(maps: Any, known: Any) -> Any:
    """Return the length of a list or tuple, -1 for anything else."""
    kind = _type_of(maps)
    if _is(kind, known, _LIST):
        return _list_size(maps)
    if _is(kind, known, _TUPLE):
        return _tuple_size(maps)
    return -1


@_helper
def _map_at(maps: Any, i: Any, known: Any) -> Any:
    """Return the address of ``maps[i]``, or 0 if that is not a dict."""
    item = _item_at(maps, i, known)
    return item if _is_map(item, known) else 0


@_helper
def _item_at(maps: Any, i: Any, known: Any) -> Any:
    return _list_item(maps, i) if _is(_type_of(maps), known, _LIST) else _tuple_item(maps, i)


@_helper
def _prefetch_maps(maps: Any, i: Any, stop: Any, known: Any) -> Any:
    """Ask for a dict that is read later, and for the table of one that is read soon."""
    if i + _MAP_AHEAD < stop:
        item = _item_at(maps, i + _MAP_AHEAD, known)
        _prefetch(item + _TYPE_AT)
        _prefetch(item + _TABLE_AT)
    if i + _TABLE_AHEAD < stop:
        item = _map_at(maps, i + _TABLE_AHEAD, known)
        if item != 0:
            table = _word_at(item + _TABLE_AT)
            # 24 bytes an entry and up to two of its index, behind a head of 32.
            for line in range(min((32 + 26 * _word_at(item + _SIZE_AT)) // _LINE + 1, 10)):
                _prefetch(table + line * _LINE)


@_helper
def _open_map(
    maps: Any, first: Any, stop: Any, room: Any, known: Any, cells: Any, offsets: Any
) -> Any:
    """Begin with the next map; `_GO`, or why not."""
    i = _word_at(cells + _NEXT)
    if i >= stop:
        return DONE
    if i - first + 1 >= len(offsets):
        return FULL
    _prefetch_maps(maps, i, stop, known)
    item = _map_at(maps, i, known)
    if item == 0 or item == _word_at(cells + _GROWING):
        return STOP
    size = _dict_size(item)
    end = _word_at(cells + _END) + size
    if end > room:
        return FULL
    _set_word(cells, 0)
    _set_word(cells + _ITEM, item)
    _set_word(cells + _LEFT, size)
    _set_word(cells + _NEXT, i + 1)
    _set_word(cells + _END, end)
    offsets[i - first + 1] = end
    return _GO


@_helper
def _note(
    maps: Any, first: Any, stop: Any, room: Any, known: Any, cells: Any, notes: Any, offsets: Any
) -> Any:
    """Note where the next entries' keys and values are, and ask for them.

    Returns how many entries (up to `_NOTED`, from one map or more), and `_GO` or why there are no
    more: `DONE`, `FULL`, `STOP`. The end of each map that was begun is in `offsets`.
    """
    n = 0
    while n < _NOTED:
        left = _word_at(cells + _LEFT)
        if left == 0:
            reason = _open_map(maps, first, stop, room, known, cells, offsets)
            if reason != _GO:
                return n, reason
            continue
        item = _word_at(cells + _ITEM)
        end = min(n + left, _NOTED)
        left -= end - n
        while n < end:
            note = notes + 16 * n
            if _dict_next(item, cells, note, note + 8) == 0:
                return n, STOP
            _prefetch(_word_at(note) + _TYPE_AT)
            _prefetch(_word_at(note + 8) + _TYPE_AT)
            n += 1
        _set_word(cells + _LEFT, left)
    return n, _GO


@_helper
def _complete(cells: Any, first: Any) -> Any:
    """Return how many maps were noted completely."""
    return _word_at(cells + _NEXT) - first - np.int64(_word_at(cells + _LEFT) != 0)


@_helper
def _map_of(offsets: Any, done: Any, entry: Any) -> Any:
    """Return which map an entry belongs to: `done` or one after it."""
    while offsets[done + 1] <= entry:
        done += 1
    return done


@partial(kernel, nogil=False)  # the GIL is held
def _walk_int64(
    maps: int, first: int, known: int, keys: Any, values: Any, offsets: Any
) -> tuple[int, int]:
    """Read maps with int keys; see `walk`."""
    stop = _count(maps, known)
    if first < 0 or stop < 0:
        return 0, STOP
    cells, notes = _cells(), _notes()
    room = min(len(keys), len(values))
    _set_word(cells + _NEXT, first)
    j, reason = 0, _GO
    while reason == _GO:
        done = _complete(cells, first)
        n, reason = _note(maps, first, stop, room, known, cells, notes, offsets)
        for note in range(notes, notes + 16 * n, 16):
            key = _word_at(note)
            if not _is_int(key, known):
                return _map_of(offsets, done, j), STOP
            keys[j] = _int_at(key, cells)
            if _overflowed(cells) or not _store(_word_at(note + 8), cells, known, values, j):
                return _map_of(offsets, done, j), STOP
            j += 1
    return _complete(cells, first), reason


@_helper
def _learn(words: Any, key: Any) -> Any:
    """Add a word to the dict of words; its code, or -2 if memory ran out."""
    code = _dict_size(words)
    number = _int_new(code)
    if number == 0:
        _clear_error()
        return -2
    failed = _dict_set(words, key, number) != 0
    _release(number)
    if failed:
        _clear_error()
        return -2
    return code


@_helper
def _code_of(words: Any, learn: Any, key: Any, cells: Any, known: Any) -> Any:
    """Code of a word, -1 if it has none, -2 if plain Python must look at it."""
    if not _is(_type_of(key), known, _STR):
        return -2
    found = _dict_get(words, key)
    if found == 0:
        if _error() != 0:
            _clear_error()
            return -2
        return _learn(words, key) if learn else -1
    if not _is(_type_of(found), known, _INT):
        return -2
    code = _int_at(found, cells)
    return -2 if _overflowed(cells) or code < 0 else code


@_helper
def _memo_bits(maps: Any, words: Any, room: Any) -> Any:
    """Return the size of the memo: it must pay for clearing it, and leave room in the cache.

    With eight slots a word few words share a slot: a key that is one of 1,000 words costs 7.1 ns,
    with four slots 8.2; one of 10,000 words costs 14 ns with 2**15 slots, 29 with 2**12. Where
    most words are met once or twice in a call the memo helps little, and less of it is better.
    """
    slots = 8 * _dict_size(words)
    if not 4096 < slots < 2 * room:
        slots = 4096
    slots = min(slots, 1 << 15, 64 * (maps - 1), 2 * room)
    bits = 1
    while 1 << bits < slots:
        bits += 1
    return bits


@partial(kernel, nogil=False)  # the GIL is held
def _walk_string(
    maps: int,
    first: int,
    words: int,
    learn: bool,
    known: int,
    keys: Any,
    values: Any,
    offsets: Any,
) -> tuple[int, int]:
    """Read maps with str keys; see `walk`."""
    stop = _count(maps, known)
    if first < 0 or stop < 0 or not _is(_type_of(words), known, _DICT):
        return 0, STOP
    cells, notes = _cells(), _notes()
    room = min(len(keys), len(values))
    # The same object has the same code. No object can die during the call, but its address may be
    # another's after it: the memo (address and code side by side) lives no longer.
    bits = _memo_bits(stop - first, words, room)
    memo = np.zeros(2 << bits, np.int64)
    shift = np.uint64(64 - bits)
    _set_word(cells + _NEXT, first)
    _set_word(cells + _GROWING, words if learn else 0)
    j, reason = 0, _GO
    while reason == _GO:
        done = _complete(cells, first)
        n, reason = _note(maps, first, stop, room, known, cells, notes, offsets)
        for note in range(notes, notes + 16 * n, 16):
            key = _word_at(note)
            slot = 2 * np.int64(np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) >> shift)
            if memo[slot] != key:
                code = _code_of(words, learn, key, cells, known)
                if code < -1:
                    return _map_of(offsets, done, j), STOP
                memo[slot] = key
                memo[slot + 1] = code
            keys[j] = memo[slot + 1]
            if not _store(_word_at(note + 8), cells, known, values, j):
                return _map_of(offsets, done, j), STOP
            j += 1
    return _complete(cells, first), reason


def walk(
    maps: list[Any] | tuple[Any, ...],
    first: int,
    key_kind: str,
    words: dict[str, int] | None,
    learn: bool,
    keys: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
) -> tuple[int, int]:
    """Read ``maps[first]``, ``maps[first + 1]``, ... into arrays, as far as that goes.

    Call it only if `available` is true.

    Parameters
    ----------
    maps : list or tuple
        Exactly a list or a tuple, not a subclass. Taken out of it are exact dict, Counter and
        defaultdict objects.
    first : int
        Number of the map to begin with, not negative.
    key_kind : {"int64", "string"}
        Keys that are taken: exact int (and bool), or exact str.
    words : dict of str to int
        The code of each word, for ``key_kind="string"``: an exact dict with exact str keys.
    learn : bool
        A word that has no code gets ``len(words)`` and is added to `words` (also by a map that is
        read in part); otherwise its code is -1. `words` itself is then none of the maps taken.
    keys : int64 array
        Receives the keys, or the codes of the words.
    values : float64, int64 or float32 array
        Receives the values. float64 takes exact float, np.float64, np.float32, and int and bool
        that float64 holds exactly; int64 takes int and bool that fit; float32 takes np.float32.
    offsets : int64 array
        ``offsets[i + 1]`` becomes the end of the i-th map read; ``offsets[0]`` is the caller's.

    Returns
    -------
    count : int
        How many maps were read completely.
    reason : int
        `DONE`: there are no more maps. `FULL`: the next map has more entries than there is room
        for (none of them was looked at), or `offsets` is full. `STOP`: the next map is, or holds,
        something that plain Python must look at.
    """
    if key_kind == "int64":
        return _walk_int64(id(maps), first, _KNOWN, keys, values, offsets)
    return _walk_string(id(maps), first, id(words), learn, _KNOWN, keys, values, offsets)


@partial(kernel, nogil=False)  # the GIL is held
def _walk_csr(
    maps: int, first: int, known: int, keys: Any, values: Any, offsets: Any,
    header: Any, pilots: Any, slots: Any, table: Any, read_keys: Any, read_values: Any,
    read_offsets: Any, skip_unknown: bool, first_wins: bool, limit: int,
    indptr: Any, indices: Any, data: Any,
) -> tuple[Integer, Integer, Integer]:  # fmt: skip
    stop = min(_count(maps, known), first + len(indptr) - 1)
    room = min(len(indices), len(data))
    done: Any = first
    entries: Integer = 0
    end: Integer = 0
    count: Integer
    status: Integer = kernels.OK
    while done < stop and entries < limit and status == kernels.OK:
        count, _ = _walk_int64(maps, done, known, keys, values, offsets)
        count = min(count, stop - done)
        if count == 0 or offsets[count] > room - end:
            break
        status, end = kernels.vectorize_csr(
            header, pilots, slots, table, read_keys, read_values, read_offsets, 0, count,
            skip_unknown, first_wins, end, indptr[done - first :], indices, data,
        )  # fmt: skip
        count = count if status == kernels.OK else max(status, 0)
        entries += offsets[count]
        done += count
    return done - first, entries, end


def walk_csr(
    maps: list[Any] | tuple[Any, ...], first: int, index: Index, skip_unknown: bool,
    first_wins: bool, limit: int, indptr: np.ndarray[Any, Any], indices: np.ndarray[Any, Any],
    data: np.ndarray[Any, Any],
) -> tuple[int, int, int]:  # fmt: skip
    """Read maps with int keys and float64 values, and write them as rows of a CSR matrix.

    As `walk` and then `kernels.vectorize_csr`, without the way back to Python after each piece:
    14 ns an entry where chunks of 2**16 entries take 18. Call it only if `available` is true.

    Parameters
    ----------
    maps, first
        As for `walk`.
    index : Index
        Of the vocabulary.
    skip_unknown, first_wins : bool
        As for `vectorize_csr`.
    limit : int
        No further piece is read after so many entries: signals wait until then.
    indptr, indices, data : arrays
        As for `vectorize_csr`; `data` is float64. They are written from their start on, and have
        room for a `PIECE`.

    Returns
    -------
    count : int
        How many maps were read and written; the next one may be bad, too long for a piece, none
        that is taken, or one for which there is no room.
    entries : int
        How many entries these maps have.
    end : int
        How many of them were written.
    """
    keys, values = np.empty(PIECE, np.int64), np.empty(PIECE)
    offsets = np.zeros(PIECE // 4 + 1, np.int64)
    # The kernel reads through read-only views, for which it is compiled already.
    count, entries, end = _walk_csr(
        id(maps), first, _KNOWN, keys, values, offsets, *index, readonly(keys),
        readonly(values).view(np.int64), readonly(offsets), skip_unknown, first_wins, limit,
        indptr, indices, data.view(np.int64),
    )  # fmt: skip
    return int(count), int(entries), int(end)


@_helper
def _fits(key: Any, cells: Any) -> Any:
    """Whether int64 holds an int."""
    _int_at(key, cells)
    return not _overflowed(cells)


@_helper
def _is_taken(item: Any, cells: Any, known: Any, row: Any) -> Any:
    """Whether a value could be stored in a row that is not empty."""
    before = row[0]
    taken = _store(item, cells, known, row, 0)
    row[0] = before
    return taken


@partial(kernel, nogil=False)  # the GIL is held
def _fill(mapping: int, known: int, row: Any) -> bool:
    """Write a dict into a row; see `row_filler`."""
    words, text, skip_unknown = (
        _word_at(known + 8 * _TYPE_COUNT),
        _word_at(known + 8 * _TYPE_COUNT + 8),
        _word_at(known + 8 * _TYPE_COUNT + 16),
    )
    cells = _cells()
    while _dict_next(mapping, cells, cells + 8, cells + 16) != 0:
        key = _word_at(cells + 8)
        if not (_is(_type_of(key), known, _STR) if text != 0 else _is_int(key, known)):
            return False
        found = _dict_get(words, key)
        if found == 0:
            if _error() != 0:
                _clear_error()
                return False
            if skip_unknown == 0 or not (text != 0 or _fits(key, cells)):
                return False
            # Left out, but its value has a say in the kind of the row's.
            if len(row) == 0 or not _is_taken(_word_at(cells + 16), cells, known, row):
                return False
            continue
        column = _int_at(found, cells)
        if not 0 <= column < len(row):
            return False
        if not _store(_word_at(cells + 16), cells, known, row, column):
            return False
    return True


def row_filler(
    words: dict[Any, int], key_kind: str, skip_unknown: bool
) -> Callable[[dict[Any, Any], np.ndarray[Any, Any]], bool]:
    """Return what writes the values of one dict to their columns.

    It takes an exact dict and a row of float64, int64 or float32, and returns whether it has taken
    all entries, as `walk` takes them: 0.9 us for 20 entries. Call it only if `available` is true.

    Parameters
    ----------
    words : dict of int or str to int
        The column of each word: an exact dict whose keys are exact and of the kind `key_kind`.
    key_kind : {"int64", "string"}
        Keys that are taken.
    skip_unknown : bool
        Whether entries whose key is no word are left out; otherwise they are not taken.
    """
    # All in one place: every further argument of a kernel costs 30 ns.
    context = np.append(_ADDRESSES, [id(words), key_kind == "string", skip_unknown])
    address: int = context.ctypes.data
    # Kept alive as long as the function that has their addresses.
    owners = (context, words)

    def fill(mapping: dict[Any, Any], row: np.ndarray[Any, Any], _owners: Any = owners) -> bool:
        return _fill(id(mapping), address, row)

    return fill


@cache
def available() -> bool:
    """Tell whether `walk` can be used in this process; tested once.

    Returns
    -------
    bool
        False where kernels are not compiled (``NUMBA_DISABLE_JIT``), for any interpreter but the
        main one of CPython with a GIL, and after any surprise in the layout of objects.
    """
    try:
        return _is_supported() and _layout_holds() and _answers_hold()
    except Exception:  # noqa: BLE001 - whatever it is, plain Python gives the same answers
        return False


def _is_supported() -> bool:
    return (
        not config.DISABLE_JIT  # type: ignore[attr-defined]
        and platform.python_implementation() == "CPython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
    )


def _layout_holds() -> bool:
    """Check the offsets that the kernels read at."""
    if object.__basicsize__ != 16 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    floats = (1.5, np.float64(2.5))
    single = np.float32(3.5)
    objects: tuple[Any, ...] = (*floats, single, 1, True, "a", {}, Counter(), [], ())
    return (
        all(binding.address_of_symbol(name) for name in _C_NAMES)
        and all(_read(ctypes.c_ssize_t, each, _TYPE_AT) == id(type(each)) for each in objects)
        and all(_read(ctypes.c_double, each, _FLOAT_AT) == each for each in floats)
        and _read(ctypes.c_float, single, _FLOAT_AT) == single
        and dict.__basicsize__ >= _TABLE_AT + 8
        and all(_read(ctypes.c_ssize_t, dict.fromkeys(range(n)), _SIZE_AT) == n for n in (0, 3))
        and sys.int_info.bits_per_digit == 30
        and sys.int_info.sizeof_digit == 4
    )


def _read(kind: Any, item: Any, offset: int) -> Any:
    return kind.from_address(id(item) + offset).value


def _answers_hold() -> bool:
    """Walk small lists whose answer is known."""
    ints = [0, 1, -1, 2**30 - 1, -(2**30), 2**60 - 1, 1 - 2**60, 2**60, 2**63 - 1, -(2**63)]
    keys, values, offsets = np.zeros(10, np.int64), np.zeros(10), np.zeros(4, np.int64)
    numbers = [
        dict.fromkeys(ints[:8], 2**53),
        {ints[8]: 1.5, ints[9]: np.float32(0.1)},
    ]
    holds = walk(numbers, 0, "int64", None, False, keys, values, offsets) == (2, DONE)
    holds &= keys.tolist() == ints and offsets.tolist() == [0, 8, 10, 0]
    holds &= values.tolist() == [2.0**53] * 8 + [1.5, float(np.float32(0.1))]
    for stopped in ({2**63: 1.5}, {7: 2**53 + 1}, {7: "a"}, {7.0: 1.5}):
        holds &= walk(
            [{True: np.float64("-0.0")}, stopped], 0, "int64", None, False, keys, values, offsets
        ) == (1, STOP)
        holds &= keys[0] == 1 and str(values[0]) == "-0.0"
    words = {"a": 5}
    texts = ({"b": 1.0, "a": 2.0}, Counter({"c": 3, "a": 4}), {"d": 5.0})
    arrays = keys[:4], values[:4], offsets
    holds &= walk(texts, 0, "string", words, True, *arrays) == (2, FULL)
    holds &= keys[:4].tolist() == [1, 5, 2, 5] and values[:4].tolist() == [1.0, 2.0, 3.0, 4.0]
    return bool(holds and words == {"a": 5, "b": 1, "c": 2})
