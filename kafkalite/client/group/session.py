"""The tasks that make a consumer a member of its group: they carry the membership's requests and orders, commit, and find positions.

What the program may rely on:
- A partition is given up only between two calls for records (`getmany`, `getone`, a step of `async for`), or within one that waits: what
  was handed out before counts as read, is committed (`enable_auto_commit`), and the listener hears of it before another member can get
  the partition. `unsubscribe` and `close` are such moments too. A program that does not come back within `max_poll_interval_ms` loses its
  place instead.
- A partition that is lost is not read any more, from the buffer neither, as soon as an answer or the time tells of the loss.
- Automatic commits are made at those moments too, so that they cover nothing that the program still works on.
- Listeners run in a task of their own: they may await, commit and seek, but not read.
- Whatever ends the membership for good, an assignor that raises among it, is raised by the next call for records.

How a partition gets its position: the listener may seek; else the committed offset; else `auto_offset_reset`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.consumer.fetch_buffer import FetchBuffer
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.errors import ClientClosedError, ClientError
from kafkalite.client.group.auto_commit import AutoCommit
from kafkalite.client.group.committed_positions import CommittedPositions
from kafkalite.client.group.coordinator_link import CoordinatorLink, Lane
from kafkalite.client.group.leadership import count_assigned
from kafkalite.client.group.member_states import IN_REBALANCE
from kafkalite.client.group.membership import Membership, metadata_of
from kafkalite.client.group.membership_requests import MembershipSettings, describe_group
from kafkalite.client.group.membership_steps import Assign, Lead, Lose, Revoke, Send, Step
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.group.offsets import GroupOffsets
from kafkalite.client.group.poll_boundary import PollBoundary
from kafkalite.client.group.rebalance_listener import ListenerCalls
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.lifecycle import end_tasks
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.group.membership_steps import HeartbeatOrLeave

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_LEAVE_TIMEOUT_S = 5.0
_JOIN_END_TIMEOUT_S = 5.0
"""How long `close` waits for the end of a JoinGroup under way, when its last commit was refused for it."""


class GroupSession:
    """Runs the membership of one consumer in its group. `consumed` gives the positions to commit; `on_change` is called when the
    assignment or an error changed."""

    def __init__(
        self,
        cluster: ClusterClient,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        *,
        consumed: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]],
        on_change: Callable[[], None],
    ) -> None:
        self.membership = membership = Membership(MembershipSettings.of(options))
        self.problem: Exception | None = None
        self._cluster = cluster
        self._buffer = buffer
        self._session_timeout_s = options.session_timeout_ms / 1000
        self._request_timeout_s = options.request_timeout_ms / 1000
        self._api_timeout_s = options.default_api_timeout_ms / 1000
        self._consumed = consumed
        self._on_change = on_change
        self._link = CoordinatorLink(cluster, membership.settings.group_id)
        self._offsets = GroupOffsets(
            cluster,
            self._link,
            self._request_timeout_s,
            membership,
            on_membership_change=self._membership_changed,
        )
        self.positions = CommittedPositions(self._offsets, buffer, self._api_timeout_s, on_change)
        self._auto_commit = AutoCommit(
            self._offsets,
            options.auto_commit_interval_ms / 1000 if options.enable_auto_commit else None,
            self._api_timeout_s,
            consumed=consumed,
            may_commit=lambda: membership.is_member or not (self._subscribed or membership.is_leaving),
        )
        self._listener = ListenerCalls()
        self._pattern: re.Pattern[str] | None = None
        self._subscribed = False
        self._closing = False
        self._consumed_before: Mapping[TopicPartition, OffsetAndMetadata] = {}
        """The positions at `unsubscribe`, which are committed when the member leaves."""
        self._counts: dict[str, int] = {}
        """How many partitions of each topic the group has assigned, as far as this member knows; kept while it leads."""
        self._wake = asyncio.Event()
        self._heartbeat_wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._boundary = PollBoundary()
        self._tenures_read: Mapping[TopicPartition, int] = {}  # when the program last got records
        self._stable = asyncio.Event()
        cluster.add_listener(self._on_view_change)

    @staticmethod
    def _now_ms() -> float:
        return asyncio.get_running_loop().time() * 1000

    async def _wait_until(self, event: asyncio.Event, moment_ms: float) -> None:
        """Wait for `event`, until `moment_ms` of the loop's clock at most where that is still to come."""
        wait_s = (moment_ms - self._now_ms()) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s if wait_s > 0 else None):
                await event.wait()

    # subscription

    @property
    def is_subscribed(self) -> bool:
        """True if the group decides the assignment."""
        return self._subscribed

    @property
    def subscription(self) -> set[str]:
        return set(self.membership.topics)

    def subscribe(self, topics: Sequence[str], pattern: str | re.Pattern[str] | None, listener: Any) -> None:
        """Read `topics`, or all topics whose whole name `pattern` matches."""
        self._listener.listener = listener
        self._subscribed = True
        self.problem = None
        self._pattern = re.compile(pattern) if pattern is not None else None
        if self._pattern is not None:
            self._cluster.watch_all_topics()
            self._cluster.request_refresh()
            self._match_topics()
        else:
            if self._cluster.watch_topics(topics):
                self._cluster.request_refresh()
            self.membership.subscribe(topics, self._now_ms())
        self.start()
        self._wake.set()

    def unsubscribe(self) -> None:
        """Stop reading at once, and leave the group in the background; what was handed out counts as read."""
        if not self.membership.is_leaving:
            self._consumed_before = self._consumed()
        self._subscribed, self._pattern = False, None
        self.membership.unsubscribe(self._now_ms())
        self._buffer.assign(())
        self._on_change()
        self._boundary.waive()
        self._wake.set()

    def _match_topics(self) -> None:
        pattern = self._pattern
        if pattern is not None:
            names = self._cluster.view.topics
            matched = sorted(name for name in names if name not in INTERNAL_TOPICS and pattern.fullmatch(name))
            self.membership.subscribe(matched, self._now_ms())

    def _on_view_change(self) -> None:
        if not self._subscribed:
            return
        self._match_topics()
        self._rejoin_for_partitions()
        self._wake.set()

    def _rejoin_for_partitions(self) -> None:
        """Let the group rebalance if this is its leader, and topics have partitions that it did not assign."""
        member = self.membership
        if member.leadership is not None and member.is_stable:
            counts = self._partition_counts(member.leadership.topics)
            if any(count > self._counts.get(topic, 0) for topic, count in counts.items()):
                member.rejoin("topics have new partitions")

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    # tasks

    def start(self) -> None:
        """Begin to be a member; needs the running loop."""
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [
                loop.create_task(self._run_until_failure(self._run()), name="kafkalite-membership"),
                loop.create_task(self._run_until_failure(self._heartbeat()), name="kafkalite-heartbeat"),
            ]

    async def _run_until_failure(self, work: Coroutine[Any, Any, None]) -> None:
        """A task that ended in silence would leave the program waiting for records that never come."""
        try:
            await work
        except ClientClosedError:
            pass
        except Exception as problem:
            log.exception("the membership in group %s ended", self._link.group_id)
            self._end_membership(problem)

    def _end_membership(self, problem: Exception) -> None:
        self.problem = problem
        self._boundary.release()
        self._stable.set()
        self._on_change()

    async def close(self, commit: bool, timeout_s: float) -> None:
        """Commit what was read (`commit`), tell the listener, leave the group, let go; in about `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._give_up_everything(commit)
        except TimeoutError:
            log.warning("group %s was not left in order within %g s", self._link.group_id, timeout_s)
        finally:
            await end_tasks(self._tasks)
            await self.positions.close()
            await self._auto_commit.cancel()
            self._link.close()

    async def _give_up_everything(self, commit: bool) -> None:
        member = self.membership
        self._closing = True
        self._wake.set()
        if commit and not await self._commit_consumed() and member.state in IN_REBALANCE:
            await asyncio.wait(self._tasks[:1], timeout=_JOIN_END_TIMEOUT_S)
            await self._commit_consumed()
        await end_tasks(self._tasks)
        await self._auto_commit.cancel()
        if member.partitions.to_lose:
            await self._listener.call("on_partitions_lost", member.partitions.to_lose)
        if member.partitions.owned:
            await self._listener.call("on_partitions_revoked", member.partitions.owned)
        message = member.leave_request("the consumer was closed")
        if message is not None:
            try:
                await self._link.request(message, Lane.OFFSETS, _LEAVE_TIMEOUT_S)
            except (OSError, ClientError) as problem:
                log.info("leaving group %s: %s", self._link.group_id, problem)

    # polls

    async def poll(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Let the program `read`, once no partitions are given up; what it has counts as read. Raises what ended the membership."""
        has_read = False
        self._note_poll()
        self._boundary.begin_poll()
        try:
            await self.wait_until_settled()
            self._auto_commit.commit_if_due()
            has_read = True
            return await read()
        finally:
            self._note_poll()
            if has_read:
                self._tenures_read = self.membership.partitions.tenures
            self._boundary.end_poll()

    def poll_at_once(self, read: Callable[[], Result], now_s: float) -> Result | None:
        """`poll` for a `read` that waits for nothing; None where something is to be done or awaited first."""
        if self._boundary.is_wanted or self.problem is not None or self._auto_commit.is_due(now_s):
            return None
        if self._subscribed:
            if self.membership.stalled:
                return None
            self.membership.note_poll(now_s * 1000)
        try:
            return read()
        finally:
            self._tenures_read = self.membership.partitions.tenures

    async def wait_until_settled(self) -> None:
        """Wait while partitions are given up; raises what ended the membership."""
        await self._boundary.wait_until_readable()
        if self.problem is not None:
            raise self.problem

    def _note_poll(self) -> None:
        if self._subscribed:
            stalled = self.membership.stalled
            self.membership.note_poll(self._now_ms())
            if stalled:
                self._wake.set()

    # membership

    async def _run(self) -> None:
        """Carry out steps; when the consumer is closed, those of a rebalance under way."""
        while not self._closing or self.membership.state in IN_REBALANCE:
            self._wake.clear()
            step = self.membership.next_step(self._now_ms())
            if step is not None:
                await self._carry_out(step)
                self._heartbeat_wake.set()
                continue
            self._show_state()
            await self._wait_until(self._wake, self.membership.next_event_ms())

    def _show_state(self) -> None:
        failure = self.membership.failure
        if failure is not None and self.problem is None:
            self._end_membership(failure)
        if self.membership.is_stable or failure is not None:
            self._stable.set()
        else:
            self._stable.clear()

    async def _carry_out(self, step: Step) -> None:
        self._stable.clear()
        match step:
            case Send():
                await self._send(step)
            case Lead():
                await self._lead(step)
            case Revoke():
                await self._revoke(step.partitions)
            case Lose():
                self._show_owned()
                await self._listener.call("on_partitions_lost", step.partitions)
                self.membership.complete_loss()
            case Assign():
                self._show_owned()
                await self._listener.call("on_partitions_assigned", step.added)
                self.positions.start_lookup()
                self._rejoin_for_partitions()

    async def _send(self, step: Send) -> None:
        self._follow_coordinator()
        try:
            response = await self._link.request(step.message, Lane.MEMBERSHIP, step.timeout_ms / 1000)
        except ClientClosedError:
            raise
        except (OSError, ClientError) as problem:
            if isinstance(problem, ClientError) and not problem.retriable:
                self.membership.fail_request(problem, self._now_ms())
            else:
                log.info("group %s: %s", self._link.group_id, problem)
                self.membership.handle_no_response(self._now_ms())
        else:
            self.membership.handle_response(response, self._now_ms())
        self._membership_changed()

    def _follow_coordinator(self) -> None:
        if self.membership.take_coordinator_loss():
            self._link.forget()

    async def _lead(self, step: Lead) -> None:
        if self._cluster.watch_topics(step.topics) or not step.topics <= self._cluster.view.topics.keys():
            await self._cluster.try_refresh()
        counts = self._partition_counts(step.topics)
        self._counts = await self._request_assigned() if step.skips_assignment else counts
        self.membership.lead(counts)

    async def _request_assigned(self) -> dict[str, int]:
        """Return how many partitions of each topic the coordinator knows as assigned.

        None at all where it does not say: then the group rebalances once, as it does where an assignor left partitions out.
        """
        request = describe_group(self.membership.settings)
        try:
            return count_assigned(await self._link.request(request, Lane.MEMBERSHIP, self._request_timeout_s))
        except ClientClosedError:
            raise
        except (OSError, ClientError, ValueError) as problem:
            log.info("group %s: what its members are assigned is not known: %s", self._link.group_id, problem)
            return {}

    async def _revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        member = self.membership
        try:
            if not member.is_leaving:  # a program that unsubscribed reads none of them
                await self._boundary.hold()
            if member.is_member:
                await self._commit_consumed()
            if member.is_member:
                self._show_owned(without=partitions)
                await self._listener.call("on_partitions_revoked", partitions)
            member.complete_revocation()
        finally:
            self._boundary.release()

    async def _commit_consumed(self) -> bool:
        """Commit automatically before partitions are given up. False if that failed."""
        consumed = self._consumed_before if self.membership.is_leaving else None
        return await self._auto_commit.commit_now(self._session_timeout_s, consumed)

    def _show_owned(self, without: Iterable[TopicPartition] = ()) -> None:
        """Read what the member owns, but for the partitions that it gives up; nothing while it leaves."""
        if not self._subscribed or self.membership.is_leaving:
            return
        ended = set(without)
        owned = [each for each in self.membership.partitions.owned if each not in ended]
        self._buffer.assign(owned, awaits_committed=True, by_group=True)
        self._on_change()

    def _membership_changed(self) -> None:
        """An answer or the time changed the membership: what is lost is not handed out any more, and the next step is looked for."""
        member = self.membership
        if member.partitions.to_lose:
            self._show_owned()
        if not member.is_member:
            self._boundary.waive()
        self._wake.set()

    async def _heartbeat(self) -> None:
        while True:
            self._heartbeat_wake.clear()
            if self._boundary.polls:
                self._note_poll()
            was_member = self.membership.is_member
            message = self.membership.next_heartbeat(self._now_ms())
            if was_member and not self.membership.is_member:
                self._membership_changed()
            if message is not None:
                await self._send_heartbeat(message)
                self._membership_changed()
            else:
                await self._wait_until(self._heartbeat_wake, self.membership.next_heartbeat_ms())

    async def _send_heartbeat(self, message: HeartbeatOrLeave) -> None:
        self._follow_coordinator()
        response = None
        timeout_s = min(self._request_timeout_s, self._session_timeout_s)
        try:
            response = await self._link.request(message, Lane.OFFSETS, timeout_s)
        except ClientClosedError:
            raise
        except (OSError, ClientError) as problem:
            log.info("group %s: %s", self._link.group_id, problem)
        self.membership.handle_heartbeat(message, response, self._now_ms())

    # commits

    @property
    def in_listener(self) -> bool:
        """True while a method of the program's listener runs."""
        return self._listener.active

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit `offsets`, by default all positions. See `GroupOffsets.commit`."""
        if self.in_listener:
            await self._offsets.commit(self._consumed() if offsets is None else offsets, self._api_timeout_s)
        elif offsets is None:
            await self._offsets.commit(self._consumed(), self._api_timeout_s, self._wait_for_group)
        else:
            await self._offsets.commit(offsets, self._api_timeout_s, self._wait_for_group, self._tenures_read)

    async def fetch_committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._offsets.fetch(partitions, self._api_timeout_s)

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity for a transaction. CommitFailedError where `commit` would be one."""
        member = self.membership if self._subscribed else None
        return metadata_of(self._link.group_id, member, {} if self.in_listener else self._tenures_read)

    async def _wait_for_group(self, partitions: Iterable[TopicPartition]) -> bool:
        """A commit met a rebalance. One that needs the program to poll first is not waited for."""
        self._wake.set()
        member = self.membership
        while not member.is_stable:
            if self._boundary.is_wanted or not self._subscribed or member.failure is not None:
                return False
            self._stable.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._stable.wait()
        return set(partitions) <= set(member.partitions.owned)
