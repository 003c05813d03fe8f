"""Committed offsets: OffsetCommit and OffsetFetch at the group's coordinator, tried again while that can help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.errors import ClientError, ClientTimeoutError, CommitFailedError, error_of
from kafkalite.client.group.committable import codes_of, offset_topics
from kafkalite.client.group.coordinator_link import CoordinatorLink, Lane
from kafkalite.client.group.membership import Membership
from kafkalite.client.group.metadata import NO_GENERATION
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_COORDINATOR_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_MEMBERSHIP = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_WORTH_ANOTHER_TRY = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

WaitForGroup = Callable[[Iterable[TopicPartition]], Awaitable[bool]]
"""Wait until the group is stable again; are all the partitions still this member's?"""


class GroupOffsets:
    """Commits and fetches the offsets of one group at its coordinator. `membership` is None for a consumer whose partitions were
    assigned by hand. `on_membership_change` is called when a refused commit told it something."""

    def __init__(
        self,
        cluster: ClusterClient,
        link: CoordinatorLink,
        request_timeout_s: float,
        membership: Membership | None = None,
        *,
        on_membership_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.membership = membership
        self._on_membership_change = on_membership_change
        self._cluster = cluster
        self._link = link
        self._request_timeout_s = request_timeout_s
        self._one_commit = asyncio.Lock()
        self._calls = 0
        self._committed_by: dict[TopicPartition, int] = {}
        """The number of the last call that committed a partition."""

    # commit

    async def commit(
        self,
        offsets: Offsets,
        timeout_s: float,
        wait_for_group: WaitForGroup | None = None,
        tenures: Mapping[TopicPartition, int] | None = None,
        *,
        without_deleted: bool = False,
    ) -> None:
        """Commit `offsets`. CommitFailedError when the partitions are another member's by now, ClientTimeoutError, ClientError.

        While the group rebalances, `wait_for_group` decides whether it is worth waiting; without it that is a CommitFailedError.
        `tenures` is the membership's at the time of reading, by default now: what was given up since is not committed, because another
        member may have had it meanwhile, and the group's offset would go back. The coordinator cannot see that: to it this is
        a member of the present generation. With `without_deleted`, topics that neither the coordinator nor metadata knows are left out:
        an offset there is of no use. One of them alone may not have heard of a topic yet, and is asked again.
        """
        if not offsets:
            return
        self._calls += 1
        number, member = self._calls, self.membership
        what = f"committing offsets of group {self._link.group_id}"
        if tenures is None:
            tenures = member.partitions.tenures if member is not None else {}

        unknown = False

        async def attempt() -> None:
            nonlocal unknown
            async with self._one_commit:
                if member is not None and not member.partitions.still_in(tenures, offsets):
                    raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, self._link.group_id)
                due = self._not_overtaken(offsets, number)
                code = await self._commit_once(self._without_unknown_topics(due) if unknown else due)
                unknown = without_deleted and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not code:
                    self._committed_by.update(dict.fromkeys(due, number))
            if code == ErrorCode.REBALANCE_IN_PROGRESS and wait_for_group is not None and await wait_for_group(offsets):
                raise ClientError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{what}: the group has rebalanced")
            if code:
                self._refuse(code, what)

        try:
            async with asyncio.timeout(timeout_s):
                await self._cluster.retrying(attempt, what, timeout_s)
        except TimeoutError as problem:
            self._link.forget()  # it may have been silent all the time
            if isinstance(problem, ClientError):
                raise
            raise ClientTimeoutError(f"{what} did not succeed within {timeout_s:g} s") from None

    def _not_overtaken(self, offsets: Offsets, number: int) -> Offsets:
        """Leave out what a later call has committed while this one waited to be tried again: the offset would go back."""
        return {each: offset for each, offset in offsets.items() if self._committed_by.get(each, 0) < number}

    def _without_unknown_topics(self, offsets: Offsets) -> Offsets:
        known = self._cluster.view.topics
        unknown = sorted({each.topic for each in offsets if each.topic not in known})
        if unknown:
            log.warning(
                "group %s: offsets of topics that are gone are not committed: %s",
                self._link.group_id,
                ", ".join(unknown),
            )
        return {each: offset for each, offset in offsets.items() if each.topic in known}

    async def _commit_once(self, offsets: Offsets) -> int:
        """Return the first error code of the answer, 0 for none."""
        if not offsets:
            return 0
        m = messages.offset_commit_request
        member = self.membership
        grouped = member is not None and (member.is_member or bool(member.topics))
        generation = member.generation if member is not None and grouped else NO_GENERATION
        member_id = member.member_id if member is not None and grouped else ""
        if grouped and generation == NO_GENERATION:
            return ErrorCode.REBALANCE_IN_PROGRESS
        request = m.OffsetCommitRequest(
            group_id=self._link.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=member.settings.group_instance_id if member is not None and grouped else None,
            topics=offset_topics(offsets, m.OffsetCommitRequestTopic, m.OffsetCommitRequestPartition),
        )
        response = await self._link.request(request, Lane.OFFSETS, self._request_timeout_s)
        codes = codes_of(response.topics)
        code: int = next((each for each in codes.values() if each), 0)
        lacking = next((each for each in offsets if each not in codes), None)
        if not code and lacking is not None:
            raise _incomplete(f"committing offsets of group {self._link.group_id}", lacking)
        if member is not None and code == ErrorCode.ILLEGAL_GENERATION and member.may_have_left(generation):
            return ErrorCode.REBALANCE_IN_PROGRESS
        if member is not None and code in _MEMBERSHIP:
            member.handle_commit_error(code, generation, member_id)
            self._on_membership_change()
        return code

    def _refuse(self, code: int, doing: str) -> None:
        if code in _COORDINATOR_MOVED:
            self._link.forget()
        if code in _MEMBERSHIP:
            raise CommitFailedError(ErrorCode(code), self._link.group_id)
        raise error_of(code, doing)

    # fetch

    async def fetch(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None for nothing. ClientTimeoutError, ClientError.

        Offsets that a transaction is about to commit are waited for (KIP-447), whatever the isolation level, as Java's consumer does: that
        one is about records, and a partition that moves before the transaction's end would be read from its old offset again.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        what = f"fetching committed offsets of group {self._link.group_id}"
        found = await self._cluster.retrying(lambda: self._fetch_once(wanted, what), what, timeout_s)
        return {each: found.get(each) for each in wanted}

    async def _fetch_once(
        self, wanted: Collection[TopicPartition], what: str
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        m = messages.offset_fetch_request
        group = m.OffsetFetchRequestGroup(
            group_id=self._link.group_id,
            topics=[
                m.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in group_by_topic(wanted).items()
            ],
        )
        request = m.OffsetFetchRequest(groups=[group], require_stable=True)
        response = await self._link.request(request, Lane.OFFSETS, self._request_timeout_s)
        of_group = (self._link.group_id, "")  # before version 8, answers name no group (KIP-709)
        answer = next((each for each in response.groups if each.group_id in of_group), None)
        if answer is None:
            raise error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, what, "the answer lacks the group")
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        codes = [answer.error_code]
        for topic in answer.topics:
            for each in topic.partitions:
                codes.append(each.error_code)
                committed = OffsetAndMetadata(each.committed_offset, each.metadata or "", each.committed_leader_epoch)
                found[TopicPartition(topic.name, each.partition_index)] = (
                    committed if each.committed_offset >= 0 else None
                )
        for code in codes:
            if code in _COORDINATOR_MOVED:
                self._link.forget()
            if code in _WORTH_ANOTHER_TRY:
                raise ClientError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{what}: {ErrorCode(code).name}")
            if code:
                raise error_of(code, what)
        for partition in wanted:
            if partition not in found:  # taken for no offset, it would be a reset
                raise _incomplete(what, partition)
        return found


def _incomplete(what: str, lacking: TopicPartition) -> ClientError:
    return error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, what, f"the answer lacks {lacking}")
