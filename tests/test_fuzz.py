"""Anything given to anything public: a result or a documented error, and nothing around is touched.

Arrays of every dtype, shape, order, byte order and offset; objects that lie, change or raise.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import CastMap, DictVectorizer, MapBatch

from .outcomes import WITH_SCIPY
from .strategies import Pairs
from .ways import WAYS, way

DOCUMENTED = (TypeError, ValueError, KeyError, OverflowError, MemoryError)
ENDLESS = 300  # items of a generator that would go on

INTS = [1, 2, 3]
OPS: list[Any] = [
    DictVectorizer(int64_vocabulary=INTS),
    DictVectorizer(string_vocabulary=["a", "b", "c"]),
    DictVectorizer(int64_vocabulary=[1, 2, 1], semantics="onnxruntime"),
    DictVectorizer(int64_vocabulary=[3, 2**60, -5], handle_unknown="ignore", dtype="int64"),
    DictVectorizer(string_vocabulary=["a", ""], handle_unknown="ignore", dtype="string"),
    CastMap(),
    CastMap(cast_to="TO_INT64", semantics="onnxruntime"),
    CastMap(map_form="SPARSE", max_map=3),
    CastMap(map_form="SPARSE", max_map=3, cast_to="TO_STRING", semantics="onnxruntime"),
]


def calls_of(op: Any) -> list[Any]:
    names = ["__call__", "csr" if WITH_SCIPY else "__call__"]
    names += ["ragged"] if isinstance(op, CastMap) else ["unknown", "inverse"]
    return [getattr(op, name) for name in names]


CALLS = [call for op in OPS for call in calls_of(op)]
CALLS += [DictVectorizer.from_maps, MapBatch.from_dicts, MapBatch.from_arrays]


# Arrays.

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16"]
DTYPES += ["M8[s]", "m8[ns]", "S3", "U2", "V5", "O", "T", "i4,f8"]
SHAPES = [(3,), (3,), (3,), (4,), (1,), (0,), (), (3, 1), (1, 3), (2, 2), (0, 3), (1, 1, 3)]
ODD_OBJECTS: list[Any] = [1, 2, 3, "a", "b", None, 1.5, 2**63, -(2**70), b"a", float("nan"), [], {}]


def _content(draw: st.DrawFn, dtype: Any, size: int) -> Any:
    if dtype.kind in "OT":
        odd = ODD_OBJECTS if dtype.kind == "O" else ["", "a", "b", "c", "a\0"]
        data = np.empty(size, dtype)
        data[:] = [draw(st.sampled_from(odd)) for _ in range(size)]
        return data
    if dtype.kind in "iuf" and draw(st.booleans()):
        return np.arange(size).astype(dtype) + draw(st.integers(0, 1))
    if dtype.kind == "U":  # not every bit pattern is a text
        return np.array(draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size)), dtype)
    width = dtype.itemsize
    raw = draw(st.binary(min_size=width * size, max_size=width * size))
    return np.frombuffer(raw, np.uint8).view(np.dtype(("V", width))).view(dtype)


def _laid_out(draw: st.DrawFn, data: Any) -> Any:
    """The same elements elsewhere in memory."""
    how = draw(
        st.sampled_from(["plain", "strided", "reversed", "unaligned", "Fortran", "constant"])
    )
    if how == "strided" and data.ndim:
        return np.repeat(data, 3, axis=0)[1::3]
    if how == "reversed" and data.ndim:
        return data[::-1]
    if how == "unaligned" and data.dtype.kind not in "OT":
        buffer = np.empty(data.nbytes + 1, np.uint8)
        moved = buffer[1:].view(data.dtype).reshape(data.shape)
        moved[...] = data
        return moved
    if how == "Fortran":
        return np.asfortranarray(data)
    if how == "constant" and data.size:
        return np.broadcast_to(data.ravel()[:1].reshape([1] * data.ndim), data.shape)
    return data


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw an array of any dtype, byte order, shape, order, alignment, and maybe a subclass."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    if dtype.kind != "T" and draw(st.booleans()):
        dtype = dtype.newbyteorder()
    shape = draw(st.sampled_from(SHAPES))
    size = int(np.prod(shape))
    data = _laid_out(draw, _content(draw, dtype, size).reshape(shape))
    if draw(st.booleans()):
        data = data[...]
        data.flags.writeable = False
    subclass = draw(st.sampled_from([None, None, None, np.matrix, np.recarray, np.ma.MaskedArray]))
    if subclass is None or (subclass is np.matrix and (data.ndim != 2 or dtype.kind == "T")):
        return data
    if subclass is np.ma.MaskedArray:
        return np.ma.MaskedArray(data) if dtype.kind in "iuf" else data
    return data.view(subclass)


keys = arrays() | st.just(np.array(INTS)) | st.just(["a", "b", "c"])
values = arrays() | st.just(np.array([0.5, 1.5, 2.0]))
offsets = st.none() | arrays() | st.just([0, 1, 3]) | st.lists(st.integers(-1, 4), max_size=4)
options = st.fixed_dictionaries(
    {},
    optional={
        "threads": st.sampled_from([1, 2, 3, 0, -1, 1.0, None, True, 2**70]),
        "index_dtype": st.sampled_from([np.int32, np.int64, "i4", np.int8, "nonsense", None]),
        "order": st.sampled_from(["sorted", "first_seen", "", None, 3]),
    },
)


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """An array for ``out=``, and the longer one around it."""
    size = int(np.prod(shape))
    around = np.full(size + 16, "left over" if np.dtype(dtype) == object else 77, dtype)
    return around[8:-8].reshape(shape), around


def untouched(around: Any) -> bool:
    left = "left over" if around.dtype == object else 77
    return bool(around[:8].tolist() == around[-8:].tolist() == [left] * 8)


@given(
    keys, values, offsets, options, st.sampled_from(CALLS),
    st.sampled_from([(3,), (2, 3), (1, 3), (3, 3), (2, 2), (0,)]),
    st.sampled_from(["f4", "f8", "i8", "O", ">f8", "i4"]), st.booleans(),
)  # fmt: skip
def test_any_arrays_and_options_give_a_result_or_a_documented_error(
    keys: Any, values: Any, offsets: Any, options: Any, call: Any, shape: Any, dtype: Any, out: bool
) -> None:
    before = pickle.dumps((keys, values, offsets))
    inner, around = guarded(shape, dtype)
    if out:
        options = {**options, "out": inner}
    no_options: dict[str, Any] = {}
    for arguments in ((keys, values, offsets), (keys, values), (keys,)):
        for chosen in (no_options, options):
            with suppress(*DOCUMENTED):
                call(*arguments, **chosen)
            assert untouched(around)
    assert pickle.dumps((keys, values, offsets)) == before


@given(arrays(), st.sampled_from([op for op in OPS if isinstance(op, DictVectorizer)]))
def test_inverse_of_any_array(matrix: Any, op: Any) -> None:
    try:
        batch = op.inverse(matrix)
    except DOCUMENTED:
        return
    assert len(batch) == (1 if matrix.ndim == 1 else len(matrix))


anything = st.recursive(
    st.sampled_from([*ODD_OBJECTS, "TO_FLOAT", "SPARSE", "ignore", "strict", "float", "int64", -1])
    | arrays(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["cast_to", "map_form", "max_map", "fill_value", "semantics"]), anything
    )
)
def test_attributes_of_cast_map(attributes: dict[str, Any]) -> None:
    try:
        op = CastMap(**attributes)
    except DOCUMENTED:
        return
    assert pickle.loads(pickle.dumps(op)) == op == copy.deepcopy(op)


@given(
    st.dictionaries(
        st.sampled_from(["dtype", "handle_unknown", "fill_value", "semantics"]), anything,
        max_size=2,
    ),
    st.dictionaries(
        st.sampled_from(["int64_vocabulary", "string_vocabulary"]), anything | keys, min_size=1
    ),
)  # fmt: skip
def test_attributes_of_dict_vectorizer(
    attributes: dict[str, Any], vocabularies: dict[str, Any]
) -> None:
    try:
        op = DictVectorizer(**attributes, **vocabularies)
    except DOCUMENTED:
        return
    assert pickle.loads(pickle.dumps(op)) == op == copy.deepcopy(op)


@given(
    st.sampled_from(["from_dicts", "from_arrow"]), anything,
    st.dictionaries(
        st.sampled_from(["key_type", "value_type", "null_map", "null_value"]), anything
    ),
)  # fmt: skip
def test_any_options_of_batches_give_a_batch_or_a_documented_error(
    name: str, source: Any, options: dict[str, Any]
) -> None:
    try:
        batch = getattr(MapBatch, name)(source, **options)
    except (*DOCUMENTED, ImportError):
        return
    assert isinstance(batch, MapBatch)


@given(st.integers(-9, 9) | st.slices(5) | anything)
def test_what_a_batch_is_asked_for(which: Any) -> None:
    batch = MapBatch.from_arrays([1, 2, 3], [1, 2, 3], [0, 1, 1, 3])
    for op in (lambda: batch[which], lambda: which in OPS[0], lambda: which in OPS[1]):
        try:
            op()
        except (*DOCUMENTED, IndexError):
            continue


# Objects.


class Failure(Exception):
    """Raised by an object of the test, and by nothing else."""


class _Changing:
    """Whatever Python asks it, it changes the maps around it, or raises."""

    around: Any = None
    raises = False

    def _change(self, *_: Any) -> None:
        if _Changing.raises:
            raise Failure
        for m in _Changing.around or ():
            if isinstance(m, dict):
                m.clear()
        if isinstance(_Changing.around, list):
            _Changing.around.clear()

    def __hash__(self) -> int:
        return 7  # it must get into the dict


class ChangingInt(_Changing, int):
    def __int__(self) -> int:
        self._change()
        return 1

    __index__ = __trunc__ = __int__

    def __float__(self) -> float:
        self._change()
        return 1.0

    def __eq__(self, other: object) -> bool:
        self._change()
        return other is self

    __hash__ = _Changing.__hash__

    def __repr__(self) -> str:
        self._change()
        return "1"

    __str__ = __repr__


class ChangingFloat(_Changing, float):
    __float__ = ChangingInt.__float__
    __eq__ = ChangingInt.__eq__
    __hash__ = _Changing.__hash__
    __repr__ = __str__ = ChangingInt.__repr__

    def __int__(self) -> int:
        self._change()
        return 1

    __trunc__ = __int__


class ChangingText(_Changing, str):
    __slots__ = ()
    __eq__ = ChangingInt.__eq__
    __hash__ = _Changing.__hash__
    __repr__ = __str__ = ChangingInt.__repr__

    def __lt__(self, other: object) -> bool:
        self._change()
        return False

    def __len__(self) -> int:
        self._change()
        return 10**9

    def encode(self, *_: Any) -> bytes:
        self._change()
        return b"x"


class Changing(_Changing):
    """No number and no text, but it says it could be one."""

    __int__ = __index__ = ChangingInt.__int__
    __float__ = ChangingInt.__float__
    __eq__ = ChangingInt.__eq__
    __hash__ = _Changing.__hash__
    __repr__ = __str__ = ChangingInt.__repr__

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._change()
        return np.array([1, 2])

    def __len__(self) -> int:
        self._change()
        return 10**9

    def __iter__(self) -> Iterator[Any]:
        self._change()
        return iter([1])


class GrowingDict(dict[Any, Any]):
    """It grows while its items are read."""

    def items(self) -> Any:
        for n, item in enumerate(list(super().items())):
            self[100 + n] = 1.0
            yield item


class Growing(Mapping[Any, Any]):
    """Its items are those of a dict that grows meanwhile: Python's own RuntimeError."""

    def __init__(self, items: dict[Any, Any]) -> None:
        self._items = items

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        for n, key in enumerate(self._items):
            self._items[100 + n] = 1.0
            yield key


