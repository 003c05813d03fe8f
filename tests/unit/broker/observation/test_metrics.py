"""What the collectors make of a broker's counters; the whole of a live broker is read in tests/wire."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.observation import (
    broker_metrics,
    controller_metrics,
    exposition,
    process_metrics,
    request_metrics,
    topic_metrics,
    transaction_metrics,
)
from kafkalite.broker.observation.exposition import Family
from kafkalite.broker.observation.loop_lag import LoopLag
from kafkalite.broker.observation.readiness import conditions
from kafkalite.broker.observation.session_counts import SessionCounts
from kafkalite.broker.settings.quotas import ClientQuotas
from kafkalite.histogram import Histogram
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.observation.fake_broker import (
    FakeBroker,
    FakeCoordinator,
    FakeDispatcher,
    FakeFollower,
    FakePartition,
    FakeReplicas,
    FakeStatistics,
)
from zk.store import SessionState

LOADED_S = time.time()
"""After the process began."""


def read(families: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by the sample's name and its labels' values."""
    text = asyncio.run(exposition.page(families)).decode()
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@dataclass
class FakeDirectory:
    path: str


@dataclass
class FakeLog:
    topic_partition: TopicPartition
    size_bytes: int
    log_end_offset: int
    log_directory: FakeDirectory
    log_start_offset: int = 1


@dataclass
class FakeLogs:
    logs: list[FakeLog]
    online_directories: list[FakeDirectory]
    offline_directories: list[str]

    def all_logs(self) -> list[FakeLog]:
        return self.logs


@dataclass
class FakeFetchers:
    bytes_in: int


@dataclass
class FakeIsrChanges:
    shrinks: int
    expands: int


@dataclass
class FakeConnection:
    listener: str
    in_progress: int


@dataclass
class FakeMemory:
    used_bytes: int = 5
    max_bytes: int = 100
    waits: int = 2


@dataclass
class FakeUnread:
    total_bytes: int = 70


@dataclass
class FakeServer:
    """A server with two listeners, of which one has connections."""

    connections: list[FakeConnection]
    bound_ports: dict[str, int] = field(default_factory=lambda: {"A": 1, "B": 2})
    accepted: int = 9
    refused: int = 1
    memory: FakeMemory = field(default_factory=FakeMemory)
    unread: FakeUnread = field(default_factory=FakeUnread)
    bounds_exceeded: dict[str, int] = field(default_factory=lambda: {"memory": 3, "tagged fields": 1})
    authentications: dict[str, int] = field(default_factory=lambda: {"succeeded": 4, "failed": 2})
    handshakes: dict[str, int] = field(default_factory=lambda: {"failed": 1})


@dataclass
class FakeParts:
    quotas: ClientQuotas


def log(topic: str, partition: int, size: int, end: int, directory: str = "/d1") -> FakeLog:
    return FakeLog(TopicPartition(topic, partition), size, end, FakeDirectory(directory))


def topic_broker(**settings: str) -> Any:
    broker: Any = FakeBroker(**settings)
    logs = [log("b", 0, 5, 7), log("a", 1, 30, 9, "/d2"), log("a", 0, 10, 3)]
    broker.logs = FakeLogs(logs, [FakeDirectory("/d1"), FakeDirectory("/d2")], ["/d3"])
    led = FakePartition(log=logs[1], followers={2: FakeFollower(4), 3: FakeFollower(-1)})
    counts = {"partitions": 3, "leaders": 1, "under_replicated": 1, "under_min_isr": 0}
    broker.replicas = FakeReplicas(counts=counts, led=[led])
    broker.fetchers, broker.isr_changes = FakeFetchers(11), FakeIsrChanges(2, 1)
    broker.traffic.count_produced("a", 100, 4)
    broker.traffic.replication_bytes_out = 77
    return broker


def test_topics_replicas_and_logs() -> None:
    broker = topic_broker()
    broker.cleaner.uncleanable = {TopicPartition("a", 1): "a wrong CRC"}
    found = read(topic_metrics.families(broker))
    uncleanable = {labels: found["kafkalite_uncleanable_partitions", labels] for labels in (("/d1",), ("/d2",))}
    assert uncleanable == {("/d1",): 0, ("/d2",): 1}
    assert found["kafka_log_logcleanermanager_uncleanable_partitions_count", ("/d2",)] == 1
    assert found["kafkalite_topic_bytes_in_total", ("a",)] == 100
    assert found["kafkalite_topic_records_in_total", ("a",)] == 4
    assert found["kafka_server_brokertopicmetrics_messagesin_total", ("a",)] == 4
    assert found["kafkalite_replication_bytes_in_total", ()] == 11
    assert found["kafkalite_replication_bytes_out_total", ()] == 77
    assert found["kafkalite_under_replicated_partitions", ()] == 1
    assert found["kafka_server_replicamanager_underreplicatedpartitions", ()] == 1
    assert found["kafkalite_follower_lag_max_records", ()] == 9
    assert (found["kafkalite_isr_shrinks_total", ()], found["kafkalite_isr_expands_total", ()]) == (2, 1)
    assert found["kafkalite_log_size_bytes", ("a", "1")] == found["kafka_log_log_size", ("a", "1")] == 30
    assert (found["kafkalite_log_start_offset", ("b", "0")], found["kafkalite_log_end_offset", ("b", "0")]) == (1, 7)
    assert found["kafkalite_log_directory_size_bytes", ("/d1",)] == 15
    assert found["kafkalite_offline_log_directories", ()] == 1
    assert found["kafkalite_metrics_omitted_partitions", ()] == 0


