"""SyncGroup and Heartbeat."""

from __future__ import annotations

import logging

from kafkalite.coordinators.contract import Decision, DraftRecord, Ticket
from kafkalite.coordinators.group import group_record
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.member import Member
from kafkalite.coordinators.group.rebalance import maybe_prepare_rebalance, refuse_syncs, restart_session
from kafkalite.coordinators.group.requests import Heartbeat, Sync, SyncReply
from kafkalite.coordinators.store_errors import group_store_error
from kafkalite.errors import ErrorCode

logger = logging.getLogger("kafkalite.coordinators.group")


def sync(group: Group, request: Sync, ticket: Ticket, decision: Decision) -> None:
    """Answer the assignment, or park the request until the leader's is stored."""
    refusal = _check_request(group, request)
    if refusal:
        decision.answer(ticket, SyncReply(refusal))
        return
    member = group.members[request.member_id]
    _remove_pending_sync(group, member, decision)
    if group.state is GroupState.STABLE:
        restart_session(group, member, decision)
        decision.answer(ticket, _build_reply(group, member))
        return
    older, member.sync_ticket = member.sync_ticket, ticket
    if older is not None:
        decision.answer(older, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    if member.member_id == group.leader_id:
        _store_assignment(group, request, decision)


def _check_request(group: Group, request: Sync) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.check_member(request.member_id, request.instance_id)
    if code:
        return code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE


def _remove_pending_sync(group: Group, member: Member, decision: Decision) -> None:
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        decision.cancel_timer(group.sync_timer)


def _store_assignment(group: Group, request: Sync, decision: Decision) -> None:
    generation = group.generation
    assignments = {member_id: request.assignments.get(member_id, b"") for member_id in group.members}

    def then(code: ErrorCode, later: Decision) -> None:
        if group.state is not GroupState.COMPLETING or group.generation != generation:
            return  # a rebalance has started, which refused the parked requests
        if code:
            logger.warning("group %s: generation %d was not stored: %s", group.group_id, generation, code.name)
            refuse_syncs(group, group_store_error(code), later)
            maybe_prepare_rebalance(group, later, "its assignment could not be stored")
            return
        group.transition_to(GroupState.STABLE, later.now.wall_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            ticket, member.sync_ticket = member.sync_ticket, None
            if ticket is not None:
                later.answer(ticket, _build_reply(group, member))
                restart_session(group, member, later)

    record = DraftRecord(group_record.encode_key(group.group_id), group.to_value(assignments))
    decision.append([record], then)


def _build_reply(group: Group, member: Member) -> SyncReply:
    return SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


def heartbeat(group: Group, request: Heartbeat, decision: Decision) -> ErrorCode:
    """Restart the member's session; return NONE, REBALANCE_IN_PROGRESS if it must rejoin, or an error."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.check_member(request.member_id, request.instance_id)
    if code:
        return code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(group, group.members[request.member_id], decision)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE
