"""Docstrings follow numpydoc; examples of the README and the pages give what they show."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import nbmapops
from nbmapops import kernels

from .conftest import WITHOUT_JIT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in [ROOT / "README.md", *PAGES]}
IGNORED = {
    "ES01": "an extended summary stands where one line does not say it all",
    "EX01": "the README and the classes have the examples; a property needs none",
    "SA01": "the library is small: See Also would list everything everywhere",
    "PR04": "parameters that are those of a call say so instead of repeating their types",
    "RT03": "a returned MapBatch needs no sentence that says so",
    "RT04": "a description that starts with a dtype keeps its lower case",
}


def public() -> Iterator[tuple[str, Any]]:
    for name in nbmapops.__all__:
        thing = getattr(nbmapops, name)
        yield name, thing
        for member, value in vars(thing).items():
            if not member.startswith("_"):
                yield f"{name}.{member}", inspect.unwrap(getattr(value, "__func__", value))
    for name in kernels.__all__:
        kernel = getattr(kernels, name)
        if not callable(kernel):
            continue
        yield f"kernels.{name}", getattr(kernel, "py_func", kernel)


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring(name: str) -> None:
    pytest.importorskip("numpydoc")
    from numpydoc.docscrape import get_doc_object
    from numpydoc.validate import validate

    errors = validate(get_doc_object(PUBLIC[name]))["errors"]
    assert [error for error in errors if error[0] not in IGNORED] == []


# Pages.


def run(text: str, name: str, known: dict[str, Any]) -> None:
    """Run the examples of a page one after another, in one namespace."""
    text = re.sub(r"^\s*```.*$", "", text, flags=re.MULTILINE)  # a fence is not expected output
    test = doctest.DocTestParser().get_doctest(text, known, name, name, 0)
    printed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=printed.append, clear_globs=False)
    known.update(test.globs)
    assert not printed, "".join(printed)


def needs(text: str) -> set[str]:
    """The libraries that the examples of a page import."""
    statement = r"^\s*(?:>>>|\.\.\.) (?:from ([\w.]+) import|import (.+)$)"
    found = re.findall(statement, text, re.MULTILINE)
    modules = {name for one, several in found for name in [one, *several.split(", ")]}
    modules = {name.split(" as ")[0].removeprefix("nbmapops.") for name in modules}
    return {name.split(".")[0] for name in modules if name} - {"kernels"}


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A page, where all that its examples import is there."""
    text = TEXTS[request.param]
    for library in sorted(needs(text)):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{request.param} uses {library}")
    monkeypatch.chdir(tmp_path)
    return str(request.param)


EXAMPLES = [name for name, text in TEXTS.items() if ">>> " in text]


def test_pages_are_found() -> None:
    if not (ROOT / "docs").exists():
        pytest.skip("the documentation is not beside the tests")
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files(name: str) -> None:
    if not (ROOT / "docs").exists():
        pytest.skip("the documentation is not beside the tests")
    for target in re.findall(r"\]\(([^)#\s]+)", TEXTS[name]):
        if "://" not in target:
            assert ((ROOT / name).parent / target).exists(), target


@pytest.mark.parametrize("page", EXAMPLES, indirect=True)
@pytest.mark.skipif(WITHOUT_JIT, reason="examples compile functions of their own")
def test_examples_give_what_they_show(page: str) -> None:
    run(TEXTS[page], page, {"__name__": "page"})


SAME = [[1.0, 2.0], [0.0, 0.0], [0.0, 0.5]]  # what most lines of the table give
OTHERS = {
    "one dict": [1.0, 2.0],
    "one map as two arrays": [1.0, 2.0],
    "a column of lists of keys, without values": [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]],
    "sets of keys": [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]],
    "records with text values, for one-hot columns": [[0.0, 1.0, 21.5], [1.0, 0.0, 4.0]],
    "an array of keys of any shape, to be encoded": [[0, 1], [-1, 0]],
}


@pytest.mark.parametrize("page", ["docs/forms.md"], indirect=True)
@pytest.mark.skipif(WITHOUT_JIT, reason="one run of all these libraries is enough")
def test_each_line_of_the_table_of_forms_is_true(page: str) -> None:
    known: dict[str, Any] = {"__name__": "page", "path": "table.parquet"}
    run(TEXTS[page], page, known)
    known["pyarrow"].parquet.write_table(known["stored"], known["path"])
    lines = re.findall(r"^\| (.*?) \| `(.*?)`(.*) \|$", TEXTS[page], re.MULTILINE)

    assert len(lines) >= 20
    for form, call, elsewhere in lines:
        if elsewhere:  # shown on another page
            continue
        result = eval(call, known)
        result = result.compute() if hasattr(result, "compute") else result
        result = result.toarray() if hasattr(result, "toarray") else result
        assert result.tolist() == OTHERS.get(form, SAME), form