def test_a_bound_on_partitions_leaves_sums_right() -> None:
    found = read(topic_metrics.families(topic_broker(kafkalite_metrics_max_partitions="2")))
    assert ("kafkalite_log_size_bytes", ("a", "1")) in found and ("kafkalite_log_size_bytes", ("b", "0")) not in found
    assert found["kafkalite_log_directory_size_bytes", ("/d1",)] == 15
    assert found["kafkalite_metrics_omitted_partitions", ()] == 1


def test_requests_that_came_are_told_by_kafkas_names() -> None:
    broker: Any = FakeBroker()
    latencies = {int(key): Histogram() for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH)}
    latencies[ApiKey.PRODUCE].observe(0.003)
    latencies[ApiKey.FETCH].observe(0.5)
    follower_fetches = Histogram()
    follower_fetches.observe(0.001)
    broker.dispatcher = FakeDispatcher(latencies, follower_fetches)
    broker.server = FakeServer([FakeConnection("A", 2), FakeConnection("A", 1)])
    quotas = ClientQuotas()
    quotas.requests.record_throttle(1500)
    broker.parts = FakeParts(quotas)
    found = read(request_metrics.families(broker))
    assert found["kafkalite_throttles_total", ("request",)] == 1
    assert found["kafkalite_throttle_seconds_total", ("request",)] == 1.5
    requests = {labels[0] for name, labels in found if name == "kafkalite_request_duration_seconds_count"}
    assert requests == {"Produce", "FetchConsumer", "FetchFollower"}
    assert found["kafka_network_requestmetrics_requests_total", ("Produce",)] == 1
    assert found["kafkalite_request_duration_seconds_bucket", ("Produce", "0.0025")] == 0
    assert found["kafkalite_request_duration_seconds_bucket", ("Produce", "0.005")] == 1
    assert (found["kafkalite_connections", ("A",)], found["kafkalite_connections", ("B",)]) == (2, 0)
    assert found["kafkalite_connections_accepted_total", ()] == 9 and found["kafkalite_requests_in_progress", ()] == 3
    assert found["kafkalite_bounds_exceeded_total", ("memory",)] == 3
    assert found["kafkalite_authentications_total", ("failed",)] == 2
    assert found["kafkalite_tls_handshakes_total", ("failed",)] == 1
    assert found["kafkalite_request_memory_bytes", ()] == 5
    assert found["kafkalite_request_memory_max_bytes", ()] == 100
    assert found["kafkalite_request_memory_waits_total", ()] == 2
    assert found["kafkalite_unread_response_bytes", ()] == 70


def controller(**more: Any) -> Any:
    waits = Histogram()
    waits.observe(0.2)
    statistics = {
        "active_controller_count": 0,
        "controller_epoch": 3,
        "queued_events": 4,
        "handled_events": {"Startup": 1},
        "event_waits": waits,
        "event_handling": Histogram(),
    }
    return FakeStatistics(statistics | more)


def test_a_controller_that_is_not_active_counts_nothing() -> None:
    broker: Any = FakeBroker()
    broker.controller = controller()
    found = read(controller_metrics.families(broker))
    assert found["kafkalite_controller_active", ()] == 0
    assert found["kafkalite_controller_offline_partitions", ()] == 0
    assert found["kafkalite_controller_event_queue_length", ()] == 4
    assert found["kafkalite_controller_events_total", ("Startup",)] == 1
    assert found["kafkalite_controller_event_queue_seconds_bucket", ("0.25",)] == 1


def test_the_active_controller_tells_of_the_cluster() -> None:
    broker: Any = FakeBroker()
    broker.controller = controller(
        active_controller_count=1, offline_partitions_count=6, request_retries={2: 8}, queued_requests={2: 1}
    )
    found = read(controller_metrics.families(broker))
    assert found["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount", ()] == 6
    assert found["kafkalite_controller_request_retries_total", ("2",)] == 8


