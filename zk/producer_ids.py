"""Blocks of producer ids, allocated by conditional writes of `/latest_producer_id_block` (KIP-98, KIP-730)."""

from __future__ import annotations

from zk import paths
from zk.store import BadVersionError, NoNodeError, Store
from zk.subtree import ensure_path
from zk.znodes import ProducerIdBlock

BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = 2**63 - 1


class ProducerIdsExhaustedError(Exception):
    """Raised when no whole block is left below 2**63."""


async def allocate_block(store: Store, broker_id: int) -> ProducerIdBlock:
    """Allocate the next block to `broker_id`; no two calls get the same.

    A write that meets another version may be its own, sent twice because the reply was lost. That cannot be told from a rival
    that computed the same block for the same broker, so the next block is allocated: a gap is harmless. Raises
    ProducerIdsExhaustedError, MalformedZnodeError.
    """
    while True:
        try:
            data, stat = await store.read(paths.PRODUCER_ID_BLOCK)
        except NoNodeError:
            await ensure_path(store, paths.PRODUCER_ID_BLOCK)
            continue
        block = next_block(ProducerIdBlock.decode(data), broker_id)
        try:
            await store.write(paths.PRODUCER_ID_BLOCK, block.encode(), stat.version)
            return block
        except BadVersionError:
            continue


def next_block(latest: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock:
    """Return the block after `latest`. Raises ProducerIdsExhaustedError."""
    first = 0 if latest is None else latest.last_producer_id + 1
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE + 1:
        raise ProducerIdsExhaustedError(f"the last block ended at {first - 1}")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
