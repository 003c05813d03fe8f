"""What must hold before a server takes its next form on the way to KRaft: judgements of a survey. Pure.

A problem would stop the move half-way, lose metadata, or change who may do what. The traps that others fell into are problems here:
a left-over `/migration` (its next quorum takes the metadata for copied), no controller while brokers are restarted, partitions of a later
epoch than `/controller_epoch` (KAFKA-20488, which `kafkalite doctor --fix` repairs), and controllers that leave migration mode before
every broker is registered on KRaft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kafkalite.administration.broker_releases import Release
from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem, warning
from kafkalite.cli.migrate.kraft.forms import FORM_NAMES, PROCESS_ROLES, Form, Role
from kafkalite.cli.migrate.kraft.listeners import find_scram, find_unreached
from kafkalite.cli.migrate.kraft.places import LEVEL_OF_3_9, WAYS_BACK, find_place
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server, ZooKeeperState

RELEASE: Final = Release(3, 9)
"""The last release with ZooKeeper, from which the move begins."""
QUORUM: Final = "controller.quorum.voters"
QUORUM_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
CONTROLLER_LISTENERS: Final = "controller.listener.names"
PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
AUTHORIZER: Final = "authorizer.class.name"
_ZOOKEEPER_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
KRAFT_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SAME: Final = ("super.users", "allow.everyone.if.no.acl.found", "default.replication.factor", "min.insync.replicas")
"""Settings that the controller decides by, so far by the brokers' values, now by its own."""
_LEAST_SEGMENT_BYTES: Final = 1024 * 1024
"""From 4.0 on segments are not smaller (KIP-1030)."""
_MASTER_KEY: Final = "delegation.token.master.key"
_SECRET_KEY: Final = "delegation.token.secret.key"


def judge(survey: KraftSurvey, controllers: Sequence[str], goal: Form, role: Role) -> list[Finding]:
    """Return what stands against giving servers of a role this form, and what is well. `controllers` are addresses of the quorum."""
    judges: list[Callable[[], Iterator[Finding]]] = [
        lambda: _judge_place(survey),
        lambda: _judge_answers(survey),
        lambda: _judge_cluster_ids(survey),
        lambda: _judge_health(survey),
        lambda: _judge_programs(survey),
    ]
    if goal is not Form.KAFKA_4:
        judges += [
            lambda: _judge_quorum(survey, controllers),
            lambda: _judge_authorizers(survey),
            lambda: _judge_tokens(survey),
        ]
    if survey.zookeeper is not None and goal is not Form.KAFKA_4:
        state = survey.zookeeper
        judges += [lambda: _judge_seat(survey, state, goal), lambda: _judge_work(state)]
    if goal is Form.MIGRATION:
        judges += [lambda: _judge_protocol_version(survey), lambda: _judge_authentication(survey)]
    if role is Role.CONTROLLER and goal is Form.KRAFT:
        judges += [lambda: _judge_finalization(survey)]
    if goal is Form.KAFKA_4:
        judges += [lambda: _judge_upgrade(survey)]
    return [found for each in judges for found in each()]


def _judge_place(survey: KraftSurvey) -> Iterator[Finding]:
    place = find_place(survey)
    found = f"{place}. The way back: {WAYS_BACK[place]}"
    yield ok("place", found)


def _judge_answers(survey: KraftSurvey) -> Iterator[Finding]:
    check, silent = "servers", [each for each in survey.servers if each.problem is not None]
    for each in silent:
        remedy = "every server is asked before one is restarted: start it, or see why it does not answer"
        yield problem(check, f"{each.role} at {each.address}: {each.problem}", remedy)
    if not silent:
        yield ok(check, f"{len(survey.brokers)} brokers and {len(survey.controllers)} controllers answer")
    both = {each.id for each in survey.brokers} & {each.id for each in survey.controllers if each.problem is None}
    for number in sorted(both):
        yield problem(check, f"a broker and a controller have the id {number}", "give the controller another node.id")


