"""scikit-learn's DictVectorizer, with maps of plain numbers read by compiled code.

Whatever the compiled walk does not take (text to be one-hot encoded, iterables of text, None,
keys of odd types, ...) goes through scikit-learn's own code, some maps at a time, so that the
result is scikit-learn's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

try:
    from scipy import sparse
    from sklearn import get_config
    from sklearn.base import _fit_context
    from sklearn.feature_extraction import DictVectorizer as _Original
    from sklearn.utils._param_validation import StrOptions
except ImportError as error:
    raise ImportError(
        "the estimator needs scikit-learn: pip install 'nbmapops[sklearn]'"
    ) from error

from nbmapops._constants import INT64_MAX, INT64_MIN
from nbmapops._dictvectorizer import DictVectorizer as _Operator
from nbmapops._reading.mappings import CHUNK_ENTRIES, CHUNK_MAPS, compiled_walk, maps_of
from nbmapops.errors import UnknownKeyError, show

if TYPE_CHECKING:
    from nbmapops._constants import Array

__all__ = ["DictVectorizer"]

_Maps: TypeAlias = "list[Any] | tuple[Any, ...]"

# How the walk reads values for a result of this dtype. scikit-learn calls the dtype for every
# value: for these, and what the walk takes, that is what a conversion of arrays does.
_READ_AS: dict[Any, type] = {
    float: np.float64,
    np.float64: np.float64,
    np.float32: np.float64,
    int: np.int64,
    np.int64: np.int64,
}
_DICTS = (dict, Counter, defaultdict)
# Values that need no closer look before scikit-learn's code has them.
_VALUES = {str, int, float, bool, type(None), list, tuple, set, dict, np.float64, np.int64}
_ITERATOR_MAPS = 1 << 10
# Fewer maps and entries than this are faster without the walk: scikit-learn's code takes 50 us
# for a map of 20 entries, and starts without a compiler.
_FEW_MAPS, _FEW_ENTRIES = 8, 256


class DictVectorizer(_Original):  # type: ignore[misc]
    """Turn feature maps into vectors: scikit-learn's class, faster (extra ``[sklearn]``).

    A subclass of `sklearn.feature_extraction.DictVectorizer` with the same results, save that
    index arrays are int32 when they fit, so that linear models and SVMs take them, that values of
    ``np.bool_`` are taken, and that `fit` refuses the values that `transform` refuses.

    Parameters
    ----------
    dtype : type, default=np.float64
        Of the result; called to convert a value.
    separator : str, default="="
        Between key and text in the name of a one-hot feature.
    sparse : bool, default=True
        Whether `transform` gives a CSR matrix or a dense array.
    sort : bool, default=True
        Whether `fit` sorts the features. `partial_fit` never does.
    handle_unknown : {"ignore", "error"}, default="ignore"
        What `transform` does with a feature that is not in `vocabulary_` (also one that
        `restrict` removed): leave it out, or raise an UnknownKeyError.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each feature.
    feature_names_ : list
        The features in column order.

    Notes
    -----
    The compiled walk takes lists, tuples and iterators of dicts whose keys are all str or all int
    and whose values are numbers. Conversion by skl2onnx works without registration.

    Examples
    --------
    >>> from nbmapops.sklearn import DictVectorizer
    >>> dv = DictVectorizer(sparse=False)
    >>> dv.fit_transform([{"b": 2.5, "city": "Bern"}, {"a": 1}])
    array([[0. , 2.5, 1. ],
           [1. , 0. , 0. ]])
    >>> dv.feature_names_
    ['a', 'b', 'city=Bern']
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (as scikit-learn declares it)
        **_Original._parameter_constraints,
        "handle_unknown": [StrOptions({"ignore", "error"})],
    }

    def __init__(
        self,
        *,
        dtype: Any = np.float64,
        separator: str = "=",
        sparse: bool = True,
        sort: bool = True,
        handle_unknown: str = "ignore",
    ) -> None:
        super().__init__(dtype=dtype, separator=separator, sparse=sparse, sort=sort)
        self.handle_unknown = handle_unknown

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the features.

        Parameters
        ----------
        X : mapping or iterable of mappings
            An iterator is read once, and its maps are not kept.
        y : None
            Not used.

        Returns
        -------
        DictVectorizer
            This object.

        Raises
        ------
        TypeError
            A value that is no number, text, iterable of text or None.
        """
        words: dict[Any, int] = {}
        _Reader(self, _Names(words), learn=True, keep=False).read(X)
        self._set_features(_sorted(words) if self.sort else words)
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the features of more maps; features that are known keep their columns.

        Parameters
        ----------
        X : mapping or iterable of mappings
            New features get the next columns, in the order in which they are first seen.
        y : None
            Not used.

        Returns
        -------
        DictVectorizer
            This object.

        Raises
        ------
        TypeError
            As for `fit`. Nothing is learned then.

        Examples
        --------
        >>> dv = DictVectorizer().partial_fit([{"f": 1, "b": 2}]).partial_fit([{"a": 3, "b": 1}])
        >>> dv.vocabulary_
        {'f': 0, 'b': 1, 'a': 2}
        """
        words = {name: column for column, name in enumerate(getattr(self, "feature_names_", ()))}
        _Reader(self, _Names(words), learn=True, keep=False).read(X)
        self._set_features(words)
        return self

    def _set_features(self, columns: dict[Any, int]) -> None:
        self.vocabulary_ = columns
        self.feature_names_ = list(columns)

    def _transform(self, X: Any, fitting: bool) -> Any:
        """Do the work of `transform` and `fit_transform`, whose frame is scikit-learn's."""
        if not fitting and self.handle_unknown == "ignore" and _is_small(X):
            maps = _checked([X] if isinstance(X, Mapping) else X, 0)
            return _narrowed(super()._transform(maps, fitting=False))
        names = _Names({}) if fitting else self._known_names()
        reader = _Reader(self, names, learn=fitting)
        reader.read(X)
        if reader.rows == 0:
            raise ValueError("Sample sequence X is empty.")
        columns = _sorted(names.words) if fitting and self.sort else names.words
        matrix = reader.matrix(_Names(names.words, columns) if fitting else names)
        if fitting:
            self._set_features(columns)
        return matrix if self.sparse else matrix.toarray()

    def _known_names(self) -> _Names:
        """Return what is known of the vocabulary, found out once for each vocabulary."""
        names: _Names | None = getattr(self, "_names", None)
        if names is None or names.words is not self.vocabulary_ or names.size != len(names.words):
            names = self._names = _Names(self.vocabulary_)
        return names

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in super().__getstate__().items() if name != "_names"}

    def onnx_converter(self) -> Any:
        """Return what skl2onnx asks an estimator for, to convert it.

        Returns
        -------
        callable
            The function with which skl2onnx converts scikit-learn's class; it fits this one.

        Raises
        ------
        ImportError
            skl2onnx is not installed.
        """
        return _of_skl2onnx("get_converter")

    def onnx_shape_calculator(self) -> Any:
        """Return what skl2onnx asks an estimator for, to know the shape of its result.

        Returns
        -------
        callable
            The function for scikit-learn's class; it fits this one.

        Raises
        ------
        ImportError
            skl2onnx is not installed.
        """
        return _of_skl2onnx("get_shape_calculator")


