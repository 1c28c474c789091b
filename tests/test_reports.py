"""Reports P01 to P25: what users of other libraries ran into, with the result that is right.

Each is a public report about turning dicts into matrices, and is tested through every entry point
that it concerns; what only scikit-learn's interface has (one-hot text, P03, P08, P13 and P17) with
the drop-in, in test_sklearn.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import pickle
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError
from nbmapops._cli.command import main

from .conftest import WITHOUT_JIT
from .inputs import WITH_PANDAS
from .outcomes import WITH_SCIPY
from .reference import INT64_MAX, INT64_MIN
from .ways import WAYS, way

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_scipy = pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")


# ------------------------------------------------------------------------- entry points
def vec(maps: list[Any], words: list[Any], *, sparse: bool = False, **attributes: Any) -> Any:
    """Rows by every way of the operator that takes these maps; they are all the same."""
    op = operator_of(words, **attributes)
    if sparse:
        return op.csr(maps)
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


def operator_of(words: list[Any], **attributes: Any) -> DictVectorizer:
    attributes[f"{kind_of(words)}_vocabulary"] = words
    return DictVectorizer(**attributes)


def kind_of(words: list[Any]) -> str:
    return "string" if words and isinstance(words[0], str) else "int64"


def value_kind_of(maps: list[Any]) -> str:
    """The ONNX name of the type of the values, or "double" where they have none."""
    try:
        char = MapBatch.from_dicts(maps).values.dtype.char
    except (TypeError, OverflowError):
        return "double"
    return {"f": "float", "d": "double", "l": "int64", "O": "string"}[char]


def by_arrow(maps: list[Any], words: list[Any], *, sparse: bool = False, **attributes: Any) -> Any:
    """Columns of plain and of dictionary-encoded keys; the operator, and csr."""
    pa = pytest.importorskip("pyarrow")
    op = operator_of(words, **attributes)
    keys = pa.string() if kind_of(words) == "string" else pa.int64()
    kind = value_kind_of(maps)
    values = getattr(pa, {"float": "float32", "double": "float64"}.get(kind, kind))()
    given = [value for each in maps for value in each.values()]
    if all(isinstance(value, bool | np.bool_) for value in given):
        values = pa.bool_()
    elif kind == "double":  # which pyarrow does not make of bool
        maps = [{k: v if v is None else float(v) for k, v in each.items()} for each in maps]
    column = pa.array([list(each.items()) for each in maps], pa.map_(keys, values))
    coded = pa.MapArray.from_arrays(column.offsets, column.keys.dictionary_encode(), column.items)
    if sparse:
        return op.csr(coded)
    rows = op(column)
    others = [
        op(coded),
        op(pa.chunked_array([column[:1], column[1:]])),
        op(MapBatch.from_arrow(coded)),
    ]
    others += [np.array([op(scalar) for scalar in column], rows.dtype).reshape(rows.shape)]
    if WITH_SCIPY and rows.dtype != object:
        others += [op.csr(column).toarray(), op.csr(coded).toarray()]
    for other in others:
        assert other.dtype == rows.dtype
        assert other.tolist() == rows.tolist()
    return rows


def by_sklearn(
    maps: list[Any], words: list[Any], *, dtype: Any = None, handle_unknown: str = "error"
) -> Any:
    """The drop-in, fitted to these words; some maps, and as many as go through the walk."""
    module = pytest.importorskip("nbmapops.sklearn", exc_type=ImportError)
    types = {"float": np.float32, "double": np.float64, "int64": np.int64}
    estimator = module.DictVectorizer(
        dtype=types[dtype or value_kind_of(maps)], sort=False, handle_unknown=handle_unknown
    ).fit([dict.fromkeys(words, 0)])
    rows = estimator.transform(maps).toarray()
    assert estimator.transform(maps * 20).toarray().tolist() == rows.tolist() * 20
    return rows


def by_session(
    maps: list[Any], words: list[Any], *, dtype: str | None = None, **options: Any
) -> Any:
    """A model that is this operator."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    from nbmapops.onnx import MapSession

    key, value = kind_of(words), dtype or value_kind_of(maps)
    types = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}
    key_type, value_type = (types.get(k) or getattr(TensorProto, k.upper()) for k in (key, value))
    vocabulary: dict[str, Any] = {f"{key}_vocabulary": words}
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **vocabulary)
    maps_type = helper.make_map_type_proto(key_type, helper.make_tensor_type_proto(value_type, []))
    graph = helper.make_graph(
        [node], "g", [helper.make_value_info("x", maps_type)],
        [helper.make_tensor_value_info("y", value_type, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)])
    session = MapSession(model, **{"semantics": "strict", **options})
    rows = session.run(None, {"x": maps})[0]
    if isinstance(maps, list):
        assert session.run(None, {"x": iter(maps)})[0].tolist() == rows.tolist()
    return rows


