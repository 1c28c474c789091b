"""Docstrings of everything public follow numpydoc."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import nbmapops
from nbmapops import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

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
