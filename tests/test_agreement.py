"""Every way through the library agrees with the oracle, and all agree on the error."""

from __future__ import annotations

import random
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
from .conftest import WITHOUT_JIT
from .inputs import batch_arguments, map_arguments
from .outcomes import (
    WITH_SCIPY,
    Outcome,
    cells_of_ragged,
    check,
    expected_csr,
    expected_rows,
    outcome,
    result_array,
)
from .reference import CAST_TARGETS, INT64_MAX, INT64_MIN, Refusal, Rows
from .strategies import Case, Maps, Pairs, cast_map_cases, dict_vectorizer_cases
from .ways import WAYS, way

_FEWER = 10 if WITHOUT_JIT else 1
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


def is_zero(fill: Any) -> bool:
    """Whether a sparse matrix can leave the fill value out."""
    return not fill and repr(fill) != "-0.0"


def kind_of(case: Case) -> str:
    return case.attributes.get("dtype") or case.batch.value_type


@given(dict_vectorizer_cases(), st.sampled_from(sorted(WAYS)), st.sampled_from([2, 3]))
def test_dict_vectorizer_agrees_on_batches(case: Case, name: str, threads: int) -> None:
    batch, fill = case.batch, case.attributes.get("fill_value")
    op = DictVectorizer(**case.attributes)
    answer = reference.dict_vectorizer(
        batch.maps, batch.value_type, key_type=batch.key_type, **case.attributes
    )
    messages: set[str] = set()
    with way(name):
        width = len(words(case)) + case.attributes.get("unknown_columns", 0)
        shape = (len(batch.maps), width)
        calls = dense_calls(op, batch, shape, kind_of(case), threads)
        agree(calls, expected_rows(answer, width), messages)
        if WITH_SCIPY and kind_of(case) != "string" and is_zero(fill):
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


@given(cast_map_cases(), st.sampled_from(sorted(WAYS)), st.sampled_from([2, 3]))
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
    if not WITH_SCIPY or target == "string" or not is_zero(case.attributes.get("fill_value")):
        return
    attributes = {k: v for k, v in case.attributes.items() if k != "fill_value"}
    result = reference.cast_entries(batch.maps, batch.value_type, **attributes)
    expected = result
    if not isinstance(expected, Refusal):
        expected = expected_csr(expected[0], width, expected[1])  # type: ignore[assignment]
    agree(csr_calls(op, batch, threads), expected, messages)  # type: ignore[arg-type]


def ragged_of(answer: Rows) -> Outcome:
    return Outcome(answer.dtype, (len(answer.rows),), cells_of_ragged(answer.dtype, answer.rows))


def agree_dense(
    op: CastMap, case: Case, answer: Rows | Refusal, threads: int, messages: set[str]
) -> None:
    batch = case.batch
    for name, arguments in batch_arguments(batch):
        for options in ({}, {"threads": threads}):
            call: Callable[[], Any] = lambda: op.ragged(*arguments(), **options)  # noqa: B023, E731
            expected = answer if isinstance(answer, Refusal) else ragged_of(answer)
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


@given(dict_vectorizer_cases() | cast_map_cases(), st.sampled_from(sorted(WAYS)))
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
    if kind_of(case) == "string" or not is_zero(case.attributes.get("fill_value")):
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


@given(untyped_batches(), st.sampled_from(sorted(WAYS)))
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


# Maps large enough for every way through the kernels.


@st.composite
def large_batches(draw: st.DrawFn) -> tuple[list[int], Maps]:
    """Draw words and a batch with rows of mixed lengths: each kind of index, each way to order.

    Short rows are ordered by rank, long ones by bitmap or radix; words are a range, lie close
    together, or anywhere.
    """
    rng = random.Random(draw(st.integers(0, 2**32)))
    n_words = draw(st.sampled_from([1, 40, 63, 64, 65, 129, 1200 // _FEWER]))
    spread = draw(
        st.sampled_from(["range", "close", "wide", "clusters", "low bits equal", "high bits equal"])
    )
    low = draw(st.sampled_from([0, -5, 2**40, INT64_MIN, INT64_MAX - 4 * n_words - 8]))
    words = {
        "range": lambda: list(range(low, low + n_words)),
        "close": lambda: rng.sample(range(low, low + 3 * n_words + 2), n_words),
        "wide": lambda: list({rng.getrandbits(64) + INT64_MIN for _ in range(n_words)}),
        "clusters": lambda: [n + (n % 2 << 60) for n in rng.sample(range(-2999, 3000), n_words)],
        "low bits equal": lambda: [(n << 48) + 5 for n in rng.sample(range(-999, 1000), n_words)],
        "high bits equal": lambda: rng.sample(range(2**61, 2**61 + 2**22), n_words),
    }[spread]()
    if spread != "range":
        rng.shuffle(words)
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 9, 63, 64, 65, 70, 1200]), max_size=6))
    value_type = draw(st.sampled_from(["float32", "float64", "int64"]))
    maps = []
    for length in lengths:
        keys = rng.sample(words, min(length, len(words)))
        kind = rng.randrange(4)
        if kind < 2:
            keys.sort(reverse=kind == 1)
        maps.append(
            [(key, float(n)) if value_type[0] == "f" else (key, n) for n, key in enumerate(keys)]
        )
    return words, Maps("int64", value_type, maps)


