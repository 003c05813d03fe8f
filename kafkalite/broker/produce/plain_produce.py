"""Produce requests of one small batch each, which a connection sends again and again: not decoded one by one, and appended together.

A producer that sends single records repeats itself: all bytes before the records are those of its request before, but for the correlation
id and the lengths. `shape_of` notes them once a request was served as any other; `PlainShapes.find` knows the next one by them, whichever
partition it is for. Those of all connections that arrive in one turn of the loop are served together at its end (`PlainTurn`): each
partition looks once whether it may be appended to, their batches are one write, and followers and waiting fetches are notified once.
While several requests with acks=all wait for replicas, more of them are served when the `AppendPace` says, and connections that send one
after the other are not read from until then.

Whatever is not plain (several partitions, transactions, compression, a batch that might be refused, who may not write or has a quota) is
served as if there were no such thing, in the order of its connection: nothing is refused here. So what is appended here is what
`handlers.produce` would append. A write that fails has failed for all requests in it. With acks=all answers wait until all is committed
that the turn appended to their partition.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer, Operation, Permission, ResourceType
from kafkalite.broker.produce.commit_waits import CommitWaits
from kafkalite.broker.produce.delayed_produce import find_refusal_log_start
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.frames import response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.plain_batch import RecordLayout, layout_of, plain_header
from kafkalite.protocol.record_batches.records import MAGIC, SEQUENCE_LIMIT, BatchHeader, header_at
from kafkalite.protocol.schemas.reader_source import read_uvarint
from kafkalite.storage.log.message_format import stored_magic
from kafkalite.storage.producers.verification import NO_TRANSACTION
from kafkalite.types import INTERNAL_TOPICS, Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock
    from kafkalite.histogram import Histogram
    from kafkalite.security.principal import KafkaPrincipal

FRAME_BYTES: Final = 16 * 1024
"""A longer request gains nothing by being served with others."""
_FIELDS_BYTES: Final = 512
"""What precedes the records of a request is kept up to here: a client's id may be long."""
_OWN_SHAPES_MAX: Final = 64
"""So many are kept of a connection in any case, and so often it is looked at whether its requests repeat each other."""
_SHARED_SHAPES_MAX: Final = 8192
"""So many more are kept of all connections: for those that produce to many partitions. A shape takes 1 to 2 kB."""
_BORROWED_SHAPES_MAX: Final = 2048
"""Of those, one connection's."""
_TURN_MAX: Final = 512
"""Requests that are appended together at most."""
_HEAD_BYTES: Final = 12
"""Of a request, up to its correlation id: what is needed to answer it."""
_FIRST_VERSION: Final = 3
"""The first of batches."""
_LOG_START_FROM: Final = 5
"""Since when an answer says where the log starts."""
_FLEXIBLE_FROM: Final = 9
_NO_TAGS: Final = b"\0\0\0"
"""Behind the records: those of partition, topic and request."""
_STORED_AS_SENT: Final = frozenset({"producer", "uncompressed"})
_PLACE: Final = struct.Struct(">qqq")
_ANY_PLACE: Final = _PLACE.pack(-0x0102030405060708, -1, -0x0807060504030201)
_API: Final = APIS[ApiKey.PRODUCE]
WRITE: Final = Permission(Operation.WRITE, ResourceType.TOPIC)


class ResponseSlot(Protocol):
    """The place of one response among those of its connection."""

    done: bool
    """True once the response may leave, behind those before it."""

    frame: list[Buffer] | None


class TemplateOwner(Protocol):
    """A connection whose requests may repeat each other."""

    @property
    def wants_template(self) -> bool:
        """True if there is room for one more template of its requests."""

    def add_template(self, template: PlainShape, fast_path: PlainTurn) -> None:
        """Pass requests that the template recognises to the fast path from now on."""


class Sender(Protocol):
    """The connection that requests on the fast path come by."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal:
        """Who sends the requests: re-authentication never changes it."""

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


class Parts(Protocol):
    """What this uses of the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def replicas(self) -> Replicas: ...


