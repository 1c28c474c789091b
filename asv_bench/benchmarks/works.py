"""The work that is measured, done by nbmapops and by each peer in its best form.

Every function makes the inputs of one work and returns a `Work`: for each implementation a function
that imports its library, prepares what a user would keep (an operator, an index, a session) and
returns the call to be timed. A library that is missing raises ImportError there, and only there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Run = Callable[[], Any]

OURS = "nbmapops"
OURS_TWICE = "nbmapops, 2 threads"
OURS_OUT = "nbmapops, out="
OURS_GENERATOR = "nbmapops, generator"
OURS_LISTED = "list() first"
OURS_HELD = "nbmapops, held dicts"
HASHER = "FeatureHasher"


class Work(NamedTuple):
    """One work: its number of entries, and who can do it."""

    entries: int
    impls: dict[str, Callable[[], Run]]
    view: Callable[[Any], Any] = lambda result: result
    """Turns the result of any implementation into something that `same` can compare."""
    tolerance: float = 0.0
    """How far two numbers may lie apart, where they come out of a matrix product."""


def prepared(work: Work, impl: str) -> Run:
    """Prepare one implementation for asv and run it once, ours with all kernels loaded.

    Raises
    ------
    NotImplementedError
        If a library is missing: asv then skips the case.
    """
    if impl.startswith(OURS):
        load_kernels()
    try:
        run = work.impls[impl]()
    except ImportError as error:
        raise NotImplementedError(str(error)) from error
    run()
    return run


def load_kernels() -> str:
    """Load every kernel into this process: until that pays, work would run in plain Python."""
    from nbmapops import precompile

    return str(precompile())


def row_sums(work: Work) -> Work:
    """Compare results by the sums of their rows: a hashed column has another place."""
    return work._replace(view=lambda result: result.sum(axis=1), tolerance=1e-9)


def same(left: Any, right: Any, tolerance: float = 0.0) -> bool:
    """Whether two results, dense or sparse, hold the same numbers in the same places."""
    left, right = _parts(left), _parts(right)
    if len(left) != len(right):
        left, right = _dense(left), _dense(right)
    return all(
        np.allclose(one, other, rtol=0.0, atol=tolerance)
        if tolerance
        else np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
        for one, other in zip(left, right, strict=True)
    )


def _parts(result: Any) -> tuple[Any, ...]:
    """Split a sparse result into the arrays that define it; a dense one is a flat array."""
    if isinstance(result, list):  # of onnxruntime
        result = result[0]
    if isinstance(result, np.ndarray):
        return (result.ravel(),)
    result = result.sorted_indices()
    return result.shape, result.indptr, result.indices, result.data


def _dense(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(parts) == 1:
        return parts
    from scipy.sparse import csr_array

    shape, indptr, indices, data = parts
    return (csr_array((data, indices, indptr), shape=shape).toarray().ravel(),)


# --- arrays ---------------------------------------------------------------------------------------


def csr_from_arrays(width: int, maps: int) -> Work:
    """Turn arrays into a canonical CSR matrix.

    The peers sort their rows too, but do not look for unknown or repeated keys; "copy" only copies
    the inputs.
    """
    words, keys, values, offsets = workloads.batch(width, maps)
    shape = (maps, width)

    def ours(threads: int) -> Run:
        from nbmapops import DictVectorizer

        op = DictVectorizer(int64_vocabulary=words)
        return lambda: op.csr(keys, values, offsets, threads=threads)

    def pyarrow() -> Run:
        import pyarrow as pa
        import pyarrow.compute as pc

        value_set = pa.array(words)

        def run() -> Any:
            columns = _own(pc.index_in(pa.array(keys), value_set))
            return _sorted_csr(values, columns, offsets.astype(np.int32), shape)

        return run

    def pandas() -> Run:
        import pandas as pd

        index = pd.Index(words)
        return lambda: _sorted_csr(values, index.get_indexer(keys), offsets, shape)

    def copy() -> Run:
        return lambda: (keys.copy(), values.copy(), offsets.copy())

    impls = {OURS: partial(ours, 1), OURS_TWICE: partial(ours, 2)}
    return Work(keys.size, {**impls, "pyarrow": pyarrow, "pandas": pandas, "copy": copy})


def csr_from_long_arrays(width: int, entries: int) -> Work:
    """Turn arrays of very many entries into CSR: a million of them, again and again."""
    words, keys, values, _ = workloads.batch(width, 10**6 // workloads.SIZE)
    times = entries // keys.size
    keys, values = np.tile(keys, times), np.tile(values, times)
    offsets = np.arange(keys.size // workloads.SIZE + 1) * workloads.SIZE

    def ours() -> Run:
        from nbmapops import DictVectorizer

        op = DictVectorizer(int64_vocabulary=words)
        return lambda: op.csr(keys, values, offsets)

    return Work(keys.size, {OURS: ours})


def csr_from_texts(kind: str, width: int, maps: int) -> Work:
    """Turn arrays with text keys into a canonical CSR matrix: "object", "U" or "StringDType"."""
    words, keys, values, offsets = workloads.text_batch(kind, width, maps)
    shape = (maps, width)

    def ours() -> Run:
        op = _vectorizer(words)
        return lambda: op.csr(keys, values, offsets)

    def pyarrow() -> Run:
        import pyarrow as pa
        import pyarrow.compute as pc

        value_set = pa.array(words)

        def run() -> Any:
            texts = pa.array(keys.astype(object) if kind == "StringDType" else keys)
            columns = _own(pc.index_in(texts, value_set))
            return _sorted_csr(values, columns, offsets.astype(np.int32), shape)

        return run

    return Work(keys.size, {OURS: ours, "pyarrow": pyarrow})


def sum_duplicates(width: int, maps: int) -> Work:
    """Add up the values of repeated keys; SciPy starts from the columns themselves."""
    keys, values, offsets = workloads.repeated_batch(width, maps)
    shape = (maps, width)

    def ours() -> Run:
        from nbmapops import MapBatch

        return MapBatch.from_arrays(keys, values, offsets).sum_duplicates

    def scipy() -> Run:
        from scipy.sparse import coo_array

        rows = _rows(offsets)

        def run() -> Any:
            matrix = coo_array((values, (rows, keys)), shape=shape).tocsr()
            matrix.sum_duplicates()
            return matrix

        return run

    def view(result: Any) -> Any:
        from scipy.sparse import csr_array

        if not hasattr(result, "to_dicts"):
            return result
        return csr_array((result.values, result.keys, result.offsets), shape=shape)

    return Work(keys.size, {OURS: ours, "scipy": scipy}, view, 1e-12)


def csr_from_rows(width: int, maps: int) -> Work:
    """Turn a shuffled long table of row, key and value into a CSR matrix.

    No map has a key twice: the peer would add up their values.
    """
    words, keys, values, offsets = workloads.batch(width, maps)
    order = np.random.default_rng(5).permutation(len(keys))
    rows, keys, values = _rows(offsets)[order], keys[order], values[order]

    def ours() -> Run:
        from nbmapops import DictVectorizer, MapBatch

        op = DictVectorizer(int64_vocabulary=words)
        return lambda: op.csr(MapBatch.from_rows(rows, keys, values, n_maps=maps))

    def pandas() -> Run:
        import pandas as pd
        from scipy.sparse import coo_array

        index = pd.Index(words)

        def run() -> Any:
            columns = index.get_indexer(keys)
            return coo_array((values, (rows, columns)), shape=(maps, width)).tocsr()

        return run

    return Work(len(keys), {OURS: ours, "pandas": pandas})


def dense_from_arrays(width: int, maps: int) -> Work:
    """Turn arrays into a dense matrix; "fill" only writes an array of that size, twice."""
    words, keys, values, offsets = workloads.batch(width, maps)
    shape = (maps, width)

    def ours(threads: int) -> Run:
        from nbmapops import DictVectorizer

        op = DictVectorizer(int64_vocabulary=words)
        return lambda: op(keys, values, offsets, threads=threads)

    def fill(threads: int) -> Run:
        return lambda: _filled(shape, threads)

    def pandas() -> Run:
        import pandas as pd

        index = pd.Index(words)

        def run() -> Any:
            out = np.zeros(shape)
            out[_rows(offsets), index.get_indexer(keys)] = values
            return out

        return run

    impls = {OURS: partial(ours, 1), OURS_TWICE: partial(ours, 2)}
    fills = {"fill": partial(fill, 1), "fill, 2 threads": partial(fill, 2)}
    return Work(keys.size, {**impls, **fills, "pandas": pandas})


def order_arrays(order: str, entries: int) -> Work:
    """Order the values of one map by key: CastMap DENSE."""
    _, keys, values, _ = workloads.one_map(order, entries)

    def ours() -> Run:
        from nbmapops import CastMap

        op = CastMap()
        return lambda: op(keys, values)

    return Work(entries, {OURS: ours, "numpy": lambda: lambda: values[np.argsort(keys)]})


def scatter(max_map: int, maps: int) -> Work:
    """Place values by key, CastMap SPARSE; NumPy checks the range too, but no repeated keys."""
    _, keys, values, offsets = workloads.narrow_batch(max_map, maps)

    def ours() -> Run:
        from nbmapops import CastMap

        op = CastMap(map_form="SPARSE", max_map=max_map)
        return lambda: op(keys, values, offsets)

    def numpy() -> Run:
        def run() -> Any:
            if keys.min() < 0 or keys.max() >= max_map:
                raise ValueError("a key is out of range")
            out = np.zeros((maps, max_map), np.float32)
            out[_rows(offsets), keys] = values
            return out

        return run

    return Work(keys.size, {OURS: ours, "numpy": numpy})


# --- dicts ----------------------------------------------------------------------------------------


def csr_from_dicts(keys: str, width: int, maps: int, *, shuffled: bool = False) -> Work:
    """Turn a list of dicts into CSR: keys are "int", "str" (shared) or "json" (new in each map).

    `shuffled`: not in the order in which they were made, so that no cache and no hardware foresees
    where the next one is.
    """
    words, dicts = _named_dicts(keys, width, maps)
    if shuffled:
        dicts = [dicts[i] for i in np.random.default_rng(0).permutation(maps)]

    def ours() -> Run:
        op = _vectorizer(words)
        return lambda: op.csr(dicts)

    def ours_generator(hold: Callable[[Iterator[Any]], Any]) -> Run:
        op = _vectorizer(words)
        # Each dict is new, as most generators make them.
        return lambda: op.csr(hold(dict(mapping) for mapping in dicts))

    def ours_held() -> Run:
        op = _vectorizer(words)
        return lambda: op.csr(mapping for mapping in dicts)

    def sklearn() -> Run:
        op = _fitted_sklearn(words)
        return lambda: op.transform(dicts)

    def fromiter() -> Run:
        if keys == "int":
            import pandas as pd

            index = pd.Index(words)

            def columns_of(flat: Iterator[Any], entries: int) -> Any:
                return index.get_indexer(np.fromiter(flat, np.int64, entries))
        else:
            columns = {word: column for column, word in enumerate(words)}

            def columns_of(flat: Iterator[Any], entries: int) -> Any:
                return np.fromiter(map(columns.__getitem__, flat), np.int32, entries)

        return lambda: _fromiter_csr(dicts, columns_of, width)

    impls = {
        OURS: ours,
        OURS_GENERATOR: partial(ours_generator, iter),
        OURS_LISTED: partial(ours_generator, list),
        OURS_HELD: ours_held,
        "scikit-learn": sklearn,
        "fromiter": fromiter,
        HASHER: partial(_hasher, dicts),
    }
    return Work(workloads.SIZE * maps, impls)


def csr_from_mappings(kind: str, width: int, maps: int) -> Work:
    """Turn a list of mappings that are not exactly dicts into CSR, text keys."""
    words, dicts = workloads.str_dicts(width, maps)
    mappings = workloads.other_mappings(kind, dicts)

    def ours() -> Run:
        op = _vectorizer(words)
        return lambda: op.csr(mappings)

    def sklearn() -> Run:
        op = _fitted_sklearn(words)
        return lambda: op.transform(mappings)

    return Work(workloads.SIZE * maps, {OURS: ours, "scikit-learn": sklearn})


def few_dicts(method: str, maps: int) -> Work:
    """Turn a few dicts into rows: "dense" or "csr" in one call, or one dense row after another."""
    words, dicts = workloads.int_dicts(1000, maps)

    def ours() -> Run:
        op = _vectorizer(words)
        call = op.csr if method == "csr" else op
        return lambda: call(dicts)

    def one_by_one() -> Run:
        op = _vectorizer(words)
        return lambda: [op(mapping) for mapping in dicts]

    def view(result: Any) -> Any:
        return np.vstack(result) if isinstance(result, list) else result

    return Work(workloads.SIZE * maps, {OURS: ours, "one by one": one_by_one}, view)


def to_dicts(keys: str, maps: int) -> Work:
    """Turn a batch back into dicts: keys are "int" or "str"."""
    _, dicts = _named_dicts(keys, 1000, maps)
    columns = [list(chain.from_iterable(dicts)), [v for row in dicts for v in row.values()]]
    flat, values = np.array(columns[0], None if keys == "int" else object), np.array(columns[1])
    offsets = np.arange(maps + 1) * workloads.SIZE

    def ours() -> Run:
        from nbmapops import MapBatch

        batch = MapBatch.from_arrays(flat, values, offsets)
        return batch.to_dicts

    def python() -> Run:
        def run() -> Any:
            names, numbers, cuts = flat.tolist(), values.tolist(), offsets.tolist()
            return [dict(zip(names[i:j], numbers[i:j], strict=True)) for i, j in pairwise(cuts)]

        return run

    def view(rows: Any) -> Any:
        return np.array([list(row.items()) for row in rows], object)

    return Work(workloads.SIZE * maps, {OURS: ours, "python": python}, view)


def csr_from_generator(width: int, maps: int) -> Work:
    """Turn a generator of dicts, made one by one, into CSR."""
    words, dicts = workloads.int_dicts(width, 1000)

    def generate() -> Iterator[dict[int, float]]:
        return (dict(dicts[number % len(dicts)]) for number in range(maps))

    def ours() -> Run:
        op = _vectorizer(words)
        return lambda: op.csr(generate())

    def sklearn() -> Run:
        op = _fitted_sklearn(words)
        return lambda: op.transform(generate())

    return Work(workloads.SIZE * maps, {OURS: ours, "scikit-learn": sklearn})


def one_dict(width: int, value: type = float) -> Work:
    """Turn one dict into one dense row; `value` is the type of our values, the peers get floats."""
    words, (mapping,) = workloads.int_dicts(width, 1)
    ours_mapping = {key: value(number) for key, number in mapping.items()}
    dtype = np.float32 if value is np.float32 else np.float64

    def ours() -> Run:
        op = _vectorizer(words)
        return lambda: op(ours_mapping)

    def ours_out() -> Run:
        op, out = _vectorizer(words), np.empty(width, dtype)
        return lambda: op(ours_mapping, out=out)

    def onnxruntime() -> Run:
        session = _session("DictVectorizer", int64_vocabulary=words)
        return lambda: session.run(["y"], {"x": mapping})

    def sklearn() -> Run:
        op = _fitted_sklearn(words, sparse=False)
        return lambda: op.transform(mapping)

    return Work(
        workloads.SIZE,
        {OURS: ours, OURS_OUT: ours_out, "onnxruntime": onnxruntime, "scikit-learn": sklearn},
    )


def order_dict(entries: int) -> Work:
    """Order the values of one large dict by key: CastMap DENSE."""
    (mapping,) = workloads.one_map("narrow", entries).dicts()

    def ours() -> Run:
        from nbmapops import CastMap

        op = CastMap()
        return lambda: op(mapping)

    def onnxruntime() -> Run:
        session = _session("CastMap", cast_to="TO_FLOAT", map_form="DENSE")
        return lambda: session.run(["y"], {"x": mapping})

    return Work(entries, {OURS: ours, "onnxruntime": onnxruntime})


def read_texts(cast_to: str, entries: int) -> Work:
    """Convert text values: CastMap TO_FLOAT against Python's float, TO_INT64 against its int."""
    reader: Callable[[str], Any] = float if cast_to == "TO_FLOAT" else int
    numbers = np.random.default_rng(1).standard_normal(entries)
    plain: list[Any] = (numbers if reader is float else (numbers * 1e6).astype(np.int64)).tolist()
    texts = list(map(repr, plain))

    def ours() -> Run:
        from nbmapops import CastMap, MapBatch

        op = CastMap(cast_to=cast_to, map_form="SPARSE", max_map=20)
        offsets = np.arange(0, entries + 1, 20)
        batch = MapBatch.from_arrays(np.arange(entries) % 20, np.array(texts, object), offsets)
        return lambda: op(batch)

    def python() -> Run:
        return lambda: list(map(reader, texts))

    dtype = np.float32 if reader is float else np.int64
    return Work(
        entries, {OURS: ours, "python": python}, lambda read: np.ravel(np.asarray(read, dtype))
    )


