"""Keys and offsets that change between any two looks of a kernel lead to no index out of range.

A race in another thread (test_arrays_that_change_while_kernels_run) meets few of these moments.
Here every kernel runs as plain Python, where NumPy checks each index and an array may count how
often it was looked at: from the n-th look on it shows other numbers, for every n.
"""

from __future__ import annotations

import pytest

from ..fresh import run

CODE = """
import sys
import numpy as np
import nbmapops.kernels as kernels
from nbmapops.kernels.order import _partition
from nbmapops._vocabulary import build_index, range_index


np.seterr(over="ignore")
LEAST, MOST = -(2**63), 2**63 - 1

class Changing(np.ndarray):
    looks, change_at, other, later = 0, 0, 0, 0

    def __getitem__(self, at):
        found = np.asarray(self)[at]
        if not np.isscalar(found) and getattr(found, "ndim", 0):
            return found.view(Changing)
        Changing.looks += 1
        if Changing.looks <= Changing.change_at:
            return found
        again = Changing.looks > Changing.change_at + 1
        return np.int64(Changing.later if again else Changing.other)

def changing(numbers):
    return np.array(numbers, np.int64).view(Changing)

def around(size, dtype=np.int64):
    whole = np.full(size + 200, -9).astype(dtype)
    return whole, whole[100 : 100 + size]

NARROW = np.random.default_rng(1).permutation(200)[:150]
NARROW[-1] = 200  # the largest comes last
FREE = max(set(range(200)) - set(NARROW.tolist()))  # between the least and the largest
ROWS = {
    "short": np.array([7, 3, 5, 1, 2]),
    "bitmap": NARROW,
    "radix": np.random.default_rng(2).permutation(150) * 2**40 - 2**44,
}
INDEXES = {"short": range_index(201), "bitmap": build_index(NARROW), "radix": range_index(201)}
INDEXES["radix"] = build_index(ROWS["radix"])

def calls(keys, offsets, index):
    n = len(keys)
    values = np.arange(n)
    whole, out = around(n)
    wide, rows = around(2 * 256)
    ends, indices, kept = np.zeros(3, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    width = 256
    return {
        "order_dense": lambda: kernels.order_dense(
            keys, values, offsets, 0, 2, True, 0, ends, out
        ),
        "vectorize_csr": lambda: kernels.vectorize_csr(
            *index, keys, values, offsets, 0, 2, True, True, 0, ends, indices, out
        ),
        "vectorize_dense": lambda: kernels.vectorize_dense(
            *index, keys, values, offsets, 0, 2, 0, False, True, True, rows.reshape(2, width)
        ),
        "sum_rows": lambda: kernels.sum_rows(keys, values, offsets, 2**61 + 1, kept, out, ends),
        "lookup": lambda: kernels.lookup(*index, keys, kept),
    }, (whole, wide)

moments = 0
for name, row in ROWS.items():
    bounds = [0, 2, len(row)]
    for which in ("keys", "offsets"):
        for kernel in ("order_dense", "vectorize_csr", "vectorize_dense", "sum_rows", "lookup"):
            others = [(number, number) for number in (LEAST, MOST, -1, len(row) + 1, 2**40)]
            others += [(FREE, MOST), (MOST, FREE)]
            Changing.looks, Changing.change_at = 0, sys.maxsize
            keys = changing(row) if which == "keys" else row
            offsets = changing(bounds) if which == "offsets" else np.array(bounds)
            made, _ = calls(keys, offsets, INDEXES[name])
            made[kernel]()
            looks = Changing.looks
            step = 1 if looks <= STEPS else looks // STEPS
            moments_of = [(at, each) for at in range(0, looks + 1, step) for each in others]
            # A rank is one too large at one moment: when the largest key of a bitmap has just gone.
            if (name, which, kernel) == ("bitmap", "keys", "order_dense"):
                moments_of += [(at, (FREE, MOST)) for at in range(looks + 1)]
            for change_at, (other, later) in moments_of:
                Changing.looks, Changing.change_at = 0, change_at
                Changing.other, Changing.later = other, later
                made, wholes = calls(keys, offsets, INDEXES[name])
                try:
                    made[kernel]()
                except Exception as error:
                    print("wrong", name, which, kernel, change_at, other, repr(error))
                    raise
                for whole in wholes:
                    assert (whole[:100] == -9).all() and (whole[-100:] == -9).all()
                moments += 1
# Rows of 2**17 entries and more are cut into parts first.
row = ROWS["radix"]
for change_at in range(0, 3 * len(row), 7):
    for other in (LEAST, MOST, -1, int(row.max())):
        Changing.looks, Changing.change_at = 0, change_at
        Changing.other = Changing.later = other
        whole, entries = around(len(row), np.uint64)
        ends = np.zeros(8, np.uint64)
        _partition(changing(row), 0, np.uint64(row.min()), np.uint64(255), entries, ends)
        assert ends[-1] == len(row)
        assert (np.delete(whole, np.s_[100:-100]) == whole[0]).all()
        moments += 1
print("right", moments)
"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [12, pytest.param(1000, marks=pytest.mark.thorough)])
def test_arrays_that_change_between_two_looks(steps: int) -> None:
    code = CODE.replace("STEPS", str(steps))
    assert run(code, timeout=900, NUMBA_DISABLE_JIT="1").startswith("right")
