"""A file of maps into a file with a matrix."""

from __future__ import annotations

import json
import os
import signal
import threading
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbmapops._cli import jsonlines, spool
from nbmapops._cli.command import main
from tests.cli.running import DENSE, MAPS, fails, load, names, pipe, write


def test_maps_become_a_csr_matrix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write("maps.jsonl", *MAPS)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "maps.jsonl: 3 maps, 4 entries, 3 words, 0 entries with unknown keys",
        "maps.npz: CSR matrix 3 x 3, int64",
        "maps.vocabulary.json: the words in column order",
    ]
    matrix = load("maps.npz")
    assert matrix.toarray().tolist() == DENSE
    assert (type(matrix).__name__, matrix.dtype, matrix.nnz) == ("csr_array", np.int64, 4)
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    assert matrix.has_canonical_format
    assert json.loads(Path("maps.vocabulary.json").read_text()) == ["a", "b", "c"]
    assert names() == ["maps.jsonl", "maps.npz", "maps.vocabulary.json"]


def test_same_maps_give_the_same_bytes_at_any_time(folder: Path) -> None:
    write("maps.jsonl", *MAPS)
    main(["maps.jsonl", "-o", "one.npz"])
    main(["maps.jsonl", "-o", "two.npz"])
    assert Path("one.npz").read_bytes() == Path("two.npz").read_bytes()
    with zipfile.ZipFile("one.npz") as archive:
        assert {member.date_time[0] for member in archive.infolist()} == {1980}


def test_maps_become_a_dense_matrix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write("maps.jsonl", *MAPS), "--dense"]) == 0
    assert "maps.npy: dense matrix 3 x 3, int64" in capsys.readouterr().out
    matrix = np.load("maps.npy")
    assert (matrix.tolist(), matrix.dtype) == (DENSE, np.int64)


def test_vocabulary_of_one_file_for_another(folder: Path) -> None:
    main([write("train.jsonl", *MAPS)])
    write("new.jsonl", {"c": 5, "b": 6})
    assert main(["new.jsonl", "--vocabulary", "train.vocabulary.json", "--dense"]) == 0
    assert np.load("new.npy").tolist() == [[0, 6, 5]]
    assert not Path("new.vocabulary.json").exists()


def test_integer_keys_are_words(folder: Path) -> None:
    write("maps.jsonl", {"17": 1, "-3": 2}, {"9223372036854775807": 3}, {"0": 4})
    assert main(["maps.jsonl", "--key-type", "int64", "--dense"]) == 0
    assert json.loads(Path("maps.vocabulary.json").read_text()) == [-3, 0, 17, 2**63 - 1]
    assert np.load("maps.npy").tolist() == [[2, 0, 1, 0], [0, 0, 0, 3], [0, 4, 0, 0]]
    write("few.jsonl", {"17": 1})
    assert main(["few.jsonl", "--key-type", "int64", "--vocabulary", "maps.vocabulary.json"]) == 0
    assert load("few.npz").toarray().tolist() == [[0, 0, 1, 0]]


def test_standard_input_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("words.json").write_text('["a", "b"]')
    pipe(monkeypatch, b'{"b": 1.5}\n{"a": 2}')
    assert main(["-", "--vocabulary", "words.json", "-o", "out.npz"]) == 0
    assert load("out.npz").toarray().tolist() == [[0, 1.5], [2, 0]]


def test_unknown_keys_are_refused_or_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("words.json").write_text('["a", "b"]')
    write("maps.jsonl", {"a": 1}, {"b": 2, "x": 3}, {"y": 4, "z": 5})
    arguments = ["maps.jsonl", "--vocabulary", "words.json"]
    assert fails(capsys, *arguments) == (
        "maps.jsonl:2: key 'x' is not in string_vocabulary (2 words); "
        "pass --handle-unknown ignore to skip unknown keys"
    )
    assert main([*arguments, "--handle-unknown", "ignore"]) == 0
    assert "3 maps, 5 entries, 2 words, 3 entries with unknown keys" in capsys.readouterr().out
    assert load("maps.npz").toarray().tolist() == [[1, 0], [0, 2], [0, 0]]


