"""Sphinx's settings. The pages are put into one folder by `staging`."""

from kafkalite import __version__

project = "kafkalite"
release = version = __version__
copyright = "the kafkalite authors"
extensions = ["myst_parser", "deploy.docs.site_pages"]
# Headings can be linked to by the names that forges give them.
myst_heading_anchors = 4
# Staging gives pictures the class of the theme in which they are shown.
myst_enable_extensions = ["attrs_inline"]
html_theme = "furo"
html_title = f"kafkalite {__version__}"
html_static_path = ["site"]
html_css_files = ["pictures.css", "site.css"]
html_js_files = [("copy.js", {"defer": "defer"}), ("search.js", {"defer": "defer"})]
# search.js shows them, from a file too.
html_show_search_summary = False
html_extra_path = []  # `staging` lays llms.txt beside the pages; see setup below
html_show_sphinx = False
# Theirs are fetched by nobody: no fonts, scripts or styles from elsewhere.
html_theme_options = {"footer_icons": []}


def setup(app):
    """What lies beside the pages and is no page goes into the site as it is."""
    app.config.html_extra_path = [str(path) for path in (app.srcdir / "llms.txt",) if path.exists()]
    app.config.html_static_path = [*app.config.html_static_path, str(app.srcdir / "_static")]
