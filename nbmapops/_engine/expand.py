"""Engine, expansion: entries whose key has several columns, or one that unknown keys share.

A vocabulary of the onnxruntime semantics may repeat a word: every copy gets the value. With
``unknown_columns`` a key that is not a word has a column all the same, and values that meet there
are added up. Both become entries of columns before the kernels see them, and only here.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._constants import INT64_MAX, INT64_MIN
from nbmapops._reading.duplicates import add_at, same_keys
from nbmapops._reading.entries import readonly
from nbmapops._vocabulary import range_index, unknown_columns

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._options import Plan
    from nbmapops._reading.entries import Entries
    from nbmapops._vocabulary import Index


class Expanded(NamedTuple):
    """Entries whose keys are columns."""

    columns: Array
    words: Index  # where columns are looked up as keys
    values: Array
    offsets: Array
    bad: int | None  # the first map with a fault that only shows here


def expanded(plan: Plan, entries: Entries, columns: Array, values: Array) -> Expanded:
    """Return keys that are columns.

    Parameters
    ----------
    plan : Plan
    entries : Entries
    columns : int64 array, shape (n,)
        The column of the word of each entry, -1 for an unknown key.
    values : array, shape (n,)
        The values as they go into the result.
    """
    assert plan.vocabulary is not None
    copies = plan.vocabulary.copies
    offsets, bad = entries.offsets, None
    if copies is not None:
        columns, values, offsets = _repeated(columns, values, offsets, *copies)
    unknown = np.flatnonzero(columns < 0)
    if plan.unknown_columns and len(unknown):
        keys = entries.keys.take(unknown)
        maps = np.searchsorted(offsets, unknown, "right") - 1
        bad = _first_repeated(same_keys(keys), maps)
        listed = keys.to_array()
        hashed = unknown_columns(
            listed if keys.kind == "int64" else listed.tolist(), plan.unknown_columns
        )
        columns = columns.copy()
        columns[unknown] = hashed + (plan.width - plan.unknown_columns)
        columns, values, offsets, wrapped = _summed(columns, values, offsets, unknown, maps)
        bad = min((each for each in (bad, wrapped) if each is not None), default=None)
    return Expanded(readonly(columns), range_index(plan.width), values, readonly(offsets), bad)


def _first_repeated(keys: Array, maps: Array) -> int | None:
    """Return the first map that holds a key twice."""
    order = np.lexsort((keys, maps))
    keys, maps = keys[order], maps[order]
    again = (keys[1:] == keys[:-1]) & (maps[1:] == maps[:-1])
    return int(maps[1:][again].min()) if again.any() else None


def _summed(
    columns: Array, values: Array, offsets: Array, unknown: Array, maps: Array
) -> tuple[Array, Array, Array, int | None]:
    """Add up values of unknown keys that meet in a column of a map, in the order of entries.

    The sum stands at the first of them. Also returns the first map whose sum does not fit in int64.
    """
    order = np.lexsort((columns[unknown], maps))  # stable
    own, rows = columns[unknown][order], maps[order]
    first = np.ones(len(order), bool)
    first[1:] = (own[1:] != own[:-1]) | (rows[1:] != rows[:-1])
    if first.all():
        return columns, values, offsets, None
    target = unknown[order][first][np.cumsum(first) - 1]
    later = ~first
    sums, addends = values.copy(), values[unknown[order][later]]
    # In the order of entries: the sort is stable, so those of one sum are in order.
    add_at(sums, target[later], addends)
    wrapped = (
        _first_wrapped(values[unknown[order]], np.flatnonzero(first), rows)
        if sums.dtype == np.int64
        else None
    )
    kept = np.ones(len(columns), bool)
    kept[unknown[order][later]] = False
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return columns[kept], sums[kept], ends[offsets], wrapped


def _first_wrapped(values: Array, starts: Array, rows: Array) -> int | None:
    """Return the first map in which a sum leaves int64, even on the way.

    The values of one sum follow each other, and the sums the order of maps.
    """
    sizes = np.add.reduceat(np.abs(values.astype(np.float64)), starts)
    ends = [*starts[1:].tolist(), len(values)]
    for suspect in np.flatnonzero(sizes >= 2.0**62).tolist():
        start = int(starts[suspect])
        for total in itertools.accumulate(values[start : ends[suspect]].tolist()):
            if not INT64_MIN <= total <= INT64_MAX:
                return int(rows[start])
    return None


def _repeated(
    columns: Array, values: Array, offsets: Array, later: Array, first: Array
) -> tuple[Array, Array, Array]:
    """Give an entry of a repeated word all columns of that word."""
    counts = np.ones(int(max(columns.max(initial=0), first.max())) + 2, np.int64)  # last: unknown
    np.add.at(counts, first, 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    listed = np.empty(starts[-1], np.int64)
    listed[starts[:-1]] = np.arange(len(counts))
    order = np.argsort(first, kind="stable")
    rest = np.ones(len(listed), bool)
    rest[starts[:-1]] = False
    listed[rest] = later[order]
    listed[starts[-2]] = -1
    own = np.where(columns < 0, len(counts) - 1, columns)
    times = counts[own]
    ends = np.concatenate([[0], np.cumsum(times)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], times)
    return listed[np.repeat(starts[own], times) + within], np.repeat(values, times), ends[offsets]
