"""Adapter, dask: maps in a bag or an Arrow column become a dask array (extra ``[dask]``).

dask schedules, restarts and moves; every partition goes through an operator as it is. A partition
is a batch of maps in any form that an operator takes, and becomes one block of rows. Where maps or
values are missing, say first what they are:
``maps.map_partitions(nbmapops.MapBatch.from_dicts, null_map="empty", null_value="skip")``.

Examples
--------
>>> import dask.bag
>>> import nbmapops.dask
>>> maps = dask.bag.from_sequence([{"b": 1}, {"a": 2, "b": 3}, {"c": 4}], npartitions=2)
>>> op = nbmapops.dask.from_maps(maps, dtype="double")
>>> op.vocabulary
('a', 'b', 'c')
>>> rows = nbmapops.dask.csr(op, maps)
>>> rows.chunks
((2, 1), (3,))
>>> rows.compute().toarray()
array([[0., 1., 0.],
       [2., 3., 0.],
       [0., 0., 4.]])
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

try:
    from dask.array import concatenate, from_delayed
    from dask.base import compute
    from dask.delayed import delayed
except ImportError as error:
    raise ImportError("bags and frames need dask: pip install 'nbmapops[dask]'") from error

from nbmapops._dictvectorizer import DictVectorizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbmapops._castmap import CastMap
    from nbmapops._types import Dtype, HandleUnknown, Order, Semantics

__all__ = ["csr", "dense", "from_maps"]


def __dir__() -> list[str]:
    return list(__all__)


_Operator: TypeAlias = "CastMap | DictVectorizer"
# dask ships no annotations: what these names stand for is for readers.
_Bag: TypeAlias = Any  # dask.bag.Bag, or a dask Series
_Delayed: TypeAlias = Any  # dask.delayed.Delayed
_DaskArray: TypeAlias = Any  # dask.array.Array
_Partition: TypeAlias = Any  # a batch of maps, as operators take it
_Rows: TypeAlias = Any  # ndarray or csr_array
_FAN_IN = 8  # vocabularies that one task of the tree joins


def from_maps(
    maps: _Bag,
    *,
    order: Order = "sorted",
    dtype: Dtype | None = None,
    handle_unknown: HandleUnknown | None = None,
    fill_value: float | str | None = None,
    semantics: Semantics = "strict",
) -> DictVectorizer:
    """Make an operator whose vocabulary is the keys of all maps, learned by a tree of tasks.

    Parameters
    ----------
    maps : dask.bag.Bag of maps, or dask Series of an Arrow map type
        All of it is read now; where that takes long, `persist` it before.
    order : {"sorted", "first_seen"}
        Of the columns.
    dtype, handle_unknown, fill_value, semantics
        As for `nbmapops.DictVectorizer`; `dense` and `csr` need `dtype`.

    Returns
    -------
    nbmapops.DictVectorizer

    Raises
    ------
    TypeError
        Not such a collection; keys of two types.
    ValueError
        Another order, and attributes that the class refuses.

    Examples
    --------
    >>> import dask.bag, nbmapops.dask
    >>> maps = dask.bag.from_sequence([{8: 1.5}, {1: 2.0, 8: 0.5}], npartitions=2)
    >>> nbmapops.dask.from_maps(maps, order="first_seen", dtype="float").vocabulary
    array([8, 1])
    """
    learn = partial(
        DictVectorizer.from_maps,
        order=order,
        dtype=dtype,
        handle_unknown=handle_unknown,
        fill_value=fill_value,
        semantics=semantics,
    )
    learn([])  # whatever is wrong with the attributes is so already
    tasks = [_task(_learn, number, part) for number, part in enumerate(_partitions(maps))]
    while len(tasks) > 1:
        groups = range(0, len(tasks), _FAN_IN)
        tasks = [delayed(_join)(tasks[start : start + _FAN_IN]) for start in groups]
    words = tasks[0].compute().vocabulary
    return learn(words, np.zeros(len(words)))


def dense(operator: _Operator, maps: _Bag, *, lengths: Sequence[int] | None = None) -> _DaskArray:
    """Convert maps to a dask array of dense blocks.

    Parameters
    ----------
    operator : nbmapops.DictVectorizer with a dtype, or SPARSE nbmapops.CastMap
        What converts each partition.
    maps : dask.bag.Bag of maps, or dask Series of an Arrow map type
        Read when the array is computed.
    lengths : sequence of int, optional
        The number of maps in each partition. By default they are counted, which reads all maps
        now.

    Returns
    -------
    dask.array.Array, shape (maps, columns)
        One block for each partition that is not empty.

    Raises
    ------
    TypeError
        Not such a collection.
    ValueError
        An operator without a dtype, whose blocks might differ in theirs; a DENSE CastMap, whose
        rows have no common width; lengths for another number of partitions. When it is computed:
        lengths that are wrong, and what the operator raises, with a note of the partition.

    Examples
    --------
    >>> import dask.bag, nbmapops.dask
    >>> maps = dask.bag.from_sequence([{0: 1.5}, {2: 2.5}], npartitions=2)
    >>> op = nbmapops.CastMap(map_form="SPARSE", max_map=3)
    >>> nbmapops.dask.dense(op, maps).compute()
    array([[1.5, 0. , 0. ],
           [0. , 0. , 2.5]], dtype=float32)
    """
    return _array(operator, operator, maps, lengths)


def csr(operator: _Operator, maps: _Bag, *, lengths: Sequence[int] | None = None) -> _DaskArray:
    """Convert maps to a dask array of ``scipy.sparse.csr_array`` blocks.

    Parameters
    ----------
    operator, maps, lengths
        As for `dense`.

    Returns
    -------
    dask.array.Array, shape (maps, columns)
        One block for each partition that is not empty; ``compute()`` gives one csr_array.

    Notes
    -----
    What dask can do with blocks of SciPy: ``compute``, ``persist``, ``blocks``, ``rechunk``,
    ``concatenate``, ``map_blocks``; slices of rows and of columns (``x[:, [7]]``, not ``x[:, 7]``,
    which gives blocks of a wrong shape); ``.T``, ``astype``, ``abs``, ``x * 2``, ``x * x``,
    ``x + x``. Not: ``@`` and ``dot``, sums, means and other reductions,
    ``x + 1``. Those are done block by block, as in the second example, or on `dense`. Libraries
    that take a ``csr_matrix`` only: ``scipy.sparse.csr_matrix(x.compute())``.

    Raises
    ------
    TypeError, ValueError
        As for `dense`; text values, or a fill_value other than 0.

    Examples
    --------
    >>> import dask.bag, nbmapops.dask
    >>> maps = dask.bag.from_sequence([{0: 1.5}, {2: 2.5}], npartitions=2)
    >>> op = nbmapops.DictVectorizer(int64_vocabulary=[0, 2], dtype="double")
    >>> rows = nbmapops.dask.csr(op, maps, lengths=[1, 1])
    >>> rows.chunks, rows.compute().indices
    (((1, 1), (2,)), array([0, 1], dtype=int32))

    A product with dense weights, block by block:

    >>> import operator
    >>> import numpy as np
    >>> weights = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> product = rows.map_blocks(
    ...     operator.matmul, weights,
    ...     dtype=float, chunks=(rows.chunks[0], (3,)), meta=np.empty((0, 0)),
    ... )
    >>> product.compute()
    array([[ 1.5,  3. ,  4.5],
           [10. , 12.5, 15. ]])
    """
    return _array(operator, operator.csr, maps, lengths)


def _array(
    operator: _Operator,
    convert: Callable[[_Partition], _Rows],
    maps: _Bag,
    lengths: Sequence[int] | None,
) -> _DaskArray:
    width = operator.n_columns
    if width is None:
        raise ValueError("nbmapops.dask: rows of a DENSE CastMap have no common width; use SPARSE")
    if isinstance(operator, DictVectorizer) and operator.dtype is None:
        raise ValueError(
            "nbmapops.dask: without a dtype the blocks might differ in theirs; "
            'give the operator one: DictVectorizer(..., dtype="double")'
        )
    meta = convert([])
    parts = _partitions(maps)
    if lengths is None:
        lengths = compute(*[delayed(_count)(part) for part in parts])  # type: ignore[no-untyped-call]
    elif len(lengths) != len(parts):
        raise ValueError(f"nbmapops.dask: {len(lengths)} lengths for {len(parts)} partitions")
    convert = delayed(convert, pure=True)  # one node of the graph, not a part of every task
    blocks = [
        from_delayed(  # type: ignore[no-untyped-call]
            _task(_block, number, part, convert, length), (length, width), meta=meta
        )
        for number, (part, length) in enumerate(zip(parts, lengths, strict=True))
    ]
    return concatenate(blocks)  # type: ignore[no-untyped-call]


def _partitions(maps: _Bag) -> list[_Delayed]:
    """Return the partitions of a collection as delayed objects."""
    if not hasattr(maps, "to_delayed"):
        raise TypeError(
            f"nbmapops.dask: {type(maps).__name__} is not a bag of maps or a column of maps; make "
            "one with dask.bag.from_sequence or dask.dataframe.read_parquet"
        )
    return list(maps.to_delayed())


def _task(work: Callable[..., object], number: int, part: _Delayed, *others: object) -> _Delayed:
    return delayed(_noted)(work, number, part, *others)


def _noted(work: Callable[..., object], number: int, part: _Partition, *others: object) -> object:
    """Work on one partition; an error says which it was, since its maps are counted from 0."""
    try:
        return work(part, *others)
    except Exception as error:
        error.add_note(f"nbmapops.dask: in partition {number}")
        raise


def _count(part: _Partition) -> int:
    return len(part) if hasattr(part, "__len__") else sum(1 for _ in part)


def _learn(part: _Partition) -> DictVectorizer:
    return DictVectorizer.from_maps(part, order="first_seen")


def _join(learned: list[DictVectorizer]) -> DictVectorizer:
    """Return an operator with the words of all these, in the order in which they are first seen."""
    filled = [each for each in learned if len(each)]
    words = [word for each in filled for word in list(each.vocabulary)]
    if len({type(each.vocabulary) for each in filled}) > 1:
        raise TypeError(
            "nbmapops.dask: some partitions have integer keys and others text; "
            "a vocabulary holds integers or text, not both"
        )
    return DictVectorizer.from_maps(words, np.zeros(len(words)), order="first_seen")


def _block(part: _Partition, convert: Callable[[_Partition], _Rows], length: int) -> _Rows:
    rows = convert(part)
    if rows.shape[0] != length and hasattr(part, "__next__"):
        raise ValueError(
            f"nbmapops.dask: the partition is an iterator that gave {rows.shape[0]} maps, but "
            f"lengths says {length}; arrays that are computed together read it once: pass "
            "maps.map_partitions(nbmapops.MapBatch.from_dicts)"
        )
    if rows.shape[0] != length:
        raise ValueError(
            f"nbmapops.dask: the partition holds {rows.shape[0]} maps, but lengths says {length}"
        )
    return rows
