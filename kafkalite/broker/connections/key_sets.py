"""Reads the keys of bearer tokens from sasl.oauthbearer.jwks.endpoint.url, a file or HTTPS, which only the operator names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_LONGEST_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 10.0


def fetcher(url: str) -> Callable[[], Awaitable[bytes]]:
    """Return a function that reads the key set at `url`. ValueError if it is neither a file nor HTTPS."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc:
        read: Callable[[], bytes] = lambda: _read_file(unquote(parts.path))  # noqa: E731  (as the other one)
    elif parts.scheme == "https" and parts.netloc:
        read = lambda: _fetch_url(url)  # noqa: E731
    else:
        raise ValueError(f"{url!r} must begin with https:// or file:///")
    return lambda: asyncio.to_thread(read)


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_LONGEST_BYTES)


def _fetch_url(url: str) -> bytes:
    from urllib.request import HTTPRedirectHandler, build_opener

    class OnlySecured(HTTPRedirectHandler):
        """Follows no redirection to a server that is not authenticated."""

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            if not newurl.lower().startswith("https://"):
                raise OSError(f"redirected to {newurl}")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    with build_opener(OnlySecured).open(url, timeout=_TIMEOUT_S) as response:
        content: bytes = response.read(_LONGEST_BYTES)
        return content
