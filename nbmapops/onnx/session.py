"""ONNX adapter: whole models on batches of maps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nbmapops._options import check_threads
from nbmapops.errors import show
from nbmapops.onnx.describe import ModelMetadata, NodeArg, metadata, node_args
from nbmapops.onnx.graph import Cut, cut, load, overridable_inputs, required_inputs
from nbmapops.onnx.linear import with_products
from nbmapops.onnx.rows import FrontOperator, MapInput
from nbmapops.onnx.tail import Call, Output, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnx
    import onnxruntime

    from nbmapops._types import HandleUnknown, Semantics
    from nbmapops.onnx.graph import Source
    from nbmapops.onnx.rows import Maps

# Below so many columns, and up to so many cells, dense rows are as fast as a sparse product: 200
# maps of 20 take 0.13 ms against 0.18 with 100 words, 0.28 against 0.24 with 1,000.
WIDE = 256
DENSE_CELLS = 1 << 16


class MapSession:
    """Run a model whose front end is map operators, on a batch of maps.

    Stands in for ``onnxruntime.InferenceSession``: the same numbers as feeding it map by map,
    for every map type of the ONNX-ML text, also those that its Python interface cannot take.

    Parameters
    ----------
    model : str, path, bytes or onnx.ModelProto
        Every CastMap and DictVectorizer reads an input of the graph.
    semantics : {"onnxruntime", "strict"}
        Of the map operators.
    handle_unknown : {"error", "ignore"}, optional
        Of the DictVectorizers; by default that of the semantics.
    **session_options
        Passed to ``onnxruntime.InferenceSession`` for the rest of the model, for instance
        ``providers``.

    Attributes
    ----------
    input_names, output_names : list of str
        Of the whole model; inputs that an initializer stands for may be fed, too.

    Raises
    ------
    ValueError
        No map operator in the model, or one that does not read an input of it: in the middle of
        the graph, or in a subgraph.
    ImportError
        onnxruntime is not installed, and there is more to run than map operators.

    Notes
    -----
    The rest of the model is given rows, one for each map, and must treat them one by one, as
    models made by skl2onnx do.

    The numbers are the same up to the last bits of float32. onnxruntime adds up the products of a
    linear model in another order for many rows than for one. Here, where a vocabulary is wide and
    a LinearClassifier, LinearRegressor, MatMul or Gemm reads its rows, the sum is made in float64
    from the entries alone and rounded once, which is closer to the exact sum. Cast and Scaler
    between both are computed as onnxruntime computes them, bit for bit. One map is always run as
    onnxruntime runs it.

    A session may be shared by threads. A pickle holds the model and the options.

    Examples
    --------
    >>> import onnx.helper as h
    >>> from onnx import TensorProto as T
    >>> node = h.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml",
    ...                    string_vocabulary=["a", "b"])
    >>> x = h.make_value_info("x", h.make_map_type_proto(
    ...     T.STRING, h.make_tensor_type_proto(T.FLOAT, [])))
    >>> graph = h.make_graph([node], "g", [x], [h.make_tensor_value_info("y", T.FLOAT, None)])
    >>> model = h.make_model(graph, opset_imports=[h.make_opsetid("ai.onnx.ml", 1)])
    >>> MapSession(model).run(None, {"x": [{"a": 1.0}, {"b": 2.0, "c": 3.0}]})
    [array([[1., 0.],
           [0., 2.]], dtype=float32)]
    """

    def __init__(
        self,
        model: Source,
        *,
        semantics: Semantics = "onnxruntime",
        handle_unknown: HandleUnknown | None = None,
        **session_options: object,
    ) -> None:
        loaded = load(model)
        self._model = model if isinstance(model, bytes) else loaded.SerializeToString()
        self._options: dict[str, object] = {
            "semantics": semantics, "handle_unknown": handle_unknown, **session_options
        }  # fmt: skip
        parts = cut(loaded)
        self._describe(loaded)
        self._maps = {
            name: MapInput(name, declared, semantics) for name, declared in parts.maps.items()
        }
        self._fronts = {
            front.rows: FrontOperator(front, self._maps[front.source], semantics, handle_unknown)
            for front in parts.fronts
        }
        for name, given in self._maps.items():
            readers = [one for one in self._fronts.values() if one.front.source == name]
            given.is_read_as_dicts = bool(readers) and all(one.is_quick for one in readers)
        self._add_tails(parts, session_options)

    def _describe(self, model: onnx.ModelProto) -> None:
        """Keep what the session tells about the model."""
        self._inputs = node_args(required_inputs(model))
        self._overridable = node_args(overridable_inputs(model))
        self._outputs = node_args(model.graph.output)
        self._metadata = metadata(model)
        self.input_names = [value.name for value in self._inputs]
        self.output_names = [value.name for value in self._outputs]
        self._required = frozenset(self.input_names)
        self._accepted = self._required | {value.name for value in self._overridable}

    def _add_tails(self, parts: Cut, options: dict[str, object]) -> None:
        """Open the rest of the model, and once more with products where that is worth while."""
        asked = frozenset(self.output_names)
        self._dense = Tail(parts.tail, [], self._fronts, options)
        wide = [
            front
            for front in parts.fronts
            if front.rows not in asked and (front.width or 0) >= WIDE
        ]
        linear, products = with_products(parts.tail, wide)
        self._sparse = Tail(linear, products, self._fronts, options) if products else None

    # ------------------------------------------------------------------------ what it is
    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs that must be fed.

        Returns
        -------
        list of NodeArg
            Each with name, type and shape, as onnxruntime's.
        """
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs.

        Returns
        -------
        list of NodeArg
            Each with name, type and shape, as onnxruntime's.
        """
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Describe the inputs that may be fed: those that an initializer stands for otherwise.

        Returns
        -------
        list of NodeArg
            Each with name, type and shape, as onnxruntime's.
        """
        return list(self._overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Tell producer, version and descriptions of the model.

        Returns
        -------
        ModelMetadata
            With the attributes of onnxruntime's.
        """
        return self._metadata

    def get_providers(self) -> list[str]:
        """Tell where the rest of the model is run.

        Returns
        -------
        list of str
            Names of execution providers.
        """
        return self._dense.providers

    def __repr__(self) -> str:
        fronts = ", ".join(
            f"{name}: {operator.front.node.op_type}" for name, operator in self._fronts.items()
        )
        return (
            f"<MapSession {self._metadata.graph_name!r}: {', '.join(self.input_names)} -> "
            f"{', '.join(self.output_names)}; {fronts}>"
        )

    def __reduce__(self) -> tuple[Callable[[bytes], MapSession], tuple[bytes]]:
        return partial(MapSession, **self._options), (self._model,)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------ running
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, object],
        run_options: onnxruntime.RunOptions | None = None,
        *,
        threads: int = 1,
    ) -> list[Output]:
        """Run the model.

        Parameters
        ----------
        output_names : sequence of str or None
            Which outputs; None: all.
        input_feed : mapping
            For each input of the model that is a map: a batch in any form that the operators
            take, or one mapping, which is a batch of one. Tensors as for onnxruntime, with a
            row for each map.
        run_options : onnxruntime.RunOptions, optional
            For the rest of the model.
        threads : int
            How many blocks of maps are run at the same time. A block is at most 16,384 maps and
            8 MiB of rows.

        Returns
        -------
        list
            As onnxruntime returns it: arrays with a row for each map, lists of dicts for a ZipMap.

        Raises
        ------
        ValueError
            Names that the model does not have or that are missing; batches of different size; a
            model that does not give a row for each map.
        TypeError, CastError, UnknownKeyError, ...
            As by the operators.

        Examples
        --------
        See the class.
        """
        names = self.output_names if output_names is None else self._names(output_names)
        if input_feed.keys() != self._required:
            self._check_feeds(input_feed)
        threads = check_threads("MapSession", threads)
        maps = {name: given.source(input_feed[name]) for name, given in self._maps.items()}
        size = self._size(maps)
        tensors = {name: fed for name, fed in input_feed.items() if name not in maps}
        call = Call(names, maps, size, tensors, run_options, threads)
        # One map always gives the bits of onnxruntime.
        if self._sparse is not None and size > 1 and size * self._sparse.width > DENSE_CELLS:
            found = self._sparse.run(call)
            if found is not None:
                return found
        return self._dense.run(call) or []

    def _names(self, output_names: Sequence[str]) -> list[str]:
        names = list(output_names)
        for name in names:
            if name not in self.output_names:
                raise ValueError(f"MapSession: the model has no output {show(name)}")
        return names

    def _check_feeds(self, feeds: Mapping[str, object]) -> None:
        for name in feeds:
            if name not in self._accepted:
                raise ValueError(f"MapSession: the model has no input {show(name)}")
        for name in self.input_names:
            if name not in feeds:
                raise ValueError(f"MapSession: input {show(name)} is missing from the feeds")

    def _size(self, maps: dict[str, Maps]) -> int:
        size, *others = set(map(len, maps.values()))
        if others:
            sizes = {name: len(batch) for name, batch in maps.items()}
            raise ValueError(f"MapSession: the inputs are batches of different size: {sizes}")
        return size
