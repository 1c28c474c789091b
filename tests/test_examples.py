"""Examples in the docstrings of the public classes: they name another module than their file.

``pytest --doctest-modules`` finds those of functions and modules.
"""

from __future__ import annotations

import doctest
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops import CastMap, DictVectorizer, MapBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {"nbmapops": nbmapops, "np": np} | {
    each.__name__: each for each in (CastMap, DictVectorizer, MapBatch)
}


def examples() -> Iterator[Any]:
    for owner in (CastMap, DictVectorizer, MapBatch):
        for name, member in inspect.getmembers(owner):
            text = inspect.getdoc(member) or ""
            if not name.startswith("_") and ">>>" in text:
                yield pytest.param(text, id=f"{owner.__name__}.{name}")


@pytest.mark.parametrize("text", list(examples()))
def test_an_example_gives_what_it_shows(text: str) -> None:
    if "pyarrow" in text or "to_arrow" in text:
        pytest.importorskip("pyarrow")
    test = doctest.DocTestParser().get_doctest(text, dict(NAMES), "example", None, 0)
    said: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert found.attempted > 0
    assert not found.failed, "".join(said)