def _judge_cluster_ids(survey: KraftSurvey) -> Iterator[Finding]:
    check = "cluster id"
    told = {"the brokers": survey.cluster_id}
    told |= {each.name: each.cluster_id for each in survey.controllers if each.problem is None}
    if survey.zookeeper is not None:
        told["ZooKeeper"] = survey.zookeeper.cluster_id
    if len(set(told.values())) == 1:
        yield ok(check, f"{survey.cluster_id} everywhere")
        return
    found = ", ".join(f"{name}: {each or 'none'}" for name, each in told.items())
    yield problem(check, found, "format the controllers with the brokers' id: kafka-storage format --cluster-id")


def _judge_health(survey: KraftSurvey) -> Iterator[Finding]:
    if survey.unhealthy:
        remedy = (
            "kafkalite cluster health; no server is restarted while another is missing, and none without a controller"
        )
        yield from (problem("health", each, remedy) for each in survey.unhealthy)
    else:
        yield ok("health", "a controller, and all replicas in sync")


def _judge_programs(survey: KraftSurvey) -> Iterator[Finding]:
    check, found = "programs", False
    for each in survey.brokers:
        if each.is_ours:
            found = True
            remedy = "first the way to Apache Kafka 3.9: kafkalite migrate plan --to apache-kafka, step by step"
            yield problem(check, f"broker {each.id} is kafkalite, which knows no KRaft", remedy)
        elif each.release is not None and each.release < RELEASE:
            found = True
            yield problem(check, f"broker {each.id} is Apache Kafka {each.release}", f"bring it to {RELEASE} first")
        elif each.form in (Form.MIGRATION, Form.ZOOKEEPER) and each.value_of(PROCESS_ROLES):
            found = True
            remedy = "a broker that migrates is no controller: give controllers processes of their own"
            yield problem(check, f"broker {each.id} has {PROCESS_ROLES}={each.value_of(PROCESS_ROLES)}", remedy)
    if not found:
        yield ok(check, f"all brokers are Apache Kafka {RELEASE} or later")


def _judge_quorum(survey: KraftSurvey, controllers: Sequence[str]) -> Iterator[Finding]:
    check = "controllers"
    known = [each for each in survey.controllers if each.problem is None]
    if not controllers:
        yield problem(check, "none is named", "give --controllers ID@HOST:PORT,...")
        return
    found = False
    for each in known:
        for remedy, what in _find_quorum_problems(each, known):
            found = True
            yield problem(check, f"{each.name}: {what}", remedy)
    for remedy, what in find_unreached(survey):
        found = True
        yield problem(check, what, remedy)
    if len(controllers) < 3:
        yield warning(check, f"{len(controllers)} of them", "three, so that the cluster outlives one")
    if not found and known:
        yield ok(check, f"{', '.join(str(each.id) for each in known)}, led by {known[0].leader}")
    voters = {each.value_of(QUORUM) or each.value_of(QUORUM_BOOTSTRAP) for each in known}
    for broker in survey.brokers:
        own = broker.value_of(QUORUM) or broker.value_of(QUORUM_BOOTSTRAP)
        if broker.form in (Form.MIGRATION, Form.KRAFT) and known and own not in voters:
            remedy = f"give it the controllers' own {QUORUM}: it looks for a quorum that is not there"
            yield problem(check, f"broker {broker.id} has {own or 'none'}", remedy)


def _find_quorum_problems(server: Server, controllers: Sequence[Server]) -> Iterator[tuple[str, str]]:
    """Yield remedy and problem of one controller."""
    if server.form is Form.ZOOKEEPER or server.value_of(PROCESS_ROLES) != Role.CONTROLLER:
        yield f"set {PROCESS_ROLES}=controller alone", f"{PROCESS_ROLES} is {server.value_of(PROCESS_ROLES) or 'empty'}"
    if server.leader < 0:
        yield "start a majority of the controllers, and see that they reach each other", "its quorum has no leader"
    elif server.leader not in {each.id for each in controllers}:
        yield (
            "name all controllers: --controllers ID@HOST:PORT,...",
            f"it is led by {server.leader}, which is not named",
        )
    if not server.is_registered:
        yield (
            "wait; where it stays so, restart it: a registration that times out is not repeated (KAFKA-20247)",
            "it is not registered with its quorum, which copies nothing before that",
        )
    if server.form is Form.MIGRATION and not server.value_of("zookeeper.connect"):
        yield "set zookeeper.connect as the brokers have it", "it knows no ZooKeeper to copy from"


