"""Settings of the whole test run: Hypothesis profiles, and the run without a compiler."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

WITHOUT_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# Processes that tests start see the installed package too, whose compiled code is on disk already,
# and not the folder they stand in.
os.environ["PYTHONSAFEPATH"] = "1"

# Kernels run as plain Python are some hundred times slower, so that run draws fewer examples.
_FEWER = 3 if WITHOUT_JIT else 1
settings.register_profile(
    "dev",
    deadline=None,  # a first call compiles
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=40 // _FEWER,
)
settings.register_profile(
    "ci", settings.get_profile("dev"), max_examples=60 // _FEWER, derandomize=True
)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Let hash arithmetic wrap around silently where it runs as plain Python.

    Compiled uint64 arithmetic is modulo 2**64 without a word; NumPy scalars warn. A warning filter,
    not ``np.errstate``, because worker threads start with an errstate of their own.
    """
    if WITHOUT_JIT:
        config.addinivalue_line(
            "filterwarnings", "ignore:overflow encountered in scalar:RuntimeWarning"
        )
