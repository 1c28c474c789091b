"""CastMap: a map with integer keys becomes a tensor of its values in key order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._engine.calls import (
    call_csr,
    call_dense,
    checked,
    choose,
    place_row,
    quick_order,
    small_map,
)
from nbmapops._engine.rows import check_out, ordered
from nbmapops._options import (
    Plan,
    check_fill,
    check_sparse,
    check_threads,
    comparable,
    is_one_of,
    policy_of,
)
from nbmapops._reading.scalars import kind_of
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._reading.inputs import Input
    from nbmapops._reading.scalars import Array

_TARGETS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


class CastMap:
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
        An attribute that is none of these; SPARSE with ``max_map < 1``.

    Notes
    -----
    The rules are those of the ONNX-ML text of ``ai.onnx.ml.CastMap``; where it is silent, the
    README says what is done. float32, float64, int64 and str values are taken, not only the
    text's float and string.

    Examples
    --------
    >>> CastMap()({2: 2.5, 0: 0.5, 1: 1.5})
    array([0.5, 1.5, 2.5], dtype=float32)
    >>> CastMap(map_form="SPARSE", max_map=5)([{1: 10.0, 3: 30.0}, {0: 1.0}])
    array([[ 0., 10.,  0., 30.,  0.],
           [ 1.,  0.,  0.,  0.,  0.]], dtype=float32)
    """

    __slots__ = ("_attributes", "_plan")

    _attributes: dict[str, Any]
    _plan: Plan

    def __init__(
        self,
        *,
        cast_to: str = "TO_FLOAT",
        map_form: str = "DENSE",
        max_map: int = 1,
        fill_value: Any = None,
        semantics: str = "strict",
    ) -> None:
        policy = policy_of("CastMap", semantics)
        if not is_one_of(cast_to, _TARGETS):
            raise ValueError(
                f"CastMap: cast_to is {show(cast_to)}; it is one of {', '.join(_TARGETS)}"
            )
        if not is_one_of(map_form, ("DENSE", "SPARSE")):
            raise ValueError(f"CastMap: map_form is {show(map_form)}; it is DENSE or SPARSE")
        if kind_of(max_map) != "int64" or isinstance(max_map, bool):
            raise TypeError(f"CastMap: max_map is {show(max_map)}; it is an integer")
        max_map = int(max_map)
        if map_form == "SPARSE" and not 1 <= max_map < 2**63:
            raise ValueError(
                f"CastMap: max_map is {max_map}; SPARSE takes a max_map from 1 to 2**63 - 1"
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
        self._plan = Plan("CastMap", str(map_form), "int64", width, target, fill_value, policy)

    def __call__(
        self,
        maps: Any,
        values: Any = None,
        offsets: Any = None,
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
            Keys that are no integers, mixed or other types, no maps at all.
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
        check_threads("CastMap", threads)
        if values is not None and offsets is None and out is None and self._plan.form == "DENSE":
            ordered_values = quick_order(self._plan, maps, values)
            if ordered_values is not None:
                return ordered_values
        plan, given = self._read(maps, values, offsets)
        if plan.form == "SPARSE":
            return call_dense(plan, given, out, threads)
        found = small_map(plan, given)
        if found is not None:
            return place_row(plan, *found, out, given)
        return self._dense(given, out, threads)

    def _dense(self, given: Input, out: Array | None, threads: int) -> Array:
        plan = self._plan
        batch, source = checked(plan, given)
        kind = plan.target or "float32"
        rows = len(batch)
        direct = None
        if out is not None and not plan.policy.first_wins:
            shape = (rows, int(batch.offsets[1]) if rows else 0)[given.one :]
            # Where `out` does not fit, or maps differ in length, a bad map is told first.
            if np.shape(out) == shape and np.size(out) == len(batch.values):
                direct = check_out(plan, out, shape, kind, batch)
        result, offsets = ordered(plan, batch, source, direct, threads)
        if not given.one:
            lengths = np.diff(offsets)
            odd = np.flatnonzero(lengths != lengths[:1]) if rows else lengths
            if odd.size:
                raise ValueError(
                    f"CastMap: map {odd[0]} has {lengths[odd[0]]} entries where map 0 has "
                    f"{lengths[0]}, so the batch is no matrix; ragged() gives values and offsets"
                )
            result = result.reshape(rows, int(lengths[0]) if rows else 0)
        if out is None:
            return result
        target = check_out(plan, out, result.shape, kind, batch)
        if direct is None or kind == "string":
            target[...] = result
        return out

    def ragged(
        self, maps: Any, values: Any = None, offsets: Any = None, /, *, threads: int = 1
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
        if self._plan.form != "DENSE":
            raise ValueError("CastMap: ragged is for DENSE; rows of SPARSE have length max_map")
        check_threads("CastMap", threads)
        plan, given = self._read(maps, values, offsets)
        batch, source = checked(plan, given)
        return ordered(plan, batch, source, None, threads)

    def csr(
        self,
        maps: Any,
        values: Any = None,
        offsets: Any = None,
        /,
        *,
        index_dtype: Any = None,
        threads: int = 1,
    ) -> Any:
        """Convert to a sparse matrix (SPARSE with numbers; extra ``[sparse]``).

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
        dtype = check_sparse(self._plan, index_dtype)
        check_threads("CastMap", threads)
        return call_csr(*self._read(maps, values, offsets), dtype, threads)

    def _read(self, maps: Any, values: Any, offsets: Any) -> tuple[Plan, Input]:
        return choose({"int64": self._plan}, "CastMap", (maps, values, offsets))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CastMap):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return comparable(self._attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._attributes,)

    def __repr__(self) -> str:
        default = CastMap()._attributes
        words = [f"{k}={v!r}" for k, v in self._attributes.items() if v != default[k]]
        return f"CastMap({', '.join(words)})"


def _restore(attributes: dict[str, Any]) -> CastMap:
    return CastMap(**attributes)
