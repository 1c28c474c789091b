"""Reports P01 to P25: what users of other libraries ran into, with the result that is right.

Each is a public report about turning dicts into matrices. What concerns only an adapter (P20 and
P21 in Arrow, P03 and P08 in the drop-in for scikit-learn) is tested with the adapter.
"""

from __future__ import annotations

import math
import pickle
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError

from .conftest import WITHOUT_JIT
from .forms import WAYS, WITH_PANDAS, WITH_SCIPY, way
from .reference import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_scipy = pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")


def vec(maps: list[Any], words: list[Any], **attributes: Any) -> Any:
    """Rows by every way that takes these maps; they are all the same."""
    kind = "string" if words and isinstance(words[0], str) else "int64"
    attributes[f"{kind}_vocabulary"] = words
    op = DictVectorizer(**attributes)
    rows = op(maps)
    batch = MapBatch.from_dicts(maps)
    others = [op(iter(maps)), op(tuple(maps)), op(batch), op(maps, threads=2)]
    others += [op(batch.keys, batch.values, batch.offsets)]
    if WITH_SCIPY and rows.dtype != object:
        others += [op.csr(maps).toarray(), op.csr(batch).toarray(), op.csr(iter(maps)).toarray()]
    others += [np.array([op(m) for m in maps], rows.dtype).reshape(rows.shape)]
    for other in others:
        assert other.dtype == rows.dtype or not any(maps)
        assert other.tolist() == rows.tolist()
    return rows


@needs_scipy
def test_p01_index_arrays_are_int32_where_they_fit() -> None:
    maps = [{"a": 1, "b": 2}, {"a": 2, "c": 3}]
    for op in (DictVectorizer.from_maps(maps), DictVectorizer.from_maps(maps, dtype="double")):
        matrix = op.csr(maps)
        assert matrix.data.tolist() == [1, 2, 2, 3]
        assert matrix.indices.tolist() == [0, 1, 0, 2]
        assert matrix.indptr.tolist() == [0, 2, 4]
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


@needs_scipy
@pytest.mark.parametrize("name", ["SGDClassifier", "LogisticRegression", "LinearSVC", "SVC"])
def test_p01_estimators_take_the_matrix(name: str) -> None:
    pytest.importorskip("sklearn")
    from sklearn import linear_model, svm

    maps = [{"a": 1, "b": 2}, {"a": 2, "c": 3}]
    options = {"LogisticRegression": {"solver": "liblinear"}}.get(name, {})
    estimator = getattr(linear_model, name, None) or getattr(svm, name)
    matrix = DictVectorizer.from_maps(maps, dtype="double").csr(maps)

    assert estimator(**options).fit(matrix, [0, 1]).predict(matrix).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("entries", "columns", "dtype"),
    [
        (2**31 - 1, 10, np.int32),
        (2**31, 10, np.int64),
        (5, 2**31 + 1, np.int64),
        (5, 2**31 - 1, np.int32),
        (0, 0, np.int32),
    ],
)
def test_p02_rule_for_the_index_dtype(entries: int, columns: int, dtype: Any) -> None:
    from nbmapops._stages import index_dtype_for

    assert index_dtype_for(entries, columns) == dtype


def test_p03_number_that_is_text_once_is_an_error() -> None:
    maps: list[dict[str, Any]] = [{"x": 0.5, "y": 0.25}, {"x": 0.75, "y": "0.5"}]
    for name in WAYS:
        with way(name):
            for call in (
                DictVectorizer(string_vocabulary=["x", "y"]),
                DictVectorizer.from_maps,
                MapBatch.from_dicts,
            ):
                with pytest.raises(TypeError, match=r"map 1: key 'y': value '0\.5' is str.*number"):
                    call(maps)


@needs_scipy
def test_p04_false_and_0_come_back_from_sparse() -> None:
    op = DictVectorizer(string_vocabulary=["k", "on"])
    maps: list[dict[str, Any]] = [{"k": 3, "on": True}, {"k": 4, "on": False}]

    assert op.inverse(op.csr(maps)).to_dicts() == [{"k": 3, "on": 1}, {"k": 4, "on": 0}]
    assert op.inverse(op(maps)).to_dicts() == [{"k": 3, "on": 1}, {"k": 4}]


