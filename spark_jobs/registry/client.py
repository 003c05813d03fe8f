"""A client of a schema registry: Confluent's REST API, as Karapace and Apicurio Registry (`/apis/ccompat/v7`) have it too. It writes only
what `register` is given.

What it holds may be a password: it never shows in a repr, and credentials in a URL are refused, since URLs are printed. Responses are read
up to a bound, and so are the versions of a subject and the references of a schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import urllib3

from spark_jobs.registry.schemas import AVRO, MAX_SCHEMA_BYTES, Reference, Schema

TIMEOUT_S: Final = 10.0
RETRIES: Final = 3
MAX_REFERENCES: Final = 100
"""Of a schema, those of its references included."""
MAX_REFERENCE_DEPTH: Final = 20
MAX_VERSIONS: Final = 10_000
"""Of a subject; each is a request."""
MAX_RESPONSE_BYTES: Final = 4 * MAX_SCHEMA_BYTES
"""Escapes make JSON longer than the schema in it."""
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_SPENT: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses that are tried again."""
_REFUSED_SCHEMA: Final = frozenset({409, 422})
"""Not compatible with others of its subject; not valid."""


class RegistryError(Exception):
    """The schema registry did not give what was asked for; the message names its URL and what to do."""


class RegistryUnreachableError(RegistryError):
    """No connection, no response in time, or nothing but errors of the server."""


class RegistryNotAuthorizedError(RegistryError):
    """The registry wants other credentials."""


