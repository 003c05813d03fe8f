"""Asks an ASGI application without sockets."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Scope

HOST = "127.0.0.1:8980"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: ASGIApp, target: str, body: Any = None, *, method: str | None = None, **headers: str) -> Answer:
    """GET, or POST with a JSON body; underscores in names of headers stand for hyphens. A header of "" is left away."""
    path, _, query = target.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    given = {"host": HOST}
    if body is not None:
        given |= {
            "content-type": "application/json",
            "content-length": str(len(content)),
            "x-kafkalite-console": "1",
            "origin": f"http://{HOST}",
        }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method or ("GET" if body is None else "POST"),
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8980),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]))
