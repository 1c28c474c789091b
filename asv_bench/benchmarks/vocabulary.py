"""Vocabularies: the index of given words, words learned from maps."""

from __future__ import annotations

from typing import ClassVar

from . import works


class Index:
    """S17: the index of int64 words in random order."""

    params: ClassVar = [[works.OURS, "pandas"], [1_000_000]]
    param_names: ClassVar = ["impl", "words"]

    def setup(self, impl: str, words: int) -> None:
        self.run = works.prepared(works.build_index(words), impl)

    def time_build(self, impl: str, words: int) -> None:
        self.run()


class Columns:
    """S32: the column of each key."""

    entries = 4_000_000
    params: ClassVar = [[works.OURS, "pandas"], ["int", "str"]]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        self.run = works.prepared(works.columns(keys, 100_000, self.entries), impl)

    def time_columns(self, impl: str, keys: str) -> None:
        self.run()


class IndexMemory:
    """M3: peak memory of building the index."""

    words = 1_000_000
    params: ClassVar = [[works.OURS, "pandas"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.build_index(self.words), impl)

    def peakmem_build(self, impl: str) -> None:
        self.run()


class LearnArrays:
    """S18: a sorted vocabulary from arrays; scikit-learn has it in `LearnDicts`."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "numpy"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.learn_arrays(10_000, self.maps), impl)

    def time_from_maps(self, impl: str) -> None:
        self.run()


class LearnDicts:
    """A sorted vocabulary from dicts with text keys."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "scikit-learn"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.learn_dicts(10_000, self.maps), impl)

    def time_from_maps(self, impl: str) -> None:
        self.run()
