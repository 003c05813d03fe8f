"""The producer against a scripted cluster: delivery, retries, sequences, order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.client.errors import (
    ClientError,
)
from kafkalite.client.producer.deliveries import Delivery
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import BatchHeader, iter_batches
from kafkalite.testing.simulation import virtual_time
from tests.unit.client.fake_broker import HANG, FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import T0, T1, failing, producer, run


def test_records_arrive_with_offsets_in_order() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster) as target:
            deliveries = [await target.send("t", b"%d" % n, timestamp_ms=n) for n in range(5)]
            found = [await each for each in deliveries]
            assert [(each.offset, each.timestamp) for each in found] == [(n, n) for n in range(5)]
            assert found[0].to_dict() == {
                "topic": "t",
                "partition": 0,
                "offset": 0,
                "timestamp": 0,
                "timestamp_type": 0,
            }

    run(scenario())
    assert values_in(cluster, T0) == [b"0", b"1", b"2", b"3", b"4"]
    header = BatchHeader.read(cluster.logs[T0][0])
    assert header.producer_id == 1001 and header.base_sequence == 0
    assert cluster.requests_of(ApiKey.PRODUCE)[0].acks == -1


def test_without_acks_nothing_is_waited_for() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, acks=0) as target:
            assert (await target.send_and_wait("t", b"x")).offset == -1

    run(scenario())
    assert values_in(cluster, T0) == [b"x"]
    assert BatchHeader.read(cluster.logs[T0][0]).producer_id == -1
    assert not cluster.requests_of(ApiKey.INIT_PRODUCER_ID)


def test_the_leader_is_connected_to_while_the_producer_id_is_on_its_way() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        cluster.script[ApiKey.INIT_PRODUCER_ID].append(answer)
        async with producer(cluster) as target:
            delivery = await target.send("t", b"x", partition=1)
            await virtual_time.settle()
            assert [each.broker_id for each in cluster.connections] == [1, 2]
            assert not cluster.requests_of(ApiKey.PRODUCE)
            answer.set_result(messages.init_producer_id_response.InitProducerIdResponse(producer_id=7))
            assert (await delivery).offset == 0

    run(scenario())
    assert BatchHeader.read(cluster.logs[T1][0]).producer_id == 7


@pytest.mark.parametrize("acks", [1, "all"])
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CORRUPT_MESSAGE]
)
def test_what_may_pass_is_tried_again(acks: int | str, code: ErrorCode) -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend(failing(code, 3))

    async def scenario() -> None:
        async with producer(cluster, acks=acks) as target:
            assert (await target.send_and_wait("t", b"x")).offset == 0

    run(scenario())
    assert len(cluster.requests_of(ApiKey.PRODUCE)) == 4 and values_in(cluster, T0) == [b"x"]


def test_what_cannot_pass_is_reported_at_once_with_the_brokers_words() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.MESSAGE_TOO_LARGE))
    heard: list[Any] = []

    async def scenario() -> None:
        async with producer(cluster) as target:
            delivery = await target.send("t", b"x", on_delivery=lambda found, problem: heard.append((found, problem)))
            with pytest.raises(ClientError, match=r"max\.message\.bytes") as raised:
                await delivery
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE and not raised.value.retriable
            assert delivery.exception() is raised.value
            assert (await target.send_and_wait("t", b"y")).offset == 0, "the producer goes on"

    run(scenario())
    assert heard[0][0] is None and heard[0][1].code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_follows_its_leader() -> None:
    cluster = FakeCluster({"t": 1})

    def move(_: int, __: Any) -> None:
        cluster.move_leader(T0, 2)

    cluster.script[ApiKey.PRODUCE].append(move)  # the answer is then that broker 1 leads no more

    async def scenario() -> None:
        async with producer(cluster, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000) as target:
            began_s = asyncio.get_running_loop().time()
            assert (await target.send_and_wait("t", b"x")).offset == 0
            assert asyncio.get_running_loop().time() < began_s + 1, "a backoff is for the same leader (KIP-951)"

    run(scenario())
    assert [broker for broker, request in cluster.requests if request.API.key == ApiKey.PRODUCE] == [1, 2]


@pytest.mark.parametrize("late", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_what_a_former_leader_does_not_answer_goes_to_the_new_one_before_all_else(late: ErrorCode) -> None:
    """Else more than five batches overtake it, and its sequence number is refused: nobody knows then whether it was written."""
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        answers: list[tuple[asyncio.Future[Any], Any]] = []

        def append_and_wait(_: int, request: Any) -> Any:
            cluster.append(T0, request.topic_data[0].partition_data[0].records)
            answer = asyncio.get_running_loop().create_future()
            answers.append((answer, failing(late)[0](0, request)))
            return answer

        cluster.script[ApiKey.PRODUCE].extend([append_and_wait, *failing(ErrorCode.NOT_LEADER_OR_FOLLOWER)])
        async with producer(cluster, request_timeout_ms=10_000) as target:
            first = await target.send("t", b"0", partition=0)
            await virtual_time.settle()
            cluster.move_leader(T0, 2)
            await target.send_and_wait("t", b"x", partition=1)  # by whose refusal it learns of the leader
            async with asyncio.timeout(5):
                for number in range(1, 10):
                    if number == 5:
                        assert first.done()
                        ((answer, reply),) = answers
                        answer.set_result(reply)
                    await target.send_and_wait("t", b"%d" % number, partition=0)

    run(scenario())
    assert values_in(cluster, T0) == [b"%d" % number for number in range(10)]
    assert [broker for broker, request in cluster.requests if request.API.key == ApiKey.PRODUCE].count(1) == 1


def test_a_lost_answer_does_not_make_a_duplicate() -> None:
    cluster = FakeCluster({"t": 1})

    def append_and_die(_: int, request: Any) -> Any:
        cluster.append(T0, request.topic_data[0].partition_data[0].records)
        return ConnectionError("the broker died")

    cluster.script[ApiKey.PRODUCE].append(append_and_die)

    async def scenario() -> None:
        async with producer(cluster) as target:
            assert (await target.send_and_wait("t", b"x")).offset == 0

    run(scenario())
    assert values_in(cluster, T0) == [b"x"]


def test_order_is_kept_when_the_first_of_several_requests_fails() -> None:
    cluster = FakeCluster({"t": 1})

    def refuse_gaps(_: int, request: Any) -> Any:
        """As a broker does that has not got what came before."""
        header = BatchHeader.read(request.topic_data[0].partition_data[0].records)
        expected = BatchHeader.read(cluster.logs[T0][-1]).last_sequence + 1 if cluster.logs[T0] else 0
        return (
            None if header.base_sequence == expected else failing(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)[0](0, request)
        )

    cluster.script[ApiKey.PRODUCE].extend([*failing(ErrorCode.NOT_ENOUGH_REPLICAS), *[refuse_gaps] * 50])

    async def scenario() -> None:
        async with producer(cluster, batch_size=200) as target:
            deliveries = [await target.send("t", b"%03d" % n) for n in range(100)]
            await target.flush()
            assert [each.result().offset for each in deliveries] == list(range(100))

    run(scenario())
    assert values_in(cluster, T0) == [b"%03d" % n for n in range(100)]
    assert {BatchHeader.read(batch).producer_id for batch in cluster.logs[T0]} == {1001}, "no sequence was given up"


def test_complete_batches_do_not_wait_for_the_answer_to_the_first() -> None:
    """A burst that filled several in one turn of the loop went out one by one."""
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, batch_size=100, request_timeout_ms=500) as target:
            await target.send_and_wait("t", b"first")
            cluster.script[ApiKey.PRODUCE].extend([HANG] * 5)
            for _ in range(8):
                assert target.try_append(Delivery(), "t", bytes(60), None, 0, None, (), None)
            await virtual_time.settle()
            assert len(cluster.requests_of(ApiKey.PRODUCE)) == 1 + 5
            await target.flush()

    run(scenario())
    assert len(values_in(cluster, T0)) == 9


def test_a_broker_that_forgot_the_producer_is_met_with_a_fresh_id() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send_and_wait("t", b"a")
            cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.UNKNOWN_PRODUCER_ID))
            await target.send_and_wait("t", b"b")
            cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
            await target.send_and_wait("t", b"c")

    run(scenario())
    assert values_in(cluster, T0) == [b"a", b"b", b"c"]
    heads = [BatchHeader.read(batch) for batch in cluster.logs[T0]]
    assert [(head.producer_id, head.base_sequence) for head in heads] == [(1001, 0), (1002, 0), (1003, 0)]


def test_what_may_have_been_written_is_not_sent_under_a_fresh_id() -> None:
    """A restarted broker knew the last batch only and refused the one before, which was then written twice."""
    cluster = FakeCluster({"t": 1})

    def append_and_be_silent(_: int, request: Any) -> Any:
        cluster.append(T0, request.topic_data[0].partition_data[0].records)
        return HANG

    def knows_the_last_only(_: int, request: Any) -> Any:
        header = BatchHeader.read(request.topic_data[0].partition_data[0].records)
        is_forgotten = header.base_sequence < BatchHeader.read(cluster.logs[T0][-1]).base_sequence
        return failing(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)[0](0, request) if is_forgotten else None

    async def scenario() -> None:
        async with producer(cluster, request_timeout_ms=50) as target:
            await target.send_and_wait("t", b"0")
            cluster.script[ApiKey.PRODUCE].extend([append_and_be_silent] * 2 + [knows_the_last_only] * 50)
            deliveries = []
            for value in (b"1", b"2"):
                deliveries.append(await target.send("t", value))
                await asyncio.sleep(0.01)  # each travels alone
            await target.flush()
            with pytest.raises(ClientError, match="whether an earlier attempt wrote it is not known"):
                deliveries[0].result()
            assert deliveries[1].result().offset == 2
            await target.send_and_wait("t", b"3")

    run(scenario())
    assert values_in(cluster, T0) == [b"0", b"1", b"2", b"3"]
    assert {BatchHeader.read(batch).producer_id for batch in cluster.logs[T0]} == {1001}


def test_a_duplicate_that_the_broker_knows_counts_as_delivered() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))

    async def scenario() -> None:
        async with producer(cluster) as target:
            assert (await target.send_and_wait("t", b"x")).offset == -1

    run(scenario())


@pytest.mark.parametrize("first", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_first_batch_that_is_refused_comes_before_the_second(first: int) -> None:
    """A broker that knows nothing of a producer would take the second batch, while the first waits for its retry (KAFKA-14359)."""

    async def scenario() -> None:
        cluster = FakeCluster({"t": 1})
        cluster.script[ApiKey.PRODUCE].extend(failing(first))
        async with producer(cluster, batch_size=1) as target:
            sent = [await target.send("t", b"%d" % number, partition=0) for number in range(5)]
            await asyncio.gather(*sent)
        numbered = [
            header.base_sequence
            for request in cluster.requests_of(ApiKey.PRODUCE)
            for header in iter_batches(request.topic_data[0].partition_data[0].records)
        ]
        assert numbered[:2] == [0, 0], "another batch was sent before the first was acknowledged"
        assert sorted(set(numbered)) == list(range(5))

    run(scenario())
