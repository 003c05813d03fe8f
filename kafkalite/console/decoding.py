"""Bytes in readable form: JSON, msgpack, text, else hexadecimal. The result is text, and the page inserts it as text.

The encoding is guessed: JSON is what parses as an object or a list, msgpack a map or an array with nothing behind it, text UTF-8 without
control characters. The user can select one of them. Bytes that look like an encoding and are not shown as such have a reason.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

FORMATS: Final = ("auto", "text", "json", "msgpack", "hex")
SHORT_BYTES: Final = 4 * 1024
"""Limit of a value in a list."""
WHOLE_BYTES: Final = 1024 * 1024
"""Limit of a value that is shown by itself."""
_PARSED_BYTES: Final = 256 * 1024
"""Limit of a value that is parsed for a list, which has up to 200 of them."""
_CONTROLS: Final = frozenset(range(32)) - {9, 10, 13}
_HEX_WIDTH: Final = 16
SCHEMA_HEADER: Final = struct.Struct(">bI")
"""A zero byte and the id of a schema, in front of values of a registry."""


class UndecodedError(ValueError):
    """Raised for bytes that are not of an encoding. The text is the reason, empty where nobody would expect that encoding."""


def decode_text(
    data: bytes | None,
    wanted: str = "auto",
    limit_bytes: int = SHORT_BYTES,
    by_schema: Callable[[bytes], str | None] | None = None,
) -> dict[str, Any]:
    """Return kind (null, schema, json, msgpack, text, hex), text, bytes, whether it is truncated, and `reason`. `wanted` is one of FORMATS.

    `by_schema` decodes values that have a schema in a registry, and raises UndecodedError. `reason` says why bytes are shown as text or
    hexadecimal that look like something else, None otherwise.
    """
    if data is None:
        return _describe_value("null", "", 0, 0)
    reasons: dict[str, str] = {}
    if wanted == "auto":
        try:
            if (text := (by_schema or _without_registry)(data)) is not None:
                return _describe_value("schema", text, len(data), limit_bytes)
        except UndecodedError as problem:
            reasons["schema"] = str(problem)
    for kind, decode in _DECODERS.items():
        if wanted not in ("auto", kind):
            continue
        try:
            text = decode(data, wanted == kind, limit_bytes)
        except UndecodedError as problem:
            reasons[kind] = str(problem)
        else:
            return _describe_value(kind, text, len(data), limit_bytes, reasons.get("json") if kind == "text" else None)
    cut = data[: limit_bytes // 4]
    reason = next(filter(None, reasons.values()), None)
    return {**_describe_value("hex", hex_dump(cut), len(data), 0, reason), "is_cut": len(cut) < len(data)}


def _describe_value(kind: str, text: str, size_bytes: int, limit: int, reason: str | None = None) -> dict[str, Any]:
    """Return a value as a page gets it; a limit of 0 stands for none."""
    is_cut = 0 < limit < len(text)
    return {
        "kind": kind,
        "text": text[:limit] if is_cut else text,
        "bytes": size_bytes,
        "is_cut": is_cut,
        "reason": reason or None,
    }


def schema_id(data: bytes) -> int | None:
    """Return the id of a schema in front of a value, None for bytes that cannot have one."""
    if len(data) <= SCHEMA_HEADER.size or data[0] != 0:
        return None
    return int(SCHEMA_HEADER.unpack_from(data)[1])


def _without_registry(data: bytes) -> None:
    """Raise UndecodedError for a value that may have a schema. Ids begin with 1, and small numbers of eight bytes with five zeros."""
    if found := schema_id(data):
        raise UndecodedError(f"no registry was named: if it has schema {found} of one, give --schema-registry URL")


def _require_parsable(data: bytes, encoding: str, limit_bytes: int) -> None:
    """Raise UndecodedError for bytes that are too long to be parsed."""
    in_list = limit_bytes <= SHORT_BYTES
    most = _PARSED_BYTES if in_list else WHOLE_BYTES
    if len(data) > most:
        where = "in a list; open the record" if in_list else "here"
        raise UndecodedError(f"{encoding} of more than {most // 1024} KiB is not parsed {where}")


def _json(data: bytes, is_wanted: bool, limit_bytes: int) -> str:
    if not is_wanted and data.lstrip()[:1] not in (b"{", b"["):
        raise UndecodedError
    _require_parsable(data, "JSON", limit_bytes)
    try:
        text = data.decode("utf-8")
        json.loads(text)
    except UnicodeDecodeError as problem:
        reason = f"byte {problem.start} is no UTF-8"
    except json.JSONDecodeError as problem:
        reason = f"line {problem.lineno}, column {problem.colno}: {problem.msg}"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as problem:  # a whole number of thousands of digits
        reason = str(problem)
    else:
        return text.strip()
    raise UndecodedError(f"it is not valid as JSON ({reason})")


def _msgpack(data: bytes, is_wanted: bool, limit_bytes: int) -> str:
    if not data or (not is_wanted and not _may_be_container(data[0])):
        raise UndecodedError
    _require_parsable(data, "msgpack", limit_bytes)
    try:
        found = msgpack.unpackb(data, strict_map_key=False, timestamp=0)
        return json.dumps(found, ensure_ascii=False, default=_plain)
    except msgpack.exceptions.ExtraData:
        raise UndecodedError("it is not valid as msgpack (bytes follow its value)") from None
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.exceptions.UnpackException):
        raise UndecodedError("it is not valid as msgpack (incomplete or broken)") from None


def _may_be_container(first: int) -> bool:
    """True for the first byte of a map or an array that is not also a likely start of text, as no lead byte of UTF-8 is."""
    return 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF


def _plain(found: Any) -> Any:
    return found.hex() if isinstance(found, bytes | bytearray) else str(found)


def _text(data: bytes, is_wanted: bool, limit_bytes: int) -> str:
    if is_wanted:
        return data.decode("utf-8", "backslashreplace")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UndecodedError(f"it is not UTF-8 (byte {problem.start})") from None
    if found := _CONTROLS.intersection(data):
        raise UndecodedError(f"it has control characters (0x{min(found):02x})")
    return text


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