@pytest.mark.parametrize("key", ['handle_unknown="ignore"', "map 7: x", "map 0", "\nmap 5: "])
def test_keys_are_shown_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    Path("words.json").write_text('["a"]')
    write("maps.jsonl", {"a": 1}, {"a": 1}, {key: 2})
    assert fails(capsys, "maps.jsonl", "--vocabulary", "words.json") == (
        f"maps.jsonl:3: key {key!r} is not in string_vocabulary (1 words); "
        "pass --handle-unknown ignore to skip unknown keys"
    )


@pytest.mark.parametrize("chunk", [1, 1 << 15])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["{}", '{"a": true}'], [[0], [1]]),
        (['{"a": 1}', '{"a": 2.5}'], [[1.0], [2.5]]),
        (['{"a": 2.5}', '{"a": 1}'], [[2.5], [1.0]]),
        (["{}", '{"a": 1}', "{}"], [[0], [1], [0]]),
        (['{"a": 9007199254740993}'], [[2**53 + 1]]),
        (['{"a": 9007199254740994}', '{"a": -0.0}'], [[2.0**53 + 2], [-0.0]]),
        (['{"a": 1e400}'.replace("1e400", "Infinity"), '{"a": 1}'], [[np.inf], [1.0]]),
        (["\ufeff" + '{"a": 1}'], [[1]]),
        (['{"a": 1}\r'], [[1]]),
        (["{}"], [[]]),
    ],
)
def test_values_give_the_narrowest_type_that_holds_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], expected: Any, chunk: int
) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", chunk)
    write("maps.jsonl", *lines)
    assert main(["maps.jsonl"]) == main(["maps.jsonl", "--dense"]) == 0
    for matrix in (load("maps.npz").toarray(), np.load("maps.npy")):
        assert matrix.tolist() == expected
        kind = (
            "f"
            if not expected[0] or any(type(v) is float for row in expected for v in row)
            else "i"
        )
        assert (matrix.dtype.kind, matrix.dtype.itemsize) == (kind, 8)


def test_nan_and_infinity_are_numbers(folder: Path) -> None:
    main([write("maps.jsonl", '{"a": NaN, "b": -Infinity}'), "--dense"])
    assert str(np.load("maps.npy").tolist()) == "[[nan, -inf]]"


def test_an_empty_file_gives_an_empty_matrix(folder: Path) -> None:
    assert main([write("maps.jsonl")]) == 0
    assert load("maps.npz").shape == (0, 0)


BAD_LINES = [
    ("", "the line is empty; a map without entries is written {}"),
    ("[1]", "[1] is not a map; each line must be a JSON object"),
    ('{"a": 1', "this is not JSON: Expecting ',' delimiter at column 8"),
    ('{"a": 1} {}', "this is not JSON: Extra data at column 10"),
    ('{"a": 1, "a": 2}', "key 'a' occurs twice in one map"),
    ('{"a": null}', "key 'a': null is not a number; pass --null skip to leave it out"),
    (
        '{"a": {"b": 1}}',
        "key 'a': {\"b\": 1} is not a number; pass --column a to convert the map in it",
    ),
    (
        '{"a": "' + 50 * "x" + '"}',
        "key 'a': \""
        + 35 * "x"
        + " ... is not a number; pass --one-hot to make a column of each key and text",
    ),
    ('{"a": 1e400}', "1e400 is out of the range of float64"),
    ('{"a": 1e-400}', "1e-400 is out of the range of float64"),
    ('{"a": 9223372036854775808}', "key 'a': value 9223372036854775808 does not fit in int64"),
    ("[" * 100_000, "the line is nested too deeply"),
]


@pytest.mark.parametrize("chunk", [1, 1 << 15])
@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_bad_lines_are_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    reason: str,
    chunk: int,
) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", chunk)
    write("maps.jsonl", *MAPS, line, *MAPS)
    assert fails(capsys, "maps.jsonl") == f"maps.jsonl:4: {reason}"


