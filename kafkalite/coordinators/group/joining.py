"""JoinGroup of new members, known members, and static members with a new member id (KIP-345, KIP-394, KIP-814)."""

from __future__ import annotations

from kafkalite.coordinators.contract import Decision, DraftRecord, Ticket
from kafkalite.coordinators.group import group_record
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.member import Member
from kafkalite.coordinators.group.rebalance import (
    build_join_reply,
    list_members,
    maybe_complete_join,
    maybe_prepare_rebalance,
    prepare_rebalance,
    refuse_tickets,
    restart_session,
)
from kafkalite.coordinators.group.requests import NO_MEMBER_ID, Join, JoinReply
from kafkalite.coordinators.store_errors import group_store_error
from kafkalite.errors import ErrorCode, ensure


def join(group: Group, request: Join, ticket: Ticket, decision: Decision) -> None:
    """Answer a JoinGroup, or park it until the join phase ends."""
    if not group.accepts_joining_member(request.member_id):
        _drop_member(group, request.member_id, decision)
        decision.answer(ticket, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED))
    else:
        refusal = _check_request(group, request)
        if refusal is not None:
            decision.answer(ticket, JoinReply(refusal, request.member_id))
        elif request.member_id == NO_MEMBER_ID:
            _join_new_member(group, request, ticket, decision)
        elif request.member_id in group.pending_ids:
            decision.cancel_timer(group.pending_timer(request.member_id))
            _add_member(group, request, request.member_id, ticket, decision)
        else:
            _join_known_member(group, group.members[request.member_id], request, ticket, decision)
    maybe_complete_join(group, decision)


def _check_request(group: Group, request: Join) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports_protocols(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id == NO_MEMBER_ID:
        return None
    if request.member_id in group.pending_ids:
        # Only dynamic members are given an id before they join.
        return ErrorCode.UNKNOWN_SERVER_ERROR if request.instance_id is not None else None
    return group.check_member(request.member_id, request.instance_id) or None


def _drop_member(group: Group, member_id: str, decision: Decision) -> None:
    """Remove a member for which group.max.size has no room."""
    member = group.members.get(member_id)
    if member is not None:
        refuse_tickets(group, member, ErrorCode.UNKNOWN_MEMBER_ID, decision)
        group.remove_member(member_id)
        decision.cancel_timer(group.session_timer(member_id))
    elif member_id in group.pending_ids:
        group.pending_ids.discard(member_id)
        decision.cancel_timer(group.pending_timer(member_id))


# New members


def _join_new_member(group: Group, request: Join, ticket: Ticket, decision: Decision) -> None:
    if request.instance_id is not None:
        member_id = f"{request.instance_id}-{request.fresh_id}"
        old_id = group.static_ids.get(request.instance_id)
        if old_id is None:
            _add_member(group, request, member_id, ticket, decision)
        else:
            _replace_static_member(group, group.members[old_id], request, member_id, ticket, decision)
        return
    member_id = f"{request.client_id}-{request.fresh_id}"
    if request.requires_member_id:
        group.pending_ids.add(member_id)
        decision.set_timer(group.pending_timer(member_id), request.session_timeout_ms)
        decision.answer(ticket, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add_member(group, request, member_id, ticket, decision)


def _add_member(group: Group, request: Join, member_id: str, ticket: Ticket, decision: Decision) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING and group.generation == 0:
        group.new_member_added = True
    group.add_member(member, request.protocol_type)
    group.park_join(member, ticket)
    decision.set_timer(group.session_timer(member_id), group.settings.new_member_join_timeout_ms)
    maybe_prepare_rebalance(group, decision, f"member {member_id} joins")


# Known members


def _join_known_member(group: Group, member: Member, request: Join, ticket: Ticket, decision: Decision) -> None:
    state = group.state
    ensure(state is not GroupState.EMPTY, f"group {group.group_id} is empty and has members")
    unchanged = list(member.protocols) == list(request.protocols)
    leads = member.member_id == group.leader_id
    if unchanged and (state is GroupState.COMPLETING or (state is GroupState.STABLE and not leads)):
        decision.answer(ticket, build_join_reply(group, member))
        return
    group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    _park_join(group, member, ticket, decision)
    maybe_prepare_rebalance(group, decision, f"member {member.member_id} {'rejoins' if unchanged else 'changed'}")


def _park_join(group: Group, member: Member, ticket: Ticket, decision: Decision) -> None:
    older = group.park_join(member, ticket)
    if older is not None:
        decision.answer(older, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


# Static members with a new member id


def _replace_static_member(
    group: Group, member: Member, request: Join, member_id: str, ticket: Ticket, decision: Decision
) -> None:
    """Replace a static member's id, without a rebalance if the group is stable and keeps its protocol."""
    before = (member.member_id, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    leader_before = group.leader_id or ""
    refuse_tickets(group, member, ErrorCode.FENCED_INSTANCE_ID, decision)
    decision.cancel_timer(group.session_timer(member.member_id))
    group.replace_static_member(member, member_id)
    group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    restart_session(group, member, decision)
    group.park_join(member, ticket)
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol:
        _store_replacement(group, member, request, leader_before, before, decision)
    elif group.state is not GroupState.PREPARING:
        prepare_rebalance(group, decision, f"static member {request.instance_id} came back as {member_id}")


def _store_replacement(
    group: Group,
    member: Member,
    request: Join,
    leader_before: str,
    before: tuple[str, object, int, int],
    decision: Decision,
) -> None:
    """Store the new member id before it is answered, because it must survive a takeover; if that fails, restore the old one."""
    member_id = member.member_id

    def then(code: ErrorCode, later: Decision) -> None:
        if group.members.get(member_id) is not member or not member.awaits_join:
            return  # the member was removed, replaced or answered meanwhile
        if group.state is GroupState.PREPARING:
            return  # a rebalance began: the end of its join phase answers, and stores the new id
        if code:
            refused = group.unpark_join(member)
            old_id, protocols, rebalance_timeout_ms, session_timeout_ms = before
            group.update_member(member, protocols, rebalance_timeout_ms, session_timeout_ms)  # type: ignore[arg-type]
            later.cancel_timer(group.session_timer(member_id))
            group.replace_static_member(member, old_id)
            restart_session(group, member, later)
            if refused is not None:
                later.answer(refused, JoinReply(group_store_error(code)))
            return
        answered = group.unpark_join(member)
        restart_session(group, member, later)
        if answered is not None:
            later.answer(answered, _build_replacement_reply(group, member, request.skips_assignment, leader_before))

    record = DraftRecord(group_record.encode_key(group.group_id), group.to_value(group.assignments()))
    decision.append([record], then)


def _build_replacement_reply(group: Group, member: Member, skips_assignment: bool, leader_before: str) -> JoinReply:
    """Build the reply that makes a leader skip its assignment: by a field since version 9, before by the old leader's id."""
    leads = member.member_id == group.leader_id
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        (group.leader_id or "") if skips_assignment else leader_before,
        list_members(group) if skips_assignment and leads else (),
        skip_assignment=skips_assignment and leads,
    )
