"""Apache Kafka's own command-line tools against kafkalite: the brokers over the wire, and their files on disk."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from kafkalite.local.cluster import LocalCluster
from tests.peers.apache_kafka import fetch, tool_command
from tests.peers.tool_server import run_tool
from tests.wire.clients import CLIENTS, CODECS, Record
from tests.wire.conftest import wait_until_known

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    fetch()  # before any process is started: without Maven there is nothing to do
    with LocalCluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: LocalCluster) -> str:
    return cluster.bootstrap_servers


def make_topic(servers: str, name: str, *options: str) -> str:
    run_tool("kafka-topics", "--bootstrap-server", servers, "--create", "--topic", name, *options)
    wait_until_known(servers, name, int(options[options.index("--partitions") + 1]))
    return name


def test_kafka_topics_creates_lists_describes_alters_and_deletes(servers: str) -> None:
    base = ("--bootstrap-server", servers)
    make_topic(
        servers, "tools-topic", "--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=5000"
    )
    assert "tools-topic" in run_tool("kafka-topics", *base, "--list").split()
    described = run_tool("kafka-topics", *base, "--describe", "--topic", "tools-topic")
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 3" in described
    assert "retention.ms=5000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: [123]\s", described)) == 2
    run_tool("kafka-topics", *base, "--alter", "--topic", "tools-topic", "--partitions", "3")
    wait_until_known(servers, "tools-topic", 3)
    assert "PartitionCount: 3" in run_tool("kafka-topics", *base, "--describe", "--topic", "tools-topic")
    run_tool("kafka-topics", *base, "--delete", "--topic", "tools-topic")
    wait_until_known(servers, "tools-topic", 0)
    assert "tools-topic" not in run_tool("kafka-topics", *base, "--list").split()


def test_console_producer_and_consumer_carry_keys_and_headers(servers: str) -> None:
    topic = make_topic(servers, "tools-console", "--partitions", "1", "--replication-factor", "3")
    lines = "".join(f"h:{number}\tkey{number}\tvalue {number} — ü\n" for number in range(50))
    settings = ("--property", "parse.key=true", "--property", "parse.headers=true")
    run_tool("kafka-console-producer", "--bootstrap-server", servers, "--topic", topic, *settings, stdin=lines)
    shown = ("--property", "print.key=true", "--property", "print.headers=true")
    read = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", servers, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "50", "--timeout-ms", "30000", *shown),
    )
    assert read == lines


def test_the_verifiable_producer_gets_every_record_acknowledged(servers: str) -> None:
    topic = make_topic(servers, "tools-verifiable", "--partitions", "3", "--replication-factor", "3")
    # A Java machine of its own: what this tool does when the machine ends is to wait for its acknowledgements.
    command = tool_command(
        "kafka-verifiable-producer",
        *("--bootstrap-server", servers, "--topic", topic, "--max-messages", "2000", "--acks", "-1"),
    )
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    assert not [event for event in events if event["name"] == "producer_send_error"]
    ends = run_tool("kafka-get-offsets", "--bootstrap-server", servers, "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends.split()) == 2000


def test_the_performance_tool_runs(servers: str) -> None:
    topic = make_topic(servers, "tools-speed", "--partitions", "1", "--replication-factor", "1")
    output = run_tool(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={servers}", "acks=1"),
    )
    assert "20000 records sent" in output


@pytest.mark.parametrize("codec", CODECS)
def test_the_dump_tool_finds_our_segments_sound(cluster: LocalCluster, servers: str, codec: str) -> None:
    topic = make_topic(servers, f"tools-dump-{codec}", *["--partitions", "1", "--replication-factor", "3"])
    sent = [Record(b"key%d" % number, b"value %d " % number * 20, (("h", b"v"),)) for number in range(200)]
    CLIENTS[0].produce(servers, topic, sent, codec=codec)
    for broker in cluster.brokers.values():
        segment = broker.log_dir / f"{topic}-0" / ("0" * 20 + ".log")
        output = run_tool("kafka-dump-log", "--print-data-log", "--deep-iteration", "--files", str(segment))
        offsets = [int(number) for number in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        assert offsets == list(range(200)), broker.id
        assert set(re.findall(r"isvalid: (\w+)", output)) == {"true"}
        assert set(re.findall(r"compresscodec: (\w+)", output)) == {codec}
        assert "payload: value 199 " in output


def test_the_dump_tool_finds_our_indexes_sound_after_a_clean_stop(cluster: LocalCluster, servers: str) -> None:
    settings = ("--config", "index.interval.bytes=200", "--config", "segment.bytes=20000")
    topic = make_topic(servers, "tools-indexes", "--partitions", "1", "--replication-factor", "3", *settings)
    for _ in range(40):
        CLIENTS[0].produce(servers, topic, [Record(b"k", b"v" * 300) for _ in range(5)])
    cluster.stop(3)
    try:
        folder = cluster.broker(3).log_dir / f"{topic}-0"
        files = sorted(path for path in folder.iterdir() if path.suffix in (".index", ".timeindex", ".log"))
        assert len(files) >= 9, "three segments at least"
        output = run_tool("kafka-dump-log", "--index-sanity-check", "--files", ",".join(map(str, files)))
        assert "Mismatches" not in output and "not passed" not in output and "non-consecutive" not in output
        output = run_tool("kafka-dump-log", "--verify-index-only", "--files", ",".join(map(str, files)))
        assert "Mismatches" not in output
    finally:
        cluster.start_broker(3)
