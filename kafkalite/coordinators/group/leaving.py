"""LeaveGroup: members that leave, or that an administrator removes by their instance id."""

from __future__ import annotations

from kafkalite.coordinators.contract import Decision
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.rebalance import remove_member, remove_pending
from kafkalite.coordinators.group.requests import NO_MEMBER_ID, Leave, LeaveReply, LeavingMember
from kafkalite.errors import ErrorCode


def leave(group: Group, request: Leave, decision: Decision) -> LeaveReply:
    """Remove members and return the outcome for each."""
    if group.state is GroupState.DEAD:
        return LeaveReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return LeaveReply(ErrorCode.NONE, [_remove_member(group, each, decision) for each in request.members])


def _remove_member(group: Group, leaving: LeavingMember, decision: Decision) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        member_id = group.static_ids.get(leaving.instance_id or "", NO_MEMBER_ID)
    elif member_id in group.pending_ids:
        if leaving.instance_id is not None:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # only dynamic members have pending ids
        remove_pending(group, member_id, decision)
        return ErrorCode.NONE
    else:
        code = group.check_member(member_id, leaving.instance_id)
        if code:
            return code
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    remove_member(group, member, decision, "it leaves")
    return ErrorCode.NONE
