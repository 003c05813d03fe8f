"""A cluster as `cluster up --secure` makes it: each client connects by the file that is written for it, and nobody else does."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from kafkalite.cli.main import main
from kafkalite.client import (
    AuthenticationFailedError,
    ConsumerOptions,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
)
from kafkalite.config.properties import read_properties
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.secured import ClusterSecurity
from spark_jobs.options import batch_options, client_options
from tests.peers.face_server import run_ours
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.security.store_security import StoreSecurity

pytestmark = pytest.mark.wire

TOPIC = "app-greetings"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    few = {"offsets.topic.num.partitions": "1"}
    folder = tmp_path_factory.mktemp("secured")
    with LocalCluster(brokers=2, secure=True, directory=folder, properties=few, http=True) as running:
        yield running


@pytest.fixture(scope="module")
def files(cluster: LocalCluster) -> dict[str, Path]:
    written = cluster.security.write_client_files(cluster.bootstrap_servers, cluster.zookeeper_connect)
    return {path.name: path for path in written.values()}


def keywords(path: Path) -> dict[str, str]:
    return {key.replace(".", "_"): text for key, text in read_properties(path).items()}


def test_each_client_connects_by_its_file(cluster: LocalCluster, files: dict[str, Path]) -> None:
    with SyncProducer(**keywords(files["app.properties"])) as producer:  # type: ignore[arg-type]
        assert producer.send_and_wait(TOPIC, b"one").offset == 0
    settings = dict(read_properties(files["librdkafka.conf"]))
    librdkafka = Producer(settings | {"enable.idempotence": True})
    librdkafka.produce(TOPIC, b"two")
    assert librdkafka.flush(60) == 0
    consumer = Consumer(settings | {"group.id": "app-readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    records = consumer.consume(2, 60)
    consumer.close()
    assert [each.value() for each in records] == [b"one", b"two"]
    python = KafkaConsumer(
        TOPIC,
        **json.loads(files["kafka_python.json"].read_text()),
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    assert next(python).value == b"one"
    python.close()
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    for name, listed in (("app.properties", False), ("admin.properties", True)):
        told = run_ours("kafka-topics", *servers, "--command-config", str(files[name]), "--list")
        assert told.status == 0 and TOPIC in told.stdout
        assert ("__consumer_offsets" in told.stdout) is listed, "a name that the user may not see"
    spark = batch_options({**json.loads(files["spark.json"].read_text()), "subscribe": TOPIC})
    with SyncConsumer(**client_options(ConsumerOptions, spark.kafka), auto_offset_reset="earliest") as source:
        source.assign([TopicPartition(TOPIC, 0)])
        assert next(source).value == b"one"


def test_others_are_kept_out(cluster: LocalCluster, files: dict[str, Path]) -> None:
    password = cluster.security.passwords["app"]
    wrong = {key: text.replace(password, "guess") for key, text in keywords(files["app.properties"]).items()}
    with pytest.raises(AuthenticationFailedError), SyncProducer(**wrong) as producer:  # type: ignore[arg-type]
        producer.send_and_wait(TOPIC, b"never")
    with SyncProducer(**keywords(files["app.properties"])) as producer, pytest.raises(Exception, match="uthoriz"):  # type: ignore[arg-type]
        producer.send_and_wait("other", b"never")

    async def without_certificate() -> None:
        store = KazooStore(cluster.zookeeper_connect, 4.0)
        with pytest.raises(TimeoutError):
            await store.start(1)

    asyncio.run(without_certificate())


def test_kafkas_tools_reach_zookeeper_by_their_file(cluster: LocalCluster, files: dict[str, Path]) -> None:
    connect, tls = cluster.zookeeper_connect, str(files["zookeeper.properties"])
    told = run_ours("zookeeper-shell", connect, "-zk-tls-config-file", tls, "ls", "/brokers/ids")
    assert told.status == 0 and "[1, 2]" in told.stdout
    user = ("--entity-type", "users", "--entity-name", "bob")
    made = run_ours(
        "kafka-configs",
        *("--zookeeper", connect, "--zk-tls-config-file", tls, *user, "--alter"),
        *("--add-config", "SCRAM-SHA-512=[iterations=4096,password=bob-secret]"),
    )
    assert made.status == 0, made.stderr
    rules = run_ours(
        "kafka-acls",
        *("--authorizer-properties", f"zookeeper.connect={connect}", "--zk-tls-config-file", tls),
        *("--list", "--group", "app", "--resource-pattern-type", "prefixed"),
    )
    assert rules.status == 0 and "principal=User:app" in rules.stdout
    bob = keywords(files["app.properties"])
    bob["sasl_jaas_config"] = bob["sasl_jaas_config"].replace('"app"', '"bob"')
    bob["sasl_jaas_config"] = bob["sasl_jaas_config"].replace(cluster.security.passwords["app"], "bob-secret")
    with SyncAdmin(**bob) as admin:  # type: ignore[arg-type]
        assert admin.list_topics() == [], "let in, and nothing is his"


def test_the_status_page_asks_who_looks(cluster: LocalCluster) -> None:
    security, url = cluster.security, str(cluster.brokers[1].http_url)
    context = ssl.create_default_context(cafile=str(security.authorities))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{url}metrics", context=context, timeout=30)
    name = base64.b64encode(f"admin:{security.passwords['admin']}".encode()).decode()
    asked = urllib.request.Request(f"{url}metrics", headers={"Authorization": f"Basic {name}"})
    with urllib.request.urlopen(asked, context=context, timeout=30) as answer:
        assert b"kafkalite_" in answer.read()


def test_users_are_made_again_by_a_command(cluster: LocalCluster) -> None:
    """As in containers, where nobody else makes them."""
    inside = cluster.brokers[1].inside
    assert inside is not None
    arguments = ["cluster", "users", str(cluster.security.folder), "-b", f"{inside.host}:{inside.port}"]
    planned = CliRunner().invoke(main, [*arguments, "--dry-run"])
    assert planned.exit_code == 0 and "User:app may Read Topic prefix app" in planned.output
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


def test_the_znodes_are_the_brokers_and_their_secrets_nobody_elses(cluster: LocalCluster) -> None:
    owner = "CN=broker,O=kafkalite"

    async def look() -> None:
        store = KazooStore(cluster.zookeeper_connect, security=cluster.security.store_security())
        await store.start(30)
        assert [each.id for each in await store.read_acl(paths.user_config("app"))] == [owner]
        assert [each.id for each in await store.read_acl(paths.CONTROLLER)] == [owner, "anyone"]
        await store.close()

    assert isinstance(cluster.security.store_security(), StoreSecurity)
    asyncio.run(look())


def test_what_is_secret_is_the_owners_and_is_not_printed(cluster: LocalCluster, files: dict[str, Path]) -> None:
    security = cluster.security
    assert stat.S_IMODE(security.folder.stat().st_mode) == 0o700
    written = [*security.folder.iterdir(), *cluster.directory.glob("broker-*.properties")]
    assert len(written) > 12
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    printed = "\n".join(security.client_lines({name: str(path) for name, path in files.items()}))
    assert "sasl.username=app" in printed
    assert not any(password in printed for password in security.passwords.values())
    again = ClusterSecurity(security.folder)
    again.make()
    assert again.passwords == security.passwords, "a second start continues the same cluster"
