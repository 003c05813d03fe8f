"""Faults that a test asks a running broker for, as a client meets them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalite.client import ClientError, SyncAdmin, SyncProducer
from kafkalite.errors import ErrorCode
from kafkalite.failpoints import KILLED_STATUS
from kafkalite.local.broker_process import wait_until
from kafkalite.local.faults import FaultRefused
from kafkalite.testing import LocalCluster

TOPIC = "orders"


@pytest.fixture(scope="module")
def faulty() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, faults=True, properties={"num.partitions": "2"}) as cluster:
        yield cluster


def test_a_user_fails_delays_and_drops_requests(faulty: LocalCluster) -> None:
    """1. An error that is not retriable reaches the caller, and only for the topic and partition that it is about.
    2. The answer of a record is lost; an idempotent producer repeats it, and it is there once.
    3. A failpoint ends the broker where the test wants it.
    """
    servers = faulty.bootstrap_servers
    with SyncProducer(bootstrap_servers=servers, client_id="me", request_timeout_ms=500) as producer:
        assert producer.send_and_wait(TOPIC, b"0", partition=0).offset == 0
        about = {"topic": TOPIC, "partition": 0, "client": "me"}
        with faulty.faults.fail("PRODUCE", ErrorCode.INVALID_RECORD, nth=2, **about) as refused:
            producer.send_and_wait(TOPIC, b"0", partition=1)
            producer.send_and_wait(TOPIC, b"1", partition=0)
            assert refused.hits == 0
            with pytest.raises(ClientError) as problem:
                producer.send_and_wait(TOPIC, b"refused", partition=0)
            assert problem.value.code == ErrorCode.INVALID_RECORD
            assert refused.hits == 1
        late = faulty.faults.delay("PRODUCE", 0.2, **about)
        lost = faulty.faults.drop("PRODUCE", "answer", nth=2, **about)
        producer.send_and_wait(TOPIC, b"2", partition=0)
        late.wait()
        assert producer.send_and_wait(TOPIC, b"3", partition=0).offset == 3
        lost.wait()
        assert producer.send_and_wait(TOPIC, b"4", partition=0).offset == 4
    with pytest.raises(FaultRefused, match="nowhere"):
        faulty.faults.arm("nowhere", "exit", broker_id=1)
    faulty.faults.clear()
    faulty.faults.arm("controller.writing", "exit", broker_id=1)
    with SyncAdmin(bootstrap_servers=servers, default_api_timeout_ms=500) as admin, pytest.raises(ClientError):
        admin.delete_topics([TOPIC])
    wait_until(lambda: not faulty.broker(1).running, "the end of the broker", 30)
    assert faulty.broker(1).exit_status == KILLED_STATUS
    with pytest.raises(KeyError):
        faulty.faults.stall(1, broker_id=1)
