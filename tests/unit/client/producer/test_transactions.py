"""The transactional producer against a scripted cluster: what becomes visible, what is tried again, what is an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.client import Admin
from kafkalite.client.errors import (
    AbortableTransactionError,
    ClientError,
    ClientTimeoutError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.producer.producer import Producer
from kafkalite.client.producer.transaction_state import PreparedTransaction
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG
from tests.unit.client.producer.fake_transactions import TransactionalCluster
from tests.unit.client.producer.scripted_producer import failing, producer, run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", 3, "member")


@pytest.fixture
def cluster() -> TransactionalCluster:
    return TransactionalCluster({"t": 2})


def transactional(cluster: TransactionalCluster, **options: Any) -> Producer:
    return producer(cluster, transactional_id="tx", **options)


def coded(response: type[Any], code: ErrorCode, **fields: Any) -> Any:
    return response(error_code=code, **fields)


def end_txn(code: ErrorCode) -> Any:
    return coded(messages.end_txn_response.EndTxnResponse, code)


def init(code: ErrorCode) -> Any:
    return coded(messages.init_producer_id_response.InitProducerIdResponse, code)


def added(code: ErrorCode, *partitions: int) -> Any:
    m = messages.add_partitions_to_txn_response
    results = [
        m.AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code) for each in partitions
    ]
    topic = m.AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def offsets_taken(code: ErrorCode) -> Any:
    m = messages.txn_offset_commit_response
    partition = m.TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
    return m.TxnOffsetCommitResponse(topics=[m.TxnOffsetCommitResponseTopic(name="t", partitions=[partition])])


def test_a_committed_transaction_is_seen_with_its_offsets(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster, max_in_flight_requests_per_connection=1) as target:
            await target.init_transactions()
            for round_ in (b"a", b"b"):
                async with target.transaction():
                    for number in range(2):
                        await target.send("t", round_, partition=number)
                    await target.send_offsets_to_transaction({T0: 5}, GROUP)
                    assert not cluster.visible[T0] or round_ == b"b"

    run(scenario())
    assert cluster.visible == {T0: [b"a", b"b"], T1: [b"a", b"b"]}
    assert cluster.committed_offsets == {("g", T0): 5} and cluster.outcomes == [True, True]
    assert len(cluster.requests_of(ApiKey.ADD_PARTITIONS_TO_TXN)) == 2, (
        "both partitions of a transaction in one request"
    )
    headers = [BatchHeader.read(batch) for batch in cluster.logs[T0]]
    assert [(h.is_transactional, h.producer_epoch, h.base_sequence) for h in headers] == [(True, 0, 0), (True, 0, 1)]
    commit = cluster.requests_of(ApiKey.TXN_OFFSET_COMMIT)[0]
    assert (commit.generation_id, commit.member_id, commit.transactional_id) == (3, "member", "tx")
    assert cluster.requests_of(ApiKey.PRODUCE)[0].transactional_id == "tx"


def test_an_exception_within_aborts_and_the_next_transaction_is_its_own(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster, linger_ms=50) as target:
            await target.init_transactions()
            with pytest.raises(ZeroDivisionError):
                async with target.transaction():
                    first = await target.send("t", b"x", partition=0)
                    await first
                    late = await target.send("t", b"y", partition=0)
                    raise ZeroDivisionError
            assert isinstance(late.exception(), TransactionAbortedError) and first.exception() is None
            async with target.transaction():
                await target.send("t", b"z", partition=0)

    run(scenario())
    assert cluster.outcomes == [False, True] and cluster.visible == {T0: [b"z"]}


def test_an_empty_transaction_asks_nobody(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            async with target.transaction():
                pass
            await target.begin_transaction()
            await target.abort_transaction()

    run(scenario())
    assert not cluster.requests_of(ApiKey.END_TXN)


def test_calls_at_the_wrong_time(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            with pytest.raises(TransactionStateError, match="init_transactions comes first"):
                await target.send("t", b"x")
            with pytest.raises(TransactionStateError):
                await target.begin_transaction()
            await target.init_transactions()
            with pytest.raises(TransactionStateError, match="begin_transaction comes first"):
                await target.send("t", b"x")
            for call in (target.commit_transaction, target.abort_transaction, target.init_transactions):
                with pytest.raises(TransactionStateError):
                    await call()
            async with target.transaction():
                with pytest.raises(TransactionStateError):
                    await target.begin_transaction()
        async with producer(cluster) as plain:
            with pytest.raises(ValueError, match="transactional_id"):
                await plain.begin_transaction()

    run(scenario())
    assert not cluster.logs[T0]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE],
)
def test_what_passes_is_waited_for_everywhere(cluster: TransactionalCluster, code: ErrorCode) -> None:
    cluster.script[ApiKey.INIT_PRODUCER_ID] += [init(code)] * 3
    cluster.script[ApiKey.ADD_PARTITIONS_TO_TXN] += [added(code, 0)] * 3
    cluster.script[ApiKey.ADD_OFFSETS_TO_TXN] += [
        coded(messages.add_offsets_to_txn_response.AddOffsetsToTxnResponse, code)
    ] * 3
    cluster.script[ApiKey.TXN_OFFSET_COMMIT] += [offsets_taken(code)] * 3
    cluster.script[ApiKey.END_TXN] += [end_txn(code)] * 3

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            async with target.transaction():
                await target.send("t", b"x", partition=0)
                await target.send_offsets_to_transaction({T0: 5}, "g")

    run(scenario())
    assert cluster.visible == {T0: [b"x"]} and cluster.committed_offsets == {("g", T0): 5}


def test_the_coordinator_is_found_again_when_it_moves_and_when_it_dies(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            cluster.coordinator = 2  # broker 1 says NOT_COORDINATOR
            async with target.transaction():
                await target.send_and_wait("t", b"x", partition=0)
                cluster.coordinator = 1
                cluster.script[ApiKey.END_TXN].append(ConnectionError("broken"))

    run(scenario())
    assert cluster.visible == {T0: [b"x"]} and cluster.outcomes == [True]


@pytest.mark.parametrize("by_epoch", [False, True], ids=["fenced at the coordinator", "fenced at a leader"])
def test_a_fenced_producer_can_do_nothing_more(cluster: TransactionalCluster, by_epoch: bool) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            await target.send_and_wait("t", b"x", partition=0)
            cluster.fence()
            if by_epoch:
                with pytest.raises(ClientError) as refused:
                    await target.send_and_wait("t", b"y", partition=0)
                assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
                with pytest.raises(AbortableTransactionError):
                    await target.commit_transaction()
                with pytest.raises(ProducerFencedError):
                    await target.abort_transaction()
            else:
                with pytest.raises(ProducerFencedError):
                    await target.commit_transaction()
            for call in (target.begin_transaction, target.commit_transaction, target.abort_transaction):
                with pytest.raises(ProducerFencedError):
                    await call()
            with pytest.raises(ProducerFencedError):
                await target.send("t", b"z")

    run(scenario())
    assert not cluster.visible


def test_a_record_that_fails_fails_its_transaction_and_costs_an_epoch(cluster: TransactionalCluster) -> None:
    """Its sequence number is used up: brokers would refuse the next one (KIP-360)."""
    cluster.script[ApiKey.PRODUCE] += failing(ErrorCode.MESSAGE_TOO_LARGE)

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            with pytest.raises(AbortableTransactionError) as failed:
                async with target.transaction():
                    await target.send("t", b"x", partition=0)
            assert failed.value.code is ErrorCode.MESSAGE_TOO_LARGE and not failed.value.retriable
            async with target.transaction():
                await target.send("t", b"y", partition=0)

    run(scenario())
    assert cluster.outcomes == [False, True] and cluster.visible == {T0: [b"y"]}
    header = BatchHeader.read(cluster.logs[T0][0])
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_a_record_that_is_refused_before_it_is_sent_fails_its_transaction_too(cluster: TransactionalCluster) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            with pytest.raises(ClientError):
                await target.send("t", bytes(2_000_000))
            with pytest.raises(AbortableTransactionError):
                await target.send("t", b"x")
            with pytest.raises(AbortableTransactionError):
                await target.commit_transaction()
            await target.abort_transaction()
            async with target.transaction():
                await target.send("t", b"y", partition=0)

    run(scenario())
    assert cluster.visible == {T0: [b"y"]}
    assert len(cluster.requests_of(ApiKey.INIT_PRODUCER_ID)) == 1, "no sequence number was lost"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.ILLEGAL_GENERATION, AbortableTransactionError),
        (ErrorCode.UNKNOWN_MEMBER_ID, AbortableTransactionError),
        (ErrorCode.FENCED_INSTANCE_ID, AbortableTransactionError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AbortableTransactionError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, FatalTransactionError),
    ],
)
def test_what_a_group_refuses(cluster: TransactionalCluster, code: ErrorCode, kind: type[ClientError]) -> None:
    cluster.script[ApiKey.TXN_OFFSET_COMMIT].append(offsets_taken(code))

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            with pytest.raises(kind):
                async with target.transaction():
                    await target.send_offsets_to_transaction({T0: 5}, GROUP)

    run(scenario())
    assert cluster.outcomes == ([] if issubclass(kind, FatalTransactionError) else [False])
    assert not cluster.committed_offsets


def test_partitions_that_may_not_be_written_fail_the_transaction(cluster: TransactionalCluster) -> None:
    def refuse(_: int, request: Any) -> Any:
        answer = added(ErrorCode.OPERATION_NOT_ATTEMPTED, 0, 1)
        answer.results_by_topic_v3_and_below[0].results_by_partition[1].partition_error_code = 29
        return answer

    cluster.script[ApiKey.ADD_PARTITIONS_TO_TXN].append(refuse)

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            with pytest.raises(AbortableTransactionError) as failed:
                async with target.transaction():
                    for number in range(2):
                        await target.send("t", b"x", partition=number)
            assert failed.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario())
    assert not cluster.requests_of(ApiKey.END_TXN) and not cluster.logs[T0]


def test_a_producer_id_that_the_coordinator_forgot_costs_the_transaction(cluster: TransactionalCluster) -> None:
    cluster.script[ApiKey.END_TXN] += [end_txn(ErrorCode.INVALID_PRODUCER_ID_MAPPING)] * 2

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            with pytest.raises(AbortableTransactionError):
                async with target.transaction():
                    await target.send("t", b"x", partition=0)
            async with target.transaction():
                await target.send("t", b"y", partition=0)

    run(scenario())
    assert cluster.visible == {T0: [b"y"]} and cluster.producer_epoch == 1


def test_a_zombie_does_not_ask_an_old_coordinator_for_an_epoch(cluster: TransactionalCluster) -> None:
    """InitProducerId 2 takes no epoch: it would fence the producer that came after this one."""
    cluster.max_versions[ApiKey.INIT_PRODUCER_ID] = 2
    cluster.script[ApiKey.PRODUCE] += failing(ErrorCode.MESSAGE_TOO_LARGE)

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            await target.send("t", b"x", partition=0)
            with pytest.raises(AbortableTransactionError):
                await target.commit_transaction()
            with pytest.raises(FatalTransactionError) as failed:
                await target.abort_transaction()
            assert failed.value.code is ErrorCode.UNSUPPORTED_VERSION

    run(scenario())
    assert len(cluster.requests_of(ApiKey.INIT_PRODUCER_ID)) == 1


def test_a_commit_that_ran_out_of_time_goes_on(cluster: TransactionalCluster) -> None:
    cluster.script[ApiKey.END_TXN] += [end_txn(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 500

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            await target.send("t", b"x", partition=0)
            with pytest.raises(ClientTimeoutError, match="called again"):
                await target.commit_transaction(timeout=0.5)
            with pytest.raises(TransactionStateError):
                await target.abort_transaction()
            cluster.script[ApiKey.END_TXN].clear()
            await target.commit_transaction()
            await target.begin_transaction()
            await target.abort_transaction()

    run(scenario())
    assert cluster.visible == {T0: [b"x"]} and cluster.outcomes == [True]


def test_the_end_waits_for_partitions_that_are_being_added(cluster: TransactionalCluster) -> None:
    """An AddPartitionsToTxn behind the abort would begin a transaction that nobody ends."""
    late: list[asyncio.Future[Any]] = []

    def slow(_: int, request: Any) -> Any:
        late.append(asyncio.get_running_loop().create_future())
        asyncio.get_running_loop().call_later(1, lambda: late[0].set_result(cluster._add_partitions(1, request)))
        return late[0]

    cluster.script[ApiKey.ADD_PARTITIONS_TO_TXN].append(slow)

    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            await target.send("t", b"x", partition=0)
            await asyncio.sleep(0.01)
            await target.abort_transaction()
            assert late[0].done() and cluster.outcomes == [False] and not cluster.partitions

    run(scenario())


def test_a_batch_with_a_number_is_answered_before_the_abort(cluster: TransactionalCluster) -> None:
    """Brokers would refuse the numbers behind it; and it may be in the log already."""
    cluster.script[ApiKey.PRODUCE] += [HANG, *failing(ErrorCode.NOT_ENOUGH_REPLICAS, 2)]

    async def scenario() -> None:
        async with transactional(cluster, request_timeout_ms=100) as target:
            await target.init_transactions()
            await target.begin_transaction()
            await target.send("t", b"x", partition=0)
            await asyncio.sleep(0.05)
            await target.abort_transaction()
            async with target.transaction():
                await target.send("t", b"y", partition=0)

    run(scenario())
    headers = [BatchHeader.read(batch) for batch in cluster.logs[T0]]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (0, 1)]
    assert cluster.visible == {T0: [b"y"]}


@pytest.mark.parametrize("commit", [False, True])
def test_a_prepared_transaction_is_ended_by_somebody_else(cluster: TransactionalCluster, commit: bool) -> None:
    async def scenario() -> None:
        async with transactional(cluster) as target:
            await target.init_transactions()
            await target.begin_transaction()
            assert await target.prepare_transaction() is None, "nothing to end"
            await target.commit_transaction()
            await target.begin_transaction()
            await target.send("t", b"x", partition=0)
            prepared = await target.prepare_transaction()
            assert prepared == PreparedTransaction("tx", 7, 0)
            with pytest.raises(TransactionStateError):
                await target.send("t", b"y")
        assert cluster.pending[T0] == [b"x"] and not cluster.outcomes
        async with Admin(bootstrap_servers="fake:9001", opener=cluster.open) as admin:
            offsets: dict[str, Any] = {"offsets": {T0: (5, "note")}, "group_id": "g"} if commit else {}
            await admin.end_transaction(prepared, commit=commit, **offsets)
            cluster.fence()
            with pytest.raises(ProducerFencedError):
                await admin.end_transaction(prepared, commit=commit)

    run(scenario())
    assert cluster.outcomes == [commit] and cluster.visible == ({T0: [b"x"]} if commit else {})
    assert cluster.committed_offsets == ({("g", T0): 5} if commit else {})


@pytest.mark.parametrize("with_error", [False, True])
def test_an_open_transaction_is_aborted_at_the_end(cluster: TransactionalCluster, with_error: bool) -> None:
    """Else readers of committed records would wait for its timeout."""

    async def scenario() -> None:
        try:
            async with transactional(cluster) as target:
                await target.init_transactions()
                await target.begin_transaction()
                await target.send_and_wait("t", b"x", partition=0)
                if with_error:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    run(scenario())
    assert cluster.outcomes == [False]


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"enable_idempotence": False}, {"transactional_id": ""}, {"transaction_timeout_ms": 0}]
)
def test_options_that_do_not_go_with_transactions(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="transaction"):
        Producer(**{"transactional_id": "tx", **options})
