"""`kafkalite migrate kraft`: what its commands refuse, say and answer, and the page of the move."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.doctor.findings import problem
from kafkalite.cli.main import main
from kafkalite.cli.migrate.journal import Journal, journal_path
from kafkalite.cli.migrate.kraft import cluster as moving
from kafkalite.cli.migrate.kraft.cluster import release_claim
from kafkalite.cli.migrate.kraft.forms import Form, Role
from kafkalite.cli.migrate.kraft.places import WAYS_BACK, Place
from kafkalite.cli.migrate.kraft.plan import format_plan
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server, ZooKeeperState, ask_server, is_refusal
from kafkalite.cli.migrate.sequence import Act, Entry, Replacement
from kafkalite.local.ports import ReservedPort
from tests.unit.cli.migrate.test_migrate_kraft import (
    BEFORE,
    COPIED,
    FINAL,
    KAFKA_SEAT,
    KRAFT_SEAT,
    MIGRATED,
    ON_KRAFT,
    PLAN,
    PROVIDED,
    SILENT,
    TO_KRAFT,
    begun,
    broker,
    controller,
    done,
)
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import ControllerSeat, KraftMigration


def migrate(*words: str) -> Result:
    return CliRunner().invoke(main, ["migrate", "kraft", *words])


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(format_plan(PLAN), "utf-8")
    return path


def write_journal(plan_file: Path, entries: list[Entry]) -> None:
    with Journal(journal_path(plan_file)) as journal:
        for each in entries:
            journal.write(each)


COMMANDS = ("--stop-command", "true", "--start-command", "true", "--yes")


def test_a_step_says_what_changes_and_which_way_leads_back(plan_file: Path) -> None:
    result = migrate("step", str(plan_file), *COMMANDS, "--dry-run")
    assert result.exit_code == 0 and "server 1 becomes a server in migration mode" in result.stderr
    assert "set zookeeper.metadata.migration.enable=true" in result.stderr
    assert f"the way back, once it is begun: {WAYS_BACK[Place.ENABLING]}" in result.stderr


def test_a_controller_is_no_broker_in_what_is_told(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_journal(plan_file, done(*TO_KRAFT))
    monkeypatch.setattr(moving.MovingCluster, "find_foreign", lambda self: [])
    answer_with(monkeypatch, replace(ON_KRAFT, controllers=(SILENT,)))
    result = migrate("step", str(plan_file), *COMMANDS, "--no-way-back")
    assert result.exit_code == 7 and "server 9: check" in result.stderr and "broker 9" not in result.stderr
    assert "server 9 is not registered" in result.stderr


def test_a_malformed_znode_is_a_problem_and_no_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def open_memory(*_: Any) -> AsyncIterator[tuple[MemoryStore, str]]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(5)
        await store.create("/controller", b"{}")
        yield store, ""

    monkeypatch.setattr("kafkalite.cli.doctor.zookeeper.open_store", open_memory)
    with pytest.raises(SystemExit) as ended:
        release_claim("z")
    assert ended.value.code == 7


def test_the_finalization_needs_a_word_of_its_own(plan_file: Path) -> None:
    write_journal(plan_file, done(*TO_KRAFT))
    refused = migrate("step", str(plan_file), *COMMANDS)
    assert refused.exit_code == 2 and "give --no-way-back" in refused.stderr
    write_journal(plan_file, begun(done(*TO_KRAFT), (9, Form.KRAFT), Act.STOP)[len(done(*TO_KRAFT)) :])
    back = migrate("rollback", str(plan_file), *COMMANDS)
    assert back.exit_code == 1 and "no way back to ZooKeeper" in back.stderr


def test_a_broker_goes_back_to_zookeeper_only_after_the_release(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(plan_file, done(*TO_KRAFT[:2]))
    monkeypatch.setattr(moving.GivenCluster, "find_foreign", lambda self: [])
    answer_with(monkeypatch, MIGRATED)
    for seat, migration, told in (
        (KRAFT_SEAT, COPIED, "then kafkalite migrate kraft release"),
        (KAFKA_SEAT, COPIED, "then kafkalite migrate kraft release"),
        (None, None, "/controller is absent: wait until a broker is the controller"),
    ):
        state = ZooKeeperState("id", seat, migration)
        monkeypatch.setattr(moving, "read_znodes", {"localhost:2181": state}.get)
        result = migrate("rollback", str(plan_file), *COMMANDS)
        assert result.exit_code == 7 and told in result.stderr
    released = ZooKeeperState("id", KAFKA_SEAT, None)
    monkeypatch.setattr(moving, "read_znodes", {"localhost:2181": released}.get)
    monkeypatch.setattr(moving, "find_later_epochs", lambda _: ["t-0 was written in epoch 9: kafkalite doctor --fix"])
    result = migrate("rollback", str(plan_file), *COMMANDS)
    assert result.exit_code == 7 and "t-0 was written in epoch 9" in result.stderr


def test_a_rollback_that_cannot_read_everything_says_how_it_goes_on(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers in migration mode have a stopped one in their metadata still, and its groups cannot be listed."""

    def refuse(self: object, directory: Path, *, is_first: bool) -> None:
        raise SystemExit(5)

    write_journal(plan_file, done(*TO_KRAFT))
    monkeypatch.setattr(moving.MovingCluster, "find_foreign", lambda self: [])
    monkeypatch.setattr(moving.GivenCluster, "take_evidence", refuse)
    result = migrate("rollback", str(plan_file), *COMMANDS)
    assert result.exit_code == 5 and "call the rollback again with --without-evidence" in result.stderr


