"""One HTTP request of a run that tells of itself: short of time, and with a problem as text instead of an error."""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

TIMEOUT_S: Final = 10.0
_SHOWN_BYTES: Final = 200


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the request into a GET, whose success says nothing."""

    def redirect_request(self, *_: object) -> None:
        return None


def send_request(
    method: str, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S
) -> str | None:
    """Return what went wrong, None for nothing. User and password in the URL become basic authentication."""
    try:
        bare, login = _split_login(url)
        request = urllib.request.Request(bare, body, {**login, **headers}, method=method)
        if request.type not in ("http", "https"):
            return f"{bare} is no URL like http://host:9091"
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as problem:
        with problem:
            said = problem.read(_SHOWN_BYTES).decode("utf-8", "replace").strip()
        return f"HTTP {problem.code} {problem.reason}" + (f": {said}" if said else "")
    except urllib.error.URLError as problem:
        return str(problem.reason)
    except (OSError, ValueError, http.client.HTTPException) as problem:
        return str(problem) or type(problem).__name__


def _split_login(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    user, _, password = login.partition(":")
    text = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {text}"}
