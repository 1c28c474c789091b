"""S19, S20: what a fresh process pays, with the code compiled before on disk."""

from __future__ import annotations

from typing import ClassVar

BATCH = """
import numpy as np, scipy.sparse, nbmapops
keys = np.arange(2000) * 7919 % 1000003
values, offsets = np.ones(2000), np.arange(101) * 20
op = nbmapops.DictVectorizer(int64_vocabulary=keys)
maps = nbmapops.MapBatch.from_arrays(keys, values, offsets).to_dicts()
"""

SNIPPETS = {
    "import numpy": ("import numpy", ""),
    "first small map": (
        "import nbmapops; nbmapops.DictVectorizer(int64_vocabulary=[7, 3])({3: 0.5})",
        "",
    ),
    "import numba": ("import numba", "import numpy"),
    "first batch of arrays": ("op.csr(keys, values, offsets)", BATCH),
    "first batch of dicts": ("op.csr(maps)", BATCH),
}
"""What is timed, as (code, setup): two texts, because each runs in a process of its own."""


class FreshProcess:
    """One snippet in a fresh process."""

    params: ClassVar = [list(SNIPPETS)]
    param_names: ClassVar = ["snippet"]
    number = 1

    def timeraw_run(self, snippet: str) -> tuple[str, str]:
        return SNIPPETS[snippet]
