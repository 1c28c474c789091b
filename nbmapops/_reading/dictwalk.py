"""Read Python dicts from compiled code: CPython's C API, object layout of CPython 3.11 and newer.

A list of dicts becomes three arrays (keys, values, offsets) without a Python object made or a
bytecode run for an entry: 5 ns an entry where `np.fromiter` takes 40 (asv: dicts.Csr). Objects
are asked for before they are read, because a list of dicts is rarely in cache: the dict
`_MAP_AHEAD` maps ahead, its table `_TABLE_AHEAD` maps ahead, keys and values one group of `_GROUP`
entries ahead. A shuffled list takes a third of the time that it took without (asv: dicts.Shuffled).

What keeps this safe:

* The kernels hold the GIL (no ``nogil`` here), so no other thread can change a dict, a list or a
  reference count while they run, and borrowed references stay valid.
* Nothing they call can run user code, but for the iterator that `take` asks: it holds nothing of a
  map when it asks for the next. Keys and values are looked at only when their type is
  exactly one of those listed in `_TYPES`. Anything else ends the walk, and plain Python, which
  may raise and run whatever it likes, takes over at that map.
* No call can leave an exception behind: each is made where it cannot fail, or its error is cleared.
* What is noted and read later is held by a dict of the batch. The one dict that grows during a
  walk, that of the words, is not one of the maps while it grows.
* A prefetch cannot fault, whatever its address is.
* The facts about the layout of objects, of the tables of dicts above all, are tested when
  `available` is first called, and the answers of a kernel when it is first used. A surprise
  (another implementation, a free-threaded build) means that nothing here is used. An exception is
  not an answer: it comes out, and the next call tests again.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import sys
import sysconfig
from collections import Counter, OrderedDict, defaultdict
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic, register_jitable

from nbmapops._jit import Untyped, kernel
from nbmapops._load import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nbmapops._constants import Array
    from nbmapops._types import Map

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

__all__ = ["DONE", "FULL", "STOP", "available", "row_filler", "take", "walk"]

DONE, FULL, STOP = 0, 1, 2
_GO = -1  # none of these yet

_Function = TypeVar("_Function", bound="Callable[..., object]")


def _helper(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return register_jitable(function)


# The types that the kernels know. A subclass is never taken for one of these.
_TYPES = (
    list, tuple, dict, Counter, defaultdict, int, bool, str, float, np.float64, np.float32,
    OrderedDict,
)  # fmt: skip
_LIST, _TUPLE, _DICT, _COUNTER, _DEFAULTDICT, _INT, _BOOL, _STR, _FLOAT, _FLOAT64, _FLOAT32 = range(
    len(_TYPES) - 1
)
_ORDERED = len(_TYPES) - 1
_TYPE_COUNT = len(_TYPES)
# Addresses differ between processes: they reach a kernel, whose code may come from the disk
# cache, as an argument. One int costs less than an array.
_ADDRESSES_IN_ANY_ORDER = np.array([id(each) % 2**64 for each in _TYPES], np.uint64).view(np.int64)
# The table of an OrderedDict may have another order than the dict itself.
_ADDRESSES = np.append(_ADDRESSES_IN_ANY_ORDER[:_ORDERED], 0)
_KNOWN: dict[bool, int] = {
    False: _ADDRESSES.ctypes.data,
    True: _ADDRESSES_IN_ANY_ORDER.ctypes.data,
}

# What kind of number a kernel stores: its code reaches the kernel as an argument, too, because a
# kernel for each of them takes as long to compile as the first one.
_DOUBLES, _INTS, _SINGLES = range(3)
_KINDS = {np.dtype(np.float64): _DOUBLES, np.dtype(np.int64): _INTS, np.dtype(np.float32): _SINGLES}

# Offsets in objects.
_TYPE_AT = 8  # the type of any object
_FLOAT_AT = 16  # the number in a float, np.float64 or np.float32
_HEAD_AT = 16  # length and sign of an int
_DIGIT_AT = 24  # its lowest 30 bits
_SIZE_AT = 16  # the number of entries of a dict
_TABLE_AT = 32  # the address of its table
# Offsets in a table, and what is there.
_INDEX_BYTES_AT = 9  # log2 of the size of its index
_KIND_AT = 10  # 0: entries are hash, key, value; 1: key, value; 2: values lie elsewhere
_USED_AT = 24  # the number of entries, with those of removed keys, whose value is 0
_INDEX_AT = 32  # its index; the entries stand behind
_TAGGED = sys.version_info >= (3, 12)  # how length and sign are written: see `_int_at`

# Offsets in the cells of a walk: see `_cells`.
_KEY, _VALUE, _OVERFLOW, _ITEM, _LEFT, _NEXT, _END, _GROWING = range(8, 72, 8)
_STRIDE, _ENTRY, _BEHIND = range(72, 96, 8)

_LINE = 64  # bytes that one prefetch asks for
_GROUP = 32  # entries whose keys and values are asked for while those of the group before are read
_NOTE = 16  # bytes of a note: the addresses of a key and a value
_MAP_AHEAD, _TABLE_AHEAD = 8, 4  # maps

_WORD = types.intp
_C_NAMES: list[str] = []


def _c_function(name: str, result: Untyped, *arguments: Untyped) -> Callable[..., int]:
    _C_NAMES.append(name)
    function: Untyped = types.ExternalFunction(name, result(*arguments))
    return function  # type: ignore[no-any-return]


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
_iter_next = _c_function("PyIter_Next", _WORD, _WORD)
_list_append = _c_function("PyList_Append", types.int32, _WORD, _WORD)
_fetch_error = _c_function("PyErr_Fetch", types.void, _WORD, _WORD, _WORD)
_error = _c_function("PyErr_Occurred", _WORD)
_clear_error = _c_function("PyErr_Clear", types.void)


# ---- what no Python code says: intrinsics cost next to nothing to compile ----


def _intrinsic(function: Callable[..., Untyped]) -> Untyped:
    return intrinsic(function)


def _stack(words: int, zeros: bool) -> Untyped:
    """Intrinsic that gives the address of so many words on the stack."""

    def room(_typing: Untyped) -> Untyped:
        def build(
            _context: Untyped, builder: Untyped, _signature: Untyped, _arguments: Untyped
        ) -> Untyped:
            kind = ir.ArrayType(ir.IntType(64), words)
            if zeros:
                start = ir.Constant(kind, None)
                cells = cgutils.alloca_once_value(builder, start)  # type: ignore[no-untyped-call]
            else:
                cells = cgutils.alloca_once(builder, kind)  # type: ignore[no-untyped-call]
            return builder.ptrtoint(cells, kind.element)

        return types.intp(), build

    return _intrinsic(room)


# Position, key, value, overflow; then what `_note` keeps: the map that it is in, how many entries
# of it are left, the number of the next map, the end of all entries of the maps begun, and the
# dict that grows during the walk, which can be none of the maps; then what `_begin` keeps: bytes of
# an entry, the address of the next one, and that behind the last.
_cells = _stack(12, zeros=True)
_notes = _stack(2 * _GROUP * _NOTE // 8, zeros=False)  # two groups of notes


def _reader(result: Untyped, kind: Untyped, offset: int = 0) -> Untyped:
    """Intrinsic that reads what stands at an address, or so far behind it.

    A narrow integer is widened without its sign.
    """

    def read(_typing: Untyped, _address: Untyped) -> Untyped:
        def build(
            _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
        ) -> Untyped:
            found = _load(builder, arguments[0], offset, kind)
            narrow = isinstance(kind, ir.IntType) and kind.width < result.bitwidth
            return builder.zext(found, ir.IntType(result.bitwidth)) if narrow else found

        return result(types.intp), build

    return _intrinsic(read)


def _load(builder: Untyped, address: Untyped, offset: int, kind: Untyped = None) -> Untyped:
    kind = kind or address.type
    place = builder.add(address, address.type(offset))
    return builder.load(builder.inttoptr(place, kind.as_pointer()))


_word_at: Callable[[int], int] = _reader(types.intp, ir.IntType(64))
_digit_at: Callable[[int], int] = _reader(types.int64, ir.IntType(32))
_byte_at: Callable[[int], int] = _reader(types.int64, ir.IntType(8))
_double_at: Callable[[int], float] = _reader(types.float64, ir.DoubleType())
_single_at: Callable[[int], float] = _reader(types.float32, ir.FloatType())
_type_of: Callable[[int], int] = _reader(types.intp, ir.IntType(64), _TYPE_AT)


def _writer(argument: Untyped) -> Untyped:
    """Intrinsic that writes a number to an address."""

    def write(_typing: Untyped, _address: Untyped, _number: Untyped) -> Untyped:
        def build(
            context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
        ) -> Untyped:
            address, number = arguments
            builder.store(number, builder.inttoptr(address, number.type.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.intp, argument), build

    return _intrinsic(write)


_set_word = _writer(types.intp)
_set_double = _writer(types.float64)
_set_digit = _writer(types.uint32)


def _type_test(*numbers: int) -> Untyped:
    """Intrinsic that tells whether an object has exactly one of these `_TYPES`."""

    def test(_typing: Untyped, _item: Untyped, _known: Untyped) -> Untyped:
        def build(
            _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
        ) -> Untyped:
            item, known = arguments
            kind = _load(builder, item, _TYPE_AT)
            each = [_load(builder, known, 8 * number) for number in numbers]
            return reduce(builder.or_, [builder.icmp_unsigned("==", kind, one) for one in each])

        return types.boolean(types.intp, types.intp), build

    return _intrinsic(test)


_is_map = _type_test(_DICT, _DEFAULTDICT, _COUNTER, _ORDERED)
_is_dict = _type_test(_DICT)
_is_list = _type_test(_LIST)
_is_tuple = _type_test(_TUPLE)
_is_text = _type_test(_STR)
_is_int = _type_test(_INT, _BOOL)
_is_plain_int = _type_test(_INT)
_is_double = _type_test(_FLOAT, _FLOAT64)
_is_single = _type_test(_FLOAT32)


@_intrinsic
def _is(_typing: Untyped, _kind: Untyped, _known: Untyped, _number: Untyped) -> Untyped:
    """Whether a type is that of `_TYPES` with this number."""

    def build(
        _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
    ) -> Untyped:
        kind, known, number = arguments
        place = builder.add(known, builder.mul(number, number.type(8)))
        return builder.icmp_unsigned("==", kind, _load(builder, place, 0))

    return types.boolean(types.intp, types.intp, types.intp), build


@_intrinsic
def _overflowed(_typing: Untyped, _cells: Untyped) -> Untyped:
    """Whether the int that was read last was too large: see `_int_at`."""

    def build(
        _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
    ) -> Untyped:
        cell = _load(builder, arguments[0], _OVERFLOW)
        return builder.icmp_unsigned("!=", cell, cell.type(0))

    return types.boolean(types.intp), build


@_intrinsic
def _prefetch(_typing: Untyped, _address: Untyped) -> Untyped:
    """Ask for the cache line of an address; no address whatever can fault."""

    def build(
        context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
    ) -> Untyped:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), build


@_intrinsic
def _address_of(_typing: Untyped, array: Untyped) -> Untyped:
    """Address of the first number of an array."""

    def build(
        context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped
    ) -> Untyped:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(struct.data, ir.IntType(64))

    return types.intp(array), build


@_intrinsic
def _kind_of(_typing: Untyped, array: Untyped) -> Untyped:
    """Which kind of number an array holds."""
    kind = {types.float64: _DOUBLES, types.int64: _INTS, types.float32: _SINGLES}[array.dtype]

    def build(
        _context: Untyped, _builder: Untyped, _signature: Untyped, _arguments: Untyped
    ) -> Untyped:
        return ir.IntType(64)(kind)

    return types.intp(array), build


# ---- one number ----


@_helper
def _int_at(item: int, cells: int) -> int:
    """Value of an int; the overflow cell is not 0 afterwards if int64 cannot hold it.

    Ints of up to two digits, of 30 bits each, are read in place: a call costs 2 ns more for
    each of them, and 12 where ints of one digit and of two come in random order (asv: dicts.Csr).
    """
    head = _word_at(item + _HEAD_AT)
    if _TAGGED:  # digits * 8 + flag + sign, where the sign is 0 for +, 1 for zero, 2 for -
        short, two, sign = 0 <= head < 24, head >= 16, 1 - (head & 3)
    else:  # number of digits, negative for a negative int
        short, two = -2 <= head <= 2, (head > 1) | (head < -1)
        sign = (head > 0) - (head < 0)
    if short:
        # Without a second digit the first is read again: no byte behind the int is read.
        low, high = _digit_at(item + _DIGIT_AT), _digit_at(item + _DIGIT_AT + 4 * two)
        return sign * (low + (high << 30) * two)
    return _int_value(item, cells + _OVERFLOW)


@_helper
def _store_at(item: int, cells: int, known: int, kind: int, to: int) -> bool:
    """Store the value at address `item` at address `to`; False if it is not taken."""
    if _is_int(item, known):
        number = _int_at(item, cells)
        if kind == _SINGLES or _overflowed(cells):
            return False
        if kind == _INTS:
            _set_word(to, number)
            return True
        value = np.float64(number)
        # 2**63 - 1 becomes 2.0**63, which no int64 is.
        if not -(2**53) <= number <= 2**53 and (value >= 2.0**63 or np.int64(value) != number):
            return False
        _set_double(to, value)
        return True
    if kind == _INTS:
        return False
    if _is_single(item, known):
        if kind == _SINGLES:
            _set_digit(to, _digit_at(item + _FLOAT_AT))
        else:
            _set_double(to, np.float64(_single_at(item + _FLOAT_AT)))
        return True
    if kind == _SINGLES or not _is_double(item, known):
        return False
    _set_word(to, _word_at(item + _FLOAT_AT))
    return True


@_helper
def _store(item: int, cells: int, known: int, values: Array, j: int) -> bool:
    """Store the value at address `item` as ``values[j]``; False if it is not taken."""
    to = _address_of(values) + values.itemsize * j
    return _store_at(item, cells, known, _kind_of(values), to)


# ---- reading ahead ----


@_helper
def _count(maps: int, known: int) -> int:
    """Return the length of a list or tuple, -1 for anything else."""
    if _is_list(maps, known):
        return _list_size(maps)
    return _tuple_size(maps) if _is_tuple(maps, known) else -1


@_helper
def _item_at(maps: int, i: int, known: int) -> int:
    return _list_item(maps, i) if _is_list(maps, known) else _tuple_item(maps, i)


@_helper
def _prefetch_maps(maps: int, i: int, stop: int, known: int) -> None:
    """Ask for a dict that is read later, and for the table of one that is read soon."""
    if i + _MAP_AHEAD < stop:
        item = _item_at(maps, i + _MAP_AHEAD, known)
        _prefetch(item + _TYPE_AT)
        _prefetch(item + _TABLE_AT)
    if i + _TABLE_AHEAD < stop:
        item = _item_at(maps, i + _TABLE_AHEAD, known)
        if _is_map(item, known):
            _prefetch_table(item)


@_helper
def _prefetch_table(item: int) -> None:
    # A head of 32 bytes, up to two bytes of index and 24 of table for an entry.
    line = table = _word_at(item + _TABLE_AT)
    end = table + 32 + 26 * _word_at(item + _SIZE_AT)
    while line < end and line < table + 10 * _LINE:
        _prefetch(line)
        line += _LINE


@_helper
def _begin(item: int, cells: int) -> None:
    """Begin with the entries of a dict.

    They are read where they stand: `PyDict_Next` costs 2 ns more for each of them. It reads dicts
    whose values lie elsewhere, as those of instances do (asv: dicts.Csr).
    """
    table = _word_at(item + _TABLE_AT)
    kind = _byte_at(table + _KIND_AT)
    if kind > 1:
        _set_word(cells, 0)
        _set_word(cells + _STRIDE, 0)
        return
    stride = 24 - 8 * kind
    entry = table + _INDEX_AT + (1 << _byte_at(table + _INDEX_BYTES_AT))
    _set_word(cells + _STRIDE, stride)
    _set_word(cells + _ENTRY, entry)
    _set_word(cells + _BEHIND, entry + stride * _word_at(table + _USED_AT))


@_helper
def _note_entries(item: int, cells: int, note: int, end: int) -> bool:
    """Note where the next keys and values of a dict are, and prefetch them; False at its end."""
    stride = _word_at(cells + _STRIDE)
    if stride == 0:
        while note < end:
            if _dict_next(item, cells, note, note + 8) == 0:
                return False
            _prefetch(_word_at(note) + _TYPE_AT)
            _prefetch(_word_at(note + 8) + _TYPE_AT)
            note += _NOTE
        return True
    entry, behind = _word_at(cells + _ENTRY), _word_at(cells + _BEHIND)
    while note < end:
        if entry >= behind:
            return False
        value = _word_at(entry + stride - 8)
        if value != 0:
            key = _word_at(entry + stride - 16)
            _prefetch(key + _TYPE_AT)
            _prefetch(value + _TYPE_AT)
            _set_word(note, key)
            _set_word(note + 8, value)
            note += _NOTE
        entry += stride
    _set_word(cells + _ENTRY, entry)
    return True


@_helper
def _open_map(
    maps: int, first: int, stop: int, room: int, known: int, cells: int, offsets: Ints
) -> int:
    """Begin with the next map; `_GO`, or why not."""
    i = _word_at(cells + _NEXT)
    if i >= stop:
        return DONE
    if i - first + 1 >= len(offsets):
        return FULL
    _prefetch_maps(maps, i, stop, known)
    item = _item_at(maps, i, known)
    if not _is_map(item, known) or item == _word_at(cells + _GROWING):
        return STOP
    size = _dict_size(item)
    end = _word_at(cells + _END) + size
    if end > room:
        return FULL
    if size > 0:
        _begin(item, cells)
    _set_word(cells + _ITEM, item)
    _set_word(cells + _LEFT, size)
    _set_word(cells + _NEXT, i + 1)
    _set_word(cells + _END, end)
    offsets[i - first + 1] = end
    return _GO


@_helper
def _note(
    maps: int, first: int, stop: int, room: int, known: int, cells: int, notes: int, offsets: Ints
) -> tuple[int, int]:
    """Note where keys and values of the next group of entries are, and ask for them.

    Returns how many entries were noted (`_GROUP`, from one map or several), and `_GO`, or fewer
    and why: `DONE`, `FULL`, `STOP`. The end of each map that was begun is in `offsets`.
    """
    n = 0
    while n < _GROUP:
        left = _word_at(cells + _LEFT)
        if left == 0:
            reason = _open_map(maps, first, stop, room, known, cells, offsets)
            if reason != _GO:
                return n, reason
            continue
        item = _word_at(cells + _ITEM)
        taken = min(_GROUP - n, left)
        if not _note_entries(item, cells, notes + _NOTE * n, notes + _NOTE * (n + taken)):
            return n, STOP
        n += taken
        _set_word(cells + _LEFT, left - taken)
    return n, _GO


@_helper
def _complete(cells: int, first: int) -> int:
    """Return how many maps were noted completely."""
    begun = _word_at(cells + _NEXT) - first
    return begun if _word_at(cells + _LEFT) == 0 else begun - 1


@_helper
def _map_of(offsets: Ints, entry: int) -> int:
    """Return which of the maps read an entry belongs to."""
    i = 0
    while offsets[i + 1] <= entry:
        i += 1
    return i


# ---- the walks ----


@partial(kernel, nogil=False)  # the GIL is held
def _walk_int64(
    maps: int, first: int, known: int, keys: Ints, values: Bytes, kind: int, offsets: Ints
) -> tuple[int, int]:
    """Read maps with int keys; see `walk`."""
    stop = _count(maps, known)
    if first < 0 or stop < 0:
        return 0, STOP
    cells, notes = _cells(), _notes()
    width = 4 if kind == _SINGLES else 8
    room = min(len(keys), len(values) // width)
    to = _address_of(values)
    _set_word(cells + _NEXT, first)
    j, n, half, reason = 0, 0, 0, _GO
    while n > 0 or reason == _GO:
        noted, other = 0, _GROUP * _NOTE - half
        if reason == _GO:
            noted, reason = _note(maps, first, stop, room, known, cells, notes + other, offsets)
        for note in range(notes + half, notes + half + _NOTE * n, _NOTE):
            key = _word_at(note)
            if not _is_int(key, known):
                return _map_of(offsets, j), STOP
            keys[j] = _int_at(key, cells)
            if _overflowed(cells) or not _store_at(_word_at(note + 8), cells, known, kind, to):
                return _map_of(offsets, j), STOP
            j += 1
            to += width
        n, half = noted, other
    return _complete(cells, first), reason


@_helper
def _learn(words: int, key: int) -> int:
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
def _code_of(words: int, learn: int, key: int, cells: int, known: int) -> int:
    """Code of a word, -1 if it has none, -2 if plain Python must look at it."""
    if not _is_text(key, known):
        return -2
    found = _dict_get(words, key)
    if found == 0:
        if _error() != 0:
            _clear_error()
            return -2
        return _learn(words, key) if learn != 0 else -1
    if not _is_plain_int(found, known):
        return -2
    code = _int_at(found, cells)
    return -2 if _overflowed(cells) or code < 0 else code


@partial(kernel, nogil=False)  # the GIL is held
def _walk_string(
    maps: int, first: int, words: int, learn: int, known: int, memo: Ints, bits: int, keys: Ints,
    values: Bytes, kind: int, offsets: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Read maps with str keys; see `walk`."""
    stop = _count(maps, known)
    if first < 0 or stop < 0 or not _is_dict(words, known) or len(memo) >> 1 != 1 << bits:
        return 0, STOP
    cells, notes = _cells(), _notes()
    width = 4 if kind == _SINGLES else 8
    room = min(len(keys), len(values) // width)
    to = _address_of(values)
    # The same object has the same code. No object can die during the call, but its address may be
    # another's after it: the memo (address and code side by side) lives no longer. Addresses of
    # words stand in rows at equal distances, in each of which multiplying spreads them well, but
    # rows may fall upon each other: hence the page number in the lower bits, and two slots for each
    # place. Without them half of 1,000 words met, by bad luck, and the walk took twice as long.
    shift = np.uint64(65 - bits)
    _set_word(cells + _NEXT, first)
    _set_word(cells + _GROWING, words if learn != 0 else 0)
    j, n, half, reason = 0, 0, 0, _GO
    while n > 0 or reason == _GO:
        noted, other = 0, _GROUP * _NOTE - half
        if reason == _GO:
            noted, reason = _note(maps, first, stop, room, known, cells, notes + other, offsets)
        for note in range(notes + half, notes + half + _NOTE * n, _NOTE):
            key = _word_at(note)
            mixed = np.uint64(key ^ (key >> 12)) * np.uint64(0x9E3779B97F4A7C15)
            slot = 4 * np.int64(mixed >> shift)
            code = memo[slot + 1] if memo[slot] == key else memo[slot + 3]
            if memo[slot] != key and memo[slot + 2] != key:
                code = _code_of(words, learn, key, cells, known)
                if code < -1:
                    return _map_of(offsets, j), STOP
                memo[slot + 2] = memo[slot]
                memo[slot + 3] = memo[slot + 1]
                memo[slot] = key
                memo[slot + 1] = code
            keys[j] = code
            if not _store_at(_word_at(note + 8), cells, known, kind, to):
                return _map_of(offsets, j), STOP
            j += 1
            to += width
        n, half = noted, other
    return _complete(cells, first), reason


def _memo_bits(maps: int, words: int, room: int) -> int:
    """Return the size of the memo: it must pay for clearing it, and leave room in the cache.

    With eight slots a word few words meet in the two slots of a place: a key that is one of 1,000
    words costs 5.7 ns, with four slots 6.7; one of 10,000 words costs 14 ns with 2**15 slots, 24
    with 2**12 (asv: dicts.Csr). Where most words are met once or twice in a call the memo helps
    little, and less of it is better.
    """
    slots = 8 * words
    if not 4096 < slots < 2 * room:
        slots = 4096
    slots = min(slots, 1 << 15, 64 * (maps - 1), 2 * room)
    return max(slots - 1, 2).bit_length()


def walk(
    maps: Sequence[object],
    first: int,
    key_kind: str,
    words: dict[str, int] | None,
    learn: bool,
    keys: Ints,
    values: Array,
    offsets: Ints,
    any_order: bool = False,
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
    any_order : bool
        Whether OrderedDict objects are taken, too: their entries come in any order.

    Returns
    -------
    count : int
        How many maps were read completely.
    reason : int
        `DONE`: there are no more maps. `FULL`: the next map has more entries than there is room
        for (none of them was looked at), or `offsets` is full. `STOP`: the next map is, or holds,
        something that plain Python must look at.
    """
    return (
        _read(maps, first, key_kind, words, learn, keys, values, offsets, any_order)
        if _holds(key_kind)
        else (0, STOP)
    )


def _read(
    maps: Sequence[object], first: int, key_kind: str, words: object, learn: bool,
    keys: Ints, values: Array, offsets: Ints, any_order: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Do what `walk` does, tested or not."""
    if type(maps) not in (list, tuple):
        return 0, STOP
    stored, kind, known = values.view(np.uint8), _KINDS[values.dtype], _KNOWN[any_order]
    if key_kind == "int64":
        return _walk_int64(id(maps), first, known, keys, stored, kind, offsets)
    if type(words) is not dict:
        return 0, STOP
    bits = _memo_bits(len(maps) - first, len(words), min(len(keys), len(values)))
    memo = np.zeros(2 << bits, np.int64)
    return _walk_string(
        id(maps), first, id(words), int(learn), known, memo, bits, keys, stored, kind, offsets
    )


# ---- the maps of an iterator ----


@_helper
def _read_map(
    item: int, room: int, to: int, known: int, cells: int, notes: int, keys: Ints, kind: int
) -> int:
    """Read a map behind the entries read before; return their end, or -1 if it is not taken."""
    j = _word_at(cells + _END)
    left = _dict_size(item) if _is_map(item, known) else room + 1
    if j + left > room:
        return -1
    width = 4 if kind == _SINGLES else 8
    if left > 0:
        _prefetch_table(item)
        _begin(item, cells)
    while left > 0:
        n = min(left, _GROUP)
        if not _note_entries(item, cells, notes, notes + _NOTE * n):
            return -1
        for note in range(notes, notes + _NOTE * n, _NOTE):
            key = _word_at(note)
            if not _is_int(key, known):
                return -1
            keys[j] = _int_at(key, cells)
            value = _word_at(note + 8)
            if _overflowed(cells) or not _store_at(value, cells, known, kind, to + width * j):
                return -1
            j += 1
        left -= n
    return j


@partial(kernel, nogil=False)  # the GIL is held
def _take_int64(
    iterator: int, refused: int, known: int, keys: Ints, values: Bytes, kind: int, offsets: Ints,
    error: int,
) -> tuple[int, int]:  # fmt: skip
    """Read maps with int keys as an iterator gives them; see `take`."""
    cells, notes = _cells(), _notes()
    room = min(len(keys), len(values) // (4 if kind == _SINGLES else 8))
    to = _address_of(values)
    i = 0
    while i + 1 < len(offsets):
        item = _iter_next(iterator)
        if item == 0:
            _fetch_error(error, error + 8, error + 16)
            return i, DONE
        end = _read_map(item, room, to, known, cells, notes, keys, kind)
        if end < 0 and _list_append(refused, item) != 0:
            _fetch_error(error, error + 8, error + 16)
        _release(item)
        if end < 0:
            return i, STOP
        i += 1
        _set_word(cells + _END, end)
        offsets[i] = end
    return i, FULL


_raise_error = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(("PyErr_Restore", ctypes.pythonapi))


def take(
    iterator: Iterator[object], keys: Ints, values: Array, offsets: Ints, any_order: bool = False
) -> tuple[int, int, list[object]]:
    """Read maps with int keys as an iterator gives them, each before the next is asked for.

    So none is copied, though its owner may change it for the next one. The code of the iterator
    runs meanwhile: nothing that was read from a map is used after the next is asked for, and the
    arrays must be nobody else's. Call it only if `available` is true.

    Parameters
    ----------
    iterator : iterator
    keys, values, offsets, any_order
        As for `walk`.

    Returns
    -------
    count : int
        How many maps were read.
    reason : int
        As for `walk`; `FULL` may also mean that there was room for no other map.
    refused : list
        The map behind them, if the iterator has given one that plain Python must look at, or that
        there is no room for.

    Raises
    ------
    Exception
        What the iterator raises.
    """
    error, refused = np.zeros(3, np.int64), list[object]()
    stored, kind = values.view(np.uint8), _KINDS[values.dtype]
    count, reason = _take_int64(
        id(iterator), id(refused), _KNOWN[any_order], keys, stored, kind, offsets, error.ctypes.data
    )
    if error[0]:
        _raise_error(*error.tolist())
    return count, reason, refused


# ---- one dict ----


@_helper
def _is_left_out(key: int, value: int, cells: int, known: int, row: Array) -> bool:
    """Whether an entry whose key is not a word can be left out of a row.

    Its value still counts when the type of the row is chosen, so it must be one that is taken.
    """
    if not _is_text(key, known):
        _int_at(key, cells)
        if _overflowed(cells):
            return False
    if len(row) == 0:
        return False
    before = row[0]
    taken = _store(value, cells, known, row, 0)
    row[0] = before
    return taken


@partial(kernel, nogil=False)  # the GIL is held
def _fill(mapping: int, known: int, row: Array) -> bool:
    """Write a dict into a row; see `row_filler`."""
    # Behind the types stand the words, whether they are text, and whether to skip unknown keys.
    words = _word_at(known + 8 * _TYPE_COUNT)
    text = _word_at(known + 8 * _TYPE_COUNT + 8) != 0
    skip_unknown = _word_at(known + 8 * _TYPE_COUNT + 16) != 0
    cells = _cells()
    while _dict_next(mapping, cells, cells + _KEY, cells + _VALUE) != 0:
        key, value = _word_at(cells + _KEY), _word_at(cells + _VALUE)
        if not (_is_text(key, known) if text else _is_int(key, known)):
            return False
        found = _dict_get(words, key)
        if found == 0:
            if _error() != 0:
                _clear_error()
                return False
            if not skip_unknown or not _is_left_out(key, value, cells, known, row):
                return False
            continue
        column = _int_at(found, cells)
        if not 0 <= column < len(row) or not _store(value, cells, known, row, column):
            return False
    return True


def row_filler(
    words: Mapping[int, int] | Mapping[str, int], key_kind: str, skip_unknown: bool
) -> Callable[[Map, Array], bool]:
    """Return what writes the values of one dict to their columns.

    It takes an exact dict and a row of float64, int64 or float32, and returns whether it has taken
    all entries, as `walk` takes them. A call of the operator with a dict of 20 entries takes 1.3 us
    with it, 2.4 us in plain Python (asv: dictvectorizer.OneDict). Call it only if `available` is
    true.

    Parameters
    ----------
    words : dict of int or str to int
        The column of each word: an exact dict whose keys are exact and of the kind `key_kind`.
    key_kind : {"int64", "string"}
        Keys that are taken.
    skip_unknown : bool
        Whether entries whose key is not a word are left out; otherwise they are not taken.
    """
    holds = _holds(key_kind)  # it reads by the same helpers as the walk over these keys
    # All in one place: every further argument of a kernel costs time.
    context = np.append(_ADDRESSES, [id(words), key_kind == "string", skip_unknown])
    address: int = context.ctypes.data
    # Kept alive as long as the function that has their addresses.
    owners = (context, words)

    def fill(mapping: Map, row: Array, _owners: object = owners) -> bool:
        return _fill(id(mapping), address, row)

    return fill if holds else lambda *_: False


# ---- may all this be used? ----


@cache
def available() -> bool:
    """Tell whether `walk` can be used in this process; tested once, and nothing is compiled for it.

    Returns
    -------
    bool
        False where kernels are not compiled (``NUMBA_DISABLE_JIT``), for any interpreter but the
        main one of CPython with a GIL, and after any surprise in the layout of objects.
    """
    # LLVM has a lock, which a thread that is broken off may never give back.
    found = _is_supported() and undisturbed(_layout_holds)
    if not found:
        logging.getLogger("nbmapops").info(
            "dicts are read by plain Python here, 50 to 100 times slower than by compiled code: %s",
            "objects have another layout"
            if _is_supported()
            else "it needs Numba and a CPython with a GIL",
        )
    return found


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
    single = np.float32(3.5)
    dicts = [dict.fromkeys(range(n)) for n in (0, 3, 100)]
    objects: tuple[object, ...] = (
        1.5,
        np.float64(2.5),
        single,
        1,
        True,
        "a",
        Counter(),
        [],
        (),
        *dicts,
    )
    return (
        sys.int_info.bits_per_digit == 30
        and sys.int_info.sizeof_digit == 4
        and all(id(each) < 2**63 for each in (*objects, *_TYPES))
        and all(binding.address_of_symbol(name) for name in _C_NAMES)
        and all(_peek(ctypes.c_ssize_t, each, _TYPE_AT) == id(type(each)) for each in objects)
        and all(_peek(ctypes.c_double, each, _FLOAT_AT) == each for each in objects[:2])
        and _peek(ctypes.c_float, single, _FLOAT_AT) == single
        and dict.__basicsize__ == _TABLE_AT + 16
        and all(_peek(ctypes.c_ssize_t, each, _SIZE_AT) == len(each) for each in dicts)
        and all(map(_table_holds, (*dicts, *_dicts_of_all_kinds())))
    )


def _dicts_of_all_kinds() -> list[Map]:
    """Return dicts of text and other keys, small and large, with removed entries, and split."""
    texts = {f"t{n}": n for n in range(300)}
    mixed: Map = {**texts, 5: 1}
    for key in ("t0", "t7", "t299"):
        del texts[key], mixed[key]

    class Instance:
        def __init__(self) -> None:
            self.first, self.second = 1.5, 2

    return [texts, mixed, {"a": 1.5}, dict(mixed), vars(Instance()), {}]


def _table_holds(mapping: Map) -> bool:
    """Tell whether the entries of a dict stand where `_begin` says."""
    size, address = ctypes.c_ssize_t, _peek(ctypes.c_ssize_t, mapping, _TABLE_AT)
    kind = ctypes.c_uint8.from_address(address + _KIND_AT).value
    index = ctypes.c_uint8.from_address(address + _INDEX_BYTES_AT).value
    used = size.from_address(address + _USED_AT).value
    if kind == 2:
        return True  # PyDict_Next reads it
    if kind > 2 or index > 40 or not 0 <= used <= 2 * len(mapping) + 64:
        return False
    stride, first = 24 - 8 * kind, _INDEX_AT + (1 << index)
    if first + stride * used > sys.getsizeof(mapping) and mapping:
        return False
    ends = range(address + first + stride, address + first + stride * used + 1, stride)
    pairs = [(size.from_address(end - 16).value, size.from_address(end - 8).value) for end in ends]
    return [pair for pair in pairs if pair[1]] == [
        (id(key), id(value)) for key, value in mapping.items()
    ]


def _peek(kind: Untyped, item: Untyped, offset: int) -> Untyped:
    return kind.from_address(id(item) + offset).value


@cache
def _holds(key_kind: str) -> bool:
    """Walk small lists whose answer is known, before the first others; cached once it is known.

    A kernel that this version of Numba cannot compile is not used.
    """
    try:
        return _ints_hold() if key_kind == "int64" else _texts_hold()
    except NumbaError:
        return False


def _ints_hold() -> bool:
    ints = [0, 1, -1, 2**30 - 1, -(2**30), 2**60 - 1, 1 - 2**60, 2**60, 2**63 - 1, -(2**63)]
    keys, values, offsets = np.zeros(10, np.int64), np.zeros(10), np.zeros(4, np.int64)

    def read(*maps: Map) -> tuple[int, int]:
        return _read(maps, 0, "int64", None, False, keys, values, offsets)

    holds = read(dict.fromkeys(ints[:8], 2**53), {ints[8]: 1.5, ints[9]: np.float32(0.1)}) == (
        2,
        DONE,
    )
    holds &= keys.tolist() == ints and offsets.tolist() == [0, 8, 10, 0]
    holds &= values.tolist() == [2.0**53] * 8 + [1.5, float(np.float32(0.1))]
    for stopped in ({2**63: 1.5}, {7: 2**53 + 1}, {7: "a"}, {7.0: 1.5}):
        holds &= read({True: np.float64("-0.0")}, stopped) == (1, STOP)
        holds &= keys[0] == 1 and str(values[0]) == "-0.0"
    return bool(holds)


def _texts_hold() -> bool:
    words = {"a": 5}
    keys, values, offsets = np.zeros(4, np.int64), np.zeros(4), np.zeros(4, np.int64)
    texts = ({"b": 1.0, "a": 2.0}, Counter({"c": 3, "a": 4}), {"d": 5.0})
    holds = _read(texts, 0, "string", words, True, keys, values, offsets) == (2, FULL)
    holds &= keys.tolist() == [1, 5, 2, 5] and values.tolist() == [1.0, 2.0, 3.0, 4.0]
    return bool(holds and words == {"a": 5, "b": 1, "c": 2})
