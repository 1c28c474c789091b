"""Every speed and memory target, measured against the peers in the same run.

``python asv_bench/compare.py [S5 S10 ...] [--json FILE] [--plot FOLDER]`` prints a line for each
case of a target: ours, the best peer, their ratio, the bound, reached or not. Ratios are what
counts: both sides run in turn in one process, the best of several turns is kept, and results are
compared before anything is timed. A missing library or a missing part gives a line that says so.

All kernels are loaded first, since small work runs in plain Python until that pays. What a process
pays before they are (S15, S19, S20, S25, S26, S27) is measured in fresh ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import platform
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measure
import numpy as np
import pictures
from benchmarks import startup, workloads, works
from benchmarks.works import (
    HASHER,
    OURS,
    OURS_GENERATOR,
    OURS_HELD,
    OURS_LISTED,
    OURS_OUT,
    OURS_TWICE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAPS = 100_000
SOME_MAPS = 20_000
LIBRARIES = [
    "nbmapops",
    "numba",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "onnxruntime",
    "skl2onnx",
]


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    `ours` and `theirs` are in `unit`. With the sense ">=" the ratio says how many times faster we
    are; with "<=" it is our share of the other figure.
    """

    target: str
    case: str
    sense: str
    bound: float
    ours: float | None = None
    peer: str = ""
    theirs: float | None = None
    unit: str = "s"
    problem: str = ""

    @property
    def ratio(self) -> float | None:
        """The figure that the bound is about."""
        if self.ours is None or self.theirs is None:
            return None
        return self.theirs / self.ours if self.sense == ">=" else self.ours / self.theirs

    @property
    def reached(self) -> bool | None:
        """Whether the bound is kept; None where nothing could be measured."""
        ratio = self.ratio
        if ratio is None:
            return None
        return ratio >= self.bound if self.sense == ">=" else ratio <= self.bound

    def __str__(self) -> str:
        """Write the line as it is printed."""
        head = f"{self.target:<4} {self.case:<60}"
        if self.ratio is None:
            return f"{head} not measured: {self.problem}"
        ours, theirs = _amount(self.ours, self.unit), _amount(self.theirs, self.unit)
        bound = f"{self.sense} {self.bound:g}"
        verdict = "reached" if self.reached else "MISSED"
        note = f"  ({self.problem})" if self.problem else ""
        return (
            f"{head} {ours:>9}  {self.peer:>15} {theirs:>9}  {self.ratio:7.2f}"
            f"  {bound:<7} {verdict}{note}"
        )

    def record(self) -> dict[str, Any]:
        """Give the row for JSON."""
        return {**dataclasses.asdict(self), "ratio": self.ratio, "reached": self.reached}


