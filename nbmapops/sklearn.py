"""Adapter, sklearn: scikit-learn's DictVectorizer, with records read by compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

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

from nbmapops._reading.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmapops._reading.records import Rows

__all__ = ["DictVectorizer"]


def __dir__() -> list[str]:
    return list(__all__)


_NO_CHANGE = np.empty(0, np.int32)


class DictVectorizer(_Original):  # type: ignore[misc]
    """Turn feature maps into vectors: scikit-learn's class, faster (extra ``[sklearn]``).

    A subclass of `sklearn.feature_extraction.DictVectorizer` with the same results, save that
    index arrays are int32 when they fit, so that linear models and SVMs take them, that values of
    ``np.bool_`` are taken, and that `fit` refuses the types of values that `transform` refuses
    (not numbers that `dtype` does not take).

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
    Lists, tuples and iterators of dicts with str and int keys are read by compiled code: values
    may be numbers of Python and NumPy, text, None, and lists, tuples and sets of text. Odd
    maps between them, and small inputs, are read in plain Python. A list of (key, value) pairs is
    a map, too. Conversion by skl2onnx works without registration.

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
        dtype: type = np.float64,
        separator: str = "=",
        sparse: bool = True,
        sort: bool = True,
        handle_unknown: str = "ignore",
    ) -> None:
        super().__init__(dtype=dtype, separator=separator, sparse=sparse, sort=sort)
        self.handle_unknown = handle_unknown

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
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
            A value that is not a number, text, an iterable of text or None.
        """
        words: dict[Any, int] = {}
        self._reader(words, learn=True, keep=False).read(X)
        self._set_features(sorted(words) if self.sort else words)
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
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
        self._reader(words, learn=True, keep=False).read(X)
        self._set_features(words)
        return self

    def _reader(self, words: dict[object, int], *, learn: bool, keep: bool = True) -> RecordReader:
        return RecordReader(
            words,
            dtype=self.dtype,
            separator=self.separator,
            learn=learn,
            refuse_unknown=not learn and self.handle_unknown == "error",
            keep=keep,
        )

    def _set_features(self, names: Iterable[Any]) -> None:
        self.feature_names_ = list(names)
        self.vocabulary_ = {name: column for column, name in enumerate(self.feature_names_)}

    def _transform(self, X: object, fitting: bool) -> Any:
        """Do the work of `transform` and `fit_transform`, whose frame is scikit-learn's."""
        words: dict[object, int] = {} if fitting else self.vocabulary_
        reader = self._reader(words, learn=fitting)
        reader.read(X)
        if reader.rows == 0:
            raise ValueError("Sample sequence X is empty.")
        if not fitting:
            return self._matrix(reader.finish(_NO_CHANGE), len(words))
        names, column_of = list(words), _NO_CHANGE
        if self.sort:
            names.sort()
            columns = {name: column for column, name in enumerate(names)}
            column_of = np.array([columns[name] for name in words], np.int32)
        matrix = self._matrix(reader.finish(column_of), len(words))
        self.feature_names_ = names
        # In the order in which they were seen, as scikit-learn has it here.
        self.vocabulary_ = words
        if self.sort:
            words.update(columns)
        return matrix

    def _matrix(self, rows: Rows, width: int) -> Any:
        """Return rows as the kind of matrix that is asked for and configured."""
        data, indices, indptr, is_sorted = rows
        for column in (indices.min(), indices.max()) if len(indices) else ():
            if not 0 <= column < width:
                raise ValueError(
                    "DictVectorizer: a column in vocabulary_ must be one of 0 .. "
                    f"{width - 1}, because there are {width} names, not {column}"
                )
        as_array = not self.sparse or get_config().get("sparse_interface") == "sparray"
        kind = sparse.csr_array if as_array else sparse.csr_matrix
        matrix = kind((data, indices, indptr), shape=(len(indptr) - 1, width), dtype=self.dtype)
        if not self.sparse:
            return matrix.toarray()
        if not is_sorted:
            matrix.sort_indices()
        return matrix

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
