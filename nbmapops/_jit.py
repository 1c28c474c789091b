"""How functions are compiled: one decorator for every kernel.

Kernels are kept on disk, because compiling them takes seconds. A cache is a convenience: where it
cannot be written, read or trusted, the kernels are compiled anew and nothing else changes.

The logger ``nbmapops`` says at level INFO when a kernel is compiled that no cache holds, and how
long that took; and once, at level WARNING, that compiled kernels cannot be kept.

What is private in Numba is used here only, and where a version has it no longer, Numba's own rules
hold: ``Dispatcher._cache`` with its ``_cache_file._source_stamp`` and ``_load_overload``,
``Dispatcher._compile_for_args``, and the event of a compilation.
"""

from __future__ import annotations

import ctypes
import logging
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from nbmapops._cache import source_stamp
from nbmapops._foreign import is_foreign, let_out
from nbmapops._load import forget_half_imported, undisturbed

forget_half_imported()

import numba  # noqa: E402
from numba import extending, njit  # noqa: E402
from numba.core import event  # noqa: E402
from numba.core.runtime.nrt import rtsys  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["inlined", "kernel"]

# What Numba passes around has no annotations.
Untyped: TypeAlias = Any
_Function = TypeVar("_Function", bound="Callable[..., Untyped]")

# Versions of Numba whose compiled code was seen to load without the registries of its compiler.
_LOADS_ALONE = ("0.68",)

_log = logging.getLogger("nbmapops")


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
    except RuntimeError as error:  # "no locator available": neither here nor at home can one write
        let_out(error)
        _warn_once(error)
        compiled = njit(nogil=nogil)(function)
    if hasattr(compiled, "_compile_for_args"):  # not with NUMBA_DISABLE_JIT
        compiled._compile_for_args = partial(undisturbed, compiled._compile_for_args)
        _mend(compiled)
    return cast("_Function", compiled)


def inlined(function: _Function) -> _Function:
    """Compile into the callers: Numba's own calls cost reference counts, felt once a map."""
    return cast("_Function", njit(nogil=True, inline="always")(function))


def called_compiled(
    function: Untyped, runs: Callable[..., Untyped]
) -> Callable[[_Function], _Function]:
    """Say what is compiled into compiled code that calls a plain function.

    `runs` is the kernel under the plain function: its ``overloads`` tell whether it is compiled.
    """
    function.overloads = getattr(runs, "overloads", {})

    def choose(compiled: _Function) -> _Function:
        extending.overload(function, inline="always", strict=False)(lambda *_: compiled)
        return compiled

    return choose


# The cache.


def _mend(compiled: Untyped) -> None:
    """Treat a damaged or unwritable cache as empty, and stamp it with all files of compiled code.

    Numba lets the errors of unpickling a truncated file and of a full disk out of the first call.
    """
    kept: Untyped = getattr(compiled, "_cache", None)
    if not hasattr(kept, "_cache_file"):
        return
    stamp = source_stamp()
    if stamp is not None and hasattr(kept._cache_file, "_source_stamp"):
        kept._cache_file._source_stamp = stamp
    load, save = _load_alone(kept), kept.save_overload

    def load_or_compile(signature: Untyped, context: Untyped) -> Untyped:
        loaded = _try(load, signature, context, otherwise=kept.flush)
        # Two processes that save other signatures at once may take the same file for both.
        if loaded is not None and tuple(loaded.signature.args) == tuple(signature):
            return loaded
        return None

    def save_if_possible(signature: Untyped, data: Untyped) -> None:
        _try(save, signature, data, otherwise=_warn_once)

    kept.load_overload, kept.save_overload = load_or_compile, save_if_possible


def _load_alone(kept: Untyped) -> Callable[..., Untyped]:
    """Return what loads a kernel without the registries of the compiler, which take 0.25 s.

    They serve whoever compiles, and Numba loads them again before it does. Code that was compiled
    before needs the runtime only.
    """
    tested = numba.__version__.startswith(tuple(f"{version}." for version in _LOADS_ALONE))
    if not (tested and hasattr(kept, "_load_overload")):
        return cast("Callable[..., Untyped]", kept.load_overload)

    def load(signature: Untyped, context: Untyped) -> Untyped:
        rtsys.initialize(context)
        return kept._load_overload(signature, context)

    return load


def _try(
    function: Callable[..., Untyped],
    *arguments: object,
    otherwise: Callable[..., Untyped] | None = None,
) -> Untyped:
    """Call a function that reads or writes a cache, whose errors matter to nobody."""
    try:
        return function(*arguments)
    # Unpickling garbage may raise anything; a full disk, a vanished folder. What a signal handler
    # raises is not of these.
    except Exception as error:
        if is_foreign(error):
            raise
        if otherwise is not None:
            _try(otherwise, *([error] if otherwise is _warn_once else []))
        return None


# The log.


@cache
def _say_once(what: str) -> None:
    _log.warning(
        "compiled code cannot be kept, so that each process compiles anew: %s; "
        "NUMBA_CACHE_DIR can name a folder for it",
        what,
    )


def _warn_once(error: Exception) -> None:
    if not _say_once.cache_info().currsize:
        _say_once(f"{type(error).__name__}: {error}")


class _Reporter(event.Listener):
    """Logs compilations of kernels. One inside another is a part of it, and not told."""

    def __init__(self) -> None:
        self._began: list[float] = []  # Numba compiles in one thread at a time

    @staticmethod
    def _name(happened: Untyped) -> str | None:
        function = happened.data["dispatcher"].py_func
        # Functions made by `exec` may have no module.
        package, _, module = (function.__module__ or "").partition(".")
        return f"{module}.{function.__qualname__}" if package == "nbmapops" else None

    def on_start(self, happened: Untyped) -> None:
        name = self._name(happened)
        if name is not None:
            if not self._began:
                _log.info("compiling %s, which no cache holds", name)
            self._began.append(time.perf_counter())

    def on_end(self, happened: Untyped) -> None:
        name = self._name(happened)
        if name is not None:
            seconds = time.perf_counter() - self._began.pop()
            if not self._began:
                _log.info("compiled %s in %.1f s", name, seconds)


event.register("numba:compile", _Reporter())  # type: ignore[no-untyped-call]
