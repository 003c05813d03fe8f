"""Wrong hosts, wrong ports, TLS where there is none: each its own error, that names the address, in the time that was given."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.consumer.sync import SyncConsumer
from kafkalite.client.errors import ClientClosedError, NoBrokersAvailableError
from kafkalite.client.producer.producer import Producer
from kafkalite.client.producer.sync import SyncProducer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer_as_web_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As Kafka does with a TLS greeting, which it takes for the size of a frame."""
    await reader.read(5)
    writer.close()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        pass


async def speak_tls_alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a TLS port does with what is no greeting."""
    await reader.read(100)
    writer.write(bytes([0x15, 3, 3, 0, 2, 2, 70]))
    writer.close()


def reason_of(serve: Serve, within_s: float = 5.0, **options: object) -> str:
    """Why a producer cannot connect to such a server."""

    async def scenario() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        producer = Producer(bootstrap_servers=address, **options)  # type: ignore[arg-type]
        try:
            with pytest.raises(NoBrokersAvailableError) as raised:
                await producer.connect(within_s)
            assert list(raised.value.reasons) == [address]
            return raised.value.reasons[address]
        finally:
            await producer.close()
            server.close()

    began = time.monotonic()
    reason = asyncio.run(scenario())
    assert time.monotonic() - began < within_s + 2
    return reason


def test_a_web_server_is_no_broker() -> None:
    reason = reason_of(answer_as_web_server)
    assert "does not speak Kafka's protocol" in reason and "is it a Kafka broker's PLAINTEXT port?" in reason


def test_a_port_that_closes_is_told_as_such() -> None:
    assert "closed the connection before it told its API versions" in reason_of(close_at_once)


def test_a_silent_port_costs_only_the_time_that_was_given() -> None:
    assert "no answer within 0.3 s" in reason_of(say_nothing, 0.3)


@pytest.mark.parametrize("serve", [answer_as_web_server, close_at_once])
def test_tls_to_a_plain_port(serve: Serve) -> None:
    context = ssl.create_default_context()
    reason = reason_of(serve, security_protocol="SSL", ssl_context=context)
    assert "no TLS with it" in reason and "is it a PLAINTEXT port?" in reason


def test_a_plain_client_at_a_tls_port() -> None:
    assert "is it a Kafka broker's PLAINTEXT port?" in reason_of(speak_tls_alert)


def test_wrong_hosts_are_named_each_with_its_own_reason() -> None:
    async def scenario() -> None:
        consumer = Consumer(bootstrap_servers=["no-such-host.invalid:9092", "127.0.0.1:1"])
        with pytest.raises(NoBrokersAvailableError) as raised:
            await consumer.connect(5)
        await consumer.close()
        reasons = raised.value.reasons
        assert "Connection refused" in reasons["127.0.0.1:1"] and "no-such-host" in reasons["no-such-host.invalid:9092"]
        assert reasons["127.0.0.1:1"] in str(raised.value) and raised.value.retriable

    asyncio.run(scenario())


def test_closed_clients_say_so() -> None:
    producer, consumer = SyncProducer(), SyncConsumer(group_id="g")
    producer.close()
    consumer.close()
    for call in (
        lambda: producer.send("t", b""),
        producer.connect,
        lambda: consumer.poll(0),
        lambda: consumer.subscribe("t"),
        consumer.commit,
    ):
        with pytest.raises(ClientClosedError, match="is closed"):
            call()


def test_another_security_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="security_protocol is HTTPS; it must be one of PLAINTEXT"):
        Producer(bootstrap_servers="127.0.0.1:1", security_protocol="HTTPS")
