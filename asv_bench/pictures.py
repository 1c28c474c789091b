"""The pictures of ``compare.py``: about ten bars for readers, and every line of the table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.works import HASHER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from compare import Row

OURS, MISSED, PEER = "#3b75af", "#d1762b", "#a8a8a8"

# What readers hold: what is done with it, the target, how its case begins, who the peer is.
SPEEDS = {
    "A list of dicts": [
        ("integer keys to sparse matrix", "S1", "dicts", "scikit-learn"),
        ("text keys to sparse matrix", "S3", "dicts", "scikit-learn"),
        ("parsed JSON to sparse matrix", "S4", "dicts", "scikit-learn"),
        ("the text keys, hashed by the peer", "S3", "the same", HASHER),
    ],
    "Records of text and numbers": [
        ("learn and transform", "S28", "fit_transform, 3 texts, 4 n", "scikit-learn"),
        ("the same, hashed by the peer", "S28", "fit_transform, the first", HASHER),
    ],
    "Arrays and columns": [
        ("arrays to sparse matrix", "S5", "arrays -> csr, V=1,000", ""),
        ("Arrow map column to sparse matrix", "S8", "Arrow", ""),
        ("long table to sparse matrix", "S33", "from_rows", ""),
    ],
    "One dict, or a whole model": [
        ("one dict to one row", "S15", "one dict, V=1,000, kernels", "onnxruntime"),
        ("ONNX model, 10,000 dicts", "S23", "MapSession", "onnxruntime"),
    ],
}
FIRST_CALLS = [
    ("import, and one small dict", "S19", "import"),
    ("a list of dicts to sparse matrix,\nup to 20,000 entries", "S25", "first op.csr(maps)"),
    ("a million entries, kernels on disk", "S20", "first int dicts -> csr, 1,000,000"),
    ("a million entries, nothing compiled yet", "S26", "first int dicts"),
]
PANELS = [
    (">=", "s", "times as fast as the peer (longer is better)"),
    ("<=", "s", "share of the other time (shorter is better)"),
    ("<=", "B", "share of the other size (shorter is better)"),
]


def draw(table: Sequence[Row], folder: Path) -> None:
    """Write speed.svg and targets.svg, each if the table has lines for it."""
    _save(folder / "speed.svg", _speed_panels(table), 8.5)
    _save(folder / "targets.svg", _target_panels(table), 11)


def _save(file: Path, panels: Sequence[tuple[float, Callable[[Any], None]]], width: float) -> None:
    """Draw panels, each so many lines high, one below the other."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if not panels:
        return
    heights = [height for height, _ in panels]
    figure = Figure(figsize=(width, 0.24 * sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, (_, fill) in zip(axes, panels, strict=True):
        fill(axis)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        axis.set_axisbelow(True)
        axis.grid(axis="x", linewidth=0.4)
    # Text stays text: a tenth of the size. Nothing in the file depends on when it was drawn.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "nbmapops"}):
        figure.savefig(file, metadata={"Date": None})


def _beside(axis: Any, end: float, place: float, text: str, size: float) -> None:
    """Write a text to the right of where a bar ends."""
    offset = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
    axis.annotate(text, (end, place), fontsize=size, **offset)


def _find(table: Sequence[Row], target: str, case: str, peer: str = "") -> Row | None:
    return next(
        (
            row
            for row in table
            if row.target == target
            and row.case.startswith(case)
            and row.ratio
            and (not peer or row.peer == peer)
        ),
        None,
    )


# --- for readers ----------------------------------------------------------------------------------


def _speed_panels(table: Sequence[Row]) -> list[tuple[float, Callable[[Any], None]]]:
    panels: list[tuple[float, Callable[[Any], None]]] = []
    bars: list[tuple[str, Row | None]] = []
    for group, lines in SPEEDS.items():
        found = [(text, _find(table, *where)) for text, *where in lines]
        if any(row for _, row in found):
            bars += [(group, None), *((text, row) for text, row in found if row)]
    if bars:
        panels.append((len(bars) + 2.5, lambda axis: _speed_bars(axis, bars)))
    calls = [(text, row) for text, *where in FIRST_CALLS if (row := _find(table, *where))]
    if calls:
        panels.append((2 * len(calls) + 3, lambda axis: _first_calls(axis, calls)))
    return panels


def _speed_bars(axis: Any, bars: Sequence[tuple[str, Row | None]]) -> None:
    """Draw one bar a line, in groups; a group's name stands where a line without a bar is."""
    axis.set_title("Times as fast, kernels loaded (longer is better)", fontsize=10, loc="left")
    for place, (_, row) in enumerate(bars):
        if row:
            ratio = row.ratio or 0.0
            axis.barh(place, ratio, color=OURS, height=0.7)
            _beside(axis, ratio, place, f"{ratio:.2g}x {row.peer}", 9)
    axis.set_yticks(range(len(bars)), [text for text, _ in bars], fontsize=9)
    for label, (_, row) in zip(axis.get_yticklabels(), bars, strict=True):
        label.set_fontweight("normal" if row else "bold")
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.set_xlim(0, 1.35 * max(row.ratio or 0.0 for _, row in bars if row))
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xlabel("1 = as fast as the peer", fontsize=9)


def _first_calls(axis: Any, calls: Sequence[tuple[str, Row]]) -> None:
    """Draw two bars a line: the seconds of ours, and of the import that it is measured by."""
    axis.set_title(
        "First call of a fresh process, CPU seconds (shorter is better)", fontsize=10, loc="left"
    )
    for place, (_, row) in enumerate(calls):
        for seconds, shift, colour, name in (
            (row.ours or 0.0, -0.2, OURS, "nbmapops"),
            (row.theirs or 0.0, 0.2, PEER, row.peer),
        ):
            axis.barh(place + shift, seconds, color=colour, height=0.36)
            _beside(axis, seconds, place + shift, f"{seconds:.2g} s {name}", 8)
    axis.set_yticks(range(len(calls)), [text for text, _ in calls], fontsize=9)
    axis.set_ylim(len(calls) - 0.4, -0.6)
    axis.set_xscale("log")
    axis.set_xlim(0.02, 8 * max(max(row.ours or 0.0, row.theirs or 0.0) for _, row in calls))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("CPU seconds", fontsize=9)


# --- every line -----------------------------------------------------------------------------------


def _target_panels(table: Sequence[Row]) -> list[tuple[float, Callable[[Any], None]]]:
    panels: list[tuple[float, Callable[[Any], None]]] = []
    for sense, unit, title in PANELS:
        part = [row for row in table if (row.sense, row.unit) == (sense, unit) and row.ratio]
        if part:
            panels.append((len(part) + 3, partial(_ratio_bars, part, title)))
    return panels


def _ratio_bars(part: Sequence[Row], title: str, axis: Any) -> None:
    from matplotlib.ticker import NullFormatter

    places = range(len(part))
    ratios, bounds = [row.ratio or 0.0 for row in part], [row.bound for row in part]
    axis.barh(places, ratios, color=[OURS if row.reached else MISSED for row in part], height=0.7)
    for place, ratio, row in zip(places, ratios, part, strict=True):
        _beside(axis, max(ratio, row.bound), place, f"{ratio:.3g}", 8)
    axis.plot(bounds, places, "|", color="black", markersize=11, mew=2)
    names = [f"{row.target}  {row.case}  /  {row.peer}" for row in part]
    axis.set_yticks(places, names, fontsize=8)
    axis.set_ylim(len(part) - 0.4, -0.6)
    axis.set_xscale("log")
    axis.set_xlim(0.8 * min(*ratios, *bounds, 1.0), 1.6 * max(*ratios, *bounds))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.axvline(1.0, color="grey", linewidth=0.8)
    axis.set_xlabel(
        f"{title}\nblack mark: target, set before the work was done; orange: missed", fontsize=9
    )
