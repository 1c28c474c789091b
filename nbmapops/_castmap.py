"""Operator CastMap: a map with integer keys becomes a tensor of its values in key order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbmapops._engine import run
from nbmapops._engine.shortcuts import arrays_ordered, few_casts
from nbmapops._operator import Operator
from nbmapops._options import Plan, check_fill, check_threads, is_one_of, policy_of
from nbmapops._reading.scalars import kind_of
from nbmapops.errors import show

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._types import CastTo, IndexDtype, MapForm, Semantics

_TARGETS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


class CastMap(Operator):
    """Convert maps with integer keys to arrays (ONNX-ML operator ``CastMap``, version 1).

    Parameters
    ----------
    cast_to : {"TO_FLOAT", "TO_INT64", "TO_STRING"}
        Type of the result: float32, int64, or str in an object array.
    map_form : {"DENSE", "SPARSE"}
        DENSE: the values by ascending key. SPARSE: the value of key ``k`` at position ``k``.
    max_map : int
        Length of a SPARSE result; keys are below it. Ignored for DENSE.
    fill_value : scalar, optional
        At SPARSE positions without an entry; must fit the result type exactly. By default 0,
        and for text ``""`` (``"0.f"`` in the onnxruntime semantics).
    semantics : {"strict", "onnxruntime"}
        "strict" loses nothing silently; "onnxruntime" gives the values and errors of that
        library's kernels bit for bit, but with the shapes below.

    Raises
    ------
    TypeError, ValueError
        An attribute that is not one of these; SPARSE with ``max_map < 1``.

    Notes
    -----
    The rules are those of the ONNX-ML text of ``ai.onnx.ml.CastMap``; where it is silent, the
    documentation (What the operators mean) says what is done. float32, float64, int64
    and str values are taken, not only the text's float and string.

    Examples
    --------
    >>> CastMap()({2: 2.5, 0: 0.5, 1: 1.5})
    array([0.5, 1.5, 2.5], dtype=float32)
    >>> CastMap(map_form="SPARSE", max_map=5)([{1: 10.0, 3: 30.0}, {0: 1.0}])
    array([[ 0., 10.,  0., 30.,  0.],
           [ 1.,  0.,  0.,  0.,  0.]], dtype=float32)
    """

    __slots__ = ()
    __module__ = "nbmapops"  # where pickles find it, whatever file it stands in

    _name: ClassVar[str] = "CastMap"

    def __init__(
        self,
        *,
        cast_to: CastTo = "TO_FLOAT",
        map_form: MapForm = "DENSE",
        max_map: int = 1,
        fill_value: float | str | Decimal | Fraction | None = None,
        semantics: Semantics = "strict",
    ) -> None:
        policy = policy_of("CastMap", semantics)
        if not is_one_of(cast_to, _TARGETS):
            raise ValueError(
                f"CastMap: cast_to must be one of {', '.join(_TARGETS)}, not {show(cast_to)}"
            )
        if not is_one_of(map_form, ("DENSE", "SPARSE")):
            raise ValueError(f"CastMap: map_form must be DENSE or SPARSE, not {show(map_form)}")
        if kind_of(max_map) != "int64" or isinstance(max_map, bool):
            raise TypeError(f"CastMap: max_map must be an integer, not {show(max_map)}")
        max_map = int(max_map)
        if map_form == "SPARSE" and not 1 <= max_map < 2**63:
            raise ValueError(
                f"CastMap: max_map must be from 1 to 2**63 - 1 for SPARSE, not {max_map}"
            )
        target = _TARGETS[cast_to]
        fill_value = check_fill("CastMap", fill_value, target)
        self._attributes = {
            "cast_to": str(cast_to),
            "map_form": str(map_form),
            "max_map": max_map,
            "fill_value": fill_value,
            "semantics": str(semantics),
        }
        width = max_map if map_form == "SPARSE" else 0
        plan = Plan("CastMap", str(map_form), "int64", width, target, fill_value, policy)
        self._plans = {"int64": plan}

    @property
    def cast_to(self) -> CastTo:
        """The type of the result: "TO_FLOAT", "TO_INT64" or "TO_STRING"."""
        cast_to: CastTo = self._attributes["cast_to"]
        return cast_to

    @property
    def map_form(self) -> MapForm:
        """How values are placed: "DENSE" by ascending key, "SPARSE" each at its key."""
        map_form: MapForm = self._attributes["map_form"]
        return map_form

    @property
    def max_map(self) -> int:
        """The number of columns of SPARSE."""
        return int(self._attributes["max_map"])

    @property
    def n_columns(self) -> int | None:
        """The width of a row; None for DENSE, where a map has as many as entries."""
        return self.max_map if self.map_form == "SPARSE" else None

    def __call__(
        self,
        maps: object,
        values: object = None,
        offsets: object = None,
        /,
        *,
        out: Array | None = None,
        threads: int = 1,
    ) -> Array:
        """Convert one map or a batch.

        Parameters
        ----------
        maps : mapping, batch of mappings, MapBatch, Arrow map column, or array_like of keys
            What to convert; with `values` these are the keys.
        values : array_like, shape (nnz,), optional
            The values, when `maps` are keys.
        offsets : array_like of int, shape (B + 1,), optional
            Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``; without it, keys and values
            are one map.
        out : ndarray, optional
            Where to write the result: of its shape and dtype, C-contiguous, writable. After an
            error its content is undefined.
        threads : int
            How many threads share the rows of a batch; the result is the same.

        Returns
        -------
        ndarray
            Of one map: shape (n,) for DENSE, (max_map,) for SPARSE. Of a batch: (B, n) for DENSE
            when all maps have n entries, (B, max_map) for SPARSE.

        Raises
        ------
        TypeError
            Keys that are not integers, values of mixed or other types, anything that is not maps.
        OverflowError
            A key or an int value outside int64.
        ValueError
            A SPARSE key that is negative or not below max_map; DENSE maps of different lengths
            in a batch; an `out` that does not fit.
        DuplicateKeyError
            A key twice in one map.
        CastError
            A value that the result type does not hold.
        MemoryError
            A result that does not fit into memory.

        Examples
        --------
        >>> CastMap(cast_to="TO_STRING")([3, 1, 2, 5], [0.1, 2.5, 1.0, 7.0], [0, 2, 4])
        array([['2.500000', '0.100000'],
               ['1.000000', '7.000000']], dtype=object)
        """
        threads = check_threads("CastMap", threads)
        if values is None and offsets is None and out is None:
            rows = few_casts(self._plan, maps)
            if rows is not None:
                return rows
        if self.map_form == "SPARSE":
            plan, given = self._read(maps, values, offsets, "dense")
            return run.dense(plan, given, out, threads)
        if values is not None and offsets is None and out is None:
            row = arrays_ordered(self._plan, maps, values)
            if row is not None:
                return row
        plan, given = self._read(maps, values, offsets, "order")
        return run.ordered_dense(plan, given, out, threads)

    def ragged(
        self, maps: object, values: object = None, offsets: object = None, /, *, threads: int = 1
    ) -> tuple[Array, Array]:
        """Convert a batch of maps of different lengths (DENSE).

        Parameters
        ----------
        maps, values, offsets
            As for a call.
        threads : int
            How many threads share the maps.

        Returns
        -------
        values : ndarray, shape (nnz,)
            The values of map ``i`` by ascending key are ``values[offsets[i]:offsets[i + 1]]``.
        offsets : ndarray of int64, shape (B + 1,)

        Raises
        ------
        ValueError
            The form is SPARSE, whose rows all have length max_map.
        TypeError, OverflowError, DuplicateKeyError, CastError, MemoryError
            As for a call.

        Examples
        --------
        >>> CastMap().ragged([{2: 2.5, 1: 1.5}, {}, {7: 7.0}])
        (array([1.5, 2.5, 7. ], dtype=float32), array([0, 2, 2, 3]))
        """
        if self.map_form != "DENSE":
            raise ValueError("CastMap: ragged is for DENSE; rows of SPARSE have length max_map")
        threads = check_threads("CastMap", threads)
        plan, given = self._read(maps, values, offsets, "order")
        return run.ordered(plan, given, threads)

    def csr(
        self,
        maps: object,
        values: object = None,
        offsets: object = None,
        /,
        *,
        index_dtype: IndexDtype | None = None,
        threads: int = 1,
    ) -> csr_array:
        """Convert to a sparse matrix (SPARSE with numbers).

        Parameters
        ----------
        maps, values, offsets
            As for a call.
        index_dtype : {int32, int64}, optional
            Of the index arrays; by default int32 when it is enough.
        threads : int
            How many threads share the rows.

        Returns
        -------
        scipy.sparse.csr_array, shape (B, max_map)
            Canonical: columns ascend in a row and none stands twice; zeros that are entries are
            kept. One map gives one row. Shares no memory with the input.

        Raises
        ------
        ValueError
            The form is DENSE, the result is text, or fill_value is not 0; and as for a call.
        TypeError, OverflowError, DuplicateKeyError, CastError, MemoryError
            As for a call.

        Examples
        --------
        >>> CastMap(map_form="SPARSE", max_map=5).csr([{1: 10.0, 3: 30.0}]).toarray()
        array([[ 0., 10.,  0., 30.,  0.]], dtype=float32)
        """
        dtype = self._check_sparse(index_dtype, threads)
        return self._csr(maps, values, offsets, dtype, threads)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the columns of SPARSE: the keys as text.

        Parameters
        ----------
        input_features : object
            Not used; scikit-learn passes it.

        Returns
        -------
        ndarray of str objects, shape (max_map,)

        Raises
        ------
        ValueError
            The form is DENSE, whose columns have no names.

        Examples
        --------
        >>> CastMap(map_form="SPARSE", max_map=3).get_feature_names_out()
        array(['0', '1', '2'], dtype=object)
        """
        del input_features
        if self.map_form == "DENSE":
            raise ValueError("CastMap: columns of DENSE have no names; SPARSE has one for each key")
        return np.array([str(key) for key in range(self.max_map)], object)

    def __getstate__(self) -> dict[str, Any]:
        return self._attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        CastMap.__init__(self, **attributes)

    def __repr__(self) -> str:
        default = CastMap()._attributes
        words = [f"{k}={v!r}" for k, v in self._attributes.items() if v != default[k]]
        return f"CastMap({', '.join(words)})"
