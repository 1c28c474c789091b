"""Engine, shortcuts: every fast way that repeats the meaning of the general one, in one list.

Each returns None where the general way must look at the input, and gives what that gives otherwise:
the same result, bit for bit. `SHORTCUTS` lists them; ``limits.shortcuts = False`` turns them off,
and tests compare both.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._engine import choose
from nbmapops._engine.blocks import Parts, check_out, csr_array_of, index_dtype_for
from nbmapops._engine.dispatch import CARRIED
from nbmapops._limits import limits
from nbmapops._load import imported, is_foreign, load_kernels
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.entries import KINDS, Entries, Int64Keys, int_array, readonly
from nbmapops._reading.mappings import compiled_walk, expected_entries
from nbmapops._values import cast_array
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._options import Plan
    from nbmapops._types import Key, Map, Value
    from nbmapops._vocabulary import Index

    Dicts = list[Map] | tuple[Map, ...]
    Filler = Callable[[Map, Array], bool]
    Walk = tuple[Callable[..., tuple[int, int]], Index, Mapping[str, int] | None]

_DTYPES: dict[type, type[np.generic]] = {
    float: np.float64,
    int: np.int64,
    np.float32: np.float32,
}
_KEY_TYPES = {"int64": int, "string": str}
_WALKS: dict[str, choose.Part] = {"int64": "int64 dicts", "string": "text dicts"}
# Integers up to here are float64 values.
_EXACT = 2**53
# What comes of an unknown key, a number out of range, and of maps that another thread changes: the
# general way, which reads each of them at once, tells.
_REFUSED = (KeyError, ValueError, RuntimeError, TypeError, AttributeError, OverflowError)
# A dict of the words of a larger int64 vocabulary is not made for the sake of small maps.
_SMALL_VOCABULARY = 1 << 17


# ------------------------------------------------------------------------------- dicts
class FewDicts:
    """Writes small dicts of plain scalars that need no conversion and have nothing to report.

    For one dict of 20 entries 1.5 us once the compiled walk is loaded and 3 us in plain Python,
    where the general way takes 20 (asv: dictvectorizer.OneDict); a list of three takes three times
    as long and 2 us (asv: dictvectorizer.FewDicts).
    """

    __slots__ = ("_columns", "_fill", "_key_types", "_plan", "_walk", "_width")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._width = plan.width
        self._key_types = {_KEY_TYPES[plan.key_kind]}
        self._columns: Mapping[Key, int] | None = (
            None  # of the words, made when they are first needed
        )
        self._fill: Filler | None = None
        self._walk: Walk | None = None

    @staticmethod
    def of(plan: Plan) -> FewDicts | None:
        """Return the shortcut where an operator may take it."""
        small = plan.key_kind == "string" or plan.width <= _SMALL_VOCABULARY
        return FewDicts(plan) if plan.is_plain and small else None

    def row(self, mapping: Map, out: object) -> Array | None:
        """Return the row of one dict."""
        if len(mapping) > limits.few_entries or not limits.shortcuts:
            return None
        fill = self._fill
        if fill is None and "numba" in sys.modules:
            fill = self._filler(len(mapping))
        try:
            dtype = _DTYPES.get(type(next(iter(mapping.values()), None)))
            if dtype is None:
                return None
            row = np.zeros(self._width, dtype) if out is None else self._cleared(out, dtype)
            if row is not None:
                if fill is not None and fill(mapping, row):
                    return row
                if fill is None and self._write(mapping, row):
                    return row
        except MemoryError:  # a bad map is told first
            return None
        except _REFUSED as error:
            _refused(error)
            return None
        mixed = self._plain_rows([mapping], None) if out is None else None
        return None if mixed is None else mixed[0]

    def rows(self, maps: Any, out: object) -> Array | None:
        """Return the rows of a list of dicts."""
        dtype = self._dtype(maps, "dense")
        if dtype is None:
            return None
        maps = list(maps)  # because another thread may change it
        fill = self._filler(sum(map(len, maps)))
        if fill is not None:
            rows = self._zeros((len(maps), self._plan.width), dtype, out)
            if rows is not None and self._fill_all(fill, maps, rows):
                return rows
        return self._plain_rows(maps, out)

    def _plain_rows(self, maps: Dicts, out: object) -> Array | None:
        if len(maps) > limits.listed_maps:
            flat = self._flat(maps)
            if flat is None:
                return None
            columns, values, numbers = flat
            rows = self._zeros((len(maps), self._plan.width), values.dtype.type, out)
            if rows is None:
                return None
            rows[numbers, columns] = values
            return rows
        dtype = self._common(maps)
        if dtype is None:
            return None
        rows = self._zeros((len(maps), self._plan.width), dtype, out)
        if rows is None or not self._write_all(maps, rows):
            return None
        return rows

    def csr(self, maps: Any, index_dtype: type | None) -> csr_array | None:
        """Return the rows of a list of dicts as a sparse matrix."""
        plan = self._plan
        if choose.is_loaded("csr") and choose.is_loaded(_WALKS[plan.key_kind]):
            return self._walked_csr(maps, index_dtype)
        dtype = self._dtype(maps, "csr")
        if dtype is None or plan.vocabulary is None:
            return None
        try:
            if len(maps) > limits.listed_maps:
                parts = self._flat_parts(list(maps), index_dtype)
            else:
                parts = self._parts(list(maps), dtype, plan.vocabulary.columns, index_dtype)
        except _REFUSED as error:
            _refused(error)
            return None
        return None if parts is None else csr_array_of(parts, plan.width)

    def _parts(
        self,
        maps: Dicts,
        dtype: type[np.generic],
        columns: Mapping[Key, int],
        index_dtype: type | None,
    ) -> Parts | None:
        skips = self._skips(dtype)
        indices: list[int] = []
        data: list[Value] = []
        indptr = [0]
        for mapping in maps:
            if not self._are_plain(mapping, dtype):
                return None
            try:
                pairs = sorted(
                    zip(map(columns.__getitem__, mapping), mapping.values(), strict=True)
                )
            except KeyError:
                if not skips:
                    return None
                known = mapping.keys() & columns.keys()
                pairs = sorted((columns[key], mapping[key]) for key in known)
            indices += [column for column, _ in pairs]
            data += [value for _, value in pairs]
            indptr.append(len(indices))
        plan = self._plan
        own = index_dtype_for(len(indices), plan.width, index_dtype, plan.operator)
        return Parts(np.array(data, dtype), np.array(indices, own), np.array(indptr, own))

    def _walked_csr(self, maps: Dicts, index_dtype: type | None) -> csr_array | None:
        """Do what `csr` does in two calls of loaded kernels.

        Three maps take 10 us, not 18, and 1000 entries 33 us, where the general way takes 67
        (asv: dictvectorizer.FewDicts).
        """
        most = limits.walked_entries
        first = next(iter(maps), None)
        if not limits.shortcuts or type(first) is not dict or len(maps) > most:
            return None
        if len(maps) * len(first) > 4 * most or set(map(type, maps)) != {dict}:
            return None
        room, dtype = sum(map(len, maps)), _DTYPES.get(_first_type(maps))
        if room > most or dtype is None:
            return None
        if self._walk is None:
            self._walk = self._walk_for_csr()
            if self._walk is None:
                return None
        walk, words, columns = self._walk
        keys, values = np.empty(room, np.int64), np.empty(room, dtype)
        offsets = np.zeros(len(maps) + 1, np.int64)
        read, _ = walk(maps, 0, self._plan.key_kind, columns, False, keys, values, offsets)
        if read < len(offsets) - 1 or offsets[-1] != room:
            return None
        for array in (keys, values, offsets):
            array.setflags(write=False)
        return _kernel_csr(self._plan, words, keys, values, offsets, index_dtype)

    def _walk_for_csr(self) -> Walk | None:
        """Return the walk over dicts, the index of what it gives, and the columns of text."""
        walk, plan = compiled_walk(), self._plan
        if walk is None or plan.vocabulary is None:
            return None
        if plan.key_kind == "string":
            return walk.walk, range_index(plan.width), plan.vocabulary.columns
        return walk.walk, plan.vocabulary.index, None

    def _flat(self, maps: Dicts) -> tuple[Array, Array, Array] | None:
        """Return columns, values and the row of each entry of many plain dicts, read at once.

        0.15 us an entry, whatever the length of the maps; one by one a map takes 3 us beside
        (asv: dictvectorizer.FewDicts).
        """
        dtype, vocabulary = self._common(maps), self._plan.vocabulary
        if dtype is None or vocabulary is None:
            return None
        try:
            sizes = np.fromiter(map(len, maps), np.int64, len(maps))
            entries = int(sizes.sum())
            find = vocabulary.columns.get
            keys = chain.from_iterable(maps)
            columns = np.fromiter(map(find, keys, repeat(-1)), np.int64, entries)
            flat = chain.from_iterable(map(dict.values, maps))
            values = np.fromiter(flat, dtype, entries)
        except _REFUSED as error:
            _refused(error)
            return None
        rows = np.repeat(np.arange(len(maps)), sizes)
        known = columns >= 0
        if not known.all():
            if not self._skips(dtype):
                return None
            columns, values, rows = columns[known], values[known], rows[known]
        return columns, values, rows

    def _flat_parts(self, maps: Dicts, index_dtype: type | None) -> Parts | None:
        flat, plan = self._flat(maps), self._plan
        if flat is None:
            return None
        columns, values, rows = flat
        places = rows * plan.width + columns
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places)  # none stands twice
            columns, values = columns[order], values[order]
        own = index_dtype_for(len(columns), plan.width, index_dtype, plan.operator)
        indptr = np.zeros(len(maps) + 1, own)
        np.cumsum(np.bincount(rows, minlength=len(maps)), out=indptr[1:])
        return Parts(values, columns.astype(own), indptr)

    def _dtype(self, maps: Dicts, part: choose.Part) -> type[np.generic] | None:
        """Return the dtype that the first entry asks for; None where a list is for the general way.

        Many dicts are written here, too, as long as the compiled way is not loaded: an entry
        takes a quarter of what it takes in the plain engine (asv: dictvectorizer.FewDicts).
        """
        if not limits.shortcuts:
            return None
        entries, walk = expected_entries(maps), _WALKS[self._plan.key_kind]
        if entries > limits.few_entries and choose.compiled(entries // 4, 0, walk, part):
            return None
        if set(map(type, maps)) != {dict}:
            return None
        return _DTYPES.get(_first_type(maps))

    def _zeros(self, shape: tuple[int, ...], dtype: type[np.generic], out: object) -> Array | None:
        try:
            return np.zeros(shape, dtype) if out is None else self._cleared(out, dtype, shape)
        except MemoryError:  # a bad map is told first
            return None

    def _cleared(
        self, out: object, dtype: type[np.generic], shape: tuple[int, ...] = ()
    ) -> Array | None:
        """Return `out` as zeros; None where it does not fit: a bad map is told first."""
        try:
            row = check_out(self._plan, out, shape or (self._width,), np.dtype(dtype).name, None)
        except ValueError:
            return None
        row.fill(0)
        return row

    def _skips(self, dtype: type[np.generic]) -> bool:
        """Whether unknown keys are left out unseen: an int beyond int64 would be an error."""
        return self._plan.policy.skip_unknown and dtype is not np.int64

    def _are_plain(self, mapping: Map, dtype: type[np.generic]) -> bool:
        types = set(map(type, mapping.values()))
        if not types:
            return True
        if len(types) > 1 or _DTYPES.get(types.pop()) is not dtype:
            return False
        return set(map(type, mapping)) == self._key_types

    def _filler(self, entries: int) -> Filler | None:
        """Return the compiled writer, once it pays; its plain rival takes a third of an engine."""
        if self._fill is not None or "numba" not in sys.modules:
            return self._fill
        plan = self._plan
        if not (choose.is_loaded(_WALKS[plan.key_kind]) and plan.vocabulary is not None):
            return None
        if not (choose.is_loaded("one dict") or choose.compiled(entries // 3, 0, "one dict")):
            return None
        walk = compiled_walk()
        if walk is not None:
            skip = plan.policy.skip_unknown
            self._fill = walk.row_filler(plan.vocabulary.columns, plan.key_kind, skip)
        return self._fill

    def _fill_all(
        self,
        fill: Filler,
        maps: Dicts,
        rows: Array,
    ) -> bool:
        try:
            return all(
                not mapping or fill(mapping, row) for mapping, row in zip(maps, rows, strict=True)
            )
        except _REFUSED as error:
            _refused(error)
            return False

    def _common(self, maps: Dicts) -> type[np.generic] | None:
        """Return the dtype of plain values; of ints and floats, as JSON has them, float64."""
        values: set[type] = set()
        keys: set[type] = set()
        try:
            for mapping in maps:
                values.update(map(type, mapping.values()))
                keys.update(map(type, mapping))
            if keys != self._key_types:
                return None
            if len(values) == 1:
                return _DTYPES.get(values.pop())
            exact = values == {int, float} and all(
                -_EXACT <= value <= _EXACT
                for mapping in maps
                for value in mapping.values()
                if type(value) is int
            )
        except _REFUSED as error:
            _refused(error)
            return None
        return np.float64 if exact else None

    def _write_all(self, maps: Dicts, rows: Array) -> bool:
        """Write plain dicts into rows of zeros; whether that was all.

        8 dicts take 8 us, one after the other 14 (asv: dictvectorizer.FewDicts).
        """
        vocabulary = self._plan.vocabulary
        assert vocabulary is not None
        column_of = vocabulary.columns
        cells: Any = memoryview(rows.reshape(-1))  # type: ignore[arg-type]
        start, width = 0, self._plan.width
        skips = self._skips(rows.dtype.type)
        try:
            for mapping in maps:
                try:
                    for key, value in mapping.items():
                        cells[start + column_of[key]] = value
                except KeyError:
                    if not skips:
                        return False
                    for key in mapping.keys() & column_of.keys():
                        cells[start + column_of[key]] = mapping[key]
                start += width
        except _REFUSED as error:
            _refused(error)
            return False
        return True

    def _write(self, mapping: Map, row: Array) -> bool:
        """Write a dict into a row of zeros; whether all of it was plain."""
        if len(set(map(type, mapping.values()))) > 1 or set(map(type, mapping)) != self._key_types:
            return False
        columns = self._columns
        if columns is None:
            assert self._plan.vocabulary is not None
            columns = self._columns = self._plan.vocabulary.columns
        cells: Any = memoryview(row)  # type: ignore[arg-type]  # faster than an array
        try:
            for key, value in mapping.items():
                cells[columns[key]] = value
        except KeyError:
            if not self._skips(row.dtype.type):
                return False
            for key in mapping.keys() & columns.keys():
                cells[columns[key]] = mapping[key]
        return True


def _refused(error: Exception) -> None:
    """Leave what was refused to the general way, but not what a signal handler has raised."""
    if is_foreign(error):
        raise error


def _first_type(maps: Sequence[Map]) -> type:
    """Return the type of the first value; of None where there is none, or dicts change."""
    try:
        return type(next((value for mapping in maps for value in mapping.values()), None))
    except _REFUSED as error:
        _refused(error)
        return type(None)


# ------------------------------------------------------------------------------- few casts
_VALUE_DTYPES: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, str: np.object_}


def few_entries(maps: Any) -> Entries | None:
    """Return the entries of few dicts from ints to values of one Python type, read at once.

    They are read by the rules of all mappings otherwise, which costs CastMap twice the time.
    """
    if not limits.shortcuts or not 0 < len(maps) <= limits.few_entries:
        return None
    try:
        if set(map(type, maps)) != {dict} or sum(map(len, maps)) > limits.few_entries:
            return None
        copies = [each.copy() for each in maps]  # another thread may change them
        keys = list(chain.from_iterable(copies))
        if not keys:
            return None
        values = list(chain.from_iterable(map(dict.values, copies)))
        types = set(map(type, values))
        dtype = _VALUE_DTYPES.get(types.pop())
        if types or dtype is None or set(map(type, keys)) != {int}:
            return None
        columns = np.array(keys, np.int64), np.array(values, dtype)
    except _REFUSED as error:
        _refused(error)
        return None
    ends = [0, len(keys)] if len(copies) == 1 else [0, *accumulate(map(len, copies))]
    return Entries(Int64Keys(columns[0]), readonly(columns[1]), readonly(int_array(ends)))


def few_casts(plan: Plan, given: object) -> Array | None:
    """Return what CastMap gives for few entries: of one dict, a list of dicts, or a MapBatch.

    One dict of 8 entries takes 7 us, the general way 14 (asv: castmap.OneDict).
    """
    one = type(given) is dict
    if one or type(given) is list or type(given) is tuple:
        entries = few_entries([given] if one else given)
    else:
        entries = given._entries if isinstance(given, MapBatch) and limits.shortcuts else None
    if entries is None or not 0 < len(entries.values) <= limits.few_entries:
        return None
    source, target = entries.value_kind, plan.result_kind(entries.value_kind)
    if entries.keys.kind != "int64":
        return None
    plan.cell(source)
    values, refused = cast_array(entries.values, source, target, plan.policy.rules)
    if len(refused):
        return None
    rows = _ordered(entries, values) if plan.form == "DENSE" else _spread(plan, entries, values)
    return rows[0] if one and rows is not None else rows


def _ordered(entries: Entries, values: Array) -> Array | None:
    """Return the values of each map by ascending key; None where a key is repeated."""
    keys, maps = entries.keys.to_array(), len(entries.offsets) - 1
    if maps == 1:
        repeats = len(set(keys.tolist())) < len(keys)
        return None if repeats else values[keys.argsort()][np.newaxis]
    length = len(keys) // maps
    if (entries.offsets != np.arange(maps + 1) * length).any():
        return None
    order = keys.reshape(maps, length).argsort()
    order += np.arange(0, len(keys), length)[:, np.newaxis]
    ascending = keys[order]
    return None if (ascending[:, 1:] == ascending[:, :-1]).any() else values[order]


def _spread(plan: Plan, entries: Entries, values: Array) -> Array | None:
    """Return rows with each value at its key; None where a key is out of range or repeated."""
    places, maps = entries.keys.to_array(), len(entries.offsets) - 1
    small = maps * plan.width * values.itemsize <= limits.block_bytes
    if not small or places.min() < 0 or places.max() >= plan.width:
        return None
    if maps > 1:
        places = places + plan.width * entries.map_numbers()
    if len(set(places.tolist())) < len(places):
        return None
    rows = np.full(maps * plan.width, plan.fill_for(KINDS[values.dtype.char]), values.dtype)
    rows[places] = values
    return rows.reshape(maps, plan.width)


# ------------------------------------------------------------------------------- arrays as they are
# Arrays that are canonical already, of which nothing must be converted, go straight to a kernel: a
# call takes a third of the time (asv: dictvectorizer.SmallArrays). Kernels check offsets; on a
# refusal the general way raises the error.
_CARRIED = {np.dtype(kind): carried for kind, carried in CARRIED.items()}


def _is_canonical(plan: Plan, keys: object, values: object) -> bool:
    """Tell whether keys and values can go to a kernel as they are."""
    return (
        limits.shortcuts
        and type(keys) is np.ndarray
        and type(values) is np.ndarray
        and keys.dtype == np.int64
        and values.dtype in _CARRIED
        and (plan.target is None or KINDS[values.dtype.char] == plan.target)
        and keys.ndim == values.ndim == 1
        and len(keys) == len(values) <= limits.block_entries
        and keys.flags.forc
        and values.flags.forc
        and keys.flags.aligned
        and values.flags.aligned
        and plan.key_kind == "int64"
        and not plan.policy.first_wins  # nor, then, the conversions of onnxruntime
        and not plan.expands
    )


def arrays_ordered(plan: Plan, keys: object, values: object) -> Array | None:
    """Return the values of one map, given as two arrays, by ascending key (CastMap, DENSE)."""
    if not (choose.is_loaded("order") and _is_canonical(plan, keys, values)):
        return None
    assert isinstance(keys, np.ndarray)
    assert isinstance(values, np.ndarray)
    if choose.plain_cost(len(keys)) < choose.CALL:
        return None
    kernels, carried = load_kernels(), _CARRIED[values.dtype]
    result = np.empty(len(values), values.dtype)
    status, _ = kernels.order_dense(
        readonly(keys), readonly(values).view(carried), readonly(int_array([0, len(keys)])),
        0, 1, False, 0, np.empty(2, np.int64), result.view(carried),
    )  # fmt: skip
    return result if status == kernels.OK else None


def is_small(keys: object) -> bool:
    """Tell whether a batch of arrays is too small for threads (asv: dictvectorizer.Threads)."""
    return isinstance(keys, np.ndarray) and keys.size < 2 * limits.thread_entries


def _is_canonical_batch(plan: Plan, keys: object, values: object, offsets: object) -> bool:
    """Tell whether a batch that is given as three arrays can go to a kernel as it is."""
    return (
        plan.form == "VOCABULARY"
        and type(offsets) is np.ndarray
        and offsets.dtype == np.int64
        and offsets.ndim == 1
        and 1 < len(offsets) <= limits.block_entries
        and offsets.flags.forc
        and offsets.flags.aligned
        and _is_canonical(plan, keys, values)
        and offsets[0] == 0
        and offsets[-1] == len(keys)  # type: ignore[arg-type]
    )


def arrays_dense(plan: Plan, keys: Any, values: Any, offsets: Any) -> Array | None:
    """Return the dense rows of a batch that is given as three arrays."""
    if (
        plan.fill is not None
        or not choose.is_loaded("dense")
        or not _is_canonical_batch(plan, keys, values, offsets)
        or (len(offsets) - 1) * plan.width * values.itemsize > limits.block_bytes
    ):
        return None
    assert plan.vocabulary is not None
    kernels, carried, rows = load_kernels(), _CARRIED[values.dtype], len(offsets) - 1
    result = np.zeros((rows, plan.width), values.dtype)
    status = kernels.vectorize_dense(
        *plan.vocabulary.index, readonly(keys), readonly(values).view(carried), readonly(offsets),
        0, rows, 0, True, plan.policy.skip_unknown, False, result.view(carried),
    )  # fmt: skip
    return result if status == kernels.OK else None


def arrays_csr(
    plan: Plan, keys: Any, values: Any, offsets: Any, index_dtype: type | None
) -> csr_array | None:
    """Return the CSR matrix of a batch that is given as three arrays."""
    if not choose.is_loaded("csr") or not _is_canonical_batch(plan, keys, values, offsets):
        return None
    assert plan.vocabulary is not None
    given = readonly(keys), readonly(values), readonly(offsets)
    return _kernel_csr(plan, plan.vocabulary.index, *given, index_dtype)


def arrow_csr(plan: Plan, column: object, index_dtype: type | None) -> csr_array | None:
    """Return the CSR matrix of an Arrow column of maps without nulls.

    A column of three entries takes 30 us, in the general way 59 (asv: arrow.Csr).
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(column, (pyarrow.MapArray, pyarrow.ChunkedArray)):
        return None
    if not (limits.shortcuts and choose.is_loaded("csr")) or plan.vocabulary is None:
        return None
    found = _arrow().read_as_it_is(column)
    if found is None or found.keys.kind != plan.key_kind:
        return None
    if not 0 < len(found.values) <= limits.block_entries:
        return None
    keys, index = found.keys.place(plan.vocabulary)
    keys.setflags(write=False)
    return _kernel_csr(plan, index, keys, found.values, found.offsets, index_dtype)


