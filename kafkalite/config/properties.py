"""Java's .properties format, and the one place where a settings file is read.

A line is `key=value`, `key: value` or `key value`; `#` or `!` starts a comment line; a backslash at the end of a line
continues it, leading blanks of the next one dropped; `\\t \\n \\r \\f \\uXXXX` are escapes, and before any other character a
backslash only takes away its meaning. A key given twice has its last value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kafkalite.config.errors import ConfigError
from kafkalite.config.units import plain_value

_BLANKS: Final = " \t\f"
_KEY: Final = re.compile(r"(?:[^ \t\f=:\\]+|\\.?)*", re.DOTALL)
"""It matches always. Files that people take for settings may be a single line of many megabytes: a character at a time takes seconds."""
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path, option: str = "") -> dict[str, str]:
    """Return the settings in a file. Raises ConfigError, which names the `option`, when it is not readable or no properties file."""
    named = f"{option}: " if option else ""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as problem:
        raise ConfigError(
            f"{named}Cannot read the settings file {path}: {problem.strerror}; check its name"
        ) from problem
    except UnicodeDecodeError as problem:
        reason = "is not UTF-8 text; write other characters as \\uXXXX"
        raise ConfigError(f"{named}The settings file {path} {reason}") from problem
    try:
        return parse_properties(text)
    except ConfigError as problem:
        raise ConfigError(f"{named}The settings file {path}: {problem}") from problem


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings in the text of a .properties file. Raises ConfigError for a broken \\uXXXX escape."""
    settings = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        settings[_unescape(key)] = _unescape(value)
    return settings


def parse_overrides(arguments: Iterable[str]) -> dict[str, str]:
    """Return the settings in `key=value` arguments of a command line, units resolved; the last of several for one key wins.

    Raises ConfigError for an argument without a key or without an equals sign, and for a unit that cannot be used.
    """
    settings = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"Cannot use the override {argument!r}: write it as key=value")
        settings[key.strip()] = plain_value(key.strip(), value.strip())
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments, continuation lines joined, leading blanks gone, never empty."""
    pending: str | None = None
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        if trailing_backslashes % 2:
            pending = line[:-1]
            continue
        pending = None
        if line:
            yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Return key and value, still escaped; the key ends at the first blank, `=` or `:` that is not escaped."""
    end = len(_KEY.match(line)[0])  # type: ignore[index]
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            pieces.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ConfigError(f"the escape \\u{digits} is broken; it needs four hexadecimal digits")
            pieces.append(chr(int(digits, 16)))
            position += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    # Characters beyond the basic plane are written as two escapes (UTF-16); join such pairs.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
