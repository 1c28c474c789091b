"""Command: one task on real maps, beside the loop that a reader would have written."""

from __future__ import annotations

import json
import time
from importlib import resources
from typing import TYPE_CHECKING, TypeAlias

from nbmapops import DictVectorizer, UnknownKeyError, __version__
from nbmapops._limits import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scipy.sparse import csr_array

Atoms: TypeAlias = dict[str, int]

_SHOWN = {962: "water", 702: "ethanol", 2519: "caffeine"}  # by their number in PubChem
_MANY_ENTRIES = 1_000_000


def demo() -> Iterator[str]:
    """Yield the lines of the demo: the maps, the matrix, an error, and a time beside a loop's."""
    compounds = _compounds()
    maps = list(compounds.values())
    dv = DictVectorizer.from_maps(maps)
    yield f"nbmapops {__version__}: maps in, tensors out"
    yield ""
    yield f"maps: {len(maps)} compounds of PubChem, each a dict from element to number of atoms, as"
    for number, name in _SHOWN.items():
        yield f"  {name:<9} {compounds[number]}"
    yield ""
    yield f"dv = DictVectorizer.from_maps(maps) learns {len(dv)} columns; some of dv(maps):"
    yield from _table(dv, [compounds[number] for number in _SHOWN], ["C", "H", "N", "O"])
    yield ""
    yield "Nothing is lost silently: dv({'Xe': 1}) is an error:"
    try:
        dv({"Xe": 1})
    except UnknownKeyError as error:
        yield f"  {error}"
    yield ""
    yield from _times(dv, maps)


def _compounds() -> dict[int, Atoms]:
    text = resources.files("nbmapops").joinpath("data", "compounds.jsonl").read_text("utf-8")
    rows = map(json.loads, text.splitlines())
    return {row["cid"]: row["atoms"] for row in rows}


def _table(dv: DictVectorizer, maps: list[Atoms], shown: list[str]) -> Iterator[str]:
    columns = [list(dv.vocabulary).index(word) for word in shown]
    yield " " * 11 + "".join(f"{word:>4}" for word in shown)
    for name, row in zip(_SHOWN.values(), dv(maps), strict=True):
        yield f"  {name:<9}" + "".join(f"{row[column]:>4}" for column in columns)


def _times(dv: DictVectorizer, few: list[Atoms]) -> Iterator[str]:
    from scipy.sparse import csr_array

    copies = -(-_MANY_ENTRIES // sum(map(len, few)))
    maps = [dict(atoms) for _ in range(copies) for atoms in few]
    entries = sum(map(len, maps))
    column = {word: number for number, word in enumerate(dv.vocabulary)}

    def loop() -> csr_array:
        columns, counts, ends = [], [], [0]
        for atoms in maps:
            for element, count in atoms.items():
                columns.append(column[element])
                counts.append(count)
            ends.append(len(columns))
        return csr_array((counts, columns, ends), shape=(len(maps), len(column)))

    yield f"{len(maps):,} such maps, {entries:,} entries, as one sparse matrix:"
    plain, matrix = _best(lambda: dv.csr(maps), 1)
    slow, expected = _best(loop)
    loading, fast = _compiled(lambda: dv.csr(maps))
    for name, seconds in (
        ("a loop over the items", slow),
        ("dv.csr(maps), at first", plain),
        ("dv.csr(maps), compiled", fast),
    ):
        rate = f"{digits(entries / seconds / 1e6)} million entries/s"
        yield f"  {name:<24}{digits(seconds * 1e3):>6} ms {rate:>26}"
    same = "the same matrix" if (matrix != expected).nnz == 0 else "ANOTHER MATRIX"
    at_first, later = digits(slow / plain), digits(slow / fast)
    yield f"  {same}, {at_first} times as fast at first, in plain Python, and"
    yield f"  {later} times once compiled code is loaded; that took {digits(loading)} s"


def _best(call: Callable[[], csr_array], times: int = 3) -> tuple[float, csr_array]:
    """Return the best of several times, and the result."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def _compiled(call: Callable[[], csr_array]) -> tuple[float, float]:
    """Return how long loading the compiled engine takes, and a call in it."""
    before, limits.engine = limits.engine, "compiled"
    try:
        first, _ = _best(call, 1)
        later, _ = _best(call)
    finally:
        limits.engine = before
    return first - later, later


def digits(number: float) -> str:
    """Return the number with two digits that count, and all before the point."""
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.2g}"
