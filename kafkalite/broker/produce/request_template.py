"""Templates of Produce requests with one small batch, which a connection sends again and again: recognised without being decoded.

A producer that sends single records repeats itself: all bytes before the records are those of its request before, but for the
correlation id and the lengths. `make_template` notes them once a request was served as any other; `RequestTemplates.find` recognises the
next one by them, whichever partition it is for. Many producers of one program send the same bytes, so connections of one principal and
host share their templates (`SharedTemplates`), and what recognises the requests of hundreds of them stays in the processor's cache. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from kafkalite.broker.identity.authorizer import ALLOW_ALL
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.plain_batch import RecordLayout, layout_of
from kafkalite.protocol.record_batches.records import MAGIC, header_at
from kafkalite.protocol.schemas.reader_source import read_uvarint
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.security.principal import KafkaPrincipal

FRAME_BYTES: Final = 16 * 1024
"""A longer request gains nothing by being served with others."""
HEAD_BYTES: Final = 12
"""Bytes of a request up to its correlation id, which a response needs."""
_FIELDS_BYTES: Final = 512
"""Bound of the bytes before the records that are kept: a client's id may be long."""
_OWN_TEMPLATES_MAX: Final = 64
"""Templates that are kept of a connection in any case."""
_SHARED_TEMPLATES_MAX: Final = 8192
"""Further ones of all connections, for those that produce to many partitions. A template takes 1 to 2 kB."""
_BORROWED_TEMPLATES_MAX: Final = 2048
"""Bound of the shared templates that one connection borrows."""
_FIRST_VERSION: Final = 3
"""The first version of Produce with record batches."""
_LOG_START_FROM: Final = 5
"""The first version whose response tells where the log starts."""
_FLEXIBLE_FROM: Final = 9
_SIZES_MAX: Final = 8
"""Lengths of requests, and of batches, of which a template remembers where everything is."""
_NO_TAGS: Final = b"\0\0\0"
"""Behind the records: those of partition, topic and request."""
_PLACE: Final = struct.Struct(">qqq")
_ANY_PLACE: Final = _PLACE.pack(-0x0102030405060708, -1, -0x0807060504030201)
_API: Final = APIS[ApiKey.PRODUCE]