def by_dask(maps: list[Any], words: list[Any], *, sparse: bool = False, **attributes: Any) -> Any:
    """A bag of two partitions."""
    pytest.importorskip("dask.array")
    bag: Any = pytest.importorskip("dask.bag")
    import nbmapops.dask

    op = operator_of(words, **{"dtype": value_kind_of(maps), **attributes})
    bag = bag.from_sequence(maps, npartitions=2)
    rows = nbmapops.dask.dense(op, bag).compute(scheduler="sync")
    if WITH_SCIPY and rows.dtype != object:
        matrix = nbmapops.dask.csr(op, bag).compute(scheduler="sync")
        assert matrix.toarray().tolist() == rows.tolist()
        if sparse:
            return matrix
    return rows


def by_command(
    maps: list[Any], words: list[Any], *, handle_unknown: str = "error", sparse: bool = False
) -> Any:
    """A file of JSON lines, and what the command makes of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [json.dumps(each, default=lambda scalar: scalar.item()) for each in maps]
        (folder / "maps.jsonl").write_text("\n".join(lines))
        (folder / "words.json").write_text(json.dumps(words))
        target = folder / ("x.npz" if sparse else "x.npy")
        options = [f"--handle-unknown={handle_unknown}", *([] if sparse else ["--dense"])]
        if kind_of(words) == "int64":
            options.append("--key-type=int64")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(
                [
                    str(folder / "maps.jsonl"),
                    "--vocabulary",
                    str(folder / "words.json"),
                    "-o",
                    str(target),
                    *options,
                ]
            )
        if code:
            raise Refused(said.getvalue())
        if not sparse:
            return np.load(target)
        from scipy.sparse import load_npz

        return load_npz(target)


class Refused(Exception):
    """What the command says where it fails."""


ENTRIES: dict[str, Any] = {
    "operator": vec,
    "Arrow": by_arrow,
    "scikit-learn": by_sklearn,
    "MapSession": by_session,
    "dask": by_dask,
    "command": by_command,
}
Errors = TypeError, ValueError, UnknownKeyError, Refused


def entries(*without: str) -> pytest.MarkDecorator:
    """Run a test with each entry point that its report concerns."""
    names = [name for name in ENTRIES if name not in without]
    return pytest.mark.parametrize("rows_of", [ENTRIES[name] for name in names], ids=names)


# ------------------------------------------------------------------------- the reports
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
@entries("MapSession", "scikit-learn")  # the one has dense results, the other has its own test
def test_p01_index_arrays_are_int32_by_every_way(rows_of: Any) -> None:
    matrix = rows_of([{"a": 1, "b": 2}, {"a": 2, "c": 3}], ["a", "b", "c"], sparse=True)
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
    from nbmapops._engine.blocks import index_dtype_for

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


@entries("Arrow", "scikit-learn")
def test_p03_by_every_way(rows_of: Any) -> None:
    with pytest.raises(Errors, match=r"(map \d|jsonl:2): key 'y': .*0\.5.* number"):
        rows_of([{"x": 0.5, "y": 0.25}, {"x": 0.75, "y": "0.5"}], ["x", "y"])


@needs_scipy
def test_p04_false_and_0_come_back_from_sparse() -> None:
    op = DictVectorizer(string_vocabulary=["k", "on"])
    maps: list[dict[str, Any]] = [{"k": 3, "on": True}, {"k": 4, "on": False}]

    assert op.inverse(op.csr(maps)).to_dicts() == [{"k": 3, "on": 1}, {"k": 4, "on": 0}]
    assert op.inverse(op(maps)).to_dicts() == [{"k": 3, "on": 1}, {"k": 4}]


@entries()
def test_p05_all_forms_give_the_same_numbers(rows_of: Any) -> None:
    maps = [{"t=p": 1.0, "u": 3.0}, {"n": 9.0}, {}]
    rows = rows_of(maps, ["n", "t=p", "t=q"], handle_unknown="ignore")

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


@entries("Arrow", "command")  # which cannot hold such values
def test_p06_by_every_way(rows_of: Any) -> None:
    for maps in ([{"a": 1, "f": object()}], [{"f": object()}]):
        with pytest.raises(TypeError, match=r"'f'.*object|object.* f: "):
            rows_of(maps, ["a", "f"])


@entries()
def test_p07_whole_numbers_stay_amounts(rows_of: Any) -> None:
    assert rows_of([{"c": 1}, {"c": 5}, {"c": 3}], ["c"]).tolist() == [[1], [5], [3]]


def test_p07_whole_numbers_become_categories_in_one_line() -> None:
    # Categories: one line makes them words.
    maps = [{f"c={m['c']}": 1} for m in ({"c": 1}, {"c": 5}, {"c": 3})]
    op = DictVectorizer.from_maps(maps)
    assert op.vocabulary == ("c=1", "c=3", "c=5")
    assert op(maps).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_p08_several_values_for_one_key_are_an_error_here() -> None:
    with pytest.raises(TypeError, match=r"map 0: key 't': value \['p', 'q', 'p'\] is list"):
        DictVectorizer.from_maps([{"t": ["p", "q", "p"], "n": 7}, {"n": 9}])


@entries("Arrow", "scikit-learn")
def test_p08_by_every_way(rows_of: Any) -> None:
    with pytest.raises(Errors, match=r"(map \d|jsonl:1): key 't': .*p.*q.*p"):
        rows_of([{"t": ["p", "q", "p"], "n": 7}, {"n": 9}], ["n", "t"])


@pytest.mark.skipif(not WITH_PANDAS, reason="needs pandas")
def test_p09_frame_instead_of_records() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    op = DictVectorizer(string_vocabulary=["a", "b"])
    with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
        op(frame)
    calls: list[Any] = [op.csr, op.unknown, DictVectorizer.from_maps, MapBatch.from_dicts]
    calls += [
        lambda frame: by_sklearn(frame, ["a", "b"]),
        lambda frame: by_session(frame, ["a", "b"]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
            call(frame)
    assert op(frame.to_dict("records")).tolist() == [[1, 3], [2, 4]]
    assert op(pd.Series([{"a": 1}, {"b": 2}], index=[7, 9])).tolist() == [[1, 0], [0, 2]]


def test_p10_columns_never_move_when_words_are_added() -> None:
    first, second = [{"f": 1, "b": 2}, {"f": 3, "z": 4}], [{"f": 1, "b": 2, "z": 4, "new": 9}]
    op = DictVectorizer.from_maps(first, order="first_seen")
    assert op.vocabulary == ("f", "b", "z")
    assert op(first).tolist() == [[1, 2, 0], [3, 0, 4]]

    _, unknown = op.unknown(second)
    assert unknown.tolist() == ["new"]
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


@entries("scikit-learn")
def test_p13_by_every_way(rows_of: Any) -> None:
    with pytest.raises(Errors, match=r"(map 0|jsonl:1): .*key 'prev'.*([Nn]one|null)"):
        rows_of([{"prev": None, "w": 1.0}, {"prev": 2.0, "w": 1.0}], ["prev", "w"])


@entries()
def test_p14_width_is_that_of_the_vocabulary(rows_of: Any) -> None:
    rows = rows_of([{"g=a": 1}, {"g=d": 1}], ["g=a", "g=b", "g=c"], handle_unknown="ignore")
    assert rows.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_p14_train_and_test_have_one_width() -> None:
    train = DictVectorizer.from_maps([{"g=a": 1}, {"g=b": 1}, {"g=c": 1}], handle_unknown="ignore")
    test = [{"g=a": 1}, {"g=d": 1}]

    assert train(test).tolist() == [[1, 0, 0], [0, 0, 0]]
    numbers, keys = train.unknown(test)
    assert (numbers.tolist(), keys.tolist()) == ([1], ["g=d"])
    by_hand = DictVectorizer(string_vocabulary=["g=a", "g=b", "g=c"], handle_unknown="ignore")
    assert by_hand == train


@entries()
def test_p15_no_columns_cancel(rows_of: Any) -> None:
    maps = [{"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}]
    assert rows_of(maps, ["a", "b", "c", "d"]).tolist() == [[1.0] * 4]


def test_p15_index_compares_whole_keys() -> None:
    """Keys that meet a word in its slot are still not that word."""
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


@entries()
@pytest.mark.parametrize("one", [1.0, 1])
def test_p16_plain_maps_keep_their_type(rows_of: Any, one: Any) -> None:
    maps = [{"s": one, "r": 2 * one}, {"s": 3 * one, "t": one}]
    rows = rows_of(maps, ["r", "s", "t"])
    assert rows.tolist() == [[2, 1, 0], [0, 3, 1]]
    assert rows.dtype == type(one)


@entries("command")  # which has no option for it
def test_p16_float32_on_request(rows_of: Any) -> None:
    maps = [{"s": 1.0, "r": 2.0}, {"s": 3.0, "t": 1.0}]
    rows = rows_of(maps, ["r", "s", "t"], dtype="float")
    assert rows.tolist() == [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]]
    assert rows.dtype == np.float32


@entries("scikit-learn", "command")
@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
def test_p17_integer_keys_with_text_values(rows_of: Any, semantics: str) -> None:
    maps = [{0: "p", 3: "q"}, {1: "r"}]
    rows = rows_of(maps, [0, 1, 2, 3], semantics=semantics)
    assert rows.tolist() == [["p", "", "", "q"], ["", "r", "", ""]]
    assert rows.dtype == object


@entries()
@pytest.mark.parametrize(("true", "false"), [(True, False), (np.True_, np.False_)])
def test_p18_booleans_are_numbers(rows_of: Any, true: Any, false: Any) -> None:
    rows = rows_of([{"u": true, "v": false}, {"u": false}], ["u", "v"])
    assert rows.tolist() == [[1, 0], [0, 0]]
    assert rows.dtype == np.int64
    assert rows_of([{"u": true, "v": 0.5}], ["u", "v"]).tolist() == [[1.0, 0.5]]
    if rows_of is not by_command:
        for dtype, expected in (("float", np.float32), ("double", np.float64)):
            rows = rows_of([{"u": true, "v": false}, {"u": false}], ["u", "v"], dtype=dtype)
            assert rows.tolist() == [[1, 0], [0, 0]]
            assert rows.dtype == expected


@entries()
def test_p19_by_every_way(rows_of: Any) -> None:
    maps = [{"x": 1}, {"z": 1}]
    with pytest.raises(Errors, match=r"(map \d|jsonl:2).*'z'"):
        rows_of(maps, ["x", "y"])
    assert rows_of(maps, ["x", "y"], handle_unknown="ignore").tolist() == [[1, 0], [0, 0]]


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


def by_dask_frame(column: Any, words: list[Any]) -> Any:
    """A column of a frame of two partitions."""
    pandas = pytest.importorskip("pandas")
    frames: Any = pytest.importorskip("dask.dataframe")
    import nbmapops.dask

    series = pandas.Series(column, dtype=pandas.ArrowDtype(column.type))
    frame = frames.from_pandas(series.to_frame("m"), npartitions=2)
    op = operator_of(words, dtype="double")
    return nbmapops.dask.dense(op, frame["m"]).compute(scheduler="sync")


def by_parquet(column: Any, words: list[Any]) -> Any:
    """A Parquet file, and what the command makes of it."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    with tempfile.TemporaryDirectory() as name:
        file, said = Path(name, "maps.parquet"), io.StringIO()
        parquet.write_table(pa.table({"m": column}), file)
        Path(name, "words.json").write_text(json.dumps(words))
        options = ["--column", "m", "--dense", "--vocabulary", str(Path(name, "words.json"))]
        with contextlib.redirect_stderr(said):
            code = main([str(file), *options])
        if code:
            raise Refused(said.getvalue())
        return np.load(file.with_suffix(".npy"))


