"""Unknown keys that have columns of their own, and words that have several."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from nbmapops import DictVectorizer, DuplicateKeyError, MapBatch

from ..reference import INT64_MAX, hashed_column
from ..ways import WAYS, way


@pytest.mark.parametrize("name", WAYS)
def test_unknown_keys_meet_in_their_columns_and_are_added_up(name: str) -> None:
    op = DictVectorizer(string_vocabulary=["a", "b"], unknown_columns=1)
    maps = [{"a": 1.5, "x": 2.0, "y": 0.25}, {}, {"z": 4.0}]
    with way(name):
        assert op(maps).tolist() == [[1.5, 0, 2.25], [0, 0, 0], [0, 0, 4.0]]
        assert op.csr(maps).toarray().tolist() == op(maps).tolist()
        assert op(maps[0]).tolist() == [1.5, 0, 2.25]
        assert op.csr(iter(maps)).toarray().tolist() == op(maps).tolist()


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("numbers", [(INF, -INF, NAN), (NAN, INF, -INF), (-NAN, NAN), (NAN, -NAN)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_that_is_nan_has_the_same_bits_everywhere(
    name: str, numbers: tuple[float, ...], dtype: Any
) -> None:
    op = DictVectorizer(int64_vocabulary=[99], unknown_columns=1)
    mapping = {key: dtype(number) for key, number in enumerate(numbers)}
    alone = {1: dtype(-NAN)}
    values = np.array(list(mapping.values()))
    offsets = [0, len(values)]
    batch = MapBatch.from_arrays(np.full(len(values), 7), values, offsets)
    with way(name):
        found = [
            op(mapping)[1], op([mapping])[0, 1], op.csr(iter([mapping])).data[0],
            op(np.arange(len(values)), values, offsets)[0, 1],
            batch.sum_duplicates().values[0],
        ]  # fmt: skip
        untouched = op([alone])[0, 1]
    assert {each.tobytes() for each in found} == {dtype(NAN).tobytes()}
    assert untouched.tobytes() == dtype(-NAN).tobytes()


@pytest.mark.parametrize("name", WAYS)
def test_an_unknown_key_has_the_same_column_in_every_process(name: str) -> None:
    for vocabulary, keys in (
        ({"int64_vocabulary": [7]}, [0, -1, 2**40, 5]),
        ({"string_vocabulary": ["w"]}, ["", "a", "é", "x"]),
    ):
        listed: list[Any] = list(keys)
        op = DictVectorizer(**vocabulary, unknown_columns=9)
        columns = [1 + hashed_column(key, 9) for key in listed]
        with way(name):
            assert np.argmax(op([{key: 1} for key in listed]), axis=1).tolist() == columns
    assert [hashed_column(key, 1000) for key in (0, 1, -1, "", "a", "é")] == [
        535, 465, 936, 535, 774, 104,
    ]  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_faults_among_unknown_keys_are_told(name: str) -> None:
    op = DictVectorizer(int64_vocabulary=[1], unknown_columns=1)
    with way(name):
        with pytest.raises(DuplicateKeyError, match="map 1: key 5 is repeated"):
            op([2, 5, 5], [1, 2, 3], [0, 1, 3])
        with pytest.raises(OverflowError, match="map 1: key 3: the sum of the values"):
            op([2, 2, 3], [1, INT64_MAX, 1], [0, 1, 3])
        with pytest.raises(DuplicateKeyError, match="map 0: key 1 is repeated"):
            op([1, 1, 5, 5], [1, 2, 3, 4], [0, 2, 4])
        with pytest.raises(TypeError, match="must be numbers with unknown_columns"):
            op([{1: "text"}])


@pytest.mark.parametrize("name", WAYS)
def test_sums_of_unknown_keys_are_made_in_the_type_of_the_whole_batch(name: str) -> None:
    op = DictVectorizer(int64_vocabulary=[1], unknown_columns=1)
    tenths: list[Any] = [{5: np.float32(0.1), 6: np.float32(0.2)}, {1: 1.0}]
    sixth = float(np.float32(0.1)) + float(np.float32(0.2))
    # The sum does not fit in int64, but the batch holds floats.
    large = [dict.fromkeys(range(10, 1100), 2**53), {1: 1.0}]
    with way(name):
        for maps, total in ((tenths, sixth), (large, 1090 * 2.0**53)):
            assert op(maps).tolist() == [[0, total], [1, 0]]
            for each in (maps, iter(maps)):
                assert op.csr(each).toarray().tolist() == [[0, total], [1, 0]]


def test_of_many_sums_that_may_not_fit_the_first_that_does_not_is_named() -> None:
    op = DictVectorizer(int64_vocabulary=[-1], unknown_columns=1)
    maps = 50_000
    values = np.tile([2**62, 2**61], maps)
    batch = np.arange(2 * maps), values, np.arange(0, 2 * maps + 1, 2)
    assert set(op.csr(*batch).data.tolist()) == {2**62 + 2**61}
    values[[2 * maps - 4, 2 * maps - 1]] = INT64_MAX, INT64_MAX
    with pytest.raises(OverflowError, match=f"map {maps - 2}: key {2 * maps - 3}: the sum"):
        op.csr(*batch)


@pytest.mark.parametrize("name", WAYS)
def test_a_sum_of_unknown_keys_just_inside_and_just_outside_of_int64(name: str) -> None:
    """The sum of the nearest floats is below 2**63 both times."""
    op = DictVectorizer(int64_vocabulary=[-1], unknown_columns=1)
    values = [2**62 + 511, 2**61 + 255, 2**61 - 767]
    with way(name):
        assert op([5, 6, 7], values, [0, 3]).tolist() == [[0, INT64_MAX]]
        values[-1] += 1
        with pytest.raises(OverflowError, match="map 0: key 7: the sum of the values"):
            op([5, 6, 7], values, [0, 3])


def test_the_words_stay_the_vocabulary() -> None:
    op = DictVectorizer(string_vocabulary=["a", "b"], unknown_columns=2)
    assert (len(op), op.n_columns, op.unknown_columns, op.vocabulary) == (2, 4, 2, ("a", "b"))
    assert op.get_feature_names_out().tolist() == ["a", "b", "unknown_0", "unknown_1"]
    assert "unknown_columns=2" in repr(op)
    assert pickle.loads(pickle.dumps(op)) == op != op.replace(unknown_columns=1)
    assert "unknown_columns" not in repr(op.replace(unknown_columns=0))
    assert op.unknown([{"a": 1, "q": 2}])[1].tolist() == ["q"]


def test_inverse_refuses_values_of_unknown_keys() -> None:
    op = DictVectorizer(string_vocabulary=["a"], unknown_columns=1)
    assert op.inverse(op([{"a": 2}])).to_dicts() == [{"a": 2}]
    for rows in (op([{"q": 2}]), op.csr([{"q": 2}])):
        with pytest.raises(ValueError, match="columns of unknown keys, from column 1 on"):
            op.inverse(rows)
    with pytest.raises(ValueError, match="must have 2 columns, not 1"):
        op.inverse(np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"unknown_columns": -1}, ValueError),
        ({"unknown_columns": 1.0}, TypeError),
        ({"unknown_columns": True}, TypeError),
        ({"unknown_columns": 2**31}, ValueError),
        ({"unknown_columns": 1, "handle_unknown": "ignore"}, ValueError),
        ({"unknown_columns": 1, "semantics": "onnxruntime"}, ValueError),
        ({"unknown_columns": 1, "dtype": "string"}, ValueError),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match="DictVectorizer: unknown_columns must be "):
        DictVectorizer(int64_vocabulary=[1], **options)


@pytest.mark.parametrize("name", WAYS)
def test_words_that_stand_several_times_have_several_columns(name: str) -> None:
    op = DictVectorizer(string_vocabulary=["a", "b", "a", "a"], semantics="onnxruntime")
    batch = MapBatch.from_arrays(["b", "a", "q", "a"], [1.0, 2.0, 3.0, 4.0], [0, 1, 4])
    with way(name):
        assert op(batch).tolist() == [[0, 1, 0, 0], [2, 0, 2, 2]]
        assert op.csr(batch).toarray().tolist() == op(batch).tolist()
        assert op.inverse(op(batch)).to_dicts() == [{"b": 1.0}, {"a": 2.0}]
