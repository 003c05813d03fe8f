"""Our faces of Kafka's console, performance and dump tools, of zookeeper-shell, and what starting them costs, beside Apache Kafka's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.local.cluster import LocalCluster
from tests.peers.apache_kafka import fetch
from tests.peers.face_server import our_command, run_ours
from tests.peers.tool_comparison import Comparison
from tests.peers.tool_server import shared_tools

pytestmark = pytest.mark.peer

USAGE = [
    "kafka-console-producer",
    "kafka-console-producer --help",
    "kafka-console-producer --version",
    "kafka-console-producer @",
    "kafka-console-producer --topic x",
    "kafka-console-producer --bogus",
    "kafka-console-producer --bootstrap-server nonsense --topic x",
    "kafka-console-producer @ --topic x --batch-size x",
    "kafka-console-producer @ --topic x --line-reader foo",
    "kafka-console-producer @ --topic x --property headers.delimiter=, --property headers.separator=,",
    "kafka-console-producer @ --topic x --property key.separator=- --property null.marker=-",
    "kafka-console-consumer",
    "kafka-console-consumer --help",
    "kafka-console-consumer --version",
    "kafka-console-consumer @",
    "kafka-console-consumer --topic x",
    "kafka-console-consumer @ --topic x --include y",
    "kafka-console-consumer @ --whitelist x --topic y",
    "kafka-console-consumer @ --include y --partition 0",
    "kafka-console-consumer @ --topic x --partition 0 --from-beginning --offset 1",
    "kafka-console-consumer @ --topic x --offset 1",
    "kafka-console-consumer @ --topic x --partition 0 --offset foo",
    "kafka-console-consumer @ --topic x --group a --consumer-property group.id=b",
    "kafka-console-consumer @ --topic x --group a --partition 0",
    "kafka-console-consumer @ --topic x --from-beginning --consumer-property auto.offset.reset=latest",
    "kafka-console-consumer @ --topic x --formatter foo.Bar",
    "kafka-console-consumer --bogus",
    "kafka-console-consumer --bootstrap-server nonsense --topic x",
    "kafka-console-consumer --bootstrap-server 127.0.0.1:1 --topic x --timeout-ms 500",
    "kafka-consumer-perf-test",
    "kafka-consumer-perf-test --help",
    "kafka-consumer-perf-test --topic x",
    "kafka-consumer-perf-test --bogus",
    "kafka-consumer-perf-test @ --topic x",
    "kafka-consumer-perf-test @ --topic x --messages a",
    "kafka-consumer-perf-test --topic x --messages 1 --bootstrap-server nonsense",
    "kafka-producer-perf-test",
    "kafka-producer-perf-test -h",
    "kafka-producer-perf-test --topic",
    "kafka-producer-perf-test --topic x",
    "kafka-producer-perf-test --bogus",
    "kafka-producer-perf-test --topic x --num-records 1 --throughput 1",
    "kafka-producer-perf-test --topic x --num-records a --throughput 1 --record-size 1",
    "kafka-producer-perf-test --topic x --num-records 1 --throughput 1 --record-size 1 --payload-monotonic",
    "kafka-producer-perf-test --topic x --num-records 1 --throughput 1 --record-size 1",
    "kafka-producer-perf-test --topic x --num-records 1 --throughput 1 --record-size 1 --producer-props a",
    "kafka-producer-perf-test --topic x --num-records 1 --throughput 1 --record-size 1 stray",
    "kafka-producer-perf-test --producer-props",
    "kafka-dump-log",
    "kafka-dump-log --help",
    "kafka-dump-log --version",
    "kafka-dump-log --deep-iteration",
    "kafka-dump-log --bogus",
    "kafka-dump-log --files /nowhere/0.log",
    "kafka-dump-log --files /nowhere/x.foo",
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    fetch()  # before any process is started: without Maven there is nothing to do
    with LocalCluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def tools(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return Comparison(shared_tools(), cluster.bootstrap_servers, tmp_path_factory.mktemp("legacy"))


def _measured(text: str) -> str:
    """Without figures, times, and argparse4j's way to fill lines."""
    if "error:" in text:
        text = re.sub(r"\s+", "", text)
    text = re.sub(r"perf-consumer-\d+", "perf-consumer-N", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", "TIME", text)
    text = re.sub(r"\d+\.\d+", "F", text)
    text = re.sub(r"\b\d+ ms\b", "N ms", text)
    return re.sub(r" {2,}", " ", re.sub(r"F, -?\d+, -?\d+, ", "F, N, N, ", text))


@pytest.mark.parametrize("command", USAGE)
def test_usage(tools: Comparison, command: str) -> None:
    name, *arguments = command.split()
    tools.same(name, *arguments, mask=_measured if "perf" in name else str)


@pytest.fixture(scope="module")
def lines(tools: Comparison) -> str:
    """A topic for each of the two with records of all kinds, made by the two console producers."""
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-p")

    def produce(stdin: str, *arguments: str) -> None:
        tools.same("kafka-console-producer", "@", "--topic", "WHO-p", *arguments, stdin=stdin)

    headers = ("--property", "parse.headers=true")
    keys = ("--property", "parse.key=true")
    produce("a\nb\n\nc")
    produce("k1\tv1\nk2\tv2\n", *keys)
    produce("k1\tv1\nno key\n", *keys)
    produce("k1\tv1\nno key\n", *keys, "--property", "ignore.error=true")
    produce(
        "a:1,b:NULL|v\nNULL|NULL\n", *headers, "--property", "headers.delimiter=|", "--property", "null.marker=NULL"
    )
    produce("h\tv\n", *headers)
    produce("a:1\nb:2:3\n", *keys, "--property", "key.separator=:", "--compression-codec", "--sync")
    produce("z\r\ny\rx\n", "--compression-codec", "zstd", "--request-required-acks", "1")
    return "WHO-p"


PRINTED = [
    [],
    ["--max-messages", "3"],
    ["--max-messages", "0"],
    ["--property", "print.key=true"],
    [
        *("--property", "print.key=true", "--property", "print.headers=true", "--property", "print.offset=true"),
        *("--property", "print.partition=true", "--property", "key.separator=|", "--property", "line.separator=#"),
        *("--property", "null.literal=-", "--property", "headers.separator=;"),
    ],
    ["--property", "print.value=false", "--property", "print.offset=true"],
    [
        *("--property", "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"),
        *("--max-messages", "2", "--skip-message-on-error"),
    ],
    ["--formatter", "kafka.tools.NoOpMessageFormatter"],
    ["--value-deserializer", "org.apache.kafka.common.serialization.StringDeserializer"],
    ["--enable-systest-events", "--max-messages", "1"],
    ["--isolation-level", "read_committed", "--max-messages", "4"],
]


@pytest.fixture(scope="module")
def count(tools: Comparison, lines: str) -> int:
    """How many records either topic has."""
    where = ("--bootstrap-server", tools.servers, "--topic", lines.replace("WHO", "jvmone"))
    return int(tools.apache.run("kafka-get-offsets", *where).stdout.rpartition(":")[2])


@pytest.mark.parametrize("arguments", PRINTED, ids=lambda arguments: " ".join(arguments)[:40] or "plain")
def test_the_console_consumer_prints_records(tools: Comparison, lines: str, count: int, arguments: list[str]) -> None:
    # With nothing else that ends it, it waits for more records until the time is over.
    until = ["--max-messages", str(count)] if arguments and "--max-messages" not in arguments else []
    given = ("--topic", lines, "--from-beginning", "--timeout-ms", "5000", *arguments, *until)
    tools.same("kafka-console-consumer", "@", *given)


def test_the_console_consumer_begins_where_it_is_told_to(tools: Comparison, lines: str) -> None:
    def consume(*arguments: str) -> str:
        return tools.same("kafka-console-consumer", "@", "--property", "print.offset=true", *arguments)

    one = ("--topic", lines, "--partition", "0")
    assert consume(*one, "--offset", "2", "--max-messages", "2").startswith("Offset:2\t")
    consume(*one, "--offset", "earliest", "--max-messages", "2")
    consume(*one, "--timeout-ms", "500")
    consume("--include", "WHO-.*", "--from-beginning", "--timeout-ms", "1000")
    group = ("--group", "WHO-group", "--from-beginning", "--timeout-ms", "1000")
    consume("--whitelist", lines, *group, "--max-messages", "2")
    assert consume("--topic", lines, *group).startswith("Offset:2\t"), "goes on behind what was consumed"


@pytest.mark.parametrize(
    "formatter",
    [
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
        "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
    ],
)
def test_the_records_of_groups_are_shown(tools: Comparison, lines: str, formatter: str) -> None:
    whole = ("--topic", lines, "--group", "shown", "--from-beginning", "--max-messages", "4")
    run_ours(
        "kafka-console-consumer",
        "--bootstrap-server",
        tools.servers,
        *[each.replace("WHO", "pytwoo") for each in whole],
    )
    topic = ("--topic", "__consumer_offsets", "--partition", str(_partition_of("shown")), "--offset", "earliest")
    shown = tools.same("kafka-console-consumer", "@", *topic, "--timeout-ms", "2000", "--formatter", formatter)
    assert "shown" in shown


def _partition_of(group_id: str) -> int:
    """Java's `String.hashCode`, without its sign, over 50 partitions."""
    code = 0
    for each in group_id:
        code = (code * 31 + ord(each)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % 50


def test_bytes_go_through_the_console_unharmed(tools: Comparison) -> None:
    """Ours only: Java's tools make text of everything."""
    payload = bytes(each for each in range(256) if each not in (0x0A, 0x0D)) + b"\n"
    where = ("--bootstrap-server", tools.servers, "--topic", "binary")
    sent = subprocess.run(our_command("kafka-console-producer", *where), input=payload * 50, timeout=60)
    assert sent.returncode == 0
    command = our_command("kafka-console-consumer", *where, "--from-beginning", "--max-messages", "50")
    read = subprocess.run(command, capture_output=True, timeout=60)
    assert read.stdout == payload * 50
    assert read.stderr.endswith(b"Processed a total of 50 messages\n")


def test_performance_tools(tools: Comparison) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-perf")

    def produce(*arguments: str) -> str:
        given = ("--topic", "WHO-perf", "--producer-props", f"bootstrap.servers={tools.servers}", "acks=1")
        return tools.same("kafka-producer-perf-test", *arguments, *given, mask=_measured)

    free = ("--num-records", "200", "--throughput", "-1")
    assert "200 records sent, F records/sec (F MB/sec), F ms avg latency" in produce(*free, "--record-size", "100")
    produce(*free, "--payload-monotonic")
    produce(*free, "--payload-file", tools.file("a\nbb\n"))
    produce("--num-records", "60", "--throughput", "30", "--record-size", "10")

    def consume(*arguments: str) -> str:
        return tools.same("kafka-consumer-perf-test", "@", "--topic", "WHO-perf", *arguments, mask=_measured)

    assert "TIME, TIME, F, F, 660, F, N, N, F, F" in consume("--messages", "660")
    consume("--messages", "660", "--hide-header", "--threads", "2")
    consume("--messages", "660", "--date-format", "yyyy")
    consume("--messages", "661", "--timeout", "5000")
    consume("--messages", "661", "--timeout", "5000", "--show-detailed-stats", "--reporting-interval", "60000")
    consume("--messages", "660", "--show-detailed-stats", "--reporting-interval", "0")


def test_files_are_dumped(tools: Comparison, cluster: LocalCluster, lines: str, tmp_path: Path) -> None:
    run_ours(
        "kafka-console-consumer",
        "--bootstrap-server",
        tools.servers,
        "--topic",
        "jvmone-p",
        "--max-messages",
        "1",
        "--from-beginning",
        "--group",
        "dumped",
    )
    cluster.stop(1)  # indexes are cut to their sizes, and producers' states written
    try:
        folder = cluster.broker(1).log_dir
        files = sorted(
            each
            for each in (folder / "jvmone-p-0").iterdir()
            if each.suffix in (".log", ".index", ".timeindex", ".snapshot")
        )
        assert {each.suffix for each in files} == {".log", ".index", ".timeindex", ".snapshot"}

        def dump(path: Path, *arguments: str) -> str:
            return tools.same("kafka-dump-log", "--files", str(path), *arguments)

        for each in files:
            dump(each)
            ways = (
                ("--print-data-log", "--deep-iteration")
                if each.suffix == ".log"
                else ("--index-sanity-check", "--verify-index-only")
            )
            for way in ways:
                dump(each, way)
        segment = next(each for each in files if each.suffix == ".log")
        assert "| offset: 4 CreateTime: " in dump(segment, "--print-data-log")
        dump(segment, "--print-data-log", "--skip-record-metadata")
        dump(segment, "--max-bytes", "200")
        dump(segment, "--value-decoder-class", "kafka.serializer.StringDecoder")
        dump(segment, "--value-decoder-class", "foo.Bar")
        dump(Path(f"{segment},{segment}"))
        written = [each for each in folder.glob("__consumer_offsets-*/*.log") if each.stat().st_size]
        decoded = [dump(each, "--offsets-decoder") for each in written]
        assert any('{"type":"2","data":{"group":"dumped"}}' in each for each in decoded)
        assert any('{"group":"dumped","topic":"jvmone-p","partition":0}' in each for each in decoded)
        damaged = tmp_path / segment.name
        damaged.write_bytes(segment.read_bytes() + b"garbage")
        assert "Found 7 invalid bytes at the end" in dump(damaged)
    finally:
        cluster.start_broker(1)


@pytest.mark.parametrize(
    "command",
    [
        "ls /",
        "ls /brokers/ids",
        "ls -s /brokers/ids",
        "get /brokers/ids/1",
        "get /brokers/ids",
        "get -s /controller_epoch",
        "stat /controller",
        "ls /nope",
        "get /nope",
        "stat /nope",
        "getAcl /brokers",
        "getAllChildrenNumber /brokers",
        "bogus",
        "ls",
        "ls -x /",
        "ls /x/",
        "set /x",
        "create noslash",
        "sync /",
    ],
)
def test_zookeeper_shell_reads(tools: Comparison, cluster: LocalCluster, command: str) -> None:
    tools.same("zookeeper-shell", cluster.zookeeper_connect, *command.split(), mask=_without_events)


def test_zookeeper_shell_writes(tools: Comparison, cluster: LocalCluster) -> None:
    for command in (
        "create /WHO hello",
        "create /WHO x",
        "create -s /WHO/seq x",
        "set /WHO data",
        "get /WHO",
        "set -v 99 /WHO d",
        "ls -R /WHO",
        "delete /WHO",
        "delete -v 9 /WHO/seq0000000000",
        "deleteall /WHO",
        "delete /WHO",
    ):
        tools.same("zookeeper-shell", cluster.zookeeper_connect, *command.split(), mask=_without_events)
    stdin = "ls /brokers/ids\nbogus\n\nget /nope\nls /consumers\nquit\n"
    tools.same("zookeeper-shell", cluster.zookeeper_connect, stdin=stdin, mask=_without_events)


def _without_events(text: str) -> str:
    """Java's shell prints them from another thread, whenever they come, between other lines or cut off by the end."""
    events = ("WATCHER::", "WatchedEvent state:")
    return "\n".join(line for line in text.split("\n") if line and not line.startswith(events))


def test_zookeeper_instead_of_brokers(cluster: LocalCluster, tools: Comparison, tmp_path: Path) -> None:
    """What 2.8 had, and 3.9 has no more, for topics and leaders; what it wrote is seen over the brokers."""
    zookeeper = ("--zookeeper", cluster.zookeeper_connect)

    def topics(*arguments: str) -> str:
        done = run_ours("kafka-topics", *zookeeper, *arguments)
        return done.stdout + done.stderr

    created = topics(
        "--create", "--topic", "old", "--partitions", "2", "--replication-factor", "1", "--config", "flush.ms=9"
    )
    assert created == "Created topic old.\n"
    assert "Topic 'old' already exists." in topics(
        "--create", "--topic", "old", "--partitions", "1", "--replication-factor", "1"
    )
    over_brokers = tools.apache.run(
        "kafka-topics", "--bootstrap-server", tools.servers, "--describe", "--topic", "old"
    ).stdout
    assert over_brokers.replace("\tElr: N/A\tLastKnownElr: N/A", "") == topics("--describe", "--topic", "old")
    assert "Adding partitions succeeded!" in topics("--alter", "--topic", "old", "--partitions", "3")
    assert "old" in topics("--list").split()
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions":[{"topic":"old","partition":0,"replicas":[1]}]}')
    moved = run_ours("kafka-reassign-partitions", *zookeeper, "--execute", "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment for old-0" in moved.stdout
    elected = run_ours("kafka-preferred-replica-election", *zookeeper)
    assert "Successfully started preferred replica election for partitions" in elected.stdout
    scram = ("--entity-type", "users", "--entity-name", "ann")
    run_ours(
        "kafka-configs", *zookeeper, "--alter", *scram, "--add-config", "SCRAM-SHA-512=[iterations=5000,password=p]"
    )
    shown = tools.apache.run("kafka-configs", *zookeeper, "--describe", *scram).stdout
    assert re.search(r"SCRAM-SHA-512=salt=\S+,stored_key=\S+,server_key=\S+,iterations=5000", shown)
    for wrong in ("x", "[iterations=,password=p]", "[iterations=-1,password=p]", "[iterations=5,password=p]"):
        tools.same("kafka-configs", *zookeeper, "--alter", *scram, "--add-config", f"SCRAM-SHA-512={wrong}")
    assert "Topic old is marked for deletion." in topics("--delete", "--topic", "old")
