"""What a call of an operator does with its input: one small map, a batch, or maps to read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nbmapops._engine.dispatch import CARRIED, implementation, place_rows
from nbmapops._engine.rows import (
    BLOCK_ENTRIES,
    Parts,
    Source,
    all_bits_zero,
    allocate,
    check_out,
    check_status,
    compiled,
    csr_of_reader,
    csr_parts,
    dense_rows,
    index_dtype_for,
    ordered,
    place_csr,
    prepare,
    source_of,
)
from nbmapops._options import SMALL_VOCABULARY
from nbmapops._reading.arrays import int_array, readonly
from nbmapops._reading.batch import MapBatch, entries_of, key_kind, map_of_entry, value_kind
from nbmapops._reading.inputs import Input, read_input, whole
from nbmapops._reading.mappings import LOADED, MapReader, kernels_loaded
from nbmapops._reading.scalars import DTYPES, items_of, kinds_of_map
from nbmapops._semantics import one_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._options import Plan
    from nbmapops._reading.scalars import Array
    from nbmapops._vocabulary import Vocabulary

# Up to here one map runs in plain Python: 1 ms at most, where the first use of a kernel takes 400.
SMALL_MAP = 1 << 10
# The same once the kernels are loaded: a call of one takes 30 us or more, as so many entries do.
QUICK_MAP = 1 << 6


def choose(plans: dict[str, Plan], operator: str, call: tuple[Any, Any, Any]) -> tuple[Plan, Input]:
    """Read what an operator was called with, and choose the plan for its kind of key."""
    expected = next(iter(plans)) if len(plans) == 1 else None
    given = read_input(operator, *call, expected)
    if expected is None:
        given = whole(given, operator, None)
        assert isinstance(given.source, MapBatch)
        expected = key_kind(given.source)
    return plans[expected], given


def checked(plan: Plan, given: Input) -> tuple[MapBatch, Source]:
    """Return the whole batch; where a map cannot be read, raise the first error of all maps."""
    given = whole(given, plan.operator, plan.key_kind)
    batch = given.source
    assert isinstance(batch, MapBatch)
    source = source_of(plan, batch)
    if given.bad is not None:
        if plan.form == "DENSE":
            ordered(plan, batch, source)
        else:
            place_csr(plan, prepare(plan, batch, source), source, None, 1)
        raise given.bad.error
    return batch, source


def call_dense(plan: Plan, given: Input, out: Any, threads: int) -> Array:
    """Return the dense result for VOCABULARY and SPARSE: (B, width), or (width,) for one map."""
    found = small_map(plan, given)
    if found is not None:
        return place_row(plan, *found, out, given)
    batch, source = checked(plan, given)
    rows = dense_rows(plan, batch, source, out, threads, one=given.one)
    if out is not None:
        return cast("Array", out)
    return cast("Array", rows[0]) if given.one else rows


def call_csr(plan: Plan, given: Input, index_dtype: Any, threads: int) -> Any:
    """Return the sparse result for VOCABULARY and SPARSE."""
    # Only the whole batch tells whether its type of value is among those of the ONNX-ML text.
    if isinstance(given.source, MapReader) and threads == 1 and not plan.policy.spec_types:
        parts = csr_of_reader(plan, given.source, index_dtype)
    else:
        batch, source = checked(plan, given)
        parts = csr_parts(plan, batch, source, index_dtype, threads)
    rows = len(parts.indptr) - 1
    matrix = csr_array_of(parts, (rows, plan.width))
    if plan.vocabulary is None or plan.vocabulary.copies is None:
        return matrix
    later, first = plan.vocabulary.copies
    column_of = np.arange(plan.width)
    column_of[later] = first
    matrix = matrix[:, column_of]
    matrix.sort_indices()
    return matrix


def known_columns(plan: Plan, batch: MapBatch) -> Array:
    """Return the column of each entry of a batch, -1 for an unknown key."""
    if len(batch._values) and key_kind(batch) != plan.key_kind:
        source_of(plan, batch).fail(map_of_entry(batch, 0))
    keys, index = place_rows(plan, batch)
    columns = np.empty(len(keys), np.int64)
    check_status(compiled().lookup(*index, keys, columns))
    return columns


# ------------------------------------------------------------------------------- one map
def small_map(plan: Plan, given: Input) -> tuple[list[int], list[Any], str] | None:
    """Run one small map in plain Python; None where the kernels are the better way."""
    source = given.source
    if not given.one or given.bad is not None:
        return None
    words = plan.vocabulary is not None and plan.key_kind == "int64" and plan.width
    size = len(source.values) if isinstance(source, MapBatch) else len(source)  # type: ignore[arg-type]
    most = QUICK_MAP if kernels_loaded() else SMALL_MAP
    if size > most or words > SMALL_VOCABULARY:
        return None
    where = f"{plan.operator}: map 0"
    batch_kind = value_kind(source) if isinstance(source, MapBatch) else None
    keys, values = (
        entries_of(source, 0) if isinstance(source, MapBatch) else items_of(where, source)
    )
    _, kind = kinds_of_map(where, keys, values, plan.key_kind, batch_kind)
    implementation(plan, kind or "float64")
    return one_map(plan, 0, keys, values, batch_kind)


# Above it the array kernels are faster, once they are loaded.
QUICK_ROW = 1 << 9
_QUICK = {float: np.float64, int: np.int64, np.float32: np.float32}


class QuickRow:
    """Runs small dicts of plain scalars that need no conversion and have nothing to report.

    For 20 entries 1.7 us once the compiled walk is loaded and 3 us in plain Python, where
    `small_map` takes 14 (asv: dictvectorizer.OneDict).
    """

    __slots__ = ("_fill", "_plan", "_vocabulary")

    def __init__(self, plan: Plan, vocabulary: Vocabulary) -> None:
        self._plan = plan
        self._vocabulary = vocabulary
        self._fill: Callable[[dict[Any, Any], Array], bool] | None = None

    def row(self, mapping: dict[Any, Any], out: Any) -> Array | None:
        """Return the row that `small_map` leads to, or None where only that can tell."""
        plan, column_of = self._plan, self._vocabulary.columns
        fill = self._fill
        if LOADED and fill is None:
            skip = plan.policy.skip_unknown
            fill = self._fill = LOADED[0].row_filler(column_of, plan.key_kind, skip)
        try:
            dtype = _QUICK.get(type(next(iter(mapping.values()), None)))
            if dtype is None:
                return None
            if out is None:
                row = np.zeros(plan.width, dtype)
            else:
                row = check_out(plan, out, (plan.width,), np.dtype(dtype).name, None)
                row.fill(0)
            result: Array = row if out is None else out
            if fill is not None:
                return result if fill(mapping, row) else None
            types = set(map(type, mapping.values()))
            if len(types) > 1 or set(map(type, mapping)) != plan.key_types:
                return None
            cells: Any = memoryview(row)  # type: ignore[arg-type]  # 35 ns a cell, not 70
            for key, value in mapping.items():
                cells[column_of[key]] = value
        except (KeyError, ValueError, RuntimeError):  # unknown, out of range, dict changed
            return None
        return result


def place_row(
    plan: Plan, columns: list[int], values: list[Any], kind: str, out: Any, given: Input
) -> Array:
    """Return the row of one map."""
    fill = plan.fill_for(kind)
    shape = (len(values) if plan.form == "DENSE" else plan.width,)
    if out is not None:
        batch = given.source if isinstance(given.source, MapBatch) else None
        row = check_out(plan, out, shape, kind, batch)
        row[:] = fill
    elif kind == "string" or not all_bits_zero(fill, kind):
        row = allocate(plan, shape, kind, zeros=False)
        row[:] = fill
    else:
        row = allocate(plan, shape, kind, zeros=True)
    cells: Any = row if kind == "string" else memoryview(row)  # type: ignore[arg-type]
    for column, value in zip(columns, values, strict=True):
        cells[column] = value
    if plan.vocabulary is not None and plan.vocabulary.copies is not None:
        later, first = plan.vocabulary.copies
        row[later] = row[first]
    return row if out is None else cast("Array", out)


# ------------------------------------------------------------------------------- arrays as they are
# Arrays that are canonical already, of which nothing must be converted, go straight to a kernel: a
# call takes a third of the time. A kernel trusts no offsets; whatever it refuses, the stages tell.
_CARRIED = {DTYPES[kind]: dtype for kind, dtype in CARRIED.items()}


def _canonical(plan: Plan, keys: Any, values: Any) -> bool:
    """Tell whether keys and values can go to a kernel as they are."""
    return (
        type(keys) is np.ndarray
        and type(values) is np.ndarray
        and keys.dtype == np.int64
        and values.dtype in _CARRIED
        and (plan.target is None or values.dtype == DTYPES[plan.target])
        and keys.ndim == values.ndim == 1
        and len(keys) == len(values) <= BLOCK_ENTRIES
        and keys.flags.forc
        and values.flags.forc
        and keys.flags.aligned
        and values.flags.aligned
        and plan.key_kind == "int64"
        and not plan.policy.first_wins  # nor, then, the conversions of onnxruntime
    )


def quick_order(plan: Plan, keys: Any, values: Any) -> Array | None:
    """Return the values of one map by ascending key, or None where the stages must look at it."""
    if not (kernels_loaded() and _canonical(plan, keys, values)):
        return None
    kernels, carried = compiled(), _CARRIED[values.dtype]
    result = np.empty(len(values), values.dtype)
    status, _ = kernels.order_dense(
        readonly(keys), readonly(values).view(carried), readonly(int_array([0, len(keys)])),
        0, 1, False, 0, np.empty(2, np.int64), result.view(carried),
    )  # fmt: skip
    return result if status == kernels.OK else None


def quick_csr(plan: Plan, keys: Any, values: Any, offsets: Any, index_dtype: Any) -> Any:
    """Return the CSR matrix of a batch, or None where the stages must look at it."""
    if (
        plan.vocabulary is None
        or type(offsets) is not np.ndarray
        or offsets.dtype != np.int64
        or offsets.ndim != 1
        or not 1 < len(offsets) <= BLOCK_ENTRIES
        or not (offsets.flags.forc and offsets.flags.aligned)
        or not (kernels_loaded() and _canonical(plan, keys, values))
        or offsets[0] != 0
        or offsets[-1] != len(keys)
    ):
        return None
    kernels = compiled()
    carried, entries, rows = _CARRIED[values.dtype], len(keys), len(offsets) - 1
    dtype = index_dtype_for(entries, plan.width, index_dtype, plan.operator)
    data, indices = np.empty(entries, values.dtype), np.empty(entries, dtype)
    indptr = np.zeros(rows + 1, dtype)
    status, end = kernels.vectorize_csr(
        *plan.vocabulary.index, readonly(keys), readonly(values).view(carried), readonly(offsets),
        0, rows, plan.policy.skip_unknown, False, 0, indptr, indices, data.view(carried),
    )  # fmt: skip
    if status != kernels.OK:
        return None
    if end < entries:
        data.resize(end, refcheck=False)
        indices.resize(end, refcheck=False)
    return csr_array_of(Parts(data, indices, indptr), (rows, plan.width))


# SciPy's constructor takes 30 us, a copy of an empty matrix 1. That one holds an indptr, so that
# only small ones are kept.
_TEMPLATE_ROWS = 1 << 12


def csr_array_of(parts: Parts, shape: tuple[int, int]) -> Any:
    """Return the parts as a canonical scipy.sparse.csr_array, without a copy."""
    template = _template if shape[0] <= _TEMPLATE_ROWS else _template.__wrapped__
    like = template(shape)
    matrix: Any = object.__new__(type(like))
    vars(matrix).update(vars(like))  # what copy.copy does, 1.3 us faster
    # The constructor that takes the arrays would narrow int64 indices that somebody asked for.
    matrix.data, matrix.indices, matrix.indptr = parts
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


@lru_cache(maxsize=32)
def _template(shape: tuple[int, int]) -> Any:
    """Return an empty matrix of this shape."""
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise ImportError("csr needs SciPy: pip install 'nbmapops[sparse]'") from error
    return csr_array(shape)