@pytest.mark.parametrize("key", ["a", "017", "+1", "-0", "1.0", " 1", "1_0", "\u0661", "", "1e3"])
def test_bad_integer_keys_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    write("maps.jsonl", {"1": 1}, {key: 1})
    reason = f"key {key!r} is not a decimal integer such as 17 or -3"
    assert fails(capsys, "maps.jsonl", "--key-type", "int64") == f"maps.jsonl:2: {reason}"


def test_a_long_key_is_cut_where_it_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("maps.jsonl", {"1" * 5000: 1})
    assert len(fails(capsys, "maps.jsonl", "--key-type", "int64")) < 150


def test_integer_key_out_of_range(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("maps.jsonl", {"1": 1}, {"9223372036854775808": 1})
    reason = fails(capsys, "maps.jsonl", "--key-type", "int64")
    assert reason.startswith("maps.jsonl:2: key 9223372036854775808 does not fit in int64")


def test_line_that_is_no_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("maps.jsonl").write_bytes(b'{"a": 1}\n{"\xff": 1}\n')
    assert fails(capsys, "maps.jsonl") == "maps.jsonl:2: byte 3 of the line is not UTF-8"


@pytest.mark.parametrize("chunk", [1, 1 << 15])
@pytest.mark.parametrize("lines", [[2**53 + 1, 0.5], [0.5, 2**53 + 1]])
def test_integer_that_a_float_elsewhere_would_round(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[float],
    chunk: int,
) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", chunk)
    write("maps.jsonl", {"a": 1}, *({"a": value} for value in lines))
    place = "maps.jsonl:2" if isinstance(lines[0], int) else "maps.jsonl:3"
    assert fails(capsys, "maps.jsonl") == (
        f"{place}: key 'a': value 9007199254740993 has no exact float64, and other values of the "
        "batch are floats; make all values ints or all floats"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "words.json: {} is not a JSON array of words"),
        ("a\nb", "words.json: this is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_bad_vocabulary_file_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    Path("words.json").write_text(text)
    write("maps.jsonl", *MAPS)
    assert fails(capsys, "maps.jsonl", "--vocabulary", "words.json") == reason


@pytest.mark.parametrize(
    "text", ['["a", "a"]', '["a", 1]', "[1.5]", "[null]", "[9223372036854775808]"]
)
def test_bad_words_are_refused(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("words.json").write_text(text)
    write("maps.jsonl", *MAPS)
    assert fails(capsys, "maps.jsonl", "--vocabulary", "words.json").startswith("words.json: ")


@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_vocabulary_of_the_other_key_type(
    folder: Path, capsys: pytest.CaptureFixture[str], unknown: str
) -> None:
    Path("words.json").write_text("[1, 2]")
    write("maps.jsonl", {}, {"1": 1})
    arguments = ["maps.jsonl", "--vocabulary", "words.json", "--handle-unknown", unknown]
    assert fails(capsys, *arguments).startswith("maps.jsonl:2: key '1'")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.jsonl"], "none.jsonl: No such file or directory"),
        (["-", "--vocabulary", "words.json"], "standard input needs -o OUT"),
        (["maps.jsonl", "-o", "x.npy"], "x.npy must end in .npz (--dense writes .npy)"),
        (["maps.jsonl", "-o", "x.npz", "--dense"], "x.npz must end in .npy (--dense writes .npy)"),
        (["maps.jsonl", "-o", "none/x.npz"], "none is not a folder"),
        (["x.parquet"], "x.parquet needs --column NAME"),
        (["maps.jsonl", "--vocabulary", "none.json"], "none.json: No such file or directory"),
        (["x.npz", "--column", "m"], "x.npz would be overwritten"),
    ],
)
def test_bad_options_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    write("maps.jsonl", *MAPS)
    write("words.json", "[]")
    write("x.npz", "")
    write("x.parquet", "")
    assert fails(capsys, *arguments) == reason


def test_options_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--dense"])
    assert stop.value.code == 2
    assert "FILE" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes in folders")
def test_a_named_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: write("pipe", *MAPS))
    writer.start()
    assert main(["pipe"]) == 0
    writer.join()
    assert load("pipe.npz").toarray().tolist() == DENSE


def test_an_error_keeps_the_file_that_was_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("maps.jsonl", *MAPS, "x")
    write("maps.npz", "precious")
    fails(capsys, "maps.jsonl")
    assert Path("maps.npz").read_text() == "precious\n"


