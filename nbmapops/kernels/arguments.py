"""Compiled: which dtypes the public kernels take; others are refused when a call is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._jit import Untyped

__all__ = ["dtype_check"]

# The table of the package's docstring. A name stands for the dtype of the array of that name.
_TAKEN: dict[str, tuple[str, ...]] = {
    "header": ("int64",),
    "pilots": ("uint16",),
    "slots": ("int64",),
    "table": ("int32",),
    "keys": ("int64", "int32"),
    "offsets": ("int64",),
    "columns": ("int64",),
    "indptr": ("int32", "int64"),
    "indices": ("indptr",),
    "data": ("values",),
    "out": ("values",),
    "out_offsets": ("int64",),
    "kept": ("int64",),
    "sums": ("values",),
    "ends": ("int64",),
}


def _fault(
    kernel: str, names: tuple[str, ...], dtypes: list[np.dtype[np.generic] | None]
) -> str | None:
    """Return what is wrong with the arrays of a call, where what is not an array has None."""
    found = dict(zip(names, dtypes, strict=True))
    for name, dtype in found.items():
        if name == "key":
            if str(dtype) not in ("int64", "int32"):
                return f"{kernel}: key must be an int64 or int32, not {dtype}"
            continue
        if name == "values":
            if dtype is None or dtype.kind not in "iufmMb" or dtype.itemsize not in (4, 8):
                return f"{kernel}: values must be an array of numbers of 4 or 8 bytes, not {dtype}"
            if kernel == "sum_rows" and str(dtype) not in ("int64", "float32", "float64"):
                return f"{kernel}: values must be int64, float32 or float64, not {dtype}"
            continue
        taken = [str(found.get(each, each)) for each in _TAKEN[name]]
        if kernel in ("order_dense", "sum_rows") and name == "keys":
            taken = taken[:1]
        if str(dtype) not in taken:
            return f"{kernel}: {name} must be an array of {' or '.join(taken)}, not {dtype}"
    return None


def _dtype_of(kind: Untyped) -> np.dtype[np.generic] | None:
    """Return the dtype of a type of Numba's, None for what is not a number or an array of some."""
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    try:
        return np.dtype(as_dtype(kind.dtype if isinstance(kind, types.Array) else kind))
    except NotImplementedError:
        return None


def dtype_check(kernel: str, *names: str) -> Callable[..., None]:
    """Return what a kernel calls first, with a tuple of its arrays; it costs nothing at run time.

    Parameters
    ----------
    kernel : str
        The public name of the kernel.
    *names : str
        Its arrays.

    Returns
    -------
    callable
        Refuses arrays of other dtypes: with a TypingError when the call is compiled, or with a
        TypeError where nothing is compiled.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]

        def check(arrays: tuple[object, ...]) -> None:
            dtypes = [None if array is None else np.asarray(array).dtype for array in arrays]
            fault = _fault(kernel, names, dtypes)
            if fault is not None:
                raise TypeError(fault)

        return check

    def type_of(_: Untyped, arrays: Untyped) -> Untyped:
        fault = _fault(kernel, names, [_dtype_of(kind) for kind in arrays])
        if fault is not None:
            raise TypingError(fault)
        return types.none(arrays), lambda context, *_: context.get_dummy_value()

    return intrinsic(type_of)
