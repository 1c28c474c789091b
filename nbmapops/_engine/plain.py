"""Engine, plain: `one_map` over the maps of a batch: the definition at work, without a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._engine import choose
from nbmapops._engine.blocks import BadRow, Parts, filled, index_dtype_for
from nbmapops._foreign import let_out
from nbmapops._reading.arrays import value_array
from nbmapops._reading.entries import int_array
from nbmapops._reading.scalars import exact_map, items_of, kinds_of_map
from nbmapops._semantics import exact_one_map
from nbmapops._values import cast_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmapops._constants import Array
    from nbmapops._engine.choose import Part
    from nbmapops._options import Plan
    from nbmapops._reading.entries import Entries
    from nbmapops._reading.mappings import MapReader
    from nbmapops._types import Value


def _result_kind(plan: Plan, entries: Entries) -> str:
    """Return the kind of the result; raise where the type of the maps is not taken."""
    if len(entries.values) and entries.keys.kind != plan.key_kind:
        raise BadRow(entries.map_of(0))
    plan.cell(entries.value_kind)
    return plan.result_kind(entries.value_kind)


def _maps(plan: Plan, entries: Entries) -> Iterator[tuple[list[int], list[Value]]]:
    """Yield columns and values of each map; raise the error of the first bad one."""
    keys, ends = entries.keys.to_array().tolist(), entries.offsets.tolist()
    values, given, refused = _all_converted(plan, entries)
    kind = plan.result_kind(entries.value_kind)
    for number in range(len(ends) - 1):
        part = slice(ends[number], ends[number + 1])
        own, own_kind, converted = values[part], kind, True
        if number in refused or given is values:
            own, own_kind, converted = given[part], entries.value_kind, False
        try:
            columns, results, _ = exact_one_map(
                plan, number, keys[part], own, own_kind, converted=converted
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            let_out(error)
            raise BadRow(number) from None
        yield columns, results


def _all_converted(plan: Plan, entries: Entries) -> tuple[list[Value], list[Value], set[int]]:
    """Return values in the kind of the result, as given, and the maps that may hold bad ones.

    A batch is converted at once: 0.2 us a text, where one by one takes 5 (asv: castmap.ReadTexts).
    """
    kind, values = entries.value_kind, entries.values
    given = list(values) if kind == "float32" else values.tolist()
    if plan.result_kind(kind) == kind and plan.policy.rules != "onnxruntime":
        return given, given, set()
    results, refused = cast_array(values, kind, plan.result_kind(kind), plan.policy.rules)
    return results.tolist(), given, {entries.map_of(entry) for entry in refused.tolist()}


def dense(plan: Plan, entries: Entries, out: Array | None = None, *, one: bool = False) -> Array:
    """Return the rows of a batch, shape (B, width): VOCABULARY and SPARSE."""
    kind = _result_kind(plan, entries)
    shape = (len(entries.offsets) - 1, plan.width)
    own_shape = shape[1:] if one else shape
    rows, is_filled = filled(plan, own_shape, kind, out, entries)
    maps = list(_maps(plan, entries))
    if not is_filled:
        rows[...] = plan.fill_for(kind)
    rows = rows.reshape(shape)
    for row, (columns, values) in zip(rows, maps, strict=True):
        place(row, columns, values, kind)
    return rows


def place(row: Array, columns: list[int], values: list[Value], kind: str) -> None:
    """Write one map into its row."""
    # Cells of a memoryview are set faster, but it would quiet a signalling NaN of float32.
    cells: Any = memoryview(row) if kind in ("float64", "int64") else row  # type: ignore[arg-type]
    for column, value in zip(columns, values, strict=True):
        cells[column] = value


def ordered(plan: Plan, entries: Entries, out: Array | None = None) -> tuple[Array, Array]:
    """Return the values of each map by ascending key, and their offsets: DENSE."""
    kind = _result_kind(plan, entries)
    values: list[Value] = []
    offsets = [0]
    for _, results in _maps(plan, entries):
        values += results
        offsets.append(len(values))
    result = value_array(values, kind)
    if out is not None and kind != "string":
        flat = out.reshape(-1)
        flat[: len(result)] = result
        result = flat[: len(result)]
    return result, int_array(offsets)


def csr(plan: Plan, entries: Entries, index_dtype: type | None = None) -> Parts:
    """Return the rows of a batch as CSR: VOCABULARY and SPARSE."""
    kind = _result_kind(plan, entries)
    data: list[Value] = []
    indices: list[int] = []
    indptr = [0]
    for columns, values in _maps(plan, entries):
        order = sorted(range(len(columns)), key=columns.__getitem__)
        indices += [columns[position] for position in order]
        data += [values[position] for position in order]
        indptr.append(len(indices))
    dtype = index_dtype_for(len(entries.values), plan.width, index_dtype, plan.operator)
    return Parts(value_array(data, kind), np.array(indices, dtype), np.array(indptr, dtype))


def known_columns(plan: Plan, entries: Entries) -> Array:
    """Return the column of each entry, -1 for an unknown key."""
    if len(entries.values) and entries.keys.kind != plan.key_kind:
        raise BadRow(entries.map_of(0))
    assert plan.vocabulary is not None
    column_of = plan.vocabulary.columns
    return int_array([column_of.get(key, -1) for key in entries.keys.to_array().tolist()])


def first_seen(keys: Array) -> Array:
    """Return the distinct numbers in the order in which they are first seen."""
    return int_array(list(dict.fromkeys(keys.tolist())))


def one(plan: Plan, reader: MapReader, out: Array | None) -> Array | None:
    """Return the row of one small mapping, read and run at once; None: the other engine's."""
    assert reader.listed is not None
    mapping = reader.listed[0]
    kind: Part = "text dicts" if plan.key_kind == "string" else "int64 dicts"
    if choose.compiled(len(mapping), 1, kind, "order" if plan.form == "DENSE" else "dense"):
        return None
    where = reader.where(0)
    items = items_of(where, mapping)
    _, value_kind = kinds_of_map(where, *items, plan.key_kind, None)
    # A map that cannot be read is told before a type or a fill_value that does not fit.
    keys, values = exact_map(where, *items, value_kind, skip_large=plan.skip_large)
    given = value_kind or "float64"
    plan.cell(given)
    if plan.form == "DENSE":
        columns, results, result_kind = exact_one_map(plan, 0, keys, values, given)
        row, _ = filled(plan, (len(results),), result_kind, out, None)
    else:
        result_kind = plan.result_kind(given)
        row, is_filled = filled(plan, (plan.width,), result_kind, out, None)
        columns, results, _ = exact_one_map(plan, 0, keys, values, given)
        if not is_filled:
            row[...] = plan.fill_for(result_kind)
    place(row, columns, results, result_kind)
    return row if out is None else out
