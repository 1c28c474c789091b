"""Settings of the whole test run: Hypothesis profiles, and what the run without a compiler needs."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

WITHOUT_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# Kernels run as plain Python are some hundred times slower, so that run draws fewer examples.
_FEWER = 3 if WITHOUT_JIT else 1
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=40 // _FEWER, **_COMMON)
settings.register_profile("ci", max_examples=60 // _FEWER, derandomize=True, **_COMMON)
settings.register_profile("thorough", max_examples=20_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Let hash arithmetic wrap around silently where it runs as plain Python.

    Compiled uint64 arithmetic is modulo 2**64 without a word; NumPy scalars warn. A warning filter, not
    ``np.errstate``, because worker threads start with an errstate of their own.
    """
    if WITHOUT_JIT:
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered in scalar:RuntimeWarning")
