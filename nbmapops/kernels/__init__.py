"""The public kernels: arrays in, arrays out, a status returned (compiled; provisional).

These are the functions under the operators. They take plain arrays, never raise and hold no
Python object, so a user's own ``@njit`` function may call them. Names and arguments may still
change.

=================  =============================================================================
`lookup`           the column of each key
`find`             the column of one key, for a loop of one's own
`vectorize_dense`  maps become rows of a dense matrix
`vectorize_csr`    maps become rows of a CSR matrix in SciPy's canonical format: sorted indices,
                   no duplicates
`order_dense`      the values of maps by ascending key: CastMap
`sum_rows`         maps in which each key stands once, its values added up
=================  =============================================================================

What they take; arrays of other dtypes are refused when a call is compiled, with a TypingError that
names the argument (a TypeError under NUMBA_DISABLE_JIT). Arrays may be read-only where they are
not written, and need not be contiguous.

===========================  ===================================================================
argument                     dtype
===========================  ===================================================================
header                       int64, shape (8,)
pilots, slots, table         uint16, int64, int32
keys                         int64 or int32; of `order_dense` and `sum_rows` int64
key                          int64 or int32
offsets                      int64, one more than maps: map ``i`` is the entries
                             ``offsets[i] .. offsets[i + 1] - 1``
values                       numbers of 4 or 8 bytes: values are only moved; of `sum_rows` int64,
                             float32 or float64
columns (written)            int64
indptr, indices (written)    int32 or int64, both alike
data, out, sums (written)    the dtype of `values`
out_offsets, kept, ends      int64
(written)
fill                         a scalar of the dtype of `out`
start, stop, base            integers
prefilled, skip_unknown,     bool
first_wins
===========================  ===================================================================

A vocabulary reaches them as four arrays, ``(header, pilots, slots, table)``, which
`DictVectorizer.index` holds:

* ``header`` int64[8]: format number, kind, number of columns, smallest word, number of slots,
  bucket bits, multiplier (the bits of an odd uint64), 0;
* kind RANGE: the words are ``low, low + 1, ...`` in column order, no arrays needed;
* kind TABLE: ``table`` int32 holds the column of ``low + i``, -1 where there is no word;
* kind HASH: a perfect hash (see `nbmapops.kernels.index`). A word's bucket has a pilot number
  (``pilots`` uint16) that sends all words of the bucket to slots of their own; ``slots`` int64
  holds word, column, word, ...

A status is -1 (`OK`) when all went well, ``n >= 0`` when map ``n`` is the first bad one, and one of
these otherwise: `OTHER_FORMAT` (-2), the index was made for other kernels; `NO_FIT` (-3), a hash
could not be built; `MISMATCH` (-4), the arrays do not fit each other.

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

import nbmapops._jit  # noqa: F401 (first: it mends an import of Numba that was broken off)
from nbmapops._constants import FORMAT, HASH, RANGE, TABLE
from nbmapops.kernels.distinct import distinct as distinct  # of use to this package only
from nbmapops.kernels.distinct import sum_rows
from nbmapops.kernels.group import group as group  # of use to this package only
from nbmapops.kernels.index import MISMATCH, NO_FIT, OK, OTHER_FORMAT, find, lookup
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
    "find",
    "lookup",
    "order_dense",
    "sum_rows",
    "vectorize_csr",
    "vectorize_dense",
]


def __dir__() -> list[str]:
    return list(__all__)