class PlainShape:
    """What the requests of a connection have in common: see the module. Positions count from the length of the frame on."""

    __slots__ = (
        "_api",
        "_batch_bytes",
        "_before",
        "_behind",
        "_is_flexible",
        "_last",
        "_place_bytes",
        "acks",
        "allowed_in",
        "client_id",
        "fields",
        "fields_end",
        "layout",
        "tail_bytes",
        "timeout_ms",
        "topic_partition",
        "version",
    )

    def __init__(
        self, version: int, acks: int, timeout_ms: int, topic_partition: TopicPartition, frame: bytes, fields_end: int
    ) -> None:
        self.version, self.acks, self.timeout_ms, self.topic_partition = version, acks, timeout_ms, topic_partition
        self._api, self.fields, self.fields_end = frame[4:8], frame[12:fields_end], fields_end
        self._is_flexible = version >= _FLEXIBLE_FROM
        self._last: tuple[int, bytes, bytes, int] = 0, b"", b"", 0
        """Of the last request: its length, its bytes up to the correlation id, those from there to the records, where these began."""
        self.tail_bytes = len(_NO_TAGS) if self._is_flexible else 0
        """Behind the records."""
        self.layout: RecordLayout | None = None
        """Of the last two batches that were alike."""
        self._batch_bytes = 0
        client_id_bytes = max(0, int.from_bytes(frame[12:14], "big", signed=True))
        self.client_id = frame[14 : 14 + client_id_bytes].decode()
        self.allowed_in = ALLOW_ALL.generation
        """The generation of the authorizer that allowed such requests last."""
        self._place_bytes = _PLACE.size if version >= _LOG_START_FROM else _PLACE.size - 8
        before, _, self._behind = self._answer(ErrorCode.NONE, None).partition(_ANY_PLACE[: self._place_bytes])
        self._before = before[:4], before[8:]

    def begin_in(self, frame: bytes) -> int:
        """Where the records begin in a request of this shape; 0 when it has another one, or is not one whole request."""
        size, first, before, begin = self._last
        if len(frame) == size and frame.startswith(first) and frame.startswith(before, 12):
            return begin if not self._is_flexible or frame.endswith(_NO_TAGS) else 0
        if not (frame.startswith(self._api, 4) and frame.startswith(self.fields, 12)):
            return 0
        if int.from_bytes(frame[:4], "big") != len(frame) - 4:
            return 0
        position = self.fields_end
        if not self._is_flexible:
            begin = position + 4
            fits = int.from_bytes(frame[position:begin], "big") == len(frame) - begin
        else:
            try:
                length, begin = read_uvarint(frame, position)
            except (IndexError, ProtocolViolation):
                return 0
            fits = begin + length + 2 == len(frame) and frame.endswith(_NO_TAGS)
        if not fits:
            return 0
        self._last = len(frame), frame[:8], frame[12:begin], begin
        return begin

    def taken(self, frame: bytes, begin: int, end: int) -> None:
        """The batch there is plain, and was not like the one before."""
        if self._batch_bytes == end - begin:
            self.layout = layout_of(frame, begin, end)
        self._batch_bytes = end - begin

    def answer(self, frame: bytes, offset: int, log_start_offset: int) -> bytes:
        """The answer's frame: the record has this offset."""
        length, fields = self._before
        place = _PLACE.pack(offset, -1, log_start_offset)[: self._place_bytes]
        return length + frame[8:12] + fields + place + self._behind

    def refusal(self, frame: bytes, code: ErrorCode, message: str | None = None, log_start_offset: int = -1) -> bytes:
        """The answer's frame where the record was not appended, or may not be committed."""
        answer = self._answer(code, message)
        any_place, place = _ANY_PLACE[: self._place_bytes], _PLACE.pack(-1, -1, log_start_offset)[: self._place_bytes]
        return answer[:4] + frame[8:12] + answer[8:].replace(any_place, place)

    def _answer(self, code: ErrorCode, message: str | None) -> bytes:
        m = messages.produce_response
        offset, time_ms, start = _PLACE.unpack(_ANY_PLACE)
        partition = m.PartitionProduceResponse(
            index=self.topic_partition.partition,
            error_code=code,
            base_offset=offset,
            log_append_time_ms=time_ms,
            log_start_offset=start,
            error_message=message,
        )
        topic = m.TopicProduceResponse(name=self.topic_partition.topic, partition_responses=[partition])
        body = codec.encode_response(m.ProduceResponse(responses=[topic]), self.version)
        return b"".join(response_frame(_API, self.version, 0, body))


class ShapeRoom:
    """How many shapes there may be beyond those that every connection may have. `left` is the owner's to set."""

    __slots__ = ("left",)

    def __init__(self, left: int = _SHARED_SHAPES_MAX) -> None:
        self.left = left


