"""Groups listed, described, moved and deleted: what is asked of which coordinator, and what becomes of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client import Admin, AdminError, GroupDescription, GroupListing, GroupMember
from kafkalite.client.errors import ClientError, ClientTimeoutError
from kafkalite.client.group.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.admin.test_partition_admin import T0, T1, ask
from tests.unit.client.fake_broker import FakeCluster

NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def coordinated_by(cluster: FakeCluster, *brokers: int, error_code: int = 0) -> None:
    """Answers to FindCoordinator, one for each broker id."""
    m = messages.find_coordinator_response

    def answer(broker: int) -> Any:
        def found(_: int, request: Any) -> Any:
            (key,) = request.coordinator_keys
            one = m.Coordinator(key=key, node_id=broker, host="fake", port=9000 + broker, error_code=error_code)
            return m.FindCoordinatorResponse(coordinators=[one])

        return found

    cluster.script[ApiKey.FIND_COORDINATOR].extend(answer(broker) for broker in brokers)


def listed(*groups: tuple[str, str], error_code: int = 0) -> Any:
    m = messages.list_groups_response
    facts = {"protocol_type": "consumer", "group_type": "classic"}
    found = [m.ListedGroup(group_id=name, group_state=state, **facts) for name, state in groups]
    return m.ListGroupsResponse(groups=found, error_code=error_code)


def described(group: str, state: str = "Empty", members: tuple[Any, ...] = (), error_code: int = 0) -> Any:
    m = messages.describe_groups_response
    one = m.DescribedGroup(
        group_id=group,
        group_state=state,
        protocol_type="consumer" if members else "",
        protocol_data="range" if members else "",
        members=list(members),
        error_code=error_code,
    )
    return m.DescribeGroupsResponse(groups=[one])


def member(name: str, *partitions: TopicPartition) -> Any:
    return messages.describe_groups_response.DescribedGroupMember(
        member_id=name,
        client_id="c",
        client_host="/10.0.0.1",
        member_metadata=encode_subscription(Subscription(("t",))),
        member_assignment=encode_assignment(Assignment(partitions)),
    )


def fetched(group: str, offsets: dict[TopicPartition, int], error_code: int = 0) -> Any:
    m = messages.offset_fetch_response
    topics = [
        m.OffsetFetchResponseTopics(
            name=each.topic,
            partitions=[
                m.OffsetFetchResponsePartitions(
                    partition_index=each.partition, committed_offset=offset, committed_leader_epoch=-1, metadata=""
                )
            ],
        )
        for each, offset in offsets.items()
    ]
    answer = m.OffsetFetchResponseGroup(group_id=group, topics=topics, error_code=error_code)
    return m.OffsetFetchResponse(groups=[answer])


def committed(*results: tuple[TopicPartition, int]) -> Any:
    m = messages.offset_commit_response
    topics = [
        m.OffsetCommitResponseTopic(
            name=each.topic,
            partitions=[m.OffsetCommitResponsePartition(partition_index=each.partition, error_code=code)],
        )
        for each, code in results
    ]
    return m.OffsetCommitResponse(topics=topics)


def offsets_deleted(*results: tuple[TopicPartition, int], error_code: int = 0) -> Any:
    m = messages.offset_delete_response
    topics = [
        m.OffsetDeleteResponseTopic(
            name=each.topic,
            partitions=[m.OffsetDeleteResponsePartition(partition_index=each.partition, error_code=code)],
        )
        for each, code in results
    ]
    return m.OffsetDeleteResponse(topics=topics, error_code=error_code)


def deleted(group: str, error_code: int = 0) -> Any:
    m = messages.delete_groups_response
    return m.DeleteGroupsResponse(results=[m.DeletableGroupResult(group_id=group, error_code=error_code)])


def test_groups_of_all_brokers_are_listed() -> None:
    cluster = FakeCluster({"t": 1})
    answers = {1: [listed(error_code=LOADING), listed(("b", "Stable"))], 2: [listed(("a", "Empty"), ("c", "Stable"))]}
    cluster.script[ApiKey.LIST_GROUPS].extend([lambda broker, _: answers[broker].pop(0)] * 3)
    found = ask(cluster, lambda admin: admin.list_groups(["stable"]))
    assert found == [
        GroupListing("b", "Stable", "consumer", 1, "classic"),
        GroupListing("c", "Stable", "consumer", 2, "classic"),
    ]
    assert found[0].to_dict() == {
        "group_id": "b",
        "state": "Stable",
        "protocol_type": "consumer",
        "coordinator": 1,
        "group_type": "classic",
    }
    assert all(request.states_filter == ["stable"] for request in cluster.requests_of(ApiKey.LIST_GROUPS))


def test_a_group_is_described_by_its_coordinator() -> None:
    cluster = FakeCluster({"t": 2})
    coordinated_by(cluster, 2)
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", "Stable", (member("m", T1, T0),)))
    found = ask(cluster, lambda admin: admin.describe_groups(["g"]))
    expected = GroupMember("m", None, "c", "/10.0.0.1", ("t",), (T0, T1))
    assert found == {"g": GroupDescription("g", "Stable", "consumer", "range", 2, (expected,))}
    assert found["g"].has_members and found["g"].to_dict()["members"][0]["partitions"][1] == {
        "topic": "t",
        "partition": 1,
    }
    assert [broker for broker, request in cluster.requests if request.API.key == ApiKey.DESCRIBE_GROUPS] == [2]


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING])
def test_a_coordinator_that_moved_or_loads_is_asked_again(code: ErrorCode) -> None:
    cluster = FakeCluster({"t": 1})
    coordinated_by(cluster, 1, 2)
    cluster.script[ApiKey.DESCRIBE_GROUPS].extend([described("g", error_code=code), described("g", "Dead")])
    found = ask(cluster, lambda admin: admin.describe_groups(["g"]))["g"]
    assert (found.state, found.coordinator, found.has_members) == ("Dead", 2, False)


def test_there_may_be_no_coordinator_yet() -> None:
    cluster = FakeCluster({"t": 1})
    coordinated_by(cluster, -1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinated_by(cluster, 1)
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g"))
    assert ask(cluster, lambda admin: admin.describe_groups(["g"]))["g"].state == "Empty"
    coordinated_by(cluster, *[-1] * 9999, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(ClientTimeoutError):
        ask(cluster, lambda admin: with_little_time(admin).list_group_offsets("g"))


def with_little_time(admin: Admin) -> Admin:
    admin._api_timeout_s = 0.05
    return admin


def test_members_that_speak_another_language_own_nothing_that_can_be_read() -> None:
    cluster = FakeCluster({"t": 1})
    coordinated_by(cluster, 1)
    odd = member("m")
    odd.member_metadata, odd.member_assignment = b"\xff", b"\0\0\xff"
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", "Stable", (odd,)))
    (found,) = ask(cluster, lambda admin: admin.describe_groups(["g"]))["g"].members
    assert found.topics == () and found.partitions == ()


def test_committed_offsets_are_listed() -> None:
    cluster = FakeCluster({"t": 2})
    coordinated_by(cluster, 1, 1)
    cluster.script[ApiKey.OFFSET_FETCH].extend([fetched("g", {T1: 7}), fetched("g", {T0: -1, T1: 7})])
    assert ask(cluster, lambda admin: admin.list_group_offsets("g")) == {T1: OffsetAndMetadata(7)}
    assert ask(cluster, lambda admin: admin.list_group_offsets("g", [T0, T1])) == {T0: None, T1: OffsetAndMetadata(7)}
    everything, some = cluster.requests_of(ApiKey.OFFSET_FETCH)
    assert everything.groups[0].topics is None and some.groups[0].topics[0].partition_indexes == [0, 1]
    assert ask(cluster, lambda admin: admin.list_group_offsets("g", [])) == {}, "none is not all"


def test_offsets_are_committed_for_the_group() -> None:
    cluster = FakeCluster({"t": 2})
    coordinated_by(cluster, 1, 2)
    moved = committed((T0, 0), (T1, NOT_COORDINATOR))
    cluster.script[ApiKey.OFFSET_COMMIT].extend([moved, committed((T0, 0), (T1, 0))])
    ask(cluster, lambda admin: admin.alter_group_offsets("g", {T0: 5, T1: OffsetAndMetadata(6, "why", 3)}))
    *_, request = cluster.requests_of(ApiKey.OFFSET_COMMIT)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    first, second = request.topics[0].partitions
    assert (first.committed_offset, second.committed_offset, second.committed_metadata) == (5, 6, "why")


def test_refused_offsets_are_listed_at_once() -> None:
    cluster = FakeCluster({"t": 2})
    coordinated_by(cluster, 1)
    answer = committed((T0, ErrorCode.UNKNOWN_MEMBER_ID), (T1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    cluster.script[ApiKey.OFFSET_COMMIT].append(answer)
    with pytest.raises(AdminError, match="has members") as caught:
        ask(cluster, lambda admin: admin.alter_group_offsets("g", {T0: 1, T1: 1}))
    assert list(caught.value.failures) == ["t-0", "t-1"] and len(cluster.requests_of(ApiKey.OFFSET_COMMIT)) == 1


def test_offsets_are_deleted() -> None:
    cluster = FakeCluster({"t": 2})
    coordinated_by(cluster, 1, 1, 1)
    answers = [
        offsets_deleted((T0, 0)),
        offsets_deleted((T0, 0), (T1, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)),
        offsets_deleted(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    cluster.script[ApiKey.OFFSET_DELETE].extend(answers)
    ask(cluster, lambda admin: admin.delete_group_offsets("g", [T0]))
    with pytest.raises(AdminError, match="subscribed") as caught:
        ask(cluster, lambda admin: admin.delete_group_offsets("g", [T0, T1]))
    assert list(caught.value.failures) == ["t-1"]
    with pytest.raises(ClientError) as missing:
        ask(cluster, lambda admin: admin.delete_group_offsets("g", [T0]))
    assert missing.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_deleted_and_failures_listed() -> None:
    cluster = FakeCluster({"t": 1})
    coordinated_by(cluster, 1, 2)

    def answer(_: int, request: Any) -> Any:
        (name,) = request.groups_names
        return deleted(name, ErrorCode.NON_EMPTY_GROUP if name == "busy" else 0)

    cluster.script[ApiKey.DELETE_GROUPS].extend([answer, answer])
    with pytest.raises(AdminError, match="the group has members") as caught:
        ask(cluster, lambda admin: admin.delete_groups(["busy", "idle"]))
    assert list(caught.value.failures) == ["busy"] and len(cluster.requests_of(ApiKey.DELETE_GROUPS)) == 2


def test_a_group_whose_coordinator_may_not_be_known_is_refused_in_words() -> None:
    cluster = FakeCluster({"t": 1})
    coordinated_by(cluster, 1, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(ClientError, match="finding the coordinator of group g: not authorized for the group"):
        ask(cluster, lambda admin: admin.list_group_offsets("g"))
