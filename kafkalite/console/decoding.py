"""Bytes in readable form: JSON, msgpack, text, else hexadecimal. The result is text, and the page inserts it as text.

The encoding is guessed: JSON is what parses as an object or a list, msgpack a map or an array with nothing behind it, text UTF-8 without
control characters. The user can select one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

FORMATS: Final = ("auto", "text", "json", "msgpack", "hex")
SHORT_BYTES: Final = 4 * 1024
"""Limit of a value in a list."""
WHOLE_BYTES: Final = 1024 * 1024
"""Limit of a value that is shown by itself."""
_PARSED_BYTES: Final = 256 * 1024
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CONTROLS: Final = frozenset(range(32)) - {9, 10, 13}
_HEX_WIDTH: Final = 16


def decode_text(
    data: bytes | None,
    wanted: str = "auto",
    limit_bytes: int = SHORT_BYTES,
    by_schema: Callable[[bytes], str | None] | None = None,
) -> dict[str, Any]:
    """Return kind (null, schema, json, msgpack, text, hex), text, bytes, and whether it is truncated. `wanted` is one of FORMATS.

    `by_schema` decodes values that have a schema in a registry.
    """
    if data is None:
        return {"kind": "null", "text": "", "bytes": 0, "is_cut": False}
    if wanted == "auto" and by_schema is not None and (text := by_schema(data)) is not None:
        text = indent_json(text) if limit_bytes > SHORT_BYTES else text
        return {"kind": "schema", "text": text[:limit_bytes], "bytes": len(data), "is_cut": len(text) > limit_bytes}
    for kind, decode in _DECODERS.items():
        if wanted in ("auto", kind) and (text := decode(data, wanted == kind, limit_bytes)) is not None:
            return {"kind": kind, "text": text[:limit_bytes], "bytes": len(data), "is_cut": len(text) > limit_bytes}
    cut = data[: limit_bytes // 4]
    return {"kind": "hex", "text": hex_dump(cut), "bytes": len(data), "is_cut": len(cut) < len(data)}


def _json(data: bytes, is_wanted: bool, limit_bytes: int) -> str | None:
    if len(data) > _PARSED_BYTES or (not is_wanted and data.lstrip()[:1] not in (b"{", b"[")):
        return None
    try:
        text = data.decode("utf-8")
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return indent_json(text) if limit_bytes > SHORT_BYTES else text.strip()


def _msgpack(data: bytes, is_wanted: bool, limit_bytes: int) -> str | None:
    if not data or len(data) > _PARSED_BYTES or (not is_wanted and not _may_be_container(data[0])):
        return None
    try:
        found = msgpack.unpackb(data, strict_map_key=False, timestamp=0)
        text = json.dumps(found, ensure_ascii=False, default=_plain)
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.exceptions.UnpackException):
        return None
    return indent_json(text) if limit_bytes > SHORT_BYTES else text


def _may_be_container(first: int) -> bool:
    """True for the first byte of a map or an array that is not also a likely start of text, as no lead byte of UTF-8 is."""
    return 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF


def indent_json(text: str) -> str:
    """Return JSON with a line for each item, otherwise unchanged: numbers, escapes and repeated keys stay as they are written."""
    parts: list[str] = []
    depth = 0
    for token in _TOKENS.findall(text):
        if token in "{[":
            depth += 1
            parts.append(f"{token}\n{'  ' * depth}")
        elif token in "}]":
            depth -= 1
            if parts and parts[-1].rstrip() in ("{", "["):
                parts[-1] = parts[-1].rstrip() + token
            else:
                parts.append(f"\n{'  ' * depth}{token}")
        elif token == ",":
            parts.append(f",\n{'  ' * depth}")
        else:
            parts.append(": " if token == ":" else token)
    return "".join(parts)


def _plain(found: Any) -> Any:
    return found.hex() if isinstance(found, bytes | bytearray) else str(found)


def _text(data: bytes, is_wanted: bool, limit_bytes: int) -> str | None:
    if is_wanted:
        return data.decode("utf-8", "backslashreplace")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.intersection(data) else text


_DECODERS: Final = {"json": _json, "msgpack": _msgpack, "text": _text}
"""Decoders in the order in which they are tried."""


def hex_dump(data: bytes) -> str:
    """Return lines of 16 bytes: position, hexadecimal, ASCII."""
    lines = []
    for start in range(0, len(data), _HEX_WIDTH):
        part = data[start : start + _HEX_WIDTH]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{start:06x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)
