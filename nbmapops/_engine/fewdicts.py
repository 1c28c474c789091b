"""Engine, few dicts: the shortcuts of small plain dicts; `shortcuts` lists them."""

from __future__ import annotations

import sys
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._engine import choose
from nbmapops._engine.blocks import Parts, check_out, csr_array_of, index_dtype_for, kernel_csr
from nbmapops._foreign import let_out
from nbmapops._limits import limits
from nbmapops._reading.mappings import compiled_walk, expected_entries
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
REFUSED = (KeyError, ValueError, RuntimeError, TypeError, AttributeError, OverflowError)
# A dict of the words of a larger int64 vocabulary is not made for the sake of small maps.
_SMALL_VOCABULARY = 1 << 17


class FewDicts:
    """Writes small dicts of plain scalars that need no conversion and have nothing to report.

    For one dict of 20 entries 1.4 us once the compiled walk is loaded and 2.2 us in plain Python,
    where the general way takes 20 (asv: dictvectorizer.OneDict); a list of three takes three times
    as long and 2 us (asv: dictvectorizer.FewDicts).
    """

    __slots__ = ("_columns", "_fill", "_key_type", "_plan", "_walk", "_width")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._width = plan.width
        self._key_type = _KEY_TYPES[plan.key_kind]
        # Of the words; made when they are first needed.
        self._columns: Mapping[Key, int] | None = None
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
            if fill is None:
                row = self._written(mapping, out)
                if row is not None:
                    return row
            else:
                dtype = _DTYPES.get(type(next(iter(mapping.values()), None)))
                if dtype is None:
                    return None
                row = np.zeros(self._width, dtype) if out is None else self._cleared(out, dtype)
                if row is not None and fill(mapping, row):
                    return row
        except (MemoryError, *REFUSED) as error:  # a bad map is told first
            let_out(error)
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
        except REFUSED as error:
            let_out(error)
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
            except KeyError as error:
                let_out(error)
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
        return kernel_csr(self._plan, words, keys, values, offsets, index_dtype)

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
        except REFUSED as error:
            let_out(error)
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
        except MemoryError as error:  # a bad map is told first
            let_out(error)
            return None

    def _cleared(
        self, out: object, dtype: type[np.generic], shape: tuple[int, ...] = ()
    ) -> Array | None:
        """Return `out` as zeros; None where it does not fit: a bad map is told first."""
        try:
            row = check_out(self._plan, out, shape or (self._width,), np.dtype(dtype).name, None)
        except ValueError as error:
            let_out(error)
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
        return set(map(type, mapping)) == {self._key_type}

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
        except REFUSED as error:
            let_out(error)
            return False

    def _common(self, maps: Dicts) -> type[np.generic] | None:
        """Return the dtype of plain values; of ints and floats, as JSON has them, float64."""
        values: set[type] = set()
        keys: set[type] = set()
        try:
            for mapping in maps:
                values.update(map(type, mapping.values()))
                keys.update(map(type, mapping))
            if keys != {self._key_type}:
                return None
            if len(values) == 1:
                return _DTYPES.get(values.pop())
            exact = values == {int, float} and all(
                -_EXACT <= value <= _EXACT
                for mapping in maps
                for value in mapping.values()
                if type(value) is int
            )
        except REFUSED as error:
            let_out(error)
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
                except KeyError as error:
                    let_out(error)
                    if not skips:
                        return False
                    for key in mapping.keys() & column_of.keys():
                        cells[start + column_of[key]] = mapping[key]
                start += width
        except REFUSED as error:
            let_out(error)
            return False
        return True

    def _written(self, mapping: Map, out: object) -> Array | None:
        """Return the row of a dict; None where not all of it is plain."""
        types = [*map(type, mapping.values())]
        dtype = _DTYPES.get(types[0]) if types else None
        if dtype is None or types.count(types[0]) < len(types):
            return None
        if [*map(type, mapping)].count(self._key_type) < len(mapping):
            return None
        row = np.zeros(self._width, dtype) if out is None else self._cleared(out, dtype)
        if row is None:
            return None
        columns = self._columns
        if columns is None:
            assert self._plan.vocabulary is not None
            columns = self._columns = self._plan.vocabulary.columns
        cells: Any = row.data  # a memoryview, which is faster than an array
        try:
            for key, value in mapping.items():
                cells[columns[key]] = value
        except KeyError as error:
            let_out(error)
            if not self._skips(dtype):
                return None
            for key in mapping.keys() & columns.keys():
                cells[columns[key]] = mapping[key]
        return row


def _first_type(maps: Sequence[Map]) -> type:
    """Return the type of the first value; of None where there is none, or dicts change."""
    try:
        return type(next((value for mapping in maps for value in mapping.values()), None))
    except REFUSED as error:
        let_out(error)
        return type(None)