def write_texts(digits: str, entries: int) -> Work:
    """Write "few" or "all" digits of float64 values: CastMap TO_STRING against Python's "%.6f".

    pyarrow is loaded, which finds all digits in 0.15 us; in a process without it `repr` takes 0.5.
    """
    numbers = np.random.default_rng(1).standard_normal(entries) * 100
    numbers = np.round(numbers, 2) if digits == "few" else numbers

    def ours() -> Run:
        import pyarrow.compute  # noqa: F401

        from nbmapops import CastMap, MapBatch

        op = CastMap(cast_to="TO_STRING", map_form="SPARSE", max_map=20)
        offsets = np.arange(0, entries + 1, 20)
        batch = MapBatch.from_arrays(np.arange(entries) % 20, numbers, offsets)
        return lambda: op(batch)

    def python() -> Run:
        plain = numbers.tolist()
        return lambda: [f"{number:.6f}" for number in plain]

    def view(texts: Any) -> Any:
        return np.array([float(text) for text in np.ravel(texts)])

    return Work(entries, {OURS: ours, "python": python}, view, 1e-6)


def estimator(method: str, width: int, maps: int) -> Work:
    """Call "transform" or "fit_transform" of scikit-learn's estimator and of ours."""
    words, dicts = workloads.str_dicts(width, maps)

    def run_of(op: Any) -> Run:
        op.fit([dict.fromkeys(words, 0.0)])
        call = getattr(op, method)
        return lambda: call(dicts)

    def ours() -> Run:
        from nbmapops.sklearn import DictVectorizer

        return run_of(DictVectorizer())

    def sklearn() -> Run:
        from sklearn.feature_extraction import DictVectorizer

        return run_of(DictVectorizer())

    return Work(workloads.SIZE * maps, {OURS: ours, "scikit-learn": sklearn})


