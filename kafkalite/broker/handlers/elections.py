"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): carried out by the controller.

- ElectLeaders 0 preferred only; 1 unclean too (KIP-460); 2 flexible. The handler waits until this broker's metadata shows the leaders.
- A reassignment has begun, not ended, when it is answered (KIP-455).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext
    from kafkalite.protocol import messages


async def elect_leaders(
    broker: Broker, request: messages.elect_leaders_request.ElectLeadersRequest, context: RequestContext
) -> messages.elect_leaders_response.ElectLeadersResponse:
    """Elect, then wait until the elected leaders are known here or the request's timeout has passed."""
    reply = await broker.controller.elect_leaders(request)
    elected = [
        TopicPartition(topic.topic, result.partition_id)
        for topic in reply.replica_election_results
        for result in topic.partition_result
        if result.error_code == ErrorCode.NONE
    ]

    def known() -> bool:
        return all((found := broker.metadata.partition(tp)) is not None and found.leader >= 0 for tp in elected)

    await broker.metadata.wait_until(known, request.timeout_ms / 1000)
    return reply


async def alter_partition_reassignments(
    broker: Broker,
    request: messages.alter_partition_reassignments_request.AlterPartitionReassignmentsRequest,
    context: RequestContext,
) -> messages.alter_partition_reassignments_response.AlterPartitionReassignmentsResponse:
    """Begin, replace or cancel moves of replicas."""
    return await broker.controller.alter_partition_reassignments(request)


async def list_partition_reassignments(
    broker: Broker,
    request: messages.list_partition_reassignments_request.ListPartitionReassignmentsRequest,
    context: RequestContext,
) -> messages.list_partition_reassignments_response.ListPartitionReassignmentsResponse:
    """The moves that are going on."""
    return await broker.controller.list_partition_reassignments(request)
