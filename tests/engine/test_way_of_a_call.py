"""How many modules a call passes, and how often it changes from one to another.

That is what a reader of the code has to follow. The numbers are upper bounds: lower them with the
code, and give a reason where one has to rise. ``pytest -s`` prints the ways.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops

from ..conftest import WITHOUT_JIT
from ..ways import way

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(WITHOUT_JIT, reason="kernels count as functions of Python there")


def modules_passed(call: Callable[[], Any]) -> list[str]:
    """The module of each function of the package that is called, in order."""
    passed: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.partition(".")[0] == "nbmapops":
            passed.append(name.removeprefix("nbmapops."))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return passed


def arrays_to_dense() -> Callable[[], Any]:
    op = nbmapops.DictVectorizer(int64_vocabulary=np.arange(1000) * 7)
    keys, values, offsets = np.arange(10) * 7, np.ones(10), np.array([0, 5, 10])
    return lambda: op(keys, values, offsets)


def dicts_to_csr() -> Callable[[], Any]:
    pytest.importorskip("scipy")
    op = nbmapops.DictVectorizer(int64_vocabulary=np.arange(1000) * 7)
    maps = [{7 * key: key for key in range(5)}] * 200
    return lambda: op.csr(maps)


def long_list_to_csr() -> Callable[[], Any]:
    pytest.importorskip("scipy")
    op = nbmapops.DictVectorizer(int64_vocabulary=np.arange(1000) * 7)
    maps = [{7 * key: key for key in range(5)}] * 3000
    return lambda: op.csr(maps)


def arrow_text_to_csr() -> Callable[[], Any]:
    pytest.importorskip("scipy")
    pa = pytest.importorskip("pyarrow")
    op = nbmapops.DictVectorizer(string_vocabulary=["a", "b", "c"])
    maps = [[("a", 1.0), ("b", 2.0)], [("c", 1.0)]]
    column = pa.array(maps * 50, pa.map_(pa.string(), pa.float64()))
    return lambda: op.csr(column)


@pytest.mark.parametrize(
    ("make", "modules", "changes"),
    [
        (arrays_to_dense, 6, 8),
        (dicts_to_csr, 6, 8),
        (long_list_to_csr, 18, 52),
        (arrow_text_to_csr, 6, 7),
    ],
)
def test_a_call_passes_few_modules(
    make: Callable[[], Callable[[], Any]], modules: int, changes: int
) -> None:
    call = make()
    with way("compiled engine"):
        call()  # loads the kernels
        call()
        passed = modules_passed(call)
    rooms = [name for name, _ in groupby(passed)]
    counts = f"{len(passed)} calls, {len(set(rooms))} modules, {len(rooms) - 1} changes"
    print(f"{make.__name__}: {counts}: {' > '.join(rooms)}")  # noqa: T201 (what a failure shows)
    assert len(set(rooms)) <= modules
    assert len(rooms) - 1 <= changes
