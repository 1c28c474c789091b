"""Products of sparse rows for the linear nodes behind a wide vocabulary."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("scipy")

import onnx.helper as h
import onnxruntime
from onnx import numpy_helper

import nbmapops
from nbmapops.onnx import MapSession
from nbmapops.onnx.graph import cut
from nbmapops.onnx.linear import with_products

from .models import DOMAIN, TYPES, map_input, model_of, tensor

WIDTH, SCORES = 400, 3
WORDS = [f"w{number}" for number in range(WIDTH)]
RNG = np.random.default_rng(11)
COEFFICIENTS = RNG.normal(size=(WIDTH, SCORES)).astype("f4")
INTERCEPTS = RNG.normal(size=SCORES).astype("f4")
OFFSET, SCALE = RNG.normal(size=(2, WIDTH)).astype("f4")


def maps_of(count: int, size: int = 20) -> list[dict[str, float]]:
    return [
        {
            WORDS[column]: float(value)
            for column, value in zip(
                RNG.choice(WIDTH, size, replace=False), RNG.normal(size=size), strict=True
            )
        }
        for _ in range(count)
    ] + [{}, {WORDS[0]: 0.0, "other": 5.0}]


def last_nodes(kind: str, source: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The nodes of one kind of linear model, their outputs, and initializers."""
    initial = {"W": COEFFICIENTS, "C": INTERCEPTS}
    floats = {
        "coefficients": COEFFICIENTS.T.ravel().tolist(),
        "intercepts": INTERCEPTS.tolist(),
    }
    if kind == "LinearClassifier":
        node = h.make_node(
            kind,
            [source],
            ["label", "y"],
            domain=DOMAIN,
            classlabels_strings=["p", "q", "é"],
            post_transform="SOFTMAX",
            **floats,
        )
        return [node], [tensor("y", "float"), tensor("label", "string")], {}
    if kind == "LinearRegressor":
        node = h.make_node(kind, [source], ["y"], domain=DOMAIN, targets=SCORES, **floats)
        return [node], [tensor("y", "float")], {}
    if kind == "Gemm":
        node = h.make_node("Gemm", [source, "W", "C"], ["y"], transB=1)
        return [node], [tensor("y", "float")], {**initial, "W": COEFFICIENTS.T.copy()}
    if kind == "Gemm alone":
        return (
            [h.make_node("Gemm", [source, "W"], ["y"], beta=3.0)],
            [tensor("y", "float")],
            initial,
        )
    nodes = [h.make_node("MatMul", [source, "W"], ["y"])]
    if kind == "MatMul and Add":
        nodes = [
            h.make_node("MatMul", [source, "W"], ["s"]),
            h.make_node("Add", ["s", "C"], ["y"]),
        ]
    return nodes, [tensor("y", "float")], initial


BETWEEN: dict[str, list[Any]] = {
    "at once": [],
    "Scaler": [
        h.make_node(
            "Scaler", ["r"], ["t"], domain=DOMAIN, offset=[0.0] * WIDTH, scale=(SCALE * 3).tolist()
        )
    ],
    "Scaler with offsets": [
        h.make_node(
            "Scaler", ["r"], ["t"], domain=DOMAIN, offset=OFFSET.tolist(), scale=SCALE.tolist()
        )
    ],
    "Identity and Cast": [
        h.make_node("Identity", ["r"], ["i"]),
        h.make_node("Cast", ["i"], ["t"], to=TYPES["float"]),
    ],
}
KINDS = ["LinearClassifier", "LinearRegressor", "Gemm", "Gemm alone", "MatMul", "MatMul and Add"]


def linear_model(kind: str, between: str = "at once", value: str = "float") -> Any:
    vectorizer = h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=WORDS)
    nodes, outputs, initial = last_nodes(kind, "t" if BETWEEN[between] else "r")
    if value == "double" and not BETWEEN[between]:
        initial = {name: array.astype("f8") for name, array in initial.items()}
        if kind != "LinearClassifier":
            outputs = [tensor("y", "double")]
    model = model_of(
        [vectorizer, *BETWEEN[between], *nodes], [map_input("x", "string", value)], outputs
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in initial.items()
    )
    return model


def products_of(model: Any) -> list[Any]:
    parts = cut(model)
    return with_products(parts.tail, parts.fronts)[1]


def test_the_model_that_is_rewritten_is_a_copy() -> None:
    parts = cut(linear_model("MatMul"))
    before = parts.tail.SerializeToString(deterministic=True)
    _, products = with_products(parts.tail, parts.fronts)
    assert len(products) == 1
    assert parts.tail.SerializeToString(deterministic=True) == before


