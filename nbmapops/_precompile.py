"""Ahead of time: every kernel is compiled for every type with which the package calls it."""

from __future__ import annotations

import sys
import time
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._load import load_kernels
from nbmapops._reading.entries import readonly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmapops._constants import Array

__all__ = ["Precompiled", "precompile"]


class Precompiled(NamedTuple):
    """What `precompile` has done; ``str()`` of it is a sentence.

    Parameters
    ----------
    compiled : int
        How many kernels were compiled, counted for each of their types.
    found : int
        How many were in the cache or in the process already, without those inside of others.
    seconds : float
        How long it took.
    folders : tuple of str
        Where compiled kernels are kept; empty where no folder for them can be written.
    """

    compiled: int
    found: int
    seconds: float
    folders: tuple[str, ...]

    def __str__(self) -> str:
        if not self.compiled + self.found:
            return "nothing is compiled here: NUMBA_DISABLE_JIT is set"
        kept = f"kept in {', '.join(self.folders)}" if self.folders else "not kept: see the log"
        return (
            f"{self.compiled} kernels compiled in {self.seconds:.1f} s, {self.found} were there; "
            f"{kept}"
        )


def precompile() -> Precompiled:
    """Compile all kernels now, for images and functions whose first call must not wait.

    Afterwards no call of the package compiles anything, in this process, and in later ones that
    see the same cache: the folder that NUMBA_CACHE_DIR names, ``__pycache__`` beside the package,
    or the user's cache folder, whichever can be written.

    Returns
    -------
    Precompiled
        How many kernels were compiled, how long that took, and where they are kept.

    Raises
    ------
    ImportError
        In a subinterpreter, where Numba does not work.

    Examples
    --------
    >>> import nbmapops
    >>> done = nbmapops.precompile()
    >>> done.compiled + done.found > 10
    True
    >>> nbmapops.precompile().compiled  # all are there
    0
    """
    began = time.perf_counter()
    if not hasattr(load_kernels().lookup, "stats"):  # NUMBA_DISABLE_JIT
        return Precompiled(0, 0, 0.0, ())
    before = sum(_misses(kernel) for kernel in _kernels())
    _use_array_kernels()
    _use_walks()
    kernels = [kernel for kernel in _kernels() if kernel.overloads]
    compiled = sum(map(_misses, kernels)) - before
    found = sum(len(kernel.overloads) for kernel in kernels) - compiled
    folders = {str(kernel.stats.cache_path) for kernel in kernels if kernel.stats.cache_path}
    return Precompiled(compiled, found, time.perf_counter() - began, tuple(sorted(folders)))


def _kernels() -> Iterator[Any]:
    """Every kernel of the modules that are imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("nbmapops."):
            for item in list(vars(module).values()):
                if getattr(item, "__module__", None) == name and hasattr(item, "stats"):
                    yield item


def _misses(kernel: Any) -> int:
    return sum(kernel.stats.cache_misses.values())


def _use_array_kernels() -> None:
    """Call each kernel on arrays with a batch of every type: of 4 and of 8 bytes."""
    kernels = load_kernels()
    words, offsets = readonly(np.array([3, 1 << 40, 5])), readonly(np.array([0, 3]))
    pilots, slots = np.zeros(2, np.uint16), np.empty(12, np.int64)
    kernels.build_hash(words, 6, 1, 1, pilots, slots)
    kernels.distinct(words, 1)
    none: list[Array] = [np.empty(0, dtype) for dtype in (np.uint16, np.int64, np.int32)]
    header = np.array([kernels.FORMAT, kernels.RANGE, 200, 0, 0, 0, 0, 0])
    index = [readonly(each) for each in (header, *none)]
    kernels.lookup(*index, words, np.empty(3, np.int64))
    kernels.lookup(*index, readonly(np.zeros(3, np.int32)), np.empty(3, np.int64))
    kernels.find(*index, 0)
    kind: Any
    for kind in (np.int32, np.int64):
        moved = readonly(np.zeros(3, kind))
        starts, zeros = np.zeros(1, np.int64), readonly(np.zeros(3, np.int64))
        kernels.group(zeros, words, moved, starts, np.empty(3, np.int64), np.empty(3, kind))
    for kind in (np.int64, np.float32, np.float64):
        ends = np.empty(2, np.int64)
        kernels.sum_rows(
            words, readonly(np.zeros(3, kind)), offsets, 1, np.empty(3, np.int64),
            np.empty(3, kind), ends,
        )  # fmt: skip
    # A row that is ordered by counting, and one that is too long for that.
    for n, kind in product((3, 100), (np.int32, np.int64)):
        keys, values = readonly(np.arange(n)[::-1].copy()), readonly(np.zeros(n, kind))
        offsets, out = readonly(np.array([0, n])), np.empty(n, kind)
        dense = np.empty((1, 200), kind)
        kernels.group(keys, keys, values, np.array([0] * n), np.empty(n, np.int64), out)
        kernels.order_dense(keys, values, offsets, 0, 1, False, 0, np.zeros(2, np.int64), out)
        # The keys of Arrow text are columns, of 4 bytes.
        for columns in (keys, readonly(keys.astype(np.int32))):
            kernels.vectorize_dense(
                *index, columns, values, offsets, 0, 1, 0, False, True, True, dense
            )  # fmt: skip
            for index_kind in (np.int32, np.int64):
                indptr, indices = np.zeros(2, index_kind), np.empty(n, index_kind)
                kernels.vectorize_csr(
                    *index, columns, values, offsets, 0, 1, True, True, 0, indptr, indices, out
                )  # fmt: skip


def _use_walks() -> None:
    """Read mappings and records of every type of value by compiled code, where that may be."""
    from nbmapops._reading import dictwalk, recordwalk, textwalk

    if not dictwalk.available():
        return
    single = np.float32(1)
    kinds: dict[type[np.generic], object] = {np.float64: 1.0, np.int64: 1, np.float32: single}
    words = ["a", "b"]
    for kind, value in kinds.items():
        keys, values, offsets = np.empty(4, np.int64), np.empty(4, kind), np.zeros(3, np.int64)
        dictwalk.walk([{0: value}], 0, "int64", None, False, keys, values, offsets)
        dictwalk.take(iter([{0: value}]), keys, values, offsets)
        dictwalk.walk([{"a": value}], 0, "string", {}, True, keys, values, offsets)
        dictwalk.row_filler({0: 0}, "int64", True)({0: value}, values)
    columns = np.empty(2, np.int64)
    textwalk.find(np.array(words, object), textwalk.build(words), columns)
    if not recordwalk.available():
        return
    found, offsets = np.empty(64, np.int32), np.zeros(3, np.int64)
    for kind in (np.float64, np.int64):
        walk = recordwalk.Walk({}, "=", recordwalk.LEARN, None, False, -9, 9)
        walk.read([{"a": "x"}], 0, found, np.empty(64, kind), offsets)
    for kind in (np.float64, np.float32):
        recordwalk.arrange(found, np.empty(64, kind), offsets, 0, 1, np.empty(0, np.int32))
