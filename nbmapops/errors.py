"""The exceptions that nbmapops adds to Python's own.

They subclass the built-in exception a caller would expect, carry one readable sentence (operator,
map, key, value, rule, and the remedy where there is one), and pickle like any exception, so they
survive process pools.
"""

from __future__ import annotations

from nbmapops._foreign import is_interruption

__all__ = ["CastError", "DuplicateKeyError", "UnknownKeyError"]


class UnknownKeyError(KeyError):
    """A map holds a key that is not in the vocabulary.

    Examples
    --------
    >>> import nbmapops
    >>> dv = nbmapops.DictVectorizer(string_vocabulary=["a", "b"])
    >>> dv({"c": 1.0})
    Traceback (most recent call last):
        ...
    nbmapops.errors.UnknownKeyError: DictVectorizer: map 0: key 'c' is not in string_vocabulary \
(2 words); pass handle_unknown="ignore" to skip unknown keys
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put the sentence in quotes.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class DuplicateKeyError(ValueError):
    """A map holds the same key twice, or two words of one column.

    Examples
    --------
    >>> import nbmapops
    >>> nbmapops.CastMap()([1, 1], [0.5, 2.5])
    Traceback (most recent call last):
        ...
    nbmapops.errors.DuplicateKeyError: CastMap: map 0: key 1 is repeated; \
MapBatch.sum_duplicates() adds up the values of repeated keys
    """


class CastError(ValueError):
    """A value has no counterpart in the result type.

    Examples
    --------
    >>> import nbmapops
    >>> nbmapops.CastMap(cast_to="TO_INT64")({7: float("nan")})
    Traceback (most recent call last):
        ...
    nbmapops.errors.CastError: CastMap: map 0: key 7: value nan cannot become int64: \
NaN has no int64 value
    """


def show(value: object) -> str:
    """Return `value` as it stands in a message: its repr, cut when it is long."""
    try:
        text = repr(value)
    except Exception as error:  # a repr may raise anything; the message matters more
        if is_interruption(error):
            raise
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