def spoil(draw: Callable[[Any], Any], batch: Maps) -> Maps:
    """The batch with an unknown or a repeated key in one of its maps, or as it was."""
    fault = draw(st.sampled_from(["none", "unknown", "repeated"]))
    candidates = [n for n, m in enumerate(batch.maps) if len(m) > 1]
    if fault == "none" or not candidates:
        return batch
    number = draw(st.sampled_from(candidates))
    bad = list(batch.maps[number])
    at = draw(st.integers(0, len(bad) - 1))
    key = 3**38 if fault == "unknown" else bad[at - 1][0]
    bad[at] = (key, bad[at][1])
    return Maps(
        batch.key_type, batch.value_type, [*batch.maps[:number], bad, *batch.maps[number + 1 :]]
    )


@given(large_batches(), st.data())
def test_large_batches_agree(drawn: tuple[list[int], Maps], data: st.DataObject) -> None:
    vocabulary, batch = drawn
    batch = spoil(data.draw, batch)
    semantics, handle = data.draw(
        st.sampled_from([("strict", None), ("strict", "ignore"), ("onnxruntime", None)])
    )
    if semantics == "onnxruntime" and batch.value_type == "int64":
        batch = Maps("int64", "float64", [[(k, float(v)) for k, v in m] for m in batch.maps])
    attributes: dict[str, Any] = {
        "int64_vocabulary": vocabulary, "semantics": semantics, "handle_unknown": handle,
    }  # fmt: skip
    op = DictVectorizer(**attributes)
    case = Case(attributes, batch)
    answer = reference.dict_vectorizer(batch.maps, batch.value_type, key_type="int64", **attributes)
    expected = expected_rows(answer, len(vocabulary))
    messages: set[str] = set()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("arrays", lambda: op(*batch.arrays())),
        ("threads", lambda: op(*batch.arrays(), threads=2)),
        ("mappings", lambda: op([Pairs(m) for m in batch.scalars()])),
    ]
    if any(batch.maps):
        agree(iter(calls), expected, messages)
    if WITH_SCIPY and any(batch.maps):
        calls = [
            ("csr", lambda: op.csr(*batch.arrays())),
            ("csr int64", lambda: op.csr(*batch.arrays(), index_dtype=np.int64)),
            ("csr of mappings", lambda: op.csr(iter([Pairs(m) for m in batch.scalars()]))),
        ]
        if not batch.repeats:
            calls.append(("csr of dicts", lambda: op.csr([dict(m) for m in batch.scalars()])))
        agree(iter(calls), csr_answer(case), messages)


@given(large_batches(), st.data())
def test_large_maps_are_ordered_alike(drawn: tuple[list[int], Maps], data: st.DataObject) -> None:
    batch = spoil(data.draw, drawn[1])
    semantics: Any = data.draw(st.sampled_from(["strict", "onnxruntime"]))
    cast_to: Any = data.draw(st.sampled_from(["TO_FLOAT", "TO_INT64", "TO_STRING"]))
    op = CastMap(cast_to=cast_to, semantics=semantics)
    answer = reference.cast_map(batch.maps, batch.value_type, cast_to=cast_to, semantics=semantics)
    expected: Outcome | Refusal = answer if isinstance(answer, Refusal) else ragged_of(answer)
    messages: set[str] = set()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("arrays", lambda: op.ragged(*batch.arrays())),
        ("threads", lambda: op.ragged(*batch.arrays(), threads=3)),
    ]
    agree(iter(calls), expected, messages)
    for entries in batch.maps:
        one = Maps("int64", batch.value_type, [entries])
        alone = reference.cast_map(
            [entries], batch.value_type, cast_to=cast_to, semantics=semantics
        )
        keys, values, _ = one.arrays()
        row = alone if isinstance(alone, Refusal) else one_row(alone)
        agree(iter([("one map", lambda: op(keys, values))]), row, set())  # noqa: B023
