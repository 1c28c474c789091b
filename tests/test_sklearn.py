"""The estimator: the results of scikit-learn's own, by compiled code wherever maps hold numbers."""

from __future__ import annotations

import os
import pickle
import random
import runpy
import subprocess
import sys
import tracemalloc
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from decimal import Decimal
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbmapops import DuplicateKeyError, UnknownKeyError

from .conftest import WITHOUT_JIT
from .fresh import run

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
from nbmapops._engine import choose
from nbmapops._limits import limits
from nbmapops._reading import records, recordwalk
from nbmapops._reading.recordwalk import DONE, FULL, LEARN, REFUSE, STOP
from nbmapops.sklearn import DictVectorizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


class Word(str):
    """Text that does not show what it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return "shown"


class WalkInPython:
    """Does what `recordwalk.Walk` does, where nothing is compiled."""

    def __init__(
        self,
        words: Any,
        separator: str,
        unknown: int,
        none: Any,
        rounds: bool,
        low: int,
        high: int,
    ) -> None:
        self.words, self.separator, self.unknown = words, separator, unknown
        self.none, self.rounds, self.low, self.high = none, rounds, low, high

    def read(
        self, maps: Any, first: int, columns: Any, values: Any, offsets: Any
    ) -> tuple[int, int]:
        j = 0
        for i, item in enumerate(maps[first:]):
            if i + 1 >= len(offsets):
                return i, FULL
            if type(item) not in (dict, Counter, defaultdict):
                return i, STOP
            for key, value in item.items():
                entries = self.entries(key, value, values.dtype)
                if entries is None:
                    return i, STOP
                for name, number in entries:
                    if name not in self.words and self.unknown == REFUSE:
                        return i, STOP
                    if j >= len(columns):
                        return i, FULL
                    if self.unknown == LEARN:
                        self.words.setdefault(name, len(self.words))
                    if name in self.words:
                        columns[j], values[j] = self.words[name], number
                        j += 1
            offsets[i + 1] = j
        return len(maps) - first, DONE

    def entries(self, key: Any, value: Any, dtype: Any) -> list[tuple[Any, Any]] | None:
        if type(value) in (list, tuple, set, frozenset) or isinstance(value, str):
            texts = [value] if isinstance(value, str) else list(value)
            if type(key) not in (str, int) or not set(map(type, texts)) <= {str, np.str_}:
                return None
            return [(f"{key}{self.separator}{text}", 1) for text in texts]
        if type(key) not in (str, int, bool) or (value is None and self.none is None):
            return None
        value = self.none if value is None else value
        if type(value) in (int, bool, np.bool_) or isinstance(value, np.integer):
            if not -(2**63) <= int(value) < 2**63:
                return None
            if not self.rounds and dtype == np.float64 and int(float(value)) != value:
                return None
        elif type(value) not in (float, np.float64, np.float32):
            return None
        if dtype == np.int64 and not self.low <= value <= self.high:  # NaN is none of these
            return None
        return [(key, value)]


class Paths:
    """Counts the maps that each of the two ways has read."""

    walked = 0
    plain = 0


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Let the walk read the smallest batches too, and count what it reads."""
    count = Paths()
    available = recordwalk.available()  # tested now, and not counted
    walk = recordwalk.Walk if available else WalkInPython
    read_map = records.RecordReader._read_map

    class Counted(walk):  # type: ignore[misc, valid-type]
        def read(self, *arguments: Any) -> tuple[int, int]:
            read, reason = super().read(*arguments)
            count.walked += read
            return read, reason

    def counted(reader: Any, *arguments: Any) -> None:
        count.plain += 1
        read_map(reader, *arguments)

    if not available:
        monkeypatch.setattr(recordwalk, "available", lambda: True)
        monkeypatch.setattr(
            records, "record_walk", lambda: recordwalk if recordwalk.available() else None
        )
    monkeypatch.setattr(recordwalk, "Walk", Counted)
    monkeypatch.setattr(records.RecordReader, "_read_map", counted)
    monkeypatch.setattr(limits, "engine", "compiled")
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
    return listed, list(map(repr, columns.items()))


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
    theirs = Original(**options).fit(make(maps))
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

    assert paths.plain == 0
    assert paths.walked == 2 * len(maps) + len(maps) + 2


