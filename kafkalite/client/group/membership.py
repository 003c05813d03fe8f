"""A member of a consumer group, as a state machine: answers and time in, requests and orders out. Pure.

The life of a member (KIP-62, KIP-345, KIP-394, KIP-429):

    out → joining → [leading →] syncing → stable → joining again when the group rebalances

and from everywhere out again, when the group went on without it (`PREDECESSORS`).

Two callers drive it. One carries out steps, one at a time: `next_step(now_ms)` says what is to be done, and the caller reports back by
the method that the step names. The other sends heartbeats: `next_heartbeat(now_ms)`. Both go on while the program is busy.

Invariants:
- Partitions are given up by `complete_revocation` and taken by a step `Assign`; they are lost as soon as that is known, and a step `Lose`
  tells the program. Between a step `Revoke` or `Lose` and its report the machine requests nothing but heartbeats.
- Eager members own nothing while they join. Cooperative ones keep what they own, and join once more after giving something up.
- An answer that belongs to another generation or member id than the present one changes nothing.
- A member that was fenced (FENCED_INSTANCE_ID) or refused for good stops: `failure` has the error. So does one whose assignor raises.
- Joining that fails again and again is spaced by the retry backoff, whatever the coordinator answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkalite.client.cluster.retry import is_retriable_code
from kafkalite.client.errors import ClientError, CommitFailedError, error_name, error_of
from kafkalite.client.group.consumer_protocol import Subscription, decode_assignment
from kafkalite.client.group.heartbeat import Heartbeat
from kafkalite.client.group.leadership import Leadership, chosen_assignor
from kafkalite.client.group.member_states import PREDECESSORS, MemberState, assignor_failed
from kafkalite.client.group.membership_requests import (
    MembershipSettings,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from kafkalite.client.group.membership_steps import Assign, Lead, Lose, Revoke, Send, Step
from kafkalite.client.group.metadata import NO_GENERATION, GroupMetadata
from kafkalite.client.group.owned_partitions import OwnedPartitions
from kafkalite.errors import ErrorCode, ensure
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.group.membership_steps import HeartbeatOrLeave, MembershipRequest

NO_MEMBER = ""


_COORDINATOR_GONE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_GENERATION_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_IMMEDIATE_REJOINS = 2
"""A member may need an id first, and be overtaken by another rebalance; after that it waits before it joins again."""

_JOIN_MARGIN_MS = 5_000
"""How much longer than the rebalance timeout a JoinGroup may take."""


class Membership:
    """The state machine of one group member (KIP-62, KIP-429). `member_id` and `generation` are what the coordinator gave. Its
    fields are for others to read: it alone writes them."""

    def __init__(self, settings: MembershipSettings) -> None:
        self.settings = settings
        self.cooperative = all(each.cooperative for each in settings.assignors)
        self.state = MemberState.OUT
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.protocol_name: str | None = None
        self.topics: tuple[str, ...] = ()
        self.partitions = OwnedPartitions()
        self.leadership: Leadership | None = None
        """What a leader knows of the present generation; None for a follower."""
        self._coordinator_lost = False
        self.failure: ClientError | None = None
        self.stalled = False
        self.is_leaving = False
        """True from `unsubscribe` until nothing is owned and the coordinator need only be told."""
        self.rejoins = 0
        self._failed_joins = 0
        """In a row."""
        self._last_assignment: tuple[TopicPartition, ...] = ()
        self._last_generation = NO_GENERATION
        self._rejoin_reason: str | None = None
        self._prepared = False
        self._waits_for_report = False
        self._in_flight: MembershipRequest | None = None
        self._join_unanswered = False
        """True while the present generation may have been ended by a JoinGroup whose answer never came."""
        self._assignments: dict[str, list[TopicPartition]] = {}
        self._not_before_ms = 0.0
        self._heartbeat = Heartbeat(
            settings.heartbeat_interval_ms,
            settings.session_timeout_ms,
            settings.max_poll_interval_ms,
            settings.retry_backoff_ms,
        )

    def _move_to(self, state: MemberState) -> None:
        ensure(self.state in PREDECESSORS[state], f"a member cannot go from {self.state.value} to {state.value}")
        self.state = state

    # what the program wants

    def subscribe(self, topics: Sequence[str], now_ms: float) -> None:
        """Be a member that reads `topics`; none: give up everything and leave, until there are some."""
        if not self.topics:
            self._heartbeat.note_poll(now_ms)
        if set(topics) != set(self.topics):
            self.topics = tuple(topics)
            self.rejoin("the subscription changed")

    def unsubscribe(self, now_ms: float) -> None:
        """Give up everything and leave, before anything else; the program has stopped reading."""
        self.note_poll(now_ms)
        self.topics, self.is_leaving = (), True

    def rejoin(self, reason: str) -> None:
        """Let the group rebalance: topics or partitions are there that were not."""
        self._rejoin_reason = reason

    def note_poll(self, now_ms: float) -> None:
        """The program asked for records: it is alive, for `max_poll_interval_ms` from now."""
        self._heartbeat.note_poll(now_ms)
        if self.stalled:
            self.stalled = False
            self.rejoin("the program polls again")

    @property
    def is_stable(self) -> bool:
        """True if the present assignment is the group's, as far as is known."""
        return self.state is MemberState.STABLE and self._rejoin_reason is None and self.partitions.to_assign is None

    @property
    def is_member(self) -> bool:
        """True if the coordinator knows this member, in a generation."""
        return self.generation != NO_GENERATION and self.member_id != NO_MEMBER

    # steps

    def next_step(self, now_ms: float) -> Step | None:
        """Return what is to be done now; None while there is nothing, or a report is awaited."""
        if self._waits_for_report:
            return None
        if self.partitions.to_lose:
            return self._await_report(Lose(self.partitions.to_lose))
        if self.failure is not None or self.stalled or now_ms < self._not_before_ms:
            return None
        if self.is_leaving or not self.topics:
            step = self._step_out()
            if step is not None or not self.topics:
                return step
        if self.state is MemberState.STABLE and self.partitions.to_revoke:
            return self._await_report(Revoke(self.partitions.to_revoke))
        if self.state is MemberState.STABLE and self.partitions.to_assign is not None:
            return Assign(self.partitions.complete_assignment(self.rejoins))
        if self.state is MemberState.OUT or (self.state is MemberState.STABLE and self._rejoin_reason is not None):
            return self._step_join()
        if self.state is MemberState.LEADING:
            leadership = self.leadership or Leadership({})
            return self._await_report(Lead(leadership.topics, leadership.skips_assignment))
        if self.state is MemberState.SYNCING:
            return self._send_step(
                self._sync_request(), self.settings.request_timeout_ms + self.settings.max_poll_interval_ms
            )
        return None

    def next_event_ms(self) -> float:
        """Return the time at which `next_step` may have something new without a report."""
        return self._not_before_ms

    def _await_report(self, step: Step) -> Step:
        self._waits_for_report = True
        return step

    def _send_step(self, message: MembershipRequest, timeout_ms: float) -> Send:
        self._in_flight = message
        self._waits_for_report = True
        return Send(message, timeout_ms)

    def _step_out(self) -> Step | None:
        owned = self.partitions.owned
        if owned:
            self.partitions.to_revoke = owned
            return self._await_report(Revoke(owned))
        self.is_leaving = False
        message = self.leave_request("the consumer unsubscribed")
        self._leave_generation(forget_member=True)
        self._rejoin_reason = None
        return None if message is None else self._send_step(message, self.settings.request_timeout_ms)

    def _step_join(self) -> Step | None:
        if not self._prepared:
            self._prepared = True
            kept = set(self.topics)
            owned = self.partitions.owned
            gone = owned if not self.cooperative else tuple(each for each in owned if each.topic not in kept)
            if gone:
                self.partitions.to_revoke = gone
                return self._await_report(Revoke(gone))
        try:
            message = self._join_request()
        except Exception as problem:
            self._fail(assignor_failed(problem))
            return None
        self._move_to(MemberState.JOINING)
        timeout_ms = max(self.settings.request_timeout_ms, self.settings.max_poll_interval_ms + _JOIN_MARGIN_MS)
        self._rejoin_reason = None
        return self._send_step(message, timeout_ms)

    def complete_revocation(self) -> None:
        """The step `Revoke` is done."""
        self._waits_for_report = False
        self.partitions.complete_revocation()

    def complete_loss(self) -> None:
        """The step `Lose` is done."""
        self._waits_for_report = False
        self.partitions.complete_loss()

    def lead(self, partition_counts: Mapping[str, int]) -> None:
        """The step `Lead` is done: assign the partitions of the topics that exist, unless the coordinator keeps what is assigned."""
        self._waits_for_report = False
        if self.state is not MemberState.LEADING or self.leadership is None:
            return
        try:
            assignor = chosen_assignor(self.settings.assignors, self.protocol_name)
            if not self.leadership.skips_assignment:
                self._assignments = self.leadership.assign(assignor, partition_counts)
            self._sync_request()  # what cannot be written is the assignor's fault too
        except Exception as problem:
            self._fail(assignor_failed(problem))
            return
        self._move_to(MemberState.SYNCING)

    def handle_response(self, response: Any, now_ms: float) -> None:
        """The answer to the request of the last `Send`."""
        message, self._in_flight = self._in_flight, None
        self._waits_for_report = False
        if isinstance(message, messages.join_group_request.JoinGroupRequest):
            self._handle_join(message, response, now_ms)
        elif isinstance(message, messages.sync_group_request.SyncGroupRequest):
            self._handle_sync(message, response, now_ms)

    def handle_no_response(self, now_ms: float) -> None:
        """The request of the last `Send` got no answer: the coordinator may be another one by now."""
        self._join_unanswered = self._join_unanswered or self.state is MemberState.JOINING
        self._in_flight = None
        self._waits_for_report = False
        self._lose_coordinator(now_ms)

    def fail_request(self, problem: ClientError, now_ms: float) -> None:
        """The request of the last `Send` cannot be sent, now or later: the membership ends with `problem`."""
        self.failure = problem
        self.handle_no_response(now_ms)

    # joining

    def _sync_request(self) -> messages.sync_group_request.SyncGroupRequest:
        return sync_group(self.settings, self.member_id, self.generation, self.protocol_name, self._assignments)

    def _join_request(self) -> messages.join_group_request.JoinGroupRequest:
        topics, owned = tuple(sorted(self.topics)), self.partitions.owned
        subscriptions = {}
        for each in self.settings.assignors:
            user_data = each.user_data(self._last_assignment, self._last_generation)
            subscriptions[each.name] = Subscription(topics, user_data, owned, self.generation)
        return join_group(self.settings, self.member_id, subscriptions, self._rejoin_reason)

    def _handle_join(self, request: messages.join_group_request.JoinGroupRequest, response: Any, now_ms: float) -> None:
        if self.state is not MemberState.JOINING or request.member_id != self.member_id:
            return
        code = response.error_code
        if code == ErrorCode.NONE and response.generation_id > NO_GENERATION and response.member_id != NO_MEMBER:
            self._enter_generation(response, now_ms)
            return
        code = code or ErrorCode.COORDINATOR_NOT_AVAILABLE  # no coordinator answers without a member id or a generation
        self._move_to(MemberState.OUT)
        self.rejoin(f"joining failed: {error_name(code)}")
        self._count_failed_join(now_ms)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in _GENERATION_GONE:
            self._leave_generation(forget_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._wait(now_ms)
        else:
            self._handle_error(code, "joining", now_ms)

    def _enter_generation(self, response: Any, now_ms: float) -> None:
        if self.is_member and not self._join_unanswered and response.generation_id - self.generation not in (0, 1):
            self.partitions.lose_all()  # in those between, another member may have had them; the same one is told when nothing changed
        self.member_id, self.generation = response.member_id, response.generation_id
        self.protocol_name = response.protocol_name
        self._prepared = self._join_unanswered = False
        self._heartbeat.restart_session(now_ms)
        self._assignments = {}
        try:
            chosen_assignor(self.settings.assignors, self.protocol_name)
            self.leadership = Leadership.of(response) if response.leader == response.member_id else None
        except ClientError as problem:
            self._fail(problem)
            return
        self._move_to(MemberState.LEADING if self.leadership is not None else MemberState.SYNCING)

    # syncing

    def _handle_sync(self, request: messages.sync_group_request.SyncGroupRequest, response: Any, now_ms: float) -> None:
        present = (self.generation, self.member_id)
        if self.state is not MemberState.SYNCING or (request.generation_id, request.member_id) != present:
            return
        code = response.error_code
        if code == ErrorCode.NONE:
            self._apply_assignment(response.assignment, now_ms)
            return
        self._move_to(MemberState.OUT)
        self.rejoin(f"synchronizing failed: {error_name(code)}")
        self._count_failed_join(now_ms)
        if code in _GENERATION_GONE:
            self._leave_generation(forget_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._handle_error(code, "synchronizing", now_ms)

    def _apply_assignment(self, data: bytes, now_ms: float) -> None:
        try:
            decoded = decode_assignment(data).partitions
        except ValueError as problem:
            self._fail(ClientError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {problem}"))
            return
        # A subscription that changed meanwhile is joined with again; nothing else may make this member read another topic.
        given = tuple(dict.fromkeys(each for each in decoded if each.topic in self.topics and each.partition >= 0))
        self._move_to(MemberState.STABLE)
        self._failed_joins = 0
        self.rejoins += 1
        self._heartbeat.restart_session(now_ms)
        self._last_assignment, self._last_generation = given, self.generation
        self.partitions.plan_changes(given)
        if self.partitions.to_revoke:
            self.rejoin("partitions were given up for others")

    # heartbeats

    def next_heartbeat(self, now_ms: float) -> HeartbeatOrLeave | None:
        """Return the Heartbeat that is due, a LeaveGroup when the program did not poll for too long, or None."""
        if self._heartbeat.in_flight or not self.is_member or self.failure is not None or self.stalled:
            return None
        if self._heartbeat.poll_expired(now_ms):
            return self._stall()
        if self.state not in (MemberState.STABLE, MemberState.LEADING, MemberState.SYNCING):
            return None
        if self._heartbeat.session_expired(now_ms):
            self._coordinator_lost = True
        if not self._heartbeat.start(now_ms):
            return None
        return heartbeat(self.settings, self.member_id, self.generation)

    def next_heartbeat_ms(self) -> float:
        """Return the time at which to call `next_heartbeat` again."""
        return self._heartbeat.next_event_ms()

    def handle_heartbeat(self, request: HeartbeatOrLeave, response: Any, now_ms: float) -> None:
        """The answer to a message of `next_heartbeat`; None for one that got none."""
        if not isinstance(request, messages.heartbeat_request.HeartbeatRequest):
            return
        self._heartbeat.finish(now_ms, answered=response is not None)
        if response is None:
            self._coordinator_lost = True
            return
        if (request.generation_id, request.member_id) != (self.generation, self.member_id):
            return
        code = response.error_code
        if code == ErrorCode.NONE:
            self._heartbeat.restart_session(now_ms)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._heartbeat.restart_session(now_ms)
            if self.state is MemberState.STABLE:
                self.rejoin("the group rebalances")
        elif code == ErrorCode.ILLEGAL_GENERATION and self.may_have_left(request.generation_id):
            pass
        elif code in _GENERATION_GONE:
            self._leave_generation(forget_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
            self.rejoin(f"heartbeat failed: {error_name(code)}")
        elif code == ErrorCode.UNKNOWN_SERVER_ERROR or is_retriable_code(code):
            self._coordinator_lost = self._coordinator_lost or code in _COORDINATOR_GONE
            self._heartbeat.retry_soon(now_ms)
        else:
            self._handle_error(code, "heartbeat", now_ms)

    def _stall(self) -> messages.leave_group_request.LeaveGroupRequest | None:
        message = self.leave_request("the program did not poll within max_poll_interval_ms")
        self.stalled = True
        self._leave_generation(forget_member=self.settings.group_instance_id is None)
        return message

    def leave_request(self, reason: str) -> messages.leave_group_request.LeaveGroupRequest | None:
        """Return the LeaveGroup of this member; None for static members, whose place is kept for them (KIP-345), and non-members."""
        if self.settings.group_instance_id is not None or self.member_id == NO_MEMBER:
            return None
        return leave_group(self.settings, self.member_id, reason)

    # what goes wrong

    def take_coordinator_loss(self) -> bool:
        """True if the coordinator must be found again before the next request, once: the caller does it."""
        lost, self._coordinator_lost = self._coordinator_lost, False
        return lost

    def may_have_left(self, generation: int) -> bool:
        """True if this member is a member of a later generation than `generation`, or its JoinGroup may have begun one.

        An ILLEGAL_GENERATION for `generation` then tells nothing about its place in the group: the answer to the JoinGroup does.
        """
        joins = self.state is MemberState.JOINING or self._join_unanswered
        return self.is_member and (joins or generation != self.generation)

    def handle_commit_error(self, code: int, generation: int, member_id: str) -> None:
        """A commit was answered with an error of membership."""
        if (generation, member_id) != (self.generation, self.member_id) or not self.is_member:
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.rejoin("the group rebalances")
        elif code in _GENERATION_GONE:
            self._leave_generation(forget_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
            self.rejoin(f"committing failed: {error_name(code)}")
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._fail(error_of(code, f"group {self.settings.group_id}, committing"))

    def _handle_error(self, code: int, doing: str, now_ms: float) -> None:
        if code in _COORDINATOR_GONE:
            self._lose_coordinator(now_ms)
        elif is_retriable_code(code):
            self._wait(now_ms)
        else:
            self._fail(error_of(code, f"group {self.settings.group_id}, {doing}"))

    def _lose_coordinator(self, now_ms: float) -> None:
        self._coordinator_lost = True
        if self.state is MemberState.JOINING:
            self._move_to(MemberState.OUT)
        self._wait(now_ms)

    def _count_failed_join(self, now_ms: float) -> None:
        """Joining or synchronizing failed, in a way that may pass."""
        self._failed_joins += 1
        if self._failed_joins > _IMMEDIATE_REJOINS:
            self._wait(now_ms)

    def _wait(self, now_ms: float) -> None:
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def _leave_generation(self, forget_member: bool) -> None:
        """The group goes on without this member: what it owned is lost."""
        self.partitions.lose_all()
        self._move_to(MemberState.OUT)
        self.generation = NO_GENERATION
        self.leadership = None
        self._prepared = self._join_unanswered = False
        self.partitions.drop_plan()
        if forget_member:
            self.member_id = NO_MEMBER

    def _fail(self, problem: ClientError) -> None:
        self._leave_generation(forget_member=False)
        self.failure = problem


def metadata_of(group_id: str, member: Membership | None, tenures: Mapping[TopicPartition, int]) -> GroupMetadata:
    """Return what the coordinator knows `member` by; None is a consumer whose partitions were assigned by hand.

    CommitFailedError when it is no member now, or gave up partitions since `tenures`. The coordinator would take the offsets then: without
    a generation it checks none (Kafka's GroupCoordinator), and in the next one it cannot see that another member
    had the partition meanwhile.
    """
    if member is None:
        return GroupMetadata(group_id)
    if not member.is_member:
        raise CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
    if not member.partitions.still_in(tenures, tenures):
        raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, group_id)
    return GroupMetadata(group_id, member.generation, member.member_id, member.settings.group_instance_id)
