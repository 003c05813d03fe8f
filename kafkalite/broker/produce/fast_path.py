"""The fast path of Produce: requests of one small batch each are not decoded one by one, and appended together.

Requests that one of their connection's templates recognises (`request_template`) and that arrive in one turn of the event loop are served
together at its end (`FastPath`): each partition checks once whether it may be appended to, their batches are one write, and followers and
waiting fetches are notified once. While several requests with acks=all wait for replicas, more of them are served when the `AppendPace`
says, and connections that send one after the other are not read from until then.

A request with a batch that might be refused, or of a client that may not write or has a quota, is returned to its connection and served
there as any other, in its order: nothing is refused here. So what is appended here is what `handlers.produce` would append. A write that
fails has failed for all requests in it. With acks=all responses wait until all is committed that the turn appended to their partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer, Operation, Permission, ResourceType
from kafkalite.broker.parts import HasClock, HasQuotas, HasReplicas, HasTraffic
from kafkalite.broker.produce.commit_waits import CommitWaits
from kafkalite.broker.produce.delayed_produce import find_refusal_log_start
from kafkalite.broker.produce.partition_batches import PartitionBatches, open_batches
from kafkalite.broker.produce.request_template import HEAD_BYTES, RequestTemplate, SharedTemplates, make_template
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import report
from kafkalite.protocol import messages
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.histogram import Histogram
    from kafkalite.security.principal import KafkaPrincipal

_REQUESTS_MAX: Final = 512
"""Requests that are appended together at most."""
WRITE: Final = Permission(Operation.WRITE, ResourceType.TOPIC)


class ResponseSlot(Protocol):
    """The place of one response among those of its connection."""

    done: bool
    """True once the response may leave, behind those before it."""

    frame: list[Buffer] | None


class TemplateOwner(Protocol):
    """A connection whose requests may repeat each other."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def wants_template(self) -> bool:
        """True if there is room for one more template of its requests."""

    def add_template(self, template: RequestTemplate, fast_path: FastPath) -> None:
        """Pass requests that the template recognises to the fast path from now on."""


class Sender(Protocol):
    """The connection that requests on the fast path come by."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal:
        """Return the principal of the sender, which re-authentication never changes."""

    def send_response(self, response: bytes) -> None:
        """Send the response to the oldest request on the fast path."""

    def reserve_response(self) -> ResponseSlot:
        """Return the place of the response to the oldest request on the fast path. Once it is `done`, `send_completed` is to be called."""

    def send_completed(self) -> None:
        """Send the responses in reserved places that are there."""

    def hold_reading(self, is_held: bool) -> None:
        """Read nothing until this is called with False."""

    def return_request(self, request: bytes) -> None:
        """Serve the oldest request on the fast path as any other."""


class Parts(HasClock, HasQuotas, HasReplicas, HasTraffic, Protocol):
    """The parts of the broker that the fast path uses."""


class _Uncommitted(NamedTuple):
    """A record that was appended, and is responded to when it is committed."""

    batches: PartitionBatches
    offset: int


class _Waiting(NamedTuple):
    """A response that waits for replicas: its place, the beginning of the request, and its record's offset."""

    slot: ResponseSlot
    sender: Sender
    template: RequestTemplate
    head: bytes
    offset: int


_Request: TypeAlias = tuple[Sender, RequestTemplate, bytes, int]
"""Sender, template, frame, and where in it the records begin."""


