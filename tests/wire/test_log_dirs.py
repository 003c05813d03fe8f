"""A broker's disks as clients meet them: moves between directories, a full disk, a directory that fails, and compaction."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.conftest import not_run
from tests.wire.conftest import wait_until_led

pytestmark = pytest.mark.system

SOON_BACK = {"zookeeper.session.timeout.ms": "2000"}
"""A killed broker waits at its start for the end of its old session."""


@pytest.fixture(autouse=True)
def _ours(broker_command: Sequence[str]) -> None:
    if broker_command != BROKER_COMMAND:
        pytest.skip("about this broker's own directories")


def create(servers: str, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)], request_timeout=30)[topic].result(30)
    wait_until_led(servers, topic, partitions)


def send(servers: str, topic: str, values: Sequence[bytes], partition: int = 0, **settings: Any) -> list[Any]:
    """The outcome of each record, all of them different: None or the error."""
    outcomes: dict[bytes, Any] = {}

    def note(error: Any, message: confluent_kafka.Message) -> None:
        outcomes[message.value() or b""] = error

    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5} | settings)
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=note)
        producer.poll(0)
    producer.flush(60)
    return [outcomes[value] for value in values]


def read(
    servers: str, topic: str, partition: int = 0, count: int | None = None
) -> list[tuple[bytes | None, bytes | None]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        place = confluent_kafka.TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30, cached=False)
        consumer.assign([place])
        found: list[tuple[bytes | None, bytes | None]] = []
        deadline = time.monotonic() + 60
        while end and time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.5):
                assert message.error() is None
                found.append((message.key(), message.value()))
            if consumer.position([place])[0].offset >= end:
                break
        return found
    finally:
        consumer.close()


def ask(cluster: LocalCluster, request: Any, key: ApiKey) -> Any:
    async def exchange() -> Any:
        host, port = cluster.bootstrap_servers.split(",")[0].split(":")
        connection = await Connection.open(host, int(port), client_id="test", timeout_s=10)
        try:
            await connection.negotiate()
            return await connection.request(request, connection.version_of(key), timeout_s=30)
        finally:
            connection.close()

    return asyncio.run(exchange())


def log_dirs(cluster: LocalCluster) -> dict[str, Any]:
    request = messages.describe_log_dirs_request.DescribeLogDirsRequest(topics=None)
    return {each.log_dir: each for each in ask(cluster, request, ApiKey.DESCRIBE_LOG_DIRS).results}


def place_of(cluster: LocalCluster, topic: str, partition: int = 0) -> str:
    """The directory of the partition's only log."""
    places = [
        path
        for path, result in log_dirs(cluster).items()
        for found in result.topics
        for each in found.partitions
        if (found.name, each.partition_index) == (topic, partition)
    ]
    return places[0] if len(places) == 1 else ""


def move(cluster: LocalCluster, topic: str, path: str) -> int:
    m = messages.alter_replica_log_dirs_request
    topics = [m.AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDir(path=path, topics=topics)])
    reply = ask(cluster, request, ApiKey.ALTER_REPLICA_LOG_DIRS)
    return int(reply.results[0].partitions[0].error_code)


def test_a_partition_moves_to_another_directory_while_it_is_written(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    with LocalCluster(brokers=1, properties=SOON_BACK | {"log.dirs": ",".join(paths)}) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "t", segment_bytes="1200000")
        values = [b"%d" % number + b"." * 1000 for number in range(3000)]
        assert not any(send(servers, "t", values[:1000]))
        old = place_of(cluster, "t")
        new = next(path for path in paths if path != old)
        assert move(cluster, "t", str(tmp_path / "three")) == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(cluster, "unknown", new) == ErrorCode.REPLICA_NOT_AVAILABLE
        assert move(cluster, "t", new) == ErrorCode.NONE
        assert not any(send(servers, "t", values[1000:]))
        wait_until(lambda: place_of(cluster, "t") == new, "the move", 60)
        assert [value for _, value in read(servers, "t")] == values
        assert all(result.total_bytes > result.usable_bytes > 0 for result in log_dirs(cluster).values())
        cluster.kill(1)
        cluster.start_broker(1)
        wait_until_led(servers, "t", 1)
        assert place_of(cluster, "t") == new and [value for _, value in read(servers, "t")] == values


