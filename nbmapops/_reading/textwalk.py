"""Reading, compiled: the words among an array of str objects, read where they lie.

As for dicts (see `dictwalk`) the GIL is held, nothing that is called can run user code, and an
object that is not exactly a str ends the walk: plain Python takes over there. A key's UTF-8 is
that which CPython keeps for it; the keys are hashed 16 at a time, so that the memory of each has
been asked for before it is needed: 20 ns a key where `dict.get` takes 200 to 400 (asv:
vocabulary.Columns).
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from nbmapops._jit import kernel
from nbmapops._reading.entries import readonly
from nbmapops._reading.objects import (
    available,
    c_function,
    clear_error,
    digit_at,
    helper,
    prefetch,
    reader_of,
    set_word,
    stack,
    word_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._constants import Array, Integer

__all__ = ["TextIndex", "available", "build", "find"]

_BLOCK = 16  # keys whose memory is asked for before the first of them is compared
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_TYPE_AT = 8
_PLACE = (1 << 40) - 1  # the bits of a place: 8 TiB of words

_notes = stack(2 * _BLOCK, zeros=False)
_utf8 = c_function("PyUnicode_AsUTF8AndSize", types.intp, types.intp, types.intp)
_byte_at = reader_of(types.uint8, ir.IntType(8))


class TextIndex(NamedTuple):
    """A hash table of words: each slot is a tag of 24 bits and the place of its word; 0 is empty.

    At its place stand the number of a word, its size, and its UTF-8.
    """

    slots: Array  # int64
    text: Array  # int64: eight bytes each
    seed: int


@helper
def _rest(address: int, size: int) -> np.uint64:
    """Return the last bytes of a text, up to 8, as a number; no byte beside it is read."""
    if size >= 8:
        return np.uint64(word_at(address + size - 8))
    if size >= 4:
        last = np.uint64(digit_at(address + size - 4))
        return np.uint64(digit_at(address)) | last << np.uint64(32)
    if size == 0:
        return np.uint64(0)
    middle = np.uint64(_byte_at(address + (size >> 1))) << np.uint64(8)
    return (
        np.uint64(_byte_at(address))
        | middle
        | (np.uint64(_byte_at(address + size - 1)) << np.uint64(16))
    )


@helper
def _mixed(mixed: np.uint64, part: np.uint64) -> np.uint64:
    mixed = (mixed ^ part) * _FACTOR
    return mixed ^ mixed >> np.uint64(32)


@helper
def _hash(address: int, size: int, seed: np.uint64) -> np.uint64:
    mixed = seed ^ np.uint64(size)
    end = address + size - 8
    place = address
    while place < end:
        mixed = _mixed(mixed, np.uint64(word_at(place)))
        place += 8
    return _mixed(mixed, _rest(address, size)) * np.uint64(0xBF58476D1CE4E5B9)


@helper
def _equal(one: int, other: int, size: int) -> bool:
    end = one + size - 8
    shift = other - one
    while one < end:
        if word_at(one) != word_at(one + shift):
            return False
        one += 8
    return bool(_rest(end + 8 - size, size) == _rest(end + 8 - size + shift, size))


@helper
def _hash_of(address: int, size: int, seed: int) -> np.int64:
    """Hash whose tag is never 0."""
    return np.int64(_hash(address, size, np.uint64(seed)) | np.uint64(_PLACE + 1))


@helper
def _slot_of(mixed: Integer, last: int) -> np.int64:
    return np.int64(np.uint64(mixed) >> np.uint64(20) & np.uint64(last))


@helper
def _word_of(mixed: Integer, address: int, size: int, slots: int, last: int, text: int) -> int:
    """Return the number of the word with this hash and UTF-8, -1 where there is none.

    The table is given by addresses: an array costs reference counts, half of the time of a key.
    """
    slot = int(_slot_of(mixed, last))
    held = word_at(slots + 8 * slot)
    while held != 0:
        place = text + 8 * (held & _PLACE)
        if (
            (held ^ mixed) & ~_PLACE == 0
            and word_at(place + 8) == size
            and _equal(place + 16, address, size)
        ):
            return word_at(place)
        slot = (slot + 1) & last
        held = word_at(slots + 8 * slot)
    return -1


@kernel
def _fill(places: Array, text: Array, slots: Array, seed: int) -> None:
    """Enter the words; of equal ones the first is found."""
    last = slots.size - 1
    for word in range(places.size):
        place = places[word]
        address = text.ctypes.data + 8 * place + 16
        mixed = _hash_of(address, text[place + 1], seed)
        slot = _slot_of(mixed, last)
        while slots[slot] != 0:
            slot = (slot + 1) & last
        slots[slot] = (mixed & ~_PLACE) | place


@partial(kernel, nogil=False)  # the GIL is held
def _find(
    items: int, stride: int, known: int, slots: Array, text: Array, seed: int, columns: Array
) -> int:
    """Write the number of each word, -1 for others; how many keys, up to one that is not a str."""
    n, last = columns.size, slots.size - 1
    slots_at, text_at = slots.ctypes.data, text.ctypes.data
    notes = _notes()  # address and size of the UTF-8 of a block's keys
    mixed = np.empty(_BLOCK, np.int64)
    for i in range(min(2 * _BLOCK, n)):
        prefetch(word_at(items + i * stride))
    done = 0
    while done < n:
        count = min(_BLOCK, n - done)
        for i in range(count):
            if done + i + 2 * _BLOCK < n:
                ahead = word_at(items + (done + i + 2 * _BLOCK) * stride)
                prefetch(ahead)
                prefetch(ahead + 48)
            item = word_at(items + (done + i) * stride)
            if item == 0 or word_at(item + _TYPE_AT) != known:
                return done
            address = _utf8(item, notes + 16 * i + 8)
            if address == 0:
                clear_error()
                return done
            set_word(notes + 16 * i, address)
            mixed[i] = _hash_of(address, word_at(notes + 16 * i + 8), seed)
            prefetch(slots_at + 8 * _slot_of(mixed[i], last))
        for i in range(count):
            held = slots[_slot_of(mixed[i], last)]
            if (held ^ mixed[i]) & ~_PLACE == 0:
                prefetch(text_at + 8 * (held & _PLACE))
        for i in range(count):
            address, size = word_at(notes + 16 * i), word_at(notes + 16 * i + 8)
            columns[done + i] = _word_of(mixed[i], address, size, slots_at, last, text_at)
        done += count
    return done


def build(words: Sequence[str]) -> TextIndex:
    """Return the table of words; one that is not UTF-8 (a lone surrogate) is found by nobody."""
    # Nothing that CPython gives as UTF-8 has this form.
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
    lengths = 2 + (sizes + 7) // 8
    places = np.cumsum(lengths) - lengths
    text = np.zeros(int(lengths.sum()), np.int64)
    text[places], text[places + 1] = np.arange(len(encoded)), sizes
    # Where the bytes of each word belong.
    shifts = np.repeat(8 * places + 16 - (np.cumsum(sizes) - sizes), sizes)
    packed = np.frombuffer(b"".join(encoded), np.uint8)
    text.view(np.uint8)[shifts + np.arange(len(packed))] = packed
    slots = np.zeros(1 << max(3, (2 * len(encoded)).bit_length()), np.int64)
    seed = int.from_bytes(os.urandom(8), "little") >> 1  # so that nobody can choose slow words
    _fill(readonly(places), readonly(text), slots, seed)
    return TextIndex(readonly(slots), readonly(text), seed)


def find(keys: Array, index: TextIndex, columns: Array) -> int:
    """Write the number of the first equal word of each key, -1 for a key that is not a word.

    Parameters
    ----------
    keys : object array, shape (n,)
    index : TextIndex
    columns : int64 array, shape (n,)

    Returns
    -------
    int
        How many keys were read: all, or those before one (of a block) that is not exactly a str.
    """
    slots, text, seed = index
    address, stride = keys.ctypes.data, keys.strides[0]
    return int(_find(address, stride, id(str), slots, text, seed, columns))
