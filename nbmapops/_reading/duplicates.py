"""Reading, duplicates: the values of repeated keys are added up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from nbmapops._engine import choose
from nbmapops._load import load_kernels
from nbmapops._reading.entries import Entries, Int64Keys, KeyColumn, int_array, readonly
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._constants import Array


def sum_duplicates(entries: Entries) -> Entries | None:
    """Return the entries with each key once in its map; None where no key is repeated.

    Keys stand at the place of their first entry; values are added in the order of the entries.
    """
    keys, values, offsets = entries
    if entries.value_kind == "string":
        raise TypeError("MapBatch: sum_duplicates() adds numbers; these values are text")
    same = same_keys(keys)
    # An entry takes NumPy an eighth of what it takes one_map (compare.py: S43).
    if choose.compiled(len(values) // 8, 0, "sums"):
        summed = _compiled_sums(entries, same)
        if summed is not None:
            return summed if len(summed.values) < len(values) else None
    numbers = entries.map_numbers()
    order = np.lexsort((same, numbers))  # stable: entries of one key stay in order
    starts = np.ones(len(order), bool)
    starts[1:] = (np.diff(same[order]) != 0) | (np.diff(numbers[order]) != 0)
    if starts.all():
        return None
    first = order[starts]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(starts) - 1
    sums = values[first]  # not added to 0.0, which would lose the sign of -0.0
    later = np.ones(len(group), bool)
    later[first] = False
    add_at(sums, group[later], values[later])
    _refuse_wrapped(entries, sums, order, np.flatnonzero(starts))
    place = np.argsort(first)
    kept = first[place]
    ends = np.searchsorted(kept, offsets).astype(np.int64)
    return Entries(keys.take(kept), readonly(sums[place]), readonly(ends))


def add_at(sums: Array, places: Array, values: Array) -> None:
    """Add values to the sums at their places, one after the other, in place.

    Sums of floats are infinite or NaN without a word. The sign of a NaN that comes of two depends
    on the machine's code, so a sum that is NaN is always the same one.
    """
    with np.errstate(all="ignore"):
        np.add.at(sums, places, values)
    if sums.dtype != np.int64:
        sums[places[np.isnan(sums[places])]] = np.nan


def _compiled_sums(entries: Entries, same: Array) -> Entries | None:
    """Return the entries added up by a kernel; None where a sum does not fit in int64."""
    keys, values, offsets = entries
    # Drawn anew, so that nobody can choose keys that collide; the result does not depend on it.
    multiplier = int.from_bytes(os.urandom(8), "little", signed=True) | 1
    kept, sums = np.empty(len(values), np.int64), np.empty_like(values)
    ends = np.empty_like(offsets)
    kernels = load_kernels()
    status, end = kernels.sum_rows(
        readonly(same), readonly(values), readonly(offsets), multiplier, kept, sums, ends
    )
    if status != kernels.OK:
        return None
    taken = keys if end == len(values) else keys.take(kept[:end])
    return Entries(taken, readonly(sums[:end].copy()), readonly(ends))


def _refuse_wrapped(entries: Entries, sums: Array, order: Array, starts: Array) -> None:
    """Raise where an int64 sum has wrapped; entries of one sum follow each other in `order`."""
    if sums.dtype != np.int64:
        return
    values, first = entries.values[order], order[starts]
    sizes = np.add.reduceat(np.abs(values.astype(np.float64)), starts)
    ends = np.append(starts[1:], len(order))
    for suspect in np.flatnonzero((sizes >= 2.0**62) & (ends - starts > 1)).tolist():
        total = sum(values[starts[suspect] : ends[suspect]].tolist())
        if total != int(sums[suspect]):
            number = entries.map_of(first[suspect])
            position = int(first[suspect] - entries.offsets[number])
            key = entries.map(number)[0][position]
            raise OverflowError(
                f"MapBatch: map {number}: key {show(key)}: the sum {total} does not fit in int64"
            )


def same_keys(keys: KeyColumn) -> Array:
    """Return int64 numbers that are equal where keys are equal."""
    if isinstance(keys, Int64Keys):
        return keys.array
    codes, words = keys.encode()
    first: dict[object, int] = {}
    unique = int_array([first.setdefault(word, len(first)) for word in words])
    return unique[codes] if len(words) else np.asarray(codes)
