"""Descriptions of groups for DescribeGroups and ListGroups."""

from __future__ import annotations

from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.requests import DescribedMember, GroupDescription, ListedGroup


def describe_group(group: Group) -> GroupDescription:
    """Describe a group; metadata and assignments only if it is stable, because before the protocol is not chosen."""
    is_stable = group.state is GroupState.STABLE
    members = [
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    protocol = (group.protocol or "") if is_stable else ""
    return GroupDescription(group.group_id, group.state, group.protocol_type or "", protocol, members)


def describe_missing_group(group_id: str) -> GroupDescription:
    return GroupDescription(group_id, GroupState.DEAD)


def summarize_group(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state)
