"""Our faces of Kafka's administrative tools print what Apache Kafka's print, for the same cluster and the same command lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from kafkalite.client import SyncProducer
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.peers.admin_usage import USAGE
from tests.peers.apache_kafka import fetch
from tests.peers.face_server import run_ours
from tests.peers.tool_comparison import Comparison
from tests.peers.tool_server import shared_tools

pytestmark = pytest.mark.peer

_MOVE_TIMEOUT_S = 30.0
NOWHERE = ("--bootstrap-server", "127.0.0.1:1", "--command-config")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    fetch()  # before any process is started: without Maven there is nothing to do
    with LocalCluster(brokers=3, properties={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def tools(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return Comparison(shared_tools(), cluster.bootstrap_servers, tmp_path_factory.mktemp("legacy"))


@pytest.fixture(scope="module")
def records(tools: Comparison) -> list[str]:
    """Two topics with records in one partition of each, made by Apache Kafka."""
    for topic in ("data", "data2"):
        tools.apache.run(
            "kafka-topics",
            *("--bootstrap-server", tools.servers, "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1"),
        )
        lines = "".join(f"value {number}\n" for number in range(20))
        tools.apache.run("kafka-console-producer", "--bootstrap-server", tools.servers, "--topic", topic, stdin=lines)
    return ["data", "data2"]


@pytest.fixture(scope="module")
def impatient(tools: Comparison) -> str:
    """A file of settings that give up on a cluster soon."""
    return tools.file("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")


@pytest.mark.parametrize("command", USAGE)
def test_usage(tools: Comparison, records: list[str], command: str) -> None:
    name, *arguments = command.split()
    tools.same(name, *arguments)


@pytest.mark.parametrize(
    "command",
    [
        "kafka-topics --list",
        "kafka-topics --create --topic x",
        "kafka-topics --describe",
        "kafka-topics --delete --topic x",
        "kafka-topics --alter --topic x --partitions 3",
        "kafka-configs --describe --topic x",
        "kafka-configs --describe --entity-type topics",
        "kafka-configs --alter --client x --add-config producer_byte_rate=1",
        "kafka-consumer-groups --list",
        "kafka-consumer-groups --describe --group x",
        "kafka-consumer-groups --delete --group x",
        "kafka-get-offsets",
        "kafka-log-dirs --describe",
        "kafka-reassign-partitions --list",
    ],
)
def test_a_cluster_that_is_not_there(tools: Comparison, impatient: str, command: str) -> None:
    name, *arguments = command.split()
    limit = ["--timeout", "1500"] if name == "kafka-consumer-groups" else []
    tools.same(name, *NOWHERE, impatient, *arguments, *limit)


def test_topics_come_to_be(tools: Comparison) -> None:
    def create(*arguments: str) -> str:
        return tools.same("kafka-topics", "@", "--create", "--topic", *arguments)

    overrides = ("--config", "retention.ms=86400000", "--config", "cleanup.policy=compact,delete")
    assert "Created topic WHO-a." in create("WHO-a", "--partitions", "3", "--replication-factor", "2", *overrides)
    assert "already exists" in create("WHO-a")
    create("WHO-a", "--if-not-exists")
    create("WHO-h", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    create("WHO.dot", "--replica-assignment", "3")
    assert "collides" in create("WHO_dot")
    for wrong in ("abc", "0"):
        create("WHO-x", "--partitions", wrong)
    for wrong in ("0", "4", "99999"):
        create("WHO-x", "--replication-factor", wrong)
    for wrong in ("1:1", "1:2,1", "1,x"):
        create("WHO-x", "--replica-assignment", wrong)
    for wrong in ("no.such=1", "retention.ms=soon", "retention.ms", "cleanup.policy=shred", "min.insync.replicas=0"):
        create("WHO-x", "--config", wrong)
    create("bad name WHO")
    create("WHO-x", "--topic", "WHO-y")


def test_topics_are_listed_and_described(tools: Comparison, records: list[str]) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-d", "--replica-assignment", "1:2,2:3")
    tools.same("kafka-topics", "@", "--list", "--topic", "WHO-d|nothing", settles=True)
    for arguments in (["--topic", "nothere"], ["--topic", "(("], ["--exclude-internal", "--topic", "dat.*"]):
        tools.same("kafka-topics", "@", "--list", *arguments)
    described = tools.same("kafka-topics", "@", "--describe", "--topic", "WHO-d", settles=True)
    assert "Leader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: N/A" in described
    for arguments in (
        ["--topic", "data,data2"],
        ["--topics-with-overrides"],
        ["--at-min-isr-partitions", "--topic", "dat.*"],
        ["--under-min-isr-partitions"],
        ["--unavailable-partitions"],
        ["--topic", "absent"],
        ["--topic", "absent", "--if-exists"],
        ["--topic-id", "xxx"],
        ["--topic-id", "pT5GW6kOQNmPfY8tQYvYaQ"],
        ["--topic", "x", "--topic-id", "pT5GW6kOQNmPfY8tQYvYaQ", "--if-exists"],
    ):
        tools.same("kafka-topics", "@", "--describe", *arguments, unordered=True)


def test_topics_grow_and_go(tools: Comparison) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-g", "--replica-assignment", "1:2,2:3")

    def alter(*arguments: str) -> str:
        return tools.same("kafka-topics", "@", "--alter", "--topic", *arguments)

    alter("WHO-g", "--partitions", "4", "--replica-assignment", "1:2,2:3,3:1,1:3")
    tools.same("kafka-topics", "@", "--describe", "--topic", "WHO-g", settles=True)
    assert "higher than the requested" in alter("WHO-g", "--partitions", "3")
    alter("WHO-g", "--partitions", "6", "--replica-assignment", "1,2,3,1,2")
    alter("absent", "--partitions", "4")
    alter("absent", "--partitions", "4", "--if-exists")
    tools.same("kafka-topics", "@", "--delete", "--topic", "absent")
    tools.same("kafka-topics", "@", "--delete", "--topic", "absent", "--if-exists")
    tools.same("kafka-topics", "@", "--delete", "--topic", "WHO-.*g")
    tools.same("kafka-topics", "@", "--list", "--topic", "WHO-.*g", settles=True)


def test_settings_of_topics(tools: Comparison) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-c", "--replica-assignment", "1:2")

    def alter(*arguments: str, topic: str = "WHO-c") -> str:
        return tools.same("kafka-configs", "@", "--alter", "--topic", topic, *arguments)

    alter("--add-config", "retention.ms=1000000,segment.bytes=1048576,cleanup.policy=[compact,delete]")
    shown = tools.same("kafka-configs", "@", "--describe", "--topic", "WHO-c", settles=True)
    assert "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG" in shown
    alter("--delete-config", "segment.bytes,cleanup.policy")
    tools.same("kafka-configs", "@", "--describe", "--topic", "WHO-c", "--all", settles=True)
    alter("--delete-config", "segment.bytes")
    for wrong in ("retention.ms=soon", "cleanup.policy=shred", "no.such.setting=1", "novalue", "a b=1"):
        alter("--add-config", wrong)
    alter("--add-config", "retention.ms=1", topic="absent")
    alter("--add-config", "retention.ms=1", topic="bad name")
    alter("--add-config-file", tools.file("flush.ms=7\nretention.ms=8\n"))
    alter("--add-config-file", "/nowhere")
    tools.same("kafka-configs", "@", "--describe", "--entity-type", "topics", "--entity-name", "WHO-c", settles=True)
    tools.same("kafka-configs", "@", "--describe", "--topic", "absent")


def test_settings_of_brokers(tools: Comparison, impatient: str) -> None:
    def configs(*arguments: str) -> str:
        return tools.same("kafka-configs", "@", *arguments, settles="--describe" in arguments)

    configs("--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2,max.connections.per.ip=500")
    configs("--describe", "--broker", "1")
    configs("--alter", "--broker-defaults", "--add-config", "log.retention.ms=777777777")
    configs("--describe", "--broker-defaults")
    configs("--describe", "--entity-type", "brokers")
    configs("--describe", "--broker", "1", "--all")
    for wrong in ("log.segment.bytes=abc", "log.dirs=/elsewhere"):
        configs("--alter", "--broker", "1", "--add-config", wrong)
    configs("--alter", "--broker", "1", "--delete-config", "nothere")
    configs("--alter", "--broker", "9", "--add-config", "log.cleaner.threads=2", "--command-config", impatient)


def test_quotas(tools: Comparison) -> None:
    def configs(*arguments: str) -> str:
        return tools.same(
            "kafka-configs", "@", *arguments, unordered=True, mask=_values_in_order, settles="--describe" in arguments
        )

    for entity, quota in (
        (["--client", "WHO"], "producer_byte_rate=1000000"),
        (["--entity-type", "clients", "--entity-default"], "consumer_byte_rate=20000000"),
        (["--user", "WHO"], "producer_byte_rate=5,request_percentage=50"),
        (["--user", "WHO", "--client", "WHO"], "consumer_byte_rate=0.0005"),
        (["--ip", "127.0.0.1"], "connection_creation_rate=10"),
    ):
        configs("--alter", *entity, "--add-config", quota)
        configs("--describe", *entity)
    configs("--describe", "--entity-type", "ips")
    configs("--describe", "--user-defaults")
    configs(
        "--describe", "--entity-type", "users", "--entity-name", "WHO", "--entity-type", "clients", "--entity-default"
    )
    for wrong in ("foo=1", "producer_byte_rate=x", "SCRAM-SHA-256=[password=x]"):
        configs("--alter", "--client", "WHO", "--add-config", wrong)
    for gone in ("consumer_byte_rate", "producer_byte_rate"):
        configs("--alter", "--client", "WHO", "--delete-config", gone)
    configs("--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=x]")
    configs("--alter", "--user", "WHO", "--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=1")
    configs(
        "--alter", "--entity-type", "users", "--entity-type", "clients", "--entity-name", "WHO", "--add-config", "a=1"
    )
    configs("--alter", "--ip", "127.0.0.1", "--add-config", "foo=1")
    configs("--alter", "--ip", "no.such.invalid", "--add-config", "connection_creation_rate=10")


def test_credentials_of_users(tools: Comparison) -> None:
    def configs(*arguments: str) -> str:
        return tools.same(
            "kafka-configs", "@", *arguments, unordered=True, mask=_values_in_order, settles="--describe" in arguments
        )

    described = ("--describe", "--entity-type", "users")
    user = ("--entity-type", "users", "--entity-name", "WHO-u")
    configs("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=y]")
    configs(*described, "--entity-name", "WHO-u")
    configs("--alter", *user, "--add-config", "producer_byte_rate=7")
    configs("--describe", "--user", "WHO-u")
    configs(*described)
    configs(*described, "--entity-name", "WHO-nobody")
    configs("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=-1,password=x]")
    for wrong in (
        "SCRAM-SHA-256=[iterations=4095,password=x]",
        "SCRAM-SHA-256=[iterations=16385,password=x]",
        "SCRAM-SHA-256=[iterations=8192]",
        "SCRAM-SHA-256=[iterations=,password=x]",
        "SCRAM-SHA-256=[iterations=-2,password=x]",
        "SCRAM-SHA-256=x",
    ):
        configs("--alter", *user, "--add-config", wrong)
    for gone in ("SCRAM-SHA-256", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        configs("--alter", *user, "--delete-config", gone)
    configs("--describe", "--user", "WHO-u")
    configs("--alter", *user, "--delete-config", "producer_byte_rate")


def _values_in_order(text: str) -> str:
    """Kafka lists quotas in the order of a hash map."""
    return re.sub(r"(?<= are )(.+)", lambda match: ", ".join(sorted(match[1].split(", "))), text)


def test_offsets_by_time(tools: Comparison, records: list[str]) -> None:
    for arguments in (
        ["--topic", "data"],
        ["--topic", "data2?", "--time", "earliest"],
        ["--topic", "data", "--time", "-3"],
        ["--topic", "data", "--time", "0"],
        ["--topic", "data", "--time", "99999999999999"],
        ["--topic", "data", "--time", "-4"],
        ["--topic", "data", "--time", "-5"],
        ["--topic", "absent"],
        ["--topic", "da.*", "--partitions", "1,2"],
        ["--topic-partitions", "data:1,data2:0-1"],
        ["--topic-partitions", "data:1-,data2:-1"],
        ["--exclude-internal-topics", "--topic", "data"],
    ):
        tools.same("kafka-get-offsets", "@", *arguments)


def test_records_are_deleted(tools: Comparison) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-r", "--replica-assignment", "1:2")
    tools.for_each("kafka-console-producer", "@", "--topic", "WHO-r", stdin="".join(f"{n}\n" for n in range(9)))

    def delete(document: str) -> str:
        return tools.same("kafka-delete-records", "@", "--offset-json-file", tools.file(document), unordered=True)

    def until(*offsets: tuple[int, int]) -> str:
        entries = [{"topic": "WHO-r", "partition": partition, "offset": offset} for partition, offset in offsets]
        return json.dumps({"partitions": entries, "version": 1})

    delete(until((0, 3)))
    delete(until((0, -1)))
    delete(until((0, 1000)))
    for wrong in (
        "x",
        "{}",
        "[]",
        '{"partitions":[]}',
        '{"partitions":{}}',
        '{"version":2,"partitions":[]}',
        '{"partitions":[{"topic":"WHO-r","partition":0}]}',
        '{"partitions":[{"topic":"WHO-r","partition":"0","offset":1}]}',
        until((0, 1), (0, 2)),
    ):
        delete(wrong)


def test_log_directories(tools: Comparison, records: list[str]) -> None:
    for arguments in (
        ["--topic-list", "data"],
        ["--broker-list", "2", "--topic-list", "data,data2"],
        ["--topic-list", "-"],
    ):
        tools.same("kafka-log-dirs", "@", "--describe", *arguments, mask=_sorted_partitions)


def _sorted_partitions(text: str) -> str:
    """Kafka lists partitions in the order of a hash map."""

    def in_order(match: re.Match[str]) -> str:
        document = json.loads(match[0])
        for broker in document["brokers"]:
            for directory in broker["logDirs"]:
                directory["partitions"].sort(key=lambda each: each["partition"])
        return json.dumps(document)

    return re.sub(r'^\{"brokers".*$', in_order, text, flags=re.MULTILINE)


def test_leaders_are_elected(tools: Comparison, records: list[str]) -> None:
    def elect(*arguments: str) -> str:
        return tools.same("kafka-leader-election", "@", "--election-type", *arguments, unordered=True)

    assert "Valid replica already elected" in elect("preferred", "--topic", "data", "--partition", "0")
    elect("UNCLEAN", "--topic", "data", "--partition", "0")
    elect("preferred", "--topic", "data", "--partition", "9")
    elect("preferred", "--topic", "absent", "--partition", "0")
    elect("preferred", "--topic", "data", "--partition", "x")
    for document in (
        _partitions_of("data", "absent"),
        _partitions_of("data", "data"),
        '{"partitions":[{"topic":"data"}]}',
        "{}",
        "x",
    ):
        elect("preferred", "--path-to-json-file", tools.file(document))


def _partitions_of(*topics: str) -> str:
    return json.dumps({"partitions": [{"topic": topic, "partition": 0} for topic in topics]})


def test_partitions_are_moved(tools: Comparison) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-m", "--replica-assignment", "1:2,2:3")

    def reassign(action: str, plan: str, *arguments: str, settles: bool = False) -> str:
        given = ["@", action, "--reassignment-json-file", plan, *arguments]
        return tools.same("kafka-reassign-partitions", *given, settles=settles, between=nothing_moves)

    def nothing_moves() -> None:
        wait_until(lambda: not _moving(tools.servers), "what the one tool moved has arrived", _MOVE_TIMEOUT_S)

    tools.same("kafka-reassign-partitions", "@", "--list")
    there = tools.file(_plan([2, 3], [3, 1]))
    back = tools.file(_plan([1, 2], [2, 3]))
    reassign("--verify", there)
    assert "Successfully started partition reassignments for WHO-m-0,WHO-m-1" in reassign("--execute", there)
    reassign("--verify", there, settles=True)
    reassign("--verify", there, "--preserve-throttles")
    reassign("--cancel", there)
    reassign("--execute", back, "--throttle", "10000000")
    throttled = tools.same("kafka-configs", "@", "--describe", "--topic", "WHO-m", settles=True)
    assert "leader.replication.throttled.replicas=0:2,0:3,1:1,1:3" in throttled
    reassign("--verify", back, settles=True)
    tools.same("kafka-configs", "@", "--describe", "--topic", "WHO-m", settles=True)
    for wrong in (
        "{}",
        '{"version":2}',
        _plan([]),
        _plan([1, 1]),
        _plan([1, 9]),
        _plan([1], topic="absent"),
        '{"partitions":[{"topic":"WHO-m","partition":9,"replicas":[1]}]}',
        '{"partitions":[{"topic":"WHO-m","partition":0,"replicas":[1]},{"topic":"WHO-m","partition":0,"replicas":[1]}]}',
        '{"partitions":[{"topic":"WHO-m","partition":0,"replicas":[1],"log_dirs":["a","b"]}]}',
        '{"partitions":[{"topic":"WHO-m","partition":0}]}',
    ):
        reassign("--execute", tools.file(wrong))
    reassign("--verify", tools.file(_plan([1], topic="absent")))


def _moving(servers: str) -> str:
    """What `--list` tells of moves on the way; nothing when there are none."""
    listed = run_ours("kafka-reassign-partitions", "--bootstrap-server", servers, "--list").stdout
    return "" if listed.startswith("No partition reassignments found.") else listed


def _plan(*replicas: list[int], topic: str = "WHO-m") -> str:
    partitions = [{"topic": topic, "partition": n, "replicas": brokers} for n, brokers in enumerate(replicas)]
    return json.dumps({"version": 1, "partitions": partitions})


def test_moves_between_log_directories(tools: Comparison, cluster: LocalCluster) -> None:
    tools.for_each("kafka-topics", "@", "--create", "--topic", "WHO-l", "--replica-assignment", "1:2")
    for directory, wait in ((str(cluster.broker(1).log_dir), True), ("/nowhere", False)):
        entry = {"topic": "WHO-l", "partition": 0, "replicas": [1, 2], "log_dirs": [directory, "any"]}
        plan = tools.file(json.dumps({"partitions": [entry]}))
        for action in ("--execute", "--verify"):
            tools.same("kafka-reassign-partitions", "@", action, "--reassignment-json-file", plan, settles=wait)


def test_reassignments_are_generated(tools: Comparison, records: list[str]) -> None:
    def generate(document: str, brokers: str, *arguments: str) -> str:
        return tools.same(
            "kafka-reassign-partitions",
            *("@", "--generate", "--topics-to-move-json-file", tools.file(document), "--broker-list", brokers),
            *arguments,
            mask=_without_proposal,
        )

    wanted = '{"topics":[{"topic":"data"}],"version":1}'
    assert "Proposed partition reassignment configuration" in generate(wanted, "1,2,3")
    generate(wanted, "1,2,3", "--disable-rack-aware")
    for brokers in ("1", "1,1", "x"):
        generate(wanted, brokers)
    for wrong in ('{"topics":[{"topic":"absent"}]}', '{"topics":[{"topic":"data"},{"topic":"data"}]}', "x", "{}"):
        generate(wrong, "1,2")


def _without_proposal(text: str) -> str:
    """Which brokers are proposed is chance."""
    current, heading, proposed = text.partition("Proposed partition reassignment configuration")
    return current + heading + re.sub(r'"replicas":\[[\d,]+\]', '"replicas":[]', proposed)


def test_groups(tools: Comparison, records: list[str]) -> None:
    tools.for_each(
        "kafka-consumer-groups",
        *("@", "--reset-offsets", "--group", "WHO-g", "--topic", "data", "--to-latest", "--execute"),
    )

    def groups(*arguments: str) -> str:
        return tools.same("kafka-consumer-groups", "@", *arguments, unordered=True, mask=_rows_in_order)

    for arguments in ([], ["--state"], ["--state", "stable,empty"], ["--type"], ["--type", "consumer"]):
        groups("--list", *arguments)
    shown = groups("--describe", "--group", "WHO-g")
    assert re.search(r"WHO-g +data +1 +20 +20 +0 ", shown) or re.search(r"WHO-g +data +0 +20 +20 +0 ", shown)
    for arguments in (["--members"], ["--members", "--verbose"], ["--offsets", "--verbose"]):
        groups("--describe", "--group", "WHO-g", *arguments)
    for arguments in ([], ["--members"], ["--state"]):
        groups("--describe", "--group", "absent", *arguments)
    _compare_resets(tools)
    groups("--delete-offsets", "--group", "WHO-g", "--topic", "data:0", "--topic", "absent")
    groups("--delete-offsets", "--group", "absent", "--topic", "data")
    groups("--delete", "--group", "WHO-g", "--group", "absent")
    groups("--delete", "--group", "WHO-new")
    groups("--describe", "--group", "WHO-g", "--state")


def _compare_resets(tools: Comparison) -> None:
    def reset(*arguments: str) -> str:
        return tools.same("kafka-consumer-groups", "@", "--reset-offsets", "--group", *arguments, mask=_rows_in_order)

    for arguments in (
        ["--topic", "data", "--to-earliest"],
        ["--topic", "data", "--to-earliest", "--dry-run"],
        ["--topic", "data:0,1", "--shift-by", "-2", "--execute"],
        ["--all-topics", "--to-latest", "--dry-run"],
        ["--topic", "data:1", "--to-offset", "500", "--execute"],
        ["--topic", "data", "--to-current", "--dry-run"],
        ["--topic", "data", "--to-datetime", "2013-06-15T00:00:10.000Z", "--execute"],
        ["--topic", "data:0", "--to-datetime", "2093-06-15T00:00:10.000", "--dry-run"],
        ["--topic", "data", "--to-datetime", "2013-06-15", "--dry-run"],
        ["--topic", "data", "--to-datetime", "2013-06-15Tx", "--dry-run"],
        ["--topic", "data", "--by-duration", "P1D", "--dry-run"],
        ["--topic", "data:x", "--to-earliest", "--dry-run"],
        ["--topic", "data:", "--to-earliest", "--dry-run"],
        ["--to-earliest", "--dry-run"],
        ["--topic", "data", "--dry-run"],
        ["--topic", "absent", "--to-earliest", "--dry-run"],
        ["--from-file", "/nowhere", "--dry-run"],
        ["--from-file", tools.file("data,0,3\ndata,1,7\n"), "--execute"],
    ):
        reset("WHO-g", *arguments)
    reset("WHO-g", "--topic", "data:1", "--to-offset", "5", "--dry-run", "--export")
    reset("WHO-new", "--topic", "data", "--to-earliest", "--execute")
    reset("WHO-new", "--topic", "data2", "--shift-by", "1", "--execute")


def test_a_transaction_that_is_open(tools: Comparison, records: list[str]) -> None:
    with SyncProducer(bootstrap_servers=tools.servers, transactional_id="peer-open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_and_wait("data", b"open", partition=1)
        for command in (
            "list",
            "describe --transactional-id peer-open",
            "describe-producers --topic data --partition 1 --broker-id 3",
            "find-hanging --topic data --max-transaction-timeout -1",
        ):
            tools.same("kafka-transactions", "@", *command.split(), mask=_without_duration, settles=True)


def _without_duration(text: str) -> str:
    return re.sub(r"\t\d{1,7} +\tdata-1", "\tdata-1", text)


def _rows_in_order(text: str) -> str:
    """Kafka prints partitions in the order of a hash map, some tables in one line, and whoever coordinates the group."""
    text = re.sub(r"127\.0\.0\.1:\d+  \(\d\)", "COORDINATOR (0)", text)

    def in_order(match: re.Match[str]) -> str:
        return match[1] + "".join(sorted(re.findall(r"\S+ +\S+ +\d+ +\d+ *", match[2])))

    return re.sub(r"(GROUP +TOPIC +PARTITION +NEW-OFFSET *)(.*)", in_order, text)
