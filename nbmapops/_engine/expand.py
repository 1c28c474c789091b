"""Engine, expansion: entries whose key has several columns, or one that unknown keys share.

A vocabulary of the onnxruntime semantics may repeat a word: every copy gets the value. With
``unknown_columns`` a key that is not a word has a column all the same, and values that meet there
are added up. Both become entries of columns before the kernels see them, and only here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbmapops._reading.entries import readonly
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._options import Plan
    from nbmapops._reading.entries import Entries
    from nbmapops._vocabulary import Index


def expanded(
    plan: Plan, entries: Entries, columns: Array, values: Array
) -> tuple[Array, Index, Array, Array]:
    """Return keys that are columns, their index, values and offsets.

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
    offsets = entries.offsets
    if copies is not None:
        columns, values, offsets = _repeated(columns, values, offsets, *copies)
    return readonly(columns), range_index(plan.width), values, readonly(offsets)


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
