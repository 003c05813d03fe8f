"""A cluster with a dead broker, ours or Apache Kafka's, for `test_sick_clusters`.

Broker 1 is the controller, 2 is dead, 3 is alive; only broker 3 has the listener EXTRA. `TOPICS` says where the replicas are. Groups and
transactional ids are named after the broker that leads their partition of the internal topic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from kafkalite.coordinators.placement import partition_for
from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.types import NO_TOPIC_ID, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.peers import apache_kafka

CONTROLLER: Final = 1
DEAD: Final = 2
OTHER: Final = 3
EXTRA: Final = "EXTRA"
ON_EACH_BROKER: Final = ((CONTROLLER,), (DEAD,), (OTHER,))
TOPICS: Final[Mapping[str, tuple[tuple[int, ...], ...]]] = {
    OFFSETS_TOPIC: ON_EACH_BROKER,
    TRANSACTIONS_TOPIC: ON_EACH_BROKER,
    "healthy": ((CONTROLLER, OTHER), (OTHER, CONTROLLER)),
    "follower-down": ((CONTROLLER, DEAD),),
    "moved": ((DEAD, CONTROLLER),),
    "leaderless": ((DEAD,), (CONTROLLER,)),
    "strict": ((CONTROLLER, DEAD),),
    "deleted": ((CONTROLLER, DEAD), (DEAD, OTHER)),
    **{f"deleted-{version}": ((CONTROLLER, DEAD),) for version in range(7)},
}
"""Replicas by partition, the preferred leader first."""
CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact"},
    TRANSACTIONS_TOPIC: {"cleanup.policy": "compact"},
    "strict": {"min.insync.replicas": "2"},
}
DELETED: Final = "deleted"
"""Marked for deletion once broker 2 is dead, which so is never completed."""
UNKNOWN: Final = "unknown"
UNKNOWN_ID: Final = bytes(range(16))
ASKED: Final = ("healthy", "follower-down", "moved", "leaderless", "strict", DELETED, UNKNOWN)
TIMEOUT_MS: Final = 200
LONG_TIMEOUT_MS: Final = 20_000


def _named_after(broker_id: int, prefix: str) -> str:
    """A name that belongs to the partition of an internal topic that this broker leads, or led."""
    index = ON_EACH_BROKER.index((broker_id,))
    return next(
        name for n in count() if partition_for(name := f"{prefix}-{broker_id}-{n}", len(ON_EACH_BROKER)) == index
    )


GROUPS: Final = {broker_id: _named_after(broker_id, "group") for broker_id in (CONTROLLER, DEAD, OTHER)}
TRANSACTIONAL_IDS: Final = {
    broker_id: _named_after(broker_id, "transactions") for broker_id in (CONTROLLER, DEAD, OTHER)
}


@dataclass(slots=True)
class Known:
    """What the requests to one cluster name and the other cluster has otherwise."""

    topic_ids: Mapping[str, bytes]
    producers: Mapping[str, tuple[int, int]]
    """(producer id, epoch) by transactional id."""
    version: int = 0
    creates_topics: bool = False
    """True if the broker that is asked makes topics for who asks for them."""

    def topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, UNKNOWN_ID)


def partitions_of(topic: str) -> range:
    """Its partitions and one that it does not have."""
    return range(len(TOPICS.get(topic, ())) + 1)


def records() -> bytes:
    return bytes(build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)]))


TIMEOUT_S: Final = 90
PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "18000",
    "zookeeper.connection.timeout.ms": "30000",
    "kafkalite.failover.detection": "session",  # this cluster decides when; Apache Kafka has no such setting
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
    "log.retention.ms": "-1",
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{EXTRA}:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
THROUGH_EXTRA: Final = 0
"""Stands for broker 3 by its listener EXTRA, where brokers are meant that are asked."""
TIMES: Final = frozenset(
    {"log_append_time_ms", "timestamp", "transaction_start_time_ms", "last_timestamp", "start_offset_time"}
)
NO_MEANING: Final = frozenset({"cluster_id", "member_id", "total_bytes", "usable_bytes"})
"""Fields that no two clusters agree on."""
IDENTITIES: Final = (
    "node_id",
    "broker_id",
    "name",
    "topic_name",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
    "key",
)
"""Fields by which lists are sorted: in Kafka the order of many comes from a hash map."""
WORDS: Final = "words for people"
"""Stands for the message of an error. Ours say more than Kafka's, which often has none; those of successes are compared."""


