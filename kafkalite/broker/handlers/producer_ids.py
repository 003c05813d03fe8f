"""InitProducerId (22): a producer id for idempotence. AllocateProducerIds (67): a block of them, from the controller to a broker.

- InitProducerId 2 flexible; 3 producer id and epoch of a producer that goes on (KIP-360), for which a new id is handed out, as Kafka does
  without a transactional id.
- Not done: transactional ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext


async def init_producer_id(
    broker: Broker, request: messages.init_producer_id_request.InitProducerIdRequest, context: RequestContext
) -> messages.init_producer_id_response.InitProducerIdResponse:
    """A fresh producer id with epoch 0."""
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if request.transactional_id == "" else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise KafkaError(code, "transactions are not served")
    producer_id = await broker.producer_ids.next()
    return messages.init_producer_id_response.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def allocate_producer_ids(
    broker: Broker, request: messages.allocate_producer_ids_request.AllocateProducerIdsRequest, context: RequestContext
) -> messages.allocate_producer_ids_response.AllocateProducerIdsResponse:
    """The next block, written to ZooKeeper."""
    block = await broker.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return messages.allocate_producer_ids_response.AllocateProducerIdsResponse(
        producer_id_start=block.first_producer_id,
        producer_id_len=block.last_producer_id - block.first_producer_id + 1,
    )