def records(method: str, kind: str, maps: int, dtype: type = np.float64) -> Work:
    """Call "transform" or "fit_transform" of scikit-learn's estimator and of ours on records."""
    rows = workloads.records(kind, maps)

    def run_of(op: Any) -> Run:
        call = getattr(op.fit(rows), method)
        return lambda: call(rows)

    def ours() -> Run:
        from nbmapops.sklearn import DictVectorizer

        return run_of(DictVectorizer(dtype=dtype))

    def sklearn() -> Run:
        from sklearn.feature_extraction import DictVectorizer

        return run_of(DictVectorizer(dtype=dtype))

    entries = sum(9 if kind == "lists" else len(row) for row in rows)
    return Work(
        entries, {OURS: ours, "scikit-learn": sklearn, HASHER: partial(_hasher, rows, dtype)}
    )


def records_from_generator(_: int, maps: int) -> Work:
    """Learn and transform a generator of records, made one by one."""
    rows = workloads.records("3 texts, 4 numbers", 1000)

    def ours() -> Run:
        from nbmapops.sklearn import DictVectorizer

        return lambda: DictVectorizer().fit_transform(
            dict(rows[number % len(rows)]) for number in range(maps)
        )

    return Work(7 * maps, {OURS: ours})


def model(width: int, maps: int) -> Work:
    """Run DictVectorizer and LogisticRegression by ONNX; onnxruntime takes one dict at a time."""
    words, dicts = workloads.str_dicts(width, maps)

    def ours() -> Run:
        from nbmapops.onnx import MapSession

        session = MapSession(_converted(_pipeline(words, dicts)), sess_options=_one_thread())
        return lambda: session.run(["probabilities"], {"x": dicts})[0]

    def onnxruntime() -> Run:
        session = _ort_session(_converted(_pipeline(words, dicts)))
        return lambda: np.concatenate(
            [session.run(["probabilities"], {"x": mapping})[0] for mapping in dicts]
        )

    def sklearn() -> Run:
        pipeline = _pipeline(words, dicts)
        return lambda: pipeline.predict_proba(dicts)

    impls = {OURS: ours, "onnxruntime": onnxruntime, "scikit-learn": sklearn}
    return Work(workloads.SIZE * maps, impls, tolerance=1e-6)


