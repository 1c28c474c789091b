"""Sizes at which work is cut into pieces, and the engine that a test may force: one object.

Modules read it by attribute when they need a size, so that a test changes all users of it at once.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["limits"]


class Limits:
    """What `limits` holds."""

    # Between two blocks of rows Python is in control again: Ctrl-C is honoured. A block of 2**21
    # entries, or 32 MiB of dense result, takes some 20 ms (asv: dictvectorizer.Dense).
    block_entries: int = 1 << 21
    block_bytes: int = 1 << 25
    # Keys and values of a chunk of dicts, 1 MiB, stay in cache between the walk and the kernel. A
    # chunk costs 60 us beside its entries (asv: dicts.Csr).
    chunk_entries: int = 1 << 16
    chunk_maps: int = 1 << 14
    # How many maps of an iterator are held at a time.
    iterator_maps: int = 1 << 10
    # A thread gets no less work than this many entries: starting one must pay (asv:
    # dictvectorizer.Threads).
    thread_entries: int = 1 << 17
    # Up to this many entries a list of plain dicts is written by the shortcut of few dicts.
    few_entries: int = 1 << 9
    # Up to this many entries a list of plain dicts is read and written by one call of each kernel.
    walked_entries: int = 1 << 13
    # Up to this many plain dicts are written one by one in plain Python, more of them at once.
    listed_maps: int = 16
    # The engine that runs all work; None: the cost model of _engine/choose.py decides.
    engine: Literal["plain", "compiled"] | None = None
    # Whether shortcuts are taken at all.
    shortcuts: bool = True


limits = Limits()
