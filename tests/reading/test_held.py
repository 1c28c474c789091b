"""Each map is read before the next one is asked for, whatever its owner does with it then."""

from __future__ import annotations

from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._reading.mappings import held

from ..ways import WAYS, way

if TYPE_CHECKING:
    from collections.abc import Callable

OP = DictVectorizer(int64_vocabulary=[0, 1, 2])
RIGHT = [[1.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]]


def refilled(made: Callable[[], Any]) -> Iterator[Any]:
    """One mapping, cleared and filled for each row, as readers of databases do."""
    mapping = made()
    for row in range(3):
        mapping.clear()
        mapping[row] = row + 1.0
        yield mapping


def alternating(made: Callable[[], Any]) -> Iterator[Any]:
    both = made(), made()
    for row in range(3):
        mapping = both[row % 2]
        mapping.clear()
        mapping[row] = row + 1.0
        yield mapping


def changed_later(made: Callable[[], Any]) -> Iterator[Any]:
    given: list[Any] = []
    for row in range(3):
        for mapping in given:
            mapping[row] = -1.0
        mapping = made()
        mapping[row] = row + 1.0
        given.append(mapping)
        yield mapping


def proxies(made: Callable[[], Any]) -> Iterator[Any]:
    return map(MappingProxyType, refilled(dict))


def pairs(made: Callable[[], Any]) -> Iterator[Any]:
    listed: list[tuple[int, float]] = []
    for row in range(3):
        listed[:] = [(row, row + 1.0)]
        yield listed


KINDS = [dict, OrderedDict, UserDict, Counter, lambda: defaultdict(float)]
SOURCES = [refilled, alternating, changed_later, proxies, pairs]


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_mapping_that_is_filled_anew_gives_what_it_showed(
    source: Callable[..., Iterator[Any]], made: Callable[[], Any], name: str
) -> None:
    with way(name):
        assert OP(source(made)).tolist() == RIGHT
        assert OP.csr(source(made)).toarray().tolist() == RIGHT
        assert MapBatch.from_dicts(source(made)).to_dicts() == [{0: 1.0}, {1: 2.0}, {2: 3.0}]
        learned = DictVectorizer.from_maps(source(made), order="first_seen")
        assert learned.vocabulary.tolist() == [0, 1, 2]
        assert DictVectorizer(int64_vocabulary=[0]).unknown(source(made))[1].tolist() == [1, 2]
        assert CastMap()(source(made)).tolist() == [[1], [2], [3]]


def test_a_dict_is_copied_only_where_somebody_else_holds_it() -> None:
    kept = {7: 1.0}
    addresses: list[int] = []

    class Noting(Iterator[dict[int, float]]):
        def __next__(self) -> dict[int, float]:
            if len(addresses) == 2:
                raise StopIteration
            mapping = {1: 2.0}
            addresses.append(id(mapping))
            return mapping

    assert [id(each) for each in held(Noting())] == addresses
    (copied,) = held(iter([kept]))
    assert copied == kept
    assert copied is not kept


@pytest.mark.parametrize("name", WAYS)
def test_an_ordered_dict_is_read_in_its_own_order(name: str) -> None:
    moved = OrderedDict([(2, 1.0), (0, 2.0), (1, 3.0)])
    moved.move_to_end(2)
    for mapping in (moved, MappingProxyType(moved)):
        with way(name):
            learned = DictVectorizer.from_maps([mapping] * 40, order="first_seen")
        assert learned.vocabulary.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", WAYS)
def test_a_mapping_of_ones_own_is_asked_for_its_items(name: str) -> None:
    class Doubled(dict[int, float]):
        def items(self) -> Any:
            return [(key, 2 * value) for key, value in super().items()]

    behind = MappingProxyType(Doubled({2: 3.0}))
    others = [MappingProxyType(behind), MappingProxyType(ChainMap({2: 6.0}))]
    maps = [Doubled({0: 1.0, 1: 2.0}), behind, *others] * 10
    with way(name):
        assert OP(maps).tolist() == [[2.0, 4.0, 0], *[[0, 0, 6.0]] * 3] * 10
        assert OP.csr(maps).toarray().tolist() == [[2.0, 4.0, 0], *[[0, 0, 6.0]] * 3] * 10


def reordered(*pairs: tuple[Any, Any]) -> OrderedDict[Any, Any]:
    """Give an OrderedDict whose first pair comes last in its own order, not in its table."""
    mapping = OrderedDict(pairs)
    mapping.move_to_end(pairs[0][0])
    return mapping


@pytest.mark.parametrize("container", [list, iter])
@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([{0: 1.0}, reordered((9, 1.0), (8, 2.0), (7, 3.0))], "map 1: key 8"),
        ([reordered((0, 2**60 + 1), (1, 2**61 + 1)), {0: 1.5}], "map 0, key 1|map 0: .*key 1"),
        ([{0: 1.0}, reordered((0, "a"), (1, None))], "map 1"),
    ],
)
def test_an_error_names_the_first_bad_key_in_the_order_of_the_map(
    maps: list[Any], message: str, container: Callable[[Any], Any]
) -> None:
    told = set()
    for name in WAYS:
        with (
            way(name),
            pytest.raises((LookupError, OverflowError, TypeError), match=message) as error,
        ):
            OP.csr(container(maps))
        told.add((error.type, str(error.value)))
    assert len(told) == 1


@pytest.mark.parametrize("name", WAYS)
def test_a_reordered_map_gives_the_row_of_its_entries(name: str) -> None:
    maps = [reordered((2, 1.0), (0, 2.0)), reordered((1, 3.0), (2, 4.0)), {0: 5.0}] * 20
    texts = [{str(key): value for key, value in each.items()} for each in maps]
    for text in texts[::2]:
        text["9"] = text.pop("0", 0.0)
    with way(name):
        assert OP.csr(maps).toarray().tolist() == [[2.0, 0, 1.0], [0, 3.0, 4.0], [5.0, 0, 0]] * 20
        assert OP.csr(iter(maps)).toarray().tolist() == OP.csr(maps).toarray().tolist()
        hashed = DictVectorizer(string_vocabulary=["1"], unknown_columns=1)
        ordered = [OrderedDict(text) for text in texts]
        assert (hashed.csr(ordered) != hashed.csr(texts)).nnz == 0


def test_sums_of_unknown_keys_follow_the_order_of_the_map() -> None:
    op = DictVectorizer(int64_vocabulary=[0], unknown_columns=1, dtype="double")
    maps = [reordered((5, 1.0), (6, 1e100), (7, -1e100))] * 40
    for name in WAYS:
        with way(name):
            assert set(op.csr(maps).data.tolist()) == {1.0}
