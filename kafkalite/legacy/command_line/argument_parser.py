"""Command lines of the tools that use argparse4j: options, commands, and the parser's error messages.

The help file of such a tool (`help_texts`) has the tool's own help first, and then that of each command behind a line `%% command`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

_WIDTH: Final = 75
_UNBREAKABLE: Final = re.compile(r"\S*?(?:-+(?=[^-\s])|\s+|$)")


class Misuse(Exception):
    """Raised when a command line cannot be read. The message is argparse4j's."""


class Argument(NamedTuple):
    """One option: the name of its Java type, its converter, which raises ValueError, and whether it must be given."""

    name: str
    java_type: str = "String"
    convert: Callable[[str], Any] = str
    required: bool = False
    default: Any = None

    def convert_text(self, text: str) -> Any:
        """Return the value of a text. Raises Misuse."""
        try:
            return self.convert(text)
        except ValueError:
            wrong = f"could not convert '{text}' to {self.java_type} (For input string: \"{text}\")"
            raise Misuse(f"argument {self.name}: {wrong}") from None


def read_arguments(declared: Sequence[Argument], arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the leading options by name, and the words from the first one that is no option. Raises Misuse.

    Options may be abbreviated; of repeated options the last one counts.
    """
    found = {each.name: each.default for each in declared}
    left = list(arguments)
    while left and left[0].startswith("-"):
        word, equals, value = left.pop(0).partition("=")
        option = _option(declared, word)
        if not equals:
            if not left or left[0].startswith("--"):
                raise Misuse(f"argument {option.name}: expected one argument")
            value = left.pop(0)
        found[option.name] = option.convert_text(value)
    return found, left


def check_required(declared: Sequence[Argument], found: dict[str, Any]) -> None:
    """Raise Misuse when a required option is missing. Of several argparse4j names one, which depends on a hash table."""
    missing = [each.name for each in declared if each.required and found[each.name] is None]
    if missing:
        raise Misuse(f"argument {missing[-1]} is required")


def _option(declared: Sequence[Argument], word: str) -> Argument:
    exact = [each for each in declared if each.name == word]
    begun = exact or [each for each in declared if len(word) > 2 and each.name.startswith(word)]
    if not begun:
        raise Misuse(f"unrecognized arguments: '{word}'")
    if len(begun) > 1:
        names = ", ".join(each.name for each in begun)
        raise Misuse(f"ambiguous option: {word} could match {names}")
    return begun[0]


def justify(text: str) -> str:
    """Return a message in lines of 75 columns, each but the last one padded with blanks to that width, as argparse4j prints it."""
    lines = [""]
    for each in _UNBREAKABLE.findall(text):
        if len(lines[-1]) + len(each) > _WIDTH:
            lines.append("")
        lines[-1] += each
    return "\n".join([*(_pad_line(line.split()) for line in lines[:-1]), lines[-1]])


def _pad_line(words: list[str]) -> str:
    """Return the words as one padded line. Blanks that cannot be spread evenly go into the gaps in the middle."""
    gaps = len(words) - 1
    if gaps < 1:
        return " ".join(words)
    each, left = divmod(_WIDTH - sum(map(len, words)), gaps)
    first = (gaps - left + 1) // 2
    blanks = [" " * (each + (first <= number < first + left)) for number in range(gaps)]
    return "".join(word + blank for word, blank in zip(words, [*blanks, ""], strict=True))
