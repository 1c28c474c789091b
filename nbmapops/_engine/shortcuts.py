"""Engine, shortcuts: every fast way that repeats the meaning of the general one, in one list.

Each returns None where the general way must look at the input, and gives what that gives otherwise:
the same result, bit for bit. `SHORTCUTS` lists them; ``limits.shortcuts = False`` turns them off,
and tests compare both.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._engine import choose
from nbmapops._engine.blocks import kernel_csr
from nbmapops._engine.dispatch import CARRIED_DTYPES
from nbmapops._engine.fewdicts import REFUSED, FewDicts
from nbmapops._foreign import let_out
from nbmapops._limits import limits
from nbmapops._load import imported, load_kernels
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.entries import KINDS, Entries, Int64Keys, int_array, readonly
from nbmapops._values import cast_array

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._options import Plan

# ------------------------------------------------------------------------------- few casts
_VALUE_DTYPES: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, str: np.object_}


def few_entries(maps: Any) -> Entries | None:
    """Return the entries of few dicts from ints to values of one Python type, read at once.

    They are read by the rules of all mappings otherwise, which costs CastMap twice the time.
    """
    if not limits.shortcuts or not 0 < len(maps) <= limits.few_entries:
        return None
    try:
        if set(map(type, maps)) != {dict} or sum(map(len, maps)) > limits.few_entries:
            return None
        copies = [each.copy() for each in maps]  # another thread may change them
        keys = list(chain.from_iterable(copies))
        if not keys:
            return None
        values = list(chain.from_iterable(map(dict.values, copies)))
        types = set(map(type, values))
        dtype = _VALUE_DTYPES.get(types.pop())
        if types or dtype is None or set(map(type, keys)) != {int}:
            return None
        columns = np.array(keys, np.int64), np.array(values, dtype)
    except REFUSED as error:
        let_out(error)
        return None
    ends = [0, len(keys)] if len(copies) == 1 else [0, *accumulate(map(len, copies))]
    return Entries(Int64Keys(columns[0]), readonly(columns[1]), readonly(int_array(ends)))


def few_casts(plan: Plan, given: object) -> Array | None:
    """Return what CastMap gives for few entries: of one dict, a list of dicts, or a MapBatch.

    One dict of 8 entries takes 7 us, the general way 14 (asv: castmap.OneDict).
    """
    one = type(given) is dict
    if one or type(given) is list or type(given) is tuple:
        entries = few_entries([given] if one else given)
    else:
        entries = given._entries if isinstance(given, MapBatch) and limits.shortcuts else None
    if entries is None or not 0 < len(entries.values) <= limits.few_entries:
        return None
    source, target = entries.value_kind, plan.result_kind(entries.value_kind)
    if entries.keys.kind != "int64":
        return None
    plan.cell(source)
    values, refused = cast_array(entries.values, source, target, plan.policy.rules)
    if len(refused):
        return None
    rows = _ordered(entries, values) if plan.form == "DENSE" else _spread(plan, entries, values)
    return rows[0] if one and rows is not None else rows


def _ordered(entries: Entries, values: Array) -> Array | None:
    """Return the values of each map by ascending key; None where a key is repeated."""
    keys, maps = entries.keys.to_array(), len(entries.offsets) - 1
    if maps == 1:
        repeats = len(set(keys.tolist())) < len(keys)
        return None if repeats else values[keys.argsort()][np.newaxis]
    length = len(keys) // maps
    if (entries.offsets != np.arange(maps + 1) * length).any():
        return None
    order = keys.reshape(maps, length).argsort()
    order += np.arange(0, len(keys), length)[:, np.newaxis]
    ascending = keys[order]
    return None if (ascending[:, 1:] == ascending[:, :-1]).any() else values[order]


def _spread(plan: Plan, entries: Entries, values: Array) -> Array | None:
    """Return rows with each value at its key; None where a key is out of range or repeated."""
    places, maps = entries.keys.to_array(), len(entries.offsets) - 1
    small = maps * plan.width * values.itemsize <= limits.block_bytes
    if not small or places.min() < 0 or places.max() >= plan.width:
        return None
    if maps > 1:
        places = places + plan.width * entries.map_numbers()
    if len(set(places.tolist())) < len(places):
        return None
    rows = np.full(maps * plan.width, plan.fill_for(KINDS[values.dtype.char]), values.dtype)
    rows[places] = values
    return rows.reshape(maps, plan.width)


# ------------------------------------------------------------------------------- arrays as they are
# Arrays that are canonical already, of which nothing must be converted, go straight to a kernel: a
# call takes a third of the time (asv: dictvectorizer.SmallArrays). Kernels check offsets; on a
# refusal the general way raises the error.


def _is_canonical(plan: Plan, keys: object, values: object) -> bool:
    """Tell whether keys and values can go to a kernel as they are."""
    return (
        limits.shortcuts
        and type(keys) is np.ndarray
        and type(values) is np.ndarray
        and keys.dtype == np.int64
        and values.dtype in CARRIED_DTYPES
        and (plan.target is None or KINDS[values.dtype.char] == plan.target)
        and keys.ndim == values.ndim == 1
        and len(keys) == len(values) <= limits.block_entries
        and keys.flags.forc
        and values.flags.forc
        and keys.flags.aligned
        and values.flags.aligned
        and plan.key_kind == "int64"
        and not plan.policy.first_wins  # nor, then, the conversions of onnxruntime
        and not plan.expands
    )


@lru_cache(16)
def _ends_of_one(entries: int) -> Array:
    """Return the offsets of one map; making them anew takes 0.7 us (compare.py: S12)."""
    return readonly(int_array([0, entries]))


def arrays_ordered(plan: Plan, keys: object, values: object) -> Array | None:
    """Return the values of one map, given as two arrays, by ascending key (CastMap, DENSE)."""
    if not (choose.is_loaded("order") and _is_canonical(plan, keys, values)):
        return None
    assert isinstance(keys, np.ndarray)
    assert isinstance(values, np.ndarray)
    if choose.plain_cost(len(keys)) < choose.CALL:
        return None
    kernels, carried = load_kernels(), CARRIED_DTYPES[values.dtype]
    result = np.empty(len(values), values.dtype)
    status, _ = kernels.order_dense(
        readonly(keys), readonly(values).view(carried), _ends_of_one(len(keys)),
        0, 1, False, 0, np.empty(2, np.int64), result.view(carried),
    )  # fmt: skip
    return result if status == kernels.OK else None


def is_small(keys: object) -> bool:
    """Tell whether a batch of arrays is too small for threads (asv: dictvectorizer.Threads)."""
    return isinstance(keys, np.ndarray) and keys.size < 2 * limits.thread_entries


def _is_canonical_batch(plan: Plan, keys: object, values: object, offsets: object) -> bool:
    """Tell whether a batch that is given as three arrays can go to a kernel as it is."""
    return (
        plan.form == "VOCABULARY"
        and type(offsets) is np.ndarray
        and offsets.dtype == np.int64
        and offsets.ndim == 1
        and 1 < len(offsets) <= limits.block_entries
        and offsets.flags.forc
        and offsets.flags.aligned
        and _is_canonical(plan, keys, values)
        and offsets[0] == 0
        and offsets[-1] == len(keys)  # type: ignore[arg-type]
    )


def arrays_dense(plan: Plan, keys: Any, values: Any, offsets: Any) -> Array | None:
    """Return the dense rows of a batch that is given as three arrays."""
    if (
        plan.fill is not None
        or not choose.is_loaded("dense")
        or not _is_canonical_batch(plan, keys, values, offsets)
        or (len(offsets) - 1) * plan.width * values.itemsize > limits.block_bytes
    ):
        return None
    assert plan.vocabulary is not None
    kernels, carried, rows = load_kernels(), CARRIED_DTYPES[values.dtype], len(offsets) - 1
    result = np.zeros((rows, plan.width), values.dtype)
    status = kernels.vectorize_dense(
        *plan.vocabulary.index, readonly(keys), readonly(values).view(carried), readonly(offsets),
        0, rows, 0, True, plan.policy.skip_unknown, False, result.view(carried),
    )  # fmt: skip
    return result if status == kernels.OK else None


def arrays_csr(
    plan: Plan, keys: Any, values: Any, offsets: Any, index_dtype: type | None
) -> csr_array | None:
    """Return the CSR matrix of a batch that is given as three arrays."""
    if not choose.is_loaded("csr") or not _is_canonical_batch(plan, keys, values, offsets):
        return None
    assert plan.vocabulary is not None
    given = readonly(keys), readonly(values), readonly(offsets)
    return kernel_csr(plan, plan.vocabulary.index, *given, index_dtype)


def arrow_csr(plan: Plan, column: object, index_dtype: type | None) -> csr_array | None:
    """Return the CSR matrix of an Arrow column of maps without nulls.

    A column of three entries takes 30 us, in the general way 59 (asv: arrow.Csr).
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(column, (pyarrow.MapArray, pyarrow.ChunkedArray)):
        return None
    if not (limits.shortcuts and choose.is_loaded("csr")) or plan.vocabulary is None:
        return None
    found = _arrow().read_as_it_is(column)
    if found is None or found.keys.kind != plan.key_kind:
        return None
    if not 0 < len(found.values) <= limits.block_entries:
        return None
    keys, index = found.keys.place(plan.vocabulary)
    keys.setflags(write=False)
    return kernel_csr(plan, index, keys, found.values, found.offsets, index_dtype)


@cache
def _arrow() -> ModuleType:
    return imported("nbmapops._reading.arrowdata")


SHORTCUTS: dict[str, Callable[..., object]] = {
    "one dict": FewDicts.row,
    "few dicts, dense": FewDicts.rows,
    "few dicts, csr": FewDicts.csr,
    "few casts": few_casts,
    "one map of arrays, ordered": arrays_ordered,
    "arrays, dense": arrays_dense,
    "arrays, csr": arrays_csr,
    "an Arrow column, csr": arrow_csr,
}
