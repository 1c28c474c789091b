"""Engine, run: what a call does: read the input, choose an engine, run, or tell the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nbmapops._engine import choose, plain, rows, stream
from nbmapops._engine.blocks import BadRow, check_out, csr_array_of
from nbmapops._options import refuse_text
from nbmapops._reading.mappings import MapReader
from nbmapops._semantics import rerun

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._engine.choose import Part
    from nbmapops._options import Plan
    from nbmapops._reading.entries import Entries
    from nbmapops._reading.inputs import Input

    Ordered = tuple[Array, Array]

Result = TypeVar("Result")


def _run(
    plan: Plan,
    given: Input,
    part: Part,
    run_plain: Callable[[Entries], Result],
    run_compiled: Callable[[Entries], Result],
) -> Result:
    """Run one of two ways over all entries; where a map is bad, raise the error of the first."""
    entries, bad = given.read_all()
    if bad is not None:
        _tell_first(plan, entries, part)
        raise bad.error
    try:
        return run_compiled(entries) if _is_compiled(given, entries, part) else run_plain(entries)
    except BadRow as row:
        bad_row = row
    return _tell(plan, entries, bad_row)


def _is_compiled(given: Input, entries: Entries, part: Part) -> bool:
    source = given.source
    if isinstance(source, MapReader) and source.listed:
        return source.compiled  # chosen for reading and this together
    return choose.compiled(len(entries.values), len(entries.offsets) - 1, part)


def _tell(plan: Plan, entries: Entries, bad: BadRow) -> NoReturn:
    keys, values = entries.map(bad.number)
    rerun(plan, bad.number, keys, values, entries.value_kind)


def _tell_first(plan: Plan, entries: Entries, part: Part) -> None:
    """Convert the maps before one that cannot be read, for the sake of their errors."""
    if not len(entries.values):  # which have no type of value yet
        return
    ordered = plan.form == "DENSE"
    kernel: Part = "order" if ordered else "csr"
    use = choose.compiled(len(entries.values), len(entries.offsets) - 1, kernel)
    engine: Any = rows if use else plain
    try:
        if part == "csr":
            _refuse_text(plan, entries)
        (engine.ordered if ordered else engine.csr)(plan, entries)
    except BadRow as row:
        bad_row = row
    else:
        return
    _tell(plan, entries, bad_row)


def _refuse_text(plan: Plan, entries: Entries) -> None:
    """Raise for text results of CSR; keys of the wrong type go first, as a dict shows them so."""
    if len(entries.values) and entries.keys.kind != plan.key_kind:
        raise BadRow(entries.map_of(0))
    refuse_text(plan, plan.result_kind(entries.value_kind))


def dense(plan: Plan, given: Input, out: Array | None, threads: int) -> Array:
    """Return the dense result of VOCABULARY and SPARSE: (B, width), or (width,) for one map."""
    source, one = given.source, given.one
    if one and isinstance(source, MapReader):
        row = plain.one(plan, source, out)
        if row is not None:
            return row
    result = _run(
        plan,
        given,
        "dense",
        lambda entries: plain.dense(plan, entries, out, one=one),
        lambda entries: rows.dense(plan, entries, out, threads, one=one),
    )
    if out is not None:
        return out
    return result[0] if one else result


def csr(plan: Plan, given: Input, index_dtype: type | None, threads: int) -> csr_array:
    """Return the sparse result of VOCABULARY and SPARSE."""
    source = given.source
    if isinstance(source, MapReader) and threads == 1 and not _needs_value_kind(plan):
        return csr_array_of(stream.csr(plan, source, index_dtype), plan.width)

    def numbers(entries: Entries) -> Entries:
        _refuse_text(plan, entries)
        return entries

    parts = _run(
        plan,
        given,
        "csr",
        lambda entries: plain.csr(plan, numbers(entries), index_dtype),
        lambda entries: rows.csr(plan, numbers(entries), index_dtype, threads),
    )
    return csr_array_of(parts, plan.width)


def _needs_value_kind(plan: Plan) -> bool:
    """Tell whether rows depend on the type of all values of a batch, which its last map decides.

    It must be one of the ONNX-ML text; and sums of unknown keys are made in it.
    """
    return plan.policy.spec_types or (plan.unknown_columns > 0 and plan.target is None)


def ordered(plan: Plan, given: Input, threads: int) -> tuple[Array, Array]:
    """Return the values of each map by ascending key, and their offsets: DENSE."""
    return _run(
        plan,
        given,
        "order",
        lambda entries: plain.ordered(plan, entries),
        lambda entries: rows.ordered(plan, entries, None, threads),
    )


def ordered_dense(plan: Plan, given: Input, out: Array | None, threads: int) -> Array:
    """Return the values by ascending key as (B, n), or (n,) for one map: DENSE."""
    if given.one and isinstance(given.source, MapReader):
        row = plain.one(plan, given.source, out)
        if row is not None:
            return row
    kind = plan.result_kind("float32")

    def placed(
        found: Entries, run: Callable[[Array | None], Ordered]
    ) -> tuple[Entries, Array | None, Ordered]:
        direct = _direct_out(plan, found, out, kind, one=given.one)
        return found, direct, run(direct)

    entries, direct, (result, offsets) = _run(
        plan,
        given,
        "order",
        lambda found: placed(found, lambda to: plain.ordered(plan, found, to)),
        lambda found: placed(found, lambda to: rows.ordered(plan, found, to, threads)),
    )
    if not given.one:
        result = result.reshape(_shape_of_equal_maps(offsets))
    if out is None:
        return result
    target = check_out(plan, out, result.shape, kind, entries)
    if direct is None or kind == "string":
        target[...] = result
    return out


def _direct_out(
    plan: Plan, entries: Entries, out: Array | None, kind: str, *, one: bool
) -> Array | None:
    """Return `out` where the values can be written there at once."""
    if out is None or plan.policy.first_wins:
        return None
    maps = len(entries.offsets) - 1
    shape = (maps, int(entries.offsets[1]) if maps else 0)[one:]
    # Where `out` does not fit, or maps differ in length, a bad map is told first.
    if np.shape(out) != shape or np.size(out) != len(entries.values):
        return None
    return check_out(plan, out, shape, kind, entries)


def _shape_of_equal_maps(offsets: Array) -> tuple[int, int]:
    lengths = np.diff(offsets)
    if not len(lengths):
        return 0, 0
    odd = np.flatnonzero(lengths != lengths[0])
    if odd.size:
        raise ValueError(
            f"CastMap: map {odd[0]} has {lengths[odd[0]]} entries where map 0 has "
            f"{lengths[0]}, so the batch is not a matrix; ragged() gives values and offsets"
        )
    return len(lengths), int(lengths[0])


def known_columns(plan: Plan, entries: Entries) -> Array:
    """Return the column of each entry of a vocabulary, -1 for an unknown key."""
    use = choose.compiled(len(entries.values), 0, "lookup")
    try:
        return rows.known_columns(plan, entries) if use else plain.known_columns(plan, entries)
    except BadRow as row:
        bad_row = row
    return _tell(plan, entries, bad_row)
