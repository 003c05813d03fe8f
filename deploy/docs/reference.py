"""Pages that are made of the code: one with an overview, and one for each part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class Reference(NamedTuple):
    """Texts are made when the site is built. `parts` by the last element of their addresses."""

    text: Callable[[], str]
    parts: Mapping[str, Callable[[], str]]


def slug(heading: str) -> str:
    """Return the fragment by which the site links to a heading."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def with_anchors(text: str, headings: Iterable[str]) -> str:
    """Put the fragments of headings before a text: links that led to a heading, when all was one page, lead to its line in the overview."""
    return "".join(f'<a id="{slug(each)}"></a>' for each in headings) + text
