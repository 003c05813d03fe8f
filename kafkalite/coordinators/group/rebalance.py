"""Rebalances: their start, the end of their join phase, and the members that are removed.

    Empty ── first member ──▶ PreparingRebalance ── all joined, or time is up ──▶ CompletingRebalance ── leader's SyncGroup ──▶ Stable
      ▲                          ▲      │  nobody left                              │ members come, go, change       │
      └──────────────────────────┼──────┘                                           ▼                                ▼
                                 └────────────────────────────────────────────────────────────────────────────────────

A group that was empty waits group.initial.rebalance.delay.ms for more members (KIP-134); others wait until all members rejoined, at most
the longest rebalance timeout. Dynamic members that do not rejoin in time are removed; static ones stay until their session ends.
"""

from __future__ import annotations

import logging

from kafkalite.coordinators.contract import Decision, DraftRecord
from kafkalite.coordinators.group import group_record
from kafkalite.coordinators.group.group import BALANCED_ONCE, Group, GroupState, InitialDelay
from kafkalite.coordinators.group.member import Member
from kafkalite.coordinators.group.requests import JoinedMember, JoinReply, SyncReply
from kafkalite.errors import ErrorCode

logger = logging.getLogger("kafkalite.coordinators.group")

_MAY_REBALANCE = BALANCED_ONCE | {GroupState.EMPTY}


def maybe_prepare_rebalance(group: Group, decision: Decision, reason: str) -> None:
    """Start a rebalance, unless one is under way."""
    if group.state in _MAY_REBALANCE:
        prepare_rebalance(group, decision, reason)


def prepare_rebalance(group: Group, decision: Decision, reason: str) -> None:
    """Start the join phase of a rebalance."""
    logger.info("group %s: rebalance of generation %d, %s", group.group_id, group.generation, reason)
    if group.state is GroupState.COMPLETING:
        refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, decision)
    group.pending_syncs.clear()
    decision.cancel_timer(group.sync_timer)
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        decision.set_timer(group.rebalance_timer, delay_ms)
    else:
        group.initial_delay = None
        decision.set_timer(group.rebalance_timer, group.rebalance_timeout_ms)
    group.transition_to(GroupState.PREPARING, decision.now.wall_ms)
    maybe_complete_join(group, decision)


def maybe_complete_join(group: Group, decision: Decision) -> None:
    """End the join phase if all members rejoined, except during the initial delay."""
    if group.state is GroupState.PREPARING and group.initial_delay is None and group.all_joined:
        complete_join(group, decision)


def on_rebalance_timer(group: Group, decision: Decision) -> None:
    """End the join phase at its timeout, or extend an initial delay in which new members joined."""
    if group.state is not GroupState.PREPARING:
        return
    delay = group.initial_delay
    if delay is not None and group.new_member_added and delay.remaining_ms:
        group.new_member_added = False
        next_ms = min(group.settings.initial_rebalance_delay_ms, delay.remaining_ms)
        group.initial_delay = InitialDelay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0))
        decision.set_timer(group.rebalance_timer, next_ms)
    else:
        complete_join(group, decision)


def complete_join(group: Group, decision: Decision) -> None:
    """End the join phase: remove absent members, start the next generation, answer the parked requests."""
    group.initial_delay = None
    for absent in group.absent_members():
        logger.info("group %s: member %s did not rejoin", group.group_id, absent.member_id)
        group.remove_member(absent.member_id)
        decision.cancel_timer(group.session_timer(absent.member_id))
    if group.members and not group.elect_joined_leader():
        # Only static members are left, none of which rejoined; they stay until their sessions end.
        decision.set_timer(group.rebalance_timer, group.rebalance_timeout_ms)
        return
    decision.cancel_timer(group.rebalance_timer)
    group.init_next_generation(decision.now.wall_ms)
    group.new_member_added = False
    if not group.members:
        _store_empty(group, decision)
        return
    for member in group.members.values():
        ticket = group.unpark_join(member)
        member.is_new = False
        restart_session(group, member, decision)
        if ticket is not None:
            decision.answer(ticket, build_join_reply(group, member))
    decision.set_timer(group.sync_timer, group.rebalance_timeout_ms)