def _of_skl2onnx(getter: str) -> Any:
    try:
        from skl2onnx.common import _registration
    except ImportError as error:
        raise ImportError("conversion to ONNX needs skl2onnx: pip install skl2onnx") from error
    return getattr(_registration, getter)("SklearnDictVectorizer")


def _sorted(words: dict[Any, int]) -> dict[Any, int]:
    return {name: column for column, name in enumerate(sorted(words))}


class _Names:
    """Codes of names as they are read, and the columns that they get."""

    def __init__(self, words: dict[Any, int], columns: dict[Any, int] | None = None) -> None:
        self.words = words
        self.columns = words if columns is None else columns
        self.size = len(words)

    @cached_property
    def plain(self) -> bool:
        """Whether the walk may compare keys with these names: that runs no user code."""
        return type(self.words) is dict and set(map(type, self.words)) <= {str, int, bool}

    @cached_property
    def integers(self) -> bool:
        """Whether all names are integers that fit in int64."""
        words = self.words
        if not set(map(type, words)) <= {int, bool}:
            return False
        return not words or INT64_MIN <= min(words) <= max(words) <= INT64_MAX

    @cached_property
    def column_of(self) -> Array:
        """The column of each code."""
        columns = np.empty(len(self.words), np.int32)
        columns[list(self.words.values())] = [self.columns[name] for name in self.words]
        return columns

    @cached_property
    def by_code(self) -> _Operator:
        """The operator for entries whose keys are codes."""
        return _Operator(int64_vocabulary=np.argsort(self.column_of), handle_unknown="ignore")

    @cached_property
    def by_name(self) -> _Operator:
        """The operator for entries whose keys are the names, which are integers."""
        names = sorted(self.columns, key=self.columns.__getitem__)
        return _Operator(int64_vocabulary=names, handle_unknown="ignore")


