"""The library gives what the 67 cases say, in both modes and in every input form."""

from __future__ import annotations

from typing import Any

import pytest

import nbmapops

from .conformance import CASES, EXAMPLES_OF_THE_TEXT, Case
from .inputs import batch_arguments, map_arguments
from .outcomes import WITH_SCIPY, Outcome, cells, expected_csr, outcome
from .reference import Refusal, Rows, cast_entries, placed
from .strategies import DTYPES, SEMANTICS, Maps, array
from .ways import way


def build(case: Case, semantics: str) -> Any:
    return getattr(nbmapops, case.operator)(**case.attributes, semantics=semantics)


def row_of(rows: Rows) -> Outcome:
    (row,) = rows.rows
    return Outcome(rows.dtype, (len(row),), cells(rows.dtype, row))


def check(actual: Outcome, expected: Outcome | str) -> None:
    if isinstance(expected, str):
        assert actual.kind == expected
        assert actual.content.startswith(("CastMap: ", "DictVectorizer: "))
    else:
        assert actual == expected


@pytest.mark.parametrize("name", ["as shipped", "compiled engine"])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_call_gives_what_the_case_says(case: Case, semantics: str, name: str) -> None:
    answer = case.expected(semantics)
    expected = answer if isinstance(answer, str) else row_of(answer)
    batch = Maps(case.keys[0], case.values[0], [case.entries])
    try:
        op = build(case, semantics)
    except (ValueError, TypeError) as error:
        check(Outcome(type(error).__name__, (), str(error)), expected)
        return
    with way(name):
        for _, arguments in map_arguments(batch):
            check(outcome(lambda a=arguments: op(*a)), expected)  # type: ignore[misc]
        for _, make in batch_arguments(batch):
            actual = outcome(lambda a=make: op(*a()))  # type: ignore[misc]
            if isinstance(expected, Outcome):
                kind, shape, content = expected
                assert actual == Outcome(kind, (1, *shape), f"[{content}]")
            else:
                check(actual, expected)


def csr_expected(case: Case, semantics: str) -> Outcome | None:
    """What csr gives; None where the case is an error, DENSE or text."""
    attributes: dict[str, Any] = {**case.attributes, "semantics": semantics}
    if case.operator == "CastMap":
        if case.attributes.get("map_form") != "SPARSE":
            return None
        found = cast_entries([case.entries], case.values[0], **attributes)
        if isinstance(found, Refusal) or found[0] == "string":
            return None
        return expected_csr(found[0], attributes.get("max_map", 1), found[1])
    result = placed([case.entries], case.values[0], key_type=case.keys[0], **attributes)
    return None if isinstance(result, Refusal) or result[0] == "string" else expected_csr(*result)


@pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_csr_gives_what_the_case_says(case: Case, semantics: str) -> None:
    expected = csr_expected(case, semantics)
    if expected is None:
        with pytest.raises((ValueError, TypeError, KeyError)):
            build(case, semantics).csr(
                array([key for key, _ in case.entries], case.keys[0]),
                array([value for _, value in case.entries], case.values[0]),
            )
        return
    op = build(case, semantics)
    batch = Maps(case.keys[0], case.values[0], [case.entries])
    for _, make in batch_arguments(batch):
        assert outcome(lambda a=make: op.csr(*a())) == expected  # type: ignore[misc]
    for _, arguments in map_arguments(batch):
        assert outcome(lambda a=arguments: op.csr(*a)) == expected  # type: ignore[misc]


@pytest.mark.parametrize("case", EXAMPLES_OF_THE_TEXT, ids=lambda case: case.name)
def test_example_of_the_text(case: Case) -> None:
    """The keys and values as the text prints them: two arrays in, one array out."""
    op = getattr(nbmapops, case.operator)(**case.attributes)
    (key_type, keys), (value_type, values) = case.keys, case.values
    assert isinstance(case.strict, Rows)

    result = op(array(keys, key_type), array(values, value_type))

    assert result.dtype == DTYPES[case.strict.dtype]
    assert result.shape == (len(case.strict.rows[0]),)
    assert result.tolist() == case.strict.rows[0]


def test_sentence_of_the_text() -> None:
    op = nbmapops.DictVectorizer(string_vocabulary=["a", "c", "b", "z"])

    assert op({"a": 4, "c": 8}).tolist() == [4, 8, 0, 0]
