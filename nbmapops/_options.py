"""Options: what an operator was asked to do, checked once, resolved into a plan and a policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._constants import INT64_MAX, INT64_MIN
from nbmapops._engine.dispatch import TABLE, refused_type
from nbmapops._foreign import let_out
from nbmapops._reading.columns import is_integer
from nbmapops._reading.scalars import exact_value, value_kind_of
from nbmapops.errors import show

if TYPE_CHECKING:
    from collections.abc import Container

    from nbmapops._engine.dispatch import Cell
    from nbmapops._vocabulary import Vocabulary


class Policy(NamedTuple):
    """What a mode of semantics means, resolved when an operator is built."""

    skip_unknown: bool  # keys outside the vocabulary, or >= max_map, are left out
    first_wins: bool  # of a repeated key the first entry counts; words may repeat, too
    spec_types: bool  # only the map types of the ONNX-ML text are taken (DictVectorizer)
    rules: str  # of conversion, see _values.py
    missing_text: str  # at positions without an entry


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator for one kind of key, as the engines need it."""

    operator: str
    form: str  # "VOCABULARY", "SPARSE" or "DENSE"
    key_kind: str
    width: int  # columns of the result; 0 for DENSE
    target: str | None  # kind of the result; None: that of the values
    fill: Any  # None: 0, or the policy's text
    policy: Policy
    vocabulary: Vocabulary | None = None
    unknown_columns: int = 0  # the last columns, which unknown keys share

    @property
    def expands(self) -> bool:
        """Whether a key may have several columns, or unknown keys have some."""
        repeated = self.vocabulary is not None and self.vocabulary.copies is not None
        return repeated or self.unknown_columns > 0

    @property
    def is_plain(self) -> bool:
        """Whether a shortcut may write values as they are: nothing to convert, fill or expand."""
        return (
            self.form == "VOCABULARY"
            and self.target is None
            and self.fill is None
            and not self.policy.first_wins
            and not self.expands
        )

    @property
    def skip_large(self) -> bool:
        """Whether an integer beyond int64, which cannot be a word, is skipped as an unknown key."""
        return self.form == "VOCABULARY" and self.policy.skip_unknown

    def result_kind(self, value_kind: str) -> str:
        """Return the kind of the result for values of this kind."""
        return self.target or value_kind

    def cell(self, value_kind: str) -> Cell:
        """Return the cell of the dispatch table for values of this kind, or raise the TypeError."""
        # DictVectorizer converts values to `dtype` first.
        kind = self.result_kind(value_kind) if self.form == "VOCABULARY" else value_kind
        cell = TABLE.get((self.operator, self.form, self.key_kind, kind))
        spec = self.policy.spec_types
        if kind == "string" and self.unknown_columns:
            raise TypeError(
                f"{self.operator}: values must be numbers with unknown_columns, where values that "
                "meet are added up; these are text"
            )
        if cell is None or (spec and not cell.spec):
            raise refused_type(self.operator, self.form, self.key_kind, kind, spec=spec)
        return cell

    def fill_for(self, kind: str) -> Any:
        """Return the scalar at positions without an entry."""
        if self.fill is not None:
            return exact_fill(self.operator, self.fill, kind)
        return self.policy.missing_text if kind == "string" else 0


def exact_fill(operator: str, fill: Any, kind: str) -> Any:
    """Return `fill` as a scalar of this kind, or raise where it does not fit exactly."""
    text = isinstance(fill, str)
    if text != (kind == "string"):
        raise ValueError(f"{operator}: fill_value {show(fill)} does not fit results of {kind}")
    if text:
        return fill
    if kind == "int64":
        fits = INT64_MIN <= fill <= INT64_MAX and int(fill) == fill  # false for NaN
        result: Any = int(fill) if fits else None
    else:
        try:
            with np.errstate(over="ignore"):
                result = float(np.float32(fill)) if kind == "float32" else float(fill)
            fits = result == fill or math.isnan(fill)
        except OverflowError as error:  # an int beyond all floats
            let_out(error)
            fits = False
    if not fits:
        raise ValueError(f"{operator}: fill_value {show(fill)} has no exact {kind}")
    return result


