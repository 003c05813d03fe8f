"""The blocks of code of a page, by their language:

- `sh` and `python` are run by the tests, `properties` are read by the broker's own tables;
- `console` is only shown: what is typed needs another machine, or a program that nobody may have here. The word is the mark, in the source.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FENCED: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_ONLY: Final = "console"


class Block(NamedTuple):
    """`line` is that of its first line in the page, counted from 1."""

    language: str
    text: str
    line: int


def blocks_of(page: str) -> list[Block]:
    return [Block(found[1], found[2], page.count("\n", 0, found.start()) + 2) for found in _FENCED.finditer(page)]
