"""What the console changes: each plan changes nothing, names the command line that does the same, and is executed as it was shown."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from kafkalite.cli.main import main
from kafkalite.client import ConfigChange, ConfigResource, GroupMember, NewTopic, ScramDeletion, TransactionDescription
from kafkalite.console.actions.plan import Where
from kafkalite.console.actions.table import ACTIONS
from kafkalite.legacy import acls as kafka_acls
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.configs import options as kafka_configs
from kafkalite.security.acl import (
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafkalite.types import TopicPartition
from tests.unit.console.fake_admin import SECRET, FakeAdmin
from tests.unit.console.test_app import Scene, run

RULE = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    AclEntry("User:ann", "*", Operation.READ, PermissionType.ALLOW),
)
RULE_FIELDS = {
    "principal": "ann",
    "operation": "Read",
    "resource_type": "Topic",
    "name": "t",
    "pattern": "Literal",
    "permission": "Allow",
}


async def plan(scene: Scene, action: str, **asked: Any) -> Any:
    """The plan of an action, which has changed nothing."""
    before = len(scene.admin.changed)
    answer = await scene.ask(f"/api/actions/{action}", asked)
    assert answer.status == 200, answer.body
    assert len(scene.admin.changed) == before and not answer.json["is_done"]
    for words in answer.json["command"].replace("\\\n", "").split("&&"):
        assert_parses(shlex.split(words))
    return answer.json


async def carry_out(scene: Scene, action: str, **asked: Any) -> Any:
    """Plan an action and do as the page does: execute it with what was resolved, and with the word that is to be typed."""
    found = await plan(scene, action, **asked)
    body = {
        **asked,
        **found["resolved"],
        "execute": True,
        **({"confirm": found["confirm"]} if found["confirm"] else {}),
    }
    answer = await scene.ask(f"/api/actions/{action}", body)
    assert answer.status == 200 and answer.json["is_done"], answer.body
    return found


def assert_parses(words: list[str]) -> None:
    """The command line is one that the command takes."""
    if words[0] == "kafka-acls":
        kafka_acls._check(Options(kafka_acls.TOOL, kafka_acls.OPTIONS, words[1:]))
        return
    if words[0] == "kafka-configs":
        kafka_configs.check(Options("kafka-configs", kafka_configs.OPTIONS, words[1:]))
        return
    assert words[0] == "kafkalite"
    command: click.Command = main
    context, rest, name = click.Context(main), words[1:], ""
    while isinstance(command, click.Group):
        found, following, rest = command.resolve_command(context, rest)
        assert found is not None and following is not None
        name, command = found, following
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(name, rest)


async def refusal(scene: Scene, action: str, **asked: Any) -> str:
    answer = await scene.ask(f"/api/actions/{action}", asked)
    assert 400 <= answer.status < 500 and not scene.admin.changed, answer.body
    return str(answer.json["error"])


def test_topics_are_created_as_they_were_shown() -> None:
    async def scenario(scene: Scene) -> None:
        found = await carry_out(
            scene,
            "create-topic",
            topic="new",
            partitions="3",
            replicas="2",
            settings="retention.ms = 5\n\ncleanup.policy=compact",
        )
        assert found["rows"] == [["new", 3, 2, "retention.ms=5, cleanup.policy=compact"]]
        assert found["command"] == (
            "kafkalite topic create new --partitions 3 --replication-factor 2 --config retention.ms=5 "
            "--config cleanup.policy=compact -b localhost:9092"
        )
        settings = {"retention.ms": "5", "cleanup.policy": "compact"}
        assert scene.admin.changed == [("create_topics", [NewTopic("new", 3, 2, None, settings)])]
        scene.admin.changed.clear()
        found = await plan(scene, "create-topic", topic="by default")
        assert found["rows"] == [["by default", 1, 2, None]], "what the brokers would make of it"
        assert found["command"].startswith("kafkalite topic create 'by default' -b ")
        assert "exists already" in await refusal(scene, "create-topic", topic="t")
        assert "no name" in await refusal(scene, "create-topic", topic=" ")
        assert "partitions is no whole number" in await refusal(scene, "create-topic", topic="x", partitions="many")
        assert "no setting" in await refusal(scene, "create-topic", topic="x", settings="retention.ms")
        assert "twice" in await refusal(scene, "create-topic", topic="x", settings="a=1\na=2")

    run(scenario)


def test_topics_are_deleted_only_by_somebody_who_types_their_name() -> None:
    async def scenario(scene: Scene) -> None:
        found = await plan(scene, "delete-topic", topic="t")
        assert dict(zip(found["columns"], found["rows"][0], strict=True)) == {
            "topic": "t",
            "partitions": 2,
            "records": 180,
            "bytes": 3000,
        }
        assert found["command"] == "kafkalite topic delete t --yes -b localhost:9092"
        for confirm in ("", "T", "__internal"):
            assert "type t to confirm" in await refusal(scene, "delete-topic", topic="t", execute=True, confirm=confirm)
        await carry_out(scene, "delete-topic", topic="t")
        assert scene.admin.changed == [("delete_topics", "t")]
        assert (await scene.ask("/api/actions/delete-topic", {"topic": "t"})).status == 404
        assert len((await plan(scene, "delete-topic", topic="__internal"))["warnings"]) == 2

    run(scenario)


def test_a_purge_deletes_what_was_shown_and_not_what_came_since() -> None:
    async def scenario(scene: Scene) -> None:
        found = await plan(scene, "purge-topic", topic="t")
        assert found["rows"] == [[0, 10, 100, 90], [1, 10, 100, 90]] and found["resolved"] == {"offsets": "0:100,1:100"}
        assert found["command"] == "kafkalite record delete t-0=100 t-1=100 --yes -b localhost:9092"
        scene.admin.ends[TopicPartition("t", 0)] = 150
        body = {"topic": "t", **found["resolved"], "execute": True, "confirm": "t"}
        assert (await scene.ask("/api/actions/purge-topic", body)).status == 200
        wanted = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 100}
        assert scene.admin.changed == [("delete_records", wanted)]
        scene.admin.changed.clear()
        assert (await plan(scene, "purge-topic", topic="t", offsets="1:20"))["rows"] == [[1, 10, 20, 10]]
        (warning,) = (await plan(scene, "purge-topic", topic="t", offsets="1:11"))["warnings"]
        assert warning.startswith("1 record is lost")
        assert "ends at offset 100" in await refusal(scene, "purge-topic", topic="t", offsets="1:101")
        assert "no partition" in await refusal(scene, "purge-topic", topic="t", offsets="9:1")
        assert "no records" in await refusal(scene, "purge-topic", topic="t", offsets="1:5")
        scene.admin.cleanup_policy = "compact"
        assert "cleanup.policy is compact" in await refusal(scene, "purge-topic", topic="t")

    run(scenario)


def test_partitions_are_added_and_none_is_taken_away() -> None:
    async def scenario(scene: Scene) -> None:
        found = await carry_out(scene, "add-partitions", topic="t", total="5")
        assert found["rows"] == [["t", 2, 5]] and "key" in found["warnings"][0]
        assert scene.admin.changed == [("create_partitions", {"t": 5})]
        scene.admin.changed.clear()
        assert "has 2 partitions" in await refusal(scene, "add-partitions", topic="t", total=2)

    run(scenario)


def test_settings_are_changed_and_secrets_are_not_shown() -> None:
    async def scenario(scene: Scene) -> None:
        found = await carry_out(scene, "change-settings", topic="t", set="retention.ms=7", delete="a.default")
        assert found["rows"] == [["retention.ms", "5", "7"], ["a.default", "1", "the default"]]
        assert found["command"].startswith(
            "kafkalite config alter --topic t --set retention.ms=7 --delete a.default -b"
        )
        changes = [ConfigChange("retention.ms", "set", "7"), ConfigChange("a.default", "delete")]
        assert scene.admin.changed == [("incremental_alter_configs", {ConfigResource("topic", "t"): changes})]
        scene.admin.changed.clear()
        assert "--broker-defaults" in (await plan(scene, "change-settings", set="retention.ms=7"))["command"]
        assert "--broker 2" in (await plan(scene, "change-settings", broker="2", set="retention.ms=7"))["command"]
        assert "in its file" in await refusal(scene, "change-settings", broker="2", set=f"ssl.key={SECRET}")
        answer = await scene.ask("/api/actions/change-settings", {"topic": "t", "set": "ssl.key=another-secret"})
        assert answer.json["rows"] == [["ssl.key", "hidden", "hidden"]]
        assert SECRET.encode() not in answer.body and b"another-secret" not in answer.body
        assert "no number" in await refusal(scene, "change-settings", topic="t", set="retention.ms=nonsense")
        assert "nothing would change" in await refusal(scene, "change-settings", topic="t")
        assert "do one of them" in await refusal(scene, "change-settings", topic="t", set="a=1", delete="a")
        assert "no broker's id" in await refusal(scene, "change-settings", broker="x", set="a=1")

    run(scenario)


def test_groups_without_members_are_deleted() -> None:
    admin = FakeAdmin({"t": 2})
    admin.committed = {"g": {TopicPartition("t", 0): 40}}

    async def scenario(scene: Scene) -> None:
        admin.members["g"] = (GroupMember("m", None, "c", "/10.0.0.1"),)
        assert "stop its members first" in await refusal(scene, "delete-group", group="g")
        admin.members.clear()
        assert "there is no group" in await refusal(scene, "delete-group", group="absent")
        rows = (await scene.get("/api/topics/t/groups"))["rows"]
        assert rows == [{"group": "g", "state": "Empty", "lag": 60}]
        found = await carry_out(scene, "delete-group", group="g")
        assert found["rows"] == [["t", 0, 40]] and admin.changed == [("delete_groups", "g")]

    run(scenario, admin)


def test_leaders_are_moved_without_records() -> None:
    admin = FakeAdmin({"t": 3})
    admin.topics["t"] = [(1, 0, (1, 2)), (2, 0, (1, 2)), (1, 0, (1,))]

    async def scenario(scene: Scene) -> None:
        found = await carry_out(scene, "elect-leaders", topic="t")
        assert found["rows"] == [["t-1", 2, 1]], "the others are led by their first replica"
        assert found["command"] == "kafkalite leader elect t-1 -b localhost:9092"
        assert admin.changed == [("elect_leaders", ("preferred", [TopicPartition("t", 1)]))]
        admin.changed.clear()
        found = await carry_out(scene, "move-leaders", partitions="t-0", to="2")
        assert found["rows"] == [["t-0", 1, 2, "1,2", "2,1"]] and "&& kafkalite leader elect t-0" in found["command"]
        assert admin.changed == [
            ("alter_partition_reassignments", {TopicPartition("t", 0): (2, 1)}),
            ("elect_leaders", ("preferred", [TopicPartition("t", 0)])),
        ]
        admin.changed.clear()
        found = await plan(scene, "move-leaders", away_from="1")
        assert [row[:3] for row in found["rows"]] == [["t-0", 1, 2]], "t-2 has no other replica in sync"
        assert "not in sync" in await refusal(scene, "move-leaders", partitions="t-2", to="2")
        assert "no partition t-9" in await refusal(scene, "move-leaders", partitions="t-9", to="2")
        assert "write it like orders-0" in await refusal(scene, "elect-leaders", partitions="t")
        assert "nothing to do" in await refusal(scene, "elect-leaders", partitions="t-0")
        assert "say to which" in await refusal(scene, "move-leaders", topic="t")
        found = await scene.get("/api/brokers/2/partitions")
        assert [row["role"] for row in found["rows"]] == ["follows", "leads", "not in sync"]
        assert (await scene.get("/api/brokers/2/partitions?role=leads"))["count"] == 1

    run(scenario, admin)


def test_rules_are_added_and_removed() -> None:
    admin = FakeAdmin({"t": 1})
    admin.acls = []

    async def scenario(scene: Scene) -> None:
        found = await carry_out(scene, "add-acl", **RULE_FIELDS)
        assert found["command"] == "kafkalite acl add User:ann Read --topic t -b localhost:9092"
        assert admin.changed == [("create_acls", [RULE])]
        admin.changed.clear()
        assert admin.acls is not None
        admin.acls.append(RULE)
        assert "there already" in await refusal(scene, "add-acl", **RULE_FIELDS)
        prefix = {**RULE_FIELDS, "pattern": "Prefixed", "permission": "Deny", "host": "10.0.0.1"}
        assert "--prefix --deny --host 10.0.0.1" in (await plan(scene, "add-acl", **prefix))["command"]
        assert "has no operation" in await refusal(scene, "add-acl", **{**RULE_FIELDS, "operation": "ClusterAction"})
        assert "principal is empty" in await refusal(scene, "add-acl", **{**RULE_FIELDS, "principal": ""})
        assert "operation is 'Fly'" in await refusal(scene, "add-acl", **{**RULE_FIELDS, "operation": "Fly"})
        assert "no such rule" in await refusal(scene, "remove-acl", **{**RULE_FIELDS, "name": "other"})
        found = await plan(scene, "remove-acl", **RULE_FIELDS)
        assert found["command"].startswith("kafkalite acl remove --topic t --principal User:ann --operation Read --yes")
        admin.acls.append(AclBinding(RULE.resource, RULE.entry._replace(host="10.0.0.1")))
        found = await carry_out(scene, "remove-acl", **RULE_FIELDS)
        assert found["command"].startswith("kafka-acls --bootstrap-server "), "the short command would remove both"
        (call,) = admin.changed
        assert call[0] == "delete_acls" and (call[1][0].principal, call[1][0].host) == ("User:ann", "*")

    run(scenario, admin)


def test_passwords_are_set_and_in_no_answer() -> None:
    admin = FakeAdmin({"t": 1})
    admin.credentials = {"ann": ["SCRAM-SHA-512"]}

    async def scenario(scene: Scene) -> None:
        body = {"user": "bob", "password": "correct horse", "execute": True}
        answer = await scene.ask("/api/actions/set-password", body)
        assert answer.json["rows"] == [["bob", "SCRAM-SHA-512", "new credential"]] and b"correct" not in answer.body
        ((name, (change,)),) = admin.changed
        assert name == "alter_user_scram_credentials" and change.password == "correct horse"
        admin.changed.clear()
        found = await plan(scene, "set-password", user="ann", password="12345678")
        assert found["rows"][0][2] == "new password" and "12345678" not in found["command"]
        assert "it needs 8" in await refusal(scene, "set-password", user="ann", password="short")
        assert "no credential" in await refusal(scene, "delete-user", user="bob")
        await carry_out(scene, "delete-user", user="ann")
        assert admin.changed == [("alter_user_scram_credentials", [ScramDeletion("ann", "SCRAM-SHA-512")])]

    run(scenario, admin)


def test_transactions_are_listed_and_aborted() -> None:
    admin = FakeAdmin({"t": 1})
    admin.transactions = [
        TransactionDescription("tx-1", 1, "Ongoing", 77, 3, 60_000, 5, (TopicPartition("t", 0),)),
        TransactionDescription("tx-2", 2, "Empty", 78, 0, 60_000, None, ()),
    ]

    async def scenario(scene: Scene) -> None:
        found = await scene.get("/api/transactions?state=Ongoing")
        assert [(row["transactional_id"], row["partitions"]) for row in found["rows"]] == [("tx-1", ["t-0"])]
        assert (await scene.ask("/api/transactions?state=Lost")).status == 400
        found = await carry_out(scene, "abort-transaction", partition="t-0", start_offset="40")
        assert found["command"] == "kafkalite transaction abort t-0 --start-offset 40 --yes -b localhost:9092"
        assert admin.changed == [("abort_transaction", (TopicPartition("t", 0), admin.open_producer_state))]
        admin.changed.clear()
        assert "no open transaction" in await refusal(scene, "abort-transaction", partition="t-0", start_offset=41)
        assert "name one partition" in await refusal(scene, "abort-transaction", partition="", start_offset=41)

    run(scenario, admin)


def test_the_command_line_of_a_reset() -> None:
    admin = FakeAdmin({"t": 2})
    admin.committed = {"g": {TopicPartition("t", 0): 40, TopicPartition("t", 1): 40}}

    async def scenario(scene: Scene) -> None:
        targets: tuple[tuple[dict[str, Any], str], ...] = (
            ({"to": "earliest"}, "--all-topics --to-earliest"),
            ({"to": "shift", "at": -5, "topic": "t"}, "--topic t --shift-by -5"),
            ({"to": "offset", "at": 50, "topic": "t"}, "--topic t --to-offset 50"),
            ({"to": "time", "at": 1_700_000_000_123}, "--all-topics --to-datetime 2023-11-14T22:13:20.123Z"),
        )
        for asked, words in targets:
            answer = await scene.ask("/api/group/reset", {"id": "g", **asked})
            assert answer.status == 200, answer.body
            assert answer.json["command"] == f"kafkalite group reset-offsets g {words} --execute -b localhost:9092"
            assert_parses(shlex.split(answer.json["command"]))

    run(scenario, admin)


def test_nobody_acts_on_a_console_that_only_reads() -> None:
    async def scenario(scene: Scene) -> None:
        for action in ACTIONS:
            answer = await scene.ask(f"/api/actions/{action}", {"topic": "t", "execute": True, "confirm": "t"})
            assert answer.status == 403 and "only reads" in answer.json["error"]
        assert not scene.admin.changed

    run(scenario, read_only=True)


@pytest.mark.parametrize("headers", [{"x_kafkalite_console": ""}, {"origin": "http://evil.example"}])
def test_another_site_cannot_act(headers: dict[str, str]) -> None:
    from tests.unit.console.asgi_client import ask

    async def scenario(scene: Scene) -> None:
        for action in ACTIONS:
            body = {"topic": "t", "execute": True, "confirm": "t"}
            assert (await ask(scene.console.app, f"/api/actions/{action}", body, **headers)).status == 403
        assert not scene.admin.changed

    run(scenario)


def test_an_unknown_action_is_told_with_those_that_there_are() -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.ask("/api/actions/fly", {})
        assert answer.status == 400 and "create-topic" in answer.json["error"]
        assert (await scene.ask("/api/actions/create-topic")).status == 405

    run(scenario)


def test_command_lines_name_the_cluster() -> None:
    words = ("kafkalite", "topic", "delete", "it's")
    assert Where("h:1,h:2", "staging").command_line(words) == """kafkalite topic delete 'it'"'"'s' --context staging"""
    assert Where("h:1,h:2").command_line(("kafka-acls", "--list")) == "kafka-acls --bootstrap-server h:1,h:2 --list"