def is_one_of(value: object, options: Container[str]) -> bool:
    """Tell whether an argument of any type is one of these words."""
    return isinstance(value, str) and value in options


def policy_of(operator: str, semantics: object, handle_unknown: object = None) -> Policy:
    """Return the policy of a mode; `handle_unknown`, where given, wins."""
    if not is_one_of(semantics, ("strict", "onnxruntime")):
        raise ValueError(
            f'{operator}: semantics must be "strict" or "onnxruntime", not {show(semantics)}'
        )
    if handle_unknown is not None and not is_one_of(handle_unknown, ("error", "ignore")):
        raise ValueError(
            f'{operator}: handle_unknown must be "error" or "ignore", not {show(handle_unknown)}'
        )
    strict = semantics == "strict"
    vectorizer = operator == "DictVectorizer"
    return Policy(
        skip_unknown=handle_unknown == "ignore" or (handle_unknown is None and not strict),
        first_wins=not strict,
        spec_types=vectorizer and not strict,
        rules="exact" if vectorizer else str(semantics),
        # That library fills missing text so in CastMap only.
        missing_text="" if strict or vectorizer else "0.f",
    )


def check_fill(operator: str, fill: Any, kind: str | None) -> Any:
    """Return fill_value as a Python scalar; `kind` is that of all results, where it is fixed."""
    if fill is None:
        return None
    if isinstance(fill, str):
        fill = str.__str__(fill)
    elif value_kind_of(fill) is not None:
        exact = exact_value(fill)
        if exact is None:
            raise ValueError(f"{operator}: fill_value {show(fill)} has no exact int64 or float64")
        fill = exact
    else:
        raise TypeError(f"{operator}: fill_value must be a number or a str, not {show(fill)}")
    return fill if kind is None else exact_fill(operator, fill, kind)


def check_unknown_columns(
    columns: object, semantics: object, handle_unknown: object, target: str | None
) -> int:
    """Return the number of columns for unknown keys, where the other options allow some."""
    if not is_integer(columns):
        raise TypeError(
            f"DictVectorizer: unknown_columns must be an integer >= 0, not {show(columns)}"
        )
    if not 0 <= columns < 2**31:
        raise ValueError(
            f"DictVectorizer: unknown_columns must be from 0 to 2**31 - 1, not {columns}"
        )
    if columns and (semantics != "strict" or handle_unknown is not None or target == "string"):
        raise ValueError(
            "DictVectorizer: unknown_columns must be 0 with handle_unknown, with "
            'semantics="onnxruntime" and with text results: unknown keys have columns then'
        )
    return int(columns)


def check_threads(operator: str, threads: object) -> int:
    """Return the number of threads."""
    if type(threads) is not int and not is_integer(threads):
        raise TypeError(f"{operator}: threads must be an integer >= 1, not {show(threads)}")
    if threads < 1:
        raise ValueError(f"{operator}: threads must be an integer >= 1, not {threads}")
    return int(threads)


def check_sparse(plan: Plan, index_dtype: Any) -> type[np.signedinteger] | None:
    """Return the dtype of index arrays, None for the smallest; raise where csr is not possible."""
    if plan.form == "DENSE":
        raise ValueError("CastMap: csr is for SPARSE; rows of DENSE have no missing positions")
    refuse_text(plan, plan.target or "float64")
    if plan.fill not in (None, 0) or repr(plan.fill) == "-0.0":
        raise ValueError(
            f"{plan.operator}: csr leaves missing positions out, which means 0, "
            f"but fill_value is {show(plan.fill)}"
        )
    if index_dtype is None:
        return None
    try:
        dtype: np.dtype[np.generic] = np.dtype(index_dtype)
    except TypeError as error:
        let_out(error)
        dtype = np.dtype(object)
    if dtype not in (np.int32, np.int64):
        raise TypeError(
            f"{plan.operator}: index_dtype must be int32 or int64, not {show(index_dtype)}"
        )
    return np.int32 if dtype == np.int32 else np.int64


def refuse_text(plan: Plan, kind: str) -> None:
    """Raise for text results, which no sparse matrix holds."""
    if kind == "string":
        raise ValueError(
            f"{plan.operator}: csr takes numbers, and these results are text; "
            "call the operator for a dense array"
        )
