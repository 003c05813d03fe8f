"""Lineage events to a file, a line each, or to an endpoint as Marquez has it. After one that cannot be delivered no other is tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from spark_jobs.observation.http_request import send_request
from spark_jobs.observation.lineage import DEFAULT_NAMESPACE, Lineage, LineagePlace, parse_parent
from spark_jobs.observation.run_summary import without_login

ENDPOINT: Final = "api/v1/lineage"

Tell = Callable[[str], None]


def open_lineage(
    target: str | None, place: LineagePlace, now_ms: Callable[[], int], tell: Tell, environment: Mapping[str, str]
) -> Lineage | None:
    """Return what emits events to `target`, or where the variables OPENLINEAGE_… of OpenLineage's clients say; None for nowhere."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    url = _url_of(target, environment)
    if url is None and target is None:
        return None
    key = environment.get("OPENLINEAGE_API_KEY", "")
    emit = _FileSink(Path(target or ""), tell) if url is None else _HttpSink(url, key, tell)
    named = replace(
        place,
        namespace=environment.get("OPENLINEAGE_NAMESPACE") or DEFAULT_NAMESPACE,
        parent=parse_parent(environment.get("OPENLINEAGE_PARENT_ID", "")),
    )
    return Lineage(named, emit, now_ms)


def _url_of(target: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the URL that events are sent to; None for a file, or for nowhere. A URL of only a server gets the endpoint's path."""
    endpoint = environment.get("OPENLINEAGE_ENDPOINT") or ENDPOINT
    if target is None:
        base = environment.get("OPENLINEAGE_URL")
        return f"{base.rstrip('/')}/{endpoint.lstrip('/')}" if base else None
    if not target.startswith(("http://", "https://")):
        return None
    return target if urlsplit(target).path.strip("/") else f"{target.rstrip('/')}/{endpoint.lstrip('/')}"


class _FileSink:
    """Appends events, so that several runs can have one file."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path, self._tell = path, tell
        self._works = True

    def __call__(self, event: Mapping[str, Any]) -> None:
        if not self._works:
            return
        try:
            with self._path.open("ab") as file:
                file.write(json.dumps(event).encode() + b"\n")
        except OSError as problem:
            self._works = False
            self._tell(f"warning: lineage is not written to {self._path}: {problem.strerror or problem}")


class _HttpSink:
    """Sends each event by itself, as OpenLineage's clients do."""

    def __init__(self, url: str, api_key: str, tell: Tell) -> None:
        self._url, self._tell = url, tell
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._works = True

    def __call__(self, event: Mapping[str, Any]) -> None:
        if not self._works:
            return
        problem = send_request("POST", self._url, json.dumps(event).encode(), self._headers)
        if problem is not None:
            self._works = False
            self._tell(f"warning: lineage is not sent to {without_login(self._url)} any more: {problem}")