class _Part(NamedTuple):
    """Some rows as they were read."""

    source: str  # "string": text keys, "int64": integer keys (by the walk), or "scikit-learn"
    keys: Array  # codes (-1: unknown), or the keys where they are integers
    values: Array
    offsets: Array


def _csr(part: _Part, names: _Names) -> Any:
    """Return rows as a CSR array, with the columns of each in ascending order."""
    source, keys, values, offsets = part
    if source == "scikit-learn":
        # A column may stand twice in a row here: {"a=b": 1, "a": "b"}.
        shape = (len(offsets) - 1, len(names.words))
        matrix = sparse.csr_array((values, names.column_of[keys], offsets), shape=shape)
        matrix.sort_indices()
        return matrix
    if source == "int64" and names.integers:
        return names.by_name.csr(keys, values, offsets)
    if source == "int64":
        keys = np.array([names.words[key] for key in keys.tolist()], np.int64)
    return names.by_code.csr(keys, values, offsets)


class _Reader:
    """Reads maps by the compiled walk, and by scikit-learn's own code where the walk stops."""

    def __init__(
        self, estimator: DictVectorizer, names: _Names, *, learn: bool, keep: bool = True
    ) -> None:
        self.names = names
        self.words = names.words
        self.learn = learn
        self.keep = keep  # the rows, not only the names
        self.strict = not learn and estimator.handle_unknown == "error"
        self.original = _Original(dtype=estimator.dtype, separator=estimator.separator, sort=False)
        self.original.set_output(transform="default")  # whatever the global configuration says
        self.read_as = _READ_AS.get(estimator.dtype) if keep else np.float64
        self.dtype: np.dtype[Any] = np.dtype(estimator.dtype if keep else np.float64)
        self.rows = 0
        self.parts: list[_Part] = []  # while the columns are not known
        self.matrices: list[Any] = []
        self.buffers: tuple[Array, Array, Array] | None = None

    def read(self, maps: Any) -> None:
        """Read all maps."""
        run = 1
        for block in _blocks(maps):
            done = 0
            while done < len(block):
                read, entries, stopped = self._walk(block, done)
                done += read
                # To change over and back costs as much as some 250 entries do in scikit-learn's
                # code: it gets ever longer runs of maps, unless the walk gets far in between.
                run = 1 if entries > 256 * run else min(2 * run, CHUNK_MAPS)
                if stopped and done < len(block):
                    rest = _checked(block[done : done + run], self.rows)
                    self._read_by_original(rest)
                    self.rows += len(rest)
                    done += len(rest)

    # ------------------------------------------------------------------------- the walk
    def _walk(self, block: _Maps, start: int) -> tuple[int, int, bool]:
        """Read maps as far as the walk goes; how many, their entries, whether a map stopped it."""
        if self.read_as is None or _is_small(block) or not self.names.plain:
            return 0, 0, True
        walk = compiled_walk()
        if walk is None:
            return 0, 0, True
        kind = _kind_of_keys(block[start])
        if kind == "int64" and not (self.learn or self.names.integers):
            return 0, 0, True
        before = len(self.words)
        keys, values, offsets = self._room(block[start])
        read, reason = walk.walk(block, start, kind, self.words, self.learn, keys, values, offsets)
        entries = int(offsets[read])
        part = _Part(kind, keys[:entries], values[:entries], offsets[: read + 1])
        if self.learn and kind == "string":
            # The map that stopped the walk may have left words that are no names.
            used = max(before, int(part.keys.max(initial=-1)) + 1)
            while len(self.words) > used:
                self.words.popitem()
        self._take(part, block[start : start + read])
        return read, entries, reason == walk.STOP

    def _room(self, mapping: Any) -> tuple[Array, Array, Array]:
        """Return buffers that hold this map."""
        need = max(CHUNK_ENTRIES, len(mapping) if type(mapping) in _DICTS else 0)
        if self.buffers is None or len(self.buffers[0]) < need:
            ends = np.zeros(CHUNK_MAPS + 1, np.int64)
            self.buffers = np.empty(need, np.int64), np.empty(need, self.read_as), ends
        return self.buffers

    def _take(self, part: _Part, maps: _Maps) -> None:
        """Keep what the walk has read."""
        source, keys, values, offsets = part
        if self.learn and source == "int64" and len(keys):
            self._learn_integers(part, maps)
        if self.strict:
            self._refuse_unknown(part, maps)
        self.rows += len(maps)
        if not self.keep or not maps:
            return
        values = values.astype(self.dtype, copy=self.learn)
        if self.learn:  # the buffers are needed again; an entry takes no more than in the result
            keys = keys.copy() if source == "int64" else keys.astype(np.int32)
            offsets = offsets.copy()
        self._keep_rows(_Part(source, keys, values, offsets))

    def _keep_rows(self, part: _Part) -> None:
        if self.learn:
            self.parts.append(part)
        else:
            self.matrices.append(_csr(part, self.names))

    def _learn_integers(self, part: _Part, maps: _Maps) -> None:
        keys = part.keys
        for word in _Operator.from_maps(keys, keys, order="first_seen").vocabulary.tolist():
            if word not in self.words:
                name: Any = word
                if word in (0, 1):  # which equal False and True
                    row = _row(part.offsets, int(np.argmax(keys == word)))
                    name = next(key for key in maps[row] if key == word)
                self.words[name] = len(self.words)

    def _refuse_unknown(self, part: _Part, maps: _Maps) -> None:
        operator = self.names.by_code if part.source == "string" else self.names.by_name
        numbers, _ = operator.unknown(*part[1:])
        if len(numbers):
            row = int(numbers[0])
            name = next(key for key in maps[row] if key not in self.words)
            raise self._unknown(row, name, maps)

    def _unknown(self, row: int, name: object, maps: _Maps) -> UnknownKeyError:
        what = "key" if name in maps[row] else "feature"  # key=text
        return UnknownKeyError(
            f"DictVectorizer: map {self.rows + row}: {what} {show(name)} is not in vocabulary_ "
            f'({len(self.words)} names); pass handle_unknown="ignore" to skip unknown names'
        )

    # ------------------------------------------------------------------------- scikit-learn's way
    def _read_by_original(self, maps: _Maps) -> None:
        original = self.original
        if not self.keep:
            self._codes(original.fit(maps).feature_names_)
            return
        if self.learn or self.strict:
            rows = original.fit_transform(maps)
            names = original.feature_names_
            keys = self._codes(names)[rows.indices]
            if len(keys) and keys.min() < 0:
                entry = int(np.argmax(keys < 0))
                raise self._unknown(_row(rows.indptr, entry), names[rows.indices[entry]], maps)
        else:
            original.vocabulary_, original.feature_names_ = self.words, []  # names unused
            rows = original.transform(maps)
            keys = rows.indices
        self._keep_rows(_Part("scikit-learn", keys, rows.data, rows.indptr.astype(np.int32)))

    def _codes(self, names: list[Any]) -> Array:
        words = self.words
        if not self.learn:
            return np.array([words.get(name, -1) for name in names], np.int32)
        if not set(map(type, names)) <= {str, int, bool}:
            self.names.plain = False
        return np.array([words.setdefault(name, len(words)) for name in names], np.int32)

    def matrix(self, names: _Names) -> Any:
        """Return all rows as the sparse kind that scikit-learn is configured for."""
        self.parts.reverse()
        while self.parts:  # each of them goes when its rows are there
            self.matrices.append(_csr(self.parts.pop(), names))
        matrix = sparse.vstack(self.matrices, format="csr")
        kind = get_config().get("sparse_interface", "spmatrix")
        return sparse.csr_matrix(matrix) if kind == "spmatrix" else matrix


