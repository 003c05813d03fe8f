"""The move to KRaft: how far it is, what stands against each phase, its plan, its order, and where the way back ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kafkalite.administration.broker_releases import Release
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.migrate.kraft.checks import KRAFT_AUTHORIZER, judge
from kafkalite.cli.migrate.kraft.cluster import delete_claim
from kafkalite.cli.migrate.kraft.forms import Form, Role, judge_form
from kafkalite.cli.migrate.kraft.phases import Voter, convert_settings, parse_voters
from kafkalite.cli.migrate.kraft.places import WAYS_BACK, Place, find_place
from kafkalite.cli.migrate.kraft.plan import format_plan, make_plan, parse_plan
from kafkalite.cli.migrate.kraft.sequence import choose_rollback, choose_step
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server, ZooKeeperState
from kafkalite.cli.migrate.plan import PlanError
from kafkalite.cli.migrate.sequence import Act, Entry, NothingLeftError, Replacement, SequenceError
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import ControllerSeat, KraftMigration

VOTERS = (Voter(9, "k", 9093),)
ADDRESSES = ["k:9093"]
QUORUM = {"controller.quorum.voters": "9@k:9093"}
KAFKA_SEAT, KRAFT_SEAT = ControllerSeat(2, 1), ControllerSeat(9, 1, 5)
WAITING, COPIED = KraftMigration(9, 5, -1, -1), KraftMigration(9, 5, 144, 5)


def broker(number: int, form: Form, **settings: str) -> Server:
    given = {"inter.broker.protocol.version": "3.9-IV0"} | {
        name.replace("_", "."): each for name, each in settings.items()
    }
    if form is not Form.ZOOKEEPER:
        given |= QUORUM
    return Server(number, f"b{number}:9092", Role.BROKER, form, Release(3, 9), given, cluster_id="id")


def controller(form: Form, **settings: str) -> Server:
    given = {"process.roles": "controller", "zookeeper.connect": "z"} | QUORUM
    given |= {name.replace("_", "."): each for name, each in settings.items()}
    return Server(9, "k:9093", Role.CONTROLLER, form, None, given, cluster_id="id", leader=9)


SILENT = Server(-1, "k:9093", Role.CONTROLLER, problem="refused", is_refused=True)


def survey(
    brokers: Form, controllers: Form | None, seat: ControllerSeat | None, migration: KraftMigration | None
) -> KraftSurvey:
    return KraftSurvey(
        "id",
        (broker(1, brokers), broker(2, brokers)),
        (controller(controllers),) if controllers is not None else (SILENT,),
        ZooKeeperState("id", seat, migration, (1, 2) if brokers in (Form.ZOOKEEPER, Form.MIGRATION) else ()),
    )


BEFORE = survey(Form.ZOOKEEPER, None, KAFKA_SEAT, None)
PROVIDED = survey(Form.ZOOKEEPER, Form.MIGRATION, KAFKA_SEAT, WAITING)
MIGRATED = survey(Form.MIGRATION, Form.MIGRATION, KRAFT_SEAT, COPIED)
ON_KRAFT = survey(Form.KRAFT, Form.MIGRATION, KRAFT_SEAT, COPIED)
FINAL = survey(Form.KRAFT, Form.KRAFT, KRAFT_SEAT, COPIED)


def problems(
    found: KraftSurvey, goal: Form, role: Role = Role.BROKER, addresses: Sequence[str] = ADDRESSES
) -> list[str]:
    return [
        f"{each.check}: {each.found}" for each in judge(found, addresses, goal, role) if each.status is Status.PROBLEM
    ]


@pytest.mark.parametrize(
    ("settings", "oldest_fetch", "role", "form"),
    [
        ({"process.roles": ""}, 0, Role.BROKER, Form.ZOOKEEPER),
        ({"zookeeper.metadata.migration.enable": "true", "process.roles": None}, 0, Role.BROKER, Form.MIGRATION),
        ({"process.roles": "broker"}, 0, Role.BROKER, Form.KRAFT),
        ({"process.roles": "broker"}, 4, Role.BROKER, Form.KAFKA_4),
        (
            {"process.roles": "controller", "zookeeper.metadata.migration.enable": "true"},
            0,
            Role.CONTROLLER,
            Form.MIGRATION,
        ),
        (
            {"process.roles": "controller", "zookeeper.metadata.migration.enable": "false"},
            0,
            Role.CONTROLLER,
            Form.KRAFT,
        ),
        ({"process.roles": "controller"}, 4, Role.CONTROLLER, Form.KAFKA_4),
    ],
)
def test_a_form_shows_in_what_a_server_says(
    settings: dict[str, str | None], oldest_fetch: int, role: Role, form: Form
) -> None:
    assert judge_form(settings, oldest_fetch, role) is form


@pytest.mark.parametrize(
    ("found", "place"),
    [
        (BEFORE, Place.BEFORE),
        (PROVIDED, Place.CONTROLLERS),
        (replace(PROVIDED, brokers=(broker(1, Form.MIGRATION), broker(2, Form.ZOOKEEPER))), Place.ENABLING),
        (MIGRATED, Place.COPIED),
        (replace(MIGRATED, brokers=(broker(1, Form.KRAFT), broker(2, Form.MIGRATION))), Place.BROKERS),
        (replace(ON_KRAFT, controllers=(SILENT,)), Place.UNKNOWN),
        (replace(ON_KRAFT, controllers=(controller(Form.KRAFT), SILENT)), Place.FINALIZED),
        (FINAL, Place.FINALIZED),
        (replace(FINAL, controllers=(controller(Form.KAFKA_4),)), Place.UPGRADING),
        (replace(FINAL, brokers=(replace(broker(1, Form.KAFKA_4), metadata_level=27),)), Place.RAISED),
    ],
)
def test_each_place_says_which_way_leads_back(found: KraftSurvey, place: Place) -> None:
    assert find_place(found) is place
    assert judge(found, ADDRESSES, Form.MIGRATION, Role.BROKER)[0].found.endswith(WAYS_BACK[place])
    assert WAYS_BACK[place].startswith("none") == (place in (Place.FINALIZED, Place.UPGRADING, Place.RAISED))


@pytest.mark.parametrize(
    ("found", "goal", "role"),
    [
        (PROVIDED, Form.MIGRATION, Role.BROKER),
        (MIGRATED, Form.KRAFT, Role.BROKER),
        (ON_KRAFT, Form.KRAFT, Role.CONTROLLER),
        (replace(FINAL, zookeeper=None), Form.KAFKA_4, Role.CONTROLLER),
    ],
)
def test_where_all_is_well_nothing_stands_against_the_phase(found: KraftSurvey, goal: Form, role: Role) -> None:
    assert problems(found, goal, role) == []


def only(text: str, found: KraftSurvey, goal: Form, role: Role = Role.BROKER) -> None:
    """One problem is found, and says this."""
    told = problems(found, goal, role)
    assert len(told) == 1 and text in told[0], told


def test_trap_a_left_over_migration_znode_would_have_its_metadata_taken_for_copied() -> None:
    left = replace(PROVIDED, zookeeper=ZooKeeperState("id", KAFKA_SEAT, COPIED, (1, 2)))
    only("/migration is left of controller 9, and broker 2 is the controller", left, Form.MIGRATION)


def test_trap_nobody_is_restarted_without_a_controller() -> None:
    only("/controller is absent", replace(PROVIDED, zookeeper=ZooKeeperState("id", None, WAITING)), Form.MIGRATION)
    only("health: controller: none", replace(MIGRATED, unhealthy=("controller: none",)), Form.KRAFT)


def test_trap_controllers_do_not_leave_migration_mode_before_all_brokers_are_on_kraft() -> None:
    late = replace(ON_KRAFT, brokers=(broker(1, Form.KRAFT), broker(2, Form.MIGRATION)))
    only("broker 2 is a server in migration mode", late, Form.KRAFT, Role.CONTROLLER)
    registered = replace(ON_KRAFT, zookeeper=ZooKeeperState("id", KRAFT_SEAT, COPIED, (3,)))
    only("registered in ZooKeeper: 3", registered, Form.KRAFT, Role.CONTROLLER)


def test_brokers_do_not_leave_zookeeper_before_its_metadata_is_copied() -> None:
    waiting = replace(MIGRATED, zookeeper=ZooKeeperState("id", KAFKA_SEAT, WAITING, (1, 2)))
    only("the quorum has not copied the metadata yet", waiting, Form.KRAFT)


def test_a_quorum_that_is_not_named_or_of_another_cluster_is_seen() -> None:
    foreign = replace(MIGRATED, zookeeper=ZooKeeperState("id", ControllerSeat(7, 1, 5), COPIED))
    only("/controller is of KRaft controller 7, which is not named", foreign, Form.KRAFT)
    other = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), cluster_id="other"),))
    only("cluster id: the brokers: id, controller 9: other, ZooKeeper: id", other, Form.MIGRATION)
    unled = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), leader=-1),))
    only("controller 9: its quorum has no leader", unled, Form.MIGRATION)
    partly = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), leader=8),))
    only("it is led by 8, which is not named", partly, Form.MIGRATION)
    unregistered = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), is_registered=False),))
    only("controller 9: it is not registered with its quorum", unregistered, Form.MIGRATION)
    same = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), id=2, leader=2),))
    only("a broker and a controller have the id 2", same, Form.MIGRATION)
    lost = replace(MIGRATED, brokers=(broker(1, Form.MIGRATION), replace(broker(2, Form.MIGRATION), settings={})))
    only("broker 2 has none", lost, Form.KRAFT)


def test_brokers_of_ours_old_ones_and_those_that_do_not_answer_come_first() -> None:
    ours = replace(PROVIDED, brokers=(replace(broker(1, Form.ZOOKEEPER), is_ours=True),))
    only("broker 1 is kafkalite, which knows no KRaft", ours, Form.MIGRATION)
    old = replace(PROVIDED, brokers=(replace(broker(1, Form.ZOOKEEPER), release=Release(3, 8)),))
    only("broker 1 is Apache Kafka 3.8", old, Form.MIGRATION)
    low = replace(
        PROVIDED, brokers=(replace(broker(1, Form.ZOOKEEPER), settings={"inter.broker.protocol.version": "2.8"}),)
    )
    only("broker 1 has 2.8", low, Form.MIGRATION)
    only("controller at k:9093: refused", BEFORE, Form.MIGRATION)
    moving_topic = replace(PROVIDED, zookeeper=ZooKeeperState("id", KAFKA_SEAT, WAITING, (1, 2), moving=("t",)))
    only("topics that move: t", moving_topic, Form.MIGRATION)


def test_controllers_reach_brokers_at_the_listener_of_the_brokers() -> None:
    inside = {"inter_broker_listener_name": "INSIDE", "listener_security_protocol_map": "INSIDE:SASL_SSL,OUT:SSL"}
    named = replace(PROVIDED, brokers=(broker(1, Form.ZOOKEEPER, **inside), broker(2, Form.MIGRATION, **inside)))
    only(
        "controller 9 looks for the brokers' listener PLAINTEXT (PLAINTEXT), theirs is INSIDE (SASL_SSL)",
        named,
        Form.MIGRATION,
    )
    assert any("set inter.broker.listener.name=INSIDE" in each for each in remedies(named, Form.MIGRATION))
    knowing = replace(named, controllers=(controller(Form.MIGRATION, **inside),))
    assert problems(knowing, Form.MIGRATION) == []
    unmapped = controller(
        Form.MIGRATION, inter_broker_listener_name="INSIDE", listener_security_protocol_map="INSIDE:SSL"
    )
    only("theirs is INSIDE (SASL_SSL)", replace(named, controllers=(unmapped,)), Form.MIGRATION)
    by_protocol = replace(PROVIDED, brokers=(broker(1, Form.ZOOKEEPER, security_inter_broker_protocol="SASL_SSL"),))
    only("theirs is SASL_SSL (SASL_SSL)", by_protocol, Form.MIGRATION)
    on_kraft = replace(ON_KRAFT, brokers=(broker(1, Form.KRAFT, **inside),))
    assert problems(on_kraft, Form.KRAFT, Role.CONTROLLER) == [], "brokers on KRaft ask the controllers themselves"


def test_no_server_authenticates_at_controllers_by_scram() -> None:
    scram = {"sasl_mechanism_controller_protocol": "SCRAM-SHA-512"}
    mapped = scram | {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}
    found = replace(BEFORE, brokers=(broker(1, Form.ZOOKEEPER, **mapped), broker(2, Form.ZOOKEEPER)))
    assert "controllers: broker 1 has sasl.mechanism.controller.protocol=SCRAM-SHA-512" in problems(
        found, Form.MIGRATION
    )
    assert any("set PLAIN on all servers" in each for each in remedies(found, Form.MIGRATION))
    only(
        "controller 9 has sasl.mechanism.controller.protocol=SCRAM-SHA-512",
        replace(PROVIDED, controllers=(controller(Form.MIGRATION, controller_listener_names="CONTROLLER", **mapped),)),
        Form.MIGRATION,
    )
    plain = mapped | {"sasl_mechanism_controller_protocol": "PLAIN"}
    for settings in (plain, scram, mapped | {"controller_listener_names": "PLAINTEXT"}):
        without = replace(PROVIDED, brokers=(broker(1, Form.ZOOKEEPER, **settings),))
        assert problems(without, Form.MIGRATION) == [], settings


def test_a_plan_names_the_brokers_listener_for_the_controllers() -> None:
    inside = {"inter_broker_listener_name": "INSIDE", "listener_security_protocol_map": "INSIDE:SASL_SSL"}
    named = replace(BEFORE, brokers=(broker(1, Form.ZOOKEEPER, **inside),))
    provided = make_plan(named, VOTERS, "CONTROLLER", (), datetime.now(UTC)).phases[0]
    assert provided.changed["inter.broker.listener.name"] == "INSIDE"
    assert provided.changed["listener.security.protocol.map"] == "INSIDE:SASL_SSL,CONTROLLER:PLAINTEXT"
    assert any("listener.name.inside." in each for each in provided.actions)
    assert PLAN.phases[0].changed["inter.broker.listener.name"] == "PLAINTEXT"
    assert PLAN.phases[0].changed["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_acls_are_known_to_whoever_decides_by_them() -> None:
    theirs = "kafka.security.authorizer.AclAuthorizer"
    state = ZooKeeperState("id", KAFKA_SEAT, WAITING, (1,), acls=3)
    guarded = replace(PROVIDED, brokers=(broker(1, Form.ZOOKEEPER, authorizer_class_name=theirs),), zookeeper=state)
    only("controller 9 has none", guarded, Form.MIGRATION)
    knowing = replace(guarded, controllers=(controller(Form.MIGRATION, authorizer_class_name=KRAFT_AUTHORIZER),))
    assert problems(knowing, Form.MIGRATION) == []
    moved = replace(knowing, brokers=(broker(1, Form.KRAFT, authorizer_class_name=theirs),))
    assert f"authorizers: broker 1 has {theirs}" in problems(moved, Form.KRAFT)


def test_super_users_of_the_brokers_are_those_of_the_controllers_though_nobody_tells_them() -> None:
    given = frozenset({"super.users"})
    named = replace(PROVIDED, brokers=(replace(broker(1, Form.ZOOKEEPER), given=given),))
    only("controller 9 has super.users=nothing, the brokers a hidden value", named, Form.MIGRATION)
    both = replace(named, controllers=(replace(controller(Form.MIGRATION), given=given),))
    assert problems(both, Form.MIGRATION) == []


def test_controllers_have_the_key_of_the_delegation_tokens() -> None:
    state = ZooKeeperState("id", KAFKA_SEAT, WAITING, (1, 2), tokens=4)
    with_tokens = replace(PROVIDED, zookeeper=state)
    only("4 tokens, and controller 9 without a key for them", with_tokens, Form.MIGRATION)
    key = frozenset({"delegation.token.secret.key"})
    keyed = replace(with_tokens, controllers=(replace(controller(Form.MIGRATION), given=key),))
    assert problems(keyed, Form.MIGRATION) == []


def remedies(found: KraftSurvey, goal: Form) -> list[str]:
    return [f"{each.found}: {each.remedy}" for each in judge(found, ADDRESSES, goal, Role.BROKER) if each.remedy]


def test_nobody_is_told_to_close_a_cluster_that_is_open() -> None:
    closed = replace(PROVIDED, controllers=(controller(Form.MIGRATION, authorizer_class_name=KRAFT_AUTHORIZER),))
    only(f"controller 9 has {KRAFT_AUTHORIZER}, the brokers have none", closed, Form.MIGRATION)
    assert any("take authorizer.class.name out of it" in each for each in remedies(closed, Form.MIGRATION))
    left = replace(PROVIDED, zookeeper=ZooKeeperState("id", KAFKA_SEAT, WAITING, (1, 2), acls=3))
    assert problems(left, Form.MIGRATION) == []
    assert any(
        each.startswith("3 ACLs are in ZooKeeper, and no broker has an authorizer")
        for each in remedies(left, Form.MIGRATION)
    )


def test_remedies_name_options_that_there_are() -> None:
    partly = replace(PROVIDED, controllers=(replace(controller(Form.MIGRATION), leader=8),))
    assert any(each.endswith("--controllers ID@HOST:PORT,...") for each in remedies(partly, Form.MIGRATION))
    low = replace(FINAL, zookeeper=None, brokers=(replace(broker(1, Form.KRAFT), metadata_level=20),))
    assert any(each.endswith("kafka-features upgrade --metadata 3.9 before") for each in remedies(low, Form.KAFKA_4))
    assert "kafkalite migrate kraft check --controllers 9@k:9093" in format_plan(PLAN)


def test_the_order_of_controllers_is_said_as_it_was_known() -> None:
    assert "in the order of their ids, since nobody led the quorum when this was planned" in format_plan(PLAN)
    led = make_plan(ON_KRAFT, VOTERS, "CONTROLLER", (), datetime.now(UTC))
    assert "9, which led the quorum when this was planned, is last" in format_plan(led)


def test_what_apache_kafka_4_refuses_is_told_before() -> None:
    calm = replace(FINAL, zookeeper=None)
    small = replace(calm, brokers=(broker(1, Form.KRAFT, log_segment_bytes="150000"),))
    only("broker 1 has log.segment.bytes=150000", small, Form.KAFKA_4)
    only("topic t has segment.bytes=20000", replace(calm, topics={"t": {"segment.bytes": "20000"}}), Form.KAFKA_4)
    named = replace(broker(1, Form.KRAFT), given=frozenset({"delegation.token.master.key"}))
    only("broker 1 has delegation.token.master.key", replace(calm, brokers=(named,)), Form.KAFKA_4)
    only("controller 9 is a server in migration mode", replace(ON_KRAFT, zookeeper=None), Form.KAFKA_4)


PLAN = make_plan(BEFORE, VOTERS, "CONTROLLER", judge(BEFORE, ADDRESSES, Form.MIGRATION, Role.BROKER), datetime.now(UTC))


def test_a_plan_has_every_phase_in_its_order_and_is_read_as_it_was_written() -> None:
    assert parse_plan(format_plan(PLAN)) == PLAN
    assert [each.name for each in PLAN.phases] == [
        "controllers",
        "migration mode",
        "brokers on KRaft",
        "finalization",
        "Apache Kafka 4",
        "metadata.version",
    ]
    assert [(each.server, each.form) for each in PLAN.steps] == [
        *((1, Form.MIGRATION), (2, Form.MIGRATION), (1, Form.KRAFT), (2, Form.KRAFT), (9, Form.KRAFT)),
        *((9, Form.KAFKA_4), (1, Form.KAFKA_4), (2, Form.KAFKA_4)),
    ], "the controller on ZooKeeper is the last broker"
    assert PLAN.problems == ("servers: controller at k:9093: refused",)
    assert [each.name for each in make_plan(FINAL, VOTERS, "CONTROLLER", (), datetime.now(UTC)).phases] == [
        "Apache Kafka 4",
        "metadata.version",
    ], "what is done is no part of it"
    for text in (
        "x",
        "format = 1",
        format_plan(PLAN).replace('"kafka-4"', '"kafka-5"'),
        format_plan(PLAN).replace("9@", ""),
        re.sub("(?m)^made = .*$", "made = 7", format_plan(PLAN)),
        format_plan(PLAN).replace("server = 1\n", "server = true\n"),
        format_plan(PLAN).replace('"b1:9092"', '"b1:9092,b2:9092"'),
        format_plan(PLAN).replace('"b1:9092"', '"b1:x"'),
        format_plan(PLAN).replace('role = "controller"', 'role = "broker"'),
        format_plan(PLAN).replace('cluster_id = "id"', "cluster_id = 5"),
        format_plan(PLAN).replace('name = "finalization"', "name = 5"),
    ):
        with pytest.raises(PlanError):
            parse_plan(text)


def done(*steps: tuple[int, Form]) -> list[Entry]:
    replacements = [Replacement(number, *each) for number, each in enumerate(steps, 1)]
    return [Entry(each, act, is_done) for each in replacements for act in Act for is_done in (False, True)]


def begun(entries: list[Entry], step: tuple[int, Form], last: Act) -> list[Entry]:
    """One more step, up to the beginning of an act."""
    replacement = Replacement(len(entries) // (2 * len(Act)) + 1, *step)
    more = [Entry(replacement, act, is_done) for act in Act for is_done in (False, True)]
    return [*entries, *more[: more.index(Entry(replacement, last, False)) + 1]]


TO_KRAFT = [(1, Form.MIGRATION), (2, Form.MIGRATION), (1, Form.KRAFT), (2, Form.KRAFT)]


def test_each_step_follows_the_one_before() -> None:
    steps = [(each.server, each.form) for each in PLAN.steps]
    for count, step in enumerate(steps):
        assert choose_step(PLAN, done(*steps[:count])) == Replacement(count + 1, *step)
    with pytest.raises(NothingLeftError):
        choose_step(PLAN, done(*steps))
    assert choose_step(PLAN, begun([], steps[0], Act.START)) == Replacement(1, *steps[0])


def test_the_way_back_is_the_same_way_and_ends_at_the_finalization() -> None:
    entries = done(*TO_KRAFT)
    back = choose_rollback(PLAN, entries)
    assert back == Replacement(5, 2, Form.MIGRATION)
    with pytest.raises(SequenceError, match="the rollback of server 2 is not finished"):
        choose_step(PLAN, begun(entries, (2, Form.MIGRATION), Act.STOP))
    assert choose_rollback(PLAN, begun(entries, (2, Form.MIGRATION), Act.STOP)) == back
    taken_back = done(*TO_KRAFT, (2, Form.MIGRATION), (1, Form.MIGRATION), (2, Form.ZOOKEEPER))
    assert choose_rollback(PLAN, taken_back) == Replacement(8, 1, Form.ZOOKEEPER)
    assert choose_step(PLAN, taken_back) == Replacement(8, 2, Form.MIGRATION), "and forward again"
    with pytest.raises(NothingLeftError):
        choose_rollback(PLAN, done(*TO_KRAFT[:1], (1, Form.ZOOKEEPER)))


def test_there_is_no_way_back_from_the_first_controller_that_is_stopped_on() -> None:
    final = (9, Form.KRAFT)
    assert choose_rollback(PLAN, begun(done(*TO_KRAFT), final, Act.TAKE_BEFORE)) == Replacement(6, 2, Form.MIGRATION)
    for entries in (begun(done(*TO_KRAFT), final, Act.STOP), done(*TO_KRAFT, final)):
        with pytest.raises(SequenceError, match="no way back to ZooKeeper"):
            choose_rollback(PLAN, entries)
    upgraded = done(*TO_KRAFT, final, (9, Form.KAFKA_4), (1, Form.KAFKA_4))
    assert choose_rollback(PLAN, upgraded) == Replacement(8, 1, Form.KRAFT)
    assert choose_rollback(PLAN, done(*TO_KRAFT, final, (9, Form.KAFKA_4))) == Replacement(7, 9, Form.KRAFT)


def test_voters_are_read_as_kafka_writes_them() -> None:
    assert parse_voters("9@k:9093, 8@[::1]:1") == (Voter(9, "k", 9093), Voter(8, "::1", 1))
    for text in ("", "k:9093", "x@k:9093", "9@k:1,9@k:2"):
        with pytest.raises(ValueError, match=r"."):
            parse_voters(text)


def test_settings_of_each_form_are_made_from_those_on_zookeeper() -> None:
    given = {
        "broker.id": "1",
        "listeners": "PLAINTEXT://:9092",
        "zookeeper.connect": "z",
        "inter.broker.protocol.version": "3.9",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "kafkalite.http.listener": ":8080",
    }
    assert convert_settings(given, Form.ZOOKEEPER, VOTERS, "CONTROLLER") == given
    migrating = convert_settings(given, Form.MIGRATION, VOTERS, "CONTROLLER")
    assert given.items() <= migrating.items() and migrating["zookeeper.metadata.migration.enable"] == "true"
    assert migrating["controller.quorum.voters"] == "9@k:9093"
    for form in (Form.KRAFT, Form.KAFKA_4):
        on_kraft = convert_settings(given, form, VOTERS, "CONTROLLER")
        assert on_kraft["process.roles"] == "broker" and on_kraft["node.id"] == "1"
        assert on_kraft["authorizer.class.name"] == KRAFT_AUTHORIZER
        assert not any(each.startswith(("zookeeper.", "kafkalite.", "broker.id", "inter.")) for each in on_kraft)
    for generated in ({}, {"broker.id": "-1"}):
        for form in (Form.MIGRATION, Form.KRAFT):
            with pytest.raises(ValueError, match=r"meta\.properties"):
                convert_settings(generated, form, VOTERS, "CONTROLLER")
    named = {"broker.id": "1", "listener.security.protocol.map": "A:SSL"}
    mapped = convert_settings(named, Form.MIGRATION, VOTERS, "K")
    assert mapped["listener.security.protocol.map"] == "A:SSL,K:PLAINTEXT"


def test_the_claim_of_a_quorum_is_deleted_whole_and_only_it() -> None:
    async def check() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(5)
        await store.create("/controller", KRAFT_SEAT.encode())
        await store.create("/migration", b'{"version":0,"kraft_metadata_offset":9}')
        assert await delete_claim(store, "") == "/controller and /migration"
        assert await store.exists("/controller") is None and await store.exists("/migration") is None
        await store.create("/controller", KAFKA_SEAT.encode())
        assert await delete_claim(store, "") == "", "a broker's seat stays"
        assert await store.exists("/controller") is not None

    asyncio.run(check())
