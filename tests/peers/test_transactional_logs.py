"""Transactions in partitions and groups: a live Apache Kafka and ours answer the same to the same requests, and leave the same files.

Compared are outcomes of every kind (verified, fenced, late, unstable, hanging) and then the bytes of the logs, transaction indexes and
producer snapshots. Producer ids, times and checksums over them are left out, because they differ from run to run.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.blocking_request import exchange
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.messages import Message
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, NewRecord, build_batch, iter_batches
from tests.peers import apache_kafka
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

TIME: Final = 1_700_000_000_000
SETTINGS: Final = {
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
GROUP: Final = "g"
HANGING: Final = 77_777
"""A producer whose transaction no coordinator knows."""
_BUSY: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Peer:
    """One broker, Apache Kafka's or ours; `told` is what it answered."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, port = cluster.bootstrap_servers.split(":")
        self.host, self.port = host, int(port)
        self.told: list[tuple[str, Any]] = []
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    def ask(self, request: Message, version: int) -> Any:
        api = request.API
        frame = request_frame(api, version, 1, "peer", codec.encode_request(request, version))
        answer = exchange(self.host, self.port, frame, lambda: 30)
        return codec.decode_response(api.key, version, answer, response_body_position(api, version, answer))

    def tell(self, what: str, outcome: Any) -> None:
        self.told.append((what, outcome))

    # Requests, each of which gives what is compared

    def init(self, transactional_id: str = "x") -> int:
        m = messages.init_producer_id_request
        request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        found: list[Any] = []

        def begun() -> bool:
            found[:] = [self.ask(request, 4)]
            return found[0].error_code not in (*_BUSY, ErrorCode.CONCURRENT_TRANSACTIONS)

        wait_until(begun, "a coordinator of transactions", 60)
        self.producer_id, self.epoch = found[0].producer_id, found[0].producer_epoch
        self.sequences.clear()
        return int(found[0].error_code)

    def find_coordinator(self, key_type: int, key: str) -> None:
        request = messages.find_coordinator_request.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        wait_until(lambda: not self.ask(request, 4).coordinators[0].error_code, "a coordinator", 60)

    def add_partitions(self, *topics: str) -> list[int]:
        m = messages.add_partitions_to_txn_request
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[m.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics],
        )
        found: list[int] = []

        def added() -> bool:
            results = self.ask(request, 3).results_by_topic_v3_and_below
            found[:] = [each.partition_error_code for topic in results for each in topic.results_by_partition]
            return ErrorCode.CONCURRENT_TRANSACTIONS not in found

        wait_until(added, "the transaction before to be complete", 30)
        return found

    def produce(
        self,
        topic: str,
        count: int = 1,
        *,
        transactional_id: str | None = "x",
        attributes: int = TRANSACTIONAL,
        epoch: int | None = None,
        producer_id: int | None = None,
        version: int = 11,
    ) -> tuple[int, int]:
        """(error code, base offset); sequence numbers follow each other as long as it works."""
        sequence = self.sequences.get(topic, 0)
        batch = build_batch(
            [NewRecord(b"k", b"%d" % number, TIME + number) for number in range(count)],
            attributes=attributes,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence if producer_id is None else 0,
        )
        m = messages.produce_request
        data = m.PartitionProduceData(index=0, records=bytes(batch))
        request = m.ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[m.TopicProduceData(name=topic, partition_data=[data])],
        )
        (answer,) = self.ask(request, version).responses[0].partition_responses
        if not answer.error_code and producer_id is None:
            self.sequences[topic] = sequence + count
        return answer.error_code, answer.base_offset

    def fetch(self, topic: str, isolation_level: int, offset: int = 0, version: int = 11) -> Any:
        m = messages.fetch_request
        asked = m.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = m.FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=[m.FetchTopic(topic=topic, partitions=[asked])],
        )
        (answer,) = self.ask(request, version).responses[0].partitions
        aborted = answer.aborted_transactions
        return (
            answer.error_code,
            answer.high_watermark,
            answer.last_stable_offset,
            None if aborted is None else [each.first_offset for each in aborted],
            [(each.base_offset, each.is_control) for each in iter_batches(answer.records or b"")],
        )

    def end_of(self, topic: str, isolation_level: int) -> int:
        m = messages.list_offsets_request
        asked = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = m.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[m.ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        return int(self.ask(request, 5).topics[0].partitions[0].offset)

    def producers(self, topic: str) -> list[tuple[int, ...]]:
        m = messages.describe_producers_request
        request = m.DescribeProducersRequest(topics=[m.TopicRequest(name=topic, partition_indexes=[0])])
        found = self.ask(request, 0).topics[0].partitions[0].active_producers
        return sorted(
            (
                each.producer_id == self.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found
        )

    def add_offsets(self) -> int:
        request = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=self.producer_id, producer_epoch=self.epoch, group_id=GROUP
        )
        return int(self.ask(request, 3).error_code)

    def commit_offset(self, offset: int, version: int = 3, topic: str = "t", **who: Any) -> int:
        m = messages.txn_offset_commit_request
        partition = m.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=0, committed_metadata="m"
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=who.get("epoch", self.epoch),
            generation_id=who.get("generation", -1),
            member_id=who.get("member_id", ""),
            topics=[m.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        return int(self.ask(request, version).topics[0].partitions[0].error_code)

    def commit_plainly(self, offset: int) -> int:
        m = messages.offset_commit_request
        partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="p")
        request = m.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[m.OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        return int(self.ask(request, 7).topics[0].partitions[0].error_code)

    def offset(self, require_stable: bool) -> tuple[int, int]:
        m = messages.offset_fetch_request
        topics = [m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        groups = [m.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
        request = m.OffsetFetchRequest(groups=groups, require_stable=require_stable)
        answer = self.ask(request, 8).groups[0].topics[0].partitions[0]
        return answer.error_code, answer.committed_offset

    def end(self, committed: bool, *topics: str) -> int:
        """Also waits until the markers are in the logs of the topics."""
        request = messages.end_txn_request.EndTxnRequest(
            transactional_id="x", producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed
        )
        code = int(self.ask(request, 3).error_code)
        for topic in topics:
            wait_until(lambda topic=topic: self.end_of(topic, 0) == self.end_of(topic, 1), "a marker", 30)  # type: ignore[misc]
        return code

    def mark(
        self,
        topic: str,
        *,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        committed: bool = False,
        version: int = 1,
    ) -> int:
        m = messages.write_txn_markers_request
        marker = m.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=committed,
            coordinator_epoch=coordinator_epoch,
            topics=[m.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        answer = self.ask(m.WriteTxnMarkersRequest(markers=[marker]), version)
        return int(answer.markers[0].topics[0].partitions[0].error_code)


def play(peer: Peer) -> None:
    """Everything that is compared; topics t, u and hanging have one partition each."""
    tell = peer.tell
    peer.find_coordinator(1, "x")
    peer.find_coordinator(0, GROUP)
    tell("init", (peer.init(), peer.init(), peer.epoch))
    for version in (11, 9, 3):
        tell(f"not added, {version}", peer.produce("t", version=version))
    tell("no id", peer.produce("t", transactional_id=None))
    tell("other id", peer.produce("t", transactional_id="y"))
    tell("empty id", peer.produce("t", transactional_id=""))
    tell("added", peer.add_partitions("t", "u"))
    tell("future epoch", peer.produce("t", epoch=9))
    tell("first", peer.produce("t", 3))
    tell("second", peer.produce("t", 2))
    tell("other topic", peer.produce("u", 1))
    tell("plain within", peer.produce("t", attributes=0))
    tell("plain batch", peer.produce("t", transactional_id=None, attributes=0, producer_id=-1, epoch=-1))
    for isolation_level in (0, 1):
        tell(f"fetch {isolation_level}", peer.fetch("t", isolation_level))
        tell(f"end {isolation_level}", peer.end_of("t", isolation_level))
    tell("open", peer.producers("t"))
    for version in (3, 4, 0):
        tell(f"offsets not added, {version}", peer.commit_offset(5, version))
    tell("offsets added", peer.add_offsets())
    # Before the others: in Kafka a zombie's refused commit makes those of its successor void.
    tell("old epoch of offsets", peer.commit_offset(5, epoch=peer.epoch - 1))
    tell("offsets", [peer.commit_offset(5, version) for version in (0, 3, 4)])
    tell("unknown topic", peer.commit_offset(5, topic="absent"))
    tell("unknown member", peer.commit_offset(5, member_id="nobody", generation=4))
    tell("unstable", (peer.offset(True), peer.offset(False)))
    tell("plain commit", (peer.commit_plainly(3), peer.offset(True), peer.offset(False)))
    tell("abort", peer.end(False, "t", "u", "__consumer_offsets"))
    wait_until(lambda: not peer.offset(True)[0], "an offset that is stable", 30)  # a moment after the marker
    tell("offsets after abort", (peer.offset(True), peer.offset(False)))
    for isolation_level in (0, 1):
        tell(f"fetch after abort {isolation_level}", peer.fetch("t", isolation_level))
    found: list[tuple[int, int]] = []

    def completed() -> bool:
        found[:] = [peer.produce("t")]
        return found[0][0] != ErrorCode.NOT_ENOUGH_REPLICAS

    wait_until(completed, "a transaction that is complete", 30)
    tell("after the end", found[0])
    tell("second transaction", (peer.add_partitions("t"), peer.produce("t", 4), peer.add_offsets()))
    tell("offsets committed", (peer.commit_offset(9), peer.end(True, "t", "__consumer_offsets")))
    wait_until(lambda: not peer.offset(True)[0], "an offset that is stable", 30)
    tell("offset", (peer.offset(True), peer.offset(False)))
    tell("closed", peer.producers("t"))
    tell("fetch behind", peer.fetch("t", 1, 7))
    pid, epoch = peer.producer_id, peer.epoch
    tell("late marker", peer.mark("t", producer_id=pid, epoch=epoch, coordinator_epoch=-1))
    tell("old marker", peer.mark("t", producer_id=pid, epoch=epoch - 1, coordinator_epoch=0))
    tell("marker again", peer.mark("t", producer_id=pid, epoch=epoch, coordinator_epoch=0, committed=True, version=0))
    tell("marker elsewhere", peer.mark("absent", producer_id=pid, epoch=epoch, coordinator_epoch=0))
    tell("fences", (peer.init(), peer.epoch, peer.add_partitions("t"), peer.produce("t", 1)))
    tell("zombie", peer.produce("t", epoch=peer.epoch - 1))
    tell("commit", peer.end(True, "t"))


def hang(peer: Peer) -> None:
    """A transaction that no coordinator knows, which verification would have refused, and its end by an operator."""
    options: dict[str, Any] = {"producer_id": HANGING, "epoch": 2}
    peer.tell("hangs", peer.produce("hanging", 2, **options))
    peer.tell("open", peer.producers("hanging"))
    peer.tell("kept back", peer.fetch("hanging", 1))
    peer.tell("ended", peer.mark("hanging", producer_id=HANGING, epoch=2, coordinator_epoch=-1))
    peer.tell("free", peer.fetch("hanging", 1))


def switch_verification(peer: Peer, enabled: bool) -> None:
    m = messages.incremental_alter_configs_request
    key = "transaction.partition.verification.enable"
    config = m.AlterableConfig(name=key, config_operation=0, value=str(enabled).lower())
    resource = m.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    assert not peer.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code


def played(command: Sequence[str]) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """What a broker answered, and what it left on the disk."""
    with LocalCluster(brokers=1, properties=SETTINGS, command=command) as cluster:
        if command is not BROKER_COMMAND:
            apache_kafka.wait_for_controller(cluster.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = ["t", "u", "hanging"]
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
            created.result(60)
        for name in topics:
            wait_until_led(cluster.bootstrap_servers, name, 1)
        peer = Peer(cluster)
        play(peer)
        switch_verification(peer, False)
        wait_until(lambda: not peer.produce("hanging", producer_id=HANGING + 1, epoch=0)[0], "verification is off", 30)
        peer.mark("hanging", producer_id=HANGING + 1, epoch=0, coordinator_epoch=-1)
        hang(peer)
        cluster.stop(1)
        (directory,) = cluster.log_directories()[1]
        files = {
            f"{name}: {file}": content
            for name in (*topics, "__consumer_offsets")
            for file, content in left(directory / f"{name}-0", peer)
        }
    return peer.told, files


_PRODUCER_ID: Final = struct.Struct(">q")


def left(directory: Path, peer: Peer) -> list[tuple[str, Any]]:
    """(name, content without what differs from run to run) of the files that transactions shape."""
    found: list[tuple[str, Any]] = []
    for path in sorted(directory.iterdir()):
        data = bytearray(path.read_bytes())
        if path.suffix == ".log":
            found.append((path.name, [_masked(data[each.position : each.end]) for each in iter_batches(data)]))
        elif path.suffix == ".txnindex" and data:
            for start in range(2, len(data), 34):
                data[start : start + 8] = _mapped(data[start : start + 8], peer)
            found.append((path.name, bytes(data)))
        elif path.suffix == ".snapshot":
            entries = []
            for start in range(10, len(data), 46):
                entry = data[start : start + 46]
                entry[0:8] = _mapped(entry[0:8], peer)
                if int.from_bytes(entry[26:34], "big") > TIME + 1000:  # when a marker was written
                    entry[26:34] = bytes(8)
                entries.append(bytes(entry))
            found.append((path.name, (bytes(data[:2]), bytes(data[6:10]), sorted(entries))))
    return found


def _mapped(producer_id: bytes, peer: Peer) -> bytes:
    return bytes(8) if _PRODUCER_ID.unpack(producer_id)[0] == peer.producer_id else bytes(producer_id)


def _masked(batch: bytearray) -> bytes:
    (header,) = iter_batches(batch)
    batch[17:21] = bytes(4)
    if header.producer_id not in (-1, HANGING, HANGING + 1):
        batch[43:51] = bytes(8)
    if header.base_timestamp > TIME + 1000:
        batch[27:43] = bytes(16)
        if not header.is_control:  # an offset's value ends with its time, and then there are no headers
            for number in range(header.records_count):
                assert number == 0, "one offset in each commit"
            batch[-9:-1] = bytes(8)
    return bytes(batch)


def test_a_live_apache_kafka_answers_and_writes_the_same() -> None:
    theirs, their_files = played(apache_kafka.broker_command())
    ours, our_files = played(BROKER_COMMAND)
    assert ours == theirs
    assert our_files == their_files
