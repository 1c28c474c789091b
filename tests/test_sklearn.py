"""The estimator: the results of scikit-learn's own, by compiled code wherever maps hold numbers."""

from __future__ import annotations

import os
import pickle
import runpy
import subprocess
import sys
import tracemalloc
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbmapops import UnknownKeyError

from .conftest import WITHOUT_JIT

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer as Original
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils._param_validation import InvalidParameterError

import nbmapops.sklearn
from nbmapops import kernels
from nbmapops._reading import dictwalk
from nbmapops.sklearn import DictVectorizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def walk_in_python(
    maps: Any, first: int, kind: str, words: Any, learn: bool, keys: Any, values: Any, offsets: Any
) -> tuple[int, int]:
    """Do what `dictwalk.walk` does, where nothing is compiled."""
    key_types = {str} if kind == "string" else {int, bool}
    float_types = {float, np.float64, np.float32} if values.dtype == np.float64 else set()
    for i, item in enumerate(maps[first:]):
        start = int(offsets[i])
        if i + 1 >= len(offsets) or start + len(item) > len(keys):
            return i, dictwalk.FULL
        if type(item) not in (dict, Counter, defaultdict):
            return i, dictwalk.STOP
        for j, (key, value) in enumerate(item.items(), start):
            if type(key) not in key_types:
                return i, dictwalk.STOP
            code = words.get(key, -1) if kind == "string" else int(key)
            if kind == "string" and learn and code < 0:
                code = words[key] = len(words)
            if type(value) in (int, bool):
                exact = values.dtype == np.int64 or int(float(value)) == value
            else:
                exact = type(value) in float_types
            if not exact or not all(-(2**63) <= n < 2**63 for n in (code, value) if type(n) is int):
                return i, dictwalk.STOP
            keys[j], values[j] = code, value
        offsets[i + 1] = start + len(item)
    return len(maps) - first, dictwalk.DONE