# --- vocabularies ---------------------------------------------------------------------------------


def build_index(width: int) -> Work:
    """Compile the index of int64 words in random order."""
    words, keys, values, _ = workloads.batch(width, 10)

    def ours() -> Run:
        from nbmapops import DictVectorizer

        def run() -> Any:
            op = DictVectorizer(int64_vocabulary=words)
            op.index  # noqa: B018 - built when first asked for
            return op

        return run

    def pandas() -> Run:
        import pandas as pd

        def run() -> Any:
            index = pd.Index(words)
            index.get_indexer(words[:1])
            return index

        return run

    def view(result: Any) -> Any:
        if hasattr(result, "get_indexer"):
            return result.get_indexer(keys)
        return result.csr(keys, values, np.arange(keys.size + 1)).indices

    return Work(width, {OURS: ours, "pandas": pandas}, view)


def columns(keys: str, width: int, entries: int) -> Work:
    """Find the column of each key, "int" or "str"; no operator, no values."""
    rng = np.random.default_rng(width)
    numbers = rng.permutation(workloads.random_words(width, rng))
    words = numbers if keys == "int" else [f"word{number}" for number in numbers.tolist()]
    picks = rng.integers(0, width, entries)
    # Each text is an object of its own, as a file or a database gives them.
    given = numbers[picks] if keys == "int" else np.array(
        [f"word{number}" for number in numbers[picks].tolist()], object
    )  # fmt: skip

    def ours() -> Run:
        from nbmapops import DictVectorizer

        op = DictVectorizer(**{f"{'int64' if keys == 'int' else 'string'}_vocabulary": words})
        return lambda: op.columns(given)

    def pandas() -> Run:
        import pandas as pd

        index = pd.Index(np.array(words, None if keys == "int" else object))
        return lambda: index.get_indexer(given)

    def pyarrow() -> Run:
        import pyarrow as pa
        import pyarrow.compute as pc

        value_set = pa.array(words)
        return lambda: pc.index_in(pa.array(given), value_set=value_set).to_numpy()

    def numpy() -> Run:
        order = np.argsort(words)
        ascending = np.array(words)[order]
        return lambda: order[np.searchsorted(ascending, given)]

    impls = {OURS: ours, "pandas": pandas, "pyarrow": pyarrow}
    return Work(entries, impls | ({"numpy": numpy} if keys == "int" else {}))


