"""JSON Lines: maps inside of objects, ids, nulls, text, compressed files, and reading at once."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import pytest

from nbmapops._cli import jsonlines
from nbmapops._cli.command import main
from tests.cli.running import DENSE, MAPS, fails, load, names, pipe, write

CHUNKS = pytest.mark.parametrize("chunk", [1, 1 << 15])


@pytest.fixture(autouse=True)
def _chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "chunk" in request.fixturenames:
        monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", request.getfixturevalue("chunk"))


def words(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


# -------------------------------------------------------------------------- standard input
def test_standard_input_can_learn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, b'{"b": 1.5}\n{"a": 2, "b": 1}\n')
    assert main(["-", "-o", "out.npz"]) == 0
    assert load("out.npz").toarray().tolist() == [[0, 1.5], [2, 1]]
    assert words("out.vocabulary.json") == ["a", "b"]


def test_a_parquet_file_in_standard_input_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe(monkeypatch, b"PAR1....")
    assert fails(capsys, "-", "-o", "x.npz", "--column", "m") == (
        "standard input is a Parquet file; give the name of the file"
    )


# ---------------------------------------------------------------------------- --column, --id
def test_the_compounds_of_the_package_are_converted(folder: Path) -> None:
    compounds = resources.files("nbmapops").joinpath("data", "compounds.jsonl")
    lines = [json.loads(line) for line in compounds.read_text("utf-8").splitlines()]
    with resources.as_file(compounds) as path:
        assert main([str(path), "--column", "atoms", "--id", "cid", "-o", "x.npz"]) == 0
    elements = words("x.vocabulary.json")
    assert elements == sorted(elements)
    expected = [[line["atoms"].get(element, 0) for element in elements] for line in lines]
    assert load("x.npz").toarray().tolist() == expected
    assert words("x.ids.json") == [line["cid"] for line in lines]


@CHUNKS
def test_dotted_paths_lead_into_objects(folder: Path, chunk: int) -> None:
    line = {"meta": {"id": "é", "x": {"y": [1, {"q": ":"}]}}, "a": {"b": {"k": 1.5, "j": 2}}}
    write("maps.jsonl", line, {"a": {"b": {}}, "meta": {"id": 7}})
    assert main(["maps.jsonl", "--column", "a.b", "--id", "meta.id", "--dense"]) == 0
    assert np.load("maps.npy").tolist() == [[2, 1.5], [0, 0]]
    assert words("maps.ids.json") == ["é", 7]
    assert sorted(names()) == ["maps.ids.json", "maps.jsonl", "maps.npy", "maps.vocabulary.json"]


def test_ids_of_no_maps(folder: Path) -> None:
    assert main([write("maps.jsonl"), "--id", "id"]) == 0
    assert words("maps.ids.json") == []


@CHUNKS
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"id": 1}, "there is nothing at 'a'; --column a.b must lead from object to object"),
        ({"id": 1, "a": {}}, "there is nothing at 'a.b'; --column a.b must lead from"),
        ({"id": 1, "a": 3}, "there is nothing at 'a.b'"),
        ([1], "there is nothing at 'id'"),
        ({"id": 1, "a": {"b": 5}}, "5 at 'a.b' is not a map; it must be a JSON object"),
        (
            {"id": 1, "a": {"b": None}},
            "null at 'a.b' is not a map; it must be a JSON object; pass ",
        ),
        ({"a": {"b": {}}}, "there is nothing at 'id'; --id id must lead from object to object"),
        ({"id": 1.5, "a": {"b": {}}}, "the id at 'id' must be text or an integer, not 1.5"),
        ({"id": None, "a": {"b": {}}}, "the id at 'id' must be text or an integer, not null"),
        ({"id": True, "a": {"b": {}}}, "the id at 'id' must be text or an integer, not true"),
        ('{"id": 1, "a": {"b": {"k": 1}}, "id": 2}', "key 'id' occurs twice"),
        ('{"id": 1, "a": {"b": {"k": 1, "k": 2}}}', "key 'k' occurs twice"),
        ('{"id": 1, "a": {"b": {"k": 1}, "b": {}}}', "key 'b' occurs twice"),
    ],
)
def test_bad_paths_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], chunk: int, line: object, reason: str
) -> None:
    good = {"id": 1, "a": {"b": {"k": 1}}}
    write("maps.jsonl", good, line, good)
    message = fails(capsys, "maps.jsonl", "--column", "a.b", "--id", "id")
    assert message.startswith(f"maps.jsonl:2: {reason}")


# ------------------------------------------------------------------------------------- nulls
@CHUNKS
def test_null_skip_leaves_values_out_and_takes_maps_as_empty(folder: Path, chunk: int) -> None:
    write("maps.jsonl", {"a": 1, "b": None}, None, {"b": None}, {"b": 2})
    assert main(["maps.jsonl", "--null", "skip"]) == 0
    matrix = load("maps.npz")
    assert (matrix.toarray().tolist(), matrix.nnz) == ([[1, 0], [0, 0], [0, 0], [0, 2]], 2)
    write("inner.jsonl", {"m": None}, {"m": {"a": 1}})
    assert main(["inner.jsonl", "--null", "skip", "--column", "m", "--dense"]) == 0
    assert np.load("inner.npy").tolist() == [[0], [1]]


@CHUNKS
def test_null_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str], chunk: int) -> None:
    write("maps.jsonl", {}, None)
    assert fails(capsys, "maps.jsonl") == (
        "maps.jsonl:2: null is not a map; each line must be a JSON object; pass --null skip to "
        "take it as empty"
    )


# ----------------------------------------------------------------------------------- one-hot
@CHUNKS
def test_one_hot_gives_what_the_estimator_gives(folder: Path, chunk: int) -> None:
    maps: list[dict[str, Any]] = [
        {"city": "Bern", "t": 1.5, "=": ""},
        {"city": "Ürümqi", "t": 3},
        {"city=A": 2, "t": True},
    ]
    write("maps.jsonl", *maps)
    assert main(["maps.jsonl", "--one-hot"]) == 0
    sklearn = pytest.importorskip("sklearn.feature_extraction")
    peer = sklearn.DictVectorizer()
    expected = peer.fit_transform(maps)
    assert words("maps.vocabulary.json") == peer.feature_names_
    assert load("maps.npz").toarray().tolist() == expected.toarray().tolist()
    arguments = ["maps.jsonl", "--one-hot", "--vocabulary", "maps.vocabulary.json", "--dense"]
    assert main(arguments) == 0
    assert np.load("maps.npy").tolist() == expected.toarray().tolist()


@CHUNKS
def test_one_hot_with_a_name_twice_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], chunk: int
) -> None:
    write("maps.jsonl", {"a": "b"}, {"a": "b", "a=b": 1})
    assert fails(capsys, "maps.jsonl", "--one-hot") == (
        "maps.jsonl:2: key 'a=b' occurs twice in one map, once as key and text"
    )
    assert fails(capsys, "maps.jsonl", "--one-hot", "--key-type", "int64") == (
        "--one-hot needs text keys, not --key-type int64"
    )


# ---------------------------------------------------------------------- files of other kinds
@pytest.mark.parametrize("text", ['[{"a": 1}]', '\ufeff [\n{"a": 1},\n{"a": 2}\n]'])
def test_a_json_array_has_a_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    write("maps.json", text)
    assert fails(capsys, "maps.json") == (
        "maps.json:1: this is a JSON array, but each line must be a JSON object: "
        "jq -c '.[]' maps.json | nbmapops - -o OUT"
    )


def test_gzip_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(json.dumps(mapping) + "\n" for mapping in MAPS).encode()
    parts = gzip.compress(text[:20]) + gzip.compress(text[20:])
    Path("maps.jsonl.gz").write_bytes(parts)
    assert main(["maps.jsonl.gz"]) == 0
    assert load("maps.npz").toarray().tolist() == DENSE
    pipe(monkeypatch, parts)
    assert main(["-", "-o", "x.npz"]) == 0
    assert load("x.npz").toarray().tolist() == DENSE


@pytest.mark.parametrize("damage", ["cut", "flipped", "more"])
def test_damaged_gzip_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    text = "".join(json.dumps({f"w{n}": n}) + "\n" for n in range(999)).encode()
    data = gzip.compress(text)
    data = {
        "cut": data[:-9],
        "flipped": data[:-6] + bytes([data[-6] ^ 1]) + data[-5:],
        "more": data + b"x",
    }[damage]
    Path("maps.gz").write_bytes(data)
    assert fails(capsys, "maps.gz").startswith("maps.gz: the compressed data is damaged: ")


def test_zstd_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the module, which not every Python has."""
    text = "".join(json.dumps(mapping) + "\n" for mapping in MAPS).encode()

    def opened(raw: IO[bytes]) -> IO[bytes]:
        assert raw.read() == b"\x28\xb5\x2f\xfd..."
        return io.BytesIO(text)

    module = ModuleType("backports.zstd")
    module.ZstdFile = opened  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports", ModuleType("backports"))
    monkeypatch.setitem(sys.modules, "backports.zstd", module)
    Path("maps.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    assert main(["maps.jsonl.zst"]) == 0
    assert load("maps.npz").toarray().tolist() == DENSE


def test_zstd_of_a_real_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zstd = pytest.importorskip("backports.zstd")
    text = "".join(json.dumps(mapping) + "\n" for mapping in MAPS).encode()
    data = zstd.compress(text[:20]) + zstd.compress(text[20:])
    Path("maps.zst").write_bytes(data)
    assert main(["maps.zst"]) == 0
    assert load("maps.npz").toarray().tolist() == DENSE
    capsys.readouterr()
    Path("cut.zst").write_bytes(data[:-3])
    assert fails(capsys, "cut.zst").startswith("cut.zst: the compressed data is damaged: ")


def test_zstd_without_a_module_has_a_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    Path("maps.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    assert "; zstdcat maps.zst | nbmapops - -o OUT" in fails(capsys, "maps.zst")


# ----------------------------------------------------------- a chunk at once, and line by line
BROKEN = [
    ['{"a": 1', '"b": 2}, {}'],
    ['{"a": [1', "2]}", "{}, {}"],
    ['{"a', 'b": 1}'],
    ['{"a":', "1}"],
    ['{"a": 1},', "{}"],
    ["{}, {}"],
    ['{"a": 1}, 5, {"b": 2}'],
]


@pytest.mark.parametrize("lines", BROKEN)
def test_a_text_ends_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], lines: list[str]
) -> None:
    write("maps.jsonl", {}, *lines, {})
    assert fails(capsys, "maps.jsonl").startswith("maps.jsonl:2: this is not JSON: ")


