"""A missing value is an error in every column that marks one; without one every column is exact."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._reading.columns import is_missing, plain_column

if TYPE_CHECKING:
    from collections.abc import Callable

    Maker = Callable[[Any, list[Any]], Any]

BIG = 2**53 + 1  # no float64 holds it
NEEDED = {"pd": "pandas", "pa": "pyarrow", "pl": "polars", "duckdb": "duckdb"}


def _null_in_dictionary(pa: Any, data: list[Any]) -> Any:
    """Of this array pyarrow says that nothing is null: a word of its dictionary is."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(data)), pa.int32()), pa.array(data))


def _of_pandas(pd: Any, data: list[Any], *, dtype: str, form: str) -> Any:
    if form == "array":
        return pd.array(data, dtype=dtype)
    if form == "Index":
        return pd.Index(data, dtype=dtype)
    series = pd.Series(data, dtype=dtype)
    return {"Series": series, "values": series.values}.get(form, series.astype("category"))


def _relation(duckdb: Any, data: list[Any]) -> Any:
    listed = ", ".join("NULL" if x is None else repr(x) for x in data)
    return duckdb.sql(f"SELECT unnest([{listed}]) AS x")


# A column of integers or of text (with None where a value is missing) in each container.
INTEGERS: dict[str, Maker] = {
    **{
        f"pd {form} {dtype}": partial(_of_pandas, dtype=dtype, form=form)
        for dtype in ("Int64", "UInt64", "int64[pyarrow]", "uint64[pyarrow]")
        for form in ("array", "Series", "Index", "values", "category")
    },
    "pd object": lambda pd, data: pd.Series([pd.NA if x is None else x for x in data], dtype="O"),
    "pd NaT": lambda pd, data: np.array([pd.NaT if x is None else x for x in data], object),
    "pd dictionary": lambda pd, data: pd.Series(
        pd.arrays.ArrowExtensionArray(_null_in_dictionary(importlib.import_module("pyarrow"), data))
    ),
    "np object": lambda _, data: np.array(data, object),
    "np masked": lambda _, data: np.ma.array(
        [0 if x is None else x for x in data], np.int64, mask=[x is None for x in data]
    ),
    "np masked objects": lambda _, data: np.ma.array(
        data, object, mask=[x is None for x in data]
    ),
    "list": lambda _, data: list(data),
    "list of masked": lambda _, data: [np.ma.masked if x is None else x for x in data],
    "tuple": lambda _, data: tuple(data),
    "iterator": lambda _, data: iter(data),
    "pa array": lambda pa, data: pa.array(data, pa.int64()),
    "pa unsigned": lambda pa, data: pa.array(data, pa.uint64()),
    "pa chunks": lambda pa, data: pa.chunked_array([data[:1], data[1:]], pa.int64()),
    "pa slice": lambda pa, data: pa.array([None, *data, None], pa.int64())[1:-1],
    "pa indices": lambda pa, data: pa.array(data, pa.int64()).dictionary_encode(),
    "pa dictionary": _null_in_dictionary,
    "pa chunked dictionary": lambda pa, data: pa.chunked_array([_null_in_dictionary(pa, data)]),
    "pa runs": lambda pa, data: importlib.import_module("pyarrow.compute").run_end_encode(
        pa.array(data, pa.int64())
    ),
    "pl Series": lambda pl, data: pl.Series(data, dtype=pl.Int64),
    "pl unsigned": lambda pl, data: pl.Series(data, dtype=pl.UInt64),
    "pl Int128": lambda pl, data: pl.Series(data, dtype=pl.Int128),
    "duckdb df": lambda duckdb, data: _relation(duckdb, data).df()["x"],
    "duckdb NumPy": lambda duckdb, data: _relation(duckdb, data).fetchnumpy()["x"],
    "duckdb arrow": lambda duckdb, data: _relation(duckdb, data).to_arrow_table()["x"],
    "duckdb relation": _relation,
}  # fmt: skip
TEXTS: dict[str, Maker] = {
    **{
        f"pd {dtype}": partial(_of_pandas, dtype=dtype, form="Series")
        for dtype in ("string", "str", "string[python]", "string[pyarrow]", "category")
    },
    "pd ArrowDtype": lambda pd, data: pd.Series(
        data, dtype=pd.ArrowDtype(importlib.import_module("pyarrow").large_string())
    ),
    "np object": lambda _, data: np.array(data, object),
    "np masked": lambda _, data: np.ma.array(
        [x or "" for x in data], mask=[x is None for x in data]
    ),
    "list": lambda _, data: list(data),
    "pa array": lambda pa, data: pa.array(data),
    "pa view": lambda pa, data: pa.array(data, pa.string_view()),
    "pa dictionary": _null_in_dictionary,
    "pa runs": lambda pa, data: importlib.import_module("pyarrow.compute").run_end_encode(
        pa.array(data)
    ),
    "pl Series": lambda pl, data: pl.Series(data, dtype=pl.String),
    "pl Categorical": lambda pl, data: pl.Series(data, dtype=pl.Categorical),
    "duckdb df": lambda duckdb, data: _relation(duckdb, data).df()["x"],
    "duckdb NumPy": lambda duckdb, data: _relation(duckdb, data).fetchnumpy()["x"],
    "duckdb relation": _relation,
}
FLOATS: dict[str, Maker] = {
    **{
        f"pd {dtype}": partial(_of_pandas, dtype=dtype, form="Series")
        for dtype in ("Float64", "Float32", "float64[pyarrow]", "Sparse[float64]")
    },
    "np masked": lambda _, data: np.ma.array(
        [x or 0.0 for x in data], mask=[x is None for x in data]
    ),
    "pa array": lambda pa, data: pa.array(data, pa.float64()),
    "pl Series": lambda pl, data: pl.Series(data, dtype=pl.Float64),
}
FLAGS: dict[str, Maker] = {
    "pd boolean": lambda pd, data: pd.array(data, dtype="boolean"),
    "pd bool[pyarrow]": lambda pd, data: pd.Series(data, dtype="bool[pyarrow]"),
    "pa array": lambda pa, data: pa.array(data, pa.bool_()),
    "pl Series": lambda pl, data: pl.Series(data, dtype=pl.Boolean),
}


