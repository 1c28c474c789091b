"""How functions are compiled: one decorator for every kernel.

Kernels are kept on disk, because compiling them takes seconds. A cache is a convenience: where it
cannot be written, read or trusted, the kernels are compiled anew and nothing else changes.

What is private in Numba is used here only: ``Dispatcher._cache`` with its ``load_overload``,
``save_overload``, ``flush`` and ``_cache_file._source_stamp``. Tested with Numba 0.62 to 0.68;
where a version has it no longer, its own rules hold.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["inlined", "kernel"]

_Function = TypeVar("_Function", bound="Callable[..., Any]")

STAMPED = ("_constants.py", "_jit.py", "kernels/*.py", "_reading/*walk.py")
"""The files with compiled code, and what such code reads: a change in one compiles all anew."""


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


check_interpreter()


def kernel(function: _Function, *, nogil: bool = True) -> _Function:
    """Compile on first use, with a disk cache where a folder for it can be written."""
    try:
        compiled = njit(nogil=nogil, cache=True)(function)
    except RuntimeError:  # "no locator available": neither here nor at home can one write
        return cast("_Function", njit(nogil=nogil)(function))
    _mend(compiled)
    return cast("_Function", compiled)


def inlined(function: _Function) -> _Function:
    """Compile into the callers: Numba's own calls cost reference counts, felt once a map."""
    return cast("_Function", njit(nogil=True, inline="always")(function))


@cache
def source_stamp() -> bytes | None:
    """Return a digest of all files with compiled code, None where there are none to read.

    Numba compares the stamp of a cached kernel with the digest of the one file in which it stands,
    so it would miss a change in a kernel of another file that is compiled into it.
    """
    digest, found = hashlib.blake2b(digest_size=16), False
    try:
        folder = Path(__file__).parent
        for path in sorted(path for pattern in STAMPED for path in folder.glob(pattern)):
            source = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(source)}\n".encode())
            digest.update(source)
            found = True
    except (OSError, NameError):  # frozen
        return None
    return digest.digest() if found else None  # there are none in a zip archive


def _mend(compiled: Any) -> None:
    """Treat a damaged or unwritable cache as empty, and stamp it with all files of compiled code.

    Numba lets the errors of unpickling a truncated file and of a full disk out of the first call.
    """
    cache = getattr(compiled, "_cache", None)  # none with NUMBA_DISABLE_JIT
    if cache is None:
        return
    file, stamp = getattr(cache, "_cache_file", None), source_stamp()
    if file is not None and stamp is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = stamp
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
