"""The commands against a scripted cluster: what they print where, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite import __version__
from kafkalite.cli.main import main
from kafkalite.client.record_codec import BatchWriter
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches import record_code
from kafkalite.types import TopicPartition
from tests.command_tree import all_commands
from tests.unit.client.fake_broker import TOPIC_ID, FakeCluster, values_in

T0 = TopicPartition("t", 0)
COMMANDS = (
    "acl",
    "broker",
    "cluster",
    "completion",
    "config",
    "console",
    "consume",
    "context",
    "doctor",
    "group",
    "leader",
    "log",
    "logdir",
    "migrate",
    "mirror",
    "offset",
    "partition",
    "perf",
    "produce",
    "record",
    "spark",
    "topic",
    "transaction",
    "zk",
)


def call(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


def test_no_list_of_commands_is_cut_at_80_columns() -> None:
    for group in sorted({path.rpartition(" ")[0] for path, _ in all_commands()}):
        shown = CliRunner().invoke(main, [*group.split(), "--help"], terminal_width=80).output
        commands = shown.partition("Commands:\n")[2].partition("\n\n")[0]
        assert commands and "..." not in commands, shown


@pytest.mark.parametrize(("is_compiled", "code"), [(True, "compiled code"), (False, "Python")])
def test_the_version_says_what_reads_and_writes_records(
    is_compiled: bool, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_code, "IS_COMPILED", is_compiled)
    assert call("--version").stdout.startswith(f"kafkalite, version {__version__}\nrecords by {code}")


def put(cluster: FakeCluster, tp: TopicPartition, *records: tuple[Any, ...]) -> None:
    writer = BatchWriter(1 << 20)
    for timestamp, key, value, headers in records:
        writer.append(timestamp, key, value, headers)
    cluster.append(tp, writer.build(0))


def test_help_lists_the_commands_and_imports_none() -> None:
    program = "import sys; from kafkalite.cli.main import main\n"
    program += "try: main(['--help'])\nexcept SystemExit: pass\n"
    program += "heavy = {'aiokafka', 'kazoo', 'rich', 'uvloop', 'kafkalite.client', 'asyncio'} & set(sys.modules)\n"
    program += "assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0 and "Usage:" in result.stdout


def test_usage_errors_are_2() -> None:
    assert call("nothing").exit_code == 2
    assert call("topic", "create").exit_code == 2
    assert call("topic", "create", "a", "-c", "novalue").exit_code == 2
    assert call("broker").exit_code == 2


def test_topics_in_every_shape(cluster: FakeCluster) -> None:
    assert call("topic", "list").stdout == "t\n"
    table = call("topic", "describe", "t").stdout.splitlines()
    assert table[0].startswith("TOPIC  PARTITION  LEADER  REPLICAS  ISR")
    assert table[2].split() == ["t", "1", "2", "1,2", "1,2", "-", "ok"]
    assert "LEADER EPOCH" in call("topic", "describe", "t", "-o", "wide").stdout
    (described,) = json.loads(call("topic", "describe", "-o", "json").stdout)
    assert described["name"] == "t" and [each["leader"] for each in described["partitions"]] == [1, 2]
    assert json.loads(call("topic", "list", "-o", "jsonl").stdout)["partitions"] == 2
    assert call("topic", "list", "-o", "csv").stdout.splitlines()[0].startswith("name,partitions,replication_factor")
    assert '- name: "t"' in call("topic", "list", "-o", "yaml").stdout


def test_exit_codes_tell_what_was_wrong(cluster: FakeCluster) -> None:
    missing = call("topic", "describe", "nope")
    assert missing.exit_code == 3 and missing.stdout == "" and "topic nope" in missing.stderr
    m = messages.create_topics_response
    exists = m.CreatableTopicResult(name="t", error_code=36, error_message="it is there")
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[exists]))
    result = call("topic", "create", "t")
    assert result.exit_code == 4 and "TOPIC_ALREADY_EXISTS" in result.stderr
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[exists]))
    assert call("topic", "create", "t", "--if-not-exists").exit_code == 0
    refused = m.CreatableTopicResult(name="u", error_code=29)
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[refused]))
    assert call("topic", "create", "u").exit_code == 6
    cluster.unreachable = {1, 2}
    away = call("topic", "list")
    assert away.exit_code == 5 and "fake:9001" in away.stderr


def test_topics_are_created_and_deleted(cluster: FakeCluster) -> None:
    m = messages.create_topics_response
    made = m.CreatableTopicResult(name="n", topic_id=TOPIC_ID, num_partitions=3, replication_factor=2)
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[made]))
    result = call("topic", "create", "n", "-p", "3", "-r", "2", "-c", "retention.ms=-1", "-o", "json")
    assert json.loads(result.stdout)[0]["num_partitions"] == 3
    (request,) = cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert request.topics[0].configs[0].name == "retention.ms"
    d = messages.delete_topics_response
    cluster.script[ApiKey.DELETE_TOPICS].append(d.DeleteTopicsResponse(responses=[d.DeletableTopicResult(name="n")]))
    assert call("topic", "delete", "n").exit_code == 2, "a script must say --yes"
    result = call("topic", "delete", "n", "--yes")
    assert result.exit_code == 0 and result.stdout == "" and "deleted n" in result.stderr


def test_settings_of_new_topics_have_units(cluster: FakeCluster) -> None:
    m = messages.create_topics_response
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[m.CreatableTopicResult(name="n")]))
    assert call("topic", "create", "n", "-c", "retention.ms=7d", "-c", "segment.bytes=64MiB").exit_code == 0
    (request,) = cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert [each.value for each in request.topics[0].configs] == ["604800000", "67108864"]
    refused = call("topic", "create", "n", "-c", "segment.bytes=64M")
    assert refused.exit_code == 2
    assert "Invalid value for --config: segment.bytes=64M: write 64MiB (of 1024) or 64MB (of 1000)" in refused.stderr


def test_a_time_that_the_broker_cannot_read_is_answered_with_how_to_write_it(cluster: FakeCluster) -> None:
    m = messages.create_topics_response
    told = "Invalid value soon for configuration retention.ms: Not a number of type LONG"
    invalid = m.CreatableTopicResult(name="n", error_code=40, error_message=told)
    cluster.script[ApiKey.CREATE_TOPICS].append(m.CreateTopicsResponse(topics=[invalid]))
    result = call("topic", "create", "n", "-c", "retention.ms=soon")
    remedy = "give a number (ms), or one with ms, s, m, h, d or w, as in 7d"
    assert result.exit_code == 1 and result.stderr.endswith(f"Not a number of type LONG [INVALID_CONFIG]; {remedy}\n")


def test_lines_become_records(cluster: FakeCluster) -> None:
    result = call("produce", "t", "-p", "0", stdin=b"one\n\nthree\r\n\xff\n")
    assert result.exit_code == 0 and result.stdout == "" and "4 records written" in result.stderr
    assert values_in(cluster, T0) == [b"one", b"", b"three\r", b"\xff"]


def test_keys_come_before_the_separator(cluster: FakeCluster) -> None:
    call("produce", "t", "-p", "0", "-K", ":", stdin=b"k:v:w\n")
    (line,) = call("consume", "t", "-e", "-o", "jsonl").stdout.splitlines()
    found = json.loads(line)
    assert (found["key"], found["value"]) == ("k", "v:w")
    result = call("produce", "t", "-p", "1", "-K", ":", stdin=b"k:v\nbad\n")
    assert result.exit_code == 1 and "line 2" in result.stderr
    assert values_in(cluster, TopicPartition("t", 1)) == [b"v"], "what came before the bad line is delivered"


def test_consume_and_produce_lose_nothing(cluster: FakeCluster) -> None:
    records: list[tuple[Any, ...]] = [
        (1, b"k", b"v", [("h", b"1"), ("h", None), ("h", b""), ("g", b"\xff\x00")]),
        (2, None, b"", []),
        (3, b"", None, []),
        (4, b"\xfe", b"\x00\xff", []),
        (5, "ключ".encode(), b'{"base64": "no"}', []),
        (6, b"k", b"two\nlines", []),
    ]
    put(cluster, T0, *records)
    lines = call("consume", "t", "-e", "-o", "jsonl").stdout
    cluster.topics["u"], cluster.leaders[TopicPartition("u", 0)] = 1, 1
    assert call("produce", "u", "-i", "jsonl", stdin=lines.encode()).exit_code == 0
    copied = [json.loads(line) for line in call("consume", "u", "-e", "-o", "jsonl").stdout.splitlines()]
    original = [json.loads(line) for line in lines.splitlines()]
    for old, new in zip(original, copied, strict=True):
        assert {**old, "topic": "u"} == new
    from kafkalite.client.record_reader import read_records
    from kafkalite.protocol.record_batches.records import BatchHeader

    found = [
        record
        for batch in cluster.logs[TopicPartition("u", 0)]
        for record in read_records(batch, BatchHeader.read(batch), "u", 0, 0)
    ]
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in found] == [tuple(each) for each in records]


def test_consume_shapes(cluster: FakeCluster) -> None:
    put(cluster, T0, (1356998400000, b"k", b"v", [("h", b"1")]), (1356998401000, None, b"\xff", []))
    assert call("consume", "t", "-e").stdout_bytes == b"v\n\xff\n"
    assert call("consume", "t", "-e", "-o", "table").stdout.splitlines()[0] == "0:0\t2013-01-01T00:00:00.000Z\tk\tv"
    assert len(json.loads(call("consume", "t", "-e", "-o", "json").stdout)) == 2
    template = r"%t %p %o %T %k %v %h %% %x\n"
    line = call("consume", "t", "-n", "1", "-f", template).stdout
    assert line == "t 0 0 1356998400000 k v h=1 % %x\n"


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (1371254400002000, "1371254400002000 ms"),
        (1371254400002000000, "1371254400002000000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (-1, "-"),
    ],
)
def test_consume_shows_records_of_any_time(cluster: FakeCluster, timestamp: int, shown: str) -> None:
    put(cluster, T0, (timestamp, b"k", b"v", []))
    put(cluster, T0, (1356998400000, b"k", b"behind it", []))
    lines = call("consume", "t", "-e", "-o", "table").stdout.splitlines()
    assert lines == [f"0:0\t{shown}\tk\tv", "0:1\t2013-01-01T00:00:00.000Z\tk\tbehind it"]
    for shape in ("json", "jsonl", "value"):
        assert call("consume", "t", "-e", "-o", shape).exit_code == 0
    (line, _) = call("consume", "t", "-e", "-o", "jsonl").stdout.splitlines()
    assert json.loads(line)["timestamp"] == timestamp
    assert call("consume", "t", "-n", "1", "-f", "%T").stdout == str(timestamp)


@pytest.mark.parametrize(
    "command",
    [
        ("consume", "t", "-s", "9223372036854775808"),
        ("consume", "t", "-s", "²"),
        ("offset", "list", "t", "--at", "9223372036854775808"),
    ],
)
def test_numbers_that_no_request_can_hold_are_wrong_usage(cluster: FakeCluster, command: tuple[str, ...]) -> None:
    result = call(*command)
    assert result.exit_code == 2 and command[-1] in result.stderr


def test_a_time_before_1970_is_the_beginning(cluster: FakeCluster) -> None:
    """-1 ms and -2 ms have meanings of their own in the protocol: the end, the beginning."""
    put(cluster, T0, (1356998400000, b"k", b"v", []))
    call("consume", "t", "-e", "-s", "1969-12-31T23:59:59.999Z")
    asked = [
        partition.timestamp
        for request in cluster.requests_of(ApiKey.LIST_OFFSETS)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert 0 in asked


def test_a_line_with_a_timestamp_that_is_no_64_bit_number_is_refused(cluster: FakeCluster) -> None:
    result = call("produce", "t", "-i", "jsonl", stdin=b'{"value": "v", "timestamp": 9223372036854775808}\n')
    assert result.exit_code == 1
    assert "line 1: timestamp 9223372036854775808 is not a 64-bit number" in result.stderr


def test_consume_begins_and_ends_where_it_is_told(cluster: FakeCluster) -> None:
    for number in range(10):
        put(cluster, T0, (number * 1000, None, b"%d" % number, []))

    def values(*arguments: str) -> str:
        result = call("consume", "t", "-p", "0", *arguments)
        assert result.exit_code == 0, result.stderr
        return "".join(result.stdout.split())

    assert values("-e") == "0123456789"
    assert values("-n", "3") == "012"
    assert values("-e", "-s", "7") == "789"
    assert values("-e", "-s", "-2") == "89"
    assert values("-e", "-s", "end") == ""
    assert values("-e", "-s", "1970-01-01T00:00:08") == "89"
    assert values("--idle-timeout", "1") == "0123456789"
    assert call("consume", "t", "-s", "soon").exit_code == 2
    assert call("consume", "t", "-p", "9").exit_code == 2
    assert call("consume", "nope").exit_code == 3


def test_produce_makes_no_topic_unasked(cluster: FakeCluster) -> None:
    named(cluster)
    result = call("produce", "nope", stdin=b"x\n")
    assert (result.exit_code, result.stderr) == (3, "Error: topic nope: there is none; --create makes nope\n")
    assert cluster.requests_of(ApiKey.PRODUCE) == [] == cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert not any(request.allow_auto_topic_creation for request in cluster.requests_of(ApiKey.METADATA))


def named(cluster: FakeCluster, *topics: str) -> None:
    for topic in topics:
        cluster.topics[topic], cluster.leaders[TopicPartition(topic, 0)] = 1, 1
    m = messages.describe_cluster_response
    brokers = [m.DescribeClusterBroker(broker_id=each, host="fake", port=9000 + each) for each in (1, 2)]
    cluster.script[ApiKey.DESCRIBE_CLUSTER].append(m.DescribeClusterResponse(cluster_id="c", brokers=brokers))


def test_produce_asks_whether_a_mistyped_topic_was_meant(cluster: FakeCluster) -> None:
    named(cluster, "orders")
    result = call("produce", "ordrs", stdin=b"x\n")
    assert result.exit_code == 3
    assert result.stderr == "Error: topic ordrs: there is none; did you mean orders? --create makes ordrs\n"
    assert cluster.requests_of(ApiKey.PRODUCE) == [] == cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert not any(request.allow_auto_topic_creation for request in cluster.requests_of(ApiKey.METADATA))


def test_produce_makes_a_topic_on_request(cluster: FakeCluster) -> None:
    named(cluster, "orders")
    m = messages.create_topics_response
    made = m.CreateTopicsResponse(topics=[m.CreatableTopicResult(name="ordrs")])

    def create(*_: object) -> object:
        named(cluster, "ordrs")
        return made

    cluster.script[ApiKey.CREATE_TOPICS].append(create)
    result = call("produce", "ordrs", "--create", stdin=b"x\n")
    assert (result.exit_code, result.stderr) == (0, "created topic ordrs\n1 record written to ordrs\n")
    result = call("produce", "ordrs", "--create", stdin=b"x\n")
    assert (result.exit_code, result.stderr) == (0, "1 record written to ordrs\n")


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 3)])
@pytest.mark.parametrize(
    ("topic", "question"),
    [
        ("ordrs", "There is no topic ordrs; did you mean orders? Make ordrs all the same?"),
        ("quite-another", "There is no topic quite-another. Make it?"),
    ],
)
def test_somebody_at_a_terminal_is_asked(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, topic: str, question: str, answer: str, status: int
) -> None:
    named(cluster, "orders")
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer == "y"

    def create(*_: object) -> object:
        named(cluster, topic)
        m = messages.create_topics_response
        return m.CreateTopicsResponse(topics=[m.CreatableTopicResult(name=topic)])

    cluster.script[ApiKey.CREATE_TOPICS].append(create)
    monkeypatch.setattr("kafkalite.cli.new_topic._is_at_terminal", lambda: True)
    monkeypatch.setattr("kafkalite.cli.new_topic.click.confirm", confirm)
    result = call("produce", topic, stdin=b"x\n")
    assert result.exit_code == status and asked == [question]
    if answer == "y":
        assert result.stderr == f"created topic {topic}\n1 record written to {topic}\n"
    else:
        assert result.stderr == f"Error: topic {topic}: there is none, and nothing was written\n"


def test_a_topic_that_one_broker_knows_already_is_written_to(cluster: FakeCluster) -> None:
    """It was just made, and the broker that was asked first had not heard of it."""
    named(cluster, "orders", "orders2")
    m = messages.metadata_response
    unknown = m.MetadataResponse(topics=[m.MetadataResponseTopic(error_code=3, name="orders2")])
    cluster.script[ApiKey.METADATA].append(unknown)
    result = call("produce", "orders2", stdin=b"x\n")
    assert (result.exit_code, result.stderr) == (0, "1 record written to orders2\n")


def test_an_even_ensemble_is_refused_with_the_reason() -> None:
    result = call("cluster", "up", "--zookeepers", "2", "-o", "json")
    assert result.exit_code == 2 and "odd number" in result.stderr and result.stdout == ""


READERS = {
    "acl list",
    *("cluster health", "cluster info", "cluster watch", "completion", "config describe", "consume"),
    *(
        "context list",
        "context show",
        "group describe",
        "group list",
        "group members",
        "log compare",
        "log dump",
        "log verify",
    ),
    *(
        "logdir describe",
        "logdir list",
        "migrate check",
        "migrate kraft check",
        "migrate kraft settings",
        "migrate evidence",
        "migrate verify",
        "mirror status",
        "mirror verify",
        "offset list",
        "partition reassign list",
        "partition reassign plan",
        "record digest",
    ),
    *("partition reassign verify", "perf consume", "spark audit", "spark schedule", "spark status", "spark verify"),
    *("topic describe", "topic list"),
    *("transaction describe", "transaction find-hanging", "transaction list", "zk get", "zk tree", "zk watch"),
}
SERVERS_AND_JOBS = {
    *(
        "broker",
        "cluster up",
        "console",
        "mirror run",
        "mirror back",
        "zk run",
        "zk serve",
        "perf produce",
        "perf end-to-end",
        "context use",
    ),
    *(
        "spark archive",
        "spark backfill",
        "spark compact",
        "spark maintain",
        "spark report",
        "spark reprocess",
        "spark run",
    ),
}
"""Commands whose whole point is to run; `context use` is undone by itself."""


def test_every_command_that_writes_has_a_dry_run() -> None:
    without = {name for name, command in all_commands() if "dry_run" not in {each.name for each in command.params}}
    assert without - READERS - SERVERS_AND_JOBS == set()
    assert without >= READERS


def test_what_destroys_asks() -> None:
    asking = {name for name, command in all_commands() if "yes" in {each.name for each in command.params}}
    assert asking >= {
        name for name, _ in all_commands() if name.split()[-1] in ("delete", "delete-offsets", "cancel", "move")
    } - {
        "config delete"  # what was there is shown, and can be set again
    }


def test_a_command_that_fails_writes_no_half_of_an_array(cluster: FakeCluster) -> None:
    failed = call("consume", "nope", "-o", "json")
    assert failed.exit_code == 3 and failed.stdout == ""
    empty = call("consume", "t", "-e", "-o", "json")
    assert empty.exit_code == 0 and json.loads(empty.stdout) == []


def test_a_dry_run_writes_nothing(cluster: FakeCluster) -> None:
    result = call("produce", "t", "-K", ":", "--dry-run", stdin=b"k:v\nk:w\n")
    assert result.exit_code == 0 and "2 records could be written" in result.stderr
    assert call("produce", "t", "-K", ":", "--dry-run", stdin=b"k:v\nbad\n").exit_code == 1
    assert call("produce", "t", "-p", "7", "--dry-run", stdin=b"x\n").exit_code == 3
    assert cluster.requests_of(ApiKey.PRODUCE) == []