class PlainShapes:
    """Those of one connection: one for each partition that it produces to, as far as there is room, of its own or `shared`."""

    __slots__ = ("_borrowed", "_by_fields", "_fields_ends", "_last", "_left", "_shared")

    def __init__(self, shared: ShapeRoom, most: int = _OWN_SHAPES_MAX) -> None:
        self._shared, self._borrowed = shared, 0
        self._last: PlainShape | None = None
        self._by_fields: dict[bytes, PlainShape] = {}
        self._fields_ends: list[int] = []
        """Where the fields of one of them end; topics' names have a few lengths."""
        self._left = most

    @property
    def has_room(self) -> bool:
        """Is it worth the time to say what one more request looks like?"""
        return self._left > 0 or (self._borrowed < _BORROWED_SHAPES_MAX and self._shared.left > 0)

    def add(self, shape: PlainShape) -> None:
        if self._left > 0:
            self._left -= 1
        else:
            self._shared.left -= 1
            self._borrowed += 1
        self._last = self._by_fields[shape.fields] = shape
        if shape.fields_end not in self._fields_ends:
            self._fields_ends.append(shape.fields_end)

    def close(self) -> None:
        """The connection ended."""
        self._shared.left += self._borrowed
        self._borrowed = 0

    def find(self, frame: bytes) -> tuple[PlainShape, int] | None:
        """The shape of a request, and where its records begin."""
        shape = self._last
        if shape is None:
            return None
        if begin := shape.begin_in(frame):
            return shape, begin
        for end in self._fields_ends:
            shape = self._by_fields.get(frame[12:end])
            if shape is not None and (begin := shape.begin_in(frame)):
                self._last = shape
                return shape, begin
        return None


def shape_of(
    frame: memoryview, version: int, body_position: int, request: messages.produce_request.ProduceRequest
) -> PlainShape | None:
    """What requests like this one look like, if the next one may be plain; `frame` is without its length."""
    topics = request.topic_data
    if (
        version < _FIRST_VERSION
        or request.acks not in (1, -1)
        or request.transactional_id is not None
        or len(topics) != 1
        or len(topics[0].partition_data) != 1
        or topics[0].name in INTERNAL_TOPICS
    ):
        return None
    asked = topics[0].partition_data[0]
    header = header_at(asked.records) if asked.records else None
    if header is None or header.magic != MAGIC or header.attributes or header.records_count != 1:
        return None
    name_bytes = len(topics[0].name.encode())
    if version < _FLEXIBLE_FROM:
        fields_bytes = 2 + 2 + 4 + 4 + 2 + name_bytes + 4 + 4
    else:
        fields_bytes = 1 + 2 + 4 + 1 + (1 if name_bytes < 127 else 2) + name_bytes + 1 + 4
    fields_end = 4 + body_position + fields_bytes
    if fields_end > _FIELDS_BYTES:
        return None
    whole = len(frame).to_bytes(4, "big") + frame
    topic_partition = TopicPartition(topics[0].name, asked.index)
    shape = PlainShape(version, request.acks, request.timeout_ms, topic_partition, whole, fields_end)
    begin = shape.begin_in(whole)
    # Where fields have another length than the shortest, or tags, the records do not lie where they are expected.
    return shape if begin and whole[begin : len(whole) - shape.tail_bytes] == asked.records else None


class _Batches:
    """Those of one turn for one partition that can be appended to."""

    __slots__ = (
        "earliest",
        "headers",
        "latest",
        "log_start_offset",
        "max_bytes",
        "numbers",
        "partition",
        "producers",
        "records",
        "segment_bytes",
    )

    def __init__(self, partition: Partition, wall_ms: int) -> None:
        config = partition.log.config
        before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        self.partition = partition
        self.earliest, self.latest = wall_ms - before, wall_ms + after
        self.max_bytes, self.segment_bytes = config.max_message_bytes, config.segment_bytes
        self.records = bytearray()
        self.headers: list[BatchHeader] = []
        self.numbers: list[int] = []
        self.log_start_offset = -1
        """When they were appended."""
        self.producers: dict[int, BatchHeader] = {}
        """The last batch of each, of those that have an id."""

    def add(self, number: int, shape: PlainShape, frame: bytes, begin: int) -> bool:
        """Take the batch of request `number`; False when it is to be looked at by others."""
        end, layout = len(frame) - shape.tail_bytes, shape.layout
        size, position = end - begin, len(self.records)
        header = plain_header(frame, begin, end, position, layout)
        if (
            header is None
            or size > self.max_bytes
            or position + size > self.segment_bytes
            or not self.earliest <= header.max_timestamp <= self.latest
            or (shape.acks == -1 and len(self.partition.isr) < self.partition.effective_min_isr)
            or (header.producer_id >= 0 and not self._is_next(header))
        ):
            return False
        self.headers.append(header)
        self.numbers.append(number)
        self.records += frame[begin:end]
        if layout is None or layout.size != size:
            shape.taken(frame, begin, end)
        return True

    def _is_next(self, header: BatchHeader) -> bool:
        """Is it new, and what its producer should send now? Then it is the one before the next."""
        before = self.producers.get(header.producer_id)
        if before is not None:  # which is not appended yet
            follows = (before.base_sequence + 1) % SEQUENCE_LIMIT
            is_next = header.producer_epoch == before.producer_epoch and header.base_sequence == follows
        else:
            try:
                is_next = self.partition.log.producers.check(header, NO_TRANSACTION) is None
            except KafkaError:
                is_next = False
        if is_next:
            self.producers[header.producer_id] = header
        return is_next


