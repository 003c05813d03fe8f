"""JSON files that the tools read: their fields with the types that Kafka demands, and its messages for other ones."""

from __future__ import annotations

import json
from typing import Any, Final

from kafkalite.legacy.command_line.failures import ToolError, file_error

_MAPPING_ERROR: Final = "com.fasterxml.jackson.databind.JsonMappingException"
_SIZES: Final = {"Integer": 31, "Long": 63}


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as problem:
        raise ToolError(f"Unable to read file {path}", "java.io.IOException", file_error(path, problem)) from None


def parse(text: str) -> Any:
    """Return the document, None when the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolError(f"Expected JSON object, received {as_json(value)}", _MAPPING_ERROR)
    return value


def member(value: Any, name: str) -> Any:
    """Return a required field."""
    found = fields(value)
    if name not in found:
        raise ToolError(f"No such field exists: `{name}`", _MAPPING_ERROR)
    return found[name]


def elements(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ToolError(f"Expected JSON array, received {as_json(value)}", _MAPPING_ERROR)
    return value


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise ToolError(f"Expected `String` value, received {as_json(value)}", _MAPPING_ERROR)
    return value


def number(value: Any, java_type: str = "Integer") -> int:
    if type(value) is not int or value.bit_length() > _SIZES[java_type]:
        raise ToolError(f"Expected `{java_type}` value, received {as_json(value)}", _MAPPING_ERROR)
    return value


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