def _amount(amount: float | None, unit: str) -> str:
    """Write seconds or bytes with the prefix that fits."""
    if amount is None:
        return "-"
    scales = {
        "s": [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")],
        "B": [(1e6, "MB"), (1, "B")],
    }
    scale, name = next((pair for pair in scales[unit] if amount >= pair[0]), scales[unit][-1])
    return f"{amount / scale:.3g} {name}"


def versus(
    target: str,
    case: str,
    work: works.Work,
    *goals: tuple[str, float],
    sense: str = ">=",
    ours: str = OURS,
    witness: str | None = None,
) -> Iterator[Row]:
    """Time us and all peers of the goals in turn; a goal is ("peer" or "peer|peer", bound)."""
    names = [name for peers, _ in goals for name in peers.split("|")]
    yield from _rows(target, case, measure.timed(work, [ours, *names], witness), goals, sense, ours)


def _rows(
    target: str,
    case: str,
    result: measure.Timed,
    goals: Sequence[tuple[str, float]],
    sense: str = ">=",
    ours: str = OURS,
) -> Iterator[Row]:
    seconds, problems = result
    for peers, bound in goals:
        theirs = {name: seconds[name] for name in peers.split("|") if name in seconds}
        best = min(theirs, key=lambda name: theirs[name], default=peers)
        missing = [
            f"{name}: {problems[name]}" for name in (ours, *peers.split("|")) if name in problems
        ]
        yield Row(
            target,
            case,
            sense,
            bound,
            seconds.get(ours),
            best,
            theirs.get(best),
            problem="; ".join(missing),
        )


# --- targets --------------------------------------------------------------------------------------


def _dicts(target: str, label: str, keys: str, peer: str, bound: float) -> Iterator[Row]:
    work = works.csr_from_dicts(keys, 1000, SOME_MAPS)
    yield from versus(target, f"dicts, {label} -> csr", work, (peer, bound))


def _int_dicts() -> Iterator[Row]:
    yield from _dicts("S1", "int keys", "int", "scikit-learn", 30)
    work = works.csr_from_dicts("int", 1000, SOME_MAPS)
    case = "the same from a generator of new dicts"
    yield from versus("S1", case, work, (OURS_LISTED, 1.8), ours=OURS_GENERATOR, sense="<=")
    case = "the same from a generator of dicts that a list holds; the list"
    yield from versus("S1", case, work, (OURS, 1.8), ours=OURS_HELD, sense="<=")


def _text_dicts() -> Iterator[Row]:
    yield from _dicts("S3", "shared str keys", "str", "scikit-learn", 20)
    work = works.row_sums(works.csr_from_dicts("str", 1000, SOME_MAPS))
    yield from versus("S3", "the same; keys hashed", work, (HASHER, 1))


def _few_dicts() -> Iterator[Row]:
    for call, method in (("op(maps)", "dense"), ("op.csr(maps)", "csr")):
        case = f"{call}, 3 dicts; op(map) for each"
        work = works.few_dicts(method, 3)
        yield from versus("S34", case, work, ("one by one", 2.5), sense="<=")


def _back_to_dicts() -> Iterator[Row]:
    for keys in ("int", "str"):
        work = works.to_dicts(keys, SOME_MAPS)
        yield from versus("S38", f"to_dicts, {keys} keys", work, ("python", 1.2), sense="<=")


def _other_mappings() -> Iterator[Row]:
    for kind in ("OrderedDict", "subclass", "MappingProxyType"):
        work = works.csr_from_mappings(kind, 1000, SOME_MAPS)
        yield from versus("S41", f"{kind} of dicts -> csr", work, ("scikit-learn", 5))


def _shuffled() -> Iterator[Row]:
    for label, keys, bound in (("int", "int", 18), ("shared str", "str", 18), ("JSON", "json", 10)):
        work = works.csr_from_dicts(keys, 1000, SOME_MAPS, shuffled=True)
        case = f"shuffled dicts, {label} keys -> csr"
        yield from versus("S37", case, work, ("scikit-learn", bound))


def _arrays(target: str, *widths: int) -> Iterator[Row]:
    for width in widths:
        work = works.csr_from_arrays(width, MAPS)
        case = f"arrays -> csr, V={width:,}"
        yield from versus(target, case, work, ("pyarrow|pandas", 2.5))


def _text_arrays() -> Iterator[Row]:
    for kind in ("object", "U", "StringDType"):
        work = works.csr_from_texts(kind, 10_000, MAPS // 2)
        yield from versus("S42", f"{kind} array of keys -> csr", work, ("pyarrow", 1.2))


def _duplicates() -> Iterator[Row]:
    work = works.sum_duplicates(1000, MAPS)
    yield from versus("S43", "sum_duplicates, keys repeated in half", work, ("scipy", 1))


def _long_batch() -> Iterator[Row]:
    cost, (extra, result) = measure.fresh("long_batch")
    few, many = cost
    case = "arrays -> csr, V=10,000: an entry of 10^8"
    yield Row("S36", case, "<=", 1.15, cost[many], "of 10^6", cost[few])
    case = "the same: peak extra memory"
    yield Row("S36", case, "<=", 1.1, extra, "result", result, unit="B")


def _dense() -> Iterator[Row]:
    work = works.dense_from_arrays(1000, MAPS)
    case = "arrays -> dense, V=1,000; array filled twice"
    yield from versus("S7", case, work, ("fill", 1.3), sense="<=", witness="pandas")


def _arrow_int() -> Iterator[Row]:
    work = works.csr_from_arrow("int64", 10_000, MAPS)
    yield from versus("S8", "Arrow map<int64, double> -> csr", work, ("pyarrow", 2.5))


def _arrow_text() -> Iterator[Row]:
    work = works.csr_from_arrow("string", 10_000, MAPS)
    yield from versus("S9", "Arrow map<string, double> -> csr", work, ("pyarrow", 1.3))
    work = works.csr_from_arrow("dictionary", 10_000, MAPS)
    case = "Arrow map<dictionary, double> -> csr"
    yield from versus("S9", case, work, ("pyarrow|pyarrow, gather", 3))


def _order(target: str, keys: str, small: float, large: float) -> Iterator[Row]:
    for entries, bound in ((65_536, small), (1_000_000, large)):
        work = works.order_arrays(keys, entries)
        case = f"CastMap DENSE, {entries:,} {keys} keys"
        yield from versus(target, case, work, ("numpy", bound))


def _order_dict() -> Iterator[Row]:
    work = works.order_dict(65_536)
    yield from versus("S13", "CastMap DENSE, dict of 65,536", work, ("onnxruntime", 15))


def _scatter() -> Iterator[Row]:
    work = works.scatter(128, MAPS)
    yield from versus("S14", "CastMap SPARSE, max_map=128", work, ("numpy", 1.5))


def _one_dict() -> Iterator[Row]:
    before = measure.Timed(**measure.fresh("one_dict"))
    goals = [("onnxruntime", 2.5), ("scikit-learn", 8.0)]
    yield from _rows("S15", "one dict, V=1,000, numba not loaded", before, goals)
    work = works.one_dict(1000)
    goals = [("onnxruntime", 5.0), ("scikit-learn", 15.0)]
    yield from versus("S15", "one dict, V=1,000, kernels loaded", work, *goals)


def _one_wide_dict() -> Iterator[Row]:
    work = works.one_dict(100_000, np.float32)
    case = "one dict, V=100,000, float32"
    yield from versus("S16", f"{case}, fresh result", work, ("onnxruntime", 3))
    yield from versus("S16", f"{case}, out= reused", work, ("onnxruntime", 10), ours=OURS_OUT)


def _index() -> Iterator[Row]:
    for width in (100_000, 1_000_000):
        work = works.build_index(width)
        yield from versus("S17", f"index of {width:,} int64 words", work, ("pandas", 0.3))


def _learn() -> Iterator[Row]:
    work = works.learn_arrays(10_000, MAPS)
    case = "from_maps, arrays, V=10,000"
    yield from versus("S18", case, work, ("numpy", 2), ("scikit-learn", 20))


def _start() -> Iterator[Row]:
    case = "import and first small map, fresh process, CPU"
    snippets = {name: startup.FRESH[name] for name in (startup.SMALL_MAP, "import numpy")}
    yield _without_numba("S19", case, measure.started(snippets, 8), *snippets)


def _without_numba(
    target: str, case: str, result: measure.Started, name: str, peer: str, more: float = 0.0
) -> Row:
    seconds = result.seconds
    if name in result.numba:
        return Row(target, case, "<=", 1.5, peer=peer, problem="numba was imported")
    return Row(target, case, "<=", 1.5, seconds[name], peer, seconds[peer] + more)


def _small_work() -> Iterator[Row]:
    """Show the worst variant of each call; the bound grows by 1.5 us an entry."""
    few, many = startup.small_work(3), startup.small_work(1000)
    for call, (peer, _) in few.items():
        variants = {
            f"{variant}, {maps} maps": (snippet, maps)
            for maps, calls in ((3, few), (1000, many))
            for variant, snippet in calls[call][1].items()
        }
        snippets = {name: snippet for name, (snippet, _) in variants.items()}
        snippets[peer] = startup.IMPORTS[peer]
        result = measure.started(snippets, 3, cold=True)
        lines = [
            _without_numba(
                "S25",
                f"first {call}, {name}; +1 us/entry",
                result,
                name,
                peer,
                20e-6 * maps,
            )
            for name, (_, maps) in variants.items()
        ]
        yield max(lines, key=lambda row: row.ratio or math.inf)


def _first_batch() -> Iterator[Row]:
    for batch in ("arrays -> csr", "int dicts -> csr"):
        for entries in (2000, 1_000_000):
            snippets = {batch: startup.first_batch(batch, entries), "import numba": _NUMBA}
            seconds = measure.started(snippets, 5).seconds
            case = f"first {batch}, {entries:,} entries, warm disk cache, CPU"
            yield Row("S20", case, "<=", 3, seconds[batch], "import numba", seconds["import numba"])


_NUMBA = startup.IMPORTS["import numba"]


def _first_compiled() -> Iterator[Row]:
    goals = dict(zip(startup.BATCHES, (10, 5, 15, 15, 10), strict=True))
    numba = measure.started({"import numba": _NUMBA}, 5, cold=True).seconds["import numba"]
    for batch, bound in goals.items():
        snippet = startup.first_batch(batch, 1_000_000)
        seconds = measure.started({batch: snippet}, 1, cold=True).seconds[batch]
        case = f"first {batch}, 1,000,000 entries, nothing on disk, CPU"
        yield Row("S26", case, "<=", bound, seconds, "import numba", numba)


def _choice() -> Iterator[Row]:
    """Show many small calls, and the worst of one call of any size; 50 ms count as nothing."""
    tasks = {"10,000 calls of 100 entries": (10_000, 100)}
    tasks |= {f"one call of 10^{power} entries": (1, 10**power) for power in range(3, 8)}
    engines = {OURS: None, "plain": "plain", "compiled": "compiled"}
    for cold in (False, True):
        lines = []
        for task, (calls, entries) in tasks.items():
            snippets = {
                name: startup.repeated(calls, entries, engine) for name, engine in engines.items()
            }
            seconds = measure.started(snippets, 1, cold=cold).seconds
            ours = seconds.pop(OURS)
            best = min(seconds, key=lambda name: seconds[name])
            case = f"{task}, {'cold' if cold else 'warm'} cache, CPU"
            lines.append(Row("S27", case, "<=", 2, ours, best, seconds[best] + 0.05))
        yield lines[0]
        yield max(lines[1:], key=lambda row: row.ratio or 0.0)


def _threads() -> Iterator[Row]:
    work = works.csr_from_arrays(100_000, MAPS)
    case = "2 threads, arrays -> csr, V=100,000"
    yield from versus("S21", case, work, (OURS, 1.7), ours=OURS_TWICE)
    work = works.dense_from_arrays(1000, MAPS)
    yield from versus(
        "S21",
        "2 threads, arrays -> dense; filled by 2 threads",
        work,
        ("fill, 2 threads", 1.3),
        sense="<=",
        ours=OURS_TWICE,
        witness="pandas",
    )


def _small_threads() -> Iterator[Row]:
    for entries in (10_000, 100_000):
        work = works.csr_from_arrays(1000, entries // workloads.SIZE)
        case = f"2 threads, arrays -> csr, {entries:,} entries"
        yield from versus("S35", case, work, (OURS, 1.1), ours=OURS_TWICE, sense="<=")


def _growth() -> Iterator[Row]:
    costs = {}
    for entries in (10**4, 10**5, 10**6, 10**7):
        work = works.csr_from_arrays(1000, entries // 20)
        seconds, problems = measure.timed(work, [OURS, "copy"], witness="pandas")
        if OURS in problems:
            raise RuntimeError(problems[OURS])
        costs[entries] = (seconds[OURS] - seconds["copy"]) / entries
    dearest, cheapest = (pick(costs, key=lambda entries: costs[entries]) for pick in (max, min))
    case = f"cost of an entry, 10^4 to 10^7: at {dearest:,}"
    yield Row("S22", case, "<=", 1.3, costs[dearest], f"at {cheapest:,}", costs[cheapest])


def _model() -> Iterator[Row]:
    work = works.model(1000, 10_000)
    case = "MapSession, 10,000 dicts; dict by dict"
    yield from versus("S23", case, work, ("onnxruntime", 15))


def _few_maps() -> Iterator[Row]:
    goals = {1: ("<=", 3), 8: (">=", 2), 256: (">=", 12)}
    for maps, (sense, bound) in goals.items():
        case = f"MapSession, {maps} dicts; dict by dict"
        yield from versus("S29", case, works.model(100, maps), ("onnxruntime", bound), sense=sense)


def _wide_model() -> Iterator[Row]:
    work = works.model(10_000, 5000)
    yield from versus("S30", "MapSession, V=10,000, 5,000 dicts", work, ("scikit-learn", 5))
    extra, outputs = measure.fresh("model_memory")
    case = "the same: peak extra memory"
    yield Row("S30", case, "<=", 1, extra, "64 MiB+outputs", (64 << 20) + outputs, unit="B")


def _command() -> Iterator[Row]:
    ours, lines = measure.fresh("command")
    case = "the command learns and converts 300,000 JSON lines, CPU"
    yield Row("S31", case, "<=", 2, ours, "json.loads", lines)


def _columns() -> Iterator[Row]:
    for keys, bound in (("int", 2.5), ("str", 3)):
        work = works.columns(keys, 100_000, 4_000_000)
        peers = "|".join(name for name in work.impls if name != OURS)
        yield from versus("S32", f"columns, 4,000,000 {keys} keys", work, (peers, bound))


def _long_table() -> Iterator[Row]:
    work = works.csr_from_rows(100_000, 250_000)
    case = f"from_rows -> csr, {work.entries:,} shuffled rows"
    yield from versus("S33", case, work, ("pandas", 1.3))


def _texts() -> Iterator[Row]:
    for cast_to, bound in (("TO_FLOAT", 1.5), ("TO_INT64", 2)):
        work = works.read_texts(cast_to, 1_500_000)
        yield from versus("S39", f"text values, {cast_to}", work, ("python", bound), sense="<=")


def _written() -> Iterator[Row]:
    for digits in ("few", "all"):
        work = works.write_texts(digits, 1_500_000)
        case = f"TO_STRING, float64 of {digits} digits"
        yield from versus("S40", case, work, ("python", 2), sense="<=")


def _estimator() -> Iterator[Row]:
    for method, bound in (("fit_transform", 8), ("transform", 15)):
        work = works.estimator(method, 1000, SOME_MAPS)
        yield from versus("S24", f"estimator, {method}", work, ("scikit-learn", bound))


def _records() -> Iterator[Row]:
    goals = {"json": (7, 5), "lists": (4, 4), "None": (8, 8)}
    cases = [(kind, np.float64) for kind in workloads.RECORDS] + [
        (workloads.RECORDS[0], np.float32)
    ]
    for kind, dtype in cases:
        for method, bound in zip(
            ("transform", "fit_transform"), goals.get(kind, (12, 8)), strict=True
        ):
            work = works.records(method, kind, SOME_MAPS, dtype)
            case = f"{method}, {kind}, {dtype.__name__}"
            yield from versus("S28", case, work, ("scikit-learn", bound))
    work = works.row_sums(works.records("fit_transform", workloads.RECORDS[0], SOME_MAPS))
    yield from versus("S28", "fit_transform, the first; keys hashed", work, (HASHER, 1))


def _memory(target: str, case: str, measurement: str, bound: float) -> Iterator[Row]:
    """Compare the rise of the resident peak in a fresh process with the size of the result."""
    extra, result = measure.fresh(measurement)
    yield Row(target, case, "<=", bound, extra, "result", result, unit="B")


def _index_memory() -> Iterator[Row]:
    index = works.build_index(1_000_000).impls[OURS]()().index
    size = sum(np.asarray(part).nbytes for part in index) / 1_000_000
    case = "index of 1,000,000 int64 words, a word"
    yield Row("M3", case, "<=", 3.5, size, "the word", 8, unit="B")


TARGETS: dict[str, Callable[[], Iterator[Row]]] = {
    "S1": _int_dicts,
    "S2": partial(_dicts, "S2", "int keys", "int", "fromiter", 4),
    "S3": _text_dicts,
    "S4": partial(_dicts, "S4", "str keys of JSON", "json", "scikit-learn", 10),
    "S5": partial(_arrays, "S5", 100, 1000, 100_000),
    "S6": partial(_arrays, "S6", 1_000_000),
    "S7": _dense,
    "S8": _arrow_int,
    "S9": _arrow_text,
    "S10": partial(_order, "S10", "narrow", 5, 5),
    "S11": partial(_order, "S11", "wide", 2.2, 2.5),
    "S12": partial(_order, "S12", "ascending", 8, 8),
    "S13": _order_dict,
    "S14": _scatter,
    "S15": _one_dict,
    "S16": _one_wide_dict,
    "S17": _index,
    "S18": _learn,
    "S19": _start,
    "S20": _first_batch,
    "S21": _threads,
    "S22": _growth,
    "S23": _model,
    "S24": _estimator,
    "S25": _small_work,
    "S26": _first_compiled,
    "S27": _choice,
    "S28": _records,
    "S29": _few_maps,
    "S30": _wide_model,
    "S31": _command,
    "S32": _columns,
    "S33": _long_table,
    "S34": _few_dicts,
    "S35": _small_threads,
    "S36": _long_batch,
    "S37": _shuffled,
    "S38": _back_to_dicts,
    "S39": _texts,
    "S40": _written,
    "S41": _other_mappings,
    "S42": _text_arrays,
    "S43": _duplicates,
    "M1": partial(_memory, "M1", "peak extra memory, arrays -> csr", "csr_memory", 1.1),
    "M2": partial(_memory, "M2", "peak extra memory, dicts -> csr", "generator_memory", 2),
    "M3": _index_memory,
    "M4": partial(
        _memory, "M4", "peak extra memory, records -> fit_transform", "records_memory", 1.5
    ),
}


def rows(target: str) -> Iterator[Row]:
    """Measure one target; what goes wrong is a row, too."""
    try:
        yield from TARGETS[target]()
    except Exception as error:  # noqa: BLE001 - one target must not end the run of the others
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        yield Row(target, "", ">=", 0.0, problem=reason)


# --- output ---------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Name the machine and the versions that were measured."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the targets that are asked for, all without arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="S1 .. S43, M1 .. M4")
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON, too")
    parser.add_argument("--plot", metavar="FOLDER", help="draw speed.svg and targets.svg there")
    options = parser.parse_args(arguments)
    unknown = [target for target in options.targets if target not in TARGETS]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}")
    # Before minutes of measuring, so that nothing is lost.
    if options.json:
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    if options.plot:
        Path(options.plot).mkdir(parents=True, exist_ok=True)
    about = machine()
    print(about["machine"])
    print(", ".join(f"{name} {number}" for name, number in about["versions"].items()))
    print(works.load_kernels())
    print(f"{'':<65} {'ours':>9}  {'peer':>25}  {'ratio':>7}  target")
    table = []
    for target in options.targets or TARGETS:
        for row in rows(target):
            print(row, flush=True)
            table.append(row)
    print(f"{sum(row.reached is True for row in table)} of {len(table)} lines reached")
    if options.json:
        document = {**about, "rows": [row.record() for row in table]}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        pictures.draw(table, Path(options.plot))
    return 0


if __name__ == "__main__":
    sys.exit(main())
