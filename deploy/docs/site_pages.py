"""What this site adds to Sphinx.

Drawings stand within the page, so that they follow its theme. The texts of all pages are written as a script for the search, which shows
where a word stands: Sphinx's own fetches the pages for that, which browsers refuse where a site is opened from a file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar, Final

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

PHONE: Final = 480
"""A drawing of so many units can be read on a phone; a wider one scrolls in its own box there."""
LONG_NAME: Final = 14
_WIDTH: Final = re.compile(r'viewBox="0 0 ([\d.]+) ')


class DrawingsInPage(SphinxPostTransform):
    """Replaces pictures that are SVG by their text."""

    default_priority: ClassVar[int] = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir, image["uri"])
            if path.suffix != ".svg":
                continue
            drawing = path.read_text().strip()
            width = float(_WIDTH.search(drawing)[1])  # type: ignore[index]
            # What scrolls can be reached by the keyboard.
            attributes = 'class="drawing drawing-wide" tabindex="0"' if width > PHONE else 'class="drawing"'
            html = f"<figure {attributes}>{drawing}</figure>"
            paragraph = image.parent
            is_alone = isinstance(paragraph, nodes.paragraph) and len(paragraph) == 1
            (paragraph if is_alone else image).replace_self(nodes.raw("", html, format="html"))


class BreaksInNames(SphinxPostTransform):
    """Allows long names in code to be broken behind dots, underscores, slashes and equals signs, and nowhere else."""

    default_priority: ClassVar[int] = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            if (
                len(literal) == 1
                and isinstance(literal[0], nodes.Text)
                and max(map(len, name.split()), default=0) > LONG_NAME
            ):
                pieces = re.findall(r"[^._/=]*[._/=]+|[^._/=]+", name)
                parts: list[nodes.Node] = [nodes.Text(pieces[0])]
                for piece in pieces[1:]:
                    parts += [nodes.raw("", "<wbr>", format="html"), nodes.Text(piece)]
                literal.clear()
                literal.extend(parts)


def write_page_texts(app: Sphinx, problem: Exception | None) -> None:
    """Write what all pages say, by their places."""
    if problem is None and app.builder.format == "html":
        texts = {name: _text_of(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
        script = f"window.PAGE_TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", "page_texts.js").write_text(script)


def _text_of(page: nodes.document) -> str:
    """Return what a reader sees, on one line."""
    for each in list(page.findall(lambda node: isinstance(node, nodes.raw | nodes.comment | nodes.image))):
        each.parent.remove(each)
    return " ".join(page.astext().split())


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(DrawingsInPage)
    app.add_post_transform(BreaksInNames)
    app.connect("build-finished", write_page_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
