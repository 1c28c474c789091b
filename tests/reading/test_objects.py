"""Objects are read by their layout only where the layout is as it is expected to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..conftest import WITHOUT_JIT
from ..fresh import run

if WITHOUT_JIT:
    pytest.skip(
        "Python objects can be read through the C API by compiled code only",
        allow_module_level=True,
    )

from nbmapops._reading import objects
from nbmapops._reading.objects import available

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("walking")


@pytest.mark.parametrize(
    ("name", "surprise"),
    [
        ("platform.python_implementation", lambda: "PyPy"),
        ("sysconfig.get_config_var", lambda _: 1),
        ("config.DISABLE_JIT", 1),
        ("TYPE_AT", 0),
        ("FLOAT_AT", 0),
        ("_SIZE_AT", 0),
        ("TABLE_AT", dict.__basicsize__),
        ("_KIND_AT", 11),
        ("_INDEX_BYTES_AT", 8),
        ("_USED_AT", 16),
        ("_INDEX_AT", 40),
        ("_C_NAMES", (*objects._C_NAMES, "PyDict_NoSuchFunction")),
        ("peek", lambda *_: None),
    ],
)
def test_a_surprise_means_not_available(
    name: str, surprise: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    untested: Callable[[], bool] = available.__wrapped__
    with caplog.at_level("INFO", "nbmapops"):
        assert untested()
        assert not caplog.records
        monkeypatch.setattr(f"nbmapops._reading.objects.{name}", surprise)
        assert not untested()
    assert "dicts are read by plain Python" in caplog.text


def test_addresses_beyond_int64_mean_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    untested: Callable[[], bool] = available.__wrapped__
    monkeypatch.setattr(objects, "id", lambda item: id(item) + 2**63, raising=False)
    assert not untested()


def test_the_module_can_be_imported_where_addresses_are_beyond_int64() -> None:
    code = """
    import builtins
    import nbmapops.kernels
    plain = builtins.id
    builtins.id = lambda item: plain(item) + 2**63
    try:
        from nbmapops._reading import dictwalk
        assert not dictwalk.available()
    finally:
        builtins.id = plain
    """
    run(code)
