"""Hostile requests for a broker, as bytes, and what comes back: the rows of the table in `test_admin_answers`.

Where ours answers differently on purpose, the row says why.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkalite.net.connection import Connection
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.records import NewRecord, build_batch

TOPIC = "hostile"
CLOSED, SILENCE = "closed", "silence"
_SILENCE_S = 3.0


class Row(NamedTuple):
    """A frame with its length; `ours` is our outcome where it is another one, and `why`."""

    name: str
    frame: bytes
    ours: str = ""
    why: str = ""


class Outcome(NamedTuple):
    """What came back, and how long somebody else waited for an answer meanwhile."""

    answer: str
    waited_ms: float


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def head(key: int, version: int, client_id: bytes = b"\xff\xff") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client_id


def asked(request: Any, version: int, behind: bytes = b"") -> bytes:
    api = request.API
    payload = b"".join(request_frame(api, version, 7, "hostile", codec.encode_request(request, version)))[4:]
    return framed(payload + behind)


def _broken_frames() -> Iterator[Row]:
    yield Row("an api key that there is not", framed(head(999, 0)))
    yield Row("a negative api key", framed(head(-1, 0)))
    yield Row("a negative size", struct.pack(">i", -5))
    yield Row("a size of 2 GiB", struct.pack(">i", 2**31 - 1) + bytes(100))
    yield Row("no bytes at all", framed(b""))
    yield Row("a header of three bytes", framed(b"\0\3\0"))
    yield Row("a client id longer than the frame", framed(head(18, 0, b"\x7f\xff")))
    yield Row(
        "a client id that is not UTF-8",
        framed(head(18, 0, b"\0\2\xc3\x28")),
        CLOSED,
        "Java replaces what is not UTF-8; nobody sends it by mistake",
    )
    yield Row("a version that there is not", framed(head(3, 99)))
    yield Row("a negative version", framed(head(3, -1)))
    yield Row("a version of ApiVersions that there is not", framed(head(18, 99, b"\0\1x\0") + b"\2a\2b\0"))
    yield Row("half a body", framed(head(3, 1) + b"\0\0\0\1\0\7hos"))
    yield Row("a count of 2^31 - 1", framed(head(3, 1) + b"\x7f\xff\xff\xff"))
    yield Row("a compact count of 2^31 - 2", framed(head(3, 12) + b"\0" + b"\xff\xff\xff\xff\x07"))
    yield Row("a count of -2", framed(head(3, 1) + b"\xff\xff\xff\xfe"))
    yield Row("a varint of six bytes", framed(head(3, 12) + b"\0" + b"\x80\x80\x80\x80\x80\x01"))
    yield Row("a tagged field that nobody knows", framed(head(18, 3) + b"\1\x63\2ab" + b"\2a\2b\0"))
    tags = b"".join(bytes((number & 127 | 128, number >> 7, 0)) for number in range(1_000))
    yield Row(
        "a thousand tagged fields that nobody knows",
        framed(head(18, 3) + b"\xe8\x07" + tags + b"\2a\2b\0"),
        CLOSED,
        "tagged fields of a structure are bounded: millions of empty ones stop Apache Kafka for seconds",
    )
    yield Row(
        "a name that is not UTF-8",
        framed(head(3, 1) + b"\0\0\0\1\0\2\xc3\x28"),
        CLOSED,
        "Java replaces what is not UTF-8; nobody sends it by mistake",
    )
    yield Row("bytes behind the body", asked(messages.api_versions_request.ApiVersionsRequest(), 0, b"\1\2\3"))


def _batch(**changes: Any) -> bytearray:
    return build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)], **changes)


def _changed(position: int, value: int) -> bytes:
    batch = _batch()
    batch[position] = value
    return bytes(batch)


def _produce(records: bytes | None, *, acks: int = 1, partition: int = 0, twice: bool = False) -> bytes:
    m = messages.produce_request
    data = m.PartitionProduceData(index=partition, records=records)
    topics = [m.TopicProduceData(name=TOPIC, partition_data=[data])] * (2 if twice else 1)
    return asked(m.ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics), 7)


def _produced() -> Iterator[Row]:
    yield Row("records with a bad CRC", _produce(_changed(17, 1)))
    yield Row("records of magic 1", _produce(_changed(16, 1)))
    yield Row("records of magic 9", _produce(_changed(16, 9)))
    yield Row("records cut in the middle", _produce(bytes(_batch())[:-5]))
    yield Row("records that are longer than they say", _produce(bytes(_batch()) + b"12345"))
    yield Row("acks of 7", _produce(bytes(_batch()), acks=7))
    yield Row("a negative partition", _produce(bytes(_batch()), partition=-1))
    yield Row("a count of records that is a lie", _produce(_lying_count()))


def _lying_count() -> bytes:
    batch = _batch()
    struct.pack_into(">i", batch, 57, 1_000_000)
    struct.pack_into(">i", batch, 23, 999_999)
    from kafkalite.protocol.record_batches.records import BatchHeader, crc_of

    struct.pack_into(">I", batch, 17, crc_of(batch, BatchHeader.read(batch)))
    return bytes(batch)


def _administration() -> Iterator[Row]:
    c = messages.create_topics_request

    def create(*topics: tuple[str, int, int]) -> bytes:
        made = [c.CreatableTopic(name=name, num_partitions=n, replication_factor=r) for name, n, r in topics]
        return asked(c.CreateTopicsRequest(topics=made, timeout_ms=5_000), 5)

    yield Row("a topic without a name", create(("", 1, 1)))
    yield Row("a topic of -5 partitions", create(("h1", -5, 1)))
    yield Row("a topic with -9 replicas", create(("h2", 1, -9)))
    yield Row("a topic twice", create(("h3", 1, 1), ("h3", 1, 1)))
    yield Row("a topic with a path for a name", create(("../x", 1, 1)))
    d = messages.delete_topics_request
    for name in ("", "../x", f"{TOPIC}/partitions"):
        yield Row(
            f"deleting {name!r}",
            asked(d.DeleteTopicsRequest(topics=[d.DeleteTopicState(name=name)], timeout_ms=1_000), 3),
        )
    p = messages.create_partitions_request
    enlarged = p.CreatePartitionsTopic(name=TOPIC, count=-1, assignments=None)
    yield Row("-1 partitions", asked(p.CreatePartitionsRequest(topics=[enlarged], timeout_ms=1_000), 1))
    e = messages.elect_leaders_request
    yield Row("no election", asked(e.ElectLeadersRequest(topic_partitions=[], timeout_ms=1_000), 2))
    a = messages.alter_configs_request
    for name, value in (
        ("follower.replication.throttled.replicas", "os.system"),
        ("cleanup.policy", "java.lang.Runtime"),
    ):
        resource = a.AlterConfigsResource(
            resource_type=2, resource_name=TOPIC, configs=[a.AlterableConfig(name=name, value=value)]
        )
        yield Row(f"{name} of {value}", asked(a.AlterConfigsRequest(resources=[resource], validate_only=True), 1))


def _groups() -> Iterator[Row]:
    j = messages.join_group_request

    def join(**changes: Any) -> bytes:
        fields = {
            "group_id": "hostile",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [j.JoinGroupRequestProtocol(name="range", metadata=b"")],
        }
        return asked(j.JoinGroupRequest(**{**fields, **changes}), 2)

    yield Row("a group without a name", join(group_id=""))
    yield Row("a negative session timeout", join(session_timeout_ms=-1))
    yield Row("no protocols", join(protocols=[]))
    f = messages.find_coordinator_request
    yield Row("a coordinator of nothing", asked(f.FindCoordinatorRequest(key_type=0, coordinator_keys=[]), 4))
    o = messages.list_offsets_request
    partition = o.ListOffsetsPartition(partition_index=-1, timestamp=-1)
    topic = o.ListOffsetsTopic(name=TOPIC, partitions=[partition])
    yield Row("offsets of partition -1", asked(o.ListOffsetsRequest(replica_id=-1, topics=[topic]), 1))


def _control() -> Iterator[Row]:
    """Empty arrays, from somebody who is no controller (CVE-2026-83525)."""
    for module, kind, version in (
        (messages.leader_and_isr_request, "LeaderAndIsrRequest", 4),
        (messages.stop_replica_request, "StopReplicaRequest", 2),
        (messages.update_metadata_request, "UpdateMetadataRequest", 6),
    ):
        request = getattr(module, kind)(controller_id=1, controller_epoch=0, broker_epoch=-1)
        yield Row(f"an empty {kind}", asked(request, version))
    alter = messages.alter_partition_request.AlterPartitionRequest
    yield Row("an empty AlterPartitionRequest", asked(alter(broker_id=1, broker_epoch=-1, topics=[]), 2))
    reassign = messages.alter_partition_reassignments_request.AlterPartitionReassignmentsRequest
    yield Row("no reassignment", asked(reassign(timeout_ms=1_000, topics=[]), 0))


def rows() -> list[Row]:
    return [*_broken_frames(), *_produced(), *_administration(), *_groups(), *_control()]


async def outcome(host: str, port: int, row: Row, beside: Connection) -> Outcome:
    """Send a row over a connection of its own; `beside` asks for versions meanwhile."""
    reader, writer = await asyncio.open_connection(host, port)
    loop = asyncio.get_running_loop()
    try:
        writer.write(row.frame)
        began_s = loop.time()
        await beside.request(messages.api_versions_request.ApiVersionsRequest(), 0, 30)
        waited_ms = (loop.time() - began_s) * 1000
        try:
            (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), _SILENCE_S))
            return Outcome(_told(row.frame, await reader.readexactly(size)), waited_ms)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Outcome(CLOSED, waited_ms)
        except TimeoutError:
            return Outcome(SILENCE, waited_ms)
    finally:
        writer.close()


def _told(request: bytes, response: bytes) -> str:
    key, version = struct.unpack_from(">hh", request, 4)
    api = APIS[ApiKey(key)]
    if not api.min_version <= version <= api.max_version:
        version = 0
    answer = codec.decode_response(key, version, response, response_body_position(api, version, response))
    return f"errors {sorted(set(_errors(answer)))}"


def _errors(message: Any) -> Iterator[int]:
    if isinstance(message, list):
        for each in message:
            yield from _errors(each)
    elif hasattr(message, "FIELDS"):
        for field in message.FIELDS:
            value = getattr(message, field.name)
            if field.name == "error_code":
                yield int(value)
            else:
                yield from _errors(value)
