"""JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14): members of consumer groups, served by the group's coordinator.

- JoinGroup 1 rebalance timeout; 4 member ids are handed out first (KIP-394); 5 static members (KIP-345); 7 protocol type; 8 reason;
  9 skip_assignment (KIP-814). Parked until the join phase ends.
- SyncGroup 3 static members; 5 protocol type and name, which must be given and right (KIP-559). Parked until the leader's assignment
  is stored.
- Heartbeat 3 static members. LeaveGroup 3 several members, also by instance id; 5 reason.
- Not as Kafka: a member that names more than a thousand protocols (real ones name two) gets INCONSISTENT_GROUP_PROTOCOL.
- While the group is loading, Heartbeat is answered with NONE and SyncGroup with REBALANCE_IN_PROGRESS, so that members stay calm.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import READ_GROUP
from kafkalite.broker.parts import HasGroups
from kafkalite.broker.requests.guards import Whole
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.coordinators.group.requests import (
    NO_MEMBER_ID,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    LeavingMember,
    Sync,
    SyncReply,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    import random


_MEMBER_ID_FIRST_FROM = 4
_NULLABLE_PROTOCOL_FROM = 7
_PROTOCOL_NAMED_FROM = 5
_SKIP_ASSIGNMENT_FROM = 9
_PROTOCOLS_MAX: Final = 1000
_MEMBERS_AT_ONCE: Final = 500
"""Of a LeaveGroup or SyncGroup; more are looked at in portions."""


class Parts(HasGroups, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def rng(self) -> random.Random: ...


def require_group_id(group_id: str) -> None:
    """Raise KafkaError INVALID_GROUP_ID for the empty id, which only consumers without a group may use."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")


def join_group(
    parts: Parts, request: messages.JoinGroupRequest, context: RequestContext
) -> messages.JoinGroupResponse | asyncio.Future[messages.JoinGroupResponse]:
    """Return the generation that the member joined, for the leader with the members."""
    shape = partial(_make_join_response, context.api_version)
    if len(request.protocols) > _PROTOCOLS_MAX:
        return shape(JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
    timeout_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms
    wanted = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[(each.name, bytes(each.metadata)) for each in request.protocols],
        fresh_id=_fresh_id(parts) if request.member_id == NO_MEMBER_ID else "",
        requires_member_id=context.api_version >= _MEMBER_ID_FIRST_FROM,
        skips_assignment=context.api_version >= _SKIP_ASSIGNMENT_FROM,
    )
    try:
        require_group_id(request.group_id)
        return parts.groups.submit(request.group_id, wanted, shape)
    except KafkaError as problem:
        return shape(JoinReply(problem.code, request.member_id))


def _fresh_id(parts: Parts) -> str:
    return str(uuid.UUID(bytes=parts.rng.randbytes(16), version=4))


def _make_join_response(version: int, reply: JoinReply) -> messages.JoinGroupResponse:
    m = messages.join_group_response
    return m.JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol if version >= _NULLABLE_PROTOCOL_FROM else reply.protocol or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            m.JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in reply.members
        ],
    )


def sync_group(
    parts: Parts, request: messages.SyncGroupRequest, context: RequestContext
) -> messages.SyncGroupResponse | asyncio.Future[messages.SyncGroupResponse]:
    """Return the assignment of the member."""
    if context.api_version >= _PROTOCOL_NAMED_FROM and None in (request.protocol_type, request.protocol_name):
        return _make_sync_response(SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if len(request.assignments) > _MEMBERS_AT_ONCE:
        return asyncio.ensure_future(_sync_many(parts, request, context))
    return _submit_sync(parts, request, {each.member_id: bytes(each.assignment) for each in request.assignments})


async def _sync_many(
    parts: Parts, request: messages.SyncGroupRequest, context: RequestContext
) -> messages.SyncGroupResponse:
    outcome = _submit_sync(parts, request, await context.portions.finish(_collect_assignments(request)))
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def _collect_assignments(request: messages.SyncGroupRequest) -> Work[dict[str, bytes]]:
    assignments = {}
    for each in request.assignments:
        yield
        assignments[each.member_id] = bytes(each.assignment)
    return assignments


def _submit_sync(
    parts: Parts, request: messages.SyncGroupRequest, assignments: dict[str, bytes]
) -> messages.SyncGroupResponse | asyncio.Future[messages.SyncGroupResponse]:
    wanted = Sync(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        assignments,
    )
    try:
        require_group_id(request.group_id)
        return parts.groups.submit(request.group_id, wanted, _make_sync_response)
    except KafkaError as problem:
        is_loading = problem.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return _make_sync_response(SyncReply(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else problem.code))


def _make_sync_response(reply: SyncReply) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )


def heartbeat(
    parts: Parts, request: messages.HeartbeatRequest, context: RequestContext
) -> messages.HeartbeatResponse | asyncio.Future[messages.HeartbeatResponse]:
    """Return REBALANCE_IN_PROGRESS if the member has to rejoin."""
    wanted = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    try:
        require_group_id(request.group_id)
        return parts.groups.submit(request.group_id, wanted, _make_heartbeat_response)
    except KafkaError as problem:
        is_loading = problem.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return _make_heartbeat_response(ErrorCode.NONE if is_loading else problem.code)


def _make_heartbeat_response(code: ErrorCode) -> messages.HeartbeatResponse:
    return messages.HeartbeatResponse(error_code=code)


def leave_group(
    parts: Parts, request: messages.LeaveGroupRequest, context: RequestContext
) -> messages.LeaveGroupResponse | asyncio.Future[messages.LeaveGroupResponse]:
    """Return the outcome for each member; before version 3 there is one, whose error is the request's."""
    if len(request.members) > _MEMBERS_AT_ONCE:
        return asyncio.ensure_future(_leave_many(parts, request, context))
    shape = partial(_make_leave_response, request.members)
    members = [LeavingMember(each.member_id, each.group_instance_id) for each in request.members]
    try:
        require_group_id(request.group_id)
        return parts.groups.submit(request.group_id, Leave(request.group_id, members), shape)
    except KafkaError as problem:
        return shape(LeaveReply(problem.code))


async def _leave_many(
    parts: Parts, request: messages.LeaveGroupRequest, context: RequestContext
) -> messages.LeaveGroupResponse:
    """Remove some members after the others; an error of the group fails the request."""
    require_group_id(request.group_id)
    pace = context.portions.pace()
    answer = messages.LeaveGroupResponse()
    for first in range(0, len(request.members), _MEMBERS_AT_ONCE):
        await pace.unit(_MEMBERS_AT_ONCE)
        some = request.members[first : first + _MEMBERS_AT_ONCE]
        wanted = Leave(request.group_id, [LeavingMember(each.member_id, each.group_instance_id) for each in some])
        outcome = parts.groups.submit(request.group_id, wanted, partial(_make_leave_response, some))
        of_some = await outcome if isinstance(outcome, asyncio.Future) else outcome
        if of_some.error_code:
            return of_some
        answer.members += of_some.members
    return answer


def _make_leave_response(
    members: Sequence[messages.leave_group_request.MemberIdentity], reply: LeaveReply
) -> messages.LeaveGroupResponse:
    m = messages.leave_group_response
    return m.LeaveGroupResponse(
        error_code=reply.error,
        members=[
            m.MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
            for each, code in zip(members, reply.member_errors, strict=False)
        ],
    )


_GUARD: Final = Whole(READ_GROUP, "group_id")
APIS: Final = (
    serve_api(ApiKey.JOIN_GROUP, 0, 9, join_group, guard=_GUARD),
    serve_api(ApiKey.HEARTBEAT, 0, 4, heartbeat, guard=_GUARD),
    serve_api(ApiKey.LEAVE_GROUP, 0, 5, leave_group, guard=_GUARD),
    serve_api(ApiKey.SYNC_GROUP, 0, 5, sync_group, guard=_GUARD),
)
