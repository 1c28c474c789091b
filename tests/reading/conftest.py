"""What tests of reading share."""

from __future__ import annotations

import pytest


@pytest.fixture
def walking() -> None:
    """Skip a test of the compiled walk over dicts where plain Python reads them."""
    from nbmapops._reading.dictwalk import available

    if not available():
        pytest.skip("dicts are read by plain Python here: without Numba's compiler, or a GIL")