def test_p05_all_forms_give_the_same_numbers() -> None:
    maps = [{"t=p": 1.0, "u": 3.0}, {"n": 9.0}, {}]
    rows = vec(maps, ["n", "t=p", "t=q"], handle_unknown="ignore")

    assert rows.tolist() == [[0.0, 1.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_p06_unsupported_values_are_named_alike_by_learning_and_by_use() -> None:
    op = DictVectorizer(string_vocabulary=["a", "f"])
    before = pickle.dumps(op)
    for maps in ([{"a": 1, "f": object()}], [{"f": object()}]):
        said = set()
        for call in (op, DictVectorizer.from_maps, op.unknown):
            with pytest.raises(TypeError, match=r"map 0: key 'f': value .* is object") as caught:
                call(maps)
            said.add(str(caught.value))
        assert len(said) == 1
    assert pickle.dumps(op) == before


def test_p07_whole_numbers_are_amounts() -> None:
    assert vec([{"c": 1}, {"c": 5}, {"c": 3}], ["c"]).tolist() == [[1], [5], [3]]
    # Categories: one line makes them words.
    maps = [{f"c={m['c']}": 1} for m in ({"c": 1}, {"c": 5}, {"c": 3})]
    op = DictVectorizer.from_maps(maps)
    assert op.vocabulary == ("c=1", "c=3", "c=5")
    assert op(maps).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_p08_several_values_for_one_key_are_an_error_here() -> None:
    with pytest.raises(TypeError, match=r"map 0: key 't': value \['p', 'q', 'p'\] is list"):
        DictVectorizer.from_maps([{"t": ["p", "q", "p"], "n": 7}, {"n": 9}])


@pytest.mark.skipif(not WITH_PANDAS, reason="needs pandas")
def test_p09_frame_instead_of_records() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    op = DictVectorizer(string_vocabulary=["a", "b"])
    with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
        op(frame)
    assert op(frame.to_dict("records")).tolist() == [[1, 3], [2, 4]]
    assert op(pd.Series([{"a": 1}, {"b": 2}], index=[7, 9])).tolist() == [[1, 0], [0, 2]]


def test_p10_columns_never_move_when_words_are_added() -> None:
    first, second = [{"f": 1, "b": 2}, {"f": 3, "z": 4}], [{"f": 1, "b": 2, "z": 4, "new": 9}]
    op = DictVectorizer.from_maps(first, order="first_seen")
    assert op.vocabulary == ("f", "b", "z")
    assert op(first).tolist() == [[1, 2, 0], [3, 0, 4]]

    _, unknown = op.unknown(second)
    wider = DictVectorizer(string_vocabulary=[*op.vocabulary, *dict.fromkeys(unknown.tolist())])

    assert wider.vocabulary == ("f", "b", "z", "new")
    assert wider(second).tolist() == [[1, 2, 4, 9]]
    assert wider(first).tolist() == [[1, 2, 0, 0], [3, 0, 4, 0]]


@needs_scipy
@pytest.mark.skipif(WITHOUT_JIT, reason="kernels as plain Python make objects of their own")
def test_p11_generator_is_read_once_and_not_kept() -> None:
    maps, entries = 5000, 20
    alive = most = 0

    class Counted(dict[str, float]):
        def __init__(self, *given: Any) -> None:
            nonlocal alive, most
            super().__init__(*given)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def generated(make: Any = dict) -> Iterator[Any]:
        for n in range(maps):
            yield make({f"k{(n * 7 + i * 13) % 500}": float(i) for i in range(entries)})

    op = DictVectorizer(string_vocabulary=[f"k{n}" for n in range(500)])
    matrix = op.csr(generated())
    size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    assert matrix.nnz == maps * entries
    tracemalloc.start()
    again = op.csr(generated())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (again != matrix).nnz == 0
    # Twice the result and one chunk of maps (3 MiB); a list of all maps would take 14 MiB.
    assert peak < 2.1 * size + 4 * 2**20
    op.csr(generated(Counted))
    assert most < maps // 2


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_p12_large_vocabulary_pickles_as_arrays_and_words(kind: str) -> None:
    n = 20_000 if WITHOUT_JIT else 200_000
    words: list[Any] = [f"w{i}" for i in range(n)]
    if kind == "int64":
        words = np.random.default_rng(0).permutation(n * 50)[:n].tolist()
    vocabulary: dict[str, Any] = {f"{kind}_vocabulary": words}
    op = DictVectorizer(**vocabulary)
    data = pickle.dumps(op)
    back = pickle.loads(data)
    picks = [0, 1, n // 2, n - 1]

    assert b"numba" not in data
    assert back == op
    for op_ in (op, back):
        matrix = [[words[i] for i in picks], [1.0, 2, 3, 4], [0, 1, 2, 3, 4]]
        numbers, absent = op_.unknown(matrix[0] + [words[0]], [0.0] * 5)
        assert len(numbers) == len(absent) == 0
        if WITH_SCIPY:
            assert op_.csr(*matrix).indices.tolist() == picks


def test_p13_none_is_never_a_silent_nan() -> None:
    maps: list[dict[str, Any]] = [{"prev": None, "w": 1.0}, {"prev": 2.0, "w": 1.0}]
    for call in (DictVectorizer(string_vocabulary=["prev", "w"]), DictVectorizer.from_maps):
        with pytest.raises(TypeError, match="map 0: key 'prev': value None is NoneType"):
            call(maps)


def test_p14_train_and_test_have_one_width() -> None:
    train = DictVectorizer.from_maps([{"g=a": 1}, {"g=b": 1}, {"g=c": 1}], handle_unknown="ignore")
    test = [{"g=a": 1}, {"g=d": 1}]

    assert train(test).tolist() == [[1, 0, 0], [0, 0, 0]]
    numbers, keys = train.unknown(test)
    assert (numbers.tolist(), keys.tolist()) == ([1], ["g=d"])
    by_hand = DictVectorizer(string_vocabulary=["g=a", "g=b", "g=c"], handle_unknown="ignore")
    assert by_hand == train


def test_p15_index_compares_whole_keys() -> None:
    """Keys that meet a word in its slot are still not that word."""
    assert vec([{"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}], ["a", "b", "c", "d"]).tolist() == [
        [1.0, 1.0, 1.0, 1.0]
    ]
    rng = np.random.default_rng(0)
    count = 300 if WITHOUT_JIT else 200_000
    for words in (
        rng.integers(INT64_MIN, INT64_MAX, 7),
        np.array([INT64_MIN, 0, INT64_MAX]),
        np.arange(8) << 60,
    ):
        keys = np.setdiff1d(rng.integers(INT64_MIN, INT64_MAX, count), words)
        keys = np.setdiff1d(np.concatenate([keys, [0, -1, 1], words + 1]), words)
        _, absent = DictVectorizer(int64_vocabulary=words).unknown(keys, keys)
        assert absent.tolist() == keys.tolist()


def test_p16_two_maps_and_one_map() -> None:
    maps = [{"s": 1.0, "r": 2.0}, {"s": 3.0, "t": 1.0}]
    op = DictVectorizer(string_vocabulary=["r", "s", "t"], dtype="float")

    assert op(maps).tolist() == [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]]
    assert op(maps).dtype == np.float32
    assert op(maps[0]).tolist() == [2.0, 1.0, 0.0]
    assert vec([{"s": 1, "r": 2}], ["r", "s", "t"]).dtype == np.int64
    assert vec(maps, ["r", "s", "t"]).dtype == np.float64


def test_p17_integer_keys_with_text_values() -> None:
    maps = [{0: "p", 3: "q"}, {1: "r"}]
    for semantics in ("strict", "onnxruntime"):
        rows = vec(maps, [0, 1, 2, 3], semantics=semantics)
        assert rows.tolist() == [["p", "", "", "q"], ["", "r", "", ""]]
        assert rows.dtype == object


def test_p18_booleans_are_numbers() -> None:
    for true, false in ((True, False), (np.True_, np.False_)):
        maps: list[dict[str, Any]] = [{"u": true, "v": false}, {"u": false}]
        for dtype, expected in ((None, np.int64), ("float", np.float32), ("double", np.float64)):
            rows = vec(maps, ["u", "v"], dtype=dtype)
            assert rows.tolist() == [[1, 0], [0, 0]]
            assert rows.dtype == expected
    mixed = vec([{"u": True, "v": 0.5}], ["u", "v"])
    assert mixed.tolist() == [[1.0, 0.5]]


def test_p19_unseen_key_is_an_error_or_reported() -> None:
    strict = DictVectorizer(string_vocabulary=["x", "y"])
    lenient = DictVectorizer(string_vocabulary=["x", "y"], handle_unknown="ignore")
    for given in (({"z": 1},), ([{"z": 1}],), (["z"], [1]), (["z"], [1], [0, 1])):
        with pytest.raises(UnknownKeyError, match="map 0: key 'z'"):
            strict(*given)
        assert lenient(*given).ravel().tolist() == [0, 0]
        for op in (strict, lenient):
            numbers, keys = op.unknown(*given)
            assert (numbers.tolist(), keys.tolist()) == ([0], ["z"])
        if WITH_SCIPY:
            with pytest.raises(UnknownKeyError, match="map 0: key 'z'"):
                strict.csr(*given)
            assert lenient.csr(*given).nnz == 0


def test_p20_slices_count_from_their_own_start() -> None:
    batch = MapBatch.from_dicts([{k: float(k)} for k in range(10)])
    op = DictVectorizer(int64_vocabulary=list(range(10)))
    expected = np.zeros((3, 10))
    expected[[0, 1, 2], [7, 8, 9]] = [7, 8, 9]

    assert op(batch[7:]).tolist() == expected.tolist()
    assert op(batch[7:7]).shape == (0, 10)
    keys, values = batch.keys[7:], batch.values[7:]
    assert op(keys, values, np.array([0, 0, 2, 3])[1:]).tolist() == [
        (expected[0] + expected[1]).tolist(),
        expected[2].tolist(),
    ]
    # Offsets of the parent do not fit a slice of its entries: an error, not other entries.
    with pytest.raises(ValueError, match="offsets start at 7"):
        op(keys, values, batch.offsets[7:])


def test_p22_keys_that_appear_late_are_learned() -> None:
    maps = [{"a": 1}] * 100 + [{"a": 1, "c": 3}]
    for source in (maps, iter(maps)):
        assert DictVectorizer.from_maps(source).vocabulary == ("a", "c")
    rows = DictVectorizer.from_maps(maps)(maps)
    assert rows.shape == (101, 2)
    assert rows[-1].tolist() == [1, 3]


@needs_scipy
def test_p23_memory_follows_the_entries() -> None:
    """2,000 maps of 10 entries out of 5,000 keys: no array of rows times columns is made."""
    maps, entries, words = (100, 10, 500) if WITHOUT_JIT else (2000, 10, 5000)
    rng = np.random.default_rng(0)
    batch = [{f"k{k}": 1.0 for k in rng.choice(words, entries, replace=False)} for _ in range(maps)]
    for columns in (words, 2 * words):
        op = DictVectorizer(string_vocabulary=[f"k{n}" for n in range(columns)])
        op.csr(batch)
        tracemalloc.start()
        matrix = op.csr(batch)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert matrix.shape == (maps, columns)
        assert matrix.nnz == maps * entries
        if not WITHOUT_JIT:
            assert peak < maps * columns * 8 / 20


def test_p24_large_integers_keep_their_digits() -> None:
    maps = [{"id": 9007199254740993}, {"z": 1}]
    rows = vec(maps, ["id", "z"])

    assert rows.dtype == np.int64
    assert rows.tolist() == [[9007199254740993, 0], [0, 1]]
    with pytest.raises(OverflowError, match="map 1: key 'z'"):
        vec([{"id": 1}, {"z": 2**63}], ["id", "z"])


@pytest.mark.parametrize("words", [[1, 2, 3, 5, 6], [6, 5, 3, 2, 1], [], [1, 2, 3, 5, 2**50]])
def test_p25_unknown_id_has_no_neighbour(words: list[int]) -> None:
    keys = [1, 2, 4, 7, 8, 0, -1, INT64_MIN, INT64_MAX]
    op = DictVectorizer(int64_vocabulary=words, handle_unknown="ignore")
    rows = op(keys, [1.0] * len(keys), list(range(len(keys) + 1)))

    for key, row in zip(keys, rows.tolist(), strict=True):
        assert row == [float(word == key) for word in words]
    _, absent = op.unknown(keys, keys)
    assert absent.tolist() == [key for key in keys if key not in words]


def test_castmap_of_the_reports() -> None:
    """P04, P17, P18 and P24 for the other operator."""
    assert CastMap(cast_to="TO_INT64")([{1: False, 0: True}]).tolist() == [[1, 0]]
    assert CastMap(cast_to="TO_STRING")({3: "q", 0: "p"}).tolist() == ["p", "q"]
    assert CastMap(cast_to="TO_INT64")({0: 9007199254740993}).tolist() == [9007199254740993]
    assert math.isnan(CastMap()({0: math.nan})[0])
