"""The format of Java's .properties files, as `java.util.Properties.load` reads it: how settings are written. Pure.

Java reads such files as ISO-8859-1, takes a backslash for an escape and cuts blanks that lead a value. What is written here is ASCII, with
escapes for all else, so that Java, and every reader that knows the escapes, reads each setting as it was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NAMED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_IN_ALL: Final = re.compile(r"[^ -\[\]-~]")
"""The backslash, control characters, and everything beyond ASCII."""
_IN_KEYS: Final = re.compile(r"[^!-~]|[\\=:#!]")


def properties_text(settings: Mapping[str, str]) -> str:
    """Return the text of a .properties file with these settings, in their order.

    Raises ValueError for text that is not Unicode: the name of a file that is not UTF-8.
    """
    return "".join(f"{_escape(_IN_KEYS, key)}={escaped_value(text, key)}\n" for key, text in settings.items())


def escaped_value(text: str, key: str = "a setting") -> str:
    """Return a value as it is written behind `key=`. Raises ValueError as `properties_text` does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{key} cannot be {text!r}: it is not UTF-8, and a .properties file has no other text"
        ) from None
    escaped = _escape(_IN_ALL, text)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _escape(characters: re.Pattern[str], text: str) -> str:
    return characters.sub(lambda found: _escape_character(found[0]), text)


def _escape_character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return "\\" + character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
