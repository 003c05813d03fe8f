"""The admin client's options, their defaults and what they may be."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.client.options import ConnectionOptions


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ConnectionOptions):
    """Options of `Admin` and `SyncAdmin`: those of `ConnectionOptions`, and

    - `default_api_timeout_ms` bounds a whole call with its retries.
    """

    client_id: str | None = "kafkalite-admin"
    default_api_timeout_ms: int = 60_000