NARROW = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64, bool, np.bool_]


@pytest.mark.parametrize("sparse_result", [True, False])
@pytest.mark.parametrize(
    "dtype", [float, np.float64, np.float32, complex, np.complex64, np.complex128, int, np.int64]
)
def test_dtypes_that_the_walk_converts(paths: Paths, dtype: Any, sparse_result: bool) -> None:
    maps = COUNTS if np.dtype(dtype).kind == "i" else TEXT_MAPS + COUNTS[:1]
    same_as_scikit_learn([*maps, {"t": "x"}], dtype=dtype, sparse=sparse_result)

    assert paths.plain == 0


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_narrow_dtypes_are_converted_by_the_walk(paths: Paths, dtype: Any) -> None:
    maps = [{"b": 1, "a": 2.9, "t": "x"}, {"c": 0, "a": True, "t": ["x", "y", "x"]}]
    same_as_scikit_learn(maps, [{"a": np.int64(100), "b": np.float32(7.5)}], dtype=dtype)

    assert paths.plain == 0


@pytest.mark.parametrize(
    "dtype", [*NARROW, int, float, np.float64, np.float32, np.complex64], ids=repr
)
@pytest.mark.parametrize(
    "value",
    [-1, -0.5, 300, 2**53 + 1, 2**63, 1e300, float("nan"), float("inf"), None, np.uint64(2**63),
     np.int64(2**60 + 1), np.int64(300), np.float16(1.5), np.longdouble(2.5), np.float32(3e9)],
    ids=repr,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_values_that_are_hard_for_a_dtype(paths: Paths, dtype: Any, value: Any) -> None:
    """The same value, or the same error."""
    maps = [{"a": 1}, {"a": value, "t": "x"}]
    outcomes: list[Any] = []
    for estimator in (DictVectorizer(dtype=dtype), Original(dtype=dtype)):
        for method in (estimator.fit_transform, estimator.fit([{"a": 1}]).transform):
            try:
                outcomes.append(cells(method(maps)))
            except Exception as error:  # noqa: BLE001  (whatever it is, it must be the same)
                outcomes.append((type(error), str(error)))

    assert outcomes[:2] == outcomes[2:]


def test_a_dtype_that_only_scikit_learn_knows_is_read_in_plain_python(paths: Paths) -> None:
    maps = [{"b": 1, "a": 2.5}, {"c": 0, "a": "x"}]
    same_as_scikit_learn(maps, dtype=np.longdouble)

    assert paths.walked == 2  # to learn the names
    assert paths.plain == 2 + 2 + 1 + 1


@pytest.mark.parametrize("dtype", [np.float16, str, object, np.dtype("f4"), "f4", lambda v: v])
def test_dtypes_that_scikit_learn_refuses(paths: Paths, dtype: Any) -> None:
    for estimator in (DictVectorizer(dtype=dtype), Original(dtype=dtype)):
        with pytest.raises(
            (TypeError, ValueError), match=r"support|callable|no arguments|interpret"
        ):
            estimator.fit_transform([{"a": 1}])


def test_columns_of_pandas_and_object_arrays(paths: Paths) -> None:
    pandas = pytest.importorskip("pandas")
    array = np.empty(len(TEXT_MAPS), object)
    array[:] = TEXT_MAPS
    for column in (array, pandas.Series(TEXT_MAPS)):
        assert cells(DictVectorizer().fit_transform(column)) == cells(
            Original().fit_transform(TEXT_MAPS)
        )

    assert paths.plain == 0


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

    assert paths.plain == 0


def test_a_list_that_is_emptied_meanwhile_is_read_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "iterator_maps", 1)
    maps: list[Any] = []

    class Emptying(OrderedDict[str, int]):
        def items(self) -> Any:
            maps.clear()
            return super().items()

    maps += [Emptying(a=1), {"b": 2}]
    assert DictVectorizer().fit(maps).feature_names_ == ["a", "b"]