def dense_rows(maps: list[dict[str, float]], value: str) -> Any:
    dtype = {"float": np.float32, "double": np.float64}[value]
    op = nbmapops.DictVectorizer(string_vocabulary=WORDS, handle_unknown="ignore")
    with np.errstate(over="ignore"):
        return op(maps).astype(dtype)


def without_front(model: Any) -> onnxruntime.InferenceSession:
    """The rest of a model as onnxruntime runs it on dense rows."""
    return onnxruntime.InferenceSession(cut(model).tail.SerializeToString())


def exact(kind: str, between: str, rows: Any) -> Any:
    """The scores in float64, of what the linear node reads."""
    if between == "Scaler":
        rows = (rows * (SCALE * 3)).astype("f4")
    if between == "Scaler with offsets":
        rows = ((rows - OFFSET) * SCALE).astype("f4")
    if between == "Identity and Cast" or kind.startswith("Linear"):
        rows = rows.astype("f4")
    scores = rows.astype("f8") @ COEFFICIENTS.astype("f8")
    if kind not in ("MatMul", "Gemm alone"):
        scores += INTERCEPTS
    if kind == "LinearClassifier":
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
    return scores


@pytest.mark.parametrize("value", ["float", "double"])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_no_further_off_than_onnxruntime(
    kind: str, between: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "LinearRegressor" and value == "double" and between == "at once":
        pytest.skip("onnxruntime has no LinearRegressor for double")
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    model = linear_model(kind, between, value)
    assert len(products_of(model)) == 1
    maps = maps_of(300)
    rows = dense_rows(maps, value)
    outputs = MapSession(model).run(None, {"x": maps})
    theirs = without_front(model).run(None, {"r": rows})
    reference = exact(kind, between, rows)
    assert outputs[0].dtype == theirs[0].dtype
    mine, other = (np.abs(y.astype("f8") - reference) for y in (outputs[0], theirs[0]))
    rounding = np.spacing(np.abs(reference).max().astype(outputs[0].dtype))
    if outputs[0].dtype == np.float64:  # then neither is better than the other
        assert mine.max() <= 4 * rounding
    else:
        assert mine.max() <= max(other.max(), rounding)
        assert mine.mean() <= max(other.mean(), rounding / 2)
    if len(outputs) > 1:
        assert outputs[1].tolist() == theirs[1].tolist()
        assert outputs[1].tolist() == np.array(["p", "q", "é"])[reference.argmax(axis=1)].tolist()


@pytest.mark.parametrize("value", ["float", "double"])
def test_a_scaler_is_computed_bit_for_bit(value: str) -> None:
    """One word and the coefficient 1: the score is what the Scaler makes of the value."""
    rng = np.random.default_rng(2)
    for offset, scale in rng.normal(size=(20, 2)).astype("f4").tolist():
        nodes = [
            h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=["w"]),
            h.make_node("Scaler", ["r"], ["t"], domain=DOMAIN, offset=[offset], scale=[scale]),
            h.make_node("MatMul", ["t", "W"], ["y"]),
        ]
        model = model_of(nodes, [map_input("x", "string", value)], [tensor("y", "float")])
        model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1), "f4"), "W"))
        (product,) = products_of(model)
        values = rng.normal(size=(40, 1)).astype(TYPES_TO_DTYPES[value])
        expected = without_front(model).run(None, {"r": values})[0]
        op = nbmapops.DictVectorizer(string_vocabulary=["w"])
        matrix = op.csr(["w"] * 40, values.ravel(), range(41))
        assert product.of(matrix).tolist() == expected.tolist()


TYPES_TO_DTYPES = {"float": np.float32, "double": np.float64}