class Endless(Mapping[Any, Any]):
    """A mapping that never ends, but for the patience of the test."""

    def __getitem__(self, key: Any) -> Any:
        return 1.0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        for n in range(ENDLESS):
            yield 1 + n % 3
        raise Failure


class LyingList(list[Any]):
    """It tells another length than it has, and other items than it holds."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, at: Any) -> Any:
        raise Failure


SCALARS: list[Any] = [1, 2, "a", "b", 1.5, np.float32(2.5), True, 2**70, None]
scalars = st.sampled_from(SCALARS) | st.sampled_from(
    [ChangingInt(1), ChangingFloat(1.5), ChangingText("a"), Changing()]
)
dicts = st.dictionaries(scalars, scalars, max_size=3)
maps = (
    dicts
    | dicts.map(GrowingDict)
    | dicts.map(Growing)
    | st.lists(st.tuples(scalars, scalars), max_size=3).map(Pairs)
    | st.builds(Endless)
    | scalars
)


def endless(items: list[Any]) -> Iterator[Any]:
    for n in range(ENDLESS):
        yield copy.copy(items[n % len(items)]) if items else {}
    raise Failure


BATCHES: list[Any] = [list, tuple, iter, endless, LyingList, Endless, Growing]


@given(
    st.lists(maps, max_size=4), st.sampled_from(BATCHES), st.booleans(),
    st.sampled_from(CALLS), st.sampled_from(sorted(WAYS)),
)  # fmt: skip
def test_objects_that_lie_change_or_raise(
    given_maps: list[Any], make: Any, raises: bool, call: Any, name: str
) -> None:
    if make is Endless:
        batch: Any = Endless()
    elif make is Growing:
        batch = Growing(dict(enumerate(given_maps)))
    else:
        batch = make(given_maps)
    one = given_maps[0] if given_maps else {}
    pair = [list(part) for part in zip(*one.items(), strict=True)] if type(one) is dict else []
    _Changing.raises, _Changing.around = raises, given_maps
    try:
        with way(name):
            for arguments in ((batch,), (one,), tuple(pair), (batch, given_maps)):
                try:
                    call(*arguments)
                except (*DOCUMENTED, Failure):
                    continue
                except RuntimeError as error:
                    # Raised by Python, or for a map that is another one when it is read again.
                    assert "changed" in str(error)  # noqa: PT017
    finally:
        _Changing.raises, _Changing.around = False, None


@pytest.mark.parametrize("name", WAYS)
def test_text_of_a_subclass_is_read_by_its_letters(name: str) -> None:
    """No method of it is asked, whatever it would answer."""
    _Changing.raises = True
    try:
        text = ChangingText("b")
        with way(name):
            rows = [OPS[1]([{text: 1.5}])[0], OPS[1]({text: 1.5}), OPS[1]([text], [1.5])]
    finally:
        _Changing.raises = False
    assert [row.tolist() for row in rows] == [[0.0, 1.5, 0.0]] * 3
