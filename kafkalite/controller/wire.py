"""Encoding of the controller's requests to brokers, and decoding of their responses; no other module of it knows messages."""

from __future__ import annotations

import logging
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import groupby
from typing import Any, Final, TypeVar

from kafkalite.controller import events
from kafkalite.controller.control_requests import (
    Command,
    ControlRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    MetadataDigests,
    PartitionMetadata,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.portions import Work
from kafkalite.protocol import codec, messages
from kafkalite.protocol.adapters import LEADER_DURING_DELETE, SECURITY_PROTOCOLS
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.inter_broker import InterBrokerVersions
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, size_of
from kafkalite.types import BrokerId, Buffer, Endpoint, TopicPartition

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", LeaderAndIsr, UpdateMetadata)

_STOP_REPLICA_WITH_A_FLAG_EACH: Final = 3
_LEADER_AND_ISR_BY_TOPIC: Final = 2
_UPDATE_METADATA_BY_TOPIC: Final = 5
_PARTITION: Final = "PartitionState"
"""Name of the struct in LeaderAndIsr and UpdateMetadata that is encoded once for all receivers."""
_BROKER: Final = "LiveBroker"
_COPIED_BYTES: Final = 4096
"""Longest buffer that is copied for each receiver with its broker epoch; only the head of a longer one is."""
_BROKER_EPOCH: Final = struct.Struct(">q")
_INDEX: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """An encoded command. `request` has what is needed to interpret the response; requests share the buffers of `body`."""

    broker_id: BrokerId
    request: ControlRequest
    api_key: ApiKey
    version: int
    body: list[Buffer]

    @property
    def is_optional(self) -> bool:
        """True if only brokers of ours know the request, and the controller can do without the answer."""
        return APIS[self.api_key].is_private


def encode_commands(commands: Iterable[Command], versions: InterBrokerVersions) -> Work[list[OutgoingRequest]]:
    """Encode commands, in their order: each state of a partition once, and an UpdateMetadata once for all its receivers."""
    encoder = _Encoder(versions)
    requests: list[OutgoingRequest] = []
    for command in commands:
        requests += yield from encoder.encode(command)
    return requests


def decode_response(
    broker_id: BrokerId, broker_epoch: int, request: ControlRequest, response: Any
) -> events.LeaderAndIsrResponseReceived | events.StopReplicaResponseReceived | None:
    """Return the event of a response of the broker incarnation `broker_epoch`, None for UpdateMetadata."""
    code = response.error_code
    if code:
        logger.warning("broker %d refused %s with error %d", broker_id, type(request).__name__, code)
    match request:
        case LeaderAndIsr():
            return _read_roles_response(broker_id, broker_epoch, request, response)
        case StopReplica():
            errors = _errors(response.partition_errors)
            return events.StopReplicaResponseReceived(broker_id, broker_epoch, request, code, errors)
    return None


def _read_roles_response(
    broker_id: BrokerId, broker_epoch: int, request: LeaderAndIsr, response: Any
) -> events.LeaderAndIsrResponseReceived:
    answers = [(error.topic_name, (error,)) for error in response.partition_errors]
    names = {topic.topic_id: topic.name for topic in request.topics}
    for topic in response.topics:
        name = names.get(bytes(topic.topic_id))
        if name is not None:
            answers.append((name, topic.partition_errors))
    errors: dict[TopicPartition, int] = {}
    accepted: defaultdict[str, list[int]] = defaultdict(list)
    for name, outcomes in answers:
        accepted[name] += [each.partition_index for each in outcomes if not each.error_code]
        for each in outcomes:
            if each.error_code:
                errors[TopicPartition(name, each.partition_index)] = each.error_code
    return events.LeaderAndIsrResponseReceived(broker_id, broker_epoch, response.error_code, errors, accepted)


def read_digests(response: Any) -> bytes | None:
    """Return the digests in a response to MetadataDigests; None without a response or with an error."""
    return None if response is None or response.error_code else bytes(response.digests)


def _errors(partition_errors: Iterable[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(error.topic_name, error.partition_index): error.error_code for error in partition_errors}


class _StateEncoder:
    """Encodes states of partitions in one version of a request. Most differ in their index only: the rest is encoded once for all of them.

    The index is the first field, unless it follows the name of the topic (versions below `by_topic`).
    """

    def __init__(self, api_key: ApiKey, version: int, by_topic: int) -> None:
        self._encode = codec.request_item_writer(api_key, version, _PARTITION)
        self._is_by_topic = version >= by_topic
        self._known: dict[object, bytes] = {}

    def encode(self, index: int, key: object, make: Callable[[int], Any]) -> bytes:
        """Return the encoded `make(index)`; `key` stands for all of it but the index."""
        if not self._is_by_topic:
            return self._encode(make(index))
        rest = self._known.get(key)
        if rest is None:
            rest = self._known[key] = self._encode(make(index))[_INDEX.size :]
        return _INDEX.pack(index) + rest


class _Encoder:
    """Encodes the requests of one batch; shared parts are found by identity, which holds while the batch exists."""

    def __init__(self, versions: InterBrokerVersions) -> None:
        self._versions = versions
        self._states: dict[int, bytes] = {}
        self._roles = cache(lambda version: _StateEncoder(ApiKey.LEADER_AND_ISR, version, _LEADER_AND_ISR_BY_TOPIC))
        self._bodies: dict[ApiKey, tuple[Sequence[object], _SharedBody]] = {}
        """The latest LeaderAndIsr and UpdateMetadata for all receivers of the same topics, with these."""

    def encode(self, command: Command) -> Work[list[OutgoingRequest]]:
        """Encode one command."""
        broker_id, versions = command.broker_id, self._versions
        match command.request:
            case LeaderAndIsr() as request:
                version = versions.leader_and_isr
                body = yield from self._share(request, ApiKey.LEADER_AND_ISR, version, self._leader_and_isr)
                return [OutgoingRequest(broker_id, request, ApiKey.LEADER_AND_ISR, version, body)]
            case UpdateMetadata() as request:
                version = versions.update_metadata
                body = yield from self._share(request, ApiKey.UPDATE_METADATA, version, _encode_metadata)
                head = replace(request, topics=(), brokers=())  # nothing is kept for a broker that is slow but its body
                return [OutgoingRequest(broker_id, head, ApiKey.UPDATE_METADATA, version, body)]
            case StopReplica() as request:
                requests = []
                for part in _stoppable_together(request, versions.stop_replica):
                    body = yield from codec.encode_long_request(_stop_replica(part), versions.stop_replica)
                    requests.append(OutgoingRequest(broker_id, part, ApiKey.STOP_REPLICA, versions.stop_replica, body))
                return requests
            case MetadataDigests() as request:
                version = APIS[ApiKey.METADATA_DIGESTS].max_version
                body = codec.encode_request(_metadata_digests(request), version)
                return [OutgoingRequest(broker_id, request, ApiKey.METADATA_DIGESTS, version, body)]
        raise TypeError(f"not a controller request: {command.request}")

    def _share(
        self,
        request: RequestT,
        api_key: ApiKey,
        version: int,
        encode: Callable[[RequestT, int], Work[list[Buffer]]],
    ) -> Work[list[Buffer]]:
        """Return the body of a request, encoded for the first of the brokers to which the batch sends these topics."""
        known = self._bodies.get(api_key)
        if known is None or known[0] is not request.topics:
            body = yield from encode(request, version)
            known = request.topics, _SharedBody(body, _broker_epoch_position(api_key, version))
            self._bodies[api_key] = known
        return known[1].for_broker_epoch(request.broker_epoch)

    def _leader_and_isr(self, request: LeaderAndIsr, version: int) -> Work[list[Buffer]]:
        """Encode a LeaderAndIsr. Brokers that host different partitions share the state of each partition."""
        m, states = messages.leader_and_isr_request, self._states
        encode = self._roles(version).encode
        topics = []
        for topic in request.topics:
            yield
            encoded: list[Any] = []
            for state in topic.partitions:
                known = states.get(id(state))
                if known is None:
                    yield
                    make = partial(_leader_and_isr_state, state)
                    known = states[id(state)] = encode(state.topic_partition.partition, _role_key(state), make)
                encoded.append(known)
            topics.append(m.TopicState(topic_name=topic.name, topic_id=topic.topic_id, partition_states=encoded))
        message = m.LeaderAndIsrRequest(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=topics,
            ungrouped_partition_states=_ungroup(topics) if version < _LEADER_AND_ISR_BY_TOPIC else [],
            live_leaders=[
                m.LiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                for leader, endpoint in request.live_leaders.items()
            ],
        )
        return (yield from codec.encode_around(message, version, (_PARTITION,)))


class _SharedBody:
    """An encoded request whose receivers differ in the broker epoch at `position`; None for a version without it."""

    def __init__(self, body: list[Buffer], position: int | None) -> None:
        self._body, self._position = body, position
        if position is not None:
            first, end = body[0], position + _BROKER_EPOCH.size
            near = end if len(first) > _COPIED_BYTES else len(first)
            self._before, self._behind = bytes(first[:position]), bytes(first[end:near])
            self._shared: list[Buffer] = [memoryview(first)[near:], *body[1:]] if near < len(first) else body[1:]

    def for_broker_epoch(self, broker_epoch: int) -> list[Buffer]:
        """Return the body for this incarnation of a broker; long buffers are shared."""
        if self._position is None:
            return list(self._body)
        return [self._before + _BROKER_EPOCH.pack(broker_epoch) + self._behind, *self._shared]


@cache
def _broker_epoch_position(api_key: ApiKey, version: int) -> int | None:
    """Return where the broker epoch is in the body of a request; None for a version older than KIP-380."""
    position = 0
    for field in messages.schema(APIS[api_key], "request", version).fields:
        if field.name == "broker_epoch":
            return position
        if field.tag is None:
            if not isinstance(field.type, str) or field.type not in FIXED_FORMATS or field.is_array:
                break
            position += size_of(FIXED_FORMATS[field.type])
    return None


def _role_key(state: LeaderAndIsrPartition) -> tuple[object, ...]:
    """Return all of a state but its partition, which is its first field."""
    return state[1:]


def _leader_and_isr_state(state: LeaderAndIsrPartition, index: int) -> messages.leader_and_isr_request.PartitionState:
    return messages.leader_and_isr_request.PartitionState(
        topic_name=state.topic_partition.topic,
        partition_index=index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
        is_new=state.is_new,
        leader_recovery_state=int(state.recovering),
    )


def _encode_metadata(request: UpdateMetadata, version: int) -> Work[list[Buffer]]:
    m = messages.update_metadata_request
    states = _StateEncoder(ApiKey.UPDATE_METADATA, version, _UPDATE_METADATA_BY_TOPIC)
    topics = []
    for topic in request.topics:
        topics.append((yield from _metadata_states(topic, states)))
    brokers: list[Any] = [
        _encode_broker(broker.broker_id, tuple(broker.endpoints.values()), broker.rack, version)
        for broker in request.brokers
    ]
    message = m.UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topics,
        ungrouped_partition_states=_ungroup(topics) if version < _UPDATE_METADATA_BY_TOPIC else [],
        live_brokers=brokers,
    )
    return (yield from codec.encode_around(message, version, (_PARTITION, _BROKER)))


@lru_cache(maxsize=1024)
def _encode_broker(broker_id: BrokerId, endpoints: tuple[Endpoint, ...], rack: str | None, version: int) -> bytes:
    """Return a live broker as every UpdateMetadata has it."""
    m = messages.update_metadata_request
    encode = codec.request_item_writer(ApiKey.UPDATE_METADATA, version, _BROKER)
    return encode(
        m.LiveBroker(
            id=broker_id,
            endpoints=[
                m.Endpoint(
                    port=endpoint.port,
                    host=endpoint.host,
                    listener=endpoint.listener,
                    security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
                )
                for endpoint in endpoints
            ],
            rack=rack,
        )
    )


def _metadata_states(
    topic: UpdateMetadataTopic, states: _StateEncoder
) -> Work[messages.update_metadata_request.TopicState]:
    encoded: list[Any] = []
    for index, known in topic.partitions.items():
        yield
        encoded.append(states.encode(index, id(known), partial(_metadata_state, topic.name, known)))
    for index, known in topic.deleted.items():
        yield
        encoded.append(states.encode(index, (id(known), True), partial(_deleted_state, topic.name, known)))
    m = messages.update_metadata_request
    return m.TopicState(topic_name=topic.name, topic_id=topic.topic_id, partition_states=encoded)


def _metadata_state(
    topic: str, known: PartitionMetadata, index: int
) -> messages.update_metadata_request.PartitionState:
    return messages.update_metadata_request.PartitionState(
        topic_name=topic,
        partition_index=index,
        controller_epoch=known.controller_epoch,
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        isr=known.isr,
        zk_version=known.partition_epoch,
        replicas=known.replicas,
        offline_replicas=known.offline_replicas,
    )


def _deleted_state(topic: str, known: PartitionMetadata, index: int) -> messages.update_metadata_request.PartitionState:
    """Return the state of a partition of a topic that is being deleted; as in Kafka's LeaderAndIsr.duringDelete its epochs are 0."""
    return messages.update_metadata_request.PartitionState(
        topic_name=topic,
        partition_index=index,
        controller_epoch=known.controller_epoch,
        leader=LEADER_DURING_DELETE,
        isr=known.isr,
        replicas=known.replicas,
        offline_replicas=known.offline_replicas,
    )


def _ungroup(topics: Iterable[Any]) -> list[Any]:
    """Return the encoded states of all topics, for versions in which each state names its topic."""
    return [state for topic in topics for state in topic.partition_states]


def _stoppable_together(request: StopReplica, version: int) -> Iterator[StopReplica]:
    """Split a request by its delete flags for versions that have one flag for the whole request."""
    if version >= _STOP_REPLICA_WITH_A_FLAG_EACH:
        yield request
        return
    for delete in (False, True):
        part = {partition: state for partition, state in request.partitions.items() if state.delete is delete}
        if part:
            yield replace(request, partitions=part)


def _metadata_digests(request: MetadataDigests) -> messages.MetadataDigestsRequest:
    return messages.MetadataDigestsRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        buckets=request.buckets,
    )


def _stop_replica(request: StopReplica) -> Any:
    m = messages.stop_replica_request
    by_topic = groupby(request.partitions.items(), key=lambda item: item[0].topic)
    return m.StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        delete_partitions=any(state.delete for state in request.partitions.values()),
        topic_states=[
            m.TopicState(
                topic_name=topic,
                partition_states=[
                    m.PartitionState(
                        partition_index=partition.partition,
                        leader_epoch=state.leader_epoch,
                        delete_partition=state.delete,
                    )
                    for partition, state in partitions
                ],
            )
            for topic, partitions in by_topic
        ],
    )