columns_by = pytest.mark.parametrize(
    "rows_of",
    [
        lambda column, words: operator_of(words)(column),
        pytest.param(
            lambda column, words: operator_of(words).csr(column).toarray(), marks=needs_scipy
        ),
        lambda column, words: operator_of(words)(MapBatch.from_arrow(column)),
        by_session,
        by_dask_frame,
        by_parquet,
    ],
    ids=["operator", "csr", "MapBatch", "MapSession", "dask", "command"],
)


@columns_by
def test_p20_sliced_columns_keep_their_keys(rows_of: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    whole = pa.array([[(k, float(k))] for k in range(10)], pa.map_(pa.int64(), pa.float64()))
    expected = np.zeros((3, 10))
    expected[[0, 1, 2], [7, 8, 9]] = [7, 8, 9]
    for column in (whole[7:], pa.chunked_array([whole[7:8], whole[8:]])):
        assert rows_of(column, list(range(10))).tolist() == expected.tolist()
    assert rows_of(whole[7:7], list(range(10))).shape == (0, 10)
    assert DictVectorizer.from_maps(whole[7:]).vocabulary.tolist() == [7, 8, 9]


@columns_by
def test_p21_null_maps_are_not_empty_maps(rows_of: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    kind = pa.map_(pa.string(), pa.float64())
    column = pa.array([[("a", 1.0)], [], None, [("b", None)]], kind)
    assert rows_of(column[:2], ["a", "b"]).tolist() == [[1, 0], [0, 0]]
    with pytest.raises((ValueError, Refused), match=r"map \d is null|row 3: the map is null"):
        rows_of(column, ["a", "b"])
    with pytest.raises((ValueError, Refused), match=r"(map 0|row 1): the value of key 'b' is null"):
        rows_of(column[3:], ["a", "b"])


def test_p21_nulls_become_what_is_asked_for() -> None:
    pa = pytest.importorskip("pyarrow")
    column = pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int64()))
    op = DictVectorizer(string_vocabulary=["a", "b"])
    for call in (op.unknown, DictVectorizer.from_maps):
        with pytest.raises(ValueError, match="map 2 is null"):
            call(column)
    for null_value, cell in (("skip", 0), (7, 7)):
        batch = MapBatch.from_arrow(column, null_map="empty", null_value=null_value)
        assert op(batch).tolist() == [[1, 0], [0, 0], [0, 0], [0, cell]]
        assert batch.null_maps is not None
        assert batch.null_maps.tolist() == [False, False, True, False]
    entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
    with pytest.raises(ValueError, match="map 0: a key is null"):
        op(pa.array([[{"key": None, "value": 1}]], pa.list_(entry)))


