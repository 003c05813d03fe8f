"""Requests about znodes that may be absent, and about ancestors and subtrees, none of which is atomic."""

from __future__ import annotations

from zk import paths
from zk.store import ANY_VERSION, NodeExistsError, NoNodeError, NotEmptyError, Stat, Store, Watcher


async def read_if_there(store: Store, path: str) -> tuple[bytes, Stat] | None:
    """Return data and stat of a znode, None when it is absent."""
    try:
        return await store.read(path)
    except NoNodeError:
        return None


async def read_or_watch(store: Store, path: str, watcher: Watcher | None) -> tuple[bytes, Stat] | None:
    """Return data and stat of a znode, None when it is absent; the watch fires at any change, also a creation."""
    while True:
        try:
            return await store.read(path, watcher)
        except NoNodeError:
            if await store.exists(path, watcher) is None:
                return None


async def list_children(store: Store, path: str) -> list[str]:
    """Return the sorted names of the children; none of a znode that is absent."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def delete_if_there(store: Store, path: str, version: int = ANY_VERSION) -> None:
    try:
        await store.delete(path, version)
    except NoNodeError:
        pass


async def create_ancestors(store: Store, path: str) -> None:
    """Create the missing ancestors of `path` as persistent, empty znodes."""
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
    """Return `path` and all paths below it, parents before children; none when it is absent."""
    try:
        names = await store.children(path)
    except NoNodeError:
        return []
    found = [path]
    for name in names:
        found += await list_subtree(store, paths.child(path, name))
    return found


async def delete_subtree(store: Store, path: str) -> None:
    """Delete `path`, if it exists, and all znodes below it, also those created meanwhile."""
    while True:
        try:
            for found in reversed(await list_subtree(store, path)):
                await delete_if_there(store, found)
            return
        except NotEmptyError:
            continue
