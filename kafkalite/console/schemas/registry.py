"""Schemas by id, from a registry with Confluent's interface (`GET /schemas/ids/N`), for values that start with a schema id: a zero byte,
four bytes of the id, and then Avro, Protobuf or JSON.

Schemas are cached, and for a while so is their absence. Protobuf's are asked for as descriptors (`format=serialized`), with the files that
they refer to. Schemas in Avro that refer to others are not read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kafkalite.console.decoding import SCHEMA_HEADER, UndecodedError, schema_id
from kafkalite.console.schemas.avro import AvroError, AvroSchema
from kafkalite.console.schemas.protobuf import ProtobufError, ProtobufSchema

if TYPE_CHECKING:
    from kafkalite.clock import Clock

_MOST_SCHEMAS: Final = 1_000
_MOST_AT_ONCE: Final = 20
_MOST_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 5.0
_ASK_AGAIN_MS: Final = 30_000
JSON: Final = "json"

_MOST_FILES: Final = 50
"""Files of one schema in Protobuf."""
_SERIALIZED: Final = "?format=serialized"

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the registry's answer for a path with its query, such as "schemas/ids/7". Raises OSError."""


class SchemaRegistry:
    """A cache of a registry's schemas. `load` fetches those of some values before `decode_value` decodes the values."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock
        self._schemas: dict[int, AvroSchema | ProtobufSchema | str] = {}
        self._failed: dict[int, tuple[int, str]] = {}
        """When a schema could not be had, and the reason, by id."""

    async def load(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas of these values, as far as the registry has them, a bounded number at once."""
        now_ms = self._clock.now_ms()
        numbers = {number for each in values if each is not None and (number := schema_id(each)) is not None}
        wanted = [
            number
            for number in sorted(numbers)
            if number not in self._schemas
            and (number not in self._failed or now_ms - self._failed[number][0] >= _ASK_AGAIN_MS)
        ]
        await asyncio.gather(*(self._load(number) for number in wanted[:_MOST_AT_ONCE]))

    async def _load(self, number: int) -> None:
        if len(self._schemas) + len(self._failed) >= _MOST_SCHEMAS:
            self._schemas.clear()
            self._failed.clear()
        try:
            self._schemas[number] = await self._read_schema(f"schemas/ids/{number}")
            self._failed.pop(number, None)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            self._failed[number] = self._clock.now_ms(), str(problem) or type(problem).__name__

    async def _read_schema(self, path: str) -> AvroSchema | ProtobufSchema | str:
        found = _parse_answer(await self._fetch(path))
        kind = found.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            return ProtobufSchema(await self._read_files(path))
        if found.get("references"):
            raise AvroError(f"schemas of the kind {kind} that refer to others are not read")
        match kind:
            case "AVRO":
                return AvroSchema(str(found.get("schema")))
            case "JSON":
                return JSON
            case other:
                raise AvroError(f"schemas of the kind {other} are not read")

    async def _read_files(self, path: str) -> list[bytes]:
        """Return the serialized files of a schema in Protobuf, its own and then those that it refers to."""
        waiting, files = [path], []
        for path in waiting:
            found = _parse_answer(await self._fetch(path + _SERIALIZED))
            try:
                files.append(base64.b64decode(str(found.get("schema")), validate=True))
            except ValueError:
                raise ProtobufError("the registry does not serve it as a descriptor (format=serialized)") from None
            for each in found.get("references") or ():
                subject, version = quote(str(each["subject"]), safe=""), int(each["version"])
                if (other := f"subjects/{subject}/versions/{version}") not in waiting:
                    waiting.append(other)
            if len(waiting) > _MOST_FILES:
                raise ProtobufError(f"it has more than {_MOST_FILES} files")
        return files

    def decode_value(self, data: bytes) -> str | None:
        """Return the value as JSON, None when it cannot have a schema. Raises UndecodedError without its schema or for another value."""
        number = schema_id(data)
        if number is None:
            return None
        schema, content = self._schemas.get(number), data[SCHEMA_HEADER.size :]
        if schema is None:
            _, problem = self._failed.get(number, (0, "it was not asked for yet; read again"))
            raise UndecodedError(f"the registry did not give schema {number}: {problem}")
        try:
            if not isinstance(schema, str):
                return json.dumps(schema.read(content), ensure_ascii=False)
            json.loads(content)
            return content.decode("utf-8")
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            reason = str(problem) if isinstance(problem, ValueError) else type(problem).__name__
            raise UndecodedError(f"it does not match schema {number}: {reason}") from None


def _parse_answer(answer: bytes) -> dict[str, Any]:
    found = json.loads(answer)
    if not isinstance(found, dict):
        raise AvroError("the registry's answer is no schema")
    return found


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

    def ask(path: str) -> bytes:
        request = urllib.request.Request(f"{base}/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found: Any = answer.read(_MOST_BYTES)
            return bytes(found)

    async def fetch(path: str) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(None, ask, path)

    return fetch
