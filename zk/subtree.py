"""Creation of ancestors, listing and deletion of subtrees; none of these is atomic."""

from __future__ import annotations

from zk import paths
from zk.store import NodeExistsError, NoNodeError, NotEmptyError, Store


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
                await _delete_if_there(store, found)
            return
        except NotEmptyError:
            continue


async def _delete_if_there(store: Store, path: str) -> None:
    try:
        await store.delete(path)
    except NoNodeError:
        pass
