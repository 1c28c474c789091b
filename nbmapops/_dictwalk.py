"""Read Python dicts from compiled code, through CPython's stable C API.

A list of dicts becomes three arrays (keys, values, offsets) without a Python object made or a
bytecode run for an entry: 7 ns an entry where `np.fromiter` takes 40.

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
import sysconfig
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DONE", "FULL", "STOP", "available", "walk"]

DONE, FULL, STOP = 0, 1, 2


_Function = TypeVar("_Function")


def _kernel(function: _Function) -> _Function:
    """Compile with the GIL held; without a disk cache where no cache folder can be written."""
    try:
        return cast("_Function", njit(cache=True)(function))
    except RuntimeError:
        return cast("_Function", njit(function))


# The types that the kernels know. A subclass is never taken for one of these.
_TYPES = (list, dict, Counter, defaultdict, int, bool, str, float, np.float64, np.float32)
_LIST, _DICT, _COUNTER, _DEFAULTDICT, _INT, _BOOL, _STR, _FLOAT, _FLOAT64, _FLOAT32 = range(10)
# Addresses differ between processes, so they are an argument, never a constant of a cached kernel.
_ADDRESSES = np.array([id(each) for each in _TYPES], np.int64)

_TYPE_OFFSET = 8  # of the type pointer in every object
_FLOAT_OFFSET = 16  # of the number in float, np.float64 and np.float32 objects

_WORD = types.intp


def _c_function(name: str, result: Any, *arguments: Any) -> Any:
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
_clear_error = _c_function("PyErr_Clear", types.void)
_C_NAMES = (
    "PyList_Size",
    "PyList_GetItem",
    "PyTuple_Size",
    "PyTuple_GetItem",
    "PyDict_Size",
    "PyDict_Next",
    "PyDict_GetItemWithError",
    "PyDict_SetItem",
    "PyLong_FromSsize_t",
    "PyLong_AsLongLongAndOverflow",
    "Py_DecRef",
    "PyErr_Clear",
)


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


@_intrinsic
def _cells(_typing: Any) -> Any:
    """Address of four zeroed words on the stack: position, key, value, overflow."""

    def build(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        zeros = ir.Constant(ir.ArrayType(ir.IntType(64), 4), None)
        cells = cgutils.alloca_once_value(builder, zeros)  # type: ignore[no-untyped-call]
        return builder.ptrtoint(cells, zeros.type.element)

    return types.intp(), build


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
_single_at = _reader(types.float32, ir.FloatType())


@_kernel
def _type_of(item: int) -> Any:
    return _word_at(item + _TYPE_OFFSET)


@_kernel
def _float64_from_int(item: int, cells: int, values: Any, j: int) -> bool:
    """Store an exact int or bool as float64, if it is one."""
    number = _int_value(item, cells + 24)
    if _word_at(cells + 24) != 0:
        return False
    value = np.float64(number)
    if not -(2**53) <= number <= 2**53 and (value >= 2.0**63 or np.int64(value) != number):
        return False
    values[j] = value
    return True


def _store(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    """Store the value at address `item` as ``values[j]``; False if its type is not taken."""
    raise NotImplementedError


@overload(_store)
def _overload_store(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:  # noqa: ARG001
    if values.dtype == types.float64:
        return _store_float64
    if values.dtype == types.int64:
        return _store_int64
    return _store_float32


def _store_float64(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    kind = _type_of(item)
    if kind in (known[_FLOAT], known[_FLOAT64]):
        values[j] = _double_at(item + _FLOAT_OFFSET)
        return True
    if kind in (known[_INT], known[_BOOL]):
        return _float64_from_int(item, cells, values, j)
    if kind == known[_FLOAT32]:
        values[j] = _single_at(item + _FLOAT_OFFSET)
        return True
    return False


def _store_int64(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:
    kind = _type_of(item)
    if kind not in (known[_INT], known[_BOOL]):
        return False
    values[j] = _int_value(item, cells + 24)
    return _word_at(cells + 24) == 0


def _store_float32(item: Any, cells: Any, known: Any, values: Any, j: Any) -> Any:  # noqa: ARG001
    if _type_of(item) != known[_FLOAT32]:
        return False
    values[j] = _single_at(item + _FLOAT_OFFSET)
    return True


@_kernel
def _is_map(item: int, known: Any) -> bool:
    kind = _type_of(item)
    return kind in (known[_DICT], known[_DEFAULTDICT], known[_COUNTER])


@_kernel
def _walk_int64(
    maps: int, first: int, known: Any, keys: Any, values: Any, offsets: Any
) -> tuple[int, int]:
    """Read maps with int keys; see `walk`."""
    cells = _cells()
    listed = _type_of(maps) == known[_LIST]
    stop = _list_size(maps) if listed else _tuple_size(maps)
    room = min(len(keys), len(values))
    j = 0
    for i in range(first, stop):
        done = i - first
        if done + 1 >= len(offsets):
            return done, FULL
        item = _list_item(maps, i) if listed else _tuple_item(maps, i)
        if not _is_map(item, known):
            return done, STOP
        end = j + _dict_size(item)
        if end > room:
            return done, FULL
        _set_word(cells, 0)
        while _dict_next(item, cells, cells + 8, cells + 16) != 0:
            key = _word_at(cells + 8)
            kind = _type_of(key)
            if j >= end or kind not in (known[_INT], known[_BOOL]):
                return done, STOP
            keys[j] = _int_value(key, cells + 24)
            if _word_at(cells + 24) != 0:
                return done, STOP
            if not _store(_word_at(cells + 16), cells, known, values, j):
                return done, STOP
            j += 1
        offsets[done + 1] = j
    return max(stop - first, 0), DONE


@_kernel
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


@_kernel
def _code_of(words: int, learn: bool, key: int, cells: int, known: Any) -> int:
    """Code of a word, -1 if it has none, -2 if plain Python must look at it."""
    found = _dict_get(words, key)
    if found == 0:
        return _learn(words, key) if learn else -1
    if _type_of(found) != known[_INT]:
        return -2
    code = _int_value(found, cells + 24)
    return code if _word_at(cells + 24) == 0 and code >= 0 else -2


@_kernel
def _walk_string(
    maps: int,
    first: int,
    words: int,
    learn: bool,
    known: Any,
    keys: Any,
    values: Any,
    offsets: Any,
) -> tuple[int, int]:
    """Read maps with str keys; see `walk`."""
    cells = _cells()
    listed = _type_of(maps) == known[_LIST]
    stop = _list_size(maps) if listed else _tuple_size(maps)
    room = min(len(keys), len(values))
    # The same object has the same code. Objects cannot die during the call, but their addresses
    # are used again after it, so the memo (address, code side by side) lives no longer.
    slots = 1
    while slots < 4096 and slots < room and stop - first > 1:
        slots *= 2
    memo = np.zeros(2 * slots, np.int64)
    j = 0
    for i in range(first, stop):
        done = i - first
        if done + 1 >= len(offsets):
            return done, FULL
        item = _list_item(maps, i) if listed else _tuple_item(maps, i)
        if not _is_map(item, known):
            return done, STOP
        end = j + _dict_size(item)
        if end > room:
            return done, FULL
        _set_word(cells, 0)
        while _dict_next(item, cells, cells + 8, cells + 16) != 0:
            key = _word_at(cells + 8)
            h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
            slot = 2 * (np.int64(h) & (slots - 1))
            if memo[slot] != key:
                if j >= end or _type_of(key) != known[_STR]:
                    return done, STOP
                code = _code_of(words, learn, key, cells, known)
                if code < -1:
                    return done, STOP
                memo[slot] = key
                memo[slot + 1] = code
            keys[j] = memo[slot + 1]
            if not _store(_word_at(cells + 16), cells, known, values, j):
                return done, STOP
            j += 1
        offsets[done + 1] = j
    return max(stop - first, 0), DONE


def walk(
    maps: list[Mapping[Any, Any]] | tuple[Mapping[Any, Any], ...],
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
        read in part); otherwise its code is -1.
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
        `DONE`: there are no more maps. `FULL`: the next map does not fit in the arrays. `STOP`:
        the next map is, or holds, something that plain Python must look at.
    """
    if key_kind == "int64":
        return _walk_int64(id(maps), first, _ADDRESSES, keys, values, offsets)
    return _walk_string(id(maps), first, id(words), learn, _ADDRESSES, keys, values, offsets)