UNUSUAL = [
    '{"a:b": 1, "c\\"d": 2}',
    '{"a:b": 1, "c\\"d": 2, "a:b": 1}',
    '{"a" : 1, "a": 2}',
    '{"\\u0061": 1, "a": 2}',
    '{"a": 0.0, "e-": 0}',
    '{"a": 1e-400}',
    '{"a": 1E-400}',
    '{"a": 0.' + 400 * "0" + "1e10}",
    '{"a": ' + 400 * "9" + ".0}",
    '{"a": -1e400}',
    '{"a": Infinity, "b": 0e-400, "c": 5e-324}',
    '{"a": 9223372036854775808, "b": 0.5}',
    '{"a": -9223372036854775809}',
    '{"a": 1' + 400 * "0" + "}",
    '{"a": 1' + 400 * "0" + ', "b": 0.5}',
    '{"a": 9007199254740993, "b": 0.5}',
    '{"a": 9007199254740992, "b": 0.5}',
    '{"a": 1' + 5000 * "0" + "}",
    '{"a": "x"}',
    '{"a": [1]}',
    "5",
    '"a"',
    "null",
    "",
]


@pytest.mark.parametrize("line", UNUSUAL)
def test_a_chunk_at_once_gives_what_line_by_line_gives(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
) -> None:
    def never(*_: object) -> None:
        raise ValueError

    write("maps.jsonl", {"k": 1}, line, {"k": 2.5})
    found = []
    for reading in ("at once", "line by line"):
        if reading == "line by line":
            monkeypatch.setattr(jsonlines.JsonLines, "_read_at_once", never)
        status = main(["maps.jsonl", "-o", "x.npz"])
        result = Path("x.npz").read_bytes() if status == 0 else capsys.readouterr().err
        found.append((status, result))
    assert found[0] == found[1]