def made(container: str, makers: dict[str, Maker], data: Any) -> Any:
    library = container.partition(" ")[0]
    module = pytest.importorskip(NEEDED[library]) if library in NEEDED else None
    return makers[container](module, list(data))


# What is done with keys, values and offsets; of a column only its missing value may be told.
BY_INT = DictVectorizer(int64_vocabulary=[1, BIG])
BY_STR = DictVectorizer(string_vocabulary=["a", "b"])
CALLS: dict[str, Callable[..., Any]] = {
    "DictVectorizer": BY_INT,
    "as int64": DictVectorizer(int64_vocabulary=[1], dtype="int64", handle_unknown="ignore"),
    "as onnxruntime": DictVectorizer(int64_vocabulary=[1, 7], semantics="onnxruntime"),
    "csr": BY_INT.csr,
    "unknown": BY_INT.unknown,
    "from_maps": DictVectorizer.from_maps,
    "CastMap": CastMap(),
    "CastMap SPARSE": CastMap(map_form="SPARSE", max_map=9, cast_to="TO_INT64"),
    "ragged": CastMap().ragged,
    "from_arrays": MapBatch.from_arrays,
}


@pytest.mark.parametrize("container", INTEGERS)
@pytest.mark.parametrize("position", ["keys", "values", "offsets", "keys of one", "values of one"])
def test_missing_integers_are_refused_by_every_call(container: str, position: str) -> None:
    what = position.partition(" ")[0]
    holed = [0, None, 2] if what == "offsets" else [1, None]
    for name, call in CALLS.items():
        parts: dict[str, Any] = {"keys": [1, 7], "values": [1, 2], "offsets": [0, 1, 2]}
        parts[what] = made(container, INTEGERS, holed)
        if position.endswith("one"):
            del parts["offsets"]
        if name == "csr":
            pytest.importorskip("scipy")
        with pytest.raises(ValueError, match=rf"{what} hold missing values .*drop") as caught:
            call(*parts.values())
        assert type(caught.value) is ValueError, name
        assert "entry 1" in str(caught.value)


@pytest.mark.parametrize("kind", [TEXTS, FLOATS, FLAGS], ids=["text", "floats", "flags"])
def test_other_missing_values_are_refused_by_every_call(kind: Any) -> None:
    present = {id(TEXTS): "a", id(FLOATS): 0.5, id(FLAGS): True}[id(kind)]
    for container in kind:
        for call in CALLS.values():
            with pytest.raises(ValueError, match=r"values hold missing values .*entry 1"):
                call([1, 7], made(container, kind, [present, None]), [0, 1, 2])
    for container in TEXTS:
        for by_text in (BY_STR, BY_STR.unknown, MapBatch.from_arrays, DictVectorizer.from_maps):
            with pytest.raises(ValueError, match="keys hold missing values"):
                by_text(made(container, TEXTS, ["a", None]), [1, 2])


