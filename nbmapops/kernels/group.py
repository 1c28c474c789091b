"""Compiled: the entries of a long table, grouped by their row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmapops._jit import kernel
from nbmapops.kernels.index import OK

if TYPE_CHECKING:
    from nbmapops._constants import Array

__all__ = ["group"]


@kernel
def group(
    rows: Array, keys: Array, values: Array, ends: Array, keys_out: Array, values_out: Array
) -> int:
    """Write the entries of each row one after the other, in their order: a counting sort.

    Parameters
    ----------
    rows : int64 array, shape (n,)
        The row of each entry.
    keys : int64 array, shape (n,)
    values : array, shape (n,)
    ends : int64 array, shape (B,)
        Where each row begins; in the end, where it ends.
    keys_out, values_out : arrays, shape (n,)
        The result.

    Returns
    -------
    int
        OK, or the first entry whose row is not one of the B, or is longer than was counted: the
        rows have changed meanwhile.
    """
    n = rows.size
    for i in range(n):
        row = rows[i]
        if row < 0 or row >= ends.size:
            return i
        place = ends[row]
        if place < 0 or place >= n:
            return i
        ends[row] = place + 1
        keys_out[place] = keys[i]
        values_out[place] = values[i]
    return OK