def answer_with(monkeypatch: pytest.MonkeyPatch, found: KraftSurvey) -> None:
    """Each server that is asked answers as in a survey."""
    servers = {each.id if each.id >= 0 else 9: each for each in found.servers}
    monkeypatch.setattr(moving.MovingCluster, "_ask_server", lambda self, number: servers[number])


def test_a_rollback_asks_the_cluster_and_not_the_journal_alone(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving.GivenCluster, "find_foreign", lambda self: [])
    write_journal(plan_file, done(*TO_KRAFT))
    for controllers, told in (
        ((controller(Form.KRAFT),), "controller 9 has left migration mode: there is no way back to ZooKeeper"),
        ((SILENT,), "controller at k:9093 does not say whether it has left migration mode: refused. Start it"),
    ):
        answer_with(monkeypatch, replace(ON_KRAFT, controllers=controllers))
        result = migrate("rollback", str(plan_file), *COMMANDS)
        assert result.exit_code == 7 and told in result.stderr
    upgraded = done(*TO_KRAFT, (9, Form.KRAFT), (9, Form.KAFKA_4), (1, Form.KAFKA_4))
    write_journal(plan_file, upgraded[len(done(*TO_KRAFT)) :])
    raised = replace(controller(Form.KAFKA_4), metadata_level=27)
    answer_with(monkeypatch, replace(FINAL, controllers=(raised,)))
    result = migrate("rollback", str(plan_file), *COMMANDS)
    assert result.exit_code == 7 and "metadata.version is at level 27, above 3.9: there is no way back" in result.stderr
    answer_with(monkeypatch, replace(FINAL, controllers=(SILENT,)))
    result = migrate("rollback", str(plan_file), *COMMANDS)
    assert result.exit_code == 7 and "no server says at which level metadata.version is" in result.stderr


def test_a_stopped_broker_is_started_on_zookeeper_though_nobody_is_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster of one broker has no controller while it is stopped: its rollback would never be resumed."""
    monkeypatch.setattr(moving.GivenCluster, "find_foreign", lambda self: [])
    monkeypatch.setattr(moving, "read_znodes", lambda _: ZooKeeperState("id", None, None))
    cluster = moving.MovingCluster(PLAN, Replacement(3, 1, Form.ZOOKEEPER), Role.BROKER, "z", (), 1, is_back=True)
    answer_with(monkeypatch, replace(MIGRATED, brokers=(MUTE, broker(2, Form.MIGRATION)), controllers=(SILENT,)))
    assert cluster.find_foreign() == []


def test_a_plan_is_made_before_the_controllers_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first phase provides them. One that does not answer beside others that do stands against it."""
    monkeypatch.setattr(moving, "survey_move", lambda *_: BEFORE)
    result = migrate("plan", str(tmp_path / "a"), "--controllers", "9@k:9093")
    assert result.exit_code == 0 and 'name = "controllers"' in (tmp_path / "a").read_text()
    monkeypatch.setattr(
        moving, "survey_move", lambda *_: replace(PROVIDED, controllers=(*PROVIDED.controllers, SILENT))
    )
    result = migrate("plan", str(tmp_path / "b"), "--controllers", "9@k:9093,8@k:9093")
    assert result.exit_code == 7 and "controller at k:9093: refused" in (tmp_path / "b").read_text()


LEFT = replace(MIGRATED, controllers=(SILENT,))
MUTE = Server(1, "b1:9092", Role.BROKER, problem="no answer")


