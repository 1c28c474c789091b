"""The public kernels refuse arrays of other dtypes, from Python and from compiled code alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbmapops.kernels
from nbmapops import DictVectorizer

from ..conftest import WITHOUT_JIT

kernels: Any = nbmapops.kernels  # with arrays that the signatures refuse
INT, WIDE = np.int64, np.float64
INDEX: Any = DictVectorizer(int64_vocabulary=[10, 2**40, 20], handle_unknown="ignore").index
NAMES = ("header", "pilots", "slots", "table")


def arrays(**dtypes: Any) -> dict[str, Any]:
    """The arrays of a call, of which some have other dtypes."""
    lengths = {"keys": 2, "values": 2, "offsets": 2, "columns": 2, "indptr": 2, "indices": 2}
    lengths |= {"data": 2, "out": 2, "out_offsets": 2}
    kinds: dict[str, Any] = dict.fromkeys(lengths, INT)
    kinds |= {"values": WIDE, "data": WIDE, "out": WIDE} | dtypes
    found: dict[str, Any] = {
        name: np.zeros(n, kinds[name]) if kinds[name] else None for name, n in lengths.items()
    }
    for name, array in zip(NAMES, INDEX, strict=True):
        found[name] = array.astype(dtypes.get(name, array.dtype))
    return found


def lookup(a: dict[str, Any]) -> Any:
    return kernels.lookup(*(a[name] for name in NAMES), a["keys"], a["columns"])


def dense(a: dict[str, Any]) -> Any:
    out = np.zeros((1, 3), a["out"].dtype)
    return kernels.vectorize_dense(
        *(a[name] for name in NAMES), a["keys"], a["values"], a["offsets"], 0, 1,
        0, False, True, True, out,
    )  # fmt: skip


def csr(a: dict[str, Any]) -> Any:
    return kernels.vectorize_csr(
        *(a[name] for name in NAMES), a["keys"], a["values"], a["offsets"], 0, 1, True, True, 0,
        a["indptr"], a["indices"], a["data"],
    )  # fmt: skip


def order(a: dict[str, Any]) -> Any:
    return kernels.order_dense(
        a["keys"], a["values"], a["offsets"], 0, 1, True, 0, a["out_offsets"], a["out"]
    )


def refused(call: Any, match: str) -> None:
    if WITHOUT_JIT:
        with pytest.raises(TypeError, match=match):
            call()
    else:
        from numba.core.errors import TypingError

        with pytest.raises(TypingError, match=match):
            call()


CASES: list[tuple[Any, str, Any, str]] = [
    (lookup, "keys", np.float64, "lookup: keys must be an array of int64 or int32, not float64"),
    (lookup, "keys", np.uint64, "lookup: keys must be an array of int64 or int32, not uint64"),
    (lookup, "columns", np.int8, "lookup: columns must be an array of int64, not int8"),
    (lookup, "header", np.int32, "lookup: header must be an array of int64, not int32"),
    (lookup, "pilots", np.int64, "lookup: pilots must be an array of uint16, not int64"),
    (lookup, "slots", np.uint64, "lookup: slots must be an array of int64, not uint64"),
    (lookup, "table", np.int64, "lookup: table must be an array of int32, not int64"),
    (dense, "values", np.int16, "vectorize_dense: values must be an array of numbers of 4 or 8"),
    (dense, "out", np.float32, "vectorize_dense: out must be an array of float64, not float32"),
    (dense, "offsets", np.int32, "vectorize_dense: offsets must be an array of int64, not int32"),
    (csr, "data", np.int64, "vectorize_csr: data must be an array of float64, not int64"),
    (csr, "indptr", np.float64, "vectorize_csr: indptr must be an array of int32 or int64, not"),
    (csr, "indices", np.int32, "vectorize_csr: indices must be an array of int64, not int32"),
    (order, "keys", np.int32, "order_dense: keys must be an array of int64, not int32"),
    (order, "out_offsets", np.int32, "order_dense: out_offsets must be an array of int64, not"),
    (order, "out", np.complex128, "order_dense: out must be an array of float64, not complex128"),
]


@pytest.mark.parametrize(
    ("call", "name", "dtype", "match"),
    CASES,
    ids=[f"{call.__name__} {name} {np.dtype(dtype)}" for call, name, dtype, _ in CASES],
)
def test_other_dtypes_are_refused(call: Any, name: str, dtype: Any, match: str) -> None:
    refused(lambda: call(arrays(**{name: dtype})), match)


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
def test_a_users_own_compiled_function_is_refused_alike() -> None:
    from numba import njit

    @njit
    def columns_of(header: Any, pilots: Any, slots: Any, table: Any, keys: Any) -> Any:
        columns = np.empty(keys.size, np.int64)
        kernels.lookup(header, pilots, slots, table, keys, columns)
        return columns

    @njit
    def total(header: Any, pilots: Any, slots: Any, table: Any, keys: Any) -> Any:
        """What a loop of one's own does with one key after the other."""
        total: Any = 0
        for key in keys:
            total += kernels.find(header, pilots, slots, table, key)
        return total

    keys = np.array([20, 10, 7, 2**40])
    assert columns_of(*INDEX, keys).tolist() == [2, 0, -1, 1]
    assert total(*INDEX, keys) == 2
    refused(lambda: columns_of(*INDEX, keys.astype(float)), "lookup: keys must be an array of")
    refused(lambda: total(*INDEX, keys.astype(float)), "find: key must be an int64 or int32, not")


@pytest.mark.parametrize("words", [[5, 6, 7], [5, 9, 7], [5, 2**60, -(2**63)], []])
def test_find_finds_what_lookup_finds(words: list[int]) -> None:
    index = DictVectorizer(int64_vocabulary=words).index
    keys = np.array([*words, 4, 6, 8, 10, 0, -1, 2**63 - 1, -(2**63)])
    columns = np.empty(keys.size, np.int64)
    assert kernels.lookup(*index, keys, columns) == kernels.OK
    assert [int(kernels.find(*index, key)) for key in keys] == columns.tolist()


def test_find_says_that_an_index_does_not_fit() -> None:
    header = INDEX.header.copy()
    header[0] += 1
    assert kernels.find(header, *INDEX[1:], 10) == kernels.OTHER_FORMAT
    assert kernels.find(*INDEX[:2], INDEX.slots[:2], INDEX.table, 10) == kernels.MISMATCH
