"""Top-level paths, cluster id and generated broker ids, which brokers create at their start."""

from __future__ import annotations

import asyncio

from zk import paths
from zk.store import NodeExistsError, NoNodeError, Store
from zk.subtree import ensure_path, read_if_there
from zk.znodes import ClusterId

RESERVED_BROKER_MAX_ID = 1000
"""Default of `reserved.broker.max.id`: generated broker ids are above it."""


async def create_top_level(store: Store) -> None:
    """Create the persistent paths that are missing; several brokers may do so at once."""
    await asyncio.gather(*(ensure_path(store, path) for path in paths.PERSISTENT))


async def read_or_create_cluster_id(store: Store, proposed: str) -> str:
    """Return the cluster's id, or create it as `proposed` (22 characters of URL-safe base64).

    Raises MalformedZnodeError.
    """
    cluster_id = await read_cluster_id(store)
    if cluster_id is not None:
        return cluster_id
    try:
        await store.create(paths.CLUSTER_ID, ClusterId(proposed).encode(), parents=True)
        return proposed
    except NodeExistsError:
        data, _ = await store.read(paths.CLUSTER_ID)
        return ClusterId.decode(data).cluster_id


async def read_cluster_id(store: Store) -> str | None:
    """Return the cluster's id, None before the first broker was started. Raises MalformedZnodeError."""
    found = await read_if_there(store, paths.CLUSTER_ID)
    return None if found is None else ClusterId.decode(found[0]).cluster_id


async def generate_broker_id(store: Store, reserved_broker_max_id: int = RESERVED_BROKER_MAX_ID) -> int:
    """Generate a unique broker id (`broker.id.generation.enable`), starting with 1001.

    It is the version of `/brokers/seqid` after a write; a write whose reply is lost skips one.
    """
    while True:
        try:
            stat = await store.write(paths.BROKER_SEQUENCE, b"")
            return reserved_broker_max_id + stat.version
        except NoNodeError:
            await ensure_path(store, paths.BROKER_SEQUENCE)
