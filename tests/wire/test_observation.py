"""Metrics, health and status of live brokers over HTTP; pages are read by Prometheus' own parser."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from tests.museum.stage import Stage
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "kafkalite.json"
RECORDS, READ, VALUE = 500, 300, b"v" * 100

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def ours(broker_command: Any) -> None:
    if broker_command != BROKER_COMMAND:
        pytest.skip("Apache Kafka has no such pages")


def fetch(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers["Content-Type"], refusal.read()


def scrape(url: str | None) -> Samples:
    status, content_type, body = fetch(f"{url}metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found: Samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def scrape_all(cluster: LocalCluster) -> list[Samples]:
    return [scrape(broker.http_url) for broker in cluster.brokers.values()]


def total(pages: list[Samples], name: str, **labels: str) -> float:
    """The sum over all brokers of the samples that have these labels."""
    wanted = labels.items()
    return sum(
        value
        for page in pages
        for (found, having), value in page.items()
        if found == name and wanted <= dict(having).items()
    )


def status_of(broker: BrokerProcess) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fetch(f"{broker.http_url}status.json")[2])
    return found


def group_told(broker: BrokerProcess, group_id: str) -> dict[str, Any]:
    """The group in the broker's status: others are not asked for theirs more than every 1.5 s."""
    found: list[dict[str, Any]] = []

    def is_told() -> bool:
        found[:] = [each for each in status_of(broker)["groups"] if each["id"] == group_id]
        return bool(found)

    wait_until(is_told, f"group {group_id} in the status of broker {broker.id}", 20)
    return found[0]


