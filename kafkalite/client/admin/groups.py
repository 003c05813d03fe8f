"""Administration of consumer groups: which there are, their members and committed offsets, and both being deleted. A part of `Admin`.

Every group is its coordinator's. The coordinator is looked up for every attempt, so that a call goes on where the group has moved to;
a coordinator that still loads its groups is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalite.client.admin.calls import AdminCalls, all_of, each_of, one_of
from kafkalite.client.errors import AdminError, ClientError, error_of
from kafkalite.client.group.committable import offset_topics
from kafkalite.client.group.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from kafkalite.client.group.metadata import NO_GENERATION
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.client.plain_values import PlainValues
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

_WHERE_AND_WHEN = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""Answers that say nothing of the group, only that another broker, or a later time, is the right one."""
_NO_MEMBERS_STATES = frozenset({"Empty", "Dead"})
_EXPLANATIONS = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group has members that are subscribed to the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for the group",
}


@dataclass(frozen=True, slots=True)
class GroupListing(PlainValues):
    """A group as its coordinator lists it; state and type are empty where the broker is too old to tell (before 2.6 and 3.8)."""

    group_id: str
    state: str
    protocol_type: str
    coordinator: int
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember(PlainValues):
    """A member of a group. Topics and partitions are empty for groups that are not of consumers, and while the group rebalances."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription(PlainValues):
    """A group, its coordinator's broker id and its members. One that is not there has the state "Dead"."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...] = ()

    @property
    def has_members(self) -> bool:
        """Also true while the coordinator shows none, but says that there are some."""
        return bool(self.members) or self.state not in _NO_MEMBERS_STATES


