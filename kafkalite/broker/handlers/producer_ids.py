"""InitProducerId (22): a producer id for idempotence. AllocateProducerIds (67): a block of them, from the controller to a broker.

- InitProducerId 2 flexible; 3 producer id and epoch of a producer that goes on (KIP-360), for which a new id is handed out, as Kafka does
  without a transactional id.
- Not done: transactional ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.producer_ids import ProducerIds
    from kafkalite.types import BrokerId
    from zk.znodes import ProducerIdBlock


class Controller(Protocol):
    """What is asked of the controller."""

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock: ...


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def controller(self) -> Controller: ...


async def init_producer_id(
    parts: Parts, request: messages.init_producer_id_request.InitProducerIdRequest, context: RequestContext
) -> messages.init_producer_id_response.InitProducerIdResponse:
    """A fresh producer id with epoch 0."""
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if request.transactional_id == "" else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise KafkaError(code, "transactions are not served")
    producer_id = await parts.producer_ids.next()
    return messages.init_producer_id_response.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def allocate_producer_ids(
    parts: Parts, request: messages.allocate_producer_ids_request.AllocateProducerIdsRequest, context: RequestContext
) -> messages.allocate_producer_ids_response.AllocateProducerIdsResponse:
    """The next block, written to ZooKeeper."""
    block = await parts.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return messages.allocate_producer_ids_response.AllocateProducerIdsResponse(
        producer_id_start=block.first_producer_id,
        producer_id_len=block.last_producer_id - block.first_producer_id + 1,
    )


APIS: Final = (
    served(
        ApiKey.INIT_PRODUCER_ID,
        0,
        5,
        init_producer_id,
        Permission(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        Permission(Operation.WRITE, ResourceType.TOPIC),
        Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    ),
    served(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        0,
        0,
        allocate_producer_ids,
        Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