def learn_arrays(width: int, maps: int) -> Work:
    """Learn a sorted vocabulary from arrays (scikit-learn: from dicts)."""
    arrays = workloads.batch(width, maps)
    _, keys, values, offsets = arrays

    def ours() -> Run:
        from nbmapops import DictVectorizer, MapBatch

        return lambda: DictVectorizer.from_maps(MapBatch.from_arrays(keys, values, offsets))

    def sklearn() -> Run:
        from sklearn.feature_extraction import DictVectorizer

        dicts = arrays.dicts()
        return lambda: DictVectorizer().fit(dicts)

    def numpy() -> Run:
        return lambda: np.unique(keys)

    return Work(keys.size, {OURS: ours, "numpy": numpy, "scikit-learn": sklearn}, _vocabulary)


def learn_dicts(width: int, maps: int) -> Work:
    """Learn a sorted vocabulary from dicts with text keys."""
    _, dicts = workloads.str_dicts(width, maps)

    def ours() -> Run:
        from nbmapops import DictVectorizer

        return lambda: DictVectorizer.from_maps(dicts)

    def sklearn() -> Run:
        from sklearn.feature_extraction import DictVectorizer

        return lambda: DictVectorizer().fit(dicts)

    return Work(workloads.SIZE * maps, {OURS: ours, "scikit-learn": sklearn}, _vocabulary)


