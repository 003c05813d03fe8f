"""What TLS and SASL cost a broker, beside Apache Kafka with the same settings: `python -m tests.bench.security [--rounds N] [--only ours]`.

Counted is the processor time of the broker alone, so a busy machine matters little. Each round starts one broker of each kind with
listeners of all protocols, certificates of elliptic curves, TLS 1.3 and SCRAM-SHA-512; everything is done three times before it counts,
for Java's compiler.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import confluent_kafka
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.net.connection import Connection
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import assemble_batch
from kafkalite.security.sasl_client import SaslCredentials
from tests.peers import apache_kafka
from tests.processor_time import worked_s
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster

PROTOCOLS: Final = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
VALUE: Final = bytes(1000)
RECORDS: Final = 60_000
ROUND_TRIPS: Final = 2000
HANDSHAKES: Final = 200
LOGINS: Final = 200
PASSES: Final = 4
_TIMEOUT_S: Final = 120
_MB: Final = len(VALUE) * RECORDS / 1e6


class Bench:
    """One broker."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self.cluster, self.number = cluster, 0
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        user = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), USER_PASSWORD.encode()
        )
        self.admin.alter_user_scram_credentials([user])[USER].result(_TIMEOUT_S)

    def servers(self, listener: str) -> str:
        return self.cluster.servers(listener).split(",")[0]

    def settings(self, listener: str) -> dict[str, Any]:
        own: dict[str, Any] = {"bootstrap.servers": self.servers(listener), "security.protocol": PROTOCOLS[listener]}
        if "SSL" in PROTOCOLS[listener]:
            own["ssl.ca.location"] = self.cluster.trust
        if "SASL" in PROTOCOLS[listener]:
            own |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": USER_PASSWORD}
        return own

    def spent_s(self, act: Callable[[], None]) -> float:
        before_s = worked_s(self.cluster.broker(1).pid)
        act()
        return worked_s(self.cluster.broker(1).pid) - before_s

    def topic(self) -> str:
        self.number += 1
        name = f"bench-{self.number}"
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(_TIMEOUT_S)
        return name

    # What is measured: processor time of the broker

    def throughput(self, listener: str) -> tuple[float, float]:
        """(ms for a MB that is produced, ms for one that is consumed)."""
        topic, settings = self.topic(), self.settings(listener)

        def produce() -> None:
            own = {"linger.ms": 5, "batch.size": 1_000_000, "queue.buffering.max.messages": RECORDS, "acks": 1}
            producer = confluent_kafka.Producer(settings | own)
            for _ in range(RECORDS):
                producer.produce(topic, VALUE)
                producer.poll(0)
            if left := producer.flush(_TIMEOUT_S):
                raise TimeoutError(f"{left} records were not acknowledged")

        def consume() -> None:
            own = {"group.id": "bench", "enable.auto.commit": False, "fetch.message.max.bytes": 4 * 1024 * 1024}
            consumer = confluent_kafka.Consumer(settings | own)
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            seen, end_s = 0, time.monotonic() + _TIMEOUT_S
            while seen < RECORDS:
                seen += len(consumer.consume(10_000, 1.0))
                if time.monotonic() > end_s:
                    raise TimeoutError(f"{seen} of {RECORDS} records came")
            consumer.close()

        return self.spent_s(produce) * 1000 / _MB, self.spent_s(consume) * 1000 / _MB

    def single_records(self, listener: str) -> float:
        """µs for the round trip of a record of 100 bytes; only without SASL, which changes nothing once it is done."""
        request = _produce_request(self.topic())
        host, port = self.servers(listener).split(":")
        with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as plain:
            context = ssl.create_default_context(cafile=self.cluster.trust)
            connection = context.wrap_socket(plain, server_hostname=host) if listener == "TLS" else plain
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def trips() -> None:
                for _ in range(ROUND_TRIPS):
                    connection.sendall(request)
                    left = struct.unpack(">i", _received(connection, 4))[0]
                    _received(connection, left)

            return self.spent_s(trips) * 1e6 / ROUND_TRIPS

    def handshakes(self) -> float:
        """µs for a whole handshake of TLS 1.3."""
        host, port = self.servers("TLS").split(":")
        context = ssl.create_default_context(cafile=self.cluster.trust)

        def shake() -> None:
            for _ in range(HANDSHAKES):
                with (
                    socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as plain,
                    context.wrap_socket(plain, server_hostname=host),
                ):
                    pass

        return self.spent_s(shake) * 1e6 / HANDSHAKES

    def logins(self) -> float:
        """µs for a login by SCRAM-SHA-512, the connection included."""
        host, port = self.servers("SASL").split(":")
        who = SaslCredentials(mechanism="SCRAM-SHA-512", username=USER, password=USER_PASSWORD)

        async def log_in() -> None:
            for _ in range(LOGINS):
                connection = await Connection.open(
                    host, int(port), security_protocol="SASL_PLAINTEXT", credentials=who, timeout_s=_TIMEOUT_S
                )
                connection.close()

        return self.spent_s(lambda: asyncio.run(log_in())) * 1e6 / LOGINS


def _produce_request(topic: str) -> bytes:
    """One record of 100 bytes, acks=1."""
    m = messages.produce_request
    batch = assemble_batch(
        encode_record(0, 0, None, bytes(100)),
        records_count=1,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    data = [m.TopicProduceData(name=topic, partition_data=[m.PartitionProduceData(index=0, records=batch)])]
    body = codec.encode_request(m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 9)
    return b"".join(bytes(each) for each in request_frame(APIS[ApiKey.PRODUCE], 9, 7, "bench", body))


def _received(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed")
        parts += part
    return bytes(parts)


def measure(command: tuple[str, ...]) -> dict[str, float]:
    """All figures of one broker."""
    with tempfile.TemporaryDirectory() as folder, SecuredCluster(Path(folder) / "files", 1, command=command) as cluster:
        apache_kafka.wait_for_controller(cluster.bootstrap_servers)
        bench = Bench(cluster)
        for _ in range(PASSES):
            figures: dict[str, float] = {}
            for listener in ("PLAINTEXT", "TLS", "BOTH"):
                produced, consumed = bench.throughput(listener)
                figures |= {f"produce, {listener}: ms a MB": produced, f"consume, {listener}: ms a MB": consumed}
            for listener in ("PLAINTEXT", "TLS"):
                figures[f"single records, {listener}: µs each"] = bench.single_records(listener)
            figures["handshakes of TLS: µs each"] = bench.handshakes()
            figures["logins by SCRAM-SHA-512: µs each"] = bench.logins()
        return figures


@click.command()
@click.option("--rounds", default=1, show_default=True)
@click.option("--only", type=click.Choice(["ours", "apache"]))
def main(rounds: int, only: str | None) -> None:
    """A table of processor time."""
    # Tests have a Java machine for short lives; here it is to compile all that it can.
    theirs = [each for each in apache_kafka.broker_command() if "TieredStopAtLevel" not in each]
    commands = {"ours": BROKER_COMMAND, "apache": theirs}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands if only in (None, name)}
    for _ in range(rounds):
        for name, figures in found.items():
            figures.append(measure(tuple(commands[name])))
    table = Table("processor time of the broker", *found)
    first = next(iter(found.values()))[0]
    for what in first:
        table.add_row(what, *(f"{statistics.median(each[what] for each in rounds):.3g}" for rounds in found.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