class RequestTemplate:
    """The bytes that requests to one partition have in common, of one connection or of some of one principal and host.

    Positions count from the length of the frame on.
    """

    __slots__ = (
        "__weakref__",
        "_api",
        "_before",
        "_behind",
        "_is_flexible",
        "_last_of",
        "_place_bytes",
        "acks",
        "allowed_in",
        "client_id",
        "fields",
        "fields_end",
        "layouts",
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
        self._last_of: dict[int, tuple[bytes, bytes, int]] = {}
        """The last request of each length: its bytes up to the correlation id, those from there to the records, where these begin."""
        self.tail_bytes = len(_NO_TAGS) if self._is_flexible else 0
        """Bytes behind the records."""
        self.layouts: dict[int, RecordLayout | None] = {}
        """The layout of batches of a length in bytes, None while there was one of it only."""
        client_id_bytes = max(0, int.from_bytes(frame[12:14], "big", signed=True))
        self.client_id = frame[14 : 14 + client_id_bytes].decode()
        self.allowed_in = ALLOW_ALL.generation
        """The generation of the authorizer that allowed such requests last."""
        self._place_bytes = _PLACE.size if version >= _LOG_START_FROM else _PLACE.size - 8
        before, _, self._behind = self._encode_response(ErrorCode.NONE, None).partition(_ANY_PLACE[: self._place_bytes])
        self._before = before[:4], before[8:]

    def find_records(self, frame: bytes) -> int:
        """Return where the records begin in a request of this template; 0 if it is none, or not one whole request."""
        last = self._last_of.get(len(frame))
        if last is not None and frame.startswith(last[0]) and frame.startswith(last[1], 12):
            return last[2] if not self._is_flexible or frame.endswith(_NO_TAGS) else 0
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
        if len(self._last_of) >= _SIZES_MAX:
            self._last_of.clear()
        self._last_of[len(frame)] = frame[:8], frame[12:begin], begin
        return begin

    def note_layout(self, frame: bytes, begin: int, end: int) -> None:
        """Keep the layout of a batch whose length has none yet, if it is the second of that length."""
        layouts, size = self.layouts, end - begin
        if size in layouts:
            layouts[size] = layout_of(frame, begin, end)
        else:
            if len(layouts) >= _SIZES_MAX:
                layouts.clear()
            layouts[size] = None

    def make_response(self, frame: bytes, offset: int, log_start_offset: int) -> bytes:
        """Return the frame of the response to a request whose record has this offset."""
        length, fields = self._before
        place = _PLACE.pack(offset, -1, log_start_offset)[: self._place_bytes]
        return length + frame[8:12] + fields + place + self._behind

    def make_refusal(
        self, frame: bytes, code: ErrorCode, message: str | None = None, log_start_offset: int = -1
    ) -> bytes:
        """Return the frame of the response to a request whose record was not appended, or may not be committed."""
        response = self._encode_response(code, message)
        any_place, place = _ANY_PLACE[: self._place_bytes], _PLACE.pack(-1, -1, log_start_offset)[: self._place_bytes]
        return response[:4] + frame[8:12] + response[8:].replace(any_place, place)

    def _encode_response(self, code: ErrorCode, message: str | None) -> bytes:
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


@dataclass(slots=True)
class TemplateBudget:
    """The number of templates that all connections may borrow beyond those that each may have of its own."""

    left: int = _SHARED_TEMPLATES_MAX


class SharedTemplates:
    """The templates of all connections, each as long as one of them has it."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[KafkaPrincipal, str, int, bytes], RequestTemplate] = (
            WeakValueDictionary()
        )

    def share(self, template: RequestTemplate, principal: KafkaPrincipal, host: str) -> RequestTemplate:
        """Return the template that a connection of this principal and host has already for such requests, or this one."""
        return self._known.setdefault((principal, host, template.version, template.fields), template)


class RequestTemplates:
    """The templates of one connection: one for each partition that it produces to, as far as there is room, of its own or `shared`."""

    __slots__ = ("_borrowed", "_by_fields", "_fields_ends", "_last", "_left", "_shared")

    def __init__(self, shared: TemplateBudget, most: int = _OWN_TEMPLATES_MAX) -> None:
        self._shared, self._borrowed = shared, 0
        self._last: RequestTemplate | None = None
        self._by_fields: dict[bytes, RequestTemplate] = {}
        self._fields_ends: list[int] = []
        """Positions at which the fields of one of them end; topics' names have a few lengths."""
        self._left = most

    @property
    def has_room(self) -> bool:
        """True if one more template may be added."""
        return self._left > 0 or (self._borrowed < _BORROWED_TEMPLATES_MAX and self._shared.left > 0)

    def add(self, template: RequestTemplate) -> None:
        if self._left > 0:
            self._left -= 1
        else:
            self._shared.left -= 1
            self._borrowed += 1
        self._last = self._by_fields[template.fields] = template
        if template.fields_end not in self._fields_ends:
            self._fields_ends.append(template.fields_end)

    def close(self) -> None:
        """Give back what is borrowed: the connection has ended."""
        self._shared.left += self._borrowed
        self._borrowed = 0

    def find(self, frame: bytes) -> tuple[RequestTemplate, int] | None:
        """Return the template of a request, and where its records begin; None if it has none."""
        template = self._last
        if template is None:
            return None
        if begin := template.find_records(frame):
            return template, begin
        for end in self._fields_ends:
            template = self._by_fields.get(frame[12:end])
            if template is not None and (begin := template.find_records(frame)):
                self._last = template
                return template, begin
        return None


def make_template(
    frame: memoryview, version: int, body_position: int, request: messages.produce_request.ProduceRequest
) -> RequestTemplate | None:
    """Return the template of requests like this one, None if they may not be served together; `frame` is without its length.

    Requests for several partitions, within transactions, with several or compressed records have none.
    """
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
    produced = topics[0].partition_data[0]
    header = header_at(produced.records) if produced.records else None
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
    topic_partition = TopicPartition(topics[0].name, produced.index)
    template = RequestTemplate(version, request.acks, request.timeout_ms, topic_partition, whole, fields_end)
    begin = template.find_records(whole)
    end = len(whole) - template.tail_bytes
    if not begin or whole[begin:end] != produced.records:
        return None  # where fields have another length than the shortest, or tags, records do not lie where they are expected
    template.note_layout(whole, begin, end)
    return template