class Paths:
    """Counts the maps that each of the two ways has read."""

    walked = 0
    original = 0


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Let the walk read the smallest batches too, and count what it reads."""
    count = Paths()
    walk = walk_in_python if WITHOUT_JIT else dictwalk.walk
    by_original = nbmapops.sklearn._Reader._read_by_original

    def counted_walk(*arguments: Any) -> tuple[int, int]:
        read, reason = walk(*arguments)
        count.walked += read
        return read, reason

    def counted_original(reader: Any, maps: Any) -> None:
        count.original += len(maps)
        by_original(reader, maps)

    monkeypatch.setattr(dictwalk, "available", lambda: True)
    monkeypatch.setattr(dictwalk, "walk", counted_walk)
    monkeypatch.setattr(nbmapops.sklearn._Reader, "_read_by_original", counted_original)
    monkeypatch.setattr(nbmapops.sklearn, "_FEW_MAPS", 0)
    monkeypatch.setattr(nbmapops.sklearn, "_FEW_ENTRIES", 0)
    return count


def cells(matrix: Any) -> Any:
    """All that a result is made of, for comparing: NaN as text, the width of index arrays not."""
    if not sparse.issparse(matrix):
        return matrix.dtype, matrix.shape, repr(matrix.tolist())
    parts = (repr(part.tolist()) for part in (matrix.data, matrix.indices, matrix.indptr))
    return type(matrix), matrix.dtype, matrix.shape, *parts


def names(estimator: Any) -> Any:
    columns = estimator.vocabulary_
    listed = [f"{type(name).__name__} {name!r}" for name in estimator.feature_names_]
    return listed, sorted(map(repr, columns.items()))


def same_as_scikit_learn(
    maps: Iterable[Any],
    others: Iterable[Any] = (),
    make: Callable[[Any], Any] = list,
    **options: Any,
) -> DictVectorizer:
    """Fit and transform by both, in every order of calls; return ours, fitted."""
    maps, others = list(maps), list(others)
    ours, theirs = DictVectorizer(**options), Original(**options)
    expected = theirs.fit_transform(make(maps))
    result = ours.fit_transform(make(maps))
    assert cells(result) == cells(expected)
    assert names(ours) == names(theirs)
    if sparse.issparse(result):
        assert result.indices.dtype == result.indptr.dtype == np.int32
        assert result.has_sorted_indices
    again: DictVectorizer = DictVectorizer(**options).fit(make(maps))
    assert names(again) == names(theirs)
    for more in (maps, others or maps[:1], maps[-1:]):
        result = again.transform(make(more))
        assert cells(result) == cells(theirs.transform(make(more)))
        if sparse.issparse(result):
            assert result.indices.dtype == result.indptr.dtype == np.int32
    return again


TEXT_MAPS = [{"b": 1.5, "a": 2.0}, {}, {"c": -0.0, "b": float("nan"), "a": 0.0}, {"a": 1}]
INT_MAPS = [{7: 1.5, 3: 2.0}, {}, {2**62: float("inf"), -1: 1.0, 3: 0.0}, {3: True}]
COUNTS = [{"b": 1, "a": 2}, {"c": 2**62, "a": True, "b": -3}]


# ------------------------------------------------------------------------- scikit-learn's own cases
def test_all_cases_of_scikit_learn_pass(tmp_path: Path) -> None:
    plugin = (
        "import sklearn.feature_extraction as module\n"
        "from nbmapops.sklearn import DictVectorizer\n"
        "module.DictVectorizer = DictVectorizer\n"
        "def pytest_collection_modifyitems(items):\n"
        "    assert all(each.module.DictVectorizer is DictVectorizer for each in items)\n"
    )
    (tmp_path / "swapped.py").write_text(plugin)
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "swapped", "-p", "no:cacheprovider",
        "-c", os.devnull, "--pyargs", "sklearn.feature_extraction.tests.test_dict_vectorizer",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert int(done.stdout.rsplit(" passed", 1)[0].split()[-1]) >= 38, done.stdout


# ------------------------------------------------------------------------- the fast path runs
MAKERS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda maps: (each for each in maps),
    "defaultdict": lambda maps: [defaultdict(float, each) for each in maps],
    "map": lambda maps: map(Counter, maps),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("maps", [TEXT_MAPS, INT_MAPS], ids=["text", "ints"])
@pytest.mark.parametrize("sort", [True, False])
def test_maps_of_numbers_are_read_by_the_walk(
    paths: Paths, make: Callable[[Any], Any], maps: Any, sort: bool
) -> None:
    same_as_scikit_learn(maps, make=make, sort=sort)

    assert paths.original == 0
    assert paths.walked == 2 * len(maps) + len(maps) + 2


@pytest.mark.parametrize("dtype", [float, np.float64, np.float32, int, np.int64])
@pytest.mark.parametrize("sparse_result", [True, False])
def test_dtypes_that_the_walk_converts(paths: Paths, dtype: Any, sparse_result: bool) -> None:
    maps = COUNTS if np.dtype(dtype).kind == "i" else TEXT_MAPS + COUNTS[:1]
    same_as_scikit_learn(maps, dtype=dtype, sparse=sparse_result)

    assert paths.original == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, bool, complex, np.longdouble])
def test_other_dtypes_are_left_to_scikit_learn(paths: Paths, dtype: Any) -> None:
    maps = [{"b": 1, "a": 2}, {"c": 0, "a": True}]
    same_as_scikit_learn(maps, dtype=dtype)

    assert paths.walked == 2  # to learn the names
    assert paths.original == 2 + 2 + 1 + 1


def test_columns_of_pandas_and_object_arrays(paths: Paths) -> None:
    pandas = pytest.importorskip("pandas")
    array = np.empty(len(TEXT_MAPS), object)
    array[:] = TEXT_MAPS
    for column in (array, pandas.Series(TEXT_MAPS)):
        assert cells(DictVectorizer().fit_transform(column)) == cells(
            Original().fit_transform(TEXT_MAPS)
        )

    assert paths.original == 0


def test_many_chunks_and_maps_larger_than_a_chunk(paths: Paths) -> None:
    rng = np.random.default_rng(0)
    size = 300 if WITHOUT_JIT else 3000
    keys, values = rng.integers(0, 1000, (size, 20)).tolist(), rng.random((size, 20)).tolist()
    maps: list[dict[Any, float]] = [
        dict(zip(map("w{}".format, each), numbers, strict=True))
        for each, numbers in zip(keys, values, strict=True)
    ]
    maps[size // 2] = {f"v{n}": float(n) for n in range(40_000)}
    same_as_scikit_learn(maps)
    same_as_scikit_learn([dict(enumerate(each.values())) for each in maps])

    assert paths.original == 0


def test_small_batches_start_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError("the walk was called")

    monkeypatch.setattr(dictwalk, "walk", refuse)
    ours = same_as_scikit_learn(TEXT_MAPS, [{"a": 1, "zz": 2}, {"b": "text"}])
    for single in ({"a": 1.5, "b": 2}, {}, OrderedDict(c=1)):
        assert cells(ours.transform(single)) == cells(Original().fit(TEXT_MAPS).transform(single))
    assert ours.transform({"a": np.bool_(True)}).toarray().tolist() == [[1, 0, 0]]
    assert ours.set_params(sparse=False).transform({"c": 1.5}).tolist() == [[0, 0, 1.5]]


def test_without_the_walk_all_is_left_to_scikit_learn(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictwalk, "available", lambda: False)
    same_as_scikit_learn(TEXT_MAPS)

    assert paths.walked == 0
    assert paths.original > 0


def test_where_the_kernels_refuse_all_is_left_to_scikit_learn(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a subinterpreter, where they raise an ImportError."""
    monkeypatch.delattr(nbmapops._reading, "dictwalk")
    monkeypatch.setitem(sys.modules, "nbmapops._reading.dictwalk", None)
    same_as_scikit_learn(TEXT_MAPS)

    assert paths.walked == 0
    assert paths.original > 0