def _vocabulary(result: Any) -> Any:
    words = getattr(result, "vocabulary", getattr(result, "feature_names_", result))
    return np.asarray(words)


# --- Arrow ----------------------------------------------------------------------------------------


def csr_from_arrow(keys: str, width: int, maps: int) -> Work:
    """Turn an Arrow map column into canonical CSR: keys are "int64", "string" or "dictionary"."""
    words, column = workloads.arrow_column(keys, width, maps)
    shape = (maps, width)

    def ours() -> Run:
        from nbmapops import DictVectorizer

        kind = "int64_vocabulary" if keys == "int64" else "string_vocabulary"
        op = DictVectorizer(**{kind: words})
        return lambda: op.csr(column)

    def pyarrow() -> Run:
        import pyarrow.compute as pc

        def run() -> Any:
            entries = column.values
            columns = _own(pc.index_in(entries.field(0), words))
            return _sorted_csr(entries.field(1).to_numpy(), columns, _own(column.offsets), shape)

        return run

    def gather() -> Run:
        import pyarrow.compute as pc

        def run() -> Any:
            entries = column.values
            codes = entries.field(0)
            columns = pc.index_in(codes.dictionary, words).to_numpy(zero_copy_only=False)
            columns = columns[codes.indices.to_numpy()]
            return _sorted_csr(entries.field(1).to_numpy(), columns, _own(column.offsets), shape)

        return run

    impls = {OURS: ours, "pyarrow": pyarrow}
    if keys == "dictionary":
        impls["pyarrow, gather"] = gather
    return Work(workloads.SIZE * maps, impls)


