"""Maps in bags and Arrow columns of dask: the rows of one local batch, also when a worker dies."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError

pytest.importorskip("dask.array", reason="needs nbmapops[dask]")

import cloudpickle  # type: ignore[import-untyped]  # which dask needs
import dask.array
import dask.bag
import dask.base
from dask.delayed import delayed
from scipy import sparse

import nbmapops.dask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

bags: Any = dask.bag  # whose functions have no annotations
arrays: Any = dask.array
compute: Any = dask.base.compute

MAPS: list[Any] = [{"b": 1.5, "a": 2.0}, {}, {"c": -1.0}, {"a": 0.0}, {"d": 4.0, "b": 1.0}]
INT_MAPS: list[Any] = [{7: 1, 3: 2}, {}, {2**62: 2**53 + 1}, {3: 0}, {-1: 5, 7: 6}]


def bag_of(*partitions: list[Any]) -> Any:
    return bags.from_delayed([delayed(list)(each) for each in partitions])


def same(rows: Any, expected: Any) -> bool:
    if sparse.issparse(expected):
        assert type(rows) is sparse.csr_array
        assert rows.indices.tolist() == expected.indices.tolist()
        rows, expected = rows.toarray(), expected.toarray()
    assert rows.dtype == expected.dtype
    return bool(rows.tolist() == expected.tolist())


# ------------------------------------------------------------------------- vocabularies
@pytest.mark.parametrize("maps", [MAPS, INT_MAPS], ids=["text", "ints"])
@pytest.mark.parametrize("order", ["sorted", "first_seen"])
@pytest.mark.parametrize("partitions", [1, 3, 9, 70])
def test_the_tree_learns_what_one_batch_teaches(maps: Any, order: Any, partitions: int) -> None:
    many = [
        {**each, (f"w{n % 83}" if maps is MAPS else n % 83): 1} for n in range(140) for each in maps
    ]
    bag = bags.from_sequence(many, npartitions=partitions)
    learned = nbmapops.dask.from_maps(bag, order=order, dtype="double", handle_unknown="ignore")

    assert learned == DictVectorizer.from_maps(
        many, order=order, dtype="double", handle_unknown="ignore"
    )


def test_partitions_without_entries_teach_nothing() -> None:
    assert nbmapops.dask.from_maps(bag_of([], [{}], [{"a": 1}], [])).vocabulary == ("a",)
    assert len(nbmapops.dask.from_maps(bag_of([], [{}, {}]))) == 0


def test_keys_of_two_types_are_refused() -> None:
    with pytest.raises(TypeError, match="some partitions have integer keys and others text"):
        nbmapops.dask.from_maps(bag_of([{"a": 1}], [{}], [{1: 1}]))
    with pytest.raises(TypeError, match="map 1: key 2") as caught:
        nbmapops.dask.from_maps(bag_of([{"a": 1}], [{"a": 1}, {2: 1}]))
    assert caught.value.__notes__ == ["nbmapops.dask: in partition 1"]


def test_attributes_are_checked_before_anything_is_read() -> None:
    def refuse(_: Any) -> None:
        raise AssertionError("the maps were read")

    bag = bag_of([1]).map(refuse)
    cases: list[Any] = [{"order": "random"}, {"dtype": "text"}, {"handle_unknown": "drop"}]
    for wrong in cases:
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            nbmapops.dask.from_maps(bag, **wrong)


# ------------------------------------------------------------------------- rows
OPERATORS: dict[str, Any] = {
    "text": (DictVectorizer(string_vocabulary=["c", "a", "d", "b"], dtype="float"), MAPS),
    "ints": (DictVectorizer.from_maps(INT_MAPS, dtype="int64"), INT_MAPS),
    "CastMap": (
        CastMap(cast_to="TO_INT64", map_form="SPARSE", max_map=9),
        [{8: 1.5}, {}, {1: 2.0, 0: 7.0}, {3: -1.0}, {}],
    ),
}


@pytest.mark.parametrize(("operator", "maps"), OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("cuts", [(5,), (2, 5), (0, 1, 1, 4, 5, 5)], ids=str)
def test_blocks_are_the_rows_of_one_batch(operator: Any, maps: Any, cuts: Any) -> None:
    parts = [maps[start:stop] for start, stop in zip((0, *cuts), cuts, strict=False)]
    for given in (None, [len(each) for each in parts]):
        for convert, local in (
            (nbmapops.dask.dense, operator(maps)),
            (nbmapops.dask.csr, operator.csr(maps)),
        ):
            rows = convert(operator, bag_of(*parts), lengths=given)
            assert rows.shape == local.shape
            assert rows.dtype == local.dtype
            assert rows.chunks[0] == tuple(len(each) for each in parts if each)
            assert same(rows.compute(), local)
            assert same(rows[1:4].compute(), local[1:4])


def test_text_and_fill_values_fill_dense_blocks_only() -> None:
    operator = DictVectorizer(int64_vocabulary=[1, 2], dtype="string")
    bag = bag_of([{1: "x"}], [{2: "y"}, {}])
    assert nbmapops.dask.dense(operator, bag).compute().tolist() == [["x", ""], ["", "y"], ["", ""]]
    with pytest.raises(ValueError, match="text"):
        nbmapops.dask.csr(operator, bag)
    operator = DictVectorizer(int64_vocabulary=[1, 2], dtype="double", fill_value=-1)
    assert nbmapops.dask.dense(operator, bag_of([{1: 2.5}])).compute().tolist() == [[2.5, -1]]
    with pytest.raises(ValueError, match="fill_value"):
        nbmapops.dask.csr(operator, bag)


def test_no_maps_and_no_columns() -> None:
    operator = DictVectorizer(string_vocabulary=["a"], dtype="double")
    for convert in (nbmapops.dask.dense, nbmapops.dask.csr):
        assert convert(operator, bag_of([], [])).compute().shape == (0, 1)
        empty = nbmapops.dask.from_maps(bag_of([{}], [{}, {}]), dtype="double")
        assert convert(empty, bag_of([{}], [{}, {}])).shape == (3, 0)


def test_lazy_partitions_are_counted_and_read() -> None:
    bag = bags.from_sequence(range(9), npartitions=3).filter(lambda n: n % 4)
    operator = DictVectorizer(string_vocabulary=["n"], dtype="int64")
    for maps in (
        bag.map(lambda n: {"n": n}),
        bag.map_partitions(lambda part: ({"n": n} for n in part)),
    ):
        assert nbmapops.dask.from_maps(maps, dtype="int64") == operator
        rows = nbmapops.dask.csr(operator, maps)
        assert rows.chunks == ((2, 2, 2), (1,))
        assert rows.compute().toarray().ravel().tolist() == [1, 2, 3, 5, 6, 7]


def test_an_iterator_that_refills_one_dict_is_read_map_by_map() -> None:
    def refill(numbers: Any) -> Iterator[dict[int, float]]:
        one: dict[int, float] = {}
        for number in numbers:
            one.clear()
            one[number] = number + 1.0
            yield one

    maps = bags.from_sequence([0, 1, 2, 2, 0], npartitions=2).map_partitions(refill)
    operator = nbmapops.dask.from_maps(maps, dtype="double")
    assert operator.vocabulary.tolist() == [0, 1, 2]
    expected = operator([{0: 1.0}, {1: 2.0}, {2: 3.0}, {2: 3.0}, {0: 1.0}])
    for convert in (nbmapops.dask.dense, nbmapops.dask.csr):
        rows = convert(operator, maps).compute()
        assert getattr(rows, "toarray", lambda rows=rows: rows)().tolist() == expected.tolist()


def test_an_iterator_that_is_read_twice_is_named() -> None:
    maps = bags.from_sequence([0, 1], npartitions=1).map_partitions(
        lambda part: ({number: 1.0} for number in part)
    )
    operator = DictVectorizer(int64_vocabulary=[0, 1], dtype="double")
    twice = [convert(operator, maps) for convert in (nbmapops.dask.dense, nbmapops.dask.csr)]
    with pytest.raises(ValueError, match=r"iterator that gave 0 maps.*MapBatch\.from_dicts\)"):
        compute(*twice, scheduler="sync")
    maps = maps.map_partitions(MapBatch.from_dicts)
    twice = [convert(operator, maps) for convert in (nbmapops.dask.dense, nbmapops.dask.csr)]
    dense, csr = compute(*twice, scheduler="sync")
    assert dense.tolist() == csr.toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_partitions_in_every_form() -> None:
    operator = DictVectorizer(string_vocabulary=["a", "b"], dtype="double")
    rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]
    pairs = bag_of([[("a", 1.0)], (("b", 2.0),)], [[["a", 3.0], ["b", 4.0]]])
    missing = bag_of([{"a": 1.0, "b": None}, {"b": 2.0}], [{"a": 3.0, "b": 4.0}, None])
    filled = missing.map_partitions(MapBatch.from_dicts, null_map="empty", null_value="skip")
    for maps, expected in ((pairs, rows), (filled, [*rows, [0.0, 0.0]])):
        assert nbmapops.dask.from_maps(maps, dtype="double") == operator
        assert nbmapops.dask.dense(operator, maps).compute().tolist() == expected
        assert nbmapops.dask.csr(operator, maps).compute().toarray().tolist() == expected
    for convert in (nbmapops.dask.dense, nbmapops.dask.csr):
        with pytest.raises(TypeError, match=r"MapBatch\.from_dicts\(maps, null_") as caught:
            convert(operator, missing).compute(scheduler="sync")
        assert "in partition" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match=r"map 1 is None.*null_map=\"empty\""):
        nbmapops.dask.from_maps(bag_of([{"a": 1}, None]))


ALLOWED: dict[str, Any] = {
    "rows": lambda x: x[1:3],
    "chosen rows": lambda x: x[[0, 3]],
    "columns": lambda x: x[:, 1:],
    "one column": lambda x: x[:, [1]],
    "T": lambda x: x.T,
    "astype": lambda x: x.astype("float32"),
    "abs": abs,
    "scaled": lambda x: x * 2,
    "squared": lambda x: x * x,
    "added": lambda x: x + x,
}
DASK_ONLY: dict[str, Any] = {
    "rechunk": (lambda x: x.rechunk((4, 2)), lambda x: x),
    "concatenate": (lambda x: arrays.concatenate([x, x]), lambda x: sparse.vstack([x, x])),
    "blocks": (lambda x: x.blocks[1], lambda x: x[2:]),
    "persist": (lambda x: x.persist(), lambda x: x),
}


@pytest.mark.parametrize("name", [*ALLOWED, *DASK_ONLY])
def test_what_csr_blocks_allow(name: str) -> None:
    maps: list[Any] = [{0: 1.0}, {1: 2.0, 2: 5.0}, {2: -1.0}, {0: 4.0}]
    operator = DictVectorizer(int64_vocabulary=[0, 1, 2], dtype="double")
    on_dask, local = DASK_ONLY.get(name) or (ALLOWED[name], ALLOWED[name])
    rows = on_dask(nbmapops.dask.csr(operator, bag_of(maps[:2], maps[2:])))
    expected = local(operator.csr(maps))
    assert rows.compute().toarray().tolist() == expected.toarray().tolist()


def test_wrong_arguments_are_refused_at_once() -> None:
    operator = DictVectorizer(string_vocabulary=["a"], dtype="double")
    bag = bag_of([{"a": 1}], [{}])
    with pytest.raises(TypeError, match="list is not a bag of maps"):
        nbmapops.dask.csr(operator, [{"a": 1}])
    with pytest.raises(TypeError, match="dict is not a bag of maps"):
        nbmapops.dask.from_maps({"a": 1})
    with pytest.raises(ValueError, match="3 lengths for 2 partitions"):
        nbmapops.dask.csr(operator, bag, lengths=[1, 0, 1])
    with pytest.raises(ValueError, match="give the operator one"):
        nbmapops.dask.csr(DictVectorizer(string_vocabulary=["a"]), bag)
    for convert in (nbmapops.dask.dense, nbmapops.dask.csr):
        with pytest.raises(ValueError, match="DENSE CastMap"):
            convert(CastMap(), bag)


def test_errors_name_the_partition() -> None:
    operator = DictVectorizer(string_vocabulary=["a"], dtype="double")
    for bag, lengths, wrong, message in (
        (bag_of([{}], [{}, {"b": 1}]), None, UnknownKeyError, "map 1: key 'b'"),
        (bag_of([{}], [{}, {}]), [1, 1], ValueError, "holds 2 maps, but lengths says 1"),
        (bag_of([{}], [{}]), [1, 2], ValueError, "holds 1 maps, but lengths says 2"),
    ):
        rows = nbmapops.dask.csr(operator, bag, lengths=lengths)
        with pytest.raises(wrong, match=message) as caught:
            rows.compute()
        assert caught.value.__notes__ == ["nbmapops.dask: in partition 1"]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask's own use of pandas
@pytest.mark.parametrize("maps", [MAPS, INT_MAPS], ids=["text", "ints"])
def test_arrow_columns_of_frames(maps: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    dataframe: Any = pytest.importorskip("dask.dataframe")
    key, value = pyarrow.string(), pyarrow.float64()
    if maps is INT_MAPS:
        key, value = pyarrow.int64(), pyarrow.int64()
    kind = pyarrow.map_(key, value)
    column = pyarrow.array([list(each.items()) for each in maps], kind)
    pyarrow.parquet.write_table(pyarrow.table({"maps": column}), tmp_path / "maps.parquet", 2)
    series = pandas.Series(column, index=range(20, 25), dtype=pandas.ArrowDtype(kind))
    frame = dataframe.from_pandas(pandas.DataFrame({"maps": series}), npartitions=3)
    again = dataframe.read_parquet(tmp_path / "maps.parquet", dtype_backend="pyarrow")
    for series in (frame["maps"], again["maps"]):
        operator = nbmapops.dask.from_maps(series, dtype="int64" if maps is INT_MAPS else "double")
        assert operator.vocabulary.__class__ is DictVectorizer.from_maps(maps).vocabulary.__class__
        assert list(operator.vocabulary) == list(DictVectorizer.from_maps(maps).vocabulary)
        assert same(nbmapops.dask.csr(operator, series).compute(), operator.csr(maps))
        assert same(nbmapops.dask.dense(operator, series).compute(), operator(maps))
    with pytest.raises(TypeError, match="column"):
        nbmapops.dask.from_maps(frame)


def test_the_graph_holds_the_vocabulary_once() -> None:
    words = [f"w{n}" for n in range(1000)]
    operator = DictVectorizer(string_vocabulary=words, dtype="double")
    rows = nbmapops.dask.csr(operator, bag_of(*[[{"w1": 1.0}]] * 50))
    sizes = [len(cloudpickle.dumps(task)) for task in dict(rows.__dask_graph__()).values()]
    assert len(sizes) > 50
    assert sum(size > 3000 for size in sizes) == 1  # the words alone are 3890 characters


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(ImportError, match=r"pip install 'nbmapops\[dask\]'"):
        runpy.run_path(nbmapops.dask.__file__)


# ------------------------------------------------------------------------- a cluster
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by a signal")
def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    partitions, size = 16, 50

    def maps_of(number: int) -> list[dict[str, float]]:
        # Leaves a mark, and takes a moment.
        (tmp_path / uuid.uuid4().hex).touch()
        time.sleep(0.1)
        first = number * size
        return [{f"w{n % 97}": float(n), f"v{n % 89}": -1.0} for n in range(first, first + size)]

    local = [each for number in range(partitions) for each in maps_of(number)]
    operator = DictVectorizer.from_maps(local, dtype="double")
    bag = bags.from_delayed([delayed(maps_of)(number) for number in range(partitions)])

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 20}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        learned = nbmapops.dask.from_maps(bag, dtype="double")
        before = len(list(tmp_path.iterdir()))
        rows = client.persist(nbmapops.dask.csr(learned, bag, lengths=[size] * partitions))
        deadline = time.monotonic() + 60
        while sum(map(len, client.has_what().values())) < 6:
            assert time.monotonic() < deadline, "the workers do not start"
            time.sleep(0.02)
        victim, held = max(client.has_what().items(), key=lambda each: len(each[1]))
        os.kill(client.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
        result = rows.compute()
        made = len(list(tmp_path.iterdir())) - before

    assert learned == operator
    assert same(result, operator.csr(local))
    assert held
    assert made > partitions  # what was lost was made again
