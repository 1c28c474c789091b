"""Every benchmark class runs once, small; ``compare.py`` tells reached, missed and missing."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "asv_bench"
MODULES = ["castmap", "dictvectorizer", "dicts", "arrow", "vocabulary", "startup"]
SMALL = {"maps": 600, "entries": 100, "words": 1000}


def load(name: str) -> Any:
    """Import a module of the benchmarks the way asv and ``compare.py`` do."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def benchmark_classes() -> Iterator[type[Any]]:
    for name in MODULES:
        module = load(f"benchmarks.{name}")
        yield from (item for item in vars(module).values() if hasattr(item, "param_names"))


def methods(benchmark: type[Any], *kinds: str) -> list[str]:
    return [name for name in vars(benchmark) if name.startswith(kinds)]


def small_cases() -> Iterator[Any]:
    """Give each class with each implementation, each kind of keys, and one small size."""
    for benchmark in benchmark_classes():
        few = [
            [min(many[0], 1000)] if isinstance(many[0], int) else many for many in benchmark.params
        ]
        for params in product(*few):
            name = "-".join(map(str, (benchmark.__module__, benchmark.__name__, *params)))
            yield pytest.param(benchmark, params, id=name.removeprefix("benchmarks."))


def missing_library(error: BaseException | None) -> str | None:
    """Return the library that was not found, if that was the cause and it is not this one."""
    while error is not None:
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and name and name.split(".")[0] != "nbmapops":
            return str(name)
        error = error.__cause__
    return None


def skip_without_scikit_learn(code: str) -> None:
    if "sklearn" in code:
        pytest.importorskip("sklearn")


@pytest.mark.parametrize(("benchmark_class", "params"), list(small_cases()))
def test_benchmark_runs(
    benchmark_class: type[Any], params: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in SMALL.items():
        if hasattr(benchmark_class, name):
            monkeypatch.setattr(benchmark_class, name, size)
    case = benchmark_class()
    if raw := methods(benchmark_class, "timeraw_"):
        code, setup = getattr(case, raw[0])(*params)
        skip_without_scikit_learn(f"{setup}{code}")
        subprocess.run([sys.executable, "-c", f"{setup}\n{code}"], check=True)
        return
    try:
        case.setup(*params)
    except (ImportError, NotImplementedError) as error:
        library = missing_library(error)
        if library is None:
            raise
        pytest.skip(f"needs {library}")
    for name in methods(benchmark_class, "time_", "peakmem_"):
        getattr(case, name)(*params)


def test_every_class_measures_something_and_there_are_few_cases() -> None:
    timed = 0
    for benchmark in benchmark_classes():
        names = methods(benchmark, "time_", "timeraw_")
        assert names or methods(benchmark, "peakmem_")
        timed += len(names) * int(np.prod([len(values) for values in benchmark.params]))
    assert 60 < timed < 100  # for about 60 lines of targets: a run takes minutes, not an hour


def test_every_case_that_a_comment_names_exists() -> None:
    known = {
        f"{benchmark.__module__.removeprefix('benchmarks.')}.{benchmark.__name__}"
        for benchmark in benchmark_classes()
    }
    package = FOLDER.parent / "nbmapops"
    named = [
        (path.name, name)
        for path in package.rglob("*.py")
        for name in re.findall(r"asv:[\s#]*(\w+(?:\.\w+)?)", path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    assert [(file, name) for file, name in named if name not in known] == []


@pytest.mark.parametrize("maps", [3, 50])
def test_small_work_in_a_fresh_process_gives_what_is_right(maps: int) -> None:
    startup = load("benchmarks.startup")
    has_scikit_learn = importlib.util.find_spec("sklearn") is not None
    for call, (_, variants) in startup.small_work(maps).items():
        for name, snippet in variants.items():
            if "sklearn" in snippet.code and not has_scikit_learn:
                continue
            names: dict[str, Any] = {}
            exec(f"{snippet.setup}\n{snippet.code}\nright = {snippet.check}", names)
            assert names["right"], (call, name)


def test_asv_finds_the_benchmarks() -> None:
    pytest.importorskip("asv")
    command = [sys.executable, "-m", "asv", "check", "-E", "existing"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_row_tells_reached_from_missed() -> None:
    row = load("compare").Row
    assert row("S1", "", ">=", 4.0, ours=1.0, theirs=4.0).reached is True
    assert row("S1", "", ">=", 4.0, ours=1.0, theirs=3.9).reached is False
    assert row("M1", "", "<=", 1.1, ours=1.1, theirs=1.0).reached is True
    assert row("M1", "", "<=", 1.1, ours=1.2, theirs=1.0).reached is False
    assert row("S1", "", ">=", 4.0, ours=1.0).reached is None


def test_results_that_differ_are_not_timed() -> None:
    measure, works = load("measure"), load("benchmarks.works")
    impls = {
        "right": lambda: lambda: np.array([1.0, 2.0]),
        "wrong": lambda: lambda: np.array([1.0, 3.0]),
        "missing": lambda: importlib.import_module("no_such_library"),
        "peer": lambda: lambda: np.array([1.0, 2.0]),
    }
    result = measure.timed(works.Work(2, impls), list(impls))
    assert set(result.seconds) == {"right", "peer"}
    assert "no_such_library" in result.problems["missing"]
    assert result.problems["wrong"] == "its result is not that of peer"


def test_compare_prints_one_line_a_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    compare, measure = load("compare"), load("measure")
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    monkeypatch.setattr(compare, "MAPS", 600)

    def broken() -> Iterator[Any]:
        raise RuntimeError("no such part")

    monkeypatch.setitem(compare.TARGETS, "S9", broken)
    figures, folder = tmp_path / "figures" / "table.json", tmp_path / "pictures"
    assert compare.main(["S14", "S9", "--json", str(figures), "--plot", str(folder)]) == 0
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert [(row["target"], row["peer"]) for row in rows] == [("S14", "numpy"), ("S9", "")]
    assert rows[0]["ratio"] == pytest.approx(rows[0]["theirs"] / rows[0]["ours"])
    assert rows[1]["problem"] == "RuntimeError: no such part"
    printed = capsys.readouterr().out
    assert "S14  CastMap SPARSE" in printed
    assert "not measured: RuntimeError: no such part" in printed
    assert "</svg>" in (folder / "targets.svg").read_text(encoding="utf-8")
    assert not (folder / "speed.svg").exists()  # none of its bars was measured


def test_pictures_name_lines_that_the_table_has(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    compare, pictures = load("compare"), load("pictures")
    wanted = [line[1:] for group in pictures.SPEEDS.values() for line in group]
    rows = [
        compare.Row(target, f"{case} ...", ">=", 2.0, ours=1.0, peer=peer or "pandas", theirs=3.0)
        for target, case, peer in wanted
    ]
    rows += [
        compare.Row(target, f"{case} ...", "<=", 2.0, ours=0.2, peer="import numpy", theirs=0.1)
        for _, target, case in pictures.FIRST_CALLS
    ]
    pictures.draw(rows, tmp_path)
    speed = (tmp_path / "speed.svg").read_text(encoding="utf-8")
    assert "3x FeatureHasher" in speed
    assert "0.2 s nbmapops" in speed
    assert {target for target, *_ in wanted} < set(compare.TARGETS)
    assert "times as fast as the peer" in (tmp_path / "targets.svg").read_text(encoding="utf-8")
