"""Where the keys of bearer tokens come from: sasl.oauthbearer.jwks.endpoint.url, a file or HTTPS. Nobody but the operator names it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_LONGEST_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 10.0


def fetcher(url: str) -> Callable[[], Awaitable[bytes]]:
    """What reads the key set at `url`. ValueError for a place that is neither a file nor reached by HTTPS."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc:
        read: Callable[[], bytes] = lambda: _from_file(unquote(parts.path))  # noqa: E731  (as the other one)
    elif parts.scheme == "https" and parts.netloc:
        read = lambda: _from_web(url)  # noqa: E731
    else:
        raise ValueError(f"{url!r} must begin with https:// or file:///")
    return lambda: asyncio.to_thread(read)


def _from_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_LONGEST_BYTES)


def _from_web(url: str) -> bytes:
    from urllib.request import HTTPRedirectHandler, build_opener

    class OnlySecured(HTTPRedirectHandler):
        """Follows no redirection to where anybody could answer."""

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            if not newurl.lower().startswith("https://"):
                raise OSError(f"redirected to {newurl}")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    with build_opener(OnlySecured).open(url, timeout=_TIMEOUT_S) as response:
        content: bytes = response.read(_LONGEST_BYTES)
        return content
