"""Dispatch by dtype: one literal table says which implementation a type of map has.

An implementation makes the keys of a batch ready for its kernel, and finds the index that the
kernel takes. Kernels move values without looking at them, as 4- or 8-byte integers; of text they
place entry numbers, and NumPy gathers the objects.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._reading.arrays import readonly
from nbmapops._vocabulary import Index, range_index, table_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._options import Plan
    from nbmapops._reading.batch import MapBatch
    from nbmapops._reading.scalars import Array


class Implementation(NamedTuple):
    """One cell: what places the values of a batch, and whether the ONNX-ML text has the type."""

    place: Callable[[Plan, MapBatch], tuple[Array, Index]]
    spec: bool


def place_rows(plan: Plan, batch: MapBatch) -> tuple[Array, Index]:
    """Return the keys and the index that the vectorising kernels take."""
    keys = batch._keys
    if plan.vocabulary is None:
        return place_in_order(plan, batch)
    if isinstance(keys, np.ndarray):
        # Without an entry, keys are of the kind that is asked for.
        return keys, plan.vocabulary.index if plan.key_kind == "int64" else range_index(0)
    if plan.key_kind == "int64":
        return readonly(np.empty(0, np.int64)), range_index(0)
    if hasattr(keys, "columns"):  # plain Arrow text, or looked up while it was read
        return readonly(keys.columns(plan.vocabulary)), range_index(plan.width)
    codes, words = keys.encode()
    columns = np.fromiter(map(plan.vocabulary.columns.get, words, repeat(-1)), np.int32, len(words))
    return codes, table_index(columns)


def place_in_order(plan: Plan, batch: MapBatch) -> tuple[Array, Index]:
    """Return int64 keys as they are, and the index of SPARSE; DENSE needs none."""
    keys = batch._keys
    return keys if isinstance(keys, np.ndarray) else readonly(np.empty(0, np.int64)), range_index(
        plan.width
    )


TABLE: dict[tuple[str, str, str, str], Implementation] = {
    # operator, form, kind of key, dtype of value: implementation
    ("CastMap", "DENSE", "int64", "float32"): Implementation(place_in_order, spec=True),
    ("CastMap", "DENSE", "int64", "float64"): Implementation(place_in_order, spec=False),
    ("CastMap", "DENSE", "int64", "int64"): Implementation(place_in_order, spec=False),
    ("CastMap", "DENSE", "int64", "string"): Implementation(place_in_order, spec=True),
    ("CastMap", "SPARSE", "int64", "float32"): Implementation(place_rows, spec=True),
    ("CastMap", "SPARSE", "int64", "float64"): Implementation(place_rows, spec=False),
    ("CastMap", "SPARSE", "int64", "int64"): Implementation(place_rows, spec=False),
    ("CastMap", "SPARSE", "int64", "string"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float32"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float64"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "int64"): Implementation(place_rows, spec=False),
    ("DictVectorizer", "VOCABULARY", "int64", "string"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float32"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float64"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "int64"): Implementation(place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "string"): Implementation(place_rows, spec=False),
}
# How a result travels through the kernels.
CARRIED: dict[str, Any] = {"float32": np.int32, "float64": np.int64, "int64": np.int64}


def implementation(plan: Plan, kind: str) -> Implementation:
    """Return the cell for values of this kind, or raise the TypeError that lists the cells."""
    if plan.operator == "DictVectorizer":
        kind = plan.result_kind(kind)  # values are converted to `dtype` first
    cell = TABLE.get((plan.operator, plan.form, plan.key_kind, kind))
    only_spec = plan.policy.spec_types
    if cell is None or (only_spec and not cell.spec):
        pairs = [
            f"{key} -> {value}"
            for (operator, form, key, value), other in TABLE.items()
            if (operator, form) == (plan.operator, plan.form) and (other.spec or not only_spec)
        ]
        raise TypeError(
            f"{plan.operator}: maps of {plan.key_kind} -> {kind} are not taken here; it takes "
            + ", ".join(pairs)
        )
    return cell
