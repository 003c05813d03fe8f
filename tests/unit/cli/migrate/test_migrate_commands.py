"""What the commands of `kafkalite migrate` refuse before, and without, a cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.doctor.findings import Finding, ok, problem, skip_check, warning
from kafkalite.cli.main import main
from kafkalite.cli.migrate import auditing, stepping, surveying
from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, LEDGER_FILE, Moment, write_moment
from kafkalite.cli.migrate.journal import Journal, journal_path
from kafkalite.cli.migrate.plan import Plan, PlannedStep, format_plan
from kafkalite.cli.migrate.replacing import NotYetError, RefusedError
from kafkalite.cli.migrate.sequence import Act, Entry, Replacement
from kafkalite.cli.migrate.stepping import GivenCluster
from kafkalite.cli.migrate.survey import Side
from kafkalite.cli.output import Exit, fail
from kafkalite.client.cluster.view import PartitionView
from kafkalite.client.errors import error_of
from kafkalite.errors import ErrorCode
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.subtree import read_if_there
from zk.znodes import PartitionName, PreferredElection

STEPS = tuple(PlannedStep(each, f"b{each}:9092", "Apache Kafka 3.9", False, ()) for each in (2, 3))
PLAN = Plan("id", Side.KAFKALITE, datetime(2026, 11, 26, tzinfo=UTC), {}, (), (), STEPS)


def migrate(*words: str) -> Result:
    return CliRunner().invoke(main, ["migrate", *words])


@pytest.mark.parametrize("left", ["plan.toml.journal", "plan.toml.evidence"])
def test_a_plan_is_not_made_beside_what_an_earlier_one_left(tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir()
    result = migrate("plan", str(tmp_path / "plan.toml"), "-b", "127.0.0.1:1")
    assert result.exit_code == 4 and f"{left} exists" in result.stderr


def test_evidence_of_another_cluster_proves_nothing(tmp_path: Path) -> None:
    for name, taken_ms in ((BEFORE_FILE, 1), (AFTER_FILE, 2)):
        write_moment(tmp_path / name, Moment(taken_ms, "other", {}, {}, {}))
    assert GivenCluster("id", "").audit_evidence(tmp_path) == [f"{tmp_path} is of cluster other, the plan is for id"]


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(format_plan(PLAN), "utf-8")
    return path


def replace(verb: str, plan_file: Path, *words: str) -> Result:
    return migrate(verb, str(plan_file), "--stop-command", "false", "--start-command", "true", "--yes", *words)


def write_journal(plan_file: Path, *replacements: Replacement, until: Act | None = None) -> None:
    """As done; of the last one only the acts before `until`."""
    acts = list(Act)
    with Journal(journal_path(plan_file)) as journal:
        for each in replacements:
            for act in acts[: None if until is None or each is not replacements[-1] else acts.index(until)]:
                for is_done in (False, True):
                    journal.write(Entry(each, act, is_done))


def test_exit_code_3_says_that_nothing_is_left_to_do(plan_file: Path) -> None:
    assert replace("rollback", plan_file).exit_code == 3
    first, second = Replacement(1, 2, Side.KAFKALITE), Replacement(2, 3, Side.KAFKALITE)
    write_journal(plan_file, first, second)
    assert replace("step", plan_file).exit_code == 3


def test_a_rollback_that_is_not_finished_is_exit_code_1(plan_file: Path) -> None:
    back = Replacement(2, 2, Side.APACHE_KAFKA)
    write_journal(plan_file, Replacement(1, 2, Side.KAFKALITE), back, until=Act.START)
    result = replace("step", plan_file)
    assert result.exit_code == 1 and "the rollback of broker 2 is not finished" in result.stderr


def test_a_rollback_names_what_it_would_take_back(plan_file: Path) -> None:
    second = Replacement(2, 3, Side.KAFKALITE)
    write_journal(plan_file, Replacement(1, 2, Side.KAFKALITE), second, until=Act.STOP)
    result = replace("rollback", plan_file, "--dry-run")
    assert result.exit_code == 1 and "--broker 2" in result.stderr
    result = replace("rollback", plan_file, "--dry-run", "--broker", "2")
    assert result.exit_code == 0 and "broker 2 becomes Apache Kafka" in result.stderr


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda: fail("before.jsonl is missing", Exit.NOT_FOUND), 1),
        (lambda: fail("no broker can be reached", Exit.UNREACHABLE), 5),
        (lambda: raise_it(RefusedError(["out of sync"])), 7),
        (lambda: raise_it(NotYetError("it is behind")), 5),
        (lambda: raise_it(ChildProcessError("exit code 1 of: false")), 1),
        (lambda: raise_it(OSError("no room")), 1),
    ],
)
def test_how_an_act_ends_is_in_the_exit_code(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch, end: Any, code: int
) -> None:
    monkeypatch.setattr(GivenCluster, "find_foreign", lambda self: end())
    result = replace("step", plan_file)
    assert result.exit_code == code and result.stderr.count("Error: ") == 1


def raise_it(error: Exception) -> None:
    raise error


def test_what_is_no_plan_and_no_command_is_refused_in_a_line(plan_file: Path) -> None:
    plan_file.write_bytes(b"\xff")
    result = replace("step", plan_file)
    assert result.exit_code == 2 and "is no plan: it is no UTF-8" in result.stderr
    for option in ("--stop-command", "--start-command"):
        result = replace("step", plan_file, option, " ")
        assert result.exit_code == 2 and "it is blank" in result.stderr


@pytest.mark.parametrize(
    ("kept", "told", "problems"),
    [
        ("id", "id", []),
        ("id", None, []),
        ("other", "id", ["the plan is for cluster id, ZooKeeper at z: other"]),
        (None, None, ["the plan is for cluster id, ZooKeeper at z: none"]),
        ("id", "other", ["the plan is for cluster id, the brokers: other"]),
    ],
)
def test_zookeeper_and_brokers_are_those_of_the_plan(
    monkeypatch: pytest.MonkeyPatch, kept: str | None, told: str | None, problems: list[str]
) -> None:
    """Brokers that do not answer (None) hold nothing up: a cluster of one has none while it is replaced."""

    def ask(self: GivenCluster, question: object) -> str:
        if told is None:
            raise error_of(ErrorCode.BROKER_NOT_AVAILABLE, "none")
        return told

    monkeypatch.setattr(GivenCluster, "read_zookeeper", lambda self, read: kept)
    monkeypatch.setattr(GivenCluster, "_try", ask)
    assert GivenCluster("id", "z").find_foreign() == problems


def test_what_could_not_be_looked_at_does_not_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    areas: dict[str, Finding] = {
        "zookeeper": skip_check("clocks", "no matter"),
        "znodes": skip_check("znodes", "session expired"),
        "cluster": ok("brokers", "3"),
        "disks": skip_check("brokers' disks", "not authorized"),
        "brokers": warning("settings", "odd", "look"),
        "metadata": problem("moves", "t", "wait"),
    }
    monkeypatch.setattr(
        surveying, "list_areas", lambda target, where: {name: lambda one=each: [one] for name, each in areas.items()}
    )
    assert GivenCluster("id", "z").find_problems(Side.KAFKALITE) == [
        "znodes could not be looked at: session expired",
        "brokers' disks could not be looked at: not authorized",
        "moves: t (wait)",
    ]


def test_what_a_step_reads_may_be_less_than_all(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(auditing, "take_evidence", lambda directory, **options: asked.append(options))
    GivenCluster("id", "", ("t",), 5).take_evidence(plan_file, is_first=True)
    assert asked == [{"is_first": True, "topics": ("t",), "last": 5}]
    monkeypatch.setattr(
        stepping, "GivenCluster", lambda plan, zookeeper, *options: raise_it(RefusedError([str(options)]))
    )
    assert "(('t', 'u'), 5, {})" in replace("step", plan_file, "-t", "t", "-t", "u", "--last", "5").stderr


def test_evidence_after_goes_without_the_ledger_of_a_killed_probe(tmp_path: Path) -> None:
    write_moment(tmp_path / BEFORE_FILE, Moment(1, "id", {}, {}, {}))
    (tmp_path / LEDGER_FILE).write_text("{}\n")
    words = ("evidence", "after", str(tmp_path), "-b", "127.0.0.1:1")
    assert migrate(*words).exit_code == 1
    assert migrate(*words, "--without-probe").exit_code == 5, "it goes as far as the cluster"


@pytest.mark.parametrize(
    ("code", "is_written"), [(ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.NOT_CONTROLLER, False)]
)
def test_a_controller_before_2_2_is_asked_for_an_election_by_a_znode(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, is_written: bool
) -> None:
    """Its broker led nothing after a step. Only what does not lead and is in sync is named; one that is asked already is left alone."""
    views = [
        PartitionView("t", 0, 2, replicas=(1, 2), isr=(1, 2)),
        PartitionView("t", 1, 1, replicas=(1, 2), isr=(1, 2)),
        PartitionView("t", 2, 2, replicas=(3, 2), isr=(2,)),
    ]

    class OldAdmin:
        async def elect_leaders(self, kind: str) -> None:
            raise error_of(code, "no such request")

        async def list_topics(self, *, include_internal: bool) -> list[str]:
            return ["t"]

        async def describe_topics(self, names: list[str]) -> Any:
            return [SimpleNamespace(partitions=views)]

    async def look() -> Any:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await store.create(f"/kafka{paths.PREFERRED_REPLICA_ELECTION}".rpartition("/")[0], parents=True)
        for _ in range(2):
            written.clear()
            await asyncio.to_thread(GivenCluster("id", "z").elect_preferred_leaders)
            for write in written:
                await write(store, "/kafka")
        return await read_if_there(store, f"/kafka{paths.PREFERRED_REPLICA_ELECTION}")

    written: list[Any] = []
    monkeypatch.setattr(GivenCluster, "_try", lambda self, question: asyncio.run(question(OldAdmin())))
    monkeypatch.setattr(GivenCluster, "read_zookeeper", lambda self, write: written.append(write))
    found = asyncio.run(look())
    assert (found is not None) is is_written
    if found is not None:
        assert PreferredElection.decode(found[0]) == PreferredElection((PartitionName("t", 0),))
