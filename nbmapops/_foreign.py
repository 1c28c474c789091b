"""Whose an exception is: what a signal handler raises comes out wherever the main thread is.

No handler of an exception may take it for what it waits for, whatever its class: a time limit may
be a ValueError. So every ``except`` that goes on with another value or another exception asks here
first. Where code of the user runs, whose own errors are expected, only the signal handlers count.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

__all__ = ["is_foreign", "is_interruption", "let_out"]

# Whose frames may stand in the traceback of an error that is waited for.
_KNOWN = {*sys.stdlib_module_names, "llvmlite", "nbmapops", "numba", "numpy", "pyarrow"}


def let_out(error: BaseException) -> None:
    """Raise an exception again in which code of somebody else had a part.

    Parameters
    ----------
    error : BaseException
        Caught where no code of the user runs.
    """
    if is_foreign(error):
        raise error


def is_foreign(error: BaseException) -> bool:
    """Tell whether code of somebody else had a part in an error, as a signal handler has.

    An exception that was under way when this one was raised counts, too: leaving a ``with`` that a
    handler has broken off may raise another. One that was caught before the call does not: its
    traceback begins in the code of the caller.
    """
    under_way: BaseException | None = error
    while under_way is not None:
        known = [
            frame.f_globals.get("__name__", "").partition(".")[0] in _KNOWN
            for frame in _frames(under_way)
        ]
        if known and known[0] and not all(known):
            return True
        under_way = under_way.__context__
    return False


def is_interruption(error: BaseException) -> bool:
    """Tell whether a signal handler has raised an error: code of the user may raise others."""
    signal = sys.modules.get("signal")  # without which there are no handlers
    if signal is None:
        return False
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame in _frames(error))


def _frames(error: BaseException) -> Iterator[FrameType]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a function, a method, a partial or an object that can be called."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if callable(handler) and not hasattr(handler, "__code__"):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)
