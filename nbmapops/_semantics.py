"""One map in plain Python: what the operators mean, and the author of every message.

`one_map` is the meaning of both operators for one map. The compiled kernels only say which map is
the first bad one; `one_map` runs that map again and raises. It also is the path of a small single
map, which needs no compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmapops import _values
from nbmapops._reading.scalars import cast_error, exact_map, kinds_of_map
from nbmapops.errors import DuplicateKeyError, UnknownKeyError, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._options import Plan


def one_map(
    plan: Plan, number: int, keys: Sequence[Any], values: Sequence[Any], value_kind: str | None
) -> tuple[list[int], list[Any], str]:
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
    keys, values = exact_map(where, keys, values, value_kind)
    value_kind = value_kind or "float64"
    if plan.form == "SPARSE":
        _check_range(where, keys, plan)
    columns = _columns(plan, keys)
    entries = _distinct(where, keys, columns, plan)
    for entry in entries:
        if columns[entry] < 0:
            raise _unknown_error(where, keys[entry], plan)
    kind = plan.result_kind(value_kind)
    results = [values[entry] for entry in entries]
    if kind != value_kind or plan.policy.rules == "onnxruntime":
        results = _converted(where, keys, values, entries, (value_kind, kind, plan.policy.rules))
    if plan.form == "DENSE":
        order = sorted(range(len(entries)), key=lambda position: keys[entries[position]])
        return list(range(len(order))), [results[position] for position in order], kind
    return [columns[entry] for entry in entries], results, kind


def _converted(
    where: str,
    keys: Sequence[Any],
    values: Sequence[Any],
    entries: Sequence[int],
    conversion: tuple[str, str, str],
) -> list[Any]:
    results = []
    for entry in entries:
        try:
            results.append(_values.cast_one(values[entry], *conversion))
        except ValueError as reason:
            raise cast_error(where, keys[entry], values[entry], conversion[1], reason) from None
    return results


def _check_range(where: str, keys: Sequence[int], plan: Plan) -> None:
    for key in keys:
        if key < 0:
            raise ValueError(f"{where}: key {show(key)} is negative; SPARSE takes keys from 0")
        if key >= plan.width and not plan.policy.skip_unknown:
            raise ValueError(
                f"{where}: key {show(key)} is beyond max_map={plan.width}; SPARSE takes keys below "
                "max_map"
            )


def _columns(plan: Plan, keys: Sequence[Any]) -> list[int]:
    """Return the column of each key, -1 for one that has none."""
    if plan.vocabulary is not None:
        column_of = plan.vocabulary.columns
        return [column_of.get(key, -1) for key in keys]
    if plan.form == "SPARSE":
        return [key if key < plan.width else -1 for key in keys]
    return list(range(len(keys)))


def _distinct(where: str, keys: Sequence[Any], columns: Sequence[int], plan: Plan) -> list[int]:
    """Return the entries that count: without skipped ones, each column once."""
    seen: set[Any] = set()
    entries = []
    for entry, key in enumerate(keys):
        column = columns[entry]
        if column < 0 and plan.policy.skip_unknown:
            continue
        # Two words of an Arrow dictionary may be one column, so columns are compared, where a
        # key has one.
        same: Any = column if column >= 0 and plan.form != "DENSE" else ("key", key)
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
