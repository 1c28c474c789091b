"""Arrow map columns."""

from __future__ import annotations

from typing import ClassVar

from . import works


class Csr:
    """S8, S9: an Arrow map column to a canonical CSR matrix."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "pyarrow"], ["int64", "dictionary"]]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        self.run = works.prepared(works.csr_from_arrow(keys, 10_000, self.maps), impl)

    def time_csr(self, impl: str, keys: str) -> None:
        self.run()
