"""What users write, for type checkers: test_types.py runs them over this file.

A line that ends in ``# wrong`` is a mistake that a checker is to find. It finds none elsewhere.
Nothing here runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import nbmapops
from nbmapops import CastMap, DictVectorizer, MapBatch

if TYPE_CHECKING:
    import pandas as pd

maps = [{"a": 1.5, "b": 2.0}, {"b": 0.5}]


def mistakes() -> None:
    CastMap(cast_to="FLOAT")  # wrong
    DictVectorizer(string_vocabulary={"a": 0, "b": 1})  # wrong
    DictVectorizer(string_vocabulary="ab")  # wrong
    DictVectorizer(int64_vocabulary={8, 17}, handle_unknown="skip")  # wrong
    DictVectorizer.from_maps(maps, order="alphabetical")  # wrong
    DictVectorizer.from_maps(maps, handle_unknwon="ignore")  # wrong
    DictVectorizer(int64_vocabulary=[1], semantics="onnx")  # wrong
    MapBatch.from_dicts(maps, null_map="skip")  # wrong
    MapBatch.from_rows([0, 0, 1])  # wrong


def more_mistakes() -> None:
    DictVectorizer(string_vocabulary={"a", "b"})  # wrong
    DictVectorizer(string_vocabulary=["a"], handle_unknown="skip")  # wrong
    DictVectorizer(int64_vocabulary={8: 0, 17: 1})  # wrong
    DictVectorizer(int64_vocabulary=("8", "17"))  # wrong
    DictVectorizer(string_vocabulary=(8, 17))  # wrong
    DictVectorizer(string_vocabulary=["a"], dtype="float16")  # wrong
    DictVectorizer(string_vocabulary=["a"], unknown_columns="all")  # wrong
    CastMap()(maps, thread=2)  # wrong
    DictVectorizer(string_vocabulary=["a"])()  # wrong
    CastMap().replace(max_maps=3)  # wrong
    CastMap().replace(cast_to="TO_INT32")  # wrong
    nbmapops.DictVectoriser(string_vocabulary=["a"])  # wrong


def right(series: pd.Series, rows: list[dict[str, Any]]) -> float:
    words = ("a", "b")
    op = DictVectorizer(string_vocabulary=words, dtype="float", handle_unknown="ignore")
    DictVectorizer(string_vocabulary=["a", "b"], dtype=np.float32, fill_value=-1.0)
    DictVectorizer(string_vocabulary=series, semantics="onnxruntime")
    DictVectorizer(string_vocabulary=np.array(["a", "b"]), dtype=np.dtype("int64"))
    DictVectorizer(int64_vocabulary=[8, np.int64(17)])
    DictVectorizer(int64_vocabulary=range(100), dtype=float)
    DictVectorizer(int64_vocabulary=np.arange(100), dtype=None)
    DictVectorizer.from_maps(rows, order="first_seen", min_maps=2, max_words=1000)
    DictVectorizer.from_maps(series, unknown_columns=8).replace(unknown_columns=16)
    encoded: np.ndarray[Any, np.dtype[np.int64]] = op.columns([["a", "b"], ["c", "a"]])
    CastMap(cast_to="TO_INT64", map_form="SPARSE", max_map=9)({8: 1.9, 1: 2.0})
    CastMap().replace(map_form="SPARSE", max_map=9, fill_value=-1)
    batch = MapBatch.from_dicts(rows, null_map="empty", null_value=0.0)
    MapBatch.from_arrays(np.array([1, 7]), offsets=[0, 1, 2])
    nbmapops.sklearn.DictVectorizer(sparse=False).fit_transform(rows)
    dense: np.ndarray[Any, np.dtype[Any]] = op(batch, threads=2)
    op(maps, out=dense)
    numbers, keys = op.unknown(maps)
    back: list[dict[Any, Any]] = op.inverse(op.csr(batch, index_dtype=np.int64)).to_dicts()
    first: dict[Any, Any] = batch[0]
    half: MapBatch = batch[: len(batch) // 2]
    assert op.handle_unknown == "ignore"
    del numbers, keys, back, first, half, encoded
    return float(dense.sum())