def _store_empty(group: Group, decision: Decision) -> None:
    """Store the empty generation, so a takeover knows it and the time at which the group became empty."""

    def then(code: ErrorCode, later: Decision) -> None:
        if code:
            logger.warning("group %s: its empty generation was not stored: %s", group.group_id, code.name)

    record = DraftRecord(group_record.encode_key(group.group_id), group.to_value({}))
    decision.append([record], then)


def build_join_reply(group: Group, member: Member) -> JoinReply:
    """Build the reply with the present generation, and the members for the leader."""
    is_leader = member.member_id == group.leader_id
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader_id or "",
        list_members(group) if is_leader else (),
    )


def list_members(group: Group) -> list[JoinedMember]:
    return [JoinedMember(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()]


def restart_session(group: Group, member: Member, decision: Decision) -> None:
    """Restart a member's session timer, after its request or a reply to it."""
    decision.set_timer(group.session_timer(member.member_id), member.session_timeout_ms)


def refuse_syncs(group: Group, code: ErrorCode, decision: Decision) -> None:
    """Clear the assignments and refuse the parked SyncGroups."""
    for member in group.members.values():
        member.assignment = b""
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            decision.answer(ticket, SyncReply(code))
            restart_session(group, member, decision)


# Removal of members


def on_session_timer(group: Group, member_id: str, decision: Decision) -> None:
    """Remove a member whose session timed out, or a new one whose first JoinGroup was parked for too long."""
    member = group.members.get(member_id)
    if member is not None and not member.may_be_silent:
        remove_member(group, member, decision, "its session timed out")


def on_pending_timer(group: Group, member_id: str, decision: Decision) -> None:
    """Remove a pending member id that was not used in time."""
    if member_id in group.pending_ids:
        remove_pending(group, member_id, decision)


def on_sync_timer(group: Group, decision: Decision) -> None:
    """Remove members of this generation that did not send SyncGroup in time (pending syncs)."""
    if group.state not in BALANCED_ONCE or not group.pending_syncs:
        return
    for member_id in sorted(group.pending_syncs):
        refuse_tickets(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID, decision)
        group.remove_member(member_id)
        decision.cancel_timer(group.session_timer(member_id))
    prepare_rebalance(group, decision, "some members did not sync in time")


def remove_member(group: Group, member: Member, decision: Decision, reason: str) -> None:
    """Remove a member and start a rebalance."""
    refuse_tickets(group, member, ErrorCode.UNKNOWN_MEMBER_ID, decision)
    group.remove_member(member.member_id)
    decision.cancel_timer(group.session_timer(member.member_id))
    _rebalance_after_removal(group, decision, f"member {member.member_id} is removed: {reason}")


def remove_pending(group: Group, member_id: str, decision: Decision) -> None:
    """Remove a pending member id."""
    group.pending_ids.discard(member_id)
    decision.cancel_timer(group.pending_timer(member_id))
    maybe_complete_join(group, decision)


def _rebalance_after_removal(group: Group, decision: Decision, reason: str) -> None:
    if group.state in BALANCED_ONCE:
        prepare_rebalance(group, decision, reason)
    else:
        maybe_complete_join(group, decision)


def refuse_tickets(group: Group, member: Member, code: ErrorCode, decision: Decision) -> None:
    """Refuse the parked requests of a member."""
    join = group.unpark_join(member)
    if join is not None:
        decision.answer(join, JoinReply(code, member.member_id if code is ErrorCode.FENCED_INSTANCE_ID else ""))
    sync, member.sync_ticket = member.sync_ticket, None
    if sync is not None:
        decision.answer(sync, SyncReply(code))
