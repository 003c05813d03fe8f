"""Blocks of producer ids that the controller allocates to brokers (KIP-730)."""

from __future__ import annotations

from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.steps import Steps, read, write
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import BrokerId
from zk import paths
from zk.producer_ids import ProducerIdsExhaustedError, next_block
from zk.store import BadVersionError, Create, StoreError, Write
from zk.znodes import MalformedZnodeError, ProducerIdBlock


def allocate_producer_ids(cluster: ClusterState, broker_id: BrokerId, broker_epoch: int) -> Steps[ProducerIdBlock]:
    """Allocate the next block to a broker; brokers below KIP-730 may allocate blocks themselves at the same time.

    Raises KafkaError BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR when all ids are used up.
    """
    known = cluster.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker_epoch != known.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    while True:
        (znode,) = yield from read((paths.PRODUCER_ID_BLOCK,))
        if znode is None:
            yield from write((Create(paths.PRODUCER_ID_BLOCK),))
            continue
        data, stat = znode
        try:
            block = next_block(ProducerIdBlock.decode(data), broker_id)
        except (ProducerIdsExhaustedError, MalformedZnodeError) as problem:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from problem
        (result,) = yield from write((Write(paths.PRODUCER_ID_BLOCK, block.encode(), stat.version),))
        if not isinstance(result, StoreError):
            return block
        if not isinstance(result, BadVersionError):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer id block not written: {result!r}")
