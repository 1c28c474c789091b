"""What the disk cache holds, and whether Numba would use it in this process."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import Mock

import pytest

from nbmapops import _cache

from .conftest import WITHOUT_JIT
from .fresh import run

PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}"


def is_cached(name: str = "vectorize_dense") -> bool:
    _cache.is_cached.cache_clear()
    try:
        return _cache.is_cached(name)
    finally:
        _cache.is_cached.cache_clear()


@pytest.fixture
def file_of_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file as Numba writes it, in the folder that the environment names."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CPU_NAME", "ours")
    stamp = _cache.source_stamp()
    assert stamp is not None
    file = tmp_path / "folder" / f"rows.vectorize_dense-2.{PYTHON}.nbi"
    file.parent.mkdir()
    file.write_bytes(version("numba").encode() + b" between " + stamp + b" ours")
    return file


def test_a_cache_holds_what_was_compiled_from_these_files(
    file_of_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However old its files are: an image is copied, a folder shared, a package installed again."""
    (file_of_cache.parent / f"rows.vectorize_dense-1.{PYTHON}.nbi").mkdir()  # cannot be read
    os.utime(file_of_cache, (0, 0))
    assert is_cached()
    assert not is_cached("lookup")
    held = file_of_cache.read_bytes()
    file_of_cache.write_bytes(held.replace(_cache.source_stamp() or b"", b"stamp"))
    assert not is_cached()
    with monkeypatch.context() as zipped:
        zipped.setattr(_cache, "source_stamp", lambda: None)  # as in a zip archive
        assert is_cached()
    file_of_cache.with_name("rows.vectorize_dense-2.py39.nbi").write_bytes(held)
    assert not is_cached()


@pytest.mark.parametrize("other", ["Numba", "processor", "folder", "no Numba"])
def test_a_cache_that_numba_would_not_use_holds_nothing(
    file_of_cache: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    if other == "Numba":
        held = file_of_cache.read_bytes()
        file_of_cache.write_bytes(held.replace(version("numba").encode(), b"0.1.2"))
    elif other == "processor":
        monkeypatch.setenv("NUMBA_CPU_NAME", "another")
    elif other == "folder":  # Numba loads from those only that it can write to
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        missing = PackageNotFoundError("numba")
        monkeypatch.setattr(importlib.metadata, "version", Mock(side_effect=missing))
    assert not is_cached()


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
def test_what_numba_keeps_is_found(tmp_path: Path) -> None:
    code = """
        from nbmapops import _cache
        found = _cache.is_cached("distinct")
        _cache.is_cached.cache_clear()
        from nbmapops.kernels import distinct
        import numpy as np
        distinct(np.zeros(3, np.int64), 1)
        print(found, _cache.is_cached("distinct"))
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["False", "True"]


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_the_cache_of_a_user_is_where_numba_has_it(
    monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    appdirs = pytest.importorskip("numba.misc.appdirs")
    if folder is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
    expected = appdirs.AppDirs(appname="numba", appauthor=False).user_cache_dir
    assert Path(_cache._user_cache()) == Path(expected)


def test_the_search_of_the_cache_catches_no_exception_of_a_signal_handler(
    file_of_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is an OSError, as reading files raises, and that would be remembered."""
    read = type(file_of_cache).read_bytes

    def raises(*_: object) -> None:
        raise TimeoutError

    def interrupted(path: Path) -> bytes:
        signal.raise_signal(signal.SIGINT)
        return read(path)

    before = signal.signal(signal.SIGINT, raises)
    try:
        monkeypatch.setattr(type(file_of_cache), "read_bytes", interrupted)
        _cache.is_cached.cache_clear()
        with pytest.raises(TimeoutError):
            _cache.is_cached("vectorize_dense")
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file_of_cache.parent))
    monkeypatch.setenv("NUMBA_CPU_NAME", "ours")
    assert _cache.is_cached("vectorize_dense")
    _cache.is_cached.cache_clear()


def test_a_user_without_a_home_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    _cache.is_cached.cache_clear()
    assert _cache.is_cached("no such kernel") is False
