"""Documentation: `sphinx-build -W -b html docs build/html`, with the group `docs` installed."""

import os

# Kernels are then plain functions, whose signatures and texts Sphinx can read.
os.environ["NUMBA_DISABLE_JIT"] = "1"

import nbmapops

project = "nbmapops"
author = "nbmapops developers"
project_copyright = "nbmapops developers"
version = release = nbmapops.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["examples"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

highlight_language = "none"  # a block says what it is in

html_theme = "furo"
html_title = f"nbmapops {release}"
html_static_path = ["_static"]
html_css_files = ["reading.css"]
html_show_sphinx = False

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections say what the types are
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False