@pytest.fixture
def read_topic(cluster: LocalCluster, make_topic: TopicMaker) -> Iterator[str]:
    """A topic with records of which a group, named as the topic, has read and committed some."""
    topic = make_topic(3)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, VALUE, partition=number % 3)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings | {"enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        read: list[Any] = []
        while len(read) < READ:
            read += consumer.consume(READ - len(read), timeout=5)
        assert all(message.error() is None for message in read)
        read_up_to = [confluent_kafka.TopicPartition(topic, partition, READ // 3) for partition in range(3)]
        consumer.commit(offsets=read_up_to, asynchronous=False)
        yield topic
    finally:
        consumer.close()


def test_traffic_is_counted_by_topic(cluster: LocalCluster, read_topic: str) -> None:
    pages = scrape_all(cluster)
    assert total(pages, "kafkalite_topic_records_in_total", topic=read_topic) == RECORDS
    assert total(pages, "kafkalite_topic_bytes_in_total", topic=read_topic) > RECORDS * len(VALUE)
    assert READ <= total(pages, "kafkalite_topic_records_out_total", topic=read_topic) <= RECORDS
    assert total(pages, "kafkalite_topic_bytes_out_total", topic=read_topic) > READ * len(VALUE)
    assert total(pages, "kafkalite_replication_bytes_in_total") >= 2 * RECORDS * len(VALUE)
    assert total(pages, "kafkalite_replication_bytes_out_total") >= 2 * RECORDS * len(VALUE)
    assert total(pages, "kafkalite_log_end_offset", topic=read_topic) == 3 * RECORDS
    assert total(pages, "kafkalite_log_size_bytes", topic=read_topic) > 3 * RECORDS * len(VALUE)


def test_requests_are_timed_by_api(cluster: LocalCluster, read_topic: str) -> None:
    pages = scrape_all(cluster)
    for request in (
        "Produce",
        "FetchConsumer",
        "FetchFollower",
        "Metadata",
        "OffsetCommit",
        "JoinGroup",
        "LeaderAndIsr",
    ):
        count = total(pages, "kafkalite_request_duration_seconds_count", request=request)
        assert count == total(pages, "kafkalite_requests_total", request=request) > 0, request
        assert count == total(pages, "kafkalite_request_duration_seconds_bucket", request=request, le="+Inf")
    mean_s = total(pages, "kafkalite_request_duration_seconds_sum", request="FetchFollower") / total(
        pages, "kafkalite_request_duration_seconds_count", request="FetchFollower"
    )
    assert 0 < mean_s < 0.6, "a follower's fetch waits up to 500 ms"


def test_groups_lag(cluster: LocalCluster, read_topic: str) -> None:
    pages = scrape_all(cluster)
    assert total(pages, "kafkalite_group_lag_records", group=read_topic, topic=read_topic) == RECORDS - READ
    assert total(pages, "kafkalite_group_members", group=read_topic) == 1
    assert total(pages, "kafkalite_groups", state="Stable") >= 1


def _rows(*arguments: str) -> list[dict[str, Any]]:
    """Of `kafkalite group`."""
    result = CliRunner().invoke(main, ["group", *arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_offsets_in_zookeeper_are_seen_beside_those_of_the_coordinator(
    cluster: LocalCluster, make_topic: TopicMaker
) -> None:
    """A group whose old consumers have moved half of the way from ZooKeeper to the brokers: both are told, by commands and metrics."""
    topic = make_topic(2)
    first, where = cluster.bootstrap_servers.split(",")[0], ("--in-zookeeper", "-z", cluster.zookeeper_connect)
    stage = Stage(first, cluster.zookeeper_connect)
    stage.write(topic, range(20))
    stage.commit(topic, topic, {0: 4, 1: 5})
    stage.commit_to_zookeeper(topic, topic, {0: 2, 1: 1})
    listed = _rows("list", *where, "-b", first)
    assert {each["kept_in"] for each in listed if each["group"] == topic} == {"kafka", "zookeeper"}
    described = _rows("describe", topic, *where, "-b", first)
    assert sorted(
        (each["kept_in"], each["partition"], each["committed_offset"], each["lag"]) for each in described
    ) == [
        ("kafka", 0, 4, 6),
        ("kafka", 1, 5, 5),
        ("zookeeper", 0, 2, 8),
        ("zookeeper", 1, 1, 9),
    ]

    def lags() -> tuple[float, float]:
        pages = scrape_all(cluster)
        kinds = ("kafkalite_group_lag_records", "kafkalite_zookeeper_group_lag_records")
        coordinators, zookeepers = (total(pages, name, group=topic, topic=topic) for name in kinds)
        return coordinators, zookeepers

    wait_until(lambda: lags() == (11, 17), "both lags: ZooKeeper is asked every ten seconds", 40)


def test_lag_is_known_of_partitions_that_have_no_replica_here(cluster: LocalCluster, make_topic: TopicMaker) -> None:
    """One replica for each of three partitions: two of them are not on the group's coordinator, whichever that is."""
    topic = make_topic(3, replication=1)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(30):
        producer.produce(topic, VALUE, partition=number % 3)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    try:
        offsets = [confluent_kafka.TopicPartition(topic, partition, 4) for partition in range(3)]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()

    def lag() -> float:
        return total(scrape_all(cluster), "kafkalite_group_lag_records", group=topic)

    wait_until(lambda: lag() == 3 * 6, "the lag, once the leaders were asked for the ends", 30)
    for broker in cluster.brokers.values():
        group = group_told(broker, topic)
        assert group["topics"] == {topic: {"lag": 18, "partitions": 3, "unknown": 0}}


def test_the_cluster_is_told_of_once(cluster: LocalCluster, make_topic: TopicMaker) -> None:
    make_topic()
    pages = scrape_all(cluster)
    assert total(pages, "kafkalite_controller_active") == 1
    assert total(pages, "kafkalite_controller_brokers") == 3
    assert total(pages, "kafkalite_controller_offline_partitions") == 0
    assert total(pages, "kafkalite_controller_partitions") == total(pages, "kafkalite_leaders")
    assert total(pages, "kafkalite_partitions") >= total(pages, "kafkalite_leaders")
    assert total(pages, "kafkalite_zookeeper_session_state", state="connected") == 3
    assert total(pages, "kafkalite_broker_state") == 3 * 3
    assert total(pages, "kafkalite_controller_events_total", event="TopicChange") >= 1
    for page in pages:
        assert page["process_resident_memory_bytes", frozenset()] > 20e6
        assert page["kafkalite_event_loop_lag_seconds_count", frozenset()] > 0


def test_old_dashboards_find_their_names(cluster: LocalCluster, read_topic: str) -> None:
    pages = scrape_all(cluster)
    assert total(pages, "kafka_server_brokertopicmetrics_messagesin_total", topic=read_topic) == RECORDS
    assert total(pages, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert total(pages, "kafka_server_replicamanager_leadercount") == total(pages, "kafkalite_leaders")
    assert total(pages, "kafka_log_log_size", topic=read_topic, partition="0") > 0
    assert total(pages, "kafka_network_requestmetrics_requests_total", request="Produce") > 0


def test_a_deleted_topic_leaves_no_metrics(cluster: LocalCluster, read_topic: str, admin: AdminClient) -> None:
    admin.delete_topics([read_topic], request_timeout=30)[read_topic].result(30)

    def is_forgotten() -> bool:
        return not any(("topic", read_topic) in labels for page in scrape_all(cluster) for _, labels in page)

    wait_until(is_forgotten, f"no metrics of {read_topic}", 30)


def test_every_metric_of_the_dashboard_exists(cluster: LocalCluster, read_topic: str) -> None:
    pages = scrape_all(cluster)
    names = {name for page in pages for name, _ in page}
    labels = {name: {label for label, _ in having} for page in pages for name, having in page}
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(queries) >= 30
    definitions = [each["definition"] for each in dashboard["templating"]["list"] if "definition" in each]
    used: set[str] = set()
    for query in (*queries, *definitions):
        metrics = re.findall(r"\b(?:kafkalite|process|python|kafka)_\w+", query)
        assert metrics, query
        assert set(metrics) <= names, query
        used.update(metrics)
        for group in re.findall(r"by \(([\w, ]+)\)", query):
            # What is grouped by is a label of the metric, or Prometheus adds it.
            assert set(group.split(", ")) <= labels[metrics[0]] | {"instance"}, query
    assert len(used) > 30


def test_health_and_readiness(cluster: LocalCluster) -> None:
    for broker in cluster.brokers.values():
        status, content_type, body = fetch(f"{broker.http_url}health")
        assert (status, content_type, json.loads(body)) == (
            200,
            "application/json",
            {"alive": True, "state": "running", "uncleanable_partitions": {}, "topic_id_conflicts": {}},
        )
        status, _, body = fetch(f"{broker.http_url}ready")
        assert status == 200 and set(json.loads(body).values()) == {True}


def test_every_broker_tells_the_same_of_the_cluster(cluster: LocalCluster, read_topic: str) -> None:
    told = []
    for broker in cluster.brokers.values():
        status = status_of(broker)
        assert status["version"] == 1 and status["broker"]["id"] == broker.id
        topic = status["topics"][read_topic]
        assert [len(each["isr"]) for each in topic["partitions"].values()] == [3, 3, 3]
        group = group_told(broker, read_topic)
        assert (group["state"], group["members"], group["lag"]) == ("Stable", 1, RECORDS - READ)
        told.append((status["cluster_id"], status["controller"], topic, group["coordinator"]))
    assert told[0] == told[1] == told[2]


def test_the_page_and_all_its_parts_are_there(cluster: LocalCluster) -> None:
    url = cluster.broker(1).http_url
    kinds: dict[str, str] = {}
    wanted = [""]
    while wanted:
        name = wanted.pop()
        status, content_type, body = fetch(f"{url}{name}")
        assert status == 200, name
        kinds[name] = content_type.partition(";")[0]
        named = re.findall(r'(?:href=|src=|from )"(?:\./)?(\w+\.(?:css|js|svg))"', body.decode())
        wanted += [each for each in named if each not in kinds]
    assert kinds == {
        "": "text/html",
        "page.css": "text/css",
        "page.js": "text/javascript",
        "changes.js": "text/javascript",
        "elements.js": "text/javascript",
        "icon.svg": "image/svg+xml",
        "plot.js": "text/javascript",
        "plots.js": "text/javascript",
        "theme.css": "text/css",
    }
    assert fetch(f"{url}page.py")[0] == 404


def test_followers_come_to_rest_after_topics_are_deleted(cluster: LocalCluster, make_topic: TopicMaker) -> None:
    """A partition that a leader does not forget has every fetch of the session answered at once, hundreds of times a second."""
    make_topic(12)  # stays, and so do the sessions
    name = f"made-again-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def is_known() -> bool:
        known = admin.list_topics(timeout=20).topics.get(name)
        return known is not None and len(known.partitions) == 6

    for _ in range(3):
        wait_until(lambda: not is_known(), "the topic's end", 20)
        admin.create_topics([NewTopic(name, 6, 3)])[name].result(20)
        wait_until(is_known, "the topic", 20)
        admin.delete_topics([name])[name].result(20)

    def fetches() -> tuple[float, float]:
        pages = scrape_all(cluster)
        return time.monotonic(), total(pages, "kafka_network_requestmetrics_requests_total", request="FetchFollower")

    seen = [fetches()]

    def are_at_rest() -> bool:
        (began_s, before), (ended_s, after) = seen[-1], fetches()
        if ended_s - began_s < 1:
            return False
        seen.append((ended_s, after))
        return (after - before) / (
            ended_s - began_s
        ) < 50  # six sessions, each with a fetch in replica.fetch.wait.max.ms

    wait_until(are_at_rest, "fewer fetches of followers than 50 a second", 20)