def test_a_kernel_that_refuses_its_arrays_is_an_error(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also under ``python -O``."""
    ours = DictVectorizer().fit(TEXT_MAPS)
    monkeypatch.setattr(kernels, "vectorize_csr", lambda *_: (-2, 0))
    with pytest.raises(RuntimeError, match=r"^a kernel refused its arrays \(status -2\)$"):
        ours.transform(TEXT_MAPS)


# ------------------------------------------------------------------------- scikit-learn's code runs
ODD_MAPS: dict[str, list[Any]] = {
    "text": [{"city": "Bern", "n": 1.5}, {"city": "Rom", "n": 2}],
    "texts": [{"t": ["p", "q", "p"], "n": 7}, {"n": 9}, {"t": {"p"}}, {"t": ()}],
    "name that is one-hot too": [{"a=b": 5.0, "a": "b"}, {"a": "b"}],
    "None": [{"prev": None, "w": "ab"}, {"prev": "X", "w": "cd"}],
    "key None": [{None: 1.0}, {"a": 2.0}],
    "big int": [{"a": 2**53 + 1}, {"a": 2**80, "b": 1}],
    "NumPy ints": [{"a": np.int64(3)}, {"b": np.uint8(4)}],
    "decimal": [{"a": Decimal("1.5")}, {"b": 1}],
    "float16": [{"a": np.float16(1.5)}],
    "str subclass": [{np.str_("a"): 1.0}, {"a": 2.0}],
    "OrderedDict": [OrderedDict(b=1.0, a=2.0), {"c": 1.0}],
    "one key, number and text": [{"x": 0.5, "y": 0.25}, {"x": 0.75, "y": "0.5"}],
    "int keys with text": [{0: "p", 3: "q"}, {1: "r"}],
    "float keys": [{1.5: 1, 2: 3}, {2.0: 1}],
    "bool keys": [{False: 2.0}, {1: 3.0}],
    "tuple keys": [{("a", 1): 1.0, ("b", 0): 2.0}],
}


@pytest.mark.parametrize("maps", ODD_MAPS.values(), ids=ODD_MAPS)
@pytest.mark.parametrize("plain", [None, {"n": 0.5}, {0: 0.5, 1: 1}])
def test_maps_that_the_walk_does_not_take(paths: Paths, maps: Any, plain: Any) -> None:
    kinds = {type(key) for each in [*maps, plain or {}] for key in each}
    sort = len(kinds) == 1 or kinds <= {int, float, bool}
    sort = sort and not (int in kinds and any(isinstance(v, str) for m in maps for v in m.values()))
    plains = [plain] * 40 if plain else []
    same_as_scikit_learn([*plains, *maps, *plains, *maps], maps, sort=sort)

    assert paths.original > 0 or kinds == {bool, int}
    if plain == {"n": 0.5}:
        assert paths.walked >= len(plains)


def test_names_whose_comparing_might_run_code_end_the_walk(paths: Paths) -> None:
    ours = same_as_scikit_learn([{("a", 1): 1.0}, *repeat({"b": 1.0}, 40)], sort=False)

    assert ours.feature_names_ == [("a", 1), "b"]
    assert paths.walked == 0


def test_names_of_a_map_read_in_part_are_not_learned(paths: Paths) -> None:
    ours = same_as_scikit_learn([{"a": 1.0}, {"b": 1.0, "city": "Bern"}, {"z": 1.0}], sort=False)

    assert ours.feature_names_ == ["a", "b", "city=Bern", "z"]
    assert paths.walked > 0


@pytest.mark.parametrize("every", [2, 40, 200])
def test_odd_maps_between_plain_ones(paths: Paths, every: int) -> None:
    maps = [
        {"n": float(n), "city": f"x{n % 5}"} if n % every == 0 else {"n": float(n), f"w{n % 9}": 1}
        for n in range(600)
    ]
    same_as_scikit_learn(maps)
    same_as_scikit_learn(maps, make=iter)

    assert paths.original > 0
    assert (paths.walked > paths.original) == (every == 200)


@pytest.mark.parametrize(
    "vocabulary",
    [{"a": 0, 7: 1}, OrderedDict(a=0, b=1), {"a": True, "b": 0}, {8: 1, 7: 0}],
)
def test_vocabularies_that_somebody_made(paths: Paths, vocabulary: Any) -> None:
    ours, theirs = DictVectorizer(), Original()
    for each in (ours, theirs):
        each.vocabulary_, each.feature_names_ = vocabulary, list(vocabulary)
    for maps in ([{"a": 1.0, "b": 2.0}], [{7: 1.0, 8: 2.0}], [{"a": 1.0}, {7: 2.0}]):
        assert cells(ours.transform(maps)) == cells(theirs.transform(maps))
    with pytest.raises(UnknownKeyError, match=r"map 1: key 9 is not in vocabulary_ \(2 names\)"):
        ours.set_params(handle_unknown="error").transform([{}, {9: 2.0}])


def test_a_vocabulary_that_is_replaced_is_noticed(paths: Paths) -> None:
    for first, second in (("a", "b"), (1, 2)):
        ours = DictVectorizer().fit([{first: 1.0}])
        assert ours.transform([{first: 5.0, second: 6.0}]).toarray().tolist() == [[5.0]]
        ours.vocabulary_ = {second: 0}
        assert ours.transform([{first: 5.0, second: 6.0}]).toarray().tolist() == [[6.0]]
        ours.vocabulary_[first] = 1
        assert ours.transform([{first: 5.0, second: 6.0}]).toarray().tolist() == [[6.0, 5.0]]


KEYS = st.one_of(st.sampled_from(["a", "b", "c", "a=x"]), st.sampled_from(["d", "", "é"]))
NUMBERS = st.one_of(
    st.integers(-3, 3), st.floats(width=32), st.booleans(), st.sampled_from([2**53 + 1, 1e300])
)
VALUES = st.one_of(NUMBERS, NUMBERS, st.sampled_from(["x", "y", None, ["x", "y", "x"], np.int8(3)]))
PLAIN = st.one_of(st.dictionaries(KEYS, NUMBERS), st.dictionaries(KEYS, NUMBERS).map(Counter))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.one_of(PLAIN, PLAIN, st.dictionaries(KEYS, VALUES)), min_size=1, max_size=8),
    st.lists(st.dictionaries(KEYS, VALUES), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_any_maps_give_what_scikit_learn_gives(
    paths: Paths, maps: Any, others: Any, sort: bool, iterate: bool
) -> None:
    same_as_scikit_learn(maps, others, make=iter if iterate else list, sort=sort)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(
        st.dictionaries(
            st.one_of(st.integers(-3, 3), st.booleans(), st.integers(-(2**63), 2**63)), NUMBERS
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_any_maps_of_int_keys_give_what_scikit_learn_gives(
    paths: Paths, maps: Any, sort: bool
) -> None:
    same_as_scikit_learn(maps, sort=sort)


# ------------------------------------------------------------------------- errors
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform", "transform"])
@pytest.mark.parametrize("before", [0, 1, 40])
def test_values_of_no_kind_are_refused_and_nothing_is_learned(method: str, before: int) -> None:
    ours = DictVectorizer().fit([{"a": 1}])
    maps: list[Any] = [*repeat({"a": 1.5, "new": 2}, before), {"a": 1, "f": object()}]
    with pytest.raises(TypeError, match=rf"Type <class 'object'> for f: (?s:.*)\(map {before}\)"):
        getattr(ours, method)(maps)

    assert ours.vocabulary_ == {"a": 0}


def test_what_is_no_map_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    ours = DictVectorizer()
    for method in (ours.fit, ours.fit_transform, ours.partial_fit):
        with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
            method(frame)
        with pytest.raises(TypeError, match="str is no map and no batch of maps"):
            method("text")
        with pytest.raises(TypeError, match="map 1 is 'text' of type str"):
            method([{}, "text"])
    rows = ours.fit_transform(frame.to_dict("records"))
    assert rows.toarray().tolist() == [[1, 3], [2, 4]]


def test_parameters_are_checked() -> None:
    for options in ({"handle_unknown": "drop"}, {"sparse": 1}, {"separator": 3}):
        for method in ("fit", "partial_fit", "fit_transform"):
            with pytest.raises(InvalidParameterError, match=next(iter(options))):
                getattr(DictVectorizer(**options), method)([{"a": 1}])


def test_no_rows_and_no_fit() -> None:
    ours = DictVectorizer()
    for method in (ours.transform, ours.get_feature_names_out, ours.inverse_transform):
        with pytest.raises(NotFittedError):
            method([{"a": 1}])
    with pytest.raises(ValueError, match="empty"):
        ours.fit_transform(iter([]))
    assert ours.fit([]).vocabulary_ == {}
    for rows in (1, 20):
        empty: list[dict[str, float]] = [{} for _ in range(rows)]
        assert ours.transform(empty).shape == ours.transform(iter(empty)).shape == (rows, 0)
    assert ours.fit_transform([{}] * 20).shape == (20, 0)


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'nbmapops\[sklearn\]'"):
        runpy.run_path(nbmapops.sklearn.__file__)


# ------------------------------------------------------------------------- unknown names
@pytest.mark.parametrize("rows", [3, 3000])
def test_unknown_names_are_errors_on_request(paths: Paths, rows: int) -> None:
    for known, unknown, shown in (
        ({"a": 1.0}, {"a": 1.0, "b": 2.0, "c": 3.0}, "key 'b'"),
        ({7: 1.0}, {7: 1.0, 9: 2.0}, "key 9"),
        ({"a": 1.0}, {"a": 1.0, "g": "d"}, "feature 'g=d'"),
        ({"g": "a"}, {"g": ["a", "d"]}, "feature 'g=d'"),
    ):
        ours = DictVectorizer(handle_unknown="error").fit([known])
        maps: list[Any] = [*repeat(known, rows), unknown]
        assert ours.transform(maps[:-1]).shape == (rows, 1)
        for make in (list, iter):
            with pytest.raises(UnknownKeyError, match=rf"map {rows}: {shown} is not in vocab"):
                ours.transform(make(maps))
        ours.set_params(handle_unknown="ignore")
        assert ours.transform(maps).toarray().tolist() == [[1.0]] * (rows + 1)


def test_names_that_restrict_removed_are_unknown(paths: Paths) -> None:
    ours = DictVectorizer(handle_unknown="error").fit([{"a": 1, "b": 2}])
    assert ours.restrict([False, True]) is ours
    assert ours.transform([{"b": 3}]).toarray().tolist() == [[3]]
    with pytest.raises(UnknownKeyError, match="map 0: key 'a' is not"):
        ours.transform([{"b": 3, "a": 1}])


# ------------------------------------------------------------------------- learning in pieces
def test_columns_never_move(paths: Paths) -> None:
    first, second = [{"f": 1, "b": 2}, {"f": 3, "z": 4}], [{"f": 1, "b": 2, "z": 4, "new": 9}]
    ours = DictVectorizer()
    assert ours.partial_fit(first) is ours
    assert ours.feature_names_ == ["f", "b", "z"]
    assert ours.transform(first).toarray().tolist() == [[1, 2, 0], [3, 0, 4]]
    ours.partial_fit(iter(second))
    assert ours.vocabulary_ == {"f": 0, "b": 1, "z": 2, "new": 3}
    assert ours.transform(second).toarray().tolist() == [[1, 2, 4, 9]]
    assert ours.transform(first).toarray().tolist() == [[1, 2, 0, 0], [3, 0, 4, 0]]


def test_pieces_may_follow_a_fit_a_restrict_and_hold_text(paths: Paths) -> None:
    ours = DictVectorizer().fit([{"b": 1, "a": 2, "g": "x"}]).partial_fit([{"0": 1, "g": "y"}])
    assert ours.feature_names_ == ["a", "b", "g=x", "0", "g=y"]
    ours.restrict([4, 1], indices=True).partial_fit([{"g": "z", "b": 1}])
    assert ours.vocabulary_ == {"g=y": 0, "b": 1, "g=z": 2}
    assert ours.partial_fit({"one": 1}).feature_names_[-1] == "one"
    numbers = DictVectorizer().partial_fit([{5: 1.0}]).partial_fit([{2: 1.0, 5: 2.0}])
    assert numbers.transform([{2: 3.0, 5: 4.0}]).toarray().tolist() == [[4.0, 3.0]]


def test_a_generator_is_read_once_and_not_kept() -> None:
    def maps() -> Iterator[dict[str, float]]:
        for n in range(5000):
            yield {f"k{(n * 7 + i * 13) % 500}": float(i) for i in range(20)}

    ours = DictVectorizer()
    matrix = ours.fit_transform(maps())
    size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    for method in (ours.fit_transform, ours.transform):
        tracemalloc.start()
        again = method(maps())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert cells(again) == cells(matrix)
        # Twice the result and one block of maps (2 MiB); a list of all would take 11 MiB more.
        assert peak < 2.2 * size + 4 * 2**20


# ------------------------------------------------------------------------- among other estimators
MAPS = [{"a": 1, "b": 2}, {"a": 2, "c": 3}]


@pytest.mark.parametrize(
    "estimator",
    [SGDClassifier(), LinearSVC(), SVC(), LogisticRegression(solver="liblinear")],
    ids=lambda each: type(each).__name__,
)
def test_p01_estimators_take_the_matrix(estimator: Any) -> None:
    for repeated in (1, 20):  # one is small, one goes through the walk
        pipeline = make_pipeline(DictVectorizer(), estimator).fit(
            MAPS * repeated, [0, 1] * repeated
        )
        assert pipeline.predict(MAPS * repeated).shape == (2 * repeated,)
        matrix = pipeline[0].transform(MAPS)
        assert matrix.data.tolist() == [1, 2, 2, 3]
        assert matrix.indices.tolist() == [0, 1, 0, 2]
        assert matrix.indptr.tolist() == [0, 2, 4]
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


def test_p04_stored_zeros_are_there_and_the_inverse_leaves_them_out(paths: Paths) -> None:
    ours = DictVectorizer()
    matrix = ours.fit_transform([{"k": 3, "on": True}, {"k": 4, "on": False}])

    assert matrix.nnz == 4
    assert ours.inverse_transform(matrix) == [{"k": 3, "on": 1}, {"k": 4}]
    core = nbmapops.DictVectorizer(string_vocabulary=ours.feature_names_)
    assert core.inverse(matrix).to_dicts()[1] == {"k": 4, "on": 0}


@pytest.mark.parametrize("one_hot", [True, False])
def test_p05_dense_and_sparse_agree(paths: Paths, one_hot: bool) -> None:
    maps: list[Any] = [{"t": ["p", "q"], "n": 7}, {"n": 9}] if one_hot else [{"n": 7}, {"n": 9}]
    for maps_given in ([{"t": ["p", "zz"], "u": "3"}], [{"u": 3.0, "n": 1.0}]):
        dense = DictVectorizer(sparse=False).fit(maps).transform(maps_given)
        assert isinstance(dense, np.ndarray)
        assert DictVectorizer().fit(maps).transform(maps_given).toarray().tolist() == dense.tolist()
        if one_hot:
            assert dense.tolist() == [[0, 1, 0] if "t" in maps_given[0] else [1, 0, 0]]


@pytest.mark.parametrize("few", [True, False])
def test_reports_on_values_have_their_right_result(few: bool, request: Any) -> None:
    if not few:
        request.getfixturevalue("paths")

    def fitted(maps: Any) -> Any:
        ours = DictVectorizer(sparse=False)
        rows = ours.fit_transform(maps)
        return ours.feature_names_, rows.tolist()

    # P03, P08, P13, P17, P18
    assert fitted([{"x": 0.5, "y": 0.25}, {"x": 0.75, "y": "0.5"}]) == (
        ["x", "y", "y=0.5"],
        [[0.5, 0.25, 0], [0.75, 0, 1]],
    )
    assert fitted([{"t": ["p", "q", "p"], "n": 7}, {"n": 9}]) == (
        ["n", "t=p", "t=q"],
        [[7, 2, 1], [9, 0, 0]],
    )
    columns, rows = fitted([{"prev": None, "w": "ab"}, {"prev": "X", "w": "cd"}])
    assert columns == ["prev", "prev=X", "w=ab", "w=cd"]
    assert np.isnan(rows[0][0])
    assert fitted([{0: "p", 3: "q"}, {1: "r"}]) == (["0=p", "1=r", "3=q"], [[1, 0, 1], [0, 1, 0]])
    assert fitted([{"u": np.True_, "v": np.False_}, {"u": False}]) == (["u", "v"], [[1, 0], [0, 0]])


def test_p14_the_vocabulary_of_the_training_maps_is_kept(paths: Paths) -> None:
    train, test = [{"g": "a"}, {"g": "b"}, {"g": "c"}], [{"g": "a"}, {"g": "d"}]
    ours = DictVectorizer().fit(train)
    assert ours.transform(test).toarray().tolist() == [[1, 0, 0], [0, 0, 0]]
    with pytest.raises(UnknownKeyError, match="map 1: feature 'g=d'"):
        ours.set_params(handle_unknown="error").transform(test)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_clone_and_pickle(fit: str, paths: Paths) -> None:
    ours = getattr(DictVectorizer(dtype=np.float32, handle_unknown="error"), fit)(COUNTS)
    expected = cells(ours.transform(COUNTS))
    copied = clone(ours)
    assert copied.get_params() == ours.get_params()
    assert not hasattr(copied, "vocabulary_")
    assert repr(copied) == "DictVectorizer(dtype=<class 'numpy.float32'>, handle_unknown='error')"
    loaded = pickle.loads(pickle.dumps(ours))
    assert vars(loaded).keys() == vars(DictVectorizer().fit(COUNTS)).keys()
    assert cells(loaded.transform(COUNTS)) == expected


def test_grid_search_and_column_transformer() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    maps = [{"a": float(x), "b": float(y)} for x, y in rng.random((60, 2))]
    labels = [int(each["a"] > 0.5) for each in maps]
    grid = {
        "dictvectorizer__dtype": [np.float64, np.float32],
        "dictvectorizer__sparse": [True, False],
    }
    search = GridSearchCV(make_pipeline(DictVectorizer(), LinearSVC()), grid, cv=3)
    assert search.fit(maps, labels).best_score_ > 0.8
    frame = pandas.DataFrame({"maps": maps, "x": range(60)})
    table = ColumnTransformer([("m", DictVectorizer(), "maps"), ("x", "passthrough", ["x"])])
    assert table.fit_transform(frame).shape == (60, 3)
    assert table.get_feature_names_out().tolist() == ["m__a", "m__b", "x__x"]


@pytest.mark.parametrize("repeated", [1, 20])
def test_p09_output_as_a_frame_keeps_the_index(repeated: int) -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(MAPS * repeated, index=range(7, 7 + 2 * repeated))
    ours = DictVectorizer(sparse=False).set_output(transform="pandas")
    frame = ours.fit_transform(column)
    assert frame.columns.tolist() == ["a", "b", "c"]
    assert frame.equals(ours.transform(column))
    with config_context(transform_output="pandas"):
        text = DictVectorizer(sparse=False).fit_transform([{"g": "x", "n": 1}] * (10 * repeated))
    assert text.columns.tolist() == ["g=x", "n"]
    pytest.importorskip("sklearn", "1.7.1", reason="scikit-learn's own class loses the index")
    assert frame.index.tolist() == column.index.tolist()


def test_names_out_restrict_and_inverse(paths: Paths) -> None:
    ours = DictVectorizer().fit([{10: 1.0, 9: 2.0}])
    assert ours.get_feature_names_out().tolist() == ["9", "10"]
    maps = [{f"u{i}": 10.0 for i in range(20)} | {"x": float(n), "y": 21.0 - n} for n in (1, 20)]
    ours = DictVectorizer()
    matrix = ours.fit_transform(maps)
    ours.restrict(SelectKBest(chi2, k=2).fit(matrix, [0, 1]).get_support())
    assert ours.get_feature_names_out().tolist() == ["x", "y"]
    assert ours.inverse_transform(ours.transform(maps[:1])) == [{"x": 1.0, "y": 20.0}]


def test_metadata_routing_asks_for_nothing() -> None:
    with config_context(enable_metadata_routing=True):
        assert str(DictVectorizer().get_metadata_routing()) == "{}"
        pipeline = make_pipeline(
            DictVectorizer(), SGDClassifier().set_fit_request(sample_weight=True)
        )
        pipeline.fit(MAPS * 10, [0, 1] * 10, sample_weight=np.ones(20))
        assert len(pipeline.predict(MAPS)) == 2


@pytest.mark.parametrize("kind", ["spmatrix", "sparray"])
def test_sparse_results_are_of_the_configured_interface(paths: Paths, kind: str) -> None:
    if "sparse_interface" not in get_config():
        pytest.skip("this scikit-learn has one interface")
    with config_context(sparse_interface=kind):
        ours = same_as_scikit_learn(TEXT_MAPS)
        expected = sparse.csr_matrix if kind == "spmatrix" else sparse.csr_array
        assert type(ours.transform(TEXT_MAPS)) is expected


def test_a_missing_skl2onnx_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    monkeypatch.setitem(sys.modules, "skl2onnx.common", None)
    for ask in (DictVectorizer().onnx_converter, DictVectorizer().onnx_shape_calculator):
        with pytest.raises(ImportError, match=r"skl2onnx: pip install skl2onnx$"):
            ask()


@pytest.mark.parametrize("key", ["string", "int64"])
def test_skl2onnx_converts_it(key: str) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from skl2onnx.common import data_types as types

    rng = np.random.default_rng(1)
    words: list[Any] = ["a", "b", "c"] if key == "string" else [5, 7, 9]
    maps = [dict(zip(words, map(float, row), strict=True)) for row in rng.random((40, 3))]
    labels = [int(each[words[0]] > 0.5) for each in maps]
    pipeline = make_pipeline(DictVectorizer(), LogisticRegression()).fit(maps, labels)
    key_type = types.StringTensorType if key == "string" else types.Int64TensorType
    given = [("x", types.DictionaryType(key_type([1]), types.FloatTensorType([1])))]
    opsets = {"": 18, "ai.onnx.ml": 3}  # which the oldest onnxruntime knows
    options = {"zipmap": False}
    model = skl2onnx.convert_sklearn(
        pipeline, initial_types=given, options=options, target_opset=opsets
    )
    assert model.graph.node[0].op_type == "DictVectorizer"
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for each, expected in zip(maps[:5], pipeline.predict_proba(maps[:5]), strict=True):
        _, probabilities = session.run(None, {"x": each})
        np.testing.assert_allclose(probabilities[0], expected, rtol=1e-5)
