"""Shared by the pages of brokers and of the console: colours, how elements are made of text, plots. Served as they are."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

CSS: Final = "text/css; charset=utf-8"
JAVASCRIPT: Final = "text/javascript; charset=utf-8"


class PageFile(NamedTuple):
    """A file of a page: the package and folder that it lies in, its name, and what it is."""

    place: str
    folder: str
    name: str
    content_type: str

    def read(self) -> bytes:
        return (files(self.place) / self.folder / self.name).read_bytes()


SHARED: Final = {
    "/theme.css": PageFile("kafkalite.web", "shared", "theme.css", CSS),
    "/elements.js": PageFile("kafkalite.web", "shared", "elements.js", JAVASCRIPT),
    "/plot.js": PageFile("kafkalite.web", "shared", "plot.js", JAVASCRIPT),
}
"""By path."""
