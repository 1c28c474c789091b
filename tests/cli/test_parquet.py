"""Maps of a Parquet column."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbmapops._cli import parquet
from nbmapops._cli.command import main
from tests.cli.running import DENSE, MAPS, fails, load, write


def write_parquet(column: list[Any], key: str = "string", value: str = "int64") -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    types = {"string": pa.string(), "int64": pa.int64(), "float": pa.float32()}
    maps = pa.array(column, pa.map_(types[key], types[value]))
    pq.write_table(pa.table({"n": range(len(column)), "m": maps}), "t.parquet", row_group_size=2)


def test_maps_of_parquet_become_a_matrix(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parquet, "_CHUNK_ROWS", 1)
    write_parquet([list(mapping.items()) for mapping in MAPS])
    assert main(["t.parquet", "--column", "m", "--dense"]) == 0
    assert capsys.readouterr().out.startswith("t.parquet: 3 maps, 4 entries, 3 words, 0 ")
    assert np.load("t.npy").tolist() == DENSE


def test_parquet_dictionary_keys_of_several_row_groups(folder: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    keys = pa.array(["b", "a", "b", "c"]).dictionary_encode()
    maps = pa.MapArray.from_arrays(pa.array([0, 2, 3, 4], pa.int32()), keys, pa.array([1, 2, 3, 4]))
    pq.write_table(pa.table({"m": maps}), "t.parquet", row_group_size=1)
    assert main(["t.parquet", "--column", "m"]) == 0
    assert load("t.npz").toarray().tolist() == [[2, 1, 0], [0, 3, 0], [0, 0, 4]]


def test_parquet_integer_keys_and_float32(folder: Path) -> None:
    write_parquet([[(10, 0.5)], [(7, 1.5)]], "int64", "float")
    assert main(["t.parquet", "--column", "m"]) == 0
    matrix = load("t.npz")
    assert (matrix.toarray().tolist(), matrix.dtype) == ([[0, 0.5], [1.5, 0]], np.float32)


@pytest.mark.parametrize(
    ("column", "place"),
    [
        ([[("a", 1)], None], "t.parquet: row 2: the map is null"),
        ([[("a", 1)], [], [("a", 1), ("a", 2)]], "t.parquet: row 3: key 'a' is repeated"),
    ],
)
def test_bad_parquet_rows_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], column: list[Any], place: str
) -> None:
    write_parquet(column)
    assert fails(capsys, "t.parquet", "--column", "m").startswith(place)


def test_bad_parquet_files_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet([[("1", "x")]], "string", "string")
    assert fails(capsys, "t.parquet", "--column", "m") == (
        "t.parquet: the values of 'm' are text; pass --one-hot to make a column of each key "
        "and text"
    )
    assert fails(capsys, "t.parquet", "--column", "x") == (
        "t.parquet: there is no column 'x'; it has n, m"
    )
    assert fails(capsys, "t.parquet", "--column", "n").startswith("t.parquet: ")
    write("t.parquet", "no Parquet")
    assert fails(capsys, "t.parquet", "--column", "m").startswith("t.parquet: ")


def test_damaged_parquet_files_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet([[(f"key{n}", n)] for n in range(9)])
    whole = Path("t.parquet").read_bytes()
    rng = np.random.default_rng(0)
    reasons = set()
    for _ in range(200):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[rng.integers(len(whole), size=3)] = rng.integers(256, size=3)
        Path("t.parquet").write_bytes(damaged.tobytes())
        if main(["t.parquet", "--column", "m", "-o", "x.npz"]) == 0:
            continue  # only a value or a key was hit
        reasons.add(capsys.readouterr().err)
    assert len(reasons) > 5
    assert all(reason.startswith("nbmapops: error: ") for reason in reasons)


def test_text_that_is_no_text_in_parquet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    keys = pa.array([b"\xff"]).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"m": pa.MapArray.from_arrays([0, 1], keys, [1])}), "t.parquet")
    assert "UTF8" in fails(capsys, "t.parquet", "--column", "m")


def test_parquet_without_pyarrow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write("t.parquet", "")
    reason = fails(capsys, "t.parquet", "--column", "m")
    assert reason == "reading Parquet needs pyarrow: pip install 'nbmapops[arrow]'"
