"""ONNX adapter: the rest of a model, which is given blocks of rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nbmapops._load import imported
from nbmapops.errors import show
from nbmapops.onnx.graph import initial_names, names_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import onnx
    import onnxruntime
    from typing_extensions import TypeIs

    from nbmapops.onnx.linear import Product
    from nbmapops.onnx.rows import FrontOperator, Maps, Rows

# What a model gives: arrays, and lists of dicts for a ZipMap; onnxruntime has no types.
Output: TypeAlias = Any
Block: TypeAlias = "Callable[[int, int], Rows | None]"

# The rest of a model is given no more at once: 8 MiB of rows, of no more than 16,384 maps.
BLOCK_BYTES = 1 << 23
BLOCK_MAPS = 1 << 14


class Call(NamedTuple):
    """What is asked for, and what was fed."""

    names: list[str]
    maps: dict[str, Maps]
    size: int
    tensors: dict[str, object]
    run_options: onnxruntime.RunOptions | None
    threads: int


class Tail:
    """The rest of a model, and how its inputs are made of maps.

    Parameters
    ----------
    model : onnx.ModelProto
        Its inputs are rows, products and tensors.
    products : list of Product
        Which of its inputs are products.
    fronts : dict of FrontOperator
        By the name of their rows.
    options : dict
        For onnxruntime.InferenceSession.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        products: list[Product],
        fronts: dict[str, FrontOperator],
        options: dict[str, object],
    ) -> None:
        self._session = _opened(model, options) if model.graph.output else None
        self.providers: list[str] = (
            ["CPUExecutionProvider"] if self._session is None else self._session.get_providers()
        )
        replaced = {product.rows for product in products}
        self._products = products
        self._sparse = {name: fronts[name] for name in replaced}
        self._dense = {name: one for name, one in fronts.items() if name not in replaced}
        self.width = sum(one.front.width or 0 for one in self._sparse.values())
        cells = sum(one.front.width or 0 for one in self._dense.values())
        cells += sum(product.coefficients.shape[1] for product in products)
        self._cells: int = cells  # of a map, beside the values of CastMap DENSE:
        self._ordered = [one for one in self._dense.values() if one.front.width is None]
        self._per_map = _tensors_per_map(model, fronts)
        inputs = {*fronts, *(product.scores for product in products)}
        self._of_rows = _dependent(model, inputs) | fronts.keys()
        self._of_maps = _dependent(model, inputs | self._per_map) | fronts.keys()

    def run(self, call: Call) -> list[Output] | None:
        """Return the outputs; None where a product is not what the node would give."""
        if not call.size:
            return self._of_none(call)
        block = self._block_of(call)
        if call.size <= block and not self._products:
            rows = {
                name: one.rows(call.maps[one.front.source]) for name, one in self._dense.items()
            }
            outputs = self._outputs(call, rows, call.tensors)
            if call.size > 1:
                self._check(call.names, outputs, call.size, self._of_rows)
            return outputs
        blocks = self._blocks(call)
        bounds = [(start, min(call.size, start + block)) for start in range(0, call.size, block)]

        def run_block(bound: tuple[int, int]) -> list[Output] | None:
            rows: dict[str, Rows] = {}
            for name, rows_of in blocks.items():
                found = rows_of(*bound)
                if found is None:
                    return None
                rows[name] = found
            outputs = self._outputs(call, rows, self._part(call, *bound))
            self._check(call.names, outputs, bound[1] - bound[0], self._of_maps)
            return outputs

        if call.threads == 1 or len(bounds) == 1:
            return self._joined(call, bounds, map(run_block, bounds))
        with ThreadPoolExecutor(min(call.threads, len(bounds))) as pool:
            return self._joined(call, bounds, pool.map(run_block, bounds))

    def _block_of(self, call: Call) -> int:
        """Return how many maps the rest of the model is given at once."""
        cells = self._cells
        for one in self._ordered:
            cells += one.mean_entries(call.maps[one.front.source])
        return max(1, min(BLOCK_MAPS, BLOCK_BYTES // (8 * max(1, cells))))

    def _blocks(self, call: Call) -> dict[str, Block]:
        """Return, for each input that is made of maps, what gives some of its rows."""
        blocks: dict[str, Block] = {
            name: one.blocks(call.maps[one.front.source]) for name, one in self._dense.items()
        }
        matrices = {
            name: one.matrix(call.maps[one.front.source]) for name, one in self._sparse.items()
        }

        def scores(product: Product) -> Block:
            matrix = matrices[product.rows]
            return lambda start, stop: product.of(matrix[start:stop])

        return blocks | {product.scores: scores(product) for product in self._products}

    def _part(self, call: Call, start: int, stop: int) -> dict[str, object]:
        """Return the tensors for some maps: those with a row for each map are cut."""
        return {
            name: fed[start:stop] if self._has_rows(fed, name, call.size) else fed
            for name, fed in call.tensors.items()
        }

    def _has_rows(self, fed: object, name: str, size: int) -> TypeIs[Rows]:
        """Tell whether a tensor has a row for each map."""
        return (
            name in self._per_map
            and isinstance(fed, np.ndarray)
            and fed.ndim > 0
            and len(fed) == size
        )

    def _outputs(
        self, call: Call, rows: dict[str, Rows], tensors: dict[str, object]
    ) -> list[Output]:
        """Return the outputs of one block."""
        session = self._session
        if session is not None and rows.keys().isdisjoint(call.names):
            outputs: list[Output] = session.run(call.names, {**tensors, **rows}, call.run_options)
            return outputs
        wanted = [name for name in call.names if name not in rows]
        if session is None or not wanted:
            return [rows[name] for name in call.names]
        found = session.run(wanted, {**tensors, **rows}, call.run_options)
        by_name = {**rows, **dict(zip(wanted, found, strict=True))}
        return [by_name[name] for name in call.names]

    def _of_none(self, call: Call) -> list[Output]:
        """Return the outputs of no maps: those of one empty map, without its row.

        Not every operator of onnxruntime takes tensors without rows.
        """
        rows: dict[str, Rows] = {
            name: one.empty_row() for name, one in {**self._dense, **self._sparse}.items()
        }
        assert not self._products
        tensors = {
            name: np.zeros((1, *fed.shape[1:]), fed.dtype) if self._has_rows(fed, name, 0) else fed
            for name, fed in call.tensors.items()
        }
        outputs = self._outputs(call, rows, tensors)
        return [
            output[:0] if name in self._of_maps else output
            for name, output in zip(call.names, outputs, strict=True)
        ]

    def _check(
        self, names: list[str], outputs: list[Output], size: int, dependent: set[str]
    ) -> None:
        for name, output in zip(names, outputs, strict=True):
            shape = (len(output),) if isinstance(output, list) else output.shape
            if shape[:1] != (size,) and name in dependent:
                raise ValueError(
                    f"MapSession: output {show(name)} of {size} maps must have a row for each, but "
                    f"is of shape {shape}; feed this model one map at a time"
                )

    def _joined(
        self,
        call: Call,
        bounds: list[tuple[int, int]],
        parts: Iterable[list[Output] | None],
    ) -> list[Output] | None:
        """Return the outputs of all blocks; each is copied as soon as it is there."""
        joined: list[Output] = []
        for (start, stop), part in zip(bounds, parts, strict=True):
            if part is None:
                return None
            if len(bounds) == 1:
                return part
            if not joined:
                joined = [
                    np.empty((call.size, *output.shape[1:]), output.dtype)
                    if name in self._of_maps and isinstance(output, np.ndarray)
                    else []
                    if name in self._of_maps
                    else output
                    for name, output in zip(call.names, part, strict=True)
                ]
            for name, whole, output in zip(call.names, joined, part, strict=True):
                if name not in self._of_maps:
                    continue
                if isinstance(whole, list):
                    whole.extend(output)
                elif whole.shape[1:] != output.shape[1:]:
                    raise ValueError(
                        f"MapSession: output {show(name)} has rows of different shapes, "
                        f"{whole.shape[1:]} and {output.shape[1:]}"
                    )
                else:
                    whole[start:stop] = output
        return joined


def _opened(model: onnx.ModelProto, options: dict[str, object]) -> onnxruntime.InferenceSession:
    try:
        onnxruntime = imported("onnxruntime")
    except ImportError as error:
        raise ImportError(
            "the rest of the model needs onnxruntime: pip install 'nbmapops[onnx]'"
        ) from error
    return onnxruntime.InferenceSession(model.SerializeToString(), **options)


def _tensors_per_map(model: onnx.ModelProto, fronts: dict[str, FrontOperator]) -> set[str]:
    """Return the tensor inputs that may have any number of rows."""
    initial = initial_names(model.graph)
    found = set()
    for value in model.graph.input:
        declared = value.type.tensor_type
        dims = declared.shape.dim
        free = not declared.HasField("shape") or (dims and not dims[0].HasField("dim_value"))
        if free and value.name not in initial and value.name not in fronts:
            found.add(value.name)
    return found


def _dependent(model: onnx.ModelProto, inputs: set[str]) -> set[str]:
    """Return what depends on some inputs of a graph."""
    names = set(inputs)
    for node in model.graph.node:
        if names & names_read(node):
            names.update(node.output)
    return names
