"""Ways through the library that small inputs would not take, and the limits that force them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from nbmapops._limits import limits
from nbmapops._reading import mappings

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "plain engine": {"engine": "plain"},
    "plain engine, no shortcuts": {"engine": "plain", "shortcuts": False},
    "plain engine, dicts at once": {"engine": "plain", "listed_maps": 0},
    "compiled engine": {"engine": "compiled"},
    "compiled engine, no shortcuts": {"engine": "compiled", "shortcuts": False},
    "small blocks of rows": {
        "engine": "compiled", "block_entries": 2, "block_bytes": 16, "thread_entries": 1,
    },
    "small blocks of dicts": {
        "engine": "compiled", "chunk_entries": 3, "chunk_maps": 2, "iterator_maps": 3,
    },
    "dicts in plain Python": {"engine": "compiled", "shortcuts": False},
}  # fmt: skip
"""Ways through the library, and the limits that force them."""


@contextmanager
def way(name: str) -> Iterator[None]:
    """Force a way through the library that only some inputs take by themselves."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for limit, value in WAYS[name].items():
            monkeypatch.setattr(limits, limit, value)
        if name == "dicts in plain Python":
            monkeypatch.setattr(mappings, "compiled_walk", lambda: None)
        yield
