"""Old structures: handlers write and read the newest one, the wire carries the old one."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.adapters import SECURITY_PROTOCOLS, security_protocol_name


def _through(message: Any, version: int, direction: str) -> Any:
    if direction == "request":
        return codec.decode_request(message.API.key, version, b"".join(codec.encode_request(message, version)))
    return codec.decode_response(message.API.key, version, b"".join(codec.encode_response(message, version)))


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(version: int) -> None:
    request = messages.find_coordinator_request.FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    assert _through(request, version, "request").coordinator_keys == ["g"]
    m = messages.find_coordinator_response
    response = m.FindCoordinatorResponse(
        coordinators=[m.Coordinator(key="g", node_id=3, host="h", port=9092, error_code=15, error_message="later")]
    )
    (found,) = _through(response, version, "response").coordinators
    assert (found.node_id, found.host, found.port, found.error_code) == (3, "h", 9092, 15)
    assert found.error_message == ("later" if version >= 1 else m.Coordinator().error_message)
    assert found.key == ("g" if version >= 4 else "")


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.parametrize("topics", [["t", "u"], None], ids=["some", "all"])
def test_offset_fetch_request(version: int, topics: list[str] | None) -> None:
    m = messages.offset_fetch_request
    asked = topics and [m.OffsetFetchRequestTopics(name=name, partition_indexes=[0, 4]) for name in topics]
    request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id="g", topics=asked)])
    (group,) = _through(request, version, "request").groups
    assert group.group_id == "g"
    if topics is None:
        assert group.topics is None if version >= 2 else not group.topics
    else:
        assert [(t.name, t.partition_indexes) for t in group.topics] == [("t", [0, 4]), ("u", [0, 4])]


@pytest.mark.parametrize("version", range(1, 10))
def test_offset_fetch_response(version: int) -> None:
    m = messages.offset_fetch_response
    partition = m.OffsetFetchResponsePartitions(partition_index=4, committed_offset=77, metadata="m")
    if version >= 5:
        partition.committed_leader_epoch = 6
    topics = [m.OffsetFetchResponseTopics(name="t", partitions=[partition])]
    response = m.OffsetFetchResponse(groups=[m.OffsetFetchResponseGroup(group_id="g", topics=topics)])
    (group,) = _through(response, version, "response").groups
    assert group.topics == topics
    assert group.group_id == ("g" if version >= 8 else "")


@pytest.mark.parametrize("version", range(1, 10))
def test_an_error_of_the_group_reaches_clients_of_every_version(version: int) -> None:
    m = messages.offset_fetch_response
    topics = [m.OffsetFetchResponseTopics(name="t", partitions=[m.OffsetFetchResponsePartitions(partition_index=4)])]
    response = m.OffsetFetchResponse(
        groups=[m.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=ErrorCode.NOT_COORDINATOR)]
    )
    (group,) = _through(response, version, "response").groups
    seen = group.error_code if version >= 2 else group.topics[0].partitions[0].error_code
    assert seen == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(6))
def test_leave_group(version: int) -> None:
    m = messages.leave_group_request
    request = m.LeaveGroupRequest(group_id="g", members=[m.MemberIdentity(member_id="a")])
    decoded = _through(request, version, "request")
    assert (decoded.group_id, [each.member_id for each in decoded.members]) == ("g", ["a"])
    r = messages.leave_group_response
    response = r.LeaveGroupResponse(members=[r.MemberResponse(member_id="a", error_code=ErrorCode.UNKNOWN_MEMBER_ID)])
    answered = _through(response, version, "response")
    code = answered.members[0].error_code if version >= 3 else answered.error_code
    assert code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
def test_leave_group_keeps_the_error_of_the_whole_request(version: int) -> None:
    r = messages.leave_group_response
    response = r.LeaveGroupResponse(
        error_code=ErrorCode.NOT_COORDINATOR, members=[r.MemberResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)]
    )
    assert _through(response, version, "response").error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics(version: int) -> None:
    m = messages.delete_topics_request
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name="t"), m.DeleteTopicState(name="u")], timeout_ms=5000
    )
    decoded = _through(request, version, "request")
    assert [topic.name for topic in decoded.topics] == ["t", "u"]
    assert decoded.timeout_ms == 5000


@pytest.mark.parametrize("version", range(4))
def test_alter_partition(version: int) -> None:
    m = messages.alter_partition_request
    partition = m.PartitionData(
        partition_index=1,
        leader_epoch=4,
        partition_epoch=9,
        new_isr_with_epochs=[m.BrokerState(broker_id=2), m.BrokerState(broker_id=3)],
    )
    topic = m.TopicData(topic_name="t", topic_id=bytes(range(16)), partitions=[partition])
    decoded = _through(m.AlterPartitionRequest(broker_id=2, broker_epoch=8, topics=[topic]), version, "request")
    (read,) = decoded.topics
    assert read.topic_name == ("t" if version < 2 else "")
    assert read.topic_id == (bytes(range(16)) if version >= 2 else bytes(16))
    assert [each.broker_id for each in read.partitions[0].new_isr_with_epochs] == [2, 3]
    assert (read.partitions[0].leader_epoch, read.partitions[0].partition_epoch) == (4, 9)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(version: int, delete: bool) -> None:
    m = messages.stop_replica_request
    topics = [
        m.TopicState(
            topic_name=name,
            partition_states=[m.PartitionState(partition_index=i, delete_partition=delete) for i in (0, 2)],
        )
        for name in ("t", "u")
    ]
    decoded = _through(
        m.StopReplicaRequest(controller_id=1, controller_epoch=2, topic_states=topics), version, "request"
    )
    assert decoded.topic_states == topics


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr(version: int) -> None:
    m = messages.leader_and_isr_request
    topics = [
        m.TopicState(
            topic_name=name,
            partition_states=[m.PartitionState(partition_index=i, leader=1, isr=[1], replicas=[1]) for i in (0, 2)],
        )
        for name in ("t", "u")
    ]
    decoded = _through(m.LeaderAndIsrRequest(controller_id=1, topic_states=topics), version, "request")
    assert [t.topic_name for t in decoded.topic_states] == ["t", "u"]
    for topic in decoded.topic_states:
        assert [(p.partition_index, p.leader, p.isr) for p in topic.partition_states] == [(0, 1, [1]), (2, 1, [1])]


@pytest.mark.parametrize("version", range(9))
def test_update_metadata(version: int) -> None:
    m = messages.update_metadata_request
    endpoints = [m.Endpoint(port=9092, host="h", listener="PLAINTEXT", security_protocol=0)]
    if version >= 1:
        endpoints.append(m.Endpoint(port=9093, host="h", listener="SASL_SSL", security_protocol=3))
    request = m.UpdateMetadataRequest(
        controller_id=1,
        topic_states=[m.TopicState(topic_name="t", partition_states=[m.PartitionState(leader=2, isr=[2])])],
        live_brokers=[m.LiveBroker(id=2, endpoints=endpoints)],
    )
    decoded = _through(request, version, "request")
    assert decoded.live_brokers[0].endpoints == endpoints
    assert [(t.topic_name, t.partition_states[0].leader) for t in decoded.topic_states] == [("t", 2)]


def test_the_same_message_can_be_written_in_many_versions() -> None:
    """A controller sends one message to brokers of several versions; writing an old one must not harm the others."""
    m = messages.stop_replica_request
    states = [m.PartitionState(partition_index=0, leader_epoch=5, delete_partition=True)]
    request = m.StopReplicaRequest(topic_states=[m.TopicState(topic_name="t", partition_states=states)])
    before = b"".join(codec.encode_request(request, 4))
    for version in range(5):
        codec.encode_request(request, version)
    assert b"".join(codec.encode_request(request, 4)) == before


@pytest.mark.parametrize("number", [-1, 4, 32767])
def test_an_unknown_security_protocol_is_a_violation(number: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"security protocol {number}"):
        security_protocol_name(number)
    m = messages.update_metadata_request
    broker = m.LiveBroker(id=2, endpoints=[m.Endpoint(host="h", port=1, security_protocol=number)])
    body = b"".join(codec.encode_request(m.UpdateMetadataRequest(live_brokers=[broker]), 2))
    with pytest.raises(ProtocolViolation):
        codec.decode_request(6, 2, body)


def test_security_protocols_by_number() -> None:
    assert [security_protocol_name(number) for number in range(4)] == list(SECURITY_PROTOCOLS)