@pytest.mark.parametrize("made", [list, set])
def test_texts_of_a_map_that_are_changed_later_count_as_they_came(made: Any) -> None:
    def changing() -> Iterator[dict[str, Any]]:
        texts = made()
        for text in "pq":
            texts.clear()
            (texts.add if made is set else texts.append)(text)
            yield {"t": texts}

    assert DictVectorizer().fit(changing()).feature_names_ == ["t=p", "t=q"]


def test_few_maps_are_not_worth_a_look_at_many_names() -> None:
    maps = [{f"v{n}": n for n in range(50_000)}]
    ours, theirs = DictVectorizer().fit(maps), Original().fit(maps)
    assert cells(ours.transform([{"v7": 5}] * 100)) == cells(theirs.transform([{"v7": 5}] * 100))


def test_small_batches_start_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise AssertionError("the walk was asked for")

    monkeypatch.setattr(records, "record_walk", refuse)
    monkeypatch.setattr(choose, "_spent", defaultdict(float))  # by the tests before
    ours = same_as_scikit_learn(TEXT_MAPS, [{"a": 1, "zz": 2}, {"b": "text"}])
    for single in ({"a": 1.5, "b": 2}, {}, OrderedDict(c=1)):
        assert cells(ours.transform(single)) == cells(Original().fit(TEXT_MAPS).transform(single))
    assert ours.transform({"a": np.bool_(True)}).toarray().tolist() == [[1, 0, 0]]
    assert ours.set_params(sparse=False).transform({"c": 1.5}).tolist() == [[0, 0, 1.5]]


def test_20_000_entries_do_not_import_numba() -> None:
    code = """
import sys
from nbmapops.sklearn import DictVectorizer
maps = [{"t": f"x{n % 9}", "n": n, "u": ["p", "q"], f"k{n % 7}": 1.5} for n in range(5000)]
ours = DictVectorizer()
assert ours.fit_transform(maps).shape == (5000, 19)
assert ours.transform(iter(maps)).nnz == 25_000
ours.fit(maps).partial_fit(maps)
assert not {"numba", "llvmlite"} & set(sys.modules)
"""
    run(code)


def test_without_the_walk_all_is_read_in_plain_python(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordwalk, "available", lambda: False)
    same_as_scikit_learn(TEXT_MAPS)

    assert paths.walked == 0
    assert paths.plain > 0