def _call_soon(run: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(run)


class FastPath:
    """Serves requests of all connections together. `schedule(run)` has `run` called at the end of this turn of the event loop."""

    def __init__(
        self,
        parts: Parts,
        latency: Histogram,
        authorizer: Authorizer = ALLOW_ALL,
        now_s: Callable[[], float] = perf_counter,
        schedule: Callable[[Callable[[], None]], None] = _call_soon,
    ) -> None:
        self._parts, self._latency, self._now_s, self._schedule = parts, latency, now_s, schedule
        self._authorizer = authorizer
        self._templates = SharedTemplates()
        self._requests: list[_Request] = []
        self._is_scheduled = False
        self._paced: asyncio.TimerHandle | None = None
        self._held: list[Sender] = []
        """Connections that are not read from until the pause ends."""
        self._began_s = 0.0
        self.is_off = False
        """True while each request is to be served as any other."""

    def accept_request(self, sender: Sender, template: RequestTemplate, frame: bytes, begin: int) -> None:
        """Serve a request at the end of the turn, or later. Before its connection begins anything else it must call `serve_accepted`."""
        requests = self._requests
        if not requests:
            self._began_s = self._now_s()
        if not self._is_scheduled:
            delay_ms = self._delay_ms() if template.acks == -1 else 0.0
            if not delay_ms:
                self._is_scheduled = True
                self._schedule(self._end_turn)
            elif self._paced is None:
                self._paced = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end_pause)
        requests.append((sender, template, frame, begin))
        if len(requests) >= _REQUESTS_MAX:
            self.serve_accepted()

    def hold_sender(self, sender: Sender) -> bool:
        """True if the sender is to be read from only when its requests are served; its reading is resumed then."""
        if self._paced is None:
            return False
        self._held.append(sender)
        return True

    def _delay_ms(self) -> float:
        return self._parts.replicas.pace.delay_ms(self._parts.clock.monotonic_ms())

    def _end_pause(self) -> None:
        """Read what came meanwhile, and serve it too: a loop reads after the callbacks that are scheduled already."""
        self._paced, self._is_scheduled = None, True
        self._resume_held()
        self._schedule(lambda: self._schedule(self._end_turn))

    def _resume_held(self) -> None:
        held, self._held = self._held, []
        for sender in held:
            sender.hold_reading(False)

    def learn_template(
        self,
        sender: TemplateOwner,
        frame: memoryview,
        version: int,
        body_position: int,
        request: messages.produce_request.ProduceRequest,
    ) -> None:
        """Add a template to the sender, if this request makes one; requests like it are passed to the fast path from now on."""
        if sender.wants_template and (template := make_template(frame, version, body_position, request)) is not None:
            sender.add_template(self._templates.share(template, sender.principal, sender.peer_host), self)

    def _end_turn(self) -> None:
        self._is_scheduled = False
        self.serve_accepted()

    def serve_accepted(self) -> None:
        """Serve the requests that were accepted so far, now."""
        requests, self._requests = self._requests, []
        if self._paced is not None:
            self._paced.cancel()
            self._paced = None
            self._resume_held()
        if not requests:
            return
        outcomes: list[bytes | _Uncommitted | None] = [None] * len(requests)
        now_ms, wall_ms = self._parts.clock.monotonic_ms(), self._parts.clock.now_ms()
        for batches in self._group_by_partition(requests, wall_ms):
            self._append(batches, requests, outcomes, now_ms, wall_ms)
        began_s = self._began_s
        duration_s = self._now_s() - began_s
        waiting: dict[int, dict[PartitionBatches, list[_Waiting]]] = {}
        answered = 0
        for (sender, template, frame, _), outcome in zip(requests, outcomes, strict=True):
            if outcome is None:
                sender.return_request(frame)
            elif isinstance(outcome, bytes):
                answered += 1
                sender.send_response(outcome)
            else:
                batches, offset = outcome
                waits = waiting.setdefault(template.timeout_ms, {}).setdefault(batches, [])
                waits.append(_Waiting(sender.reserve_response(), sender, template, frame[:HEAD_BYTES], offset))
        if answered:
            self._latency.observe(duration_s, answered)
        for timeout_ms, by_partition in waiting.items():
            self._wait(timeout_ms, by_partition, began_s)
        if waiting:
            self._parts.replicas.pace.note_append(now_ms)

    def _wait(self, timeout_ms: int, by_partition: dict[PartitionBatches, list[_Waiting]], began_s: float) -> None:
        """Respond to requests that were appended to one partition when all of them are committed, as followers fetch them together.

        If that never happens all of them are refused: which of them were committed, and with enough replicas, is not known any more.
        """
        waits = CommitWaits(timeout_ms, self._parts.replicas.pace)
        for batches, waiting in by_partition.items():
            done = partial(self._complete_responses, batches, waiting, began_s)
            waits.add(batches.partition, waiting[-1].offset + 1, done, len(waiting))
        waits.start()

    def _complete_responses(
        self, batches: PartitionBatches, waiting: list[_Waiting], began_s: float, code: ErrorCode
    ) -> None:
        self._latency.observe(self._now_s() - began_s, len(waiting))
        log_start_offset = batches.log_start_offset
        senders: dict[Sender, None] = {}
        for slot, sender, template, head, offset in waiting:
            if code:
                response = template.make_refusal(head, code, None, log_start_offset)
            else:
                response = template.make_response(head, offset, log_start_offset)
            slot.done, slot.frame = True, [response]
            senders[sender] = None
        for sender in senders:
            sender.send_completed()

    def _group_by_partition(self, requests: list[_Request], wall_ms: int) -> list[PartitionBatches]:
        """Group the batches that are appended by partition. A connection's requests behind one that is returned are left out."""
        found: dict[TopicPartition, PartitionBatches | None] = {}
        returned: set[Sender] = set()
        quota, generation = self._parts.quotas.produced, self._authorizer.generation
        has_quotas = quota.is_set
        for number, (sender, template, frame, begin) in enumerate(requests):
            if self.is_off or (returned and sender in returned):
                continue
            if (template.allowed_in != generation and not self._may_write(sender, template, generation)) or (
                has_quotas and quota.bound(sender.principal.name, template.client_id) is not None
            ):
                returned.add(sender)
                continue
            topic_partition = template.topic_partition
            try:
                batches = found[topic_partition]
            except KeyError:
                partition = self._parts.replicas.partitions.get(topic_partition)
                batches = found[topic_partition] = open_batches(partition, wall_ms)
            if batches is None or not batches.add(number, template, frame, begin):
                returned.add(sender)
        return [each for each in found.values() if each is not None and each.numbers]

    def _may_write(self, sender: Sender, template: RequestTemplate, generation: int) -> bool:
        """True if the sender may write to the topic; the authorizer decides once for a template, until an ACL changes."""
        if not self._authorizer.allows(sender.principal, sender.peer_host, WRITE, template.topic_partition.topic):
            return False
        template.allowed_in = generation
        return True

    def _append(
        self,
        batches: PartitionBatches,
        requests: list[_Request],
        outcomes: list[bytes | _Uncommitted | None],
        now_ms: float,
        wall_ms: int,
    ) -> None:
        partition, numbers = batches.partition, batches.numbers
        try:
            offset = partition.append_plain(batches.records, batches.headers, now_ms, wall_ms)
        except Exception as problem:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            if isinstance(problem, KafkaError):
                problem.as_outcome()
                code, message = problem.code, problem.message
            else:
                report("appending produced records failed", problem)
            for number in numbers:
                _, template, frame, _ = requests[number]
                outcomes[number] = template.make_refusal(frame, code, message, find_refusal_log_start(partition, code))
            return
        self._parts.traffic.count_produced(partition.topic_partition.topic, len(batches.records), len(numbers))
        log_start_offset = batches.log_start_offset = partition.log.log_start_offset
        committed = partition.high_watermark if len(partition.maximal_isr) >= partition.effective_min_isr else -1
        for number in numbers:
            _, template, frame, _ = requests[number]
            if template.acks == 1 or offset < committed:
                outcomes[number] = template.make_response(frame, offset, log_start_offset)
            else:
                outcomes[number] = _Uncommitted(batches, offset)
            offset += 1