class GroupAdmin(AdminCalls):
    """Lists, describes and deletes consumer groups and their committed offsets, at their coordinators."""

    async def list_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, by name; with `states` only those in one of them ("Stable", "Empty", …; case does not matter).

        Fails when one of the brokers does not answer, since its groups would be missing.
        """
        wanted = list(states)
        listed = await all_of(self._list_on(broker, wanted) for broker in await self._brokers())
        by_id = {each.group_id: each for broker in listed for each in broker}
        return [by_id[group_id] for group_id in sorted(by_id)]

    async def _list_on(self, broker: int, states: list[str]) -> list[GroupListing]:
        request = messages.list_groups_request.ListGroupsRequest(states_filter=states)
        lowered = {state.lower() for state in states}  # brokers before 2.6 know of no filter
        response = await self._ask_checked(broker, request, f"listing the groups of broker {broker}")
        return [
            GroupListing(each.group_id, each.group_state, each.protocol_type, broker, each.group_type)
            for each in response.groups
            if not lowered or each.group_state.lower() in lowered
        ]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return state and members of groups. Of one that is not there the state is "Dead".

        AdminError with GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, … for those that failed.
        """
        return await each_of(group_ids, self._describe)

    async def _describe(self, group_id: str) -> GroupDescription:
        request = messages.describe_groups_request.DescribeGroupsRequest(groups=[group_id])
        what = f"describing group {group_id}"

        def read(response: Any, coordinator: int) -> GroupDescription:
            group = one_of(response.groups, what)
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return GroupDescription(group_id, "Dead", "", "", coordinator)
            _check(group.error_code, what)
            members = tuple(_member(each, group.protocol_type) for each in group.members)
            return GroupDescription(
                group_id, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
            )

        return await self._at_coordinator(group_id, request, read, what)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that a group has committed: all of them, or those of `partitions`, with None where there is none.

        With `require_stable` offsets that a transaction is about to commit are waited for (KIP-447).
        """
        m = messages.offset_fetch_request
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        if wanted == []:
            return {}
        topics = None
        if wanted is not None:
            topics = [
                m.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in group_by_topic(wanted).items()
            ]
        group = m.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        request = m.OffsetFetchRequest(groups=[group], require_stable=require_stable)
        what = f"fetching committed offsets of group {group_id}"

        def read(response: Any, _: int) -> dict[TopicPartition, OffsetAndMetadata | None]:
            group = one_of(response.groups, what)
            _check(group.error_code, what)
            found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted or ())
            for topic in group.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        continue  # so some brokers say that nothing is committed
                    _check(each.error_code, f"{what} for {topic.name}-{each.partition_index}")
                    if each.committed_offset >= 0:
                        found[TopicPartition(topic.name, each.partition_index)] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return found

        found = await self._at_coordinator(group_id, request, read, what)
        return found if wanted is not None else dict(sorted(found.items()))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit offsets in the name of a group without members; a group that is not there comes to be.

        AdminError with UNKNOWN_MEMBER_ID when the group has members, UNKNOWN_TOPIC_OR_PARTITION, … for those that failed.
        """
        m = messages.offset_commit_request
        wanted = {
            TopicPartition(*each): OffsetAndMetadata(value) if isinstance(value, int) else value
            for each, value in offsets.items()
        }
        if not wanted:
            return
        topics = offset_topics(wanted, m.OffsetCommitRequestTopic, m.OffsetCommitRequestPartition)
        request = m.OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=NO_GENERATION, topics=topics)
        what = f"committing offsets of group {group_id}"

        await self._at_coordinator(group_id, request, lambda answer, _: _raise_failures(answer.topics, what), what)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed for partitions that nobody in it is subscribed to (KIP-496).

        GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; AdminError with GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, … for those
        that failed.
        """
        m = messages.offset_delete_request
        wanted = group_by_topic(TopicPartition(*each) for each in partitions)
        if not wanted:
            return
        topics = [
            m.OffsetDeleteRequestTopic(
                name=name,
                partitions=[m.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for name, numbers in wanted.items()
        ]
        request = m.OffsetDeleteRequest(group_id=group_id, topics=topics)
        what = f"deleting offsets of group {group_id}"

        def read(response: Any, _: int) -> None:
            _check(response.error_code, what)
            _raise_failures(response.topics, what)

        await self._at_coordinator(group_id, request, read, what)

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and what they have committed (KIP-229).

        AdminError with NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, … for those that failed.
        """
        await each_of(group_ids, self._delete)

    async def _delete(self, group_id: str) -> None:
        request = messages.delete_groups_request.DeleteGroupsRequest(groups_names=[group_id])
        what = f"deleting group {group_id}"

        await self._at_coordinator(
            group_id, request, lambda answer, _: _check(one_of(answer.results, what).error_code, what), what
        )


def _problem(code: int, what: str) -> ClientError:
    return error_of(code, what, explanation=_EXPLANATIONS.get(ErrorCode(code)) if code in _EXPLANATIONS else None)


def _check(code: int, what: str) -> None:
    if code:
        raise _problem(code, what)


def _raise_failures(topics: Iterable[Any], what: str) -> None:
    """AdminError for partitions that failed; the plain error when it is one of place or time, which another attempt may cure."""
    failures: dict[str, ClientError] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.error_code in _WHERE_AND_WHEN:
                raise _problem(each.error_code, what)
            if each.error_code:
                name = f"{topic.name}-{each.partition_index}"
                failures[name] = _problem(each.error_code, f"{what} for {name}")
    if failures:
        raise _Final(failures)


class _Final(AdminError):
    """Failures that are the answer, also where their code is one that Kafka calls retriable, as of a topic that is not there."""

    @property
    def retriable(self) -> bool:
        return False


def _member(answer: Any, protocol_type: str) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        try:
            topics = decode_subscription(answer.member_metadata).topics if answer.member_metadata else ()
            partitions = tuple(sorted(decode_assignment(answer.member_assignment).partitions))
        except ValueError:  # a group may call itself one of consumers and speak another language
            topics, partitions = (), ()
    return GroupMember(
        answer.member_id, answer.group_instance_id, answer.client_id, answer.client_host, topics, partitions
    )
