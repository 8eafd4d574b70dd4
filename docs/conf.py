"""Settings of the documentation site.

pip install -c constraints.txt '.[docs]' && sphinx-build -W -b html docs build/site
"""

from __future__ import annotations

import sys
from pathlib import Path

import weft

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Weft"
author = "The Weft developers"
copyright = author  # noqa: A001 - Sphinx's name
release = version = weft.__version__

extensions = [
    "accessible",
    "docstrings",
    "generated",
    "mathml",
    "metric_families",
    "search_terms",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_extensions", "_build"]
nitpicky = False

# Markdown: `$...$` and ```math blocks are formulas, and headings are link targets as on GitHub.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_fence_as_directive = {"math"}
myst_heading_anchors = 4
html_math_renderer = "mathml"

# Notebooks of the gallery are executed by the build; an error in a cell fails it.
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # per cell, on a busy machine
nb_merge_streams = True

# Docstrings: single backticks are code, and types come from the signatures.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True  # docstrings of metrics
napoleon_attr_annotations = False  # types are in the signatures
napoleon_use_param = False  # parameters of one entry stay together: `users, items`
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, as of parameters
autodoc_mock_imports = ["lightning"]

html_theme = "furo"
html_title = f"Weft {release}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
