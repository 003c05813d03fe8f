"""Notification znodes: sequential children that brokers create for the controller, which deletes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from kafkalite.controller.steps import Steps, list_children, read, write
from zk import paths
from zk.store import Delete
from zk.znodes import MalformedZnodeError

logger = logging.getLogger(__name__)

T = TypeVar("T")


def read_notifications(parent: str, decode: Callable[[bytes], T]) -> Steps[tuple[list[str], list[T]]]:
    """Watch `parent` and return its children's paths and their contents; unreadable ones are logged and left out."""
    names = yield from list_children(parent, watch=True)
    notified = [paths.child(parent, name) for name in sorted(names)]
    contents: list[T] = []
    for path, znode in zip(notified, (yield from read(notified)), strict=True):
        try:
            if znode is not None:
                contents.append(decode(znode[0]))
        except MalformedZnodeError as problem:
            logger.error("%s is ignored: %s", path, problem)
    return notified, contents


def delete_notifications(parent: str) -> Steps[None]:
    """Watch `parent` and delete its children unread."""
    names = yield from list_children(parent, watch=True)
    yield from write([Delete(paths.child(parent, name)) for name in names])
