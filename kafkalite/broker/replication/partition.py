"""One partition on this broker: who leads it, which replicas are in sync, and how far records are committed.

The rules are Apache Kafka's (KIP-101, KIP-279, KIP-497; replica.lag.time.max.ms; min.insync.replicas). Nothing here waits or talks:
time comes as `now_ms` (monotonic), an ISR change that is due is returned as an `IsrChange` and comes back through `isr_committed` or
`isr_refused`; fetches that wait for records or for the high watermark register a watcher.

Re-entrance: waiters for a commit are notified through the `ActionQueue`, in a turn of its own; within a call only watchers are notified,
who note and schedule, and must not come back into the partition.

Invariants:
- At most one ISR change is in flight. While it is, the *maximal* ISR (what may be the ISR) decides the high watermark: a
  replica that may be in the ISR is waited for, one that may be out of it is not counted on.
- The high watermark never goes back while this broker leads.
- A leader appends only in its own leader epoch; who asks with another epoch is fenced.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkalite.broker.replication.action_queue import Done
from kafkalite.broker.replication.effects import NO_WAITS, AckWait, IsrChange
from kafkalite.broker.replication.follower_state import NEVER_MS, NO_FOLLOWERS, FetchRequester, FollowerState
from kafkalite.broker.replication.partition_host import PartitionHost
from kafkalite.broker.replication.partition_watcher import NO_WATCHERS
from kafkalite.controller.control_requests import LeaderAndIsrPartition
from kafkalite.errors import ErrorCode, KafkaError, ensure
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard
from kafkalite.types import NO_BROKER, BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol.record_batches.records import BatchHeader
    from kafkalite.storage.log.append_checks import AppendResult, ClientCheck
    from kafkalite.storage.log.partition_log import PartitionLog


class Partition:
    """A replica on this broker, as leader or follower; `Replicas` owns it. A broker has a hundred thousand, nearly all of them idle."""

    __slots__ = (
        "_ack_waits",
        "_host",
        "_is_notifying",
        "_is_settled",
        "adding_replicas",
        "began_in_sync",
        "controller_epoch",
        "followers",
        "is_counted",
        "isr",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "local_id",
        "log",
        "partition_epoch",
        "pending_change",
        "removing_replicas",
        "replicas",
        "topic_partition",
        "watchers",
    )

    def __init__(self, topic_partition: TopicPartition, log: PartitionLog, host: PartitionHost) -> None:
        self.topic_partition = topic_partition
        self.local_id = host.broker_id
        self.log = log
        self._host = host
        self.leader = NO_BROKER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.controller_epoch = -1
        self.leader_epoch_start_offset = 0
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding_replicas: tuple[BrokerId, ...] = ()
        self.removing_replicas: tuple[BrokerId, ...] = ()
        self.isr: tuple[BrokerId, ...] = ()
        self.began_in_sync = False
        """True if this replica was in the ISR when it became a follower."""
        self.pending_change: IsrChange | None = None
        self.followers = NO_FOLLOWERS
        self.watchers = NO_WATCHERS
        """Set by `Replicas`, which knows watchers of partitions that are not hosted too."""
        self._ack_waits = NO_WAITS
        """In the order of the log; any of them may time out."""
        self._is_notifying = self.is_counted = False
        self._is_settled = True

    # What it is

    @property
    def is_leader(self) -> bool:
        return self.leader == self.local_id

    @property
    def topic_id(self) -> bytes:
        return self.log.topic_id

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        """Return the largest set that may be the ISR now."""
        if self.pending_change is None or len(self.pending_change.isr) < len(self.isr):
            return self.isr
        return self.pending_change.isr

    @property
    def effective_min_isr(self) -> int:
        """Return min.insync.replicas, but not more than there are replicas (3.7 and newer)."""
        return min(self.log.config.min_insync_replicas, max(1, len(self.replicas)))

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.isr) < self.effective_min_isr

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.isr) < len(self.replicas)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise KafkaError unless this broker leads, in the epoch that the caller knows if it gives one (KIP-320)."""
        self.require_epoch(current_leader_epoch)
        if self.leader != self.local_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.local_id} does not lead {self.topic_partition}"
            )

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Raise KafkaError FENCED_LEADER_EPOCH for an older epoch than ours, UNKNOWN_LEADER_EPOCH for a newer one; -1 matches any."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            code = (
                ErrorCode.FENCED_LEADER_EPOCH
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise KafkaError(
                code, f"{self.topic_partition} is in leader epoch {self.leader_epoch}, not {current_leader_epoch}"
            )

    # Roles

    def become_leader(self, state: LeaderAndIsrPartition, now_ms: float) -> bool:
        """Lead as `state` says; return True if this is a new leader epoch.

        A broker that led before keeps its acks=all waits: its log is not truncated, so what they wait for can still be committed.
        """
        newer_epoch = state.leader_epoch > self.leader_epoch
        if not newer_epoch and state.partition_epoch < self.partition_epoch:
            return False
        self._adopt(state)
        _set_isr(self, state.isr, is_epoch_new=newer_epoch)
        self._host.count(self)
        kept = {} if newer_epoch else self.followers
        followers = {}
        for broker in state.replicas:
            if broker != self.local_id:
                caught_up_ms = now_ms if newer_epoch and broker in state.isr else NEVER_MS
                followers[broker] = kept.get(broker) or FollowerState(broker, last_caught_up_ms=caught_up_ms)
        self.followers = followers
        if newer_epoch:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.assign_epoch(state.leader_epoch)
        self._unsettle()
        self._advance_high_watermark(now_ms)
        if newer_epoch:
            self._notify_leader_epoch()
        return newer_epoch

    def become_follower(self, state: LeaderAndIsrPartition) -> bool:
        """Follow as `state` says; return True if the leader epoch is new, so that fetching must start again."""
        newer_epoch = state.leader_epoch > self.leader_epoch
        if not newer_epoch and state.partition_epoch < self.partition_epoch:
            return False
        self._adopt(state)
        self.isr = ()
        self._host.count(self)
        self.began_in_sync = self.local_id in state.isr
        self.pending_change = None
        self.followers = NO_FOLLOWERS
        if newer_epoch:
            self._notify_role_change()
        return newer_epoch

    def resign(self) -> None:
        """Stop serving: the replica was stopped or deleted, or its directory failed."""
        self.leader = NO_BROKER
        self._host.count(self)
        self.pending_change = None
        self._notify_role_change()

    def _adopt(self, state: LeaderAndIsrPartition) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas

    def _notify_role_change(self) -> None:
        self._fail_ack_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.notify_watchers(appended=True)

    def _notify_leader_epoch(self) -> None:
        self._is_notifying = True
        try:
            for watcher in tuple(self.watchers):
                watcher.on_leader_epoch(self)
        finally:
            self._is_notifying = False

    def notify_watchers(self, appended: bool) -> None:
        """Notify watchers of records or the end of a role, or (`appended` is False) of offsets that moved."""
        if not self.watchers:
            return
        self._is_notifying = True
        try:
            for watcher in tuple(self.watchers):
                if appended:
                    watcher.on_append(self)
                else:
                    watcher.on_high_watermark(self)
        finally:
            self._is_notifying = False

    # Appending

    def append(
        self,
        records: bytearray | memoryview,
        acks: int,
        now_ms: float,
        wall_ms: int,
        request_version: int = 9,
        check: ClientCheck = None,
        guard: VerificationGuard = UNGUARDED,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append a producer's or coordinator's records in this leader's epoch; offsets are set in `records`.

        Raises TooMuchAtOnce as `PartitionLog.append_as_leader`, and NOT_ENOUGH_REPLICAS before anything is written if acks=all cannot hold.
        """
        self._require_replicas(acks)
        end_before = self.log.log_end_offset
        result = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=wall_ms,
            request_version=request_version,
            origin=origin,
            check=check,
            guard=guard,
        )
        self.after_append(end_before, now_ms)
        return result

    def append_plain(self, records: bytearray, headers: list[BatchHeader], now_ms: float, wall_ms: int) -> int:
        """Append batches of several producers of the fast path (`broker/produce/partition_batches`); return the first offset."""
        end_before = self.log.log_end_offset
        first_offset = self.log.append_plain(records, headers, self.leader_epoch, wall_ms)
        self.after_append(end_before, now_ms)
        return first_offset

    def _require_replicas(self, acks: int) -> None:
        if acks == -1 and len(self.isr) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr)} replicas in sync, min.insync.replicas is {self.effective_min_isr}",
            )

    def after_append(self, end_before: int, now_ms: float) -> None:
        """Update followers and watchers after the leader's log grew: a follower at `end_before` was caught up until its last fetch."""
        ensure(not self._is_notifying, "a watcher came back into the partition that told it")
        if self._is_settled:
            self._unsettle()
        for follower in self.followers.values():
            if follower.log_end_offset == end_before and follower.requester.last_fetch_ms > follower.last_caught_up_ms:
                follower.last_caught_up_ms = follower.requester.last_fetch_ms
        if len(self.replicas) <= 1 or self.isr == (self.local_id,):
            self._advance_high_watermark(now_ms)
        self.notify_watchers(appended=True)

    def when_committed(self, required_offset: int, done: Done) -> AckWait | None:
        """Call `done(error)` once the high watermark reaches `required_offset`, in the order of the log.

        Return None if it has: `done` was called at once, or will be, after those that waited before.
        """
        if self.log.high_watermark >= required_offset:
            if self._host.actions.is_empty:
                done(self._ack_outcome())
            else:
                self._host.actions.add(done, self._ack_outcome())
            return None
        wait = AckWait(required_offset, done)
        if self._ack_waits is NO_WAITS:
            self._ack_waits = OrderedDict()
        self._ack_waits[wait] = None
        return wait

    def _ack_outcome(self) -> ErrorCode:
        enough = len(self.maximal_isr) >= self.effective_min_isr
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def forget_wait(self, wait: AckWait) -> None:
        """Remove a wait that timed out."""
        self._ack_waits.pop(wait, None)

    def _fail_ack_waits(self, code: ErrorCode) -> None:
        if not self._ack_waits:
            return
        waits, self._ack_waits = self._ack_waits, NO_WAITS
        for wait in waits:
            self._host.actions.add(wait.done, code)

    # Followers and the high watermark

    def follower_fetched(
        self, broker_id: BrokerId, fetch_offset: int, log_start_offset: int, now_ms: float, requester: FetchRequester
    ) -> IsrChange | None:
        """Note that a follower fetches from `fetch_offset`, so it has all before; return an ISR expansion that is due."""
        follower = self.followers.get(broker_id)
        if follower is None:
            return None
        end = self.log.log_end_offset
        if fetch_offset >= end:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif fetch_offset >= follower.leader_end_at_last_fetch:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        moved = fetch_offset != follower.log_end_offset
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        follower.last_fetch_ms = now_ms
        follower.leader_end_at_last_fetch = end
        follower.requester = requester
        if moved:
            if fetch_offset != end:
                self._unsettle()
            self._advance_high_watermark(now_ms)
        return self._expansion(follower)

    def _is_joining(self, follower: FollowerState, now_ms: float) -> bool:
        """True if a follower is so near the end that the high watermark waits for it: else it would never catch up under load."""
        return now_ms - follower.caught_up_ms(
            self.log.log_end_offset
        ) <= self._host.lag_max_ms and self._host.is_eligible(follower.broker_id)

    def waits_for(self, broker_id: BrokerId, now_ms: float) -> bool:
        """True if the high watermark waits for this replica, so that throttling it would delay every acks=all append."""
        follower = self.followers.get(broker_id)
        return broker_id in self.maximal_isr or (follower is not None and self._is_joining(follower, now_ms))

    def _unsettle(self) -> None:
        self._is_settled = False
        self._host.unsettled[self.topic_partition] = None

    def settle(self) -> bool:
        """Return whether nothing is due by time alone: the ISR has all records, and all are committed (`unsettled`)."""
        end, isr = self.log.log_end_offset, self.maximal_isr
        self._is_settled = not self.is_leader or (
            self.log.high_watermark == end
            and all(each.log_end_offset == end or each.broker_id not in isr for each in self.followers.values())
        )
        return self._is_settled

    def stop_waiting(self, now_ms: float) -> None:
        """Advance the high watermark past replicas outside the ISR that lag too long or died.

        Nothing else would notice if such a replica was the last that the high watermark waited for.
        """
        if self.log.high_watermark < self.log.log_end_offset:
            self._advance_high_watermark(now_ms)

    def _advance_high_watermark(self, now_ms: float) -> None:
        lowest = self.log.log_end_offset
        if self.log.high_watermark == lowest or not self.is_leader or len(self.isr) < self.effective_min_isr:
            return
        maximal = self.maximal_isr if self.followers else ()
        for follower in self.followers.values():
            counts = follower.broker_id in maximal or self._is_joining(follower, now_ms)
            if counts and follower.log_end_offset < lowest:
                lowest = follower.log_end_offset
        if lowest > self.log.high_watermark:
            self.log.set_high_watermark(lowest)
            self._high_watermark_moved()

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Take over the leader's high watermark, as far as this follower has the records."""
        reached = min(leader_high_watermark, self.log.log_end_offset)
        if reached > self.log.high_watermark:
            if self._is_settled:
                self._unsettle()
            self.log.set_high_watermark(reached)
            self._high_watermark_moved()

    def _high_watermark_moved(self) -> None:
        ensure(not self._is_notifying, "a watcher came back into the partition that told it")
        high_watermark = self.log.high_watermark
        waits = self._ack_waits
        while waits and next(iter(waits)).required_offset <= high_watermark:
            self._host.actions.add(waits.popitem(last=False)[0].done, self._ack_outcome())
        self.notify_watchers(appended=False)

    @property
    def low_watermark(self) -> int:
        """Return the lowest log start offset of the live replicas, which DeleteRecords answers.

        -1 as long as one of them has not fetched in this leader epoch: it may be elected next, and start where it did before.
        """
        starts = [f.log_start_offset for f in self.followers.values() if self._host.is_eligible(f.broker_id)]
        return min([self.log.log_start_offset, *starts])

    # ISR changes

    def _expansion(self, follower: FollowerState) -> IsrChange | None:
        if (
            self.pending_change is not None  # its end is told to the watchers, so that the next fetch asks again
            or follower.broker_id in self.isr
            or follower.log_end_offset < max(self.log.high_watermark, self.leader_epoch_start_offset)
            or 0 <= follower.log_start_offset < self.log.log_start_offset  # it would bring back what was deleted
            or not self._host.is_eligible(follower.broker_id)
        ):
            return None
        return self._propose((*self.isr, follower.broker_id), f"replica {follower.broker_id} caught up")

    def shrink(self, now_ms: float) -> IsrChange | None:
        """Return the ISR change without members that have been behind for longer than replica.lag.time.max.ms.

        Returns None if there are none or a change is in flight.
        """
        if not self.is_leader or self.pending_change is not None or len(self.isr) <= 1:
            return None
        out = [
            broker
            for broker in self.isr
            if broker != self.local_id
            and (follower := self.followers.get(broker)) is not None
            and follower.log_end_offset != self.log.log_end_offset
            and now_ms - follower.last_caught_up_ms > self._host.lag_max_ms
        ]
        if not out:
            return None
        reason = f"replicas {','.join(map(str, out))} did not catch up within {self._host.lag_max_ms:.0f} ms"
        return self._propose(tuple(b for b in self.isr if b not in out), reason)

    def _propose(self, isr: tuple[BrokerId, ...], reason: str) -> IsrChange:
        self.pending_change = IsrChange(
            self.topic_partition,
            self.topic_id,
            self.leader_epoch,
            self.partition_epoch,
            self.controller_epoch,
            isr,
            reason,
        )
        return self.pending_change

    def isr_committed(
        self, change: IsrChange, isr: Iterable[BrokerId], leader_epoch: int, partition_epoch: int, now_ms: float
    ) -> bool:
        """Apply a change that was written; return False if it is not about this epoch any more."""
        if (
            self.pending_change is not change
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
        ):
            return False
        written = tuple(isr)
        ensure(
            self.local_id in written,
            f"{self.topic_partition}: leader {self.local_id} is not in the written ISR {written}",
        )
        self.partition_epoch = partition_epoch
        _set_isr(self, written)
        self._host.count(self)
        self._advance_high_watermark(now_ms)
        return True

    def isr_refused(self, change: IsrChange) -> None:
        """Withdraw a change that was not written; it may be proposed again."""
        if self.pending_change is change:
            _set_isr(self, self.isr)


def _set_isr(partition: Partition, isr: tuple[BrokerId, ...], *, is_epoch_new: bool = False) -> None:
    """Set the ISR and end the pending change. Watchers are notified of a replica that left; a new leader epoch has every follower fetch."""
    maximal = partition.maximal_isr
    partition.isr, partition.pending_change = isr, None
    if not is_epoch_new and not set(maximal) <= set(isr):
        for watcher in partition.watchers:
            watcher.on_isr_exit(partition)