@pytest.mark.parametrize("container", INTEGERS)
def test_integers_of_every_container_are_exact(container: str) -> None:
    def column(*data: int) -> Any:
        return made(container, INTEGERS, data)

    batch = BY_INT(column(1, BIG, 1), column(BIG, 1, 5), column(0, 2, 3))
    assert batch.tolist() == [[BIG, 1], [5, 0]]
    assert batch.dtype == np.int64
    assert BY_INT(column(BIG, 1), column(3, BIG)).tolist() == [BIG, 3]
    cast = CastMap(cast_to="TO_INT64")(column(2, 1), column(3, BIG))
    assert cast.tolist() == [BIG, 3]
    made_batch = MapBatch.from_arrays(column(1, BIG), column(BIG, 2))
    assert made_batch.to_dicts() == [{1: BIG, BIG: 2}]


@pytest.mark.parametrize("container", TEXTS)
def test_texts_of_every_container_are_exact(container: str) -> None:
    texts = ["b", "a\0", "é"]
    if "duckdb" in container:
        texts[1] = "a "  # its SQL takes no NUL
    if container == "np masked":
        texts[1] = "a"  # text of fixed width ends before a NUL
    column = made(container, TEXTS, texts)
    op = DictVectorizer(string_vocabulary=texts)
    assert op(made(container, TEXTS, texts[::-1]), [1, 2, 3]).tolist() == [3, 2, 1]
    assert BY_INT([1, BIG], made(container, TEXTS, texts[1:])).tolist() == texts[1:]
    assert DictVectorizer(string_vocabulary=column) == op


def test_floats_and_flags_of_every_container_are_exact() -> None:
    for container in FLOATS:
        column = made(container, FLOATS, [0.1, 2.5])
        exact = np.float32(0.1) if "32" in container else 0.1
        assert BY_INT([1, BIG], column).tolist() == [exact, 2.5]
    for container in FLAGS:
        flags = made(container, FLAGS, [True, False])
        assert DictVectorizer(int64_vocabulary=[0, 1])(flags, flags).tolist() == [0, 1]


def test_nan_is_a_number_where_the_column_says_so() -> None:
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    nan = float("nan")
    arrow = pa.array([nan, 1.0])
    for column in (
        pd.Series([nan, 1.0]),
        pd.Index([nan, 1.0]),
        pd.Series(pd.arrays.ArrowExtensionArray(arrow)),
        arrow,
        [nan, 1.0],
        np.array([nan, 1.0], object),
    ):
        assert repr(BY_INT([1, BIG], column).tolist()) == "[nan, 1.0]"


# Vocabularies, out.


@pytest.mark.parametrize(
    ("kind", "makers", "present"),
    [("int64", INTEGERS, BIG), ("string", TEXTS, "a")],
    ids=["int64", "string"],
)
def test_missing_words_are_refused(kind: str, makers: Any, present: Any) -> None:
    for container in makers:
        if container == "iterator":
            continue  # which no vocabulary is
        with pytest.raises(ValueError, match=rf"{kind}_vocabulary: the words hold missing values"):
            DictVectorizer(**{f"{kind}_vocabulary": made(container, makers, [present, None])})


@pytest.mark.parametrize("container", [name for name in INTEGERS if name != "iterator"])
def test_integer_words_of_every_container_are_exact(container: str) -> None:
    op = DictVectorizer(int64_vocabulary=made(container, INTEGERS, [BIG, 3]))
    assert op.vocabulary.tolist() == [BIG, 3]


def test_out_must_be_a_plain_array() -> None:
    pd = pytest.importorskip("pandas")
    outs: list[Any] = [
        pd.array([0, 0], dtype="Int64"),
        pd.Series([0, 0]),
        np.ma.zeros(2, np.int64),
        [0, 0],
    ]
    for out in outs:
        with pytest.raises(ValueError, match=r"out must be an array, not"):
            BY_INT([1, BIG], [1, 2], out=out)


# Columns that NumPy cannot hold, and damaged ones.


def test_a_union_is_refused_by_name() -> None:
    pa = pytest.importorskip("pyarrow")
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2])] * 2)
    with pytest.raises(TypeError, match="DictVectorizer: values are a column of sparse_union"):
        BY_INT([1, BIG], union)


def test_a_damaged_dictionary_is_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    outside = pa.DictionaryArray.from_arrays(
        pa.array([0, 2**31], pa.uint32()), pa.array([1, 2]), safe=False
    )
    with pytest.raises(ValueError, match="DictVectorizer: values are a corrupt Arrow column"):
        BY_INT([1, BIG], outside)


