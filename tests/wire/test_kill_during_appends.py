"""kill -9 while records are written, then the same broker again: what was acknowledged is there, once or more, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.cluster import LocalCluster
from tests.wire.clients import CLIENTS
from tests.wire.conftest import wait_until_led

pytestmark = pytest.mark.system

RECORDS_BEFORE_KILL = 500


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_lone_broker_killed_while_it_appends_keeps_what_it_acknowledged(
    broker_command: Sequence[str], acks: str, pytestconfig: pytest.Config
) -> None:
    """One broker, one replica: only recovery of its own log can bring the records back.

    Acknowledged records were handed to the operating system, which outlives the process; so none may be missing.
    """
    if pytestconfig.getoption("--apache"):
        pytest.skip("Apache Kafka does not start while its own old session lives")
    settings = {
        "log.segment.bytes": "100000",
        "zookeeper.session.timeout.ms": "2000",  # a killed broker waits at its start for the end of its old session
        "zookeeper.connection.timeout.ms": "20000",
    }
    with LocalCluster(brokers=1, properties=settings, command=broker_command) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 1, 1)], request_timeout=30)["t"].result(30)
        wait_until_led(servers, "t", 1)
        acknowledged: list[int] = []
        client = {"bootstrap.servers": servers, "acks": acks, "linger.ms": 1, "batch.num.messages": 20}
        producer = confluent_kafka.Producer(client | {"enable.idempotence": acks == "all"})
        stop = threading.Event()

        def send() -> None:
            number = 0
            while not stop.is_set():
                try:
                    producer.produce("t", b"%d" % number + b"." * 200, b"%d" % number, 0, on_delivery=note)
                    number += 1
                except BufferError:
                    pass
                producer.poll(0.001)

        def note(error: object, message: confluent_kafka.Message) -> None:
            if error is None:
                acknowledged.append(int(message.key()))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for rounds in range(1, 3):
                deadline = time.monotonic() + 60
                wanted = len(acknowledged) + RECORDS_BEFORE_KILL
                while len(acknowledged) < wanted:
                    assert time.monotonic() < deadline, f"round {rounds}: {len(acknowledged)} of {wanted}"
                    time.sleep(0.005)
                cluster.kill(1)
                cluster.start_broker(1)
        finally:
            stop.set()
            sender.join()
        assert producer.flush(60) == 0
        wait_until_led(servers, "t", 1)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "unused"})
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), timeout=30, cached=False)
        consumer.close()
        read = [int(each.key or b"-1") for each in CLIENTS[0].consume(servers, "t", end)]
        assert not set(acknowledged) - set(read)
        if acks == "all":  # idempotent: no record twice, none out of order
            assert read == sorted(set(read))
