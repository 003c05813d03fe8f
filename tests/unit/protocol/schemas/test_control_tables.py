"""Messages that kio lacks, held against bytes written out by hand from the specification of the control requests."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey

TOPIC_ID = bytes(range(16))

LEADER_AND_ISR_0 = bytes.fromhex(
    "00000001"  # controller id
    "00000005"  # controller epoch
    "00000001"  # one partition state
    "000174 00000000 00000005 00000001 00000002"  # "t", partition 0, controller epoch, leader, leader epoch
    "00000002 00000001 00000002"  # isr
    "00000007"  # partition epoch
    "00000002 00000001 00000002"  # replicas
    "00000001 00000001 000168 00002384"  # one live leader: 1, "h", 9092
)
LEADER_AND_ISR_2 = bytes.fromhex(
    "00000001 00000005 0000000000000009"  # controller id and epoch, broker epoch
    "00000001 000174 00000001"  # one topic "t" with one partition
    "00000000 00000005 00000001 00000002"
    "00000002 00000001 00000002 00000007"
    "00000002 00000001 00000002 01"  # replicas, is new
    "00000001 00000001 000168 00002384"
)
LEADER_AND_ISR_7 = bytes.fromhex(
    "00000001 00 00000005 0000000000000009 00"  # controller id, is kraft, epochs, type
    "02 0274 000102030405060708090a0b0c0d0e0f 02"
    "00000000 00000005 00000001 00000002"
    "03 00000001 00000002 00000007"
    "03 00000001 00000002"
    "02 00000003 01 01 00"  # adding 3, removing none, is new, recovered
    "00 00"  # tags of partition and topic
    "02 00000001 0268 00002384 00"
    "00"
)


def _leader_and_isr(version: int) -> Any:
    m = messages.leader_and_isr_request
    state = m.PartitionState(
        controller_epoch=5, leader=1, leader_epoch=2, isr=[1, 2], partition_epoch=7, replicas=[1, 2]
    )
    state.is_new = version >= 1
    if version >= 3:
        state.adding_replicas = [3]
    return m.LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=5,
        broker_epoch=9 if version >= 2 else -1,
        topic_states=[
            m.TopicState(topic_name="t", topic_id=TOPIC_ID if version >= 5 else bytes(16), partition_states=[state])
        ],
        live_leaders=[m.LiveLeader(broker_id=1, host_name="h", port=9092)],
    )


UPDATE_METADATA_0 = bytes.fromhex(
    "00000001 00000005 00000001"
    "000174 00000000 00000005 00000001 00000002"
    "00000001 00000001 00000007 00000002 00000001 00000002"
    "00000001 00000001 000168 00002384"
)
UPDATE_METADATA_2 = bytes.fromhex(
    "00000001 00000005 00000001"
    "000174 00000000 00000005 00000001 00000002"
    "00000001 00000001 00000007 00000002 00000001 00000002"
    "00000001 00000001"
    "00000001 00002384 000168 0001"  # one endpoint: port, host, SSL
    "ffff"  # no rack
)
UPDATE_METADATA_8 = bytes.fromhex(
    "00000001 00 00000005 0000000000000009"
    "02 0274 000102030405060708090a0b0c0d0e0f 02"
    "00000000 00000005 00000001 00000002"
    "02 00000001 00000007 03 00000001 00000002"
    "02 00000002 00 00"  # offline replicas
    "02 00000001"
    "02 00002384 0268 0845585445524e41 0001 00"  # port, host, listener, SSL
    "0272 00"  # rack "r"
    "00"
)


def _update_metadata(version: int) -> Any:
    m = messages.update_metadata_request
    state = m.PartitionState(controller_epoch=5, leader=1, leader_epoch=2, isr=[1], zk_version=7, replicas=[1, 2])
    if version >= 4:
        state.offline_replicas = [2]
    listener, protocol = {0: ("PLAINTEXT", 0), 2: ("SSL", 1), 8: ("EXTERNA", 1)}[version]
    return m.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=5,
        broker_epoch=9 if version >= 5 else -1,
        topic_states=[
            m.TopicState(topic_name="t", topic_id=TOPIC_ID if version >= 7 else bytes(16), partition_states=[state])
        ],
        live_brokers=[
            m.LiveBroker(
                id=1,
                endpoints=[m.Endpoint(port=9092, host="h", listener=listener, security_protocol=protocol)],
                rack="r" if version >= 3 else None,
            )
        ],
    )


STOP_REPLICA_0 = bytes.fromhex("00000001 00000005 01 00000002 000174 00000000 000174 00000003")
STOP_REPLICA_1 = bytes.fromhex("00000001 00000005 0000000000000009 01 00000001 000174 00000002 00000000 00000003")
STOP_REPLICA_2 = bytes.fromhex("00000001 00000005 0000000000000009 01 02 0274 03 00000000 00000003 00 00")
STOP_REPLICA_4 = bytes.fromhex(
    "00000001 00 00000005 000000000000000902 0274 03 00000000 fffffffe 01 00 00000003 00000004 01 00 00 00"
)


def _stop_replica(version: int) -> Any:
    m = messages.stop_replica_request
    epochs = (-2, 4) if version >= 3 else (-1, -1)
    return m.StopReplicaRequest(
        controller_id=1,
        controller_epoch=5,
        broker_epoch=9 if version >= 1 else -1,
        topic_states=[
            m.TopicState(
                topic_name="t",
                partition_states=[
                    m.PartitionState(partition_index=0, leader_epoch=epochs[0], delete_partition=True),
                    m.PartitionState(partition_index=3, leader_epoch=epochs[1], delete_partition=True),
                ],
            )
        ],
    )


ALTER_PARTITION_0 = bytes.fromhex(
    "00000001 0000000000000009 02 0274 02 00000000 00000002 03 00000001 00000002 00000007 00 00 00"
)
ALTER_PARTITION_3 = bytes.fromhex(
    "00000001 0000000000000009 02 000102030405060708090a0b0c0d0e0f 02 00000000 00000002"
    "03 00000001 ffffffffffffffff 00 00000002 ffffffffffffffff 00"
    "00 00000007 00 00 00"
)


def _alter_partition(version: int) -> Any:
    m = messages.alter_partition_request
    return m.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=9,
        topics=[
            m.TopicData(
                topic_name="t" if version < 2 else "",
                topic_id=TOPIC_ID if version >= 2 else bytes(16),
                partitions=[
                    m.PartitionData(
                        leader_epoch=2,
                        new_isr_with_epochs=[m.BrokerState(broker_id=1), m.BrokerState(broker_id=2)],
                        partition_epoch=7,
                    )
                ],
            )
        ],
    )


REQUESTS = [
    (ApiKey.LEADER_AND_ISR, 0, LEADER_AND_ISR_0, _leader_and_isr),
    (ApiKey.LEADER_AND_ISR, 2, LEADER_AND_ISR_2, _leader_and_isr),
    (ApiKey.LEADER_AND_ISR, 7, LEADER_AND_ISR_7, _leader_and_isr),
    (ApiKey.UPDATE_METADATA, 0, UPDATE_METADATA_0, _update_metadata),
    (ApiKey.UPDATE_METADATA, 2, UPDATE_METADATA_2, _update_metadata),
    (ApiKey.UPDATE_METADATA, 8, UPDATE_METADATA_8, _update_metadata),
    (ApiKey.STOP_REPLICA, 0, STOP_REPLICA_0, _stop_replica),
    (ApiKey.STOP_REPLICA, 1, STOP_REPLICA_1, _stop_replica),
    (ApiKey.STOP_REPLICA, 2, STOP_REPLICA_2, _stop_replica),
    (ApiKey.STOP_REPLICA, 4, STOP_REPLICA_4, _stop_replica),
    (ApiKey.ALTER_PARTITION, 0, ALTER_PARTITION_0, _alter_partition),
    (ApiKey.ALTER_PARTITION, 3, ALTER_PARTITION_3, _alter_partition),
]
_IDS = [f"{key.name.lower()}-{version}" for key, version, _, _ in REQUESTS]


@pytest.mark.parametrize(("key", "version", "golden", "make"), REQUESTS, ids=_IDS)
def test_requests_are_written_as_specified(key: ApiKey, version: int, golden: bytes, make: Any) -> None:
    assert b"".join(codec.encode_request(make(version), version)).hex() == golden.hex()


@pytest.mark.parametrize(("key", "version", "golden", "make"), REQUESTS, ids=_IDS)
def test_requests_are_read_in_the_newest_structure(key: ApiKey, version: int, golden: bytes, make: Any) -> None:
    request = codec.decode_request(key, version, golden)
    wanted = make(version)
    if key == ApiKey.ALTER_PARTITION:
        assert request.topics[0].partitions[0].new_isr_with_epochs == wanted.topics[0].partitions[0].new_isr_with_epochs
        assert request.topics[0].topic_id == wanted.topics[0].topic_id
        return
    for read, meant in zip(request.topic_states, wanted.topic_states, strict=True):
        for state in read.partition_states:
            if hasattr(state, "topic_name"):
                state.topic_name = ""
        assert read == meant
    if key == ApiKey.UPDATE_METADATA:
        assert [each.endpoints for each in request.live_brokers] == [each.endpoints for each in wanted.live_brokers]
        assert [each.rack for each in request.live_brokers] == [each.rack for each in wanted.live_brokers]
    if key == ApiKey.LEADER_AND_ISR:
        assert request.live_leaders == wanted.live_leaders
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 5, wanted.broker_epoch)


def test_responses_are_written_as_specified() -> None:
    m = messages.leader_and_isr_response
    by_name = m.LeaderAndIsrResponse(
        partition_errors=[m.PartitionError(topic_name="t", partition_index=1, error_code=11)]
    )
    assert b"".join(codec.encode_response(by_name, 0)) == bytes.fromhex("0000 00000001 000174 00000001 000b")
    by_id = m.LeaderAndIsrResponse(
        topics=[m.TopicError(topic_id=TOPIC_ID, partition_errors=[m.PartitionError(partition_index=1, error_code=11)])]
    )
    assert b"".join(codec.encode_response(by_id, 5)) == bytes.fromhex(
        "0000 02 000102030405060708090a0b0c0d0e0f 02 00000001 000b 00 00 00"
    )
    s = messages.stop_replica_response
    stopped = s.StopReplicaResponse(partition_errors=[s.PartitionError(topic_name="t", partition_index=1)])
    assert b"".join(codec.encode_response(stopped, 2)) == bytes.fromhex("0000 02 0274 00000001 0000 00 00")
    c = messages.controlled_shutdown_response
    left = c.ControlledShutdownResponse(
        error_code=8, remaining_partitions=[c.RemainingPartition(topic_name="t", partition_index=1)]
    )
    assert b"".join(codec.encode_response(left, 3)) == bytes.fromhex("0008 02 0274 00000001 00 00")
    u = messages.update_metadata_response.UpdateMetadataResponse(error_code=11)
    assert b"".join(codec.encode_response(u, 6)) == bytes.fromhex("000b 00")


@pytest.mark.parametrize(
    ("version", "golden"), [(0, "00000003"), (2, "00000003 0000000000000009"), (3, "00000003 0000000000000009 00")]
)
def test_controlled_shutdown_requests(version: int, golden: str) -> None:
    request = messages.controlled_shutdown_request.ControlledShutdownRequest(
        broker_id=3, broker_epoch=9 if version >= 2 else -1
    )
    assert b"".join(codec.encode_request(request, version)) == bytes.fromhex(golden)
    assert codec.decode_request(ApiKey.CONTROLLED_SHUTDOWN, version, bytes.fromhex(golden)) == request


def test_the_tagged_type_of_update_metadata_is_left_out_while_it_is_zero() -> None:
    request = messages.update_metadata_request.UpdateMetadataRequest(controller_id=1, controller_epoch=5)
    plain = b"".join(codec.encode_request(request, 8))
    assert plain == bytes.fromhex("00000001 00 00000005 ffffffffffffffff 01 01 00")
    request.type = 2
    assert b"".join(codec.encode_request(request, 8)) == plain[:-1] + bytes.fromhex("01 00 01 02")
    assert codec.decode_request(ApiKey.UPDATE_METADATA, 8, plain[:-1] + bytes.fromhex("01 00 01 02")).type == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_before_batches(version: int) -> None:
    m = messages.produce_request
    request = m.ProduceRequest(
        acks=1,
        timeout_ms=5,
        topic_data=[m.TopicProduceData(name="t", partition_data=[m.PartitionProduceData(index=0, records=b"xyz")])],
    )
    golden = bytes.fromhex("0001 00000005 00000001 000174 00000001 00000000 00000003 78797a")
    assert b"".join(codec.encode_request(request, version)) == golden
    assert codec.decode_request(ApiKey.PRODUCE, version, golden) == request
    r = messages.produce_response
    response = r.ProduceResponse(
        responses=[
            r.TopicProduceResponse(name="t", partition_responses=[r.PartitionProduceResponse(index=0, base_offset=4)])
        ]
    )
    answer = bytes.fromhex("00000001 000174 00000001 00000000 0000 0000000000000004")
    answer += bytes.fromhex("ffffffffffffffff") if version == 2 else b""
    answer += bytes(4) if version >= 1 else b""
    assert b"".join(codec.encode_response(response, version)) == answer