def test_transactions_are_counted() -> None:
    broker: Any = FakeBroker()
    machines = [
        FakeStatistics({"ids": 5, "ongoing": 2, "prepared": 1}),
        FakeStatistics({"ids": 1, "ongoing": 0, "prepared": 1}),
    ]
    broker.transactions = FakeCoordinator(machines)
    broker.marker_sender = FakeStatistics({"transactions": 2, "partitions": 7})
    found = read(transaction_metrics.families(broker))
    assert found["kafkalite_transactional_ids", ()] == 6 and found["kafkalite_transaction_markers_awaited", ()] == 7
    assert [found["kafkalite_transactions", (state,)] for state in ("ongoing", "prepared")] == [2, 2]


def test_a_broker_that_starts_has_few_metrics() -> None:
    broker: Any = FakeBroker()
    broker.state = BrokerState.RECOVERY
    sessions = SessionCounts(broker.store)
    broker.store.enter(SessionState.SUSPENDED)
    found = read(broker_metrics.all_families(broker, LoopLag(), sessions, None, None))
    assert found["kafkalite_broker_state", ()] == 2
    assert found["kafkalite_zookeeper_session_state", ("suspended",)] == 1
    assert found["kafkalite_zookeeper_session_state", ("connected",)] == 0
    assert found["kafkalite_zookeeper_disconnects_total", ()] == 1
    assert ("kafkalite_partitions", ()) not in found


def test_the_process() -> None:
    found = read(process_metrics.families())
    assert 10_000_000 < found["process_resident_memory_bytes", ()] < found["process_virtual_memory_bytes", ()]
    assert (
        found["process_cpu_seconds_total", ()] > 0 and 3 <= found["process_open_fds", ()] < found["process_max_fds", ()]
    )
    assert LOADED_S - 3600 < found["process_start_time_seconds", ()] < LOADED_S


def test_a_loop_that_is_held_up_shows() -> None:
    async def scenario() -> Histogram:
        lag = LoopLag()
        lag.start()
        time.sleep(0.8)  # as a handler would that does not return
        await asyncio.sleep(0.05)
        lag.stop()
        return lag.lags

    lags = asyncio.run(scenario())
    assert lags.count == 1 and 0.2 < lags.sum_s < 2.0


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda broker: None, None),
        (lambda broker: setattr(broker, "state", BrokerState.STARTING), "running"),
        (lambda broker: setattr(broker, "state", BrokerState.PENDING_CONTROLLED_SHUTDOWN), "running"),
        (lambda broker: broker.set_alive(2, 3), "registered"),
        (lambda broker: broker.store.enter(SessionState.SUSPENDED), "zookeeper_connected"),
        (lambda broker: broker.store.enter(SessionState.EXPIRED), "zookeeper_connected"),
        (lambda broker: setattr(broker.metadata, "controller_id", -1), "controller_known"),
        (lambda broker: broker.set_alive(1, 3), "controller_known"),
    ],
)
def test_readiness(change: Any, missing: str | None) -> None:
    broker: Any = FakeBroker()
    change(broker)
    found = conditions(broker)
    assert all(found.values()) == (missing is None)
    assert missing is None or not found[missing]


def test_names_follow_prometheus_rules() -> None:
    """Counters end in _total, and nothing else does; a name and its old name are never the same."""
    broker = topic_broker()
    broker.controller = controller()
    families: list[Family] = [*topic_metrics.families(broker), *controller_metrics.families(broker)]
    for family in [*families, *process_metrics.families()]:
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        assert family.old_name != family.name and family.help.endswith(".")


def hash_of_log(each: FakeLog) -> int:
    """A key that brings logs into the order in which a start finds them, which is none."""
    return each.topic_partition.partition * 7919 % 10_007


def test_metrics_of_many_logs_hold_the_loop_for_a_portion() -> None:
    async def measure(count: int) -> int:
        broker = topic_broker(kafkalite_metrics_max_partitions="10")
        broker.logs.logs = sorted((log("t", number, 5, 7) for number in range(count)), key=hash_of_log)
        with measured_turns() as turns:
            page = (await exposition.page(topic_metrics.families(broker))).decode()
        told = [line for line in page.splitlines() if line.startswith("kafkalite_log_size_bytes")]
        assert told == [f'kafkalite_log_size_bytes{{topic="t",partition="{number}"}} 5' for number in range(10)]
        assert f"kafkalite_metrics_omitted_partitions {count - 10}" in page
        assert f'kafkalite_log_directory_size_bytes{{directory="/d1"}} {5 * count}' in page
        return turns.longest

    few, many = (asyncio.run(measure(count)) for count in (5000, 20_000))
    assert many < 1.1 * few