class Sick:
    """A cluster of which a broker is killed, and how it is asked."""

    def __init__(self, directory: Path, zookeeper: str, command: Sequence[str], extra_port: int) -> None:
        self._zookeeper = zookeeper
        self.brokers: dict[int, BrokerProcess] = {}
        for broker_id in (CONTROLLER, DEAD, OTHER):
            makes_topics = {"auto.create.topics.enable": "true" if broker_id == OTHER else "false"}
            settings = PROPERTIES | makes_topics | {"zookeeper.connect": zookeeper}
            self.brokers[broker_id] = BrokerProcess(broker_id, directory, settings, command)
        other = self.brokers[OTHER]
        other.properties["listeners"] += f",{EXTRA}://{other.host}:{extra_port}"
        self.addresses = {each.id: (each.host, each.port) for each in self.brokers.values()}
        self.addresses[THROUGH_EXTRA] = other.host, extra_port
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        self.known = Known({}, {})

    def start(self) -> None:
        """Broker 1 first, so that it is the controller."""
        self.brokers[CONTROLLER].start()
        self.brokers[CONTROLLER].wait_started(TIMEOUT_S)
        apache_kafka.wait_for_controller(self.brokers[CONTROLLER].address)
        for broker_id in (DEAD, OTHER):
            self.brokers[broker_id].start()
        for broker_id in (DEAD, OTHER):
            self.brokers[broker_id].wait_started(TIMEOUT_S)

    def close(self) -> None:
        for each in self.brokers.values():
            each.close()

    async def ask_bytes(self, broker_id: int, request: Message, version: int) -> bytes | None:
        """The body of the answer; None when the connection is closed instead."""
        api = request.API  # type: ignore[attr-defined]
        if broker_id not in self._open:
            self._open[broker_id] = await asyncio.open_connection(*self.addresses[broker_id])
        reader, writer = self._open[broker_id]
        writer.writelines(request_frame(api, version, 1, "sick", codec.encode_request(request, version)))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._open.pop(broker_id)[1].close()
            return None
        return answer[response_body_position(api, version, answer) :]

    async def ask(self, broker_id: int, request: Message, version: int) -> Any:
        body = await self.ask_bytes(broker_id, request, version)
        assert body is not None, f"{request} of version {version} closed the connection"
        return codec.decode_response(request.API.key, version, body)  # type: ignore[attr-defined]

    def hang_up(self) -> None:
        for _, writer in self._open.values():
            writer.close()
        self._open.clear()

    async def until(self, condition: Callable[[Any], bool], what: str, *brokers: int) -> None:
        """Until the condition holds for the metadata of these brokers."""
        deadline_s = time.monotonic() + TIMEOUT_S
        for broker_id in brokers:
            while not condition(told := await self.ask(broker_id, messages.metadata_request.MetadataRequest(), 9)):
                assert time.monotonic() < deadline_s, f"broker {broker_id} does not know {what}: {told}"
                await asyncio.sleep(0.05)

    async def fall_ill(self) -> None:
        """Make the topics, write to them, kill a broker, and delete a topic of which it has replicas."""
        await self._make_topics()
        await self._write()
        self.brokers[DEAD].kill()
        self._open.pop(DEAD)[1].close()
        await asyncio.to_thread(self._end_session_of_the_dead)

        def is_noticed(told: Any) -> bool:
            found = {topic.name: topic.partitions for topic in told.topics}
            return (
                len(told.brokers) == 2
                and found["leaderless"][0].leader_id == -1
                and found["moved"][0].leader_id == CONTROLLER
                and all(len(found[topic][0].isr_nodes) == 1 for topic in ("follower-down", "moved", DELETED))
            )

        await self.until(is_noticed, "the death of a broker", CONTROLLER, OTHER)
        d = messages.delete_topics_request
        await self.ask(CONTROLLER, d.DeleteTopicsRequest(topics=[d.DeleteTopicState(name=DELETED)], timeout_ms=10), 5)
        await self.until(
            lambda told: DELETED not in [topic.name for topic in told.topics], "the deletion", CONTROLLER, OTHER
        )

    def _end_session_of_the_dead(self) -> None:
        """What ZooKeeper does after the time of the session, which is long enough for a busy machine."""
        zookeeper = KazooClient(self._zookeeper)
        zookeeper.start(TIMEOUT_S)
        try:
            zookeeper.delete(f"/brokers/ids/{DEAD}")
        finally:
            zookeeper.stop()
            zookeeper.close()

    async def _make_topics(self) -> None:
        c, m = messages.create_topics_request, messages.metadata_request
        topics = [
            c.CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    c.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in enumerate(partitions)
                ],
                configs=[c.CreatableTopicConfig(name=key, value=value) for key, value in CONFIGS.get(name, {}).items()],
            )
            for name, partitions in TOPICS.items()
        ]
        await self.until(lambda told: len(told.brokers) == 3, "the others", CONTROLLER, DEAD, OTHER)
        made = await self.ask(CONTROLLER, c.CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
        assert not [each for each in made.topics if each.error_code], made

        def are_led(told: Any) -> bool:
            led = [p.leader_id >= 0 for topic in told.topics for p in topic.partitions]
            return all(led) and len(led) == sum(len(each) for each in TOPICS.values())

        await self.until(are_led, "leaders", CONTROLLER, DEAD, OTHER)
        found = await self.ask(CONTROLLER, m.MetadataRequest(topics=None), 12)
        self.known.topic_ids = {topic.name: topic.topic_id for topic in found.topics}

    async def _write(self) -> None:
        p, o, i = messages.produce_request, messages.offset_commit_request, messages.init_producer_id_request

        async def done(broker_id: int, request: Message, version: int, failed: Callable[[Any], object]) -> Any:
            """The answer, as soon as it is no error: coordinators load, replicas catch up."""
            deadline_s = time.monotonic() + TIMEOUT_S
            while failed(answer := await self.ask(broker_id, request, version)):
                assert time.monotonic() < deadline_s, f"{request}: {answer}"
                await asyncio.sleep(0.05)
            return answer

        def of_partition(answer: Any) -> bool:
            return bool(answer.responses[0].partition_responses[0].error_code)

        for topic in ("healthy", "follower-down", "moved", "leaderless", "strict", DELETED):
            for index, replicas in enumerate(TOPICS[topic]):
                data = p.PartitionProduceData(index=index, records=records())
                request = p.ProduceRequest(
                    acks=-1, timeout_ms=30_000, topic_data=[p.TopicProduceData(name=topic, partition_data=[data])]
                )
                await done(replicas[0], request, 7, of_partition)
        for broker_id, group in GROUPS.items():
            for topic in ("moved", DELETED):
                offset = o.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                commit = o.OffsetCommitRequest(
                    group_id=group, topics=[o.OffsetCommitRequestTopic(name=topic, partitions=[offset])]
                )
                await done(broker_id, commit, 7, lambda answer: answer.topics[0].partitions[0].error_code)
        for broker_id, name in TRANSACTIONAL_IDS.items():
            init = i.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
            given = await done(broker_id, init, 3, lambda answer: answer.error_code)
            self.known.producers = {**self.known.producers, name: (given.producer_id, given.producer_epoch)}

    async def advertised(self) -> dict[int, tuple[int, int]]:
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name="a", client_software_version="1"
        )
        told = await self.ask(CONTROLLER, request, 3)
        return {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}

    def shown(self, key: ApiKey, version: int, body: bytes) -> Any:
        """The answer as plain data, without what no two clusters agree on; nothing of its bytes may be lost by reading it."""
        message = codec.decode_response(key, version, body)
        assert b"".join(codec.encode_response(message, version)) == body, (key, version, body)
        if key is ApiKey.FETCH:
            message = _joined(message)
        plain = self._plain(message, "")
        return plain

    def _plain(self, value: Any, name: str) -> Any:
        if isinstance(value, list):
            items = [self._plain(each, "") for each in value]
            return sorted(items, key=_identity) if value and isinstance(value[0], Message) else items
        if isinstance(value, Message):
            plain = {field.name: self._plain(getattr(value, field.name), field.name) for field in value.FIELDS}
            if plain.get("error_code") and "error_message" in plain:
                plain["error_message"] = WORDS
            if "topics" in plain and str(plain.get("transaction_state", "")).startswith("Prepare"):
                # How many of its markers are written by now is a matter of time; those that cannot be written stay.
                plain["topics"] = "the outstanding markers" if plain["topics"] else []
            return plain
        return self._masked(value, name)

    def _masked(self, value: Any, name: str) -> Any:
        if name == "port":
            return {port: f"port of {broker}" for broker, (_, port) in self.addresses.items()}.get(value, value)
        if name == "topic_id":
            names = {found: f"id of {topic}" for topic, found in self.known.topic_ids.items()}
            return names.get(value, value if value in (NO_TOPIC_ID, UNKNOWN_ID) else "a new id")
        if name == "producer_id":
            ids = {found: f"id of {who}" for who, (found, _) in self.known.producers.items()}
            return ids.get(value, value)
        if name in NO_MEANING or (name in TIMES and value > 0):
            return name
        if isinstance(value, str):
            for broker in self.brokers.values():
                value = value.replace(str(broker.log_dir), f"directory of {broker.id}")
                value = value.replace(broker.address, f"address of {broker.id}")
        if isinstance(value, memoryview):
            return bytes(value)
        return value


def _joined(response: Any) -> Any:
    """A fetch's response with one entry for each topic; Kafka begins a new one where it looks at the partition in another step."""
    m = messages.fetch_response
    topics: dict[tuple[str, bytes], Any] = {}
    for topic in response.responses:
        entry = topics.setdefault(
            (topic.topic, topic.topic_id), m.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        )
        entry.partitions += topic.partitions
    response.responses = list(topics.values())
    return response


def _identity(item: dict[str, Any]) -> str:
    return repr([item[name] for name in IDENTITIES if name in item] + [item])


@contextmanager
def sick_cluster(directory: Path, command: Sequence[str]) -> Iterator[Sick]:
    extra = ReservedPort()
    directory.mkdir()
    with LocalCluster(brokers=0, directory=directory) as around:
        cluster = Sick(directory, around.zookeeper_connect, command, extra.number)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
            extra.release()
