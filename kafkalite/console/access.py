"""Access to the console. The page has the rights of a client of the cluster, and any page in a browser may send requests to this machine.

- The name that was asked for (`Host`) must be this machine's: an address, localhost, the name that it was bound to. So a name of somebody
  else's that leads here (DNS rebinding) is refused.
- What comes from another site is refused: by `Origin`, which browsers send with whatever changes something, and by `Sec-Fetch-Site`. What
  changes something must also be JSON and have the header `X-Kafkalite-Console`, which a page of another site cannot send unasked.
- With a login every request needs it. Bound elsewhere than to this machine alone there has to be one.
- With `--read-only` nothing that changes anything is served.
"""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kafkalite.net.login import Login

HEADER: Final = "x-kafkalite-console"
REFUSAL_DELAY_S: Final = 0.3
"""Delay before an authentication failure is sent, in seconds."""
MOST_BODY_BYTES: Final = 8 * 1024 * 1024
_SAFE_METHODS: Final = ("GET", "HEAD")
_LOOPBACK_NAMES: Final = ("localhost",)
_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # Nothing may come from elsewhere or run inline, so that nothing in a topic can become a program.
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
)


def is_loopback(host: str) -> bool:
    """True if only this machine reaches sockets that are bound to `host`."""
    if host in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a request is refused."""

    status: HTTPStatus
    text: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules for requests. `names` are allowed hosts besides addresses and localhost."""

    names: Collection[str] = ()
    login: Login | None = None
    read_only: bool = False

    def refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Return the refusal of a request, None for an allowed one."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, f"{host!r} is no name of this console; see --name")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return Refusal(HTTPStatus.FORBIDDEN, "a page of another site asks")
        follows_link = headers.get("sec-fetch-mode") == "navigate" and method in _SAFE_METHODS
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and not follows_link:
            return Refusal(HTTPStatus.FORBIDDEN, "a page of another site asks")
        if self.login is not None and not self.login.admits(headers.get("authorization", "").encode("latin-1")):
            return Refusal(
                HTTPStatus.UNAUTHORIZED, "it needs a login; reload the page, and give the name and the password"
            )
        return None if method in _SAFE_METHODS else self._refusal_of_change(method, headers)

    def _refusal_of_change(self, method: str, headers: Headers) -> Refusal | None:
        if method != "POST":
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not served")
        if HEADER not in headers or headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return Refusal(HTTPStatus.FORBIDDEN, f"changes are JSON, with the header {HEADER}")
        if self.read_only:
            return Refusal(HTTPStatus.FORBIDDEN, "this console only reads (--read-only)")
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BODY_BYTES:
            return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BODY_BYTES} bytes")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {*_LOOPBACK_NAMES, *(each.lower() for each in self.names)}
        return True  # nobody can have an address lead elsewhere


class Guard:
    """Applies `Access` before the application, and adds the headers that confine a page to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def send_confined(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS:
                    headers[name] = value
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._access.refusal(scope["method"], headers)
        if refusal is None:
            await self._app(scope, receive, send_confined)
            return
        extra = {}
        if refusal.status is HTTPStatus.UNAUTHORIZED:
            extra = {"WWW-Authenticate": 'Basic realm="kafkalite console", charset="UTF-8"'}
            if "authorization" in headers:
                await asyncio.sleep(REFUSAL_DELAY_S)
        response = _refusal_response(refusal, headers, extra)
        await response(scope, receive, send_confined)


def _refusal_response(refusal: Refusal, headers: Headers, extra: dict[str, str]) -> Response:
    """Return JSON for the page's scripts, and the sentence alone for a person who opens an address in the browser."""
    if "text/html" in headers.get("accept", ""):
        return PlainTextResponse(f"kafkalite console: {refusal.text}\n", refusal.status, extra)
    return JSONResponse({"error": refusal.text}, refusal.status, extra)
