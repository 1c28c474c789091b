"""Operator DictVectorizer: maps become rows, a vocabulary says which key has which column."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbmapops._engine import run
from nbmapops._engine.fewdicts import FewDicts
from nbmapops._engine.learn import learn, learn_pruned
from nbmapops._engine.shortcuts import arrays_csr, arrays_dense, arrow_csr, is_small
from nbmapops._foreign import let_out
from nbmapops._operator import Operator
from nbmapops._options import (
    Plan,
    check_fill,
    check_threads,
    check_unknown_columns,
    is_one_of,
    policy_of,
)
from nbmapops._reading.arrays import read_arrays
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.columns import is_masked_array
from nbmapops._reading.entries import Entries, Int64Keys, KeyColumn, TextKeys, readonly
from nbmapops._reading.lookup import columns_of
from nbmapops._reading.scalars import BadMap, type_name
from nbmapops._vocabulary import Index, Vocabulary, check_pruning
from nbmapops.errors import show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal
    from fractions import Fraction

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._types import (
        Dtype,
        HandleUnknown,
        IndexDtype,
        IntWords,
        Order,
        Semantics,
        TextWords,
    )


class DictVectorizer(Operator):
    """Convert maps to rows by a vocabulary (ONNX-ML operator ``DictVectorizer``, version 1).

    Parameters
    ----------
    int64_vocabulary, string_vocabulary : sequence of words
        The key of each column, in column order: integers or str. Exactly one of the two is given.
    dtype : {"float", "double", "int64", "string"} or NumPy dtype, optional
        Type of the result; by default the type of the values.
    handle_unknown : {"error", "ignore"}, optional
        What a key outside the vocabulary is: an UnknownKeyError, or an entry to skip. By default
        "error", and "ignore" in the onnxruntime semantics.
    fill_value : scalar, optional
        At positions without an entry; must fit the result type exactly. By default 0, and ``""``
        for text.
    semantics : {"strict", "onnxruntime"}
        "strict" loses nothing silently; "onnxruntime" gives the values and errors of that
        library's kernels, but with the shapes below.
    unknown_columns : int
        How many columns more stand at the end, for keys outside the vocabulary: such a key goes
        to one of them by a hash that is the same in every process, and values that meet there are
        added up. For numbers in the strict semantics, without `handle_unknown`.

    Raises
    ------
    TypeError
        A vocabulary that is a dict, a set or a str, or words or options of the wrong type.
    ValueError
        Both vocabularies or none, a repeated word, another option that is not one of these.
    OverflowError
        A word outside int64.

    Notes
    -----
    The rules are those of the ONNX-ML text of ``ai.onnx.ml.DictVectorizer``; where it is silent,
    the documentation (What the operators mean) says what is done. Integers
    that stand alone reach an int64 result without ever being floats.

    Examples
    --------
    >>> dv = DictVectorizer(string_vocabulary=["a", "c", "b", "z"])
    >>> dv({"a": 4, "c": 8})
    array([4, 8, 0, 0])
    >>> dv([{"b": 0.5}, {}])
    array([[0. , 0. , 0.5, 0. ],
           [0. , 0. , 0. , 0. ]])
    """

    __slots__ = ("_few",)
    __module__ = "nbmapops"  # where pickles find it, whatever file it stands in

    _name: ClassVar[str] = "DictVectorizer"
    _few: FewDicts | None  # where small dicts may take a shortcut

    def __init__(
        self,
        *,
        int64_vocabulary: IntWords | None = None,
        string_vocabulary: TextWords | None = None,
        dtype: Dtype | None = None,
        handle_unknown: HandleUnknown | None = None,
        fill_value: float | str | Decimal | Fraction | None = None,
        semantics: Semantics = "strict",
        unknown_columns: int = 0,
    ) -> None:
        policy = policy_of("DictVectorizer", semantics, handle_unknown)
        given = {"int64": int64_vocabulary, "string": string_vocabulary}
        words = {kind: listed for kind, listed in given.items() if listed is not None}
        if not words or (len(words) == 2 and not policy.first_wins):
            raise ValueError(
                "DictVectorizer: give exactly one of int64_vocabulary and string_vocabulary; "
                f"{'both were' if words else 'neither was'} given"
            )
        target = None if dtype is None else type_name(dtype, "DictVectorizer: dtype")
        fill_value = check_fill("DictVectorizer", fill_value, target)
        self._attributes = {
            "dtype": target,
            "handle_unknown": None if handle_unknown is None else str(handle_unknown),
            "fill_value": fill_value,
            "semantics": str(semantics),
            "unknown_columns": check_unknown_columns(
                unknown_columns, semantics, handle_unknown, target
            ),
        }
        vocabularies = {
            kind: Vocabulary.from_words(
                listed,
                kind,  # type: ignore[arg-type]
                name=f"DictVectorizer: {kind}_vocabulary",
                repeats=policy.first_wins,
            )
            for kind, listed in words.items()
        }
        self._set_plans(vocabularies)

    def _set_plans(self, vocabularies: dict[str, Vocabulary]) -> None:
        attributes = self._attributes
        policy = policy_of("DictVectorizer", attributes["semantics"], attributes["handle_unknown"])
        hashed = attributes["unknown_columns"]
        self._plans = {
            kind: Plan(
                "DictVectorizer",
                "VOCABULARY",
                kind,
                len(vocabulary) + hashed,
                attributes["dtype"],
                attributes["fill_value"],
                policy,
                vocabulary,
                hashed,
            )
            for kind, vocabulary in vocabularies.items()
        }
        self._few = None
        if len(self._plans) == 1:
            (plan,) = self._plans.values()
            self._few = FewDicts.of(plan)

    @classmethod
    def from_maps(
        cls,
        maps: object,
        values: object = None,
        offsets: object = None,
        /,
        *,
        order: Order = "sorted",
        min_maps: int = 1,
        max_words: int | None = None,
        dtype: Dtype | None = None,
        handle_unknown: HandleUnknown | None = None,
        fill_value: float | str | Decimal | Fraction | None = None,
        semantics: Semantics = "strict",
        unknown_columns: int = 0,
    ) -> DictVectorizer:
        """Make an operator whose vocabulary is the keys of these maps.

        Parameters
        ----------
        maps, values, offsets
            As for a call; keys of one type.
        order : {"sorted", "first_seen"}
            Of the columns.
        min_maps : int
            Words that stand in fewer maps are left out.
        max_words : int, optional
            How many words stay at most: those that stand in most maps, of those in equally many
            the earlier in the order asked for.
        dtype, handle_unknown, fill_value, semantics, unknown_columns
            As for the class.

        Returns
        -------
        DictVectorizer

        Raises
        ------
        TypeError
            Keys of two types.
        ValueError
            Another order; a `min_maps` or `max_words` below 1.

        Examples
        --------
        >>> DictVectorizer.from_maps([{"b": 1}, {"a": 2, "b": 3}]).vocabulary
        ('a', 'b')
        >>> DictVectorizer.from_maps([{"b": 1}, {"a": 2, "b": 3}], min_maps=2).vocabulary
        ('b',)
        """
        if not is_one_of(order, ("sorted", "first_seen")):
            raise ValueError(
                f'DictVectorizer: order must be "sorted" or "first_seen", not {show(order)}'
            )
        limits = check_pruning(min_maps, max_words, "DictVectorizer")
        words: Any  # int64 in an array, or a list of str
        if limits == (1, None):
            kind, words = learn(maps, values, offsets)
            if order == "sorted":
                words = np.sort(words) if isinstance(words, np.ndarray) else sorted(words)
        else:
            kind, words = learn_pruned(maps, values, offsets, order, *limits)
        return cls(
            int64_vocabulary=words if kind == "int64" else None,
            string_vocabulary=words if kind == "string" else None,
            dtype=dtype,
            handle_unknown=handle_unknown,
            fill_value=fill_value,
            semantics=semantics,
            unknown_columns=unknown_columns,
        )

    def __call__(
        self,
        maps: object,
        values: object = None,
        offsets: object = None,
        /,
        *,
        out: Array | None = None,
        threads: int = 1,
    ) -> Array:
        """Convert one map or a batch to a dense array.

        Parameters
        ----------
        maps : mapping, batch of mappings, MapBatch, Arrow map column, or array_like of keys
            What to convert; with `values` these are the keys.
        values : array_like, shape (nnz,), optional
            The values, when `maps` are keys.
        offsets : array_like of int, shape (B + 1,), optional
            Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``; without it, keys and values
            are one map.
        out : ndarray, optional
            Where to write the result: of its shape and dtype, C-contiguous, writable. After an
            error its content is undefined.
        threads : int
            How many threads share the rows of a batch; the result is the same.

        Returns
        -------
        ndarray, shape (V,) for one map, (B, V) for a batch

        Raises
        ------
        UnknownKeyError
            A key outside the vocabulary, unless unknown keys are ignored.
        TypeError
            Keys of the other type than the vocabulary's, mixed or other types, no maps at all.
        OverflowError
            A key or an int value outside int64; an int among floats that float64 does not hold; a
            Decimal or Fraction that neither holds.
        DuplicateKeyError
            A key twice in one map.
        CastError
            A value that `dtype` does not hold.
        ValueError
            An `out` or a fill_value that does not fit the result.
        MemoryError
            A result that does not fit into memory; `csr` may.

        Examples
        --------
        >>> dv = DictVectorizer(int64_vocabulary=[10, 20, 30])
        >>> dv([10, 30, 20], [1.5, 2.5, 3.5], [0, 2, 3])
        array([[1.5, 0. , 2.5],
               [0. , 3.5, 0. ]])
        """
        few = self._few
        if few is not None and values is None and offsets is None and type(threads) is int:
            if type(maps) is dict:
                row = few.row(maps, out)
            else:
                row = few.rows(maps, out) if type(maps) in _LISTS else None
            if row is not None and threads >= 1:
                return row if out is None else out
        threads = check_threads("DictVectorizer", threads)
        alone = threads == 1 or is_small(maps)
        if offsets is not None and out is None and alone and len(self._plans) == 1:
            rows = arrays_dense(self._plan, maps, values, offsets)
            if rows is not None:
                return rows
        plan, given = self._read(maps, values, offsets, "dense")
        return run.dense(plan, given, out, threads)

    def csr(
        self,
        maps: object,
        values: object = None,
        offsets: object = None,
        /,
        *,
        index_dtype: IndexDtype | None = None,
        threads: int = 1,
    ) -> csr_array:
        """Convert one map or a batch to a sparse matrix.

        Parameters
        ----------
        maps, values, offsets
            As for a call.
        index_dtype : {int32, int64}, optional
            Of the index arrays; by default int32 when it is enough.
        threads : int
            How many threads share the rows.

        Returns
        -------
        scipy.sparse.csr_array, shape (B, V)
            Canonical: columns ascend in a row and none stands twice; zeros that are entries are
            kept. One map gives one row. Shares no memory with the input.

        Raises
        ------
        ValueError
            Text values, or a fill_value other than 0; and as for a call.
        UnknownKeyError, TypeError, OverflowError, DuplicateKeyError, CastError, MemoryError
            As for a call.

        Examples
        --------
        >>> dv = DictVectorizer(string_vocabulary=["a", "b"])
        >>> dv.csr([{"b": 2.5}, {"a": 1.0}]).indices
        array([1, 0], dtype=int32)
        """
        few, matrix = self._few, None
        if few is not None and values is None and offsets is None and type(threads) is int:
            usual: Any = index_dtype
            if usual is None or usual is np.int32 or usual is np.int64:
                if type(maps) in _LISTS:
                    matrix = few.csr(maps, usual)
                elif threads == 1:
                    matrix = arrow_csr(self._plan, maps, usual)
            if matrix is not None and threads >= 1:
                return matrix
        dtype = self._check_sparse(index_dtype, threads)
        if offsets is not None and len(self._plans) == 1 and (threads == 1 or is_small(maps)):
            matrix = arrays_csr(self._plan, maps, values, offsets, dtype)
            if matrix is not None:
                return matrix
        return self._csr(maps, values, offsets, dtype, threads)

    def unknown(
        self, maps: object, values: object = None, offsets: object = None, /
    ) -> tuple[Array, Array]:
        """Find the entries whose key is not in the vocabulary.

        Parameters
        ----------
        maps, values, offsets
            As for a call.

        Returns
        -------
        map_numbers : ndarray of int64, shape (n,)
        keys : ndarray, shape (n,)
            int64, or object dtype holding str.

        Raises
        ------
        TypeError, OverflowError
            As for a call; an integer key beyond int64 is an OverflowError, also where calls leave
            it out.

        Examples
        --------
        >>> DictVectorizer(string_vocabulary=["a"]).unknown([{"a": 1}, {"b": 2, "c": 3}])
        (array([1, 1]), array(['b', 'c'], dtype=object))
        """
        plan, given = self._read(maps, values, offsets, "lookup", skip_large=False)
        entries, bad = given.read_all()
        if bad is not None:
            raise bad.error
        columns = run.known_columns(plan, entries)
        unknown = np.flatnonzero(columns < 0)
        return entries.map_numbers()[unknown], entries.keys.to_array()[unknown]

    def inverse(self, matrix: Any) -> MapBatch:
        """Turn rows back into maps.

        Parameters
        ----------
        matrix : array_like, shape (B, V) or (V,), or SciPy sparse matrix or array, shape (B, V)
            Of a dense matrix, cells equal to the fill value are absent (NaN equals NaN), so an
            entry whose value was the fill value does not come back. A sparse one keeps what is
            stored, zeros too.

        Returns
        -------
        MapBatch
            Keys in column order.

        Raises
        ------
        ValueError
            Another width or number of dimensions; a sparse matrix whose parts do not fit each
            other; an operator with two vocabularies.
        TypeError
            A dtype that no value has.
        OverflowError
            An integer beyond int64; lists of floats and of an integer that float64 does not hold.

        Examples
        --------
        >>> dv = DictVectorizer(string_vocabulary=["a", "b"])
        >>> dv.inverse(dv([{"b": 2.5}, {}])).to_dicts()
        [{'b': 2.5}, {}]
        """
        plan = self._plan
        if is_masked_array(matrix):
            raise TypeError("DictVectorizer: the matrix is a masked array; pass .filled()")
        if hasattr(matrix, "columns"):  # their arrays turn missing cells into NaN, ints into floats
            raise TypeError(
                f"DictVectorizer: the matrix must be an array, not {type(matrix).__name__}; pass "
                ".to_numpy()"
            )
        if hasattr(matrix, "tocsr"):
            columns, data, offsets = self._stored(matrix)
        else:
            lists = isinstance(matrix, (list, tuple))
            columns, data, offsets = self._present(
                _of_lists(matrix) if lists else np.asarray(matrix)
            )
        vocabulary = plan.vocabulary
        assert vocabulary is not None
        if len(columns) and columns.max() >= len(vocabulary):
            raise ValueError(
                "DictVectorizer: the matrix holds values in columns of unknown keys, from column "
                f"{len(vocabulary)} on, which have no key to go back to; set them to the fill value"
            )
        if vocabulary.copies is not None:
            kept = ~np.isin(columns, vocabulary.copies[0])
            offsets = np.concatenate([[0], np.cumsum(kept)])[offsets]
            columns, data = columns[kept], data[kept]
        values = _cells(data)
        offsets = offsets.astype(np.int64)
        keys: KeyColumn
        if plan.key_kind == "int64":
            keys = Int64Keys(vocabulary.words[columns])
        else:
            keys = TextKeys(columns.astype(np.int64), vocabulary.words)
        return MapBatch._of(Entries(keys, readonly(values), readonly(offsets)))

    def _check_width(self, shape: tuple[int, ...]) -> None:
        if shape[-1] != self._plan.width:
            raise ValueError(
                f"DictVectorizer: the matrix must have {self._plan.width} columns, not {shape[-1]}"
            )

    def _stored(self, matrix: Any) -> tuple[Array, Array, Array]:
        if len(matrix.shape) != 2:
            raise ValueError(
                f"DictVectorizer: a sparse matrix must be 2-D, not {len(matrix.shape)}-D; pass "
                ".reshape(1, -1)"
            )
        self._check_width(matrix.shape)
        rows = matrix.tocsr()
        # SciPy does not look at the arrays of a matrix again once it is made.
        size, bounds = min(len(rows.indices), len(rows.data)), rows.indptr
        ascends = bounds[0] == 0 and (bounds[1:] >= bounds[:-1]).all() and bounds[-1] <= size
        if not ascends or len(bounds) != rows.shape[0] + 1:
            raise ValueError(
                "DictVectorizer: the matrix is damaged: indptr must ascend from 0 to at most "
                f"{size}, the number of entries"
            )
        columns = rows.indices[: int(bounds[-1])]
        outside = (columns < 0) | (columns >= self._plan.width)
        if outside.any():
            raise ValueError(
                f"DictVectorizer: the matrix is damaged: column {columns[outside.argmax()]} of "
                f"{self._plan.width} columns"
            )
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        end = int(rows.indptr[-1])
        return rows.indices[:end], rows.data[:end].copy(), rows.indptr

    def _present(self, matrix: Array) -> tuple[Array, Array, Array]:
        if matrix.ndim == 1:
            matrix = matrix.reshape(1, -1)
        if matrix.ndim != 2:
            raise ValueError(f"DictVectorizer: the matrix must be 2-D, not {matrix.ndim}-D")
        self._check_width(matrix.shape)
        _cells(matrix[:0].ravel())  # refuses times and the like, which do not compare with numbers
        text = matrix.dtype.kind in "OUT"
        if text and not all(isinstance(cell, str) for cell in matrix.ravel().tolist()):
            raise TypeError(
                "DictVectorizer: the matrix holds objects that are not str; pass an array of "
                "numbers"
            )
        fill = self._attributes["fill_value"]
        if fill is None:
            fill = "" if text else 0
        present = _differ(matrix, fill)
        _, columns = np.nonzero(present)
        offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(present, axis=1))])
        return columns, matrix[present], offsets

    @property
    def _plan(self) -> Plan:
        if len(self._plans) > 1:
            raise ValueError(
                "DictVectorizer: with both vocabularies there is no single order of columns"
            )
        return next(iter(self._plans.values()))

    @property
    def vocabulary(self) -> Any:
        """The words in column order: a read-only int64 array, or a tuple of str."""
        vocabulary = self._plan.vocabulary
        assert vocabulary is not None
        words: Any = vocabulary.words
        return words

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """The dtype of the result; None: that of the values."""
        return None if self._plan.target is None else self.result_type()

    @property
    def handle_unknown(self) -> HandleUnknown:
        """What a key outside the vocabulary is: "error" or "ignore"; without `unknown_columns`."""
        return "ignore" if next(iter(self._plans.values())).policy.skip_unknown else "error"

    @property
    def unknown_columns(self) -> int:
        """How many columns at the end are for keys outside the vocabulary."""
        return int(self._attributes["unknown_columns"])

    @property
    def n_columns(self) -> int:
        """The width of a row: the words, and the columns for unknown keys."""
        return self._plan.width

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the columns: the words as text, then unknown_0, unknown_1, ...

        Parameters
        ----------
        input_features : object
            Not used; scikit-learn passes it.

        Returns
        -------
        ndarray of str objects, shape (n_columns,)

        Examples
        --------
        >>> DictVectorizer(int64_vocabulary=[7, 10]).get_feature_names_out()
        array(['7', '10'], dtype=object)
        """
        del input_features
        names = [str(word) for word in self.vocabulary]
        names += [f"unknown_{number}" for number in range(self.unknown_columns)]
        return np.array(names, object)

    @property
    def index(self) -> Index:
        """The arrays ``(header, pilots, slots, table)`` that `nbmapops.kernels` take.

        Raises ValueError for text words, which the kernels do not look up.
        """
        plan = self._plan
        if plan.key_kind != "int64" or plan.vocabulary is None:
            raise ValueError("DictVectorizer: only an int64_vocabulary has an index for kernels")
        return plan.vocabulary.index

    def columns(self, keys: object) -> Any:
        """Find the column of each key: the vocabulary as an encoder of ids or words.

        Parameters
        ----------
        keys : int or str, or array_like of them of any shape
            Arrays, nested lists, columns of pandas, polars, Arrow. ``handle_unknown`` plays no
            part.

        Returns
        -------
        ndarray of int64 of the same shape, or np.int64 for a single key
            -1 for a key that is not in the vocabulary, as an integer beyond int64 never is. Of a
            repeated word (onnxruntime semantics) the first column.

        Raises
        ------
        TypeError
            Keys that are not integers, or not str, as the words are.
        ValueError
            Missing values, nested lists of different lengths; an operator with two vocabularies.

        Examples
        --------
        >>> DictVectorizer(int64_vocabulary=[8, 1]).columns([[8, 1], [17, 8]])
        array([[ 0,  1],
               [-1,  0]])
        """
        vocabulary = self._plan.vocabulary
        assert vocabulary is not None
        return columns_of(keys, vocabulary, "DictVectorizer")

    def __len__(self) -> int:
        return self._plan.width - self.unknown_columns

    def __contains__(self, key: object) -> bool:
        return any(key in (plan.vocabulary or ()) for plan in self._plans.values())

    def _words(self) -> dict[str, Any]:
        return {
            f"{kind}_vocabulary": plan.vocabulary.words
            for kind, plan in self._plans.items()
            if plan.vocabulary is not None
        }

    def __getstate__(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        states = [
            plan.vocabulary.state() for plan in self._plans.values() if plan.vocabulary is not None
        ]
        return self._attributes, tuple(states)

    def __setstate__(self, state: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
        self._attributes, states = state
        vocabularies = [Vocabulary.from_state(each) for each in states]
        self._set_plans({vocabulary.kind: vocabulary for vocabulary in vocabularies})

    def __repr__(self) -> str:
        words = []
        for kind, listed in self._words().items():
            shown = ", ".join(show(int(w) if kind == "int64_vocabulary" else w) for w in listed[:3])
            more = ", ..." if len(listed) > 3 else ""
            words.append(f"{kind}=[{shown}{more}]")
        words += [
            f"{name}={value!r}"
            for name, value in self._attributes.items()
            if value is not None and (name, value) not in _DEFAULTS
        ]
        return f"DictVectorizer({', '.join(words)})"


def _differ(matrix: Array, fill: float | str) -> Array:
    """Tell which cells are not the fill value, which the type of the matrix may not hold."""
    if isinstance(fill, float) and isnan(fill):
        return ~np.isnan(matrix)
    if isinstance(fill, str):
        return np.asarray(matrix != fill)
    number = fill
    if matrix.dtype.kind == "f":
        with np.errstate(over="ignore"):
            number = float(matrix.dtype.type(fill))
    elif float(fill).is_integer():
        number = int(fill)
    return np.asarray(matrix != number) if number == fill else np.ones(matrix.shape, bool)


_LISTS = (list, tuple)
_DEFAULTS = (("semantics", "strict"), ("unknown_columns", 0))  # which a repr leaves out


def _is_row(row: object) -> bool:
    return (isinstance(row, np.ndarray) and row.ndim > 0) or isinstance(row, (list, tuple))


def _of_lists(matrix: Sequence[Any]) -> Array:
    """Return lists as a matrix, by the rules of single scalars: NumPy would make `1` a text."""
    one = not any(map(_is_row, matrix))
    rows = [matrix] if one else matrix
    lengths = {len(row) if _is_row(row) else -1 for row in rows}
    if len(lengths) != 1:
        raise ValueError("DictVectorizer: the matrix must have rows of one length")
    cells = _cells([cell for row in rows for cell in row])
    return cells.reshape(len(rows), lengths.pop())


def _cells(data: Array | list[object]) -> Array:
    """Return cells of a matrix as values."""
    try:
        entries, bad = read_arrays(np.zeros(len(data), np.int64), data, None, "DictVectorizer")
    except TypeError as error:
        let_out(error)
        bad = BadMap(0, error)
    if bad is not None:
        matrix = f"DictVectorizer: the matrix of {getattr(data, 'dtype', 'lists')}"
        if isinstance(bad.error, OverflowError):
            reason = str(bad.error).removeprefix("DictVectorizer: map 0: key 0: ")
            raise OverflowError(f"{matrix}: {reason}") from bad.error
        raise TypeError(
            f"{matrix} has cells that are not values; a value must be a number (int64, float32, "
            "float64) or a str"
        ) from bad.error
    return entries.values
