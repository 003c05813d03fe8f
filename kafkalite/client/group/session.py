"""The tasks that make a consumer a member of its group: they carry the membership's requests and orders, commit, and find positions.

What the program may rely on:
- A partition is given up only between two calls for records (`getmany`, `getone`, a step of `async for`), or within one that waits: what
  was handed out before counts as read, is committed (`enable_auto_commit`), and the listener hears of it before another member can get
  the partition. A program that does not come back within `max_poll_interval_ms` loses its place instead.
- Automatic commits are made at those moments too, so that they cover nothing that the program still works on.
- Listeners run in a task of their own: they may await, commit and seek, but not read.
- Whatever ends the membership for good, an assignor that raises among it, is raised by the next call for records.

How a partition gets its position: the listener may seek; else the committed offset; else `auto_offset_reset`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.consumer.fetch_buffer import FetchBuffer
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.errors import ClientClosedError, ClientError
from kafkalite.client.group.auto_commit import AutoCommit
from kafkalite.client.group.committed_positions import CommittedPositions
from kafkalite.client.group.coordinator_link import CoordinatorLink, Lane
from kafkalite.client.group.membership import Membership
from kafkalite.client.group.membership_requests import MembershipSettings
from kafkalite.client.group.membership_steps import Assign, Lead, Lose, Revoke, Send, Step
from kafkalite.client.group.metadata import GroupMetadata, metadata_of
from kafkalite.client.group.offsets import GroupOffsets
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.lifecycle import end_tasks
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.group.membership_steps import HeartbeatOrLeave

log = logging.getLogger(__name__)

_LEAVE_TIMEOUT_S = 5.0


class RebalanceListener:
    """What the program wants to know about its partitions; override what is needed, with plain methods or coroutines."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """New partitions; their positions are looked up afterwards, unless this seeks."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Partitions are about to be given up; positions can still be committed."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """Partitions are another member's already; nothing can be committed. By default the same as revoked."""
        return self.on_partitions_revoked(lost)


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
        self._offsets = GroupOffsets(cluster, self._link, self._request_timeout_s, options.isolation, membership)
        self.positions = CommittedPositions(self._offsets, buffer, self._api_timeout_s, on_change)
        self._auto_commit = AutoCommit(
            self._offsets,
            options.auto_commit_interval_ms / 1000 if options.enable_auto_commit else None,
            self._api_timeout_s,
            consumed=consumed,
            may_commit=lambda: membership.is_member or not self._subscribed,
        )
        self._listener: Any = None
        self._pattern: re.Pattern[str] | None = None
        self._subscribed = False
        self._counts: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._heartbeat_wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._polls = 0
        self._tenures_read: Mapping[TopicPartition, int] = {}  # when the program last got records
        self._poll_began = asyncio.Event()
        self._boundary_wanted = False
        self._readable = asyncio.Event()
        self._readable.set()
        self._in_listener = False
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
        self._listener = listener
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
        """Give up everything and leave the group."""
        self._subscribed, self._pattern = False, None
        if self.membership.topics:
            self.membership.subscribe((), self._now_ms())
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
        member = self.membership
        if member.is_leader and member.is_stable:
            counts = self._partition_counts(member.group_topics)
            if any(counts.get(topic, 0) > self._counts.get(topic, 0) for topic in member.group_topics):
                member.rejoin("topics have new partitions")
        self._wake.set()

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
        self._end_poll_boundary()
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
        await end_tasks(self._tasks)
        await self._auto_commit.cancel()
        if commit:
            await self._auto_commit.commit_now(self._session_timeout_s)
        member = self.membership
        if member.partitions.owned:
            await self._call_listener("on_partitions_revoked", member.partitions.owned)
        message = member.leave_request("the consumer was closed")
        if message is not None:
            try:
                await self._link.request(message, Lane.OFFSETS, _LEAVE_TIMEOUT_S)
            except (OSError, ClientError) as problem:
                log.info("leaving group %s: %s", self._link.group_id, problem)

    # polls

    async def begin_poll(self) -> None:
        """The program asks for records. Returns when it may have some: not while partitions are being given up."""
        self._polls += 1
        self._note_poll()
        self._poll_began.set()
        if self._boundary_wanted:
            self._readable.clear()
        if not self._readable.is_set():
            await self._readable.wait()
        if self.problem is not None:
            raise self.problem
        self._auto_commit.commit_if_due()

    def end_poll(self) -> None:
        """The program has what it asked for, and works on it."""
        self._note_poll()
        self._tenures_read = self.membership.partitions.tenures
        self._polls -= 1
        if not self._polls:
            self._poll_began.clear()

    async def wait_until_settled(self) -> None:
        """Wait while partitions are being given up; raises what ended the membership."""
        await self._readable.wait()
        if self.problem is not None:
            raise self.problem

    def _note_poll(self) -> None:
        if self._subscribed:
            stalled = self.membership.stalled
            self.membership.note_poll(self._now_ms())
            if stalled:
                self._wake.set()

    async def _at_poll_boundary(self) -> None:
        """Wait for the program, and keep it from reading until `_end_poll_boundary`; or until this is no member any more."""
        self._boundary_wanted = True
        if not self._polls:
            self._poll_began.clear()
            await self._poll_began.wait()
        self._readable.clear()

    def _end_poll_boundary(self) -> None:
        self._boundary_wanted = False
        self._readable.set()

    # membership

    async def _run(self) -> None:
        while True:
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
                await self._lead(step.topics)
            case Revoke():
                await self._revoke(step.partitions)
            case Lose():
                self._apply(set(self.membership.partitions.owned).difference(step.partitions))
                await self._call_listener("on_partitions_lost", step.partitions)
                self.membership.complete_loss()
            case Assign():
                self._apply(self.membership.partitions.owned)
                await self._call_listener("on_partitions_assigned", step.added)
                self.positions.start_lookup()

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

    def _follow_coordinator(self) -> None:
        if self.membership.take_coordinator_loss():
            self._link.forget()

    async def _lead(self, topics: frozenset[str]) -> None:
        if self._cluster.watch_topics(topics) or not topics <= self._cluster.view.topics.keys():
            await self._cluster.try_refresh()
        self._counts = self._partition_counts(topics)
        self.membership.lead(self._counts)

    async def _revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        member = self.membership
        try:
            await self._at_poll_boundary()
            if member.is_member:
                await self._auto_commit.commit_now(self._session_timeout_s)
                self._apply(set(member.partitions.owned).difference(partitions))
                await self._call_listener("on_partitions_revoked", partitions)
            member.complete_revocation()
        finally:
            self._end_poll_boundary()

    def _apply(self, partitions: Iterable[TopicPartition]) -> None:
        self._buffer.assign(partitions, awaits_committed=True, by_group=True)
        self._on_change()

    async def _call_listener(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        method = getattr(self._listener, name, None)
        if method is None and name == "on_partitions_lost":
            method = getattr(self._listener, "on_partitions_revoked", None)
        if method is None:
            return
        self._in_listener = True
        try:
            outcome = method(set(partitions))
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:
            log.exception("%s of the rebalance listener failed", name)
        finally:
            self._in_listener = False

    async def _heartbeat(self) -> None:
        while True:
            self._heartbeat_wake.clear()
            if self._polls:
                self._note_poll()
            message = self.membership.next_heartbeat(self._now_ms())
            if message is not None:
                if self.membership.stalled:
                    self._poll_began.set()  # nobody waits for the program any more
                await self._send_heartbeat(message)
                if not self.membership.is_member:
                    self._poll_began.set()
                self._wake.set()
                continue
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

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit `offsets`, by default all positions. See `GroupOffsets.commit`."""
        if self._in_listener:
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
        return metadata_of(self._link.group_id, member, {} if self._in_listener else self._tenures_read)

    async def _wait_for_group(self, partitions: Iterable[TopicPartition]) -> bool:
        """A commit met a rebalance. One that needs the program to poll first is not waited for."""
        self._wake.set()
        member = self.membership
        while not member.is_stable:
            if self._boundary_wanted or not self._subscribed or member.failure is not None:
                return False
            self._stable.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._stable.wait()
        return set(partitions) <= set(member.partitions.owned)