def _blocks(maps: Any) -> Iterator[_Maps]:
    """Yield the maps in lists or tuples, which the walk takes."""
    if isinstance(maps, Mapping):
        yield [maps]
    elif type(maps) in (list, tuple):
        yield maps
    else:
        iterator = iter(maps_of(maps, "DictVectorizer"))
        while block := list(islice(iterator, _ITERATOR_MAPS)):
            yield block


def _is_small(maps: Any) -> bool:
    if isinstance(maps, Mapping):
        return len(maps) < _FEW_ENTRIES
    if type(maps) not in (list, tuple) or len(maps) >= _FEW_MAPS:
        return False
    return sum(len(each) for each in maps if type(each) in _DICTS) < _FEW_ENTRIES


def _kind_of_keys(mapping: Any) -> str:
    """Guess the kind of the keys; where the guess is wrong, the walk stops."""
    if type(mapping) in _DICTS and mapping and type(next(iter(mapping))) in (int, bool):
        return "int64"
    return "string"


def _row(offsets: Array, entry: int) -> int:
    """Return the row that an entry is in."""
    return int(np.searchsorted(offsets, entry, "right")) - 1


def _checked(maps: _Maps, first: int) -> _Maps:
    """Refuse what `fit` of scikit-learn overlooks, and make bool of ``np.bool_``."""
    for number, mapping in enumerate(maps, first):
        if not hasattr(mapping, "items"):
            raise TypeError(
                f"DictVectorizer: map {number} is {show(mapping)} of type "
                f"{type(mapping).__name__}; every sample must be a mapping"
            )
    odd = {type(value) for mapping in maps for _, value in mapping.items()} - _VALUES
    if not odd:
        return maps
    for number, mapping in enumerate(maps, first):
        for key, value in mapping.items():
            if type(value) in odd and not isinstance(value, (Number, Iterable, np.bool_)):
                raise TypeError(
                    f"Unsupported value Type {type(value)} for {key}: {value}.\n"
                    f"{type(value)} objects are not supported (map {number})."
                )
    if np.bool_ not in odd:
        return maps
    return [
        {key: bool(value) if type(value) is np.bool_ else value for key, value in each.items()}
        for each in maps
    ]


def _narrowed(matrix: Any) -> Any:
    """Return a small matrix with index arrays of int32."""
    if sparse.issparse(matrix):
        matrix.indices, matrix.indptr = (
            matrix.indices.astype(np.int32, copy=False),
            matrix.indptr.astype(np.int32, copy=False),
        )
    return matrix
