"""InitProducerId (22): a producer's id and epoch. AllocateProducerIds (67): a block of ids, from the controller to a broker.

- InitProducerId 2 flexible; 3 producer id and epoch of a producer that goes on (KIP-360), for which a new id is handed out, as Kafka does
  without a transactional id; 4 knows PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH.
- With a transactional id it is the coordinator's: the epoch grows, so that whoever had the id before is fenced.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import (
    CLUSTER_ACTION,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Operation,
    Permission,
    ResourceType,
)
from kafkalite.broker.parts import HasConfig, HasTransactions
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Judged
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.coordinators.transaction.requests import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerId,
    InitProducerIdReply,
    ProducerIdAndEpoch,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.leadership_proof import LeadershipProof
    from kafkalite.broker.coordination.producer_ids import ProducerIds
    from kafkalite.types import BrokerId
    from zk.znodes import ProducerIdBlock


_FENCED_FROM: Final = 4


class Controller(Protocol):
    """The controller, as these handlers use it."""

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock: ...


class Parts(HasConfig, HasTransactions, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def controller(self) -> Controller: ...

    @property
    def leadership(self) -> LeadershipProof: ...


async def init_producer_id(
    parts: Parts, request: messages.InitProducerIdRequest, context: RequestContext
) -> messages.InitProducerIdResponse:
    """Return the producer's id and epoch; without a transactional id a fresh id with epoch 0."""
    m = messages.init_producer_id_response
    transactional_id, expected = request.transactional_id, _read_expected(request)
    if transactional_id is None:
        return m.InitProducerIdResponse(producer_id=await parts.producer_ids.next(), producer_epoch=0)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if not 0 < request.transaction_timeout_ms <= parts.config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{request.transaction_timeout_ms} ms")
    reply = await _init_with_coordinator(
        parts, InitProducerId(transactional_id, request.transaction_timeout_ms, expected)
    )
    code = reply.error
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return m.InitProducerIdResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)


def _read_expected(request: messages.InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """Return the id and epoch of a producer that goes on, None for a new one. Raises KafkaError INVALID_REQUEST for half of it."""
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if expected == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH):
        return None
    if expected.producer_id == NO_PRODUCER_ID or expected.producer_epoch == NO_PRODUCER_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    return expected


async def _init_with_coordinator(parts: Parts, wanted: InitProducerId) -> InitProducerIdReply:
    """Ask the coordinator, again with a fresh producer id if it needs one. Raises KafkaError."""
    place = TopicPartition(TRANSACTIONS_TOPIC, parts.transactions.partition_for(wanted.transactional_id))
    while True:
        reply = parts.transactions.submit(wanted.transactional_id, wanted, lambda reply: reply)
        reply = parts.leadership.confirm(place, reply)
        if isinstance(reply, asyncio.Future):
            reply = await reply
        answer: InitProducerIdReply = reply
        if not answer.needs_producer_id:
            return answer
        wanted = wanted._replace(fresh_producer_id=await parts.producer_ids.next())


async def allocate_producer_ids(
    parts: Parts, request: messages.AllocateProducerIdsRequest, context: RequestContext
) -> messages.AllocateProducerIdsResponse:
    """Return the next block of ids, which is written to ZooKeeper."""
    block = await parts.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return messages.AllocateProducerIdsResponse(
        producer_id_start=block.first_producer_id,
        producer_id_len=block.last_producer_id - block.first_producer_id + 1,
    )


_IDEMPOTENT_WRITE: Final = Permission(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _guard(
    parts: object, request: messages.InitProducerIdRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Require permission for the transactional id; without one IDEMPOTENT_WRITE, or WRITE of any topic (KIP-679)."""
    yield
    if request.transactional_id is not None:
        context.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    elif not context.may(_IDEMPOTENT_WRITE, is_asked=False) and not context.may_some(WRITE_TOPIC):
        context.require(_IDEMPOTENT_WRITE)
    return Judged(request)


APIS: Final = (
    serve_api(
        ApiKey.INIT_PRODUCER_ID,
        0,
        5,
        init_producer_id,
        failure=FailedItems(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH),
        guard=_guard,
    ),
    serve_api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, allocate_producer_ids, CLUSTER_ACTION),
)
