"""Every command's table, JSON, messages and exit codes: transcripts in `cli_goldens`, written as `tests.wire.transcripts` says.

A new command needs a transcript: put its command lines into a file there and run `pytest tests/wire/test_cli_goldens.py
--rewrite-goldens`, then read the difference as a reviewer would.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.exceptions import NoNodeError

from kafkalite.cli.main import main
from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.types import OFFSETS_TOPIC
from tests.command_tree import all_commands
from tests.wire.transcripts import Masks, Session, invocations
from zk import paths

pytestmark = pytest.mark.wire

ROOT: Final = Path(__file__).parents[2]
GOLDENS: Final = Path(__file__).parent / "cli_goldens"
FILES: Final = sorted(GOLDENS.glob("*.txt"))

NOUNS: Final = frozenset(
    [
        "acl",
        "topic",
        "group",
        "config",
        "partition",
        "leader",
        "record",
        "logdir",
        "offset",
        "log",
        "cluster",
        "zk",
        "perf",
        "produce",
        "consume",
        "completion",
        "doctor",
        "context",
        "spark",
        "transaction",
        "migrate",
        "mirror",
    ]
)
"""What the command is to have at least."""
PENDING: Final[frozenset[str]] = frozenset()
"""Nouns that are being built. None may be here that is there."""

RUN_FOR_LONG: Final = {
    "broker": "tests/unit/cli/test_commands.py",
    "cluster up": "tests/system/test_cluster_command.py",
    "cluster users": "tests/wire/test_secured_cluster.py",
    "console": "tests/system/test_console.py",
    "migrate kraft check": "tests/peers/test_kraft.py",
    "migrate kraft plan": "tests/peers/test_kraft.py",
    "migrate kraft release": "tests/peers/test_kraft.py",
    "migrate kraft rollback": "tests/peers/test_kraft.py",
    "migrate rollback": "tests/peers/test_drop_in.py",
    "mirror back": "tests/wire/test_mirror_back.py",
    "mirror run": "tests/peers/test_mirror.py",
    "mirror status": "tests/unit/cli/mirror/test_mirror_commands.py",
    "mirror switch": "tests/peers/test_mirror.py",
    "mirror verify": "tests/wire/test_mirror_back.py",
    "spark archive": "tests/spark/test_archive.py",
    "spark audit": "tests/spark/test_archive.py",
    "spark backfill": "tests/spark/test_flights_backfill.py",
    "spark compact": "tests/spark/test_archive.py",
    "spark maintain": "tests/peers/test_table_nights.py",
    "spark reprocess": "tests/spark/test_archive.py",
    "spark run": "tests/spark/test_archive.py",
    "spark verify": "tests/unit/spark_jobs/test_verify.py",
    "transaction abort": "tests/wire/test_transactions.py",
    "zk run": "tests/unit/cli/zookeeper/test_zk_run.py",
    "zk serve": "tests/contract/test_ensemble.py",
}
"""Commands that start servers and stay, or Spark, or need what Spark wrote, a transaction that is open, a secured cluster or one of Apache
Kafka 4: transcripts show how they refuse, the rest is tested there."""


@pytest.fixture(scope="module")
def cluster(broker_command: Sequence[str]) -> Iterator[LocalCluster]:
    """Brokers 101 to 103, of which 101 is the controller; 103 has two log directories."""
    if broker_command != BROKER_COMMAND:
        pytest.skip("about our commands and our brokers")
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    directory = Path(tempfile.mkdtemp(prefix="kafkalite-goldens-", dir="/tmp"))  # of the same length everywhere
    try:
        with LocalCluster(first_broker_id=101, properties=settings, directory=directory) as running:
            running.stop(103)
            running.broker(103).properties["log.dirs"] = f"{directory}/broker-103,{directory}/broker-103-b"
            running.start_broker(103)
            with ClusterFacts(running.zookeeper_connect) as facts:
                make_controller(facts, 101)
            make_offsets_topic(running.bootstrap_servers, [101, 102, 103])
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def make_controller(facts: ClusterFacts, broker: int) -> None:
    """Empty the controller's seat until this broker takes it."""

    def taken() -> bool:
        holder = facts.controller()
        if holder not in (broker, -1):
            try:
                facts.client.delete(paths.CONTROLLER)
            except NoNodeError:
                pass
        return holder == broker

    wait_until(taken, f"broker {broker} as controller", 60)


def make_offsets_topic(servers: str, replicas: list[int]) -> None:
    """What brokers make when the first group comes, but led by the same broker always."""
    with SyncAdmin(bootstrap_servers=servers) as admin:
        settings = {"cleanup.policy": "compact", "compression.type": "producer"}
        admin.create_topics([NewTopic(OFFSETS_TOPIC, replica_assignments={0: replicas}, topic_configs=settings)])
        wait_until(lambda: not admin.describe_topics([OFFSETS_TOPIC])[0].partitions[0].under_replicated, "replicas", 60)


@pytest.fixture(scope="module")
def masks(cluster: LocalCluster) -> Masks:
    return Masks.of(cluster)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_session_goes_as_it_went(
    file: Path,
    cluster: LocalCluster,
    masks: Masks,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("KAFKALITE_ZOOKEEPER", cluster.zookeeper_connect)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    was = file.read_text()
    rewrite = pytestconfig.getoption("--rewrite-goldens")
    now = Session(cluster, masks).replay(was, patient=not rewrite)
    if rewrite:
        file.write_text(now)
    else:
        assert now == was


SAID: Final = [each for file in FILES for each in invocations(file.read_text())]


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_command_has_a_transcript(name: str) -> None:
    """One that succeeds, as a table and as JSON if it has both; and one that fails, with its exit code."""
    command = dict(all_commands())[name]
    said = [each for each in SAID if each.name == name]
    assert any(each.failed for each in said), f"no transcript shows how `{name}` fails"
    if name in RUN_FOR_LONG:
        assert (ROOT / RUN_FOR_LONG[name]).exists()
        return
    assert any(not each.failed for each in said), f"no transcript shows how `{name}` succeeds"
    shapes = {output_of(each.words) for each in said}
    choices = next((each.type.choices for each in command.params if each.name == "output"), ())  # type: ignore[attr-defined]
    default: Any = next((each.default for each in command.params if each.name == "output"), None)
    wanted = {shape for shape in ("table", "json", "jsonl") if shape in choices}
    if "json" in wanted:
        wanted.discard("jsonl")
    shown = {default if shape is None else shape for shape in shapes}
    assert wanted <= shown, f"no transcript shows `{name}` as {', '.join(sorted(wanted - shown))}"


def output_of(words: tuple[str, ...]) -> str | None:
    """What `-o` says."""
    return next((after for word, after in itertools.pairwise(words) if word in ("-o", "--output")), None)


def test_no_transcript_speaks_of_a_command_that_is_not_there() -> None:
    known = dict(all_commands())
    assert {each.name for each in SAID} - {""} <= known.keys()


def test_the_command_has_the_nouns_that_it_is_to_have() -> None:
    there = set(main.list_commands(None))  # type: ignore[arg-type]
    assert there >= NOUNS - PENDING
    assert not PENDING & there, "take them out of PENDING: they are there"


def test_every_exit_code_is_shown() -> None:
    codes = {line for file in FILES for line in file.read_text().splitlines() if line.startswith("[exit ")}
    assert codes >= {f"[exit {code}]" for code in (1, 2, 3, 4, 5, 7)}