@cache
def available() -> bool:
    """Tell whether `walk` can be used in this process; tested once.

    Returns
    -------
    bool
        False where kernels are not compiled (``NUMBA_DISABLE_JIT``), for an interpreter that is
        not CPython with a GIL, and after any surprise in the layout of objects.
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
    objects: tuple[Any, ...] = (
        1,
        True,
        "a",
        1.5,
        np.float64(2.5),
        np.float32(3.5),
        {},
        Counter(),
        [],
        (),
    )
    at = [id(each) for each in objects]
    return (
        object.__basicsize__ == 16
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and all(binding.address_of_symbol(name) for name in _C_NAMES)
        and all(
            ctypes.c_ssize_t.from_address(address + _TYPE_OFFSET).value == id(type(each))
            for address, each in zip(at, objects, strict=True)
        )
        and ctypes.c_double.from_address(at[3] + _FLOAT_OFFSET).value == 1.5
        and ctypes.c_double.from_address(at[4] + _FLOAT_OFFSET).value == 2.5
        and ctypes.c_float.from_address(at[5] + _FLOAT_OFFSET).value == 3.5
    )


def _answers_hold() -> bool:
    """Walk small lists whose answer is known."""
    keys, values, offsets = np.zeros(6, np.int64), np.zeros(6), np.zeros(4, np.int64)
    numbers: list[Mapping[Any, Any]] = [
        {-(2**63): 1.5, True: np.float32(0.1)},
        Counter({7: 2}),
        {8: np.float64("-0.0"), 9: 2**70},
    ]
    holds = walk(numbers, 0, "int64", None, False, keys, values, offsets) == (2, STOP)
    holds &= keys[:3].tolist() == [-(2**63), 1, 7] and offsets.tolist() == [0, 2, 3, 0]
    holds &= values[:3].tolist() == [1.5, float(np.float32(0.1)), 2.0]
    words = {"a": 5}
    texts = ({"b": 1.0, "a": 2.0}, {"c": 3.0, "a": 4.0}, {"d": 5.0})
    arrays = keys[:4], values[:4], offsets
    holds &= walk(texts, 0, "string", words, True, *arrays) == (2, FULL)
    holds &= keys[:4].tolist() == [1, 5, 2, 5] and values[:4].tolist() == [1.0, 2.0, 3.0, 4.0]
    return bool(holds and words == {"a": 5, "b": 1, "c": 2})
