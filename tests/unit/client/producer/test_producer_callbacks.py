"""Functions of the program that the producer calls: one that fails costs no other record its delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.client.errors import ClientError, ClientTimeoutError, SerializationError
from kafkalite.client.producer.deliveries import Delivery
from kafkalite.client.producer.producer import Producer
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import T0, failing, producer, run


def raising(problem: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> None:
        raise problem

    return fail


@pytest.mark.parametrize(
    "problem", [ValueError("mine"), ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, "mine"), asyncio.CancelledError()]
)
@pytest.mark.parametrize("acks", ["all", 0])
def test_an_on_delivery_that_raises_is_logged_and_all_else_goes_on(
    problem: BaseException, acks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, linger_ms=5, acks=acks, enable_idempotence=acks != 0) as target:
            heard: list[Any] = []
            first = await target.send("t", b"1", on_delivery=raising(problem))
            second = await target.send("t", b"2", on_delivery=lambda metadata, error: heard.append((metadata, error)))
            first.add_done_callback(raising(problem))
            await target.flush()
            assert first.done() and heard == [(second.result(), None)]
            first.add_done_callback(raising(problem))
            await target.send_and_wait("t", b"3")

    run(scenario())
    assert values_in(cluster, T0) == [b"1", b"2", b"3"]
    assert caplog.text.count("on_delivery failed") == 1 and caplog.text.count("a callback of a delivery failed") == 2


def test_an_on_delivery_that_raises_for_an_expired_record_does_not_end_the_sending() -> None:
    cluster = FakeCluster({"t": 1}, brokers=1)

    async def scenario() -> None:
        async with producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=800) as target:
            await target.send_and_wait("t", b"0")
            cluster.unreachable.add(1)
            for each in cluster.connections:
                each.close()
            expired = await target.send("t", b"1", on_delivery=raising(ValueError("mine")))
            with pytest.raises(ClientTimeoutError):
                await expired
            cluster.unreachable.clear()
            await target.send_and_wait("t", b"2")

    run(scenario())
    assert values_in(cluster, T0) == [b"0", b"2"]


def test_the_halves_of_a_batch_are_done_whatever_their_callbacks_raise() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.MESSAGE_TOO_LARGE))

    async def scenario() -> None:
        async with producer(cluster, linger_ms=5) as target:
            first = await target.send("t", b"1", on_delivery=raising(ValueError("mine")))
            second = await target.send("t", b"2")
            await target.flush()
            assert (first.result().offset, (await second).offset) == (0, 1)

    run(scenario())


def test_an_unexpected_error_while_batches_expire_fails_the_records_instead_of_ending_the_sender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sender that ended in silence would leave all later records waiting."""
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, linger_ms=10_000) as target:
            await target.connect()
            monkeypatch.setattr(target._accumulator, "expired_batches", raising(RuntimeError("a bug")))
            with pytest.raises(ClientError, match=r"the producer broke.*a bug"):
                await target.send_and_wait("t", b"1")
            with pytest.raises(ClientError, match=r"the producer broke.*a bug"):
                await target.send("t", b"2")

    run(scenario())


async def sent_after(target: Producer, refusal: type[Exception], match: str) -> Delivery:
    with pytest.raises(refusal, match=match):
        await target.send("t", b"bad", key=b"bad")
    return await target.send("t", b"good", key=b"good")


@pytest.mark.parametrize("chosen", [7, -1, None, "0"])
def test_a_partitioner_that_chooses_no_partition_of_the_topic_is_an_error_of_its_record(chosen: Any) -> None:
    """The record would be given to it again and again, and the event loop stand still."""
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        choose = lambda key, everywhere, available: chosen if key == b"bad" else 0  # noqa: E731
        async with producer(cluster, partitioner=choose, max_block_ms=200) as target:
            delivery = await sent_after(target, ClientError, f"the partitioner chose {chosen!r}, none .*topic t")
            assert (await delivery).offset == 0

    run(scenario())


def test_a_partitioner_or_serializer_that_raises_costs_only_its_record() -> None:
    cluster = FakeCluster({"t": 1})

    def fails_for_bad(key: bytes | None, *_: Any) -> Any:
        if key == b"bad":
            raise KeyError("mine")
        return 0

    def serialize(value: bytes) -> bytes:
        if value == b"bad":
            raise KeyError("mine")
        return value

    async def scenario() -> None:
        async with producer(cluster, partitioner=fails_for_bad) as target:
            await (await sent_after(target, KeyError, "mine"))
        async with producer(cluster, value_serializer=serialize) as target:
            await (await sent_after(target, SerializationError, "mine"))

    run(scenario())
    assert values_in(cluster, T0) == [b"good"] * 2
