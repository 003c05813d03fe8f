"""Transactions listed, described, found hanging and ended: what is asked of whom, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client import (
    Admin,
    AdminError,
    ClientError,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.admin.test_group_admin import coordinated_by
from tests.unit.client.admin.test_partition_admin import T0, T1, ask
from tests.unit.client.fake_broker import FakeCluster

NOW_MS = 10_000_000
STATE = ProducerState(5, 2, 3, 9, NOW_MS - 1_000_000, 40)


class Clock:
    def now_ms(self) -> int:
        return NOW_MS


def listed(*ids: tuple[str, int], error_code: int = 0) -> Any:
    m = messages.list_transactions_response
    found = [m.TransactionState(transactional_id=name, producer_id=each) for name, each in ids]
    for each in found:
        each.transaction_state = "Ongoing"
    return m.ListTransactionsResponse(transaction_states=found, error_code=error_code)


def described(name: str, *partitions: TopicPartition, error_code: int = 0) -> Any:
    m = messages.describe_transactions_response
    one = m.TransactionState(
        transactional_id=name,
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=77,
        producer_id=5,
        producer_epoch=2,
        topics=[m.TopicData(topic=each.topic, partitions=[each.partition]) for each in partitions],
        error_code=error_code,
    )
    return m.DescribeTransactionsResponse(transaction_states=[one])


def producers(partition: TopicPartition, *states: ProducerState, error_code: int = 0) -> Any:
    m = messages.describe_producers_response
    known = [
        m.ProducerState(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp,
            current_txn_start_offset=-1 if each.transaction_start_offset is None else each.transaction_start_offset,
        )
        for each in states
    ]
    found = m.PartitionResponse(partition_index=partition.partition, active_producers=known, error_code=error_code)
    return m.DescribeProducersResponse(topics=[m.TopicResponse(name=partition.topic, partitions=[found])])


def marked(partition: TopicPartition, code: int = 0) -> Any:
    m = messages.write_txn_markers_response
    one = m.WritableTxnMarkerPartitionResult(partition_index=partition.partition, error_code=code)
    topic = m.WritableTxnMarkerTopicResult(name=partition.topic, partitions=[one])
    return m.WriteTxnMarkersResponse(markers=[m.WritableTxnMarkerResult(producer_id=STATE.producer_id, topics=[topic])])


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({"t": 2})


def test_the_transactions_of_all_coordinators_are_listed(cluster: FakeCluster) -> None:
    loading = listed(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.script[ApiKey.LIST_TRANSACTIONS] += [loading, listed(("b", 2)), listed(("a", 1))]
    found = ask(cluster, lambda admin: admin.list_transactions(["Ongoing"], [1, 2], duration_ms=5))
    assert [(each.transactional_id, each.producer_id, each.state) for each in found] == [
        ("a", 1, "Ongoing"),
        ("b", 2, "Ongoing"),
    ]
    assert {each.coordinator for each in found} == {1, 2} and isinstance(found[0], TransactionListing)
    request = cluster.requests_of(ApiKey.LIST_TRANSACTIONS)[0]
    assert (request.state_filters, request.producer_id_filters, request.duration_filter) == (["Ongoing"], [1, 2], 5)


def test_a_transaction_is_described_by_its_coordinator(cluster: FakeCluster) -> None:
    coordinated_by(cluster, 1, 2)
    cluster.script[ApiKey.DESCRIBE_TRANSACTIONS] += [
        described("tx", error_code=ErrorCode.NOT_COORDINATOR),
        described("tx", T0, T1),
    ]
    found = ask(cluster, lambda admin: admin.describe_transactions(["tx"]))
    assert found == {"tx": TransactionDescription("tx", 2, "Ongoing", 5, 2, 60_000, 77, (T0, T1))}
    assert found["tx"].to_dict()["partitions"] == ["t-0", "t-1"]
    assert {each.key_type for each in cluster.requests_of(ApiKey.FIND_COORDINATOR)} == {1}


def test_what_is_not_there_is_an_error_of_its_item(cluster: FakeCluster) -> None:
    coordinated_by(cluster, 1)
    gone = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    cluster.script[ApiKey.DESCRIBE_TRANSACTIONS].append(described("no", error_code=gone))
    with pytest.raises(AdminError) as failed:
        ask(cluster, lambda admin: admin.describe_transactions(["no"]))
    assert failed.value.failures["no"].code is gone


def test_producers_are_described_by_leaders_or_by_one_replica(cluster: FakeCluster) -> None:
    idle = ProducerState(7, 0, -1, 3, 4, None)
    cluster.script[ApiKey.DESCRIBE_PRODUCERS] += [
        producers(T1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        producers(T1, idle, STATE),
        producers(T0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    assert ask(cluster, lambda admin: admin.describe_producers([T1])) == {T1: (STATE, idle)}
    with pytest.raises(AdminError):
        ask(cluster, lambda admin: admin.describe_producers([T0], broker=2))
    asked = [broker for broker, each in cluster.requests if each.API.key == ApiKey.DESCRIBE_PRODUCERS]
    assert asked == [2, 2, 2]


@pytest.mark.parametrize(
    ("coordinator", "hangs"),
    [
        ([], True),
        ([described("tx", error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)], True),
        ([described("tx", T0)], True),
        ([described("tx", T0, T1)], False),
    ],
    ids=["nobody has the producer", "the id is gone", "another transaction", "the coordinator will end it"],
)
def test_what_no_coordinator_will_end_hangs(cluster: FakeCluster, coordinator: list[Any], hangs: bool) -> None:
    young = ProducerState(6, 0, 0, 0, NOW_MS - 10, 50)
    cluster.script[ApiKey.DESCRIBE_PRODUCERS].append(producers(T1, STATE, young))
    cluster.script[ApiKey.LIST_TRANSACTIONS] += [listed(*[("tx", 5)] * len(coordinator)), listed()]
    cluster.script[ApiKey.DESCRIBE_TRANSACTIONS] += coordinator
    coordinated_by(cluster, 1)

    async def find(admin: Admin) -> list[HangingTransaction]:
        return await admin.find_hanging_transactions([T1], clock=Clock())

    assert ask(cluster, find) == ([HangingTransaction(T1, STATE)] if hangs else [])


def test_a_hanging_transaction_is_ended_by_its_leader(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.WRITE_TXN_MARKERS] += [marked(T1, ErrorCode.NOT_LEADER_OR_FOLLOWER), marked(T1)]
    ask(cluster, lambda admin: admin.abort_transaction(T1, STATE))
    (marker,) = cluster.requests_of(ApiKey.WRITE_TXN_MARKERS)[1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 2, 3)
    assert not marker.transaction_result
    cluster.script[ApiKey.WRITE_TXN_MARKERS].append(marked(T1, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    with pytest.raises(ClientError) as refused:
        ask(cluster, lambda admin: admin.abort_transaction(T1, STATE))
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_producers_are_fenced_by_one_that_comes_after_them(cluster: FakeCluster) -> None:
    coordinated_by(cluster, 1, 1)
    m = messages.init_producer_id_response
    cluster.script[ApiKey.INIT_PRODUCER_ID] += [
        m.InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
        m.InitProducerIdResponse(producer_id=5, producer_epoch=3),
    ]
    assert ask(cluster, lambda admin: admin.fence_producers(["tx"])) == {"tx": (5, 3)}
    request = cluster.requests_of(ApiKey.INIT_PRODUCER_ID)[0]
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("tx", -1, -1)
