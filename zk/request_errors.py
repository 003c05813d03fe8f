"""Errors of requests to real servers, and when a request is taken for the reason of a lost connection."""

from __future__ import annotations

import math
from typing import Final

from zk.size_limits import ENSEMBLE_BYTES
from zk.store import StoreError

MAX_REQUEST_BYTES: Final = ENSEMBLE_BYTES
"""Largest request that is sent unless the servers' jute.maxbuffer is known. One with its own default refuses more than 1 MiB by closing the
connection."""

_SUSPECT_REQUEST_BYTES: Final = 1_000_000
_MAX_LOSSES_OF_SUSPECT: Final = 3


class ConnectionBrokenError(StoreError):
    """Raised when the connection broke as often as a request allows, so that the request may be the reason."""

    def __init__(self, path: str, losses: int, size_bytes: int) -> None:
        text = f"the connection broke {losses} times on a request of {size_bytes} bytes; "
        super().__init__(path, text + "is the servers' jute.maxbuffer large enough?")


class TooLargeError(StoreError):
    """Raised for a request that no server takes; it is not sent."""

    def __init__(self, path: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(path, f"a request of {size_bytes} bytes is above the limit of {limit_bytes} (jute.maxbuffer)")


class UnknownRequestError(StoreError):
    """Raised when the server does not know a request's type or cannot decode it."""


def most_losses(size_bytes: int) -> float:
    """Return the lost connections after which a request fails: 3 if it is nearly as large as a server takes, else no number of them."""
    return _MAX_LOSSES_OF_SUSPECT if size_bytes > _SUSPECT_REQUEST_BYTES else math.inf
