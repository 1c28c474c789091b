"""How the compiled kernels are loaded: nothing breaks the import of Numba off half-way.

Signal handlers run in the main thread only, and what they raise comes out wherever that thread is.
Numba survives this neither in its import nor everywhere in its compiler, and Python, in any import,
may keep its import lock for ever. So what a call imports first, and the compiler, run in a thread
of their own while the main thread waits: there the exception comes out at once.
"""

from __future__ import annotations

import sys
import threading
from _thread import start_new_thread
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from nbmapops._foreign import let_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = [
    "forget_half_imported",
    "imported",
    "load_kernels",
    "undisturbed",
]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@cache
def load_kernels() -> ModuleType:
    """Import `nbmapops.kernels`, and with it Numba.

    An exception that a signal handler raises meanwhile comes out, and the import goes on without
    it: the next call finds it done, or waits for its end.

    Returns
    -------
    module
        `nbmapops.kernels`.

    Raises
    ------
    ImportError
        In a subinterpreter, or when Numba cannot be imported; another call tries again.
    """
    return undisturbed(import_module, "nbmapops.kernels")


def imported(name: str) -> ModuleType:
    """Return a module; it is imported where no signal handler can raise.

    Whatever a call imports when it first needs it comes by this way: broken off at the wrong place,
    an import of the smallest module leaves Python's import lock taken.

    Parameters
    ----------
    name : str
        Of the module.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        As ``import`` does.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    return undisturbed(import_module, name)


def forget_half_imported() -> None:
    """Make the next import of Numba a whole one, after one that was broken off.

    Python forgets a package whose import failed but not its modules, which then are never set as
    attributes of the new package: "module 'numba' has no attribute 'core'".
    """
    for package in ("llvmlite", "numba"):
        if package not in sys.modules:
            for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
                del sys.modules[name]


def undisturbed(
    function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Call a function where no signal handler can raise; it ends even if the caller does not wait.

    Parameters
    ----------
    function : callable
        What is called; an exception that it raises comes out.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    object
        Its result.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args, **kwargs)
    results: list[_Result] = []
    errors: list[BaseException] = []
    # Not `join`: a join that is interrupted makes Python 3.11 forget the thread, and a process
    # that ends then breaks it off within the compiler.
    ended = threading.Lock()
    ended.acquire()

    def work() -> None:
        try:
            results.append(function(*args, **kwargs))
        except BaseException as raised:  # noqa: BLE001 (raised again by the thread that waits)
            errors.append(raised)
        finally:
            ended.release()

    thread = threading.Thread(target=work, name="nbmapops", daemon=False)

    def start() -> None:
        try:
            thread.start()
        except RuntimeError:  # the system refuses another thread
            work()

    # Not `start` itself, in the main thread: broken off there, the new thread may never run.
    try:
        start_new_thread(start, ())
    except RuntimeError as error:  # the system refuses a thread
        let_out(error)
        return function(*args, **kwargs)
    ended.acquire()
    if errors:
        raise errors[0]
    return results[0]
