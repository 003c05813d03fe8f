"""More than one znode at a time: what is above a path, created; what is below it, listed or deleted.

None of these is atomic: znodes that others create or delete meanwhile are taken as they come.
"""

from __future__ import annotations

from zk import paths
from zk.store import NodeExistsError, NoNodeError, NotEmptyError, Store


async def create_ancestors(store: Store, path: str) -> None:
    """Create the persistent, empty znodes that must exist before `path` can be created."""
    for ancestor in paths.ancestors(path):
        try:
            await store.create(ancestor)
        except NodeExistsError:
            pass


async def ensure_path(store: Store, path: str) -> None:
    """Create a persistent, empty znode and its ancestors where they are missing."""
    try:
        await store.create(path, parents=True)
    except NodeExistsError:
        pass


async def list_subtree(store: Store, path: str) -> list[str]:
    """`path` and everything below it, parents before children; empty when it is absent."""
    try:
        names = await store.children(path)
    except NoNodeError:
        return []
    found = [path]
    for name in names:
        found += await list_subtree(store, paths.child(path, name))
    return found


async def delete_subtree(store: Store, path: str) -> None:
    """Delete `path` and everything below it, also what appears there meanwhile; absent is fine."""
    while True:
        try:
            for found in reversed(await list_subtree(store, path)):
                await _delete_if_there(store, found)
            return
        except NotEmptyError:
            continue


async def _delete_if_there(store: Store, path: str) -> None:
    try:
        await store.delete(path)
    except NoNodeError:
        pass
