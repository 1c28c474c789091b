"""Names and numbers that modules with and without Numba share; importing it costs nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Integer: TypeAlias = int | np.int64

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# The header of an index: to be raised with any change of the hash, of its slots or of the header,
# because pickles hold indexes.
FORMAT = 1
# The files with compiled code, and what such code reads: a change in one compiles all anew.
STAMPED = ("_constants.py", "_jit.py", "kernels/*.py", "_reading/objects.py", "_reading/*walk.py")
# Kinds of index.
RANGE, TABLE, HASH = 0, 1, 2