def test_where_the_kernels_refuse_all_is_read_in_plain_python(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a subinterpreter, where they raise an ImportError."""
    monkeypatch.setattr(choose, "_importable", lambda: False)
    same_as_scikit_learn(TEXT_MAPS)

    assert paths.walked == 0
    assert paths.plain > 0


# ------------------------------------------------------------------------- records
RECORDS: dict[str, list[Any]] = {
    "text": [{"city": "Bern", "n": 1.5}, {"city": "Rom", "n": 2}],
    "texts": [{"t": ["p", "q", "p"], "n": 7}, {"n": 9}, {"t": {"p"}}, {"t": ()}],
    "sets": [{"t": set("pqrstuvw")}, {"t": frozenset("xyzp"), "u": set()}],
    "name that is one-hot too": [{"a=b": 5.0, "a": "b"}, {"a": "b"}],
    "names that collide": [{"a": "b=c", "a=b": "c"}, {"a=b=c": 2.5, "a=b": "c"}],
    "None": [{"prev": None, "w": "ab"}, {"prev": "X", "w": "cd"}],
    "NumPy numbers": [{"a": np.int64(3), "b": np.float32(0.1)}, {"b": np.uint8(4)}],
    "NumPy text": [{"a": np.str_("x"), "b": "x"}, {"a": "x", "b": [np.str_("x"), "y"]}],
    "one key, number and text": [{"x": 0.5, "y": 0.25}, {"x": 0.75, "y": "0.5"}],
    "int keys with text": [{0: "p", 3: "q"}, {1: "r", -(2**70): "s"}],
    "int and str keys": [{1: "p", "1": "p", "n": 2.5}, {1: 3.5, "1": 4.5}],
    "bool keys": [{False: 2.0}, {1: 3.0}],
    "empty key and text": [{"": "", "a": ""}, {"": 1.5}],
    "ints beyond 2**53": [{"a": 2**53 + 1, "b": np.int64(2**62 - 1)}, {"a": -(2**63)}],
    "big ints as keys": [{2**63: 1.0}, {2**80: 2.0, "a": "x"}],
    "OrderedDict": [OrderedDict(b=1.0, a="x"), {"c": 1.0}, OrderedDict()],
    "proxy": [MappingProxyType({"b": 1.0, "a": "x"})],
}
ODD_MAPS: dict[str, list[Any]] = {
    "key None": [{None: 1.0}, {"a": 2.0}, {None: "x"}],
    "big int": [{"a": 2**64, "b": np.uint64(2**63)}, {"a": 2**80, "b": 1}],
    "decimal": [{"a": Decimal("1.5")}, {"b": 1}],
    "float16": [{"a": np.float16(1.5)}],
    "str subclass": [{np.str_("a"): 1.0}, {"a": 2.0}],
    "float keys": [{1.5: 1, 2: 3}, {2.0: 1}],
    "bool keys with text": [{True: "x"}, {1: "x"}, {True: "y"}],
    "tuple keys": [{("a", 1): 1.0, ("b", 0): 2.0}],
    "deque and keys": [{"t": deque(["x", "y", "x"]), "u": {"p": 1, "q": 2}.keys()}],
    "other text in a list": [{"t": ["x", Word("y")]}],
    "text of a class": [{"t": Word("y")}],
}


def sortable(maps: Any) -> bool:
    try:
        Original().fit(maps)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("maps", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("plain", [None, {"n": 0.5}, {0: 0.5, 1: 1}])
def test_records_are_read_by_the_walk(paths: Paths, maps: Any, plain: Any) -> None:
    plains = [plain] * 40 if plain else []
    maps = [*plains, *maps, *plains, *maps]
    same_as_scikit_learn(maps, maps[-3:], sort=sortable(maps))

    assert paths.walked > 0
    assert paths.plain == 0


@pytest.mark.parametrize("maps", ODD_MAPS.values(), ids=ODD_MAPS)
@pytest.mark.parametrize("plain", [None, {"n": 0.5}, {0: 0.5, 1: 1}])
def test_maps_that_the_walk_does_not_take(paths: Paths, maps: Any, plain: Any) -> None:
    plains = [plain] * 40 if plain else []
    everything = [*plains, *maps, *plains, *maps]
    same_as_scikit_learn(everything, maps, sort=sortable(everything))

    assert paths.plain > 0
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
        {"n": Decimal(n), "city": f"x{n % 5}"}
        if n % every == 0
        else {"n": float(n), f"w{n % 9}": 1}
        for n in range(600)
    ]
    same_as_scikit_learn(maps)
    same_as_scikit_learn(maps, make=iter)

    assert paths.plain > 0
    assert (paths.walked > paths.plain) == (every > 2)


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


# ------------------------------------------------------------------------- any records
class Cases:
    """Draws records, and what is done with them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        dtypes: list[Any] = [np.float32, float, int, np.int64, np.int8, bool, complex]
        self.dtype = self.rng.choice([np.float64] * 4 + dtypes)

    def text(self) -> str:
        """One of few texts, a shared object or a new one."""
        text = self.rng.choice(["b", "c", "b=c", "", "=", "x", "é=", "long text " * 3])
        return text if self.rng.random() < 0.5 else text[:1] + text[1:] * 1

    def key(self) -> Any:
        if self.rng.random() < 0.9:
            key = self.rng.choice(["a", "b", "a=b", "a=b=c", "", "=", "é"])
            return key if self.rng.random() < 0.5 else str(key.encode(), "utf-8")
        return self.rng.choice([0, 1, True, 7, -(2**63), 2**70, 1.0, 2.5, None, np.str_("a")])

    def number(self) -> Any:
        number = self.rng.choice([0, 1, 3, -2, 100, 2.5, -0.0, 1e-3])
        kinds: list[Any] = [int, float, np.float64, np.float32, np.int64, np.int8, bool, Decimal]
        return number if self.rng.random() < 0.6 else self.rng.choice(kinds)(number)

    def odd(self) -> Any:
        odd: list[Any] = [2**53 + 1, float("nan"), float("inf"), -1, 300, np.float16(0.5)]
        if self.dtype is not int:  # which says so when all maps have been read
            odd += [2**80, 1e300, np.uint64(2**63)]
        bad = [object(), {"a": 1}, b"x", ["x", 1], ("x", None), 1j]
        return self.rng.choice(odd if self.rng.random() < 0.7 else bad)

    def value(self) -> Any:
        chance = self.rng.random()
        if chance < 0.4:
            return self.text() if chance < 0.36 else np.str_(self.text())
        if chance < 0.75:
            return self.number()
        if chance < 0.92:
            kind: Any = self.rng.choice([list, tuple, set, frozenset, deque])
            return kind(self.text() for _ in range(self.rng.randrange(4)))
        return None if chance < 0.97 else self.odd()

    def maps(self, most: int = 5) -> list[Any]:
        kinds: list[Any] = [dict, dict, dict, OrderedDict, MappingProxyType, Counter]
        maps = [
            self.rng.choice(kinds)({self.key(): self.value() for _ in range(self.rng.randrange(6))})
            for _ in range(self.rng.randrange(1, most))
        ]
        return maps * self.rng.choice([1, 1, 3])

    def form(self, maps: list[Any]) -> Any:
        """The maps in a form that can be read once."""
        form: Any = self.rng.choice([list, tuple, iter, refilled, deque])
        return form(maps)

    def options(self) -> dict[str, Any]:
        return {
            "sort": self.rng.random() < 0.5,
            "sparse": self.rng.random() < 0.8,
            "separator": self.rng.choice(["=", "=", "=", ":", "", "=="]),
            "dtype": self.dtype,
        }


def refilled(maps: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    """One dict, again and again, with the same lists in it."""
    one: dict[Any, Any] = {}
    lists: dict[Any, list[Any]] = defaultdict(list)
    for each in maps:
        one.clear()
        for key, value in each.items():
            if type(value) is list:
                lists[key][:] = value
            one[key] = lists[key] if type(value) is list else value
        yield one


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives: cells, other things, or an error."""
    try:
        result = call()
        return cells(result) if hasattr(result, "dtype") else repr(result)
    except Exception as error:  # noqa: BLE001  (whatever it is, both must raise it)
        return type(error), str(error)


def both(ours: Any, theirs: Any, call: Callable[[Any], Any]) -> None:
    assert outcome(lambda: call(ours)) == outcome(lambda: call(theirs))
    if hasattr(theirs, "vocabulary_"):
        assert names(ours) == names(theirs)


def compare_case(case: Cases) -> None:
    options = case.options()
    ours, theirs = DictVectorizer(**options), Original(**options)
    maps, others = case.maps(), case.maps(3)
    form = case.rng.getrandbits(32)

    def formed(given: list[Any]) -> Any:
        case.rng.seed(form)
        return case.form(given)

    if refused(maps):  # `fit` of scikit-learn overlooks some values
        both(ours, theirs, lambda each: each.fit_transform(formed(maps)))
        return
    if case.rng.random() < 0.5:
        both(ours, theirs, lambda each: each.fit_transform(formed(maps)))
    else:
        both(ours, theirs, lambda each: each.fit(formed(maps)).feature_names_)
    if not hasattr(theirs, "vocabulary_"):
        return
    both(ours, theirs, lambda each: each.transform(formed(others)))
    both(ours, theirs, lambda each: each.transform(maps[-1]))
    what = case.rng.randrange(4)
    if what == 0 and theirs.vocabulary_:
        support = [case.rng.random() < 0.6 for _ in theirs.vocabulary_]
        both(ours, theirs, lambda each: each.restrict(support).get_feature_names_out())
    if what == 1:  # in place: columns change their places
        shift = case.rng.randrange(5)
        for each in (ours, theirs):
            vocabulary = each.vocabulary_
            vocabulary.update({n: (c + shift) % len(vocabulary) for n, c in vocabulary.items()})
    renamed = [name * 2 if type(name) is str else name for name in theirs.vocabulary_]
    if what == 2 and len(set(renamed)) == len(renamed):  # in place: other names
        for each in (ours, theirs):
            columns = list(each.vocabulary_.values())
            each.vocabulary_.clear()
            each.vocabulary_.update(zip(renamed, columns, strict=True))
    if what == 3:
        both(ours, theirs, lambda each: each.inverse_transform(each.transform(others)))
    assert outcome(lambda: ours.transform(formed(others))) == outcome(
        lambda: theirs.transform(formed(others))
    )


def refused(maps: list[Any]) -> bool:
    """Whether `transform` of scikit-learn refuses a value."""
    try:
        Original(sort=False).fit_transform(maps)
    except Exception:  # noqa: BLE001
        return True
    return False


def compare_pieces(case: Cases) -> None:
    """Learning in pieces gives the names of one `fit`, in the order in which they are seen."""
    options = {**case.options(), "sort": False, "dtype": np.float64}
    pieces = [case.maps(3) for _ in range(3)]
    if any(map(refused, pieces)):
        return
    ours = DictVectorizer(**options)
    for piece in pieces:
        ours.partial_fit(case.form(piece))
    theirs = Original(**options).fit([each for piece in pieces for each in piece])
    assert names(ours) == names(theirs)
    for piece in pieces:
        assert cells(ours.transform(piece)) == cells(theirs.transform(piece))


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("walk", [True, False])
@pytest.mark.parametrize("count", [250, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_random_records_give_what_scikit_learn_gives(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, count: int, walk: bool
) -> None:
    if not walk:
        monkeypatch.setattr(limits, "engine", "plain")
    for seed in range(count):
        try:
            compare_case(Cases(seed))
            compare_pieces(Cases(seed))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise

    assert (paths.walked > paths.plain) == walk
    assert (paths.walked == 0) != walk


# ------------------------------------------------------------------------- errors
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform", "transform"])
@pytest.mark.parametrize("before", [0, 1, 40])
def test_values_of_no_kind_are_refused_and_nothing_is_learned(method: str, before: int) -> None:
    ours = DictVectorizer().fit([{"a": 1}])
    maps: list[Any] = [*repeat({"a": 1.5, "new": 2}, before), {"a": 1, "f": object()}]
    with pytest.raises(TypeError, match=r"Type <class 'object'> for f: ") as raised:
        getattr(ours, method)(maps)
    assert raised.value.__notes__ == [f"DictVectorizer: map {before}"]

    assert ours.vocabulary_ == {"a": 0}


def test_what_is_no_map_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    ours = DictVectorizer()
    for method in (ours.fit, ours.fit_transform, ours.partial_fit):
        with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
            method(frame)
        with pytest.raises(TypeError, match="str is not a map and not a batch of maps"):
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
        # The result with room to grow, and one block of maps (3 MiB); a list of all: 11 MiB more.
        assert peak < 1.5 * size + 4 * 2**20


# Of the process, since tracemalloc counts the old and the new place of an array that NumPy 2.5
# resizes, although its pages are moved.
PEAK = """
import resource, sys
from nbmapops._limits import limits
from nbmapops.sklearn import DictVectorizer

unit = 1 if sys.platform == "darwin" else 1024

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

limits.engine = "compiled"
ours = DictVectorizer()
maps = [{"t": ["p", "q"], "u": f"x{n % 9}", "n": n} for n in range(400_000)]
ours.fit_transform(maps[:1000])
before = peak()
matrix = getattr(ours, sys.argv[1])(maps)
more = peak() - before
print(more, matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
"""


@pytest.mark.skipif(WITHOUT_JIT, reason="plain Python holds objects of its own for each entry")
@pytest.mark.parametrize("method", ["fit_transform", "transform"])
def test_a_list_takes_little_more_than_the_result(method: str) -> None:
    pytest.importorskip("resource")
    peak, size = map(int, run(PEAK, method).split())
    assert peak < 1.5 * size + 2**20


# ------------------------------------------------------------------------- forms of maps
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform", "transform"])
@pytest.mark.parametrize("small", [True, False])
def test_p27_each_map_is_read_before_the_next_one_is_asked_for(
    request: Any, method: str, small: bool
) -> None:
    if not small:
        request.getfixturevalue("paths")
    maps: list[dict[Any, Any]] = [
        {f"k{n % 7}": float(n), "t": f"x{n % 3}", "u": [f"y{n % 5}", "z"]} for n in range(3000)
    ]

    def one_dict() -> Iterator[Any]:
        yield from refilled(maps)

    def two_dicts() -> Iterator[Any]:
        yield from (
            each for pair in zip(refilled(maps), refilled(maps), strict=True) for each in pair
        )

    def changed_afterwards() -> Iterator[Any]:
        for each in maps:
            handed = dict(each)
            yield handed
            handed["late"] = 1.0

    def other_mapping() -> Iterator[Any]:
        one: OrderedDict[Any, Any] = OrderedDict()
        for each in maps:
            one.clear()
            one.update(each)
            yield MappingProxyType(one)

    for make in (one_dict, two_dicts, changed_afterwards, other_mapping):
        shown = [each for each in maps for _ in range(1 + (make is two_dicts))]
        ours, theirs = DictVectorizer().fit([{"k1": 1}]), Original(sort=method != "partial_fit")
        theirs.fit([{"k1": 1}, *(shown if method == "partial_fit" else [])])
        result = getattr(ours, method)(make())
        expected = getattr(theirs, "fit" if method == "partial_fit" else method)(shown)
        assert names(ours)[0] == names(theirs)[0] or method == "partial_fit"
        assert sorted(ours.feature_names_) == sorted(theirs.feature_names_)
        if "transform" in method:
            assert cells(result) == cells(expected)


def test_p35_an_edit_of_the_vocabulary_counts(paths: Paths) -> None:
    for first, second in (("a", "b"), (1, 2), ("t=x", "t=y")):
        maps = [{first: 5.0, second: 6.0, "t": "x"}]
        ours = DictVectorizer().fit([{first: 1.0, second: 1.0}])
        theirs = Original().fit([{first: 1.0, second: 1.0}])
        for _ in range(2):
            for each in (ours, theirs):  # in place, with as many names as before
                columns = each.vocabulary_
                columns[first], columns[second] = columns[second], columns[first]
            assert cells(ours.transform(maps)) == cells(theirs.transform(maps))


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("column", [2, -1])
def test_a_column_outside_of_the_matrix_is_an_error(paths: Paths, rows: int, column: int) -> None:
    """scikit-learn makes a matrix with indices that its shape does not have."""
    ours = DictVectorizer().fit([{"a": 1, "b": 2}])
    ours.vocabulary_["b"] = column
    for sparse_result in (True, False):
        ours.set_params(sparse=sparse_result)
        with pytest.raises(
            ValueError, match=rf"vocabulary_ must be one of 0 .. 1, .* not {column}$"
        ):
            ours.transform([{"a": 1.0, "b": 2.0}] * rows)


@pytest.mark.parametrize("repeated", [1, 50])
def test_p39_lists_of_pairs_are_maps(paths: Paths, repeated: int) -> None:
    pairs = [[("a", 1.5), ("t", "x")], (("t", ["x", "y"]),), []]
    maps = [dict(each) for each in pairs]
    ours = DictVectorizer()
    for method in (ours.fit_transform, ours.transform):
        assert cells(method(pairs * repeated)) == cells(Original().fit_transform(maps * repeated))
    with pytest.raises(DuplicateKeyError, match="map 3: key 'a' is repeated"):
        ours.transform([*pairs, [("a", 1), ("b", 2), ("a", 3)]])


def test_columns_of_arrow_are_read(paths: Paths) -> None:
    pa = pytest.importorskip("pyarrow")
    pairs = [[("a", 1.5), ("b", 2.0)], [], [("b", 3.0)]]
    maps, rows = list(map(dict, pairs)), [{"a": 1.5, "t": "x"}, {"a": None, "t": "y"}]
    column = pa.array(pairs, pa.map_(pa.string(), pa.float64()))
    structs = pa.array(rows)
    expected = cells(Original().fit_transform(maps))
    for each in (column, pa.chunked_array([column[:1], column[1:]]), list(column), iter(column)):
        assert cells(DictVectorizer().fit_transform(each)) == expected
    operator = nbmapops.DictVectorizer(string_vocabulary=["a", "b"])
    assert operator(iter(column)).tolist() == operator(maps).tolist()
    for each in (structs, pa.chunked_array([structs])):
        assert cells(DictVectorizer().fit_transform(each)) == cells(Original().fit_transform(rows))


class Odd(Mapping[Any, Any]):
    """A mapping whose items cannot all be keys of a dict, or repeat one."""

    def __init__(self, *pairs: Any) -> None:
        self.pairs = pairs

    def items(self) -> Any:
        return iter(self.pairs)

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


@pytest.mark.parametrize("make", [list, iter])
def test_odd_mappings_are_read_as_they_show_themselves(
    paths: Paths, make: Callable[[Any], Any]
) -> None:
    odd = [Odd(("a", 1), ("a", 2), ("b", "x")), Odd((["k"], "x"), ("b", "x")), Odd(("b", 3.5))]
    same_as_scikit_learn([*repeat({"b": 1.0}, 40), *odd], make=make)
    same_as_scikit_learn(odd, odd[1:], make=make)


def test_fit_names_a_map_inside_a_map_in_the_words_of_scikit_learn() -> None:
    for method in ("fit", "fit_transform"):
        texts = []
        for estimator in (DictVectorizer(), Original()):
            with pytest.raises(TypeError) as raised:
                getattr(estimator, method)([{"a": {"b": 1}}])
            texts.append(str(raised.value))
        assert texts[0] == texts[1]


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("before", [0, 300])
def test_p40_a_missing_map_is_an_error_that_says_what_to_do(
    paths: Paths, missing: Any, before: int
) -> None:
    for method in ("fit", "partial_fit", "fit_transform", "transform"):
        ours = DictVectorizer().fit([{"a": 1}])
        with pytest.raises(
            TypeError, match=rf'map {before} is .*from_dicts\(maps, null_map="empty"'
        ):
            getattr(ours, method)([*repeat({"a": 1, "t": "x"}, before), missing])
    batch = nbmapops.MapBatch.from_dicts([{"a": 1}, missing, {"b": 2}], null_map="empty")
    assert DictVectorizer().fit_transform(batch).toarray().tolist() == [[1, 0], [0, 0], [0, 2]]


def test_the_picture_of_an_estimator_links_to_no_page_of_scikit_learn() -> None:
    ours = DictVectorizer().fit([{"a": 1}])
    html = make_pipeline(ours)._repr_html_()
    assert "DictVectorizer" in html
    assert "feature_extraction.DictVectorizer" not in html
    assert "href=" not in ours._repr_html_()
    assert ours._get_doc_link() == ""


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
def test_clones_and_pickles_keep_all(fit: str, paths: Paths) -> None:
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