@pytest.mark.parametrize(
    ("found", "code", "told"),
    [
        (PROVIDED, 7, "controller 9 at k:9093 answers: stop it first"),
        (replace(ON_KRAFT, controllers=(SILENT,)), 7, "broker 1 is kraft: take it back first"),
        (BEFORE, 0, "no znode of a quorum is there"),
        (LEFT, 0, "to be deleted: /controller and /migration"),
        (replace(LEFT, cluster_id="other"), 7, "the brokers' cluster id is other, that in ZooKeeper id"),
        (replace(LEFT, zookeeper=ZooKeeperState("id", ControllerSeat(7, 1, 5))), 7, "/controller is of controller 7"),
        (replace(LEFT, zookeeper=ZooKeeperState("id", None, KraftMigration(7, 5, 1, 5))), 7, "/migration is of contr"),
        (replace(LEFT, brokers=(MUTE,)), 7, "broker 1 may be on KRaft: no answer"),
        (replace(LEFT, controllers=(replace(SILENT, is_refused=False),)), 7, "then give --controllers-stopped"),
    ],
)
def test_the_release_waits_for_the_quorums_end(
    monkeypatch: pytest.MonkeyPatch, found: KraftSurvey, code: int, told: str
) -> None:
    def answer(*_: Any) -> KraftSurvey:
        return found

    monkeypatch.setattr(moving, "survey_move", answer)
    result = migrate("release", "--controllers", "9@k:9093", "--dry-run")
    assert result.exit_code == code and told in result.stderr


def test_the_release_takes_the_operators_word_that_controllers_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(LEFT, controllers=(replace(SILENT, is_refused=False),))
    monkeypatch.setattr(moving, "survey_move", lambda *_: gone)
    words = ("release", "--controllers", "9@k:9093", "--dry-run")
    assert migrate(*words).exit_code == 7 and migrate(*words, "--controllers-stopped").exit_code == 0


def test_only_a_refused_connection_tells_of_a_stopped_controller() -> None:
    refused = "[Errno 111] Connect call failed ('::1', 1, 0, 0)"
    assert is_refusal(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert is_refusal(OSError(f"Multiple exceptions: {refused}, {refused}"))
    for failed in (OSError(f"Multiple exceptions: {refused}, [Errno 113] No route"), TimeoutError(), OSError("gone")):
        assert not is_refusal(failed)
    with ReservedPort() as port:
        asked = asyncio.run(ask_server("127.0.0.1", port.number, Role.CONTROLLER, {}, 5, 9))
    assert asked.is_refused and asked.problem


def test_a_release_that_was_interrupted_waits_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "survey_move", lambda *_: BEFORE)
    later = [problem("epochs", "t-0 is of epoch 9", "kafkalite doctor --fix")]
    monkeypatch.setattr(moving, "find_epochs", lambda _: later)
    result = migrate("release", "--controllers", "9@k:9093", "--yes")
    assert result.exit_code == 7 and "t-0 is of epoch 9" in result.stdout


def test_a_file_of_settings_is_printed_for_a_form(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=1\nzookeeper.connect=z\n")
    result = migrate("settings", "kraft", str(path), "--controllers", "9@k:9093")
    assert result.exit_code == 0 and "node.id=1" in result.stdout and "zookeeper" not in result.stdout
    assert migrate("settings", "kraft", str(path), "--controllers", "k:9093").exit_code == 2
    path.write_text("zookeeper.connect=z\n")
    generated = migrate("settings", "kraft", str(path), "--controllers", "9@k:9093")
    assert generated.exit_code == 2 and "meta.properties" in generated.stderr and not generated.stdout


PAGE = Path(__file__).parents[4] / "deploy/docs/pages/howto/to-kafka-4.md"


def test_the_page_stops_the_server_of_the_step_and_keeps_secrets() -> None:
    text = PAGE.read_text("utf-8")
    commands = [line for line in text.splitlines() if "--stop-command '" in line]
    assert commands and all(line.count("$KAFKALITE_BROKER_ID") == 2 for line in commands)
    kraft = [line for line in commands if "migrate kraft" in line]
    assert kraft and all("KAFKALITE_FORM=$KAFKALITE_FORM ./start-form" in line for line in kraft)
    assert "case $KAFKALITE_FORM in" in text, "and the script is shown"
    assert text.index("umask 077") < text.index("> server.migration.properties"), "before passwords are written"
    assert "chown --reference=server.properties" in text, "and the service can read them"
    assert "inter.broker.listener.name=PLAINTEXT" in text
