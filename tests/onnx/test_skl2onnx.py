"""Models that skl2onnx makes of Pipelines: the same labels as by onnxruntime, dict by dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")

import onnxruntime
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import (
    DictionaryType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn import (
    discriminant_analysis,
    ensemble,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    svm,
    tree,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

from nbmapops.onnx import MapSession

# Inside skl2onnx and scikit-learn.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

Maker: TypeAlias = Callable[[], Any]
CLASSIFIERS: dict[str, tuple[Maker, list[Maker]]] = {
    "LogisticRegression": (linear_model.LogisticRegression, []),
    "SGDClassifier": (
        lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0),
        [MaxAbsScaler],
    ),
    "RidgeClassifier": (linear_model.RidgeClassifier, [StandardScaler]),
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis,
        [lambda: StandardScaler(with_mean=False)],
    ),
    "RandomForestClassifier": (
        lambda: ensemble.RandomForestClassifier(5, random_state=0),
        [VarianceThreshold],
    ),
    "GradientBoostingClassifier": (
        lambda: ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0),
        [],
    ),
    "DecisionTreeClassifier": (lambda: tree.DecisionTreeClassifier(random_state=0), []),
    "MultinomialNB": (naive_bayes.MultinomialNB, []),
    "KNeighborsClassifier": (neighbors.KNeighborsClassifier, [lambda: SelectKBest(k=9)]),
    "MLPClassifier": (
        lambda: neural_network.MLPClassifier((5,), max_iter=10, random_state=0),
        [MaxAbsScaler],
    ),
    "LogisticRegression of selected words": (
        linear_model.LogisticRegression,
        [lambda: SelectKBest(k=9), StandardScaler],
    ),
    "LogisticRegression of normal rows": (linear_model.LogisticRegression, [Normalizer]),
}
REGRESSORS: dict[str, tuple[Maker, list[Maker]]] = {
    "Ridge": (linear_model.Ridge, []),
    "Lasso": (lambda: linear_model.Lasso(1e-3), [StandardScaler]),
    "LinearRegression": (linear_model.LinearRegression, [MaxAbsScaler]),
    "SVR": (svm.SVR, [lambda: SelectKBest(f_regression, k=9)]),
    "RandomForestRegressor": (
        lambda: ensemble.RandomForestRegressor(5, random_state=0),
        [VarianceThreshold],
    ),
    "MLPRegressor": (
        lambda: neural_network.MLPRegressor(hidden_layer_sizes=(5,), max_iter=10, random_state=0),
        [],
    ),
}
# Two ways lead through a session: dense rows, and blocks with products for linear nodes.
WAYS: dict[str, dict[str, int]] = {
    "rows": {},
    "products": {"session.DENSE_CELLS": 0, "session.WIDE": 0},
    "blocks": {"session.DENSE_CELLS": 0, "session.WIDE": 0, "tail.BLOCK_MAPS": 7},
    "blocks of rows": {"tail.BLOCK_BYTES": 8 * 30 * 9},
}


def converted(
    kind: str, number: Maker, middle: list[Maker], target: Any, options: dict[str, Any] | None
) -> tuple[Any, list[dict[Any, float]]]:
    """Fit a Pipeline on random maps, and make a model of it."""
    rng = np.random.default_rng(5)
    maps: list[dict[Any, float]] = [
        {
            (f"f{column}" if kind == "text" else int(column)): float(value)
            for column, value in zip(
                rng.choice(30, 8, replace=False), rng.random(8).astype("f4"), strict=True
            )
        }
        for _ in range(80)
    ]
    steps = [make() for make in (*middle, number)]
    # Of sparse rows some of these take no int64 indices, which scikit-learn gives.
    pipeline = make_pipeline(DictVectorizer(sparse=False), *steps).fit(maps, target(rng, len(maps)))
    keys = StringTensorType([1]) if kind == "text" else Int64TensorType([1])
    model = convert_sklearn(
        pipeline,
        initial_types=[("x", DictionaryType(keys, FloatTensorType([1])))],
        options=None if options is None else {id(pipeline): options},
        target_opset={"": 18, "ai.onnx.ml": 3},  # known to the oldest runtime, too
    )
    return model, maps


def check(
    model: Any, maps: list[Any], monkeypatch: pytest.MonkeyPatch, tolerance: float = 1e-6
) -> None:
    """Hold every way through a session to onnxruntime, dict by dict."""
    theirs = onnxruntime.InferenceSession(model.SerializeToString())
    ones = [theirs.run(None, {"x": one}) for one in maps]
    # Many of these models fail in onnxruntime on no rows at all.
    assert [len(output) for output in MapSession(model).run(None, {"x": []})] == [0] * len(ones[0])
    for way, limits in WAYS.items():
        with monkeypatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(f"nbmapops.onnx.{name}", limit)
            outputs = MapSession(model).run(None, {"x": maps})
        for output, parts in zip(outputs, zip(*ones, strict=True), strict=True):
            mine, other = list(output), [row for part in parts for row in part]
            assert len(mine) == len(maps), way
            if isinstance(output, list):  # of a ZipMap
                assert [list(row) for row in mine] == [list(row) for row in other], way
                mine, other = ([list(row.values()) for row in rows] for rows in (mine, other))
            if np.asarray(other).dtype.kind != "f":
                assert mine == other, way
            else:
                # One row and many are added up in different order.
                size = max(1.0, float(np.abs(other).max()))
                np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance * size, err_msg=way)


@pytest.mark.parametrize("zipmap", [False, True], ids=["arrays", "zipmap"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_predict_as_in_onnxruntime(
    name: str, *, zipmap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, middle = CLASSIFIERS[name]
    # Text labels with ZipMap, numbers without; names as keys with one, ids with the other.
    labels = np.array(["no", "yes", "é"]) if zipmap else np.array([0, 1, 5])
    model, maps = converted(
        "text" if zipmap else "ids",
        number,
        middle,
        lambda rng, size: labels[rng.integers(0, 3, size)],
        {"zipmap": zipmap},
    )
    # Its scores are exp of the last bits of logarithms near -40.
    check(model, maps, monkeypatch, 4e-6 if name == "MultinomialNB" else 1e-6)


@pytest.mark.parametrize("name", ["LogisticRegression", "SGDClassifier", "RidgeClassifier"])
def test_two_classes_are_predicted_as_in_onnxruntime(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, middle = CLASSIFIERS[name]
    model, maps = converted(
        "text", number, middle, lambda rng, size: rng.integers(0, 2, size), {"zipmap": False}
    )
    check(model, maps, monkeypatch)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_predict_as_in_onnxruntime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, middle = REGRESSORS[name]
    model, maps = converted("text", number, middle, lambda rng, size: rng.random(size), None)
    check(model, maps, monkeypatch)
