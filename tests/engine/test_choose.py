"""The choice between the engines: what it costs is never much more than the better of both."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from nbmapops import CastMap
from nbmapops._engine import choose
from nbmapops._limits import limits

from ..conftest import WITHOUT_JIT
from ..fresh import run

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = [10**n for n in range(2, 8)]
COMPILED_ENTRY = 10e-9


class Machine:
    """Runs work by the rule and adds up what its constants say it costs; no clock is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loading: float) -> None:
        self.spent, self.loading, self.is_loaded = 0.0, loading, False
        monkeypatch.setattr(choose, "_spent", defaultdict(float))
        monkeypatch.setattr(choose, "_loaded", set())
        monkeypatch.setattr(choose, "is_loaded", lambda part: self.is_loaded)
        monkeypatch.setattr(choose, "_loading", lambda parts, cached=False: loading)
        monkeypatch.setattr(choose, "_importable", lambda: True)
        monkeypatch.setattr(limits, "engine", None)

    def call(self, entries: int, maps: int) -> None:
        if not choose.compiled(entries, maps, "int64 dicts", "csr"):
            self.spent += choose.plain_cost(entries, maps, 2)
            return
        if not self.is_loaded:
            self.is_loaded = True
            self.spent += self.loading
        self.spent += 2 * choose.CALL + entries * COMPILED_ENTRY


def best(calls: list[tuple[int, int]], loading: float) -> float:
    """The cost of the better engine, known afterwards."""
    plain = sum(choose.plain_cost(entries, maps, 2) for entries, maps in calls)
    compiled = loading + sum(2 * choose.CALL + entries * COMPILED_ENTRY for entries, _ in calls)
    return min(plain, compiled)


@pytest.mark.parametrize("loading", [0.26, 3.1])
@pytest.mark.parametrize(
    "calls",
    [*[[(n, n // 20)] for n in SIZES], [(100, 5)] * 10_000, [(100, 5)] * 200, [(10**5, 5000)] * 60],
    ids=lambda calls: f"{len(calls)} x {calls[0][0]}",
)
def test_the_rule_is_never_worse_than_twice_the_best(
    calls: list[tuple[int, int]], loading: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, loading)
    for entries, maps in calls:
        machine.call(entries, maps)
    assert machine.spent <= 2 * best(calls, loading) + 0.1


@pytest.mark.parametrize("loading", [0.26, 3.1])
def test_small_calls_load_when_that_would_have_paid(
    loading: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, loading)
    while not machine.is_loaded:
        machine.call(100, 5)
        assert machine.spent < 2.1 * loading
    assert machine.spent > loading


def test_large_work_loads_at_once_and_small_work_never(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 3.1)
    machine.call(20_000, 1000)
    assert not machine.is_loaded
    machine.call(10**7, 10**6)
    assert machine.is_loaded


def fresh(code: str) -> dict[str, bool]:
    # Of compiled code on disk, calls that are small one by one would load some in the end.
    with tempfile.TemporaryDirectory() as empty:
        printed = run(f"import json, sys\n{code}\nprint(json.dumps(found))", NUMBA_CACHE_DIR=empty)
    found: dict[str, bool] = json.loads(printed)
    return found


SMALL = """
import numpy as np
import nbmapops, nbmapops.sklearn
from nbmapops import CastMap, DictVectorizer, MapBatch
found = {}
from nbmapops._engine import choose
def note(name, call):
    choose._spent.clear()
    call()
    found[name] = "numba" in sys.modules
for kind, words in (("int64", list(range(50))), ("string", [f"w{i}" for i in range(50)])):
    maps = [{words[i * 7 % 50]: float(i), words[i]: 1} for i in range(50)] * 200
    texts = [{word: "x" for word in words[:20]}] * 500
    op = DictVectorizer(**{f"{kind}_vocabulary": words})
    batch = MapBatch.from_dicts(maps)
    note(f"{kind} dense", lambda: op(maps))
    note(f"{kind} csr", lambda: op.csr(maps))
    note(f"{kind} csr of a generator", lambda: op.csr(m for m in maps))
    note(f"{kind} text", lambda: op(texts))
    note(f"{kind} learning", lambda: DictVectorizer.from_maps(maps))
    note(f"{kind} unknown", lambda: op.unknown(maps))
    note(f"{kind} columns", lambda: op.columns(batch.keys))
    note(f"{kind} inverse", lambda: op.inverse(op.csr(batch)))
    note(f"{kind} batch", lambda: op(batch))
    note(f"{kind} arrays", lambda: op.csr(batch.keys, batch.values, batch.offsets, threads=2))
    note(f"{kind} sums", lambda: batch.sum_duplicates())
numbers = [{i: float(i) for i in range(20)}] * 1000
note("CastMap", lambda: CastMap()(numbers))
note("CastMap ragged", lambda: CastMap(cast_to="TO_STRING").ragged(numbers))
note("CastMap sparse", lambda: CastMap(map_form="SPARSE", max_map=30).csr(numbers))
note("the estimator", lambda: nbmapops.sklearn.DictVectorizer().fit_transform(maps[:500]))
"""


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
def test_up_to_20_000_entries_load_no_numba() -> None:
    pytest.importorskip("sklearn")
    assert set(fresh(SMALL).values()) == {False}


def test_where_the_kernels_cannot_be_imported_all_runs_in_plain_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise ImportError("not here")

    monkeypatch.delitem(sys.modules, "nbmapops.kernels", raising=False)
    monkeypatch.setattr(choose, "_broken", [])
    monkeypatch.setattr(choose, "load_kernels", refuse)
    monkeypatch.setattr(limits, "engine", None)
    asked: list[Callable[[], bool]] = [
        lambda: choose.compiled(10**9, 1, "sums"),
        lambda: choose.compiled(10**9, 1, "sums"),
    ]
    monkeypatch.setattr(choose, "_loaded", set())
    monkeypatch.setattr(choose, "is_loaded", lambda part: False)
    assert [ask() for ask in asked] == [False, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "all work runs in plain Python: not here" in caplog.text


@pytest.mark.parametrize("way", ["__call__", "ragged"])
def test_an_engine_is_chosen_once_for_reading_and_converting(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[object] = []
    compiled = choose.compiled

    def noted(*arguments: Any) -> bool:
        chosen.append(arguments)
        return compiled(*arguments)

    monkeypatch.setattr(choose, "compiled", noted)
    getattr(CastMap(), way)([{2: 2.0, 1: 1.0}] * 300)
    assert len(chosen) == 1