@CHUNKS
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**70])
def test_integers_beyond_int64_are_errors_among_floats_too(
    folder: Path, capsys: pytest.CaptureFixture[str], chunk: int, value: int
) -> None:
    write("maps.jsonl", {"a": 0.5}, {"a": value, "b": 0.5})
    message = fails(capsys, "maps.jsonl")
    assert message.startswith(f"maps.jsonl:2: key 'a': value {value} does not fit in int64")


@CHUNKS
def test_an_unknown_key_comes_before_what_later_lines_show(
    folder: Path, capsys: pytest.CaptureFixture[str], chunk: int
) -> None:
    write("words.json", '["a"]')
    write("maps.jsonl", {"a": 1}, {"x": 1}, {"a": 2**53 + 1}, {"a": 0.5})
    message = fails(capsys, "maps.jsonl", "--vocabulary", "words.json")
    assert message.startswith("maps.jsonl:2: key 'x' is not in string_vocabulary")


def test_an_unknown_key_comes_before_an_inexact_integer_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("words.json", '["a"]')
    write("maps.jsonl", '{"a": 0.5}' + 40 * " ", {"x": 1}, {"a": 2**53 + 1})
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", 30)  # the first line, then both others
    message = fails(capsys, "maps.jsonl", "--vocabulary", "words.json")
    assert message.startswith("maps.jsonl:2: key 'x' is not in string_vocabulary")


def test_the_first_bad_line_is_named_wherever_chunks_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    write("words.json", '["a", "k"]')
    arguments = ["maps.jsonl", "--vocabulary", "words.json", "-o", "x.npz"]
    lines = [
        '{"k": 9007199254740993}',
        '{"k": 0.5}',
        '{"x": 1}',
        '{"a": 1, "a": 2}',
        "{",
        '{"k": 1}',
    ]
    reasons = set()
    for _ in range(60):
        write("maps.jsonl", *rng.choices(lines, [2, 2, 1, 1, 1, 9], k=8))
        found = set()
        for chunk in (1, 20, 45, 1 << 15):
            monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", chunk)
            main(arguments)
            found.add(capsys.readouterr().err)
        assert len(found) == 1
        reasons |= found
    assert len(reasons) > 12


