"""A registry's responses over HTTP, by path."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def http_registry(
    paths: Mapping[str, Any],
    user_info: str | None = None,
    posted: list[tuple[str, Any]] | None = None,
    answers: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Serve JSON by path, or 302 to what a text says; 401 without the user info. Yields the URL.

    What is posted goes to `posted`, and is answered by `answers`: JSON, or a status and JSON.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = paths.get(self.path)
            allowed = f"Basic {base64.b64encode((user_info or '').encode()).decode()}"
            if user_info is not None and self.headers.get("Authorization") != allowed:
                self._reply(401, b"")
            elif isinstance(found, str):
                self._reply(302, b"", Location=found)
            elif found is None:
                self._reply(404, b"")
            else:
                self._reply(200, json.dumps(found).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert posted is not None
            posted.append((self.path, json.loads(body)))
            found = (answers or {}).get(self.path, (404, {}))
            status, answer = found if isinstance(found, tuple) else (200, found)
            self._reply(status, json.dumps(answer).encode())

        def _reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
