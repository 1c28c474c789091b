"""ONNX adapter: what is fed to a map input becomes the rows of the operators that read it.

A model declares one type of value. What is fed is placed first and converted then, which is the
same as converting first: an operator places values and does not look at them. So a list of dicts
goes through the operator as it is. Whatever is refused on this quick way is read again: the
batch is converted to the declared type, and the operator with the semantics asked for decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from nbmapops._dictvectorizer import DictVectorizer
from nbmapops._engine.shortcuts import few_entries
from nbmapops._foreign import let_out
from nbmapops._reading.batch import MapBatch, converted
from nbmapops._reading.entries import KINDS
from nbmapops._reading.inputs import read_input
from nbmapops._reading.scalars import DTYPES
from nbmapops._values import cast_array
from nbmapops.errors import show
from nbmapops.onnx.nodes import from_node

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from nbmapops._castmap import CastMap
    from nbmapops._types import HandleUnknown, Semantics
    from nbmapops.onnx.graph import Front, MapType

Rows: TypeAlias = "NDArray[np.generic]"
Maps: TypeAlias = "list[object] | tuple[object, ...] | MapBatch"

# The pairs of the ONNX-ML text, all that onnxruntime takes.
_PAIRS = {
    ("int64", "string"), ("int64", "float32"), ("int64", "float64"),
    ("string", "int64"), ("string", "float32"), ("string", "float64"),
}  # fmt: skip
_REFUSALS = (TypeError, ValueError, OverflowError, KeyError)
# Integers up to here are float64 values.
_EXACT = 2**53


class MapInput:
    """A map input of a model.

    Parameters
    ----------
    name : str
    declared : MapType
    semantics : {"strict", "onnxruntime"}
    """

    def __init__(self, name: str, declared: MapType, semantics: Semantics) -> None:
        self.declared = declared
        self.is_read_as_dicts = False  # whether its operators take dicts as they are
        self._where = f"MapSession: input {name!r}"
        # onnxruntime's Python interface narrows every number to float32 without a look.
        self._narrows = semantics == "onnxruntime" and declared.value_kind == "float32"

    def source(self, maps: object) -> Maps:
        """Return what was fed as a list or tuple that can be read again, or as a batch."""
        if self.is_read_as_dicts:
            if type(maps) is dict:
                return [maps]
            if type(maps) is list or type(maps) is tuple:
                return maps
        return self.batch(maps)

    def batch(self, maps: object) -> MapBatch:
        """Return what was fed as a batch with the types that the model declares."""
        if type(maps) is dict or (isinstance(maps, Mapping) and self._narrows):
            maps = [maps]
        few = (
            few_entries(maps)
            if self.declared.key_kind == "int64" and isinstance(maps, (list, tuple))
            else None
        )
        if few is not None:
            batch = MapBatch._of(few)
        else:
            batch = self._any_numbers(maps) if self._narrows else self._read(maps)
        kind, own = self.declared.value_kind, KINDS[batch.values.dtype.char]
        if len(batch.values) and (own == "string") != (kind == "string"):
            found = "text" if own == "string" else "numbers"
            raise TypeError(
                f"{self._where} is declared as a map to {kind}, but the values are {found}"
            )
        if not self._narrows or own == "string":
            return converted(batch, kind, "exact", self._where)
        if own == "int64":
            # By way of float64, as onnxruntime does: some integers are rounded twice.
            values = batch.values.astype(np.float64)
            if (np.abs(values) > _EXACT).any():
                batch = MapBatch.from_arrays(batch.keys, values, batch.offsets)
        return converted(batch, kind, "onnxruntime", self._where)

    def _read(self, maps: object) -> MapBatch:
        given = read_input(self._where, maps, None, None, self.declared.key_kind)
        entries, bad = given.read_all()
        if bad is not None:
            raise bad.error
        return MapBatch._of(entries)

    def _any_numbers(self, maps: object) -> MapBatch:
        """Read maps with numbers that int64, or float64 among floats, may not hold."""
        if isinstance(maps, Iterator):  # can be read once only
            return self._read(self._as_floats(maps))
        if isinstance(getattr(maps, "dtype", None), np.dtype) and isinstance(maps, Iterable):
            maps = list(maps)
        try:
            return self._read(maps)
        except OverflowError as error:
            let_out(error)
            if not isinstance(maps, (list, tuple)):
                raise
        return self._read(self._as_floats(maps))

    def _as_floats(self, maps: Iterable[object]) -> Iterator[object]:
        for number, mapping in enumerate(maps):
            if isinstance(mapping, Mapping) and any(map(_is_rounded, mapping.values())):
                yield {key: self._float(number, key, value) for key, value in mapping.items()}
            else:
                yield mapping

    def _float(self, number: int, key: object, value: object) -> object:
        if not _is_rounded(value):
            return value
        try:
            return float(cast("int | Decimal | Fraction", value))
        except OverflowError as error:
            let_out(error)
            raise OverflowError(
                f"{self._where}: map {number}: key {show(key)}: value {show(value)} is beyond all "
                "floats"
            ) from None

    def placed(self, values: Rows) -> Rows | None:
        """Return placed values in the declared type, or None where only `batch` can tell."""
        kind = self.declared.value_kind
        own = KINDS[values.dtype.char]
        if own == kind:
            return values
        if "string" in (own, kind):
            return None
        if self._narrows:
            with np.errstate(all="ignore"):
                return values.astype(np.float64, copy=False).astype(np.float32)
        found, refused = cast_array(values.ravel(), own, kind, "exact")
        return None if len(refused) else found.reshape(values.shape)


def _is_rounded(value: object) -> bool:
    """Tell whether a value may be none of float64."""
    if isinstance(value, (int, np.integer)):
        return not -_EXACT <= int(value) <= _EXACT
    return isinstance(value, (Decimal, Fraction))


class FrontOperator:
    """A map operator at the front of a model, on what is fed to its input.

    Parameters
    ----------
    front : Front
    given : MapInput
        Which the operator reads.
    semantics : {"strict", "onnxruntime"}
    handle_unknown : {"error", "ignore"}, optional
    """

    def __init__(
        self,
        front: Front,
        given: MapInput,
        semantics: Semantics,
        handle_unknown: HandleUnknown | None,
    ) -> None:
        self.front = front
        self._given = given
        self._semantics: Semantics = semantics
        self._handle_unknown = handle_unknown if front.node.op_type == "DictVectorizer" else None
        self._quick = self._quick_operator()
        if self._quick is None:
            self._operator  # noqa: B018  # a bad attribute is an error when the session is made

    @cached_property
    def _operator(self) -> CastMap | DictVectorizer:
        return from_node(
            self.front.node, semantics=self._semantics, handle_unknown=self._handle_unknown
        )

    def _quick_operator(self) -> DictVectorizer | None:
        """Return a strict operator that gives the same rows for dicts wherever it gives any."""
        strict = self._semantics == "strict"
        if self.front.node.op_type != "DictVectorizer":
            return None
        if not strict and tuple(self._given.declared) not in _PAIRS:
            return None
        unknown = self._handle_unknown or ("error" if strict else "ignore")
        try:
            operator = from_node(self.front.node, handle_unknown=unknown)
        except ValueError as error:  # repeated words
            let_out(error)
            return None
        assert isinstance(operator, DictVectorizer)
        return operator

    @property
    def is_quick(self) -> bool:
        """Whether a list of dicts is taken as it is."""
        return self._quick is not None

    def rows(self, maps: Maps) -> Rows:
        """Return a row for each map, shape (B, width)."""
        if self._quick is not None and not isinstance(maps, MapBatch):
            try:
                if len(maps) == 1 and type(maps[0]) is dict:
                    rows = self._quick(maps[0]).reshape(1, -1)
                else:
                    rows = self._quick(maps)
            except _REFUSALS as error:  # the general way finds out what is wrong
                let_out(error)
            else:
                found = self._given.placed(rows)
                if found is not None:
                    return found
        return self._operator(self.batch(maps))

    def matrix(self, maps: Maps) -> csr_array:
        """Return the rows as a sparse matrix."""
        if self._quick is not None and not isinstance(maps, MapBatch):
            try:
                matrix = self._quick.csr(maps)
            except _REFUSALS as error:  # as in rows
                let_out(error)
            else:
                data = self._given.placed(matrix.data)
                if data is not None:
                    matrix.data = data
                    return matrix
        return self._operator.csr(self.batch(maps))

    def batch(self, maps: Maps) -> MapBatch:
        """Return the maps as a batch of the declared types."""
        # What `source` made has them already.
        return maps if isinstance(maps, MapBatch) else self._given.batch(maps)

    def mean_entries(self, maps: Maps) -> int:
        """Return how many entries a map has; of CastMap DENSE all have as many."""
        return len(self.batch(maps).values) // len(maps)

    def empty_row(self) -> Rows:
        """Return one row without entries."""
        kind = self.front.kind
        return np.full((1, self.front.width or 0), "" if kind == "string" else 0, DTYPES[kind])

    def blocks(self, maps: Maps) -> Callable[[int, int], Rows]:
        """Return a function that gives the rows of maps `start` to `stop`."""
        front = self.front
        if front.width is None:  # no missing positions: all rows are as large as the maps
            rows = self.rows(maps)
            return lambda start, stop: rows[start:stop]
        if front.kind != "string":
            matrix = self.matrix(maps)
            return lambda start, stop: _dense(matrix[start:stop])
        batch = self.batch(maps)

        def block(start: int, stop: int) -> Rows:
            try:
                return self._operator(batch[start:stop])
            except _REFUSALS as error:
                let_out(error)
                self._operator(batch)  # raises the same, and names the map in the whole batch
                raise

        return block


def _dense(matrix: csr_array) -> Rows:
    """Return a sparse matrix as an array; SciPy's own toarray() makes 0.0 of -0.0."""
    rows = np.zeros(matrix.shape, matrix.dtype)
    numbers = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    rows[numbers, matrix.indices] = matrix.data
    return rows
