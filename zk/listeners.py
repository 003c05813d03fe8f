"""Calling other people's callbacks: one that fails is logged and keeps nobody else from being called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

logger = logging.getLogger(__name__)
T = TypeVar("T")


def notify(callbacks: Iterable[Callable[[T], object]], argument: T) -> None:
    """Call each of `callbacks`, as they were at the start, with `argument`."""
    for callback in list(callbacks):
        try:
            callback(argument)
        except Exception:
            logger.exception("a listener failed on %s", argument)
