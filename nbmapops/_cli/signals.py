"""Command: a signal ends a run so that it leaves no files behind."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NUMBERS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in dir(signal)
]
_USUAL = (signal.SIG_DFL, signal.default_int_handler)


class Stopped(BaseException):
    """A signal that ends the run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def _stop(number: int, _: FrameType | None) -> None:
    for other in _NUMBERS:
        signal.signal(other, signal.SIG_IGN)  # what was begun is now cleared away
    raise Stopped(number)


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped when a signal comes; one that is ignored (nohup) or handled stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        for number, handler in before.items():
            if handler in _USUAL:
                signal.signal(number, _stop)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore these signals; only the main thread sees them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