def test_damaged_text_is_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    ends, text = np.array([0, 1, 2], np.int32), b"ab"
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    column = pa.Array.from_buffers(pa.string(), 2, buffers)
    assert BY_STR(column, [1, 2]).tolist() == [1, 2]
    for bad in ([0, 1, 10**9], [0, 10**9, 2], [-(10**9), 1, 2]):
        ends[:] = bad
        for damaged in (column, pa.chunked_array([column])):
            for call in (BY_STR, MapBatch.from_arrays, BY_STR.csr):
                with pytest.raises(ValueError, match="keys are a corrupt Arrow column"):
                    call(damaged, [1, 2])
            with pytest.raises(ValueError, match="values are a corrupt Arrow column"):
                BY_INT([1, BIG], damaged)
            with pytest.raises(ValueError, match="words are a corrupt Arrow column"):
                DictVectorizer(string_vocabulary=damaged)
    ends[:] = [0, 1, 2]
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(ends), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(ValueError, match="keys are a corrupt Arrow column"):
        BY_STR(broken, [1, 2])


def test_arrow_text_as_keys_is_read_as_any_other() -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    texts = ["b", "a", "z", "a", "é"]
    op = DictVectorizer(string_vocabulary=["a", "b", "é"], handle_unknown="ignore")
    columns = (pa.array(texts), pl.Series(texts), pd.Series(texts), pd.Index(texts),
               pd.array(texts), pa.array(["x", *texts], pa.string_view())[1:])  # fmt: skip
    values, offsets = [1, 2, 3, 4, 5], [0, 2, 3, 3, 5]
    calls: list[Any] = [op, op.csr, op.unknown, DictVectorizer.from_maps, MapBatch.from_arrays]
    for keys in columns:
        for call in calls:
            ours, expected = call(keys, values, offsets), call(texts, values, offsets)
            if isinstance(expected, MapBatch):
                assert ours.to_dicts() == expected.to_dicts()
            elif isinstance(expected, tuple):
                assert [part.tolist() for part in ours] == [part.tolist() for part in expected]
            elif isinstance(expected, DictVectorizer):
                assert ours == expected
            else:
                assert (ours != expected).sum() == 0
        assert MapBatch.from_rows([1, 0, 1, 2, 0], keys).to_dicts() == [
            {"a": 1, "é": 1}, {"b": 1, "z": 1}, {"a": 1},
        ]  # fmt: skip
        in_order = MapBatch.from_rows([0, 0, 1, 2, 2], keys, values)
        assert in_order.to_dicts() == [{"b": 1, "a": 2}, {"z": 3}, {"a": 4, "é": 5}]
        with pytest.raises(TypeError, match="map 2: key 'a': value 'x' is str"):
            MapBatch.from_rows([0, 0, 1, 2, 2], keys, [1, 2, 3, "x", 5])
        two = DictVectorizer(string_vocabulary=["b", "a"])
        failing: list[tuple[Any, list[Any]]] = [
            (BY_INT, [values]), (BY_INT, [values, offsets]), (CastMap(), [values]),
            (BY_STR, [values, offsets]), (op, [[1, 2, "x", 4, 5], offsets]),
            (op, [[1, 2, 10**30, 4, 5], offsets]), (op, [values[1:], offsets]),
            (two, [[1, 2, 3, "x", 5], offsets]),
        ]  # fmt: skip
        for call, others in failing:
            with pytest.raises(Exception, match=r"DictVectorizer|CastMap") as expected_error:
                call(texts, *others)
            with pytest.raises(expected_error.type) as caught:
                call(keys, *others)
            assert str(caught.value) == str(expected_error.value)


def test_a_relation_of_several_columns_is_refused() -> None:
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(TypeError, match="values are a DuckDBPyRelation of 2 columns; pass one"):
        BY_INT([1, BIG], duckdb.sql("SELECT 1 AS x, 2 AS y"))


def test_a_container_that_turns_integers_into_floats_is_not_believed() -> None:
    class Column:
        """A column of a library that nobody here has heard of."""

        dtype = type("Dtype", (), {"kind": "i"})()

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, np.nan])

    with pytest.raises(ValueError, match="column hold missing values"):
        plain_column(Column(), "column")


def test_what_stands_for_a_missing_value() -> None:
    pd = pytest.importorskip("pandas")
    assert all(map(is_missing, (None, pd.NA, pd.NaT, np.ma.masked)))
    assert not any(map(is_missing, (0, "", float("nan"), np.nan, [], np.array(None), type(None))))


def test_a_table_is_not_a_matrix() -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    cells: dict[str, list[Any]] = {"a": [BIG, None], "b": [1, 2]}
    for table in (pd.DataFrame(cells, dtype="Int64"), pl.DataFrame(cells), pa.table(cells)):
        with pytest.raises(TypeError, match=r"must be an array, not (DataFrame|Table); pass .to_n"):
            BY_INT.inverse(table)