class UnknownSchemaError(RegistryError):
    """The registry has no such subject or version."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Where the registry is, and how to get in; `user_info` is `user:password`, `ca_file` the certificates that sign its own."""

    url: str
    user_info: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def check(self) -> None:
        """Raise ValueError for a URL that is none, or has credentials in it, and for user info without a colon."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"the schema registry's URL {parts.hostname or self.url!r} is not like http://localhost:8081"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                f"the URL of the schema registry at {parts.hostname} has credentials in it, which would be printed: "
                "give them as user info in a file or a variable"
            )
        if self.user_info is not None and ":" not in self.user_info:
            raise ValueError(f"the user info for the schema registry {self.url} is not like user:password")


class Response(Protocol):
    """What the client needs of a response."""

    @property
    def status(self) -> int: ...

    def read(self, amt: int, decode_content: bool) -> bytes: ...

    def release_conn(self) -> None: ...


class Pool(Protocol):
    """What the client needs of urllib3's PoolManager."""

    def request(self, method: str, url: str, *, preload_content: bool, json: Any = None) -> Response: ...


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject."""

    id: int
    version: int
    schema: Schema


class Registry:
    """A schema registry. Each version is read once, for it never changes."""

    def __init__(self, options: RegistryOptions, pool: Pool | None = None) -> None:
        """Check the options; nothing is read yet. `pool` is urllib3's where none is given. ValueError."""
        options.check()
        self._url = options.url.rstrip("/")
        self._pool: Pool = _open_pool(options) if pool is None else pool
        self._responses: dict[tuple[str, int], Mapping[str, Any]] = {}

    @property
    def url(self) -> str:
        return self._url

    def version(self, subject: str, version: int | str) -> Registered:
        """Return a version of a subject, by its number or "latest". RegistryError."""
        response = self._read_version(subject, version)
        references = self._references(subject, response)
        schema = Schema(str(response["schema"]), str(response.get("schemaType") or AVRO), references)
        if (size := schema.size()) > MAX_SCHEMA_BYTES:
            raise RegistryError(
                f"{self._url}: version {response['version']} of subject {subject} and the schemas that it refers to have {size} "
                f"characters, more than {MAX_SCHEMA_BYTES}: name another subject"
            )
        return Registered(int(response["id"]), int(response["version"]), schema)

    def versions(self, subject: str) -> list[Registered]:
        """Return all versions of a subject, also those that were deleted: their records are in logs still. RegistryError."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = self._read(f"{path}?deleted=true")
        if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
            raise RegistryError(
                f"{self._url}{path}: the response is no list of versions; is this a schema registry's URL?"
            )
        if len(numbers) > MAX_VERSIONS:
            raise RegistryError(
                f"{self._url}: subject {subject} has {len(numbers)} versions, more than {MAX_VERSIONS}: name another subject"
            )
        return [self.version(subject, number) for number in numbers]

    def find_id(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema that the subject has. RegistryError; UnknownSchemaError when it has it not."""
        return self._send_schema(f"/subjects/{quote(subject, safe='')}", schema)

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema, which may be there already, and return its id. RegistryError."""
        return self._send_schema(f"/subjects/{quote(subject, safe='')}/versions", schema)

    def _send_schema(self, path: str, schema: Schema) -> int:
        found = self._request("POST", path, {"schema": schema.text, "schemaType": schema.type})
        if not isinstance(found, dict) or type(found.get("id")) is not int:
            raise RegistryError(f"{self._url}{path}: the response has no id; is this a schema registry's URL?")
        return int(found["id"])

    def _read_version(self, subject: str, version: int | str) -> Mapping[str, Any]:
        """Return the response for a version, which has schema, id and version. RegistryError."""
        known = self._responses.get((subject, version)) if isinstance(version, int) else None
        if known is not None:
            return known
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        # "latest" is the latest of those that were not deleted.
        found = self._read(path if version == "latest" else f"{path}?deleted=true")
        kinds = {"schema": str, "id": int, "version": int}
        if not isinstance(found, dict) or any(type(found.get(name)) is not kind for name, kind in kinds.items()):
            raise RegistryError(
                f"{self._url}: the response for subject {subject} has no schema, id and version; is this a schema registry's URL?"
            )
        self._responses[subject, found["version"]] = found
        return found

    def _references(self, subject: str, response: Mapping[str, Any]) -> tuple[Reference, ...]:
        """Return the schemas that one refers to, each behind those that it needs itself. RegistryError."""
        found: dict[tuple[str, str, int], Reference | None] = {}

        def follow(referring: Mapping[str, Any], depth: int) -> None:
            for place in self._places(subject, referring):
                if place in found:
                    continue
                if len(found) >= MAX_REFERENCES or depth >= MAX_REFERENCE_DEPTH:
                    raise RegistryError(
                        f"{self._url}: a schema of subject {subject} refers to more than {MAX_REFERENCES} others, or through more "
                        f"than {MAX_REFERENCE_DEPTH} of them: name another subject"
                    )
                found[place] = None  # a circle ends here; the parser says what is wrong with it
                name, referred_subject, number = place
                referred = self._read_version(referred_subject, number)
                follow(referred, depth + 1)
                del found[place]
                found[place] = Reference(name, referred["schema"])

        follow(response, 0)
        return tuple(each for each in found.values() if each is not None)

    def _places(self, subject: str, referring: Mapping[str, Any]) -> list[tuple[str, str, int]]:
        """Return name, subject and version of each reference in a response. RegistryError."""
        try:
            return [
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in referring.get("references") or ()
            ]
        except (KeyError, TypeError, ValueError):
            raise RegistryError(
                f"{self._url}: the references of a schema of subject {subject} have no name, subject and version; is this a schema "
                "registry's URL?"
            ) from None

    def _read(self, path: str) -> Any:
        return self._request("GET", path)

    def _request(self, method: str, path: str, body_sent: Any = None) -> Any:
        url = f"{self._url}{path}"
        try:
            response = self._pool.request(method, url, preload_content=False, json=body_sent)
            body = response.read(MAX_RESPONSE_BYTES + 1, decode_content=False)
            if len(body) <= MAX_RESPONSE_BYTES:
                response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise RegistryUnreachableError(
                f"the schema registry {self._url} cannot be reached: {_cause(problem)}; is it running, and is its URL right?"
            ) from None
        if len(body) > MAX_RESPONSE_BYTES:
            raise RegistryError(f"{url}: the response has more than {MAX_RESPONSE_BYTES} bytes: name another subject")
        status, shown = response.status, _registry_message(body)
        if status in (401, 403):
            raise RegistryNotAuthorizedError(
                f"{url}: the schema registry answered {status}{shown}; give other user info (user:password)"
            )
        if status in _REFUSED_SCHEMA:
            raise RegistryError(f"{url}: the schema registry refuses the schema{_registry_message(body)}")
        if status == 404:
            raise UnknownSchemaError(
                f"{url}: the schema registry has no such subject or version{shown}; {self._url}/subjects lists its subjects"
            )
        if status in _SPENT:
            raise RegistryUnreachableError(
                f"{url}: the schema registry answered {status}{shown} {RETRIES + 1} times; try later"
            )
        if status != 200:
            raise RegistryError(f"{url}: the schema registry answered {status}{shown}; is its URL right?")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise RegistryError(f"{url}: the response is not JSON; is this a schema registry's URL?") from None


def _open_pool(options: RegistryOptions) -> urllib3.PoolManager:
    headers = {"Accept": _ACCEPT}
    if options.user_info is not None:
        headers |= urllib3.make_headers(basic_auth=options.user_info)
    retries = urllib3.Retry(
        total=RETRIES, status_forcelist=_SPENT, backoff_factor=0.3, raise_on_status=False, redirect=False
    )
    timeout = urllib3.Timeout(connect=TIMEOUT_S, read=TIMEOUT_S)
    return urllib3.PoolManager(
        headers=headers, retries=retries, timeout=timeout, ca_certs=options.ca_file, cert_reqs="CERT_REQUIRED"
    )


def _cause(problem: BaseException) -> str:
    """Return what is below urllib3's report of tries that were used up."""
    reason = getattr(problem, "reason", None)
    return str(reason if isinstance(reason, BaseException) else problem)


def _registry_message(body: bytes) -> str:
    """Return the registry's own message, in parentheses."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = found.get("message") if isinstance(found, Mapping) else None
    return f" ({message!s:.200})" if message else ""
