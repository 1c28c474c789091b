"""Reading, compiled: Python objects, by CPython's C API and by where objects keep what.

Numbers, text, and the tables of dicts are read where they stand, by the layout of CPython 3.11 and
newer; `available` tests that layout once. The rules that keep this safe are told in `dictwalk`.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import sys
import sysconfig
from collections import Counter, OrderedDict, defaultdict
from functools import cache, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from nbmapops._load import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._constants import Array
    from nbmapops._jit import Untyped
    from nbmapops._types import Map

_Function = TypeVar("_Function", bound="Callable[..., object]")


def helper(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return register_jitable(function)


# The types that the kernels know. A subclass is never taken for one of these.
_TYPES = (
    list, tuple, dict, Counter, defaultdict, int, bool, str, float, np.float64, np.float32,
    OrderedDict,
)  # fmt: skip
LIST, TUPLE, _DICT, _COUNTER, _DEFAULTDICT, INT, BOOL, STR, FLOAT, FLOAT64, FLOAT32 = range(
    len(_TYPES) - 1
)
_ORDERED = len(_TYPES) - 1
TYPE_COUNT = len(_TYPES)
# Addresses differ between processes: they reach a kernel, whose code may come from the disk
# cache, as an argument. One int costs less than an array.
_ADDRESSES_IN_ANY_ORDER = np.array([id(each) % 2**64 for each in _TYPES], np.uint64).view(np.int64)
# The table of an OrderedDict may have another order than the dict itself.
ADDRESSES = np.append(_ADDRESSES_IN_ANY_ORDER[:_ORDERED], 0)
KNOWN: dict[bool, int] = {
    False: ADDRESSES.ctypes.data,
    True: _ADDRESSES_IN_ANY_ORDER.ctypes.data,
}

# What kind of number a kernel stores: its code reaches the kernel as an argument, too, because a
# kernel for each of them takes as long to compile as the first one.
_DOUBLES, _INTS, SINGLES = range(3)
KINDS = {np.dtype(np.float64): _DOUBLES, np.dtype(np.int64): _INTS, np.dtype(np.float32): SINGLES}

# Offsets in objects.
TYPE_AT = 8  # the type of any object
FLOAT_AT = 16  # the number in a float, np.float64 or np.float32
_HEAD_AT = 16  # length and sign of an int
_DIGIT_AT = 24  # its lowest 30 bits
_SIZE_AT = 16  # the number of entries of a dict
TABLE_AT = 32  # the address of its table
# Offsets in a table, and what is there.
_INDEX_BYTES_AT = 9  # log2 of the size of its index
_KIND_AT = 10  # 0: entries are hash, key, value; 1: key, value; 2: values lie elsewhere
_USED_AT = 24  # the number of entries, with those of removed keys, whose value is 0
_INDEX_AT = 32  # its index; the entries stand behind
_TAGGED = sys.version_info >= (3, 12)  # how length and sign are written: see `int_at`

# Offsets in the cells of a walk: see `new_cells`.
KEY_CELL, VALUE_CELL, OVERFLOW_CELL, ITEM_CELL, LEFT_CELL, NEXT_CELL = range(8, 56, 8)
END_CELL, GROWING_CELL, STRIDE_CELL, ENTRY_CELL, BEHIND_CELL = range(56, 96, 8)

_LINE = 64  # bytes that one prefetch asks for
GROUP = 32  # entries whose keys and values are asked for while those of the group before are read
NOTE = 16  # bytes of a note: the addresses of a key and a value

WORD = types.intp
_C_NAMES: list[str] = []


def c_function(name: str, result: Untyped, *arguments: Untyped) -> Callable[..., int]:
    _C_NAMES.append(name)
    function: Untyped = types.ExternalFunction(name, result(*arguments))
    return function  # type: ignore[no-any-return]


list_size = c_function("PyList_Size", WORD, WORD)
list_item = c_function("PyList_GetItem", WORD, WORD, WORD)
tuple_size = c_function("PyTuple_Size", WORD, WORD)
tuple_item = c_function("PyTuple_GetItem", WORD, WORD, WORD)
dict_size = c_function("PyDict_Size", WORD, WORD)
dict_next = c_function("PyDict_Next", types.int32, WORD, WORD, WORD, WORD)
dict_get = c_function("PyDict_GetItemWithError", WORD, WORD, WORD)
dict_set = c_function("PyDict_SetItem", types.int32, WORD, WORD, WORD)
int_new = c_function("PyLong_FromSsize_t", WORD, WORD)
_int_value = c_function("PyLong_AsLongLongAndOverflow", types.int64, WORD, WORD)
release = c_function("Py_DecRef", types.void, WORD)
iter_next = c_function("PyIter_Next", WORD, WORD)
list_append = c_function("PyList_Append", types.int32, WORD, WORD)
fetch_error = c_function("PyErr_Fetch", types.void, WORD, WORD, WORD)
error_occurred = c_function("PyErr_Occurred", WORD)
clear_error = c_function("PyErr_Clear", types.void)


# ---- what no Python code says: intrinsics cost next to nothing to compile ----


def _intrinsic(function: Callable[..., Untyped]) -> Untyped:
    return intrinsic(function)


def stack(words: int, zeros: bool) -> Untyped:
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
# dict that grows during the walk, which can be none of the maps; then what `begin_entries` keeps:
# bytes of an entry, the address of the next one, and that behind the last.
new_cells = stack(12, zeros=True)
new_notes = stack(2 * GROUP * NOTE // 8, zeros=False)  # two groups of notes


def reader_of(result: Untyped, kind: Untyped, offset: int = 0) -> Untyped:
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


word_at: Callable[[int], int] = reader_of(types.intp, ir.IntType(64))
digit_at: Callable[[int], int] = reader_of(types.int64, ir.IntType(32))
_byte_at: Callable[[int], int] = reader_of(types.int64, ir.IntType(8))
double_at: Callable[[int], float] = reader_of(types.float64, ir.DoubleType())
single_at: Callable[[int], float] = reader_of(types.float32, ir.FloatType())
type_of: Callable[[int], int] = reader_of(types.intp, ir.IntType(64), TYPE_AT)


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


set_word = _writer(types.intp)
_set_double = _writer(types.float64)
_set_digit = _writer(types.uint32)


def _type_test(*numbers: int) -> Untyped:
    """Intrinsic that tells whether an object has exactly one of these `_TYPES`."""

    def test(_typing: Untyped, _item: Untyped, _known: Untyped) -> Untyped:
        def build(
            _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
        ) -> Untyped:
            item, known = arguments
            kind = _load(builder, item, TYPE_AT)
            each = [_load(builder, known, 8 * number) for number in numbers]
            return reduce(builder.or_, [builder.icmp_unsigned("==", kind, one) for one in each])

        return types.boolean(types.intp, types.intp), build

    return _intrinsic(test)


is_map = _type_test(_DICT, _DEFAULTDICT, _COUNTER, _ORDERED)
is_dict = _type_test(_DICT)
is_list = _type_test(LIST)
is_tuple = _type_test(TUPLE)
is_text = _type_test(STR)
is_int = _type_test(INT, BOOL)
is_plain_int = _type_test(INT)
_is_double = _type_test(FLOAT, FLOAT64)
_is_single = _type_test(FLOAT32)


@_intrinsic
def is_type(_typing: Untyped, _kind: Untyped, _known: Untyped, _number: Untyped) -> Untyped:
    """Whether a type is that of `_TYPES` with this number."""

    def build(
        _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
    ) -> Untyped:
        kind, known, number = arguments
        place = builder.add(known, builder.mul(number, number.type(8)))
        return builder.icmp_unsigned("==", kind, _load(builder, place, 0))

    return types.boolean(types.intp, types.intp, types.intp), build


@_intrinsic
def overflowed(_typing: Untyped, _cells: Untyped) -> Untyped:
    """Whether the int that was read last was too large: see `int_at`."""

    def build(
        _context: Untyped, builder: Untyped, _signature: Untyped, arguments: Untyped
    ) -> Untyped:
        cell = _load(builder, arguments[0], OVERFLOW_CELL)
        return builder.icmp_unsigned("!=", cell, cell.type(0))

    return types.boolean(types.intp), build


@_intrinsic
def prefetch(_typing: Untyped, _address: Untyped) -> Untyped:
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
def address_of(_typing: Untyped, array: Untyped) -> Untyped:
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
    kind = {types.float64: _DOUBLES, types.int64: _INTS, types.float32: SINGLES}[array.dtype]

    def build(
        _context: Untyped, _builder: Untyped, _signature: Untyped, _arguments: Untyped
    ) -> Untyped:
        return ir.IntType(64)(kind)

    return types.intp(array), build


# ---- one number ----


@helper
def int_at(item: int, cells: int) -> int:
    """Value of an int; the overflow cell is not 0 afterwards if int64 cannot hold it.

    Ints of up to two digits, of 30 bits each, are read in place: a call costs 2 ns more for
    each of them, and 12 where ints of one digit and of two come in random order (asv: dicts.Csr).
    """
    head = word_at(item + _HEAD_AT)
    if _TAGGED:  # digits * 8 + flag + sign, where the sign is 0 for +, 1 for zero, 2 for -
        short, two, sign = 0 <= head < 24, head >= 16, 1 - (head & 3)
    else:  # number of digits, negative for a negative int
        short, two = -2 <= head <= 2, (head > 1) | (head < -1)
        sign = (head > 0) - (head < 0)
    if short:
        # Without a second digit the first is read again: no byte behind the int is read.
        low, high = digit_at(item + _DIGIT_AT), digit_at(item + _DIGIT_AT + 4 * two)
        return sign * (low + (high << 30) * two)
    return _int_value(item, cells + OVERFLOW_CELL)


@helper
def store_at(item: int, cells: int, known: int, kind: int, to: int) -> bool:
    """Store the value at address `item` at address `to`; False if it is not taken."""
    if is_int(item, known):
        number = int_at(item, cells)
        if kind == SINGLES or overflowed(cells):
            return False
        if kind == _INTS:
            set_word(to, number)
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
        if kind == SINGLES:
            _set_digit(to, digit_at(item + FLOAT_AT))
        else:
            _set_double(to, np.float64(single_at(item + FLOAT_AT)))
        return True
    if kind == SINGLES or not _is_double(item, known):
        return False
    set_word(to, word_at(item + FLOAT_AT))
    return True


@helper
def store(item: int, cells: int, known: int, values: Array, j: int) -> bool:
    """Store the value at address `item` as ``values[j]``; False if it is not taken."""
    to = address_of(values) + values.itemsize * j
    return store_at(item, cells, known, _kind_of(values), to)


# ---- the table of a dict ----


@helper
def prefetch_table(item: int) -> None:
    # A head of 32 bytes, up to two bytes of index and 24 of table for an entry.
    line = table = word_at(item + TABLE_AT)
    end = table + 32 + 26 * word_at(item + _SIZE_AT)
    while line < end and line < table + 10 * _LINE:
        prefetch(line)
        line += _LINE


@helper
def begin_entries(item: int, cells: int) -> None:
    """Begin with the entries of a dict.

    They are read where they stand: `PyDict_Next` costs 2 ns more for each of them. It reads dicts
    whose values lie elsewhere, as those of instances do (asv: dicts.Csr).
    """
    table = word_at(item + TABLE_AT)
    kind = _byte_at(table + _KIND_AT)
    if kind > 1:
        set_word(cells, 0)
        set_word(cells + STRIDE_CELL, 0)
        return
    stride = 24 - 8 * kind
    entry = table + _INDEX_AT + (1 << _byte_at(table + _INDEX_BYTES_AT))
    set_word(cells + STRIDE_CELL, stride)
    set_word(cells + ENTRY_CELL, entry)
    set_word(cells + BEHIND_CELL, entry + stride * word_at(table + _USED_AT))


@helper
def note_entries(item: int, cells: int, note: int, end: int) -> bool:
    """Note where the next keys and values of a dict are, and prefetch them; False at its end."""
    stride = word_at(cells + STRIDE_CELL)
    if stride == 0:
        while note < end:
            if dict_next(item, cells, note, note + 8) == 0:
                return False
            prefetch(word_at(note) + TYPE_AT)
            prefetch(word_at(note + 8) + TYPE_AT)
            note += NOTE
        return True
    entry, behind = word_at(cells + ENTRY_CELL), word_at(cells + BEHIND_CELL)
    while note < end:
        if entry >= behind:
            return False
        value = word_at(entry + stride - 8)
        if value != 0:
            key = word_at(entry + stride - 16)
            prefetch(key + TYPE_AT)
            prefetch(value + TYPE_AT)
            set_word(note, key)
            set_word(note + 8, value)
            note += NOTE
        entry += stride
    set_word(cells + ENTRY_CELL, entry)
    return True


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
        and all(peek(ctypes.c_ssize_t, each, TYPE_AT) == id(type(each)) for each in objects)
        and all(peek(ctypes.c_double, each, FLOAT_AT) == each for each in objects[:2])
        and peek(ctypes.c_float, single, FLOAT_AT) == single
        and dict.__basicsize__ == TABLE_AT + 16
        and all(peek(ctypes.c_ssize_t, each, _SIZE_AT) == len(each) for each in dicts)
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
    """Tell whether the entries of a dict stand where `begin_entries` says."""
    size, address = ctypes.c_ssize_t, peek(ctypes.c_ssize_t, mapping, TABLE_AT)
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


def peek(kind: Untyped, item: Untyped, offset: int) -> Untyped:
    return kind.from_address(id(item) + offset).value