def test_a_move_goes_on_after_a_restart(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    settings = SOON_BACK | {"log.dirs": ",".join(paths), "replica.alter.log.dirs.io.max.bytes.per.second": "1000"}
    with LocalCluster(brokers=1, properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "t")
        values = [b"%d" % number + b"." * 1000 for number in range(3000)]
        assert not any(send(servers, "t", values))
        new = next(path for path in paths if path != place_of(cluster, "t"))
        assert move(cluster, "t", new) == ErrorCode.NONE
        wait_until(lambda: any(Path(new).glob("*-future/*.log")), "a copy", 30)
        cluster.kill(1)
        cluster.broker(1).properties["replica.alter.log.dirs.io.max.bytes.per.second"] = "1000000000"
        cluster.start_broker(1)
        wait_until(lambda: place_of(cluster, "t") == new, "the move", 60)
        assert [value for _, value in read(servers, "t")] == values


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        not_run("a file system of its own takes root and mount(8)")
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        not_run(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path, leave_bytes: int) -> Path:
    """A file that takes all room but `leave_bytes`; the broker writes meanwhile, so the room is not what it was a moment ago."""
    ballast = disk / "ballast"
    file = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(file, bytes(1 << 16)):
            continue
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
    finally:
        os.ftruncate(file, os.fstat(file).st_size - leave_bytes)
        os.close(file)
    return ballast


def test_a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "small", "24m") as disk,
        LocalCluster(brokers=1, properties=SOON_BACK | {"log.dirs": str(disk / "logs")}) as cluster,
    ):
        servers = cluster.bootstrap_servers
        create(servers, "t")
        assert send(servers, "t", [b"first"]) == [None]
        ballast = fill(disk, leave_bytes=200_000)
        values = [b"%d" % number + b"." * 10_000 for number in range(100)]
        outcomes = send(servers, "t", values, retries=0, **{"message.timeout.ms": 3000})
        refused = [value for value, outcome in zip(values, outcomes, strict=True) if outcome is not None]
        assert refused and cluster.broker(1).running
        taken = [value for _, value in read(servers, "t")]
        assert taken[0] == b"first" and set(values) - set(refused) <= set(taken)
        ballast.unlink()
        assert send(servers, "t", [b"last"]) == [None]
        assert read(servers, "t")[-1][1] == b"last"
        cluster.kill(1)
        cluster.start_broker(1)
        wait_until_led(servers, "t", 1)
        again = [value for _, value in read(servers, "t")]
        assert again[: len(taken)] == taken and again[-1] == b"last"


def test_a_directory_that_fails_takes_its_partitions_offline_and_the_rest_go_on(tmp_path: Path) -> None:
    """The directory is taken away under the broker: what it opens there from now on is missing."""
    paths = [tmp_path / name for name in ("one", "two")]
    settings = {"log.dirs": ",".join(map(str, paths)), "log.flush.offset.checkpoint.interval.ms": "200"}
    settings["log.initial.task.delay.ms"] = "100"
    with LocalCluster(brokers=1, properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "t", 2)
        for partition in range(2):
            assert send(servers, "t", [b"%d" % partition], partition) == [None]
        broken = place_of(cluster, "t", 0)
        assert broken != place_of(cluster, "t", 1)
        shutil.move(broken, tmp_path / "gone")
        Path(broken).write_text("no directory any more")
        wait_until(lambda: log_dirs(cluster)[broken].error_code == ErrorCode.KAFKA_STORAGE_ERROR, "the failure", 30)
        admin = AdminClient({"bootstrap.servers": servers})

        def leader_of(partition: int) -> int:
            found: int = admin.list_topics("t", timeout=30).topics["t"].partitions[partition].leader
            return found

        wait_until(lambda: leader_of(0) == -1, "the controller hears of it", 30)
        assert leader_of(1) == 1 and send(servers, "t", [b"more"], 1) == [None]
        assert [value for _, value in read(servers, "t", 1)] == [b"1", b"more"]


def test_a_compacted_topic_keeps_the_last_value_of_each_key(tmp_path: Path) -> None:
    settings = SOON_BACK | {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.1"}
    with LocalCluster(brokers=1, properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "t", cleanup_policy="compact", segment_bytes="20000")
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 1, "batch.num.messages": 50})
        model = {}
        for number in range(5000):
            key, value = b"key-%d" % (number % 13), b"%d" % number
            producer.produce("t", value, key)
            producer.poll(0)
            model[key] = value
        assert producer.flush(60) == 0
        log = cluster.broker(1).log_path
        wait_until(lambda: b"t-0 compacted" in log.read_bytes(), "a compaction", 60)
        wait_until(lambda: len(read(servers, "t")) < 2000, "fewer records", 60)
        assert dict(read(servers, "t")) == model
        cluster.kill(1)
        cluster.start_broker(1)
        wait_until_led(servers, "t", 1)
        assert dict(read(servers, "t")) == model
