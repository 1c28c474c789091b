"""Semantics: one map in plain Python: what the operators mean, and the author of every message.

`one_map` is the meaning of both operators for one map. The compiled kernels only say which map is
the first bad one; `one_map` runs that map again and raises. The plain engine runs nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops import _values
from nbmapops._foreign import let_out
from nbmapops._reading.scalars import DTYPES, cast_error, changed_error, exact_map, kinds_of_map
from nbmapops._vocabulary import unknown_column
from nbmapops.errors import DuplicateKeyError, UnknownKeyError, show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from nbmapops._options import Plan
    from nbmapops._types import Key, Value
    from nbmapops._vocabulary import Vocabulary


def one_map(
    plan: Plan,
    number: int,
    keys: Sequence[object],
    values: Sequence[object],
    value_kind: str | None,
) -> tuple[list[int], list[Value], str]:
    """Run one map.

    The steps are in the order that decides which error a bad map gives: type, range, repeated
    key, unknown key, cast; inside a step the lowest entry.

    Parameters
    ----------
    plan : Plan
    number : int
        Of the map, for messages.
    keys, values : sequences of scalars
    value_kind : str or None
        The kind that the batch's values have; None: this map decides.

    Returns
    -------
    columns : list of int
        Where the values belong in the row.
    values : list
        Converted to the kind of the result.
    kind : str
        Of the result.
    """
    where = f"{plan.operator}: map {number}"
    _, value_kind = kinds_of_map(where, keys, values, plan.key_kind, value_kind)
    keys, values = exact_map(where, keys, values, value_kind, skip_large=plan.skip_large)
    return exact_one_map(plan, number, keys, values, value_kind or "float64")


def exact_one_map(
    plan: Plan,
    number: int,
    keys: Sequence[Key],
    values: Sequence[Value],
    value_kind: str,
    *,
    converted: bool = False,
) -> tuple[list[int], list[Value], str]:
    """Run one map whose types are checked already: keys and values are exact, of these kinds.

    `converted` says that the values have the kind of the result already.
    """
    where = f"{plan.operator}: map {number}"
    if plan.form == "SPARSE":
        _check_range(where, keys, plan)
    columns = _columns(plan, keys)
    same = keys if plan.form == "DENSE" else columns
    results: Sequence[Value] = values
    entries: Sequence[int] = range(len(keys))
    if len(set(same)) < len(same) or -1 in columns:
        entries = _distinct(where, keys, columns, plan)
        for entry in entries:
            if columns[entry] < 0 and not plan.unknown_columns:
                raise _unknown_error(where, keys[entry], plan)
        columns = [columns[entry] for entry in entries]
        results = [values[entry] for entry in entries]
    kind = plan.result_kind(value_kind)
    if not converted and (kind != value_kind or plan.policy.rules == "onnxruntime"):
        results = _converted(where, keys, values, entries, (value_kind, kind, plan.policy.rules))
    if plan.vocabulary is not None and plan.vocabulary.copies is not None:
        return _repeated(plan.vocabulary, columns, results, kind)
    if plan.unknown_columns:
        return _hashed(where, plan, keys, columns, results, kind)
    if plan.form == "DENSE":
        order = sorted(range(len(entries)), key=[keys[entry] for entry in entries].__getitem__)
        return list(range(len(order))), [results[position] for position in order], kind
    return columns, list(results), kind


def rerun(
    plan: Plan,
    number: int,
    keys: Sequence[object],
    values: Sequence[object],
    value_kind: str | None,
) -> NoReturn:
    """Raise the error of a bad map: `one_map` runs it again and says what is wrong.

    Where it finds nothing, the data have changed since.
    """
    one_map(plan, number, keys, values, value_kind)
    raise changed_error(f"{plan.operator}: map {number}")


def _hashed(
    where: str,
    plan: Plan,
    keys: Sequence[Key],
    columns: Sequence[int],
    values: Sequence[Value],
    kind: str,
) -> tuple[list[int], list[Value], str]:
    """Give unknown keys their columns; values that meet there are added up."""
    known = plan.width - plan.unknown_columns
    sums: dict[int, Value] = {}
    exact: Any = DTYPES[kind].type
    for key, column, value in zip(keys, columns, values, strict=True):
        place = column if column >= 0 else known + unknown_column(key, plan.unknown_columns)
        if place in sums:
            with np.errstate(all="ignore"):
                both = exact(sums[place]) + exact(value)
            if kind == "int64" and int(both) != int(sums[place]) + int(value):
                raise OverflowError(
                    f"{where}: key {show(key)}: the sum of the values in the column {place} of "
                    "unknown keys does not fit in int64"
                )
            both = exact(np.nan) if both != both else both  # noqa: PLR0124 (see `add_at`)
            sums[place] = both.item() if kind == "int64" else both
        else:
            sums[place] = value
    return list(sums), list(sums.values()), kind


def _repeated(
    vocabulary: Vocabulary, columns: Sequence[int], values: Sequence[Value], kind: str
) -> tuple[list[int], list[Value], str]:
    """Give the value of a repeated word to all columns of that word."""
    assert vocabulary.copies is not None
    later, first = (part.tolist() for part in vocabulary.copies)
    value_at = dict(zip(columns, values, strict=True))
    for copy, original in zip(later, first, strict=True):
        if original in value_at:
            value_at[copy] = value_at[original]
    return list(value_at), list(value_at.values()), kind


def _converted(
    where: str,
    keys: Sequence[Key],
    values: Sequence[Value],
    entries: Sequence[int],
    conversion: tuple[str, str, str],
) -> list[Value]:
    results = []
    for entry in entries:
        try:
            value = values[entry]
            value = float(value) if conversion[0] == "float32" else value
            results.append(_values.cast_one(value, *conversion))
        except ValueError as reason:
            let_out(reason)
            raise cast_error(where, keys[entry], values[entry], conversion[1], reason) from None
    return results


def _check_range(where: str, keys: Sequence[Any], plan: Plan) -> None:
    for key in keys:
        if key < 0:
            raise ValueError(
                f"{where}: key {show(key)} must not be negative; SPARSE takes keys from 0"
            )
        if key >= plan.width and not plan.policy.skip_unknown:
            raise ValueError(
                f"{where}: key {show(key)} must be below max_map={plan.width}; "
                "pass a larger max_map"
            )


def _columns(plan: Plan, keys: Sequence[Any]) -> list[int]:
    """Return the column of each key, -1 for one that has none."""
    if plan.vocabulary is not None:
        column_of = plan.vocabulary.columns
        return [column_of.get(key, -1) for key in keys]
    if plan.form == "SPARSE":
        return [key if key < plan.width else -1 for key in keys]
    return list(range(len(keys)))


def _distinct(where: str, keys: Sequence[Key], columns: Sequence[int], plan: Plan) -> list[int]:
    """Return the entries that count: without skipped ones, each column once."""
    seen: set[object] = set()
    entries = []
    for entry, key in enumerate(keys):
        column = columns[entry]
        if column < 0 and plan.policy.skip_unknown:
            continue
        # Two words of an Arrow dictionary may be one column, so columns are compared, where a
        # key has one.
        same: object = column if column >= 0 and plan.form != "DENSE" else ("key", key)
        if same in seen:
            if plan.policy.first_wins:
                continue
            raise DuplicateKeyError(
                f"{where}: key {show(key)} is repeated; MapBatch.sum_duplicates() adds up the "
                "values of repeated keys"
            )
        seen.add(same)
        entries.append(entry)
    return entries


def _unknown_error(where: str, key: object, plan: Plan) -> UnknownKeyError:
    words = len(plan.vocabulary or ())
    return UnknownKeyError(
        f"{where}: key {show(key)} is not in {plan.key_kind}_vocabulary ({words} words); "
        'pass handle_unknown="ignore" to skip unknown keys'
    )
