"""Records as lines of text, for `consume` and `produce`; what `consume -o jsonl` writes, `produce --input jsonl` reads without loss.

A JSON line has `topic`, `partition`, `offset`, `timestamp` (ms), `timestamp_type`, `key`, `value`, `headers`. Key and value are null, or a
string when the bytes are UTF-8, or `{"base64": "…"}`. `headers` is a list of `[name, content]` pairs in order, content in the same form.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkalite.timestamps import check_int64


class InputRecord(NamedTuple):
    """A record to be produced, as read from a line; None for what the line does not contain."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None
    partition: int | None


class LineError(ValueError):
    """Raised for a line that is no record. The message says why."""


def encode_bytes(data: bytes | None) -> Any:
    """Return bytes in the form that they have in JSON."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def decode_bytes(item: Any, what: str) -> bytes | None:
    """Return the bytes that `encode_bytes` made `item` of; other JSON values stand for their JSON text."""
    if item is None:
        return None
    if isinstance(item, str):
        return item.encode("utf-8")
    if isinstance(item, Mapping) and set(item) == {"base64"}:
        try:
            return base64.b64decode(item["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise LineError(f"the {what} is not base64") from None
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def to_dict(record: Any) -> dict[str, Any]:
    """Return a consumer's record, with bytes for key and value, as a JSON object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if record.timestamp_type else "CreateTime",
        "key": encode_bytes(record.key),
        "value": encode_bytes(record.value),
        "headers": [[name, encode_bytes(content)] for name, content in record.headers],
    }


def from_json_line(line: bytes, with_partition: bool) -> InputRecord:
    """Return the record of a JSON line. Raises LineError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise LineError(f"no JSON: {problem}") from None
    if not isinstance(found, dict):
        raise LineError("no JSON object")
    headers = found.get("headers") or []
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise LineError("headers are no list of [name, content] pairs")
    timestamp, partition = found.get("timestamp"), found.get("partition")
    for name, number in (("timestamp", timestamp), ("partition", partition)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise LineError(f"{name} is no whole number")
    if timestamp is not None:
        try:
            check_int64(timestamp)
        except ValueError as problem:
            raise LineError(f"timestamp {problem}") from None
    return InputRecord(
        decode_bytes(found.get("key"), "key"),
        decode_bytes(found.get("value"), "value"),
        [(name, decode_bytes(content, f"header {name}")) for name, content in pairs],
        timestamp,
        partition if with_partition else None,
    )


def from_text_line(line: bytes, key_separator: bytes | None) -> InputRecord:
    """Return the record of a line: a value, or key and value around `key_separator`. Raises LineError when a separator is missing."""
    if key_separator is None:
        return InputRecord(None, line, [], None, None)
    key, found, value = line.partition(key_separator)
    if not found:
        raise LineError(f"no key separator {key_separator!r} in it")
    return InputRecord(key, value, [], None, None)
