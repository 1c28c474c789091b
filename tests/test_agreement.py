"""Every way through the library agrees with the oracle, and all agree on the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbmapops
from nbmapops import CastMap, DictVectorizer

from . import reference
from .forms import (
    WAYS,
    WITH_SCIPY,
    Outcome,
    batch_arguments,
    cells_of_ragged,
    check,
    expected_csr,
    expected_rows,
    map_arguments,
    outcome,
    result_array,
    way,
)
from .reference import CAST_TARGETS, Refusal, Rows
from .strategies import Case, Maps, cast_map_cases, dict_vectorizer_cases

Operator: TypeAlias = CastMap | DictVectorizer
Calls: TypeAlias = Iterator[tuple[str, Callable[[], Any]]]


def dense_calls(
    op: Operator, batch: Maps, shape: tuple[int, ...], kind: str, threads: int
) -> Calls:
    """Every dense call: each form, plain, with threads, and into a given array."""
    for form, arguments in batch_arguments(batch):
        yield form, lambda a=arguments: op(*a())  # type: ignore[misc]
        yield f"{form}, threads", lambda a=arguments: op(*a(), threads=threads)  # type: ignore[misc]
        out = result_array(shape, kind)

        def into(arguments: Any = arguments, out: Any = out) -> Any:
            result = op(*arguments(), out=out)
            assert result is out
            return result

        yield f"{form}, out", into


def csr_calls(op: Operator, batch: Maps, threads: int) -> Calls:
    for form, arguments in batch_arguments(batch):
        yield f"csr: {form}", lambda a=arguments: op.csr(*a())  # type: ignore[misc]
        yield f"csr: {form}, threads", lambda a=arguments: op.csr(*a(), threads=threads)  # type: ignore[misc]


def agree(calls: Calls, expected: Outcome | Refusal, messages: set[str]) -> None:
    """Run the calls; `messages` collects what the errors say."""
    for name, call in calls:
        actual = outcome(call)
        try:
            check(actual, expected)
            messages |= {actual.content} if isinstance(expected, Refusal) else set()
            assert len(messages) < 2
        except AssertionError as difference:
            difference.add_note(f"called with: {name}")
            raise


def kind_of(case: Case) -> str:
    return case.attributes.get("dtype") or case.batch.value_type


@given(dict_vectorizer_cases(), st.sampled_from(WAYS), st.sampled_from([2, 3]))
def test_dict_vectorizer_agrees_on_batches(case: Case, name: str, threads: int) -> None:
    batch, fill = case.batch, case.attributes.get("fill_value")
    op = DictVectorizer(**case.attributes)
    answer = reference.dict_vectorizer(
        batch.maps, batch.value_type, key_type=batch.key_type, **case.attributes
    )
    messages: set[str] = set()
    with way(name):
        shape = (len(batch.maps), len(words(case)))
        calls = dense_calls(op, batch, shape, kind_of(case), threads)
        agree(calls, expected_rows(answer, len(words(case))), messages)
        if WITH_SCIPY and kind_of(case) != "string" and not fill:
            agree(csr_calls(op, batch, threads), csr_answer(case), messages)


def words(case: Case) -> list[Any]:
    key_type = case.batch.key_type
    found: list[Any] = case.attributes[f"{key_type}_vocabulary"]
    return found


def csr_answer(case: Case) -> Outcome | Refusal:
    attributes = {k: v for k, v in case.attributes.items() if k != "fill_value"}
    batch = case.batch
    result = reference.placed(batch.maps, batch.value_type, key_type=batch.key_type, **attributes)
    return result if isinstance(result, Refusal) else expected_csr(*result)


@given(cast_map_cases(), st.sampled_from(WAYS), st.sampled_from([2, 3]))
def test_cast_map_agrees_on_batches(case: Case, name: str, threads: int) -> None:
    batch = case.batch
    op = CastMap(**case.attributes)
    answer = reference.cast_map(batch.maps, batch.value_type, **case.attributes)
    messages: set[str] = set()
    with way(name):
        if "map_form" in case.attributes:
            agree_sparse(op, case, answer, threads, messages)
        else:
            agree_dense(op, case, answer, threads, messages)


def agree_sparse(
    op: CastMap, case: Case, answer: Rows | Refusal, threads: int, messages: set[str]
) -> None:
    batch, width = case.batch, case.attributes["max_map"]
    target = CAST_TARGETS[case.attributes["cast_to"]]
    shape = (len(batch.maps), width)
    calls = dense_calls(op, batch, shape, target, threads)
    agree(calls, expected_rows(answer, width), messages)
    if not WITH_SCIPY or target == "string" or case.attributes.get("fill_value"):
        return
    attributes = {k: v for k, v in case.attributes.items() if k != "fill_value"}
    result = reference.cast_entries(batch.maps, batch.value_type, **attributes)
    expected = result
    if not isinstance(expected, Refusal):
        expected = expected_csr(expected[0], width, expected[1])  # type: ignore[assignment]
    agree(csr_calls(op, batch, threads), expected, messages)  # type: ignore[arg-type]


def agree_dense(
    op: CastMap, case: Case, answer: Rows | Refusal, threads: int, messages: set[str]
) -> None:
    batch, ragged = case.batch, answer
    for name, arguments in batch_arguments(batch):
        for options in ({}, {"threads": threads}):
            call: Callable[[], Any] = lambda: op.ragged(*arguments(), **options)  # noqa: B023, E731
            expected: Outcome | Refusal = (
                ragged
                if isinstance(ragged, Refusal)
                else Outcome(
                    ragged.dtype, (len(ragged.rows),), cells_of_ragged(ragged.dtype, ragged.rows)
                )
            )
            agree(iter([(f"ragged: {name}", call)]), expected, messages)
    odd = None if isinstance(answer, Refusal) else reference.odd_map(answer)
    if isinstance(answer, Rows) and odd is not None:
        said = {outcome(lambda a=arguments: op(*a())) for _, arguments in batch_arguments(batch)}  # type: ignore[misc]
        assert len(said) == 1
        (error,) = said
        assert error.kind == "ValueError"
        assert f"map {odd}" in error.content
        assert "ragged" in error.content
        return
    entries = [len({key for key, _ in m}) for m in batch.maps]
    shape = (len(entries), entries[0] if entries else 0)
    target = CAST_TARGETS[case.attributes["cast_to"]]
    agree(dense_calls(op, batch, shape, target, threads), expected_rows(answer, None), messages)


@given(dict_vectorizer_cases() | cast_map_cases(), st.sampled_from(WAYS))
def test_operators_agree_on_one_map(case: Case, name: str) -> None:
    with way(name):
        for entries in case.batch.maps[:2]:
            agree_on_one_map(case, Maps(case.batch.key_type, case.batch.value_type, [entries]))


def agree_on_one_map(case: Case, batch: Maps) -> None:
    messages: set[str] = set()
    if "cast_to" in case.attributes:
        op: Operator = CastMap(**case.attributes)
        answer = reference.cast_map(batch.maps, batch.value_type, **case.attributes)
        kind = CAST_TARGETS[case.attributes["cast_to"]]
    else:
        op = DictVectorizer(**case.attributes)
        answer = reference.dict_vectorizer(
            batch.maps, batch.value_type, key_type=batch.key_type, **case.attributes
        )
        kind = kind_of(case)
    expected: Outcome | Refusal = answer if isinstance(answer, Refusal) else one_row(answer)
    shape = (0,) if isinstance(expected, Refusal) else expected.shape

    def calls() -> Calls:
        for form, arguments in map_arguments(batch):
            yield form, lambda a=arguments: op(*a)  # type: ignore[misc]
            out = result_array(shape, kind)
            if isinstance(expected, Outcome):
                yield f"{form}, out", lambda a=arguments, out=out: op(*a, out=out)  # type: ignore[misc]

    agree(calls(), expected, messages)
    # A batch of this one map gives the same row, or the same error.
    alone = outcome(lambda: op(*batch.arrays()))
    if isinstance(expected, Refusal):
        assert alone.content in messages
    else:
        assert alone == Outcome(expected.kind, (1, *expected.shape), f"[{expected.content}]")


def one_row(answer: Rows) -> Outcome:
    rows = expected_rows(answer, len(answer.rows[0]))
    assert isinstance(rows, Outcome)
    return Outcome(rows.kind, rows.shape[1:], rows.content[1:-1])


@pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")
@given(dict_vectorizer_cases())
def test_csr_of_one_map_is_one_row(case: Case) -> None:
    if kind_of(case) == "string" or case.attributes.get("fill_value"):
        return
    for entries in case.batch.maps[:1]:
        one = Maps(case.batch.key_type, case.batch.value_type, [entries])
        op = DictVectorizer(**case.attributes)
        expected = csr_answer(Case(case.attributes, one))
        for dtype in (np.int32, np.int64):
            for form, arguments in map_arguments(one):
                call: Callable[[], Any] = lambda: op.csr(*arguments, index_dtype=dtype)  # noqa: B023, E731
                agree(iter([(form, call)]), expected, set())
                if isinstance(expected, Outcome):
                    assert call().indices.dtype == dtype


# Dicts whose types have to be found first.

scalars: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda x: ("int", x)),
    st.sampled_from([0, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, -(2**63) - 1]).map(
        lambda x: ("int", x)
    ),
    st.booleans().map(lambda x: ("int", x)),
    st.floats(width=32).map(lambda x: ("float", x)),
    st.floats(width=32).map(lambda x: ("float32", x)),
    st.sampled_from(["a", "1"]).map(lambda x: ("str", x)),
    st.sampled_from([None, b"a", [1], 1j]).map(lambda x: (type(x).__name__, x)),
)


@st.composite
def untyped_batches(draw: st.DrawFn) -> list[list[tuple[tuple[str, Any], tuple[str, Any]]]]:
    """Draw dicts of two or three kinds of value; most batches are of numbers only."""
    kinds = draw(st.lists(scalars, min_size=1, max_size=4))
    small, large = st.integers(0, 3), st.integers(2**63 - 2, 2**63)
    integers, letters = draw(st.sampled_from([small, small, large])), st.sampled_from("abcd")
    keys: st.SearchStrategy[tuple[str, Any]] = integers.map(lambda x: ("int", x))
    if draw(st.booleans()):
        keys = letters.map(lambda x: ("str", x))
    if draw(st.integers(0, 5)) == 0:
        keys = keys | st.sampled_from([("str", "z"), ("int", 5), ("bytes", b"a")])
    one = st.lists(
        st.tuples(keys, st.sampled_from(kinds)), max_size=3, unique_by=lambda entry: entry[0][1]
    )
    return draw(st.lists(one, max_size=5))


def python_scalar(tagged: tuple[str, Any]) -> Any:
    kind, value = tagged
    return np.float32(value) if kind == "float32" else value


@given(untyped_batches(), st.sampled_from(WAYS))
def test_types_of_dicts_are_found_alike(
    batch: list[list[tuple[tuple[str, Any], tuple[str, Any]]]], name: str
) -> None:
    dicts = [{python_scalar(k): python_scalar(v) for k, v in entries} for entries in batch]
    answer = reference.infer(batch)
    if isinstance(answer, Refusal):
        expected: Outcome | Refusal = answer
    else:
        made = [(answer.key_type, [[k for k, _ in m] for m in answer.maps])]
        values = [v for m in answer.maps for _, v in m]
        kind = answer.value_type or "float64"
        content = repr(made) + cells_of_ragged(kind, [values])
        expected = Outcome(kind, (len(dicts),), content)
    messages: set[str] = set()
    with way(name):
        for form in (list, tuple, iter, lambda d: (x for x in d)):

            def call(form: Any = form) -> Outcome:
                made = nbmapops.MapBatch.from_dicts(form(dicts))
                kind = "string" if made.values.dtype == object else str(made.values.dtype)
                offsets = made.offsets.tolist()
                keys = made.keys.tolist()
                key_type = "string" if made.keys.dtype == object else "int64"
                key_rows = [keys[a:b] for a, b in pairwise(offsets)]
                facts = [(key_type if keys else None, key_rows)]
                content = repr(facts) + cells_of_ragged(kind, [made.values.tolist()])
                return Outcome(kind, (len(made),), content)

            try:
                actual = call()
            except Exception as error:  # noqa: BLE001  (the class is what is compared)
                actual = Outcome(type(error).__name__, (), str(error))
            check(actual, expected)
            messages |= {actual.content} if isinstance(expected, Refusal) else set()
            assert len(messages) < 2


@given(dict_vectorizer_cases())
def test_learned_words_and_unknown_keys_agree(case: Case) -> None:
    batch = case.batch
    if not any(batch.maps):
        return
    for _, arguments in batch_arguments(batch):
        for order in ("sorted", "first_seen"):
            given_batch = arguments()
            if len(given_batch) == 3:
                given_batch = (nbmapops.MapBatch.from_arrays(*given_batch),)
            op = DictVectorizer.from_maps(*given_batch, order=order)
            assert list(op.vocabulary) == reference.learned(batch.maps, order)
    distinct = list(dict.fromkeys(words(case)))
    vocabulary: dict[str, Any] = {f"{batch.key_type}_vocabulary": distinct}
    asked = DictVectorizer(**vocabulary)
    expected = reference.unknown(batch.maps, distinct)
    for _, arguments in batch_arguments(batch):
        numbers, keys = asked.unknown(*arguments())
        assert (numbers.tolist(), keys.tolist()) == expected
