"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): groups of KIP-848, refused with UNSUPPORTED_VERSION, as Kafka with ZooKeeper.

They are advertised, as Kafka 3.9 advertises them: its admin client asks for such a group first, and for a classic one then.
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey


def consumer_group_heartbeat(
    parts: object, request: messages.ConsumerGroupHeartbeatRequest, context: RequestContext
) -> messages.ConsumerGroupHeartbeatResponse:
    """Refuse with UNSUPPORTED_VERSION."""
    m = messages.consumer_group_heartbeat_response
    return m.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


@run_in_portions
def consumer_group_describe(
    parts: object, request: messages.ConsumerGroupDescribeRequest, context: RequestContext
) -> Work[messages.ConsumerGroupDescribeResponse]:
    """Refuse each group with UNSUPPORTED_VERSION."""
    m = messages.consumer_group_describe_response
    groups = []
    for group_id in request.group_ids:
        yield
        groups.append(m.DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION))
    return m.ConsumerGroupDescribeResponse(groups=groups)


APIS: Final = (
    serve_api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 0, consumer_group_heartbeat),
    serve_api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 0, consumer_group_describe, failure=FailedItems()),
)