def test_an_interrupt_leaves_no_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spool.Spool, "write_npz", interrupted)
    write("maps.jsonl", *MAPS)
    assert fails(capsys, "maps.jsonl", status=130) == "interrupted; nothing was written"


@pytest.mark.parametrize("file", ["words", "matrix"])
def test_an_interrupt_at_the_very_end_comes_too_late(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """There are both files, or none."""
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        moved = replace(path, target)
        if path.name == file:
            signal.raise_signal(signal.SIGINT)
        return moved

    monkeypatch.setattr(Path, "replace", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    write("maps.jsonl", *MAPS)
    assert main(["maps.jsonl"]) == 0
    assert names() == ["maps.jsonl", "maps.npz", "maps.vocabulary.json"]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(
    "arguments",
    [
        ["x.vocabulary.json", "-o", "x.npz"],
        ["x.vocabulary.json", "-o", "x.npy", "--dense"],
        ["other.jsonl", "--vocabulary", "words.npz", "-o", "words.npz"],
    ],
)
def test_no_input_is_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    for path in ("x.vocabulary.json", "other.jsonl"):
        write(path, *MAPS)
    write("words.npz", ["a", "b", "c"])
    texts = [path.read_text() for path in sorted(folder.iterdir())]
    name = "words.npz" if "--vocabulary" in arguments else "x.vocabulary.json"
    assert fails(capsys, *arguments) == f"{name} would be overwritten"
    assert [path.read_text() for path in sorted(folder.iterdir())] == texts


def test_a_folder_in_the_way(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("maps.jsonl", *MAPS)
    (folder / "maps.vocabulary.json").mkdir()
    assert fails(capsys, "maps.jsonl") == "maps.vocabulary.json is a folder"
    (folder / "maps.npy").mkdir()
    assert fails(capsys, "maps.jsonl", "--dense") == "maps.npy is a folder"
    assert fails(capsys, ".") == ". is a folder, not a file of maps"
    assert fails(capsys, "") == ". is a folder, not a file of maps"


def test_many_chunks_give_what_one_gives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    maps = [
        {f"w{word}": int(rng.integers(9)) for word in rng.integers(50, size=rng.integers(8))}
        for _ in range(500)
    ]
    write("maps.jsonl", *maps)
    main(["maps.jsonl", "-o", "one.npz"])
    main(["maps.jsonl", "--dense", "-o", "one.npy"])
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(spool, "_BLOCK", 100)
    main(["maps.jsonl", "-o", "many.npz"])
    main(["maps.jsonl", "--dense", "-o", "many.npy"])
    assert Path("one.npz").read_bytes() == Path("many.npz").read_bytes()
    assert Path("one.npy").read_bytes() == Path("many.npy").read_bytes()
    words = json.loads(Path("one.vocabulary.json").read_text())
    assert load("one.npz").toarray().tolist() == [[m.get(w, 0) for w in words] for m in maps]


def test_a_dense_matrix_is_never_whole_in_memory(folder: Path) -> None:
    write("maps.jsonl", {f"w{n}": 1 for n in range(1_000)}, *(5_000 * ["{}"]))
    main(["maps.jsonl"])  # so that no compilation is measured
    tracemalloc.start()
    main(["maps.jsonl", "--dense"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert Path("maps.npy").stat().st_size > 40e6
    assert peak < 25e6


def test_a_sparse_matrix_is_never_whole_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", 1 << 12)
    lines = [{f"w{(7 * n + 3 * k) % 90}": n for k in range(20)} for n in range(15_000)]
    write("maps.jsonl", *lines)
    tracemalloc.start()
    main(["maps.jsonl"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert Path("maps.npz").stat().st_size > 3.6e6
    assert peak < 3.3e6


def test_large_matrices_have_int64_indices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_INT32_MAX", 3)
    main([write("maps.jsonl", *MAPS)])
    with np.load("maps.npz") as arrays:
        assert arrays["indices"].dtype == arrays["indptr"].dtype == np.int64
        assert arrays["indptr"].tolist() == [0, 2, 2, 4]
