"""Settings of the documentation."""

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import sojourn

sys.path.insert(0, str(Path(__file__).parent))
import module_table
import pictures
import reference_pages

project = "sojourn"
author = "The sojourn developers"
copyright = f"2026, {author}"
version = release = sojourn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated"]
default_role = "py:obj"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"  # copied below: pages ask no other host for anything

# A copied example has neither prompts nor output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

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
html_theme_options = {
    "navbar_center": [],
    # Examples have the width for their code instead.
    "secondary_sidebar_items": {"*": ["page-toc"], "reference/*": ["page-toc"], "gallery/*": []},
}
html_context = {"default_mode": "auto"}
html_favicon = "_static/icon.svg"
html_sidebars = {"**": ["globaltoc.html"]}


def _skip(app, what, name, obj, skip, options):
    """Leave out scikit-learn's metadata requests: they are not ours and link to its pages."""
    inherited = name.startswith("set_") and name.endswith("_request")
    return True if inherited or name in ("get_metadata_routing", "set_output") else None


def _trim(app, page, source):
    """Leave out the empty line that ends a doctest on a page."""
    source[0] = re.sub(
        r"(\n```python\n(?:(?!```).)*?)\n\n```", r"\1\n```", source[0], flags=re.DOTALL
    )


def _copy_mathjax(app, error):
    """Put MathJax and its fonts beside the pages; the rest of its package is not needed."""
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    target = Path(app.outdir, "_static", "mathjax")
    if error is None and not target.exists():
        fonts = "output/chtml/fonts/woff-v2"
        shutil.copytree(package / fonts, target / fonts)
        shutil.copy(package / "tex-chtml.js", target)


def setup(app):
    app.connect("source-read", _trim)
    app.connect("builder-inited", module_table.write)
    app.connect("builder-inited", pictures.write)
    app.connect("builder-inited", reference_pages.write)
    app.connect("build-finished", _copy_mathjax)
    app.connect("autodoc-skip-member", _skip)
