"""How functions are compiled: one decorator for every kernel.

Kernels are kept on disk, because compiling them takes seconds. A cache is a convenience: where it
cannot be written, read or trusted, the kernels are compiled anew and nothing else changes.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def check_interpreter() -> None:
    """Raise in a subinterpreter, where Numba hangs: at the latest when it releases an array."""
    state = ctypes.PYFUNCTYPE(ctypes.c_void_p)
    current, main = (
        state((f"PyInterpreterState_{name}", ctypes.pythonapi))() for name in ("Get", "Main")
    )
    if current != main:
        raise ImportError(
            "nbmapops: batches are converted in the main interpreter only, because Numba works "
            "nowhere else; single maps are converted anywhere"
        )


def kernel(function: _Function, *, nogil: bool = True) -> _Function:
    """Compile on first use, with a disk cache where a folder for it can be written."""
    try:
        compiled = njit(nogil=nogil, cache=True)(function)
    except RuntimeError:  # "no locator available": neither here nor at home can one write
        return cast("_Function", njit(nogil=nogil)(function))
    _mend(compiled)
    return cast("_Function", compiled)


def _mend(compiled: Any) -> None:
    """Take a damaged or unwritable cache for an empty one.

    Numba lets the errors of unpickling a truncated file and of a full disk out of the first call.
    """
    cache = getattr(compiled, "_cache", None)  # none with NUMBA_DISABLE_JIT
    if cache is None:
        return
    load, save = cache.load_overload, cache.save_overload

    def load_or_compile(signature: Any, context: Any) -> Any:
        try:
            loaded = load(signature, context)
            # Two processes that save other signatures at once may take the same file for both.
            if loaded is None or tuple(loaded.signature.args) == tuple(signature):
                return loaded
        except Exception:  # noqa: BLE001  (unpickling garbage may raise anything)
            _try(cache.flush)
        return None

    def save_if_possible(signature: Any, data: Any) -> None:
        _try(save, signature, data)

    cache.load_overload, cache.save_overload = load_or_compile, save_if_possible


def _try(function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001  (a full disk, a vanished folder, an index that is garbage)
        return