def test_p22_keys_that_appear_late_are_learned(tmp_path: Path) -> None:
    maps = [{"a": 1}] * 100 + [{"a": 1, "c": 3}]
    sources: list[Any] = [maps, iter(maps), MapBatch.from_dicts(maps)]
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        column = [list(each.items()) for each in maps]
        sources.append(pa.array(column, pa.map_(pa.string(), pa.int64())))
    for source in sources:
        assert DictVectorizer.from_maps(source).vocabulary == ("a", "c")
    with contextlib.suppress(ImportError):
        import dask.bag

        import nbmapops.dask

        bag: Any = dask.bag.from_sequence(maps, npartitions=5)  # type: ignore[no-untyped-call]
        assert nbmapops.dask.from_maps(bag).vocabulary == ("a", "c")
    with contextlib.suppress(ImportError):
        import nbmapops.sklearn

        estimator = nbmapops.sklearn.DictVectorizer(sparse=False)
        assert estimator.fit_transform(maps)[-1].tolist() == [1, 3]
    rows = DictVectorizer.from_maps(maps)(maps)
    assert rows.shape == (101, 2)
    assert rows[-1].tolist() == [1, 3]
    (tmp_path / "maps.jsonl").write_text("\n".join(map(json.dumps, maps)))
    assert main([str(tmp_path / "maps.jsonl"), "--dense"]) == 0
    assert np.load(tmp_path / "maps.npy").tolist() == rows.tolist()


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


@entries()
def test_p24_large_integers_keep_their_digits(rows_of: Any) -> None:
    rows = rows_of([{"id": 9007199254740993}, {"z": 1}], ["id", "z"])

    assert rows.dtype == np.int64
    assert rows.tolist() == [[9007199254740993, 0], [0, 1]]


@entries("Arrow", "scikit-learn")  # neither can hold it
def test_p24_too_large_integers_are_an_error(rows_of: Any) -> None:
    with pytest.raises((OverflowError, Refused), match=r"(map \d|jsonl:2): key 'z'"):
        rows_of([{"id": 1}, {"z": 2**63}], ["id", "z"])


@entries()
@pytest.mark.parametrize("words", [[1, 2, 3, 5, 6], [6, 5, 3, 2, 1], [1, 2, 3, 5, 2**50]])
def test_p25_by_every_way(rows_of: Any, words: list[int]) -> None:
    keys = [1, 2, 4, 7, 8, 0, -1, INT64_MIN, INT64_MAX]
    rows = rows_of([{key: 1.0} for key in keys], words, handle_unknown="ignore")
    assert rows.tolist() == [[float(word == key) for word in words] for key in keys]


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