# ------------------------------------------------------------------------------- integer keys
def test_integers_beyond_int64_cannot_be_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("words.json", "[1]")
    write("maps.jsonl", {"14692702688101715474": 2.0, "1": 3.0})
    arguments = ["maps.jsonl", "--key-type", "int64", "--vocabulary", "words.json"]
    assert main([*arguments, "--handle-unknown", "ignore", "--dense"]) == 0
    assert np.load("maps.npy").tolist() == [[3.0]]
    capsys.readouterr()
    message = fails(capsys, *arguments, "-o", "x.npz")
    assert message.startswith("maps.jsonl:1: key 14692702688101715474 ")


@pytest.mark.parametrize(
    ("vocabulary", "key_type", "rule", "remedy"),
    [
        ("[1]", "string", "'1' is str; here a key must be an integer", ("integers", "int64")),
        ('["1"]', "int64", "1 is int; here a key must be a str", ("text", "string")),
    ],
)
def test_a_vocabulary_of_another_type_is_told_with_its_remedy(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    vocabulary: str,
    key_type: str,
    rule: str,
    remedy: tuple[str, str],
) -> None:
    write("words.json", vocabulary)
    write("maps.jsonl", {}, {"1": 1})
    held, option = remedy
    message = (
        f"maps.jsonl:2: key {rule}; the vocabulary holds {held}: --key-type {option} reads keys of "
        f"JSON as {held}"
    )
    arguments = ["maps.jsonl", "--key-type", key_type, "--vocabulary", "words.json"]
    for unknown in ("error", "ignore"):
        assert fails(capsys, *arguments, "--handle-unknown", unknown) == message


def test_a_key_that_is_no_integer_is_never_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("words.json", "[1]")
    write("maps.jsonl", {"1": 1, "a": 2})
    arguments = ["maps.jsonl", "--key-type", "int64", "--handle-unknown", "ignore"]
    assert fails(capsys, *arguments, "--vocabulary", "words.json") == (
        "maps.jsonl:1: key 'a' is not a decimal integer such as 17 or -3"
    )


def test_an_empty_learned_vocabulary_can_be_used_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("none.jsonl", {}, {})
    assert main(["none.jsonl", "--key-type", "int64"]) == 0
    assert words("none.vocabulary.json") == []
    write("maps.jsonl", {"1": 3})
    for key_type in ("int64", "string"):
        arguments = ["maps.jsonl", "--key-type", key_type, "--handle-unknown", "ignore"]
        assert main([*arguments, "--vocabulary", "none.vocabulary.json"]) == 0
        assert load("maps.npz").shape == (1, 0)
    capsys.readouterr()
    arguments = ["maps.jsonl", "--key-type", "int64", "-o", "x.npz"]
    message = fails(capsys, *arguments, "--vocabulary", "none.vocabulary.json")
    assert message.startswith("maps.jsonl:1: key 1 is not in int64_vocabulary (0 words)")


# ---------------------------------------------------------------------------- type of result
@CHUNKS
@pytest.mark.parametrize(
    ("lines", "dtype"),
    [
        (['{"a": 1}', '{"x": 0.5}'], np.float64),
        (['{"x": 0.5}', '{"a": 1}'], np.float64),
        (['{"x": 1}', '{"y": 2}'], np.int64),
        (["{}", "{}"], np.float64),
    ],
)
def test_skipped_entries_still_count_when_the_type_is_chosen(
    folder: Path, chunk: int, lines: list[str], dtype: Any
) -> None:
    write("words.json", '["a"]')
    write("maps.jsonl", *lines)
    arguments = [
        "maps.jsonl",
        "--vocabulary",
        "words.json",
        "--handle-unknown",
        "ignore",
        "--dense",
    ]
    assert main(arguments) == 0
    assert np.load("maps.npy").dtype == dtype


@CHUNKS
def test_an_inexact_integer_is_named_by_its_own_line(
    folder: Path, capsys: pytest.CaptureFixture[str], chunk: int
) -> None:
    write("words.json", '["a"]')
    write("maps.jsonl", {"a": 1}, {"x": 3, "y": 2**53 + 1}, {"a": 1}, {"z": 0.5}, {"a": 1})
    arguments = ["maps.jsonl", "--vocabulary", "words.json", "--handle-unknown", "ignore"]
    message = fails(capsys, *arguments)
    assert message.startswith("maps.jsonl:2: key 'y': value 9007199254740993 has no exact float64")