@pytest.mark.parametrize("kind", ["LinearClassifier", "MatMul"])
def test_doubles_are_rounded_where_onnxruntime_rounds_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LinearClassifier reads float32: 2**24 + 1 is 2**24 for it."""
    model = linear_model(kind, value="double")
    ones = np.zeros((WIDTH, SCORES))
    ones[0, 0], ones[1, 0] = 1, -1
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "coefficients":
                del attribute.floats[:]
                attribute.floats.extend(ones.T.ravel().tolist())
    del model.graph.initializer[:]
    if kind == "MatMul":
        model.graph.initializer.append(numpy_helper.from_array(ones, "W"))
    maps = [{WORDS[0]: 2.0**24 + 1, WORDS[1]: 2.0**24}, {WORDS[0]: 3.0}]
    expected = without_front(model).run(["y"], {"r": dense_rows(maps, "double")})[0]
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    assert MapSession(model).run(["y"], {"x": maps})[0].tolist() == expected.tolist()


def test_several_linear_nodes_share_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    model = linear_model("MatMul")
    model.graph.node.extend(
        [
            *(node for node in BETWEEN["Scaler"]),
            h.make_node("Gemm", ["t", "W", "C"], ["z"]),
        ]
    )
    model.graph.output.extend([tensor("z", "float")])
    assert len(products_of(model)) == 2
    maps = maps_of(20)
    rows = dense_rows(maps, "float")
    first, second = MapSession(model).run(None, {"x": maps})
    np.testing.assert_allclose(first, exact("MatMul", "at once", rows), rtol=0, atol=1e-5)
    np.testing.assert_allclose(second, exact("Gemm", "Scaler", rows), rtol=0, atol=1e-5)


def changed(**changes: Any) -> Any:
    """A model of one MatMul, with something that forbids the product."""
    model = linear_model(changes.pop("kind", "MatMul"))
    graph = model.graph
    if "read" in changes:
        graph.node.append(h.make_node("Abs", ["r"], ["z"]))
        graph.output.append(tensor("z", "float"))
    if "asked" in changes:
        graph.output.append(tensor("r", "float"))
    if "subgraph" in changes:
        branch = h.make_graph([h.make_node("Abs", ["r"], ["b"])], "b", [], [tensor("b", "float")])
        graph.node.append(h.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
        graph.output.append(tensor("z", "float"))
        graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    if "overridable" in changes:
        graph.input.append(tensor("W", "float", [WIDTH, SCORES]))
    if "infinite" in changes:
        weights = COEFFICIENTS.copy()
        weights[3, 1] = np.inf
        del graph.initializer[:]
        graph.initializer.append(numpy_helper.from_array(weights, "W"))
    if "two" in changes:
        graph.node.append(h.make_node("MatMul", ["r", "W2"], ["z"]))
        graph.output.append(tensor("z", "float"))
        graph.initializer.append(numpy_helper.from_array(COEFFICIENTS, "W2"))
    if "identity" in changes:
        graph.node.append(h.make_node("Identity", ["r"], ["z"]))
        graph.output.append(tensor("z", "float"))
    if "attribute" in changes:
        graph.node[-1].attribute.append(h.make_attribute(*changes["attribute"]))
    return model


NOT_ALONE: dict[str, dict[str, Any]] = {
    "another node reads the rows": {"read": True},
    "the rows are an output": {"asked": True},
    "a subgraph reads the rows": {"subgraph": True},
    "the coefficients can be fed": {"overridable": True},
    "a coefficient is infinite": {"infinite": True},
    "one of two nodes has an infinite coefficient": {"infinite": True, "two": True},
    "the rows are an output under another name": {"identity": True},
    "the bias has a factor": {"kind": "Gemm", "attribute": ("beta", 2.0)},
    "the product has a factor": {"kind": "Gemm", "attribute": ("alpha", 2.0)},
}


@pytest.mark.parametrize("name", NOT_ALONE)
def test_rows_stay_where_a_product_would_not_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    model = changed(**NOT_ALONE[name])
    session = MapSession(model)
    assert session._sparse is None
    maps = maps_of(30)
    rows = dense_rows(maps, "float")
    tail = without_front(model)
    expected = dict(
        zip([o.name for o in tail.get_outputs()], tail.run(None, {"r": rows}), strict=True)
    )
    for output, found in zip(session.output_names, session.run(None, {"x": maps}), strict=True):
        np.testing.assert_array_equal(found, expected.get(output, rows))


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), 1e39])
def test_scores_that_are_not_finite_are_those_of_onnxruntime(
    odd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    for kind in ("LinearClassifier", "MatMul"):
        model = linear_model(kind)
        maps = [*maps_of(5), {WORDS[1]: odd, WORDS[2]: odd}]
        expected = without_front(model).run(None, {"r": dense_rows(maps, "float")})
        for mine, theirs in zip(MapSession(model).run(None, {"x": maps}), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ["LinearClassifier", "LinearRegressor"])
def test_one_map_gives_the_bits_of_onnxruntime(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", 0)
    model = linear_model(kind)
    session, theirs = MapSession(model), onnxruntime.InferenceSession(model.SerializeToString())
    for one in maps_of(40)[:40]:
        (mine,), (other,) = (each.run(["y"], {"x": one}) for each in (session, theirs))
        assert mine.tolist() == other.tolist()


def test_unknown_keys_in_later_blocks_are_named_by_their_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbmapops.onnx.tail.BLOCK_MAPS", 4)
    maps = [{WORDS[number]: 1.0} for number in range(10)]
    maps[7]["q"] = 1.0
    for cells in (0, 10**9):
        monkeypatch.setattr("nbmapops.onnx.session.DENSE_CELLS", cells)
        for threads in (1, 2):
            session = MapSession(linear_model("MatMul"), handle_unknown="error")
            with pytest.raises(nbmapops.UnknownKeyError, match="map 7: key 'q'"):
                session.run(None, {"x": maps}, threads=threads)


def test_text_in_blocks_and_tensors_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.tail.BLOCK_MAPS", 4)
    nodes = [
        h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, int64_vocabulary=[1, 2]),
        h.make_node("StringConcat", ["r", "t"], ["s"]),
        h.make_node("StringConcat", ["s", "u"], ["y"]),
    ]
    inputs = [
        map_input("x", "int64", "string"), tensor("t", "string", ["N", 1]),
        tensor("u", "string", [2]),
    ]  # fmt: skip
    model = model_of(nodes, inputs, [tensor("y", "string")])
    model.opset_import[0].version = 20
    session = MapSession(model, handle_unknown="error")
    maps: list[dict[int, str]] = [{1: f"a{number}"} for number in range(10)]
    feeds = {
        "x": maps,
        "t": np.array([[f"-{number}"] for number in range(10)], object),
        "u": np.array(["!", "?"], object),
    }
    expected = [[f"a{number}-{number}!", f"-{number}?"] for number in range(10)]
    for threads in (1, 3):
        assert session.run(None, feeds, threads=threads)[0].tolist() == expected
    feeds["t"] = np.array([["-"]], object)  # one row for all maps
    expected = [[f"a{number}-!", "-?"] for number in range(10)]
    assert session.run(None, feeds)[0].tolist() == expected
    maps[9][7] = "b"
    with pytest.raises(nbmapops.UnknownKeyError, match="map 9: key 7"):
        session.run(None, feeds)


def test_rows_of_castmap_dense_are_cut_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.tail.BLOCK_BYTES", 8 * 30)
    nodes = [
        h.make_node("CastMap", ["x"], ["r"], domain=DOMAIN, cast_to="TO_FLOAT", map_form="DENSE"),
        h.make_node("Neg", ["r"], ["y"]),
    ]
    model = model_of(nodes, [map_input("x", "int64", "float")], [tensor("y", "float")])
    session = MapSession(model)
    outputs, sizes = session._dense._outputs, []

    def noted(call: Any, rows: Any, tensors: Any) -> Any:
        sizes.append(len(rows["r"]))
        return outputs(call, rows, tensors)

    monkeypatch.setattr(session._dense, "_outputs", noted)
    maps = [{key: float(key + number) for key in range(10)} for number in range(8)]
    (found,) = session.run(None, {"x": maps})
    assert found.tolist() == [[-value for value in each.values()] for each in maps]
    assert sizes == [3, 3, 2]


def test_zeros_keep_their_sign_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops.onnx.tail.BLOCK_MAPS", 2)
    vectorizer = h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=WORDS)
    nodes = [vectorizer, h.make_node("Reciprocal", ["r"], ["y"])]
    model = model_of(nodes, [map_input("x", "string", "float")], [tensor("y", "float")])
    (found,) = MapSession(model).run(None, {"x": [{WORDS[0]: -0.0}] * 5})
    assert found[:, 0].tolist() == [-np.inf] * 5
    assert (found[:, 1:] == np.inf).all()


def test_rows_that_change_their_shape_from_block_to_block_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbmapops.onnx.tail.BLOCK_MAPS", 4)
    nodes = [
        h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=WORDS),
        h.make_node("Transpose", ["r"], ["t"]),
        h.make_node("MatMul", ["r", "t"], ["y"]),
    ]
    model = model_of(nodes, [map_input("x", "string", "float")], [tensor("y", "float")])
    with pytest.raises(ValueError, match=r"output 'y' has rows of different shapes"):
        MapSession(model).run(None, {"x": [{}] * 10})


@pytest.mark.parametrize("kind", ["LinearClassifier", "Abs"])
def test_wide_vocabularies_need_no_wide_rows(kind: str) -> None:
    """2,000 maps by 20,000 words are 160 MB of rows."""
    words = [f"w{number}" for number in range(20_000)]
    vectorizer = h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=words)
    if kind == "Abs":
        nodes = [h.make_node("Abs", ["r"], ["s"]), h.make_node("ReduceSum", ["s", "one"], ["y"])]
        outputs = [tensor("y", "float")]
    else:
        nodes, outputs, _ = last_nodes(kind, "r")
        (attribute,) = (each for each in nodes[0].attribute if each.name == "coefficients")
        del attribute.floats[:]
        attribute.floats.extend(RNG.normal(size=60_000).tolist())
    model = model_of([vectorizer, *nodes], [map_input("x", "string", "float")], outputs)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    maps = [{words[number * 7]: 1.5, words[number]: 0.5} for number in range(1, 2001)]
    session = MapSession(model)
    session.run(None, {"x": maps[:20]})
    tracemalloc.start()
    found = session.run(["y"], {"x": maps})[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert len(found) == 2000
    if kind == "Abs":
        assert found.tolist() == [[2.0]] * 2000
