"""What this site adds to Sphinx: drawings stand within the page, so that they follow its theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class DrawingsInPage(SphinxPostTransform):
    """Replaces pictures that are SVG by their text."""

    default_priority: ClassVar[int] = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix != ".svg":
                continue
            name = path.stem.replace("_", "-")
            drawing = path.read_text().strip()
            html = f'<figure class="drawing drawing-{name}">{drawing}</figure>'
            paragraph = image.parent
            is_alone = isinstance(paragraph, nodes.paragraph) and len(paragraph) == 1
            (paragraph if is_alone else image).replace_self(nodes.raw("", html, format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(DrawingsInPage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
