"""Puts all pages into one folder, with links that fit there, the pictures that they show, and `llms.txt` for programs that read.

A picture `x-light.png` has a twin `x-dark.png` beside it: the site shows the one that fits the theme. Drawings (SVG) do so by themselves.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.docs.contents import INDEX, PAGES, SECTIONS, Page
from deploy.docs.drawings.svg import site_style

ROOT: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"(?<![!\\])\[([^\]\n]+)\]\(([^)\s]+)\)")
_PICTURE: Final = re.compile(r"!\[([^\]\n]*)\]\(([^)\s]+)\)")
_PICTURES: Final = "_pictures"
"""The folder of the site's sources that has pictures, by their paths in the repository."""

_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_PLACES: Final[Mapping[str, str]] = {page.path: page.place for page in PAGES}


class BrokenLink(Exception):
    """Raised for a link to what is neither a page nor a file of the repository, and for a picture that is not there."""


def text_of(page: Page) -> str:
    """As it is at its home."""
    return (ROOT / page.origin).read_text() if isinstance(page.origin, str) else page.origin()


def stage(folder: Path) -> None:
    """Write every page and picture below the folder. Raises BrokenLink."""
    texts = {page: text_of(page) for page in PAGES}
    for page, text in texts.items():
        path = folder / f"{page.place}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_with_links(page, text) + _tree(page))
        for picture in pictures_of(page, text):
            copy = folder / _PICTURES / picture
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / picture, copy)
    static = folder / "_static"
    static.mkdir()
    (static / "pictures.css").write_text(site_style())
    (folder / "llms.txt").write_text(_list_for_programs(texts))


def _with_links(page: Page, text: str) -> str:
    """Links from file to file become links from page to page; a file that is no page is named instead."""
    here = posixpath.dirname(page.path)

    def rewritten(found: re.Match[str]) -> str:
        shown, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        file, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(here, file))
        if path in _PLACES:
            to = posixpath.relpath(_PLACES[path], posixpath.dirname(page.place) or ".")
            return f"[{shown}]({to}.md{'#' if anchor else ''}{anchor})"
        if (ROOT / path).exists():
            return f"{shown} (`{path}`)"
        raise BrokenLink(f"{page.path}: there is no {path}")

    def shown(found: re.Match[str]) -> str:
        up = posixpath.relpath(_PICTURES, posixpath.dirname(page.place) or ".")
        pictures = [
            f"![{found[1]}]({up}/{path})" for path in _twins(posixpath.normpath(posixpath.join(here, found[2])))
        ]
        classes = ["{.only-light}", "{.only-dark}"] if len(pictures) > 1 else [""]
        return "".join(map("".join, zip(pictures, classes, strict=True)))

    return "".join(
        part if is_code else _PICTURE.sub(shown, _LINK.sub(rewritten, part)) for part, is_code in _parts_of(text)
    )


def _parts_of(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a page in order, with True for code: what is between backticks is no link."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", text, flags=re.MULTILINE | re.DOTALL)
    for number, part in enumerate(parts):
        yield part, number % 2 == 1


def pictures_of(page: Page, text: str) -> list[str]:
    """Return the paths of what a page shows, in the repository. Raises BrokenLink for one that is not there."""
    here = posixpath.dirname(page.path)
    shown = [found[2] for part, is_code in _parts_of(text) if not is_code for found in _PICTURE.finditer(part)]
    paths = [path for each in shown for path in _twins(posixpath.normpath(posixpath.join(here, each)))]
    for path in paths:
        if not (ROOT / path).is_file():
            raise BrokenLink(f"{page.path}: there is no picture {path}")
    return paths


def _twins(path: str) -> list[str]:
    """Return the picture, with its twin for the dark theme where its name has one."""
    return [path, path.replace("-light.", "-dark.")] if "-light." in path else [path]


def _tree(page: Page) -> str:
    """Return Sphinx's tables of contents for the end of a page: of all sections on the first one, else of the pages below it."""
    if page == INDEX:
        return "".join(_branch(pages, f":caption: {section}\n") for section, pages in SECTIONS.items())
    return _branch(page.below) if page.below else ""


def _branch(pages: Sequence[Page], options: str = "") -> str:
    places = "\n".join(f"/{page.place}" for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n{options}\n{places}\n```\n"


def title_of(text: str) -> str:
    found = _TITLE.search(text)
    if found is None:
        raise ValueError("a page without a title")
    return found[1]


def _summary(text: str) -> str:
    """The first paragraph below the title, as one line."""
    body = text[_TITLE.search(text).end() :]  # type: ignore[union-attr]
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n", body))
    prose = next((part for part in paragraphs if part and not part.startswith(("|", "```", "!", "#", "-", "<"))), "")
    line = _LINK.sub(r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.:]) ", line)[0].rstrip(":")


def _list_for_programs(texts: Mapping[Page, str]) -> str:
    """In the form of https://llmstxt.org: every page as plain Markdown, with what it is about."""
    lines = [f"# {title_of(texts[INDEX])}", "", f"> {_summary(texts[INDEX])}", ""]
    for section, pages in SECTIONS.items():
        lines += [f"## {section}", ""]
        for page in (each for above in pages for each in (above, *above.below)):
            lines.append(f"- [{title_of(texts[page])}](_sources/{page.place}.md.txt): {_summary(texts[page])}")
        lines.append("")
    return os.linesep.join(lines)
