"""Command: what is shown on a terminal while a run takes long."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
    """Show on a terminal how far a longer run is, with tqdm (extra ``[progress]``).

    The function that is given takes how much has been done since its last call.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    # disable=None: only on a terminal
    with tqdm(
        desc=what, total=total, unit=unit, unit_scale=True, delay=2, leave=False, disable=None
    ) as bar:
        yield bar.update


class _OneLine(logging.Handler):
    """Shows the first message; the others say the same of other functions."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._shown = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._shown and record.getMessage().startswith("compiling"):
            self._shown = True
            print(f"nbmapops: {record.getMessage()}", file=sys.stderr, flush=True)


@contextmanager
def compiling_is_shown() -> Iterator[None]:
    """Say on a terminal, in one line, that kernels are being compiled."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    logger, handler = logging.getLogger("nbmapops"), _OneLine()
    level = logger.level
    logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