class _Uncommitted(NamedTuple):
    """A record that was appended, and is to be answered when it is committed."""

    batches: _Batches
    offset: int


class _Waiting(NamedTuple):
    """For the answer to be given: its place, whose it is, the begin of the request and its record's offset."""

    slot: ResponseSlot
    sender: Sender
    shape: PlainShape
    head: bytes
    offset: int


_Taken: TypeAlias = tuple[Sender, PlainShape, bytes, int]
"""From whom, of which shape, a request, and where its records begin."""


def _next_turn(run: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(run)


class PlainTurn:
    """See the module. `schedule(run)` has `run` called at the end of this turn of the loop."""

    def __init__(
        self,
        parts: Parts,
        latency: Histogram,
        authorizer: Authorizer = ALLOW_ALL,
        now_s: Callable[[], float] = perf_counter,
        schedule: Callable[[Callable[[], None]], None] = _next_turn,
    ) -> None:
        self._parts, self._latency, self._now_s, self._schedule = parts, latency, now_s, schedule
        self._authorizer = authorizer
        self._taken: list[_Taken] = []
        self._is_scheduled = False
        self._paced: asyncio.TimerHandle | None = None
        self._held: list[Sender] = []
        """Who is not read from."""
        self._began_s = 0.0
        self.is_off = False
        """Is each request to be served as any other?"""

    def take(self, sender: Sender, shape: PlainShape, frame: bytes, begin: int) -> None:
        """Serve a request at the end of the turn, or later; whatever its connection begins before that must call `end` first."""
        taken = self._taken
        if not taken:
            self._began_s = self._now_s()
        if not self._is_scheduled:
            delay_ms = self._delay_ms() if shape.acks == -1 else 0.0
            if not delay_ms:
                self._is_scheduled = True
                self._schedule(self._scheduled)
            elif self._paced is None:
                self._paced = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end_pause)
        taken.append((sender, shape, frame, begin))
        if len(taken) >= _TURN_MAX:
            self.end()

    def hold(self, sender: Sender) -> bool:
        """Is what this one sends meanwhile to be read when what it has sent is served? Then its reading is resumed here."""
        if self._paced is None:
            return False
        self._held.append(sender)
        return True

    def _delay_ms(self) -> float:
        return self._parts.replicas.pace.delay_ms(self._parts.clock.monotonic_ms())

    def _end_pause(self) -> None:
        """Read what came meanwhile, and serve it too: a loop reads behind what was called for before."""
        self._paced, self._is_scheduled = None, True
        self._resume_held()
        self._schedule(lambda: self._schedule(self._scheduled))

    def _resume_held(self) -> None:
        held, self._held = self._held, []
        for sender in held:
            sender.hold_reading(False)

    def learn(
        self,
        sender: TemplateOwner,
        frame: memoryview,
        version: int,
        body_position: int,
        request: messages.produce_request.ProduceRequest,
    ) -> None:
        """A request is served as any other: the next ones like it are to come here, if they may be plain."""
        if sender.wants_template and (shape := shape_of(frame, version, body_position, request)) is not None:
            sender.add_template(shape, self)

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self.end()

    def end(self) -> None:
        """Serve what was taken."""
        taken, self._taken = self._taken, []
        if self._paced is not None:
            self._paced.cancel()
            self._paced = None
            self._resume_held()
        if not taken:
            return
        answers: list[bytes | _Uncommitted | None] = [None] * len(taken)
        now_ms, wall_ms = self._parts.clock.monotonic_ms(), self._parts.clock.now_ms()
        for batches in self._sorted(taken, wall_ms):
            self._append(batches, taken, answers, now_ms, wall_ms)
        began_s = self._began_s
        duration_s = self._now_s() - began_s
        waiting: dict[int, dict[_Batches, list[_Waiting]]] = {}
        answered = 0
        for (sender, shape, frame, _), answer in zip(taken, answers, strict=True):
            if answer is None:
                sender.return_request(frame)
            elif isinstance(answer, bytes):
                answered += 1
                sender.send_response(answer)
            else:
                batches, offset = answer
                waits = waiting.setdefault(shape.timeout_ms, {}).setdefault(batches, [])
                waits.append(_Waiting(sender.reserve_response(), sender, shape, frame[:_HEAD_BYTES], offset))
        if answered:
            self._latency.observe(duration_s, answered)
        for timeout_ms, by_partition in waiting.items():
            self._wait(timeout_ms, by_partition, began_s)
        if waiting:
            self._parts.replicas.pace.appended(now_ms)

    def _wait(self, timeout_ms: int, by_partition: dict[_Batches, list[_Waiting]], began_s: float) -> None:
        """What was appended to a partition in one turn is answered when all of it is committed, as followers fetch it. If that never
        happens all of it is refused: which part was committed, and with enough replicas, is not known any more."""
        waits = CommitWaits(timeout_ms, self._parts.replicas.pace)
        for batches, waiting in by_partition.items():
            done = partial(self._committed, batches, waiting, began_s)
            waits.add(batches.partition, waiting[-1].offset + 1, done, len(waiting))
        waits.start()

    def _committed(self, batches: _Batches, waiting: list[_Waiting], began_s: float, code: ErrorCode) -> None:
        self._latency.observe(self._now_s() - began_s, len(waiting))
        log_start_offset = batches.log_start_offset
        senders: dict[Sender, None] = {}
        for slot, sender, shape, head, offset in waiting:
            if code:
                answer = shape.refusal(head, code, None, log_start_offset)
            else:
                answer = shape.answer(head, offset, log_start_offset)
            slot.done, slot.frame = True, [answer]
            senders[sender] = None
        for sender in senders:
            sender.send_completed()

    def _sorted(self, taken: list[_Taken], wall_ms: int) -> list[_Batches]:
        """What is plain by partition. Behind what is not, nothing of the same connection is."""
        found: dict[TopicPartition, _Batches | None] = {}
        others: set[Sender] = set()
        quota, generation = self._parts.quotas.produced, self._authorizer.generation
        has_quotas = quota.is_set
        for number, (sender, shape, frame, begin) in enumerate(taken):
            if self.is_off or (others and sender in others):
                continue
            if (shape.allowed_in != generation and not self._may_write(sender, shape, generation)) or (
                has_quotas and quota.bound(sender.principal.name, shape.client_id) is not None
            ):
                others.add(sender)
                continue
            topic_partition = shape.topic_partition
            try:
                batches = found[topic_partition]
            except KeyError:
                batches = found[topic_partition] = self._begin(topic_partition, wall_ms)
            if batches is None or not batches.add(number, shape, frame, begin):
                others.add(sender)
        return [each for each in found.values() if each is not None and each.numbers]

    def _may_write(self, sender: Sender, shape: PlainShape, generation: int) -> bool:
        """Asked once for the requests of a connection, until an ACL changes."""
        if not self._authorizer.allows(sender.principal, sender.peer_host, WRITE, shape.topic_partition.topic):
            return False
        shape.allowed_in = generation
        return True

    def _begin(self, topic_partition: TopicPartition, wall_ms: int) -> _Batches | None:
        """Room for the batches of a partition that may be appended to as they are."""
        partition = self._parts.replicas.partitions.get(topic_partition)
        if partition is None or not partition.is_leader:
            return None
        config = partition.log.config
        is_as_sent = (
            config.compression_type in _STORED_AS_SENT
            and config.message_timestamp_type == "CreateTime"
            and not config.compacts
            and not (config.message_format_acts and stored_magic(config) != MAGIC)
        )
        return _Batches(partition, wall_ms) if is_as_sent else None

    def _append(
        self,
        batches: _Batches,
        taken: list[_Taken],
        answers: list[bytes | _Uncommitted | None],
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
                _, shape, frame, _ = taken[number]
                answers[number] = shape.refusal(frame, code, message, find_refusal_log_start(partition, code))
            return
        self._parts.traffic.produced(partition.topic_partition.topic, len(batches.records), len(numbers))
        log_start_offset = batches.log_start_offset = partition.log.log_start_offset
        committed = partition.high_watermark if len(partition.maximal_isr) >= partition.effective_min_isr else -1
        for number in numbers:
            _, shape, frame, _ = taken[number]
            if shape.acks == 1 or offset < committed:
                answers[number] = shape.answer(frame, offset, log_start_offset)
            else:
                answers[number] = _Uncommitted(batches, offset)
            offset += 1
