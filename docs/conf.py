"""Settings of the documentation."""

import sys
from pathlib import Path

import sojourn

sys.path.insert(0, str(Path(__file__).parent))
import module_table

project = "sojourn"
author = "The sojourn developers"
copyright = f"2026, {author}"
version = release = sojourn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated"]
default_role = "py:obj"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 600,
}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give types in words
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "sojourn"
html_show_sourcelink = False
# All pages are in the sidebar, by section; they are too many for one line at the top.
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {"navbar_center": []}
html_sidebars = {"**": ["globaltoc.html"]}


def _skip(app, what, name, obj, skip, options):
    """Leave out scikit-learn's metadata requests: they are not ours and link to its pages."""
    inherited = name.startswith("set_") and name.endswith("_request")
    return True if inherited or name == "get_metadata_routing" else None


def setup(app):
    app.connect("builder-inited", module_table.write)
    app.connect("autodoc-skip-member", _skip)