# --- what peers are made of -----------------------------------------------------------------------


def _sorted_csr(values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
    """Make a canonical matrix that shares no memory with the input: the sort works in place."""
    from scipy.sparse import csr_array

    matrix = csr_array((values.copy(), columns, offsets), shape=shape)
    matrix.sort_indices()
    return matrix


def _own(column: Any) -> Any:
    """Copy an Arrow array into a NumPy array that may be written."""
    return column.to_numpy(zero_copy_only=False).copy()


def _fromiter_csr(
    dicts: list[dict[Any, float]], columns_of: Callable[[Iterator[Any], int], Any], width: int
) -> Any:
    """Read dicts the fast way that needs no compiler; rows are left in entry order."""
    from scipy.sparse import csr_array

    offsets = np.zeros(len(dicts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, dicts), np.int64, len(dicts)), out=offsets[1:])
    entries = int(offsets[-1])
    columns = columns_of(chain.from_iterable(dicts), entries)
    values = np.fromiter(chain.from_iterable(map(dict.values, dicts)), np.float64, entries)
    return csr_array((values, columns, offsets), shape=(len(dicts), width))


def _filled(shape: tuple[int, int], threads: int) -> NDArray[np.float64]:
    out = np.zeros(shape)
    if threads == 1:
        out.fill(0.0)
        return out
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: part.fill(0.0), np.array_split(out, threads)))
    return out


def _rows(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def _named_dicts(keys: str, width: int, maps: int) -> tuple[list[Any], list[dict[Any, float]]]:
    if keys == "int":
        return workloads.int_dicts(width, maps)
    return workloads.str_dicts(width, maps, fresh=keys == "json")


def _vectorizer(words: list[Any]) -> Any:
    from nbmapops import DictVectorizer

    if isinstance(words[0], str):
        return DictVectorizer(string_vocabulary=words)
    return DictVectorizer(int64_vocabulary=words)


def _fitted_sklearn(words: list[Any], *, sparse: bool = True) -> Any:
    from sklearn.feature_extraction import DictVectorizer

    return DictVectorizer(sparse=sparse).fit([dict.fromkeys(words, 0.0)])


def _hasher(dicts: list[dict[str, Any]], dtype: type = np.float64) -> Run:
    """Hash the keys: no vocabulary, and different words may share a column."""
    from sklearn.feature_extraction import FeatureHasher

    op = FeatureHasher(input_type="dict", alternate_sign=False, dtype=dtype)
    return lambda: op.transform(dicts)


def _session(operator: str, **attributes: Any) -> Any:
    """Open an onnxruntime session of one map operator on map(int64, float)."""
    from onnx import TensorProto, helper

    kind = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)],
        operator,
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 15)]
    return _ort_session(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def _one_thread() -> Any:
    """Options of onnxruntime: a small model leaves nothing to share out."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options


def _ort_session(onnx_model: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), _one_thread(), providers=["CPUExecutionProvider"]
    )


def _pipeline(words: list[str], dicts: list[dict[str, float]]) -> Any:
    """Train a small model."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    maps = [dict.fromkeys(words, 0.0), *dicts[:500]]
    target = [int(sum(mapping.values()) > workloads.SIZE / 2) for mapping in maps]
    pipeline = make_pipeline(DictVectorizer(dtype=np.float32), LogisticRegression())
    return pipeline.fit(maps, target)


def _converted(pipeline: Any) -> Any:
    """Convert a model to ONNX."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType

    kind = DictionaryType(StringTensorType([1]), FloatTensorType([1]))
    return convert_sklearn(
        pipeline, initial_types=[("x", kind)], options={id(pipeline): {"zipmap": False}}
    )