def _judge_authorizers(survey: KraftSurvey) -> Iterator[Finding]:
    check, found = "authorizers", False
    acls = 0 if survey.zookeeper is None else survey.zookeeper.acls
    wanted = any(each.value_of(AUTHORIZER) for each in survey.brokers)
    if acls and not wanted:
        remedy = "delete them, or leave them: they bind nobody now, and will from the day when an authorizer is set"
        yield warning(check, f"{acls} ACLs are in ZooKeeper, and no broker has an authorizer", remedy)
    for each in survey.servers:
        if each.problem is not None:
            continue
        is_on_zookeeper = each.form in (Form.ZOOKEEPER, Form.MIGRATION) and each.role is Role.BROKER
        right = _ZOOKEEPER_AUTHORIZER if is_on_zookeeper else KRAFT_AUTHORIZER
        own = each.value_of(AUTHORIZER)
        if own and not wanted:
            found = True
            remedy = f"take {AUTHORIZER} out of it, and restart it: it would refuse what the open cluster allows"
            yield problem(check, f"{each.name} has {own}, the brokers have none", remedy)
        elif own != right and wanted:
            found = True
            remedy = f"set {AUTHORIZER}={right}, and restart it: it is what knows the {acls} ACLs there"
            yield problem(check, f"{each.name} has {own or 'none'}", remedy)
    for name in _SAME:
        values = {_tell_setting(each, name) for each in survey.brokers if each.problem is None}
        for each in survey.controllers:
            if each.problem is None and len(values) == 1 and _tell_setting(each, name) not in values:
                found = True
                remedy = "give it the brokers' value: from now on the controller decides by its own"
                shown = _tell_setting(each, name)
                told = problem if name == "super.users" else warning
                yield told(check, f"{each.name} has {name}={shown}, the brokers {', '.join(values)}", remedy)
    if not found:
        yield ok(check, "the right one everywhere" if wanted else "none anywhere")


def _tell_setting(server: Server, name: str) -> str:
    """Return the value of a setting. Brokers do not tell those that their tables lack, as super.users: only whether they were given."""
    return server.value_of(name) or ("a hidden value" if name in server.given else "nothing")


def _judge_tokens(survey: KraftSurvey) -> Iterator[Finding]:
    """Judge whether controllers can make and renew the delegation tokens that there are."""
    tokens = 0 if survey.zookeeper is None else survey.zookeeper.tokens
    for each in survey.controllers:
        if tokens and each.problem is None and _SECRET_KEY not in each.given:
            remedy = f"set {_SECRET_KEY} as the brokers have it"
            yield problem("delegation tokens", f"{tokens} tokens, and {each.name} without a key for them", remedy)


def _judge_seat(survey: KraftSurvey, state: ZooKeeperState, goal: Form) -> Iterator[Finding]:
    """Judge `/controller` and `/migration`, by who is asked to take which form."""
    check, seat, migration = "znodes of the move", state.seat, state.migration
    for each in state.unreadable:
        yield problem(check, each, "repair it: the quorum cannot copy what it cannot read")
    if seat is None:
        remedy = "wait until there is one; no broker is restarted while nobody leads the cluster"
        yield problem(check, "/controller is absent", remedy)
        return
    owners = {each.id for each in survey.controllers if each.problem is None}
    if seat.is_of_kraft and seat.broker_id not in owners:
        remedy = "name the quorum that owns the cluster, or stop it and run kafkalite migrate kraft release"
        yield problem(check, f"/controller is of KRaft controller {seat.broker_id}, which is not named", remedy)
    elif not seat.is_of_kraft and migration is not None and migration.metadata_offset > 0:
        remedy = (
            "stop all KRaft controllers, run kafkalite migrate kraft release, and begin again with newly formatted ones"
        )
        found = (
            f"/migration is left of controller {migration.controller_id}, and broker {seat.broker_id} is the controller"
        )
        yield problem(check, f"{found}: what changed since would not be copied", remedy)
    elif goal is Form.KRAFT and not state.is_copied:
        yield problem(check, "the quorum has not copied the metadata yet", _remedy_of_waiting(survey))
    else:
        yield ok(check, "as they should be")


def _remedy_of_waiting(survey: KraftSurvey) -> str:
    left = [str(each.id) for each in survey.brokers if each.form is Form.ZOOKEEPER]
    if left:
        return f"restart brokers {', '.join(left)} in migration mode: the quorum waits for all"
    return "wait; the log of the leading controller says what it waits for (KRaftMigrationDriver)"


