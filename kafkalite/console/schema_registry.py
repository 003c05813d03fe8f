"""Schemas by id, from a registry with Confluent's interface (`GET /schemas/ids/N`), for values that start with a schema id: a zero byte,
four bytes of the id, and then Avro, or JSON.

Schemas are cached, and for a while so is their absence. Schemas of other kinds, and those that refer to others, are not read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from kafkalite.console.avro import AvroError, AvroSchema

if TYPE_CHECKING:
    from kafkalite.clock import Clock

_HEADER: Final = struct.Struct(">bI")
_MOST_SCHEMAS: Final = 1_000
_MOST_AT_ONCE: Final = 20
_MOST_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 5.0
_ASK_AGAIN_MS: Final = 30_000
JSON: Final = "json"

Fetch = Callable[[int], Awaitable[bytes]]
"""Returns the registry's answer for an id. Raises OSError."""


class SchemaRegistry:
    """A cache of a registry's schemas. `load` fetches those of some values before `decode_value` decodes the values."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock
        self._schemas: dict[int, AvroSchema | str] = {}
        self._failed_ms: dict[int, int] = {}

    async def load(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas of these values, as far as the registry has them, a bounded number at once."""
        now_ms = self._clock.now_ms()
        numbers = {_HEADER.unpack_from(each)[1] for each in values if each is not None and _is_numbered(each)}
        wanted = [
            number
            for number in sorted(numbers)
            if number not in self._schemas and now_ms - self._failed_ms.get(number, -_ASK_AGAIN_MS) >= _ASK_AGAIN_MS
        ]
        await asyncio.gather(*(self._load(number) for number in wanted[:_MOST_AT_ONCE]))

    async def _load(self, number: int) -> None:
        if len(self._schemas) + len(self._failed_ms) >= _MOST_SCHEMAS:
            self._schemas.clear()
            self._failed_ms.clear()
        try:
            self._schemas[number] = _schema(await self._fetch(number))
            self._failed_ms.pop(number, None)
        except (OSError, ValueError):
            self._failed_ms[number] = self._clock.now_ms()

    def decode_value(self, data: bytes) -> str | None:
        """Return the value as JSON; None without a schema, or when the value does not match it."""
        if not _is_numbered(data):
            return None
        schema, content = self._schemas.get(_HEADER.unpack_from(data)[1]), data[_HEADER.size :]
        try:
            if isinstance(schema, AvroSchema):
                return json.dumps(schema.read(content), ensure_ascii=False)
            if schema == JSON:
                json.loads(content)
                return content.decode("utf-8")
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        return None


def _is_numbered(data: bytes) -> bool:
    return len(data) > _HEADER.size and data[0] == 0


def _schema(answer: bytes) -> AvroSchema | str:
    found = json.loads(answer)
    if not isinstance(found, dict) or found.get("references"):
        raise AvroError("no schema that stands alone")
    match found.get("schemaType", "AVRO"):
        case "AVRO":
            return AvroSchema(str(found.get("schema")))
        case "JSON":
            return JSON
        case other:
            raise AvroError(f"schemas of the kind {other} are not read")


def http_fetch(url: str) -> Fetch:
    """Return a function that requests schemas from the registry at `url`, which may contain a login. Raises ValueError for another URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a schema registry is at http://… or https://…")
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def ask(number: int) -> bytes:
        request = urllib.request.Request(f"{base}/schemas/ids/{number}", headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found: Any = answer.read(_MOST_BYTES)
            return bytes(found)

    async def fetch(number: int) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(None, ask, number)

    return fetch
