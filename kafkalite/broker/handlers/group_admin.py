"""DescribeGroups (15), ListGroups (16), DeleteGroups (42): groups as administrators see them, each served by its coordinator.

- DescribeGroups 3 authorized operations; 4 instance ids. ListGroups 4 states, 5 types (KIP-848: all groups here are "classic").
- DeleteGroups (KIP-229) deletes empty groups only.
- A group that is named several times is described and deleted once (Kafka describes it as often as it is named).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from kafkalite.broker.identity.authorizer import (
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    UNKNOWN_OPERATIONS,
    ResourceType,
)
from kafkalite.broker.parts import HasGroups
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each, Visible
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.coordinators.group.requests import DeleteGroup
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

_CLASSIC = "classic"


@run_in_portions
def describe_groups(
    parts: HasGroups, request: messages.DescribeGroupsRequest, context: RequestContext
) -> Work[messages.DescribeGroupsResponse]:
    """Return state, protocol and members of each group; an unknown one is Dead."""
    m = messages.describe_groups_response
    groups = []
    for group_id in dict.fromkeys(request.groups):
        yield
        try:
            described = parts.groups.machine_for(group_id).describe(group_id)
        except KafkaError as problem:
            groups.append(m.DescribedGroup(group_id=group_id, error_code=problem.code))
            continue
        members = []
        for each in described.members:
            yield
            members.append(
                m.DescribedGroupMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    member_metadata=each.metadata,
                    member_assignment=each.assignment,
                )
            )
        groups.append(
            m.DescribedGroup(
                group_id=group_id,
                group_state=described.state,
                protocol_type=described.protocol_type,
                protocol_data=described.protocol,
                members=members,
                authorized_operations=context.authorized_operations(ResourceType.GROUP, group_id)
                if request.include_authorized_operations
                else UNKNOWN_OPERATIONS,
            )
        )
    return m.DescribeGroupsResponse(groups=groups)


@run_in_portions
def list_groups(
    parts: HasGroups, request: messages.ListGroupsRequest, context: RequestContext
) -> Work[messages.ListGroupsResponse]:
    """Return the groups that this broker coordinates, filtered by state and type."""
    m = messages.list_groups_response
    runtime = parts.groups
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    groups = []
    for machine in list(runtime.loaded_machines()):
        for each in machine.list_groups():
            yield
            if (not states or each.state.lower() in states) and (not types or _CLASSIC in types):
                groups.append(
                    m.ListedGroup(
                        group_id=each.group_id,
                        protocol_type=each.protocol_type,
                        group_state=each.state,
                        group_type=_CLASSIC,
                    )
                )
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE
    return m.ListGroupsResponse(error_code=code, groups=groups)


async def delete_groups(
    parts: HasGroups, request: messages.DeleteGroupsRequest, context: RequestContext
) -> messages.DeleteGroupsResponse:
    """Delete empty groups, and return the outcome for each."""
    m = messages.delete_groups_response
    outcomes = await context.portions.finish(_submit_deletions(parts, request.groups_names))
    results = []
    pace = context.portions.pace()
    for group_id, outcome in outcomes.items():
        await pace.unit()
        try:
            code = await outcome if isinstance(outcome, asyncio.Future) else outcome
        except KafkaError as problem:
            code = problem.code
        results.append(m.DeletableGroupResult(group_id=group_id, error_code=code))
    return m.DeleteGroupsResponse(results=results)


def _submit_deletions(
    parts: HasGroups, group_ids: Iterable[str]
) -> Work[dict[str, ErrorCode | asyncio.Future[ErrorCode]]]:
    """Return the outcome of each group, or a future of it while the deletion is being committed."""
    outcomes: dict[str, ErrorCode | asyncio.Future[ErrorCode]] = {}
    for group_id in dict.fromkeys(group_ids):
        yield
        try:
            outcomes[group_id] = parts.groups.submit(group_id, DeleteGroup(group_id), ErrorCode)
        except KafkaError as problem:
            outcomes[group_id] = problem.code
    return outcomes


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_GROUPS,
        0,
        5,
        describe_groups,
        failure=FailedItems(),
        guard=Each(DESCRIBE_GROUP, "groups", "groups", name=None),
    ),
    serve_api(
        ApiKey.LIST_GROUPS,
        0,
        5,
        list_groups,
        guard=Visible(DESCRIBE_GROUP, "groups", "group_id", unless=DESCRIBE_CLUSTER),
    ),
    serve_api(
        ApiKey.DELETE_GROUPS,
        0,
        2,
        delete_groups,
        failure=FailedItems(),
        guard=Each(DELETE_GROUP, "groups_names", "results", name=None),
    ),
)
