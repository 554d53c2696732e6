"""How the documentation site is built: bash scripts/site. Pages are Markdown; two of them are notebooks that run."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_site"), str(Path(__file__).parents[1])]

project = "residua"
author = "The residua authors"
copyright = "The residua authors, Apache-2.0"
release = version = installed("residua")
language = "en"
smartquotes = False

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "api_pages", "mathml", "readable", "terminal"]
# Of two suffixes the first is the parser of what autodoc writes: with .md first, signatures come out as plain text.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
# What an earlier build left; and the same names for readers of the repository: the site has pages with signatures.
exclude_patterns = ["_build", "reference.md"]
needs_sphinx = "8.1"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 1200  # of a cell, on a machine that does much else
nb_execution_excludepatterns = os.environ.get("SITE_NOT_RUN", "").split()  # tests run the gallery in one process
nb_execution_in_temp = True
nb_merge_streams = True
suppress_warnings = ["myst-nb.lexer"]  # cells that are not run do not say their language

default_role = "code"  # docstrings are written with single backticks
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Guarantee", "Reference"]
toc_object_entries = False

html_theme = "furo"
html_title = f"residua {release}"
html_math_renderer = "mathml"
# Colours and type are those of reports and of the planner page.
html_static_path = ["_static", str(Path(__file__).parents[1] / "src/residua/report/templates/tokens.css")]
html_css_files = ["tokens.css", "site.css"]
html_search_scorer = str(Path(__file__).with_name("_site") / "scorer.js")
html_copy_source = False
html_domain_indices = False
html_show_sphinx = False
html_theme_options = {"footer_icons": []}
