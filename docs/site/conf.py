"""Configuration of Sphinx for the site; ``docs/site/__main__.py`` copies and makes the pages beside it."""

from nirbridge import __version__

project = "nirbridge"
author = "The maintainers of nirbridge"
copyright = "the maintainers of nirbridge, Apache-2.0"
release = version = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns = ["files/**", "conf.py"]
nitpicky = False
suppress_warnings = ["misc.highlighting_failure"]  # output of the console with box characters

# Headings are link targets down to this level, as on the pages of a code host.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]

# Notebooks are text of jupytext; all other Python files lie in files/, which is excluded.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "nirbridge"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