@cache
def _arrow() -> ModuleType:
    return imported("nbmapops._reading.arrowdata")


def _kernel_csr(
    plan: Plan,
    words: Index,
    keys: Array,
    values: Array,
    offsets: Array,
    index_dtype: type | None,
) -> csr_array | None:
    """Return the matrix of canonical, read-only arrays, or None where a kernel finds a bad map."""
    kernels = load_kernels()
    carried, entries, rows = _CARRIED[values.dtype], len(keys), len(offsets) - 1
    dtype = index_dtype_for(entries, plan.width, index_dtype, plan.operator)
    data, indices = np.empty(entries, values.dtype), np.empty(entries, dtype)
    indptr = np.zeros(rows + 1, dtype)
    status, end = kernels.vectorize_csr(
        *words, keys, values.view(carried), offsets,
        0, rows, plan.policy.skip_unknown, False, 0, indptr, indices, data.view(carried),
    )  # fmt: skip
    if status != kernels.OK:
        return None
    if end < entries:
        data.resize(end, refcheck=False)
        indices.resize(end, refcheck=False)
    return csr_array_of(Parts(data, indices, indptr), plan.width)


SHORTCUTS: dict[str, Callable[..., object]] = {
    "one dict": FewDicts.row,
    "few dicts, dense": FewDicts.rows,
    "few dicts, csr": FewDicts.csr,
    "few casts": few_casts,
    "one map of arrays, ordered": arrays_ordered,
    "arrays, dense": arrays_dense,
    "arrays, csr": arrays_csr,
    "an Arrow column, csr": arrow_csr,
}
