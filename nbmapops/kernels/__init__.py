"""Compiled kernels: arrays in, arrays out, a status returned (provisional).

These are the functions under the operators. They take plain arrays, never raise and hold no
Python object, so a user's own ``@njit`` function may call them: `lookup`, `vectorize_dense`,
`vectorize_csr` and `order_dense`. Names and arguments may still change.

A vocabulary reaches them as four arrays, ``(header, pilots, slots, table)``:

* ``header`` int64[8]: format number, kind, number of columns, smallest word, number of slots,
  bucket bits, multiplier (the bits of an odd uint64), 0;
* kind RANGE: the words are ``low, low + 1, ...`` in column order, no arrays needed;
* kind TABLE: ``table`` int32 holds the column of ``low + i``, -1 where there is no word;
* kind HASH: a perfect hash. A word's bucket has a pilot number (``pilots`` uint16) that sends
  all words of the bucket to slots of their own; ``slots`` int64 holds word, column, word, ...

A status is -1 when all went well, ``n >= 0`` when map ``n`` (or word ``n``) is the first bad
one, and one of these otherwise: `OTHER_FORMAT` (-2), the index was made for other kernels;
`NO_FIT` (-3), a hash could not be built; `MISMATCH` (-4), the arrays do not fit each other.

Offsets, keys and columns are loaded once, and what was loaded is checked before it becomes an
index: the owner of an array may change it while a kernel runs, and gets nonsense, not a crash.

Examples
--------
A kernel called from a compiled function of one's own:

>>> import numpy as np
>>> from numba import njit
>>> from nbmapops import kernels
>>> @njit
... def known(header, pilots, slots, table, keys):
...     columns = np.empty(keys.size, np.int64)
...     status = kernels.lookup(header, pilots, slots, table, keys, columns)
...     return (columns >= 0).sum() if status == -1 else status
>>> header = np.array([kernels.FORMAT, kernels.RANGE, 3, 10, 0, 0, 0, 0])  # words 10, 11, 12
>>> none = np.empty(0, np.int64)
>>> int(known(header, none.astype(np.uint16), none, none.astype(np.int32), np.array([12, 9, 10])))
2
"""

from __future__ import annotations

from nbmapops._constants import FORMAT, HASH, RANGE, TABLE
from nbmapops.kernels.distinct import distinct as distinct  # of use to this package only
from nbmapops.kernels.group import group as group  # of use to this package only
from nbmapops.kernels.index import MISMATCH, NO_FIT, OK, OTHER_FORMAT, lookup
from nbmapops.kernels.index import build_hash as build_hash
from nbmapops.kernels.rows import order_dense, vectorize_csr, vectorize_dense

__all__ = [
    "FORMAT",
    "HASH",
    "MISMATCH",
    "NO_FIT",
    "OK",
    "OTHER_FORMAT",
    "RANGE",
    "TABLE",
    "lookup",
    "order_dense",
    "vectorize_csr",
    "vectorize_dense",
]