def _judge_work(state: ZooKeeperState) -> Iterator[Finding]:
    for what, names in (("topics that move", state.moving), ("topics that are being deleted", state.deleting)):
        if names:
            yield problem("work", f"{what}: {join_first(names)}", "wait for its end, or cancel it")
    if not state.moving and not state.deleting:
        yield ok("work", "no topic moves or is being deleted")


def _judge_protocol_version(survey: KraftSurvey) -> Iterator[Finding]:
    found = False
    for each in survey.brokers:
        value = each.value_of(PROTOCOL_VERSION)
        if each.form is Form.ZOOKEEPER and value and not value.startswith(str(RELEASE)):
            found = True
            yield problem(PROTOCOL_VERSION, f"broker {each.id} has {value}", f"set {RELEASE} on all brokers first")
    if not found:
        yield ok(PROTOCOL_VERSION, f"{RELEASE} on all brokers on ZooKeeper")


def _judge_authentication(survey: KraftSurvey) -> Iterator[Finding]:
    for remedy, found in find_scram(survey):
        yield problem("controllers", found, remedy)


def _judge_finalization(survey: KraftSurvey) -> Iterator[Finding]:
    """Judge whether nobody needs ZooKeeper any more. What is finalized before that loses the broker that comes later (KAFKA-20960)."""
    check, found = "finalization", False
    for each in survey.brokers:
        if each.problem is None and each.form is not Form.KRAFT:
            found = True
            name = FORM_NAMES[each.form] if each.form is not None else "nothing"
            yield problem(check, f"broker {each.id} is {name}", "restart it on KRaft first: there is no way back after")
    if survey.zookeeper is not None and survey.zookeeper.brokers:
        found = True
        ids = ", ".join(map(str, survey.zookeeper.brokers))
        yield problem(
            check, f"registered in ZooKeeper: {ids}", "restart them on KRaft first: they know no other controller"
        )
    if not found:
        yield ok(check, f"all {len(survey.brokers)} brokers are on KRaft, and none is registered in ZooKeeper")


def _judge_upgrade(survey: KraftSurvey) -> Iterator[Finding]:
    check, found = "upgrade", False
    for each in survey.servers:
        if each.problem is None and each.form in (Form.ZOOKEEPER, Form.MIGRATION):
            found = True
            yield problem(
                check, f"{each.name} is {FORM_NAMES[each.form]}", "finalize the move first: 4.x has no ZooKeeper"
            )
        elif each.problem is None and 0 < each.metadata_level < LEVEL_OF_3_9 and each.role is Role.BROKER:
            found = True
            remedy = "kafka-features upgrade --metadata 3.9 before"
            yield warning(check, f"{each.name} has level {each.metadata_level} of metadata.version", remedy)
    for remedy, what in _find_refused_settings(survey):
        found = True
        yield problem(check, what, remedy)
    if not found:
        yield ok(check, "nobody is in migration mode, and Apache Kafka 4 takes the settings")


def _find_refused_settings(survey: KraftSurvey) -> Iterator[tuple[str, str]]:
    """Yield remedy and problem of settings with which Apache Kafka 4 does not start, or that it does not have any more."""
    for each in survey.servers:
        size = each.value_of("log.segment.bytes")
        if size.isdecimal() and int(size) < _LEAST_SEGMENT_BYTES:
            remedy = f"set {_LEAST_SEGMENT_BYTES} at least, or take it out: Apache Kafka 4 does not start with it"
            yield remedy, f"{each.name} has log.segment.bytes={size}"
        if _MASTER_KEY in each.given and _SECRET_KEY not in each.given:
            yield f"name it {_SECRET_KEY}: Apache Kafka 4 knows no other name", f"{each.name} has {_MASTER_KEY}"
    for topic, settings in sorted(survey.topics.items()):
        size = settings.get("segment.bytes", "")
        if size.isdecimal() and int(size) < _LEAST_SEGMENT_BYTES:
            remedy = f"set {_LEAST_SEGMENT_BYTES} at least, or delete it: kafkalite config delete --topic {topic}"
            yield remedy, f"topic {topic} has segment.bytes={size}"
