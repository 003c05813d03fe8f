"""What must hold before a broker of one side is replaced by one of the other: judgements of a survey. Pure.

Health, disks, znodes and ZooKeeper are judged by `kafkalite.cli.doctor`; here is what concerns two programs in one cluster. A problem is
what would lose records, keep a broker from starting or change who may do what; a warning is what will be different.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite import OWN_SETTINGS
from kafkalite.administration.broker_releases import Release
from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem, skip_check, warning
from kafkalite.cli.migrate.survey import NAMES, Side, Survey, SurveyedBroker, SurveyedMetadata
from kafkalite.config.broker import BROKER_KEYS, OLDEST_PROTOCOL, warn_of_idle
from kafkalite.config.keys import Effect, InvalidValue, Key
from kafkalite.config.security_keys import is_of_listener
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.protocol.inter_broker import ProtocolVersion

if TYPE_CHECKING:
    from kafkalite.client.admin.configs import ConfigEntry

PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
MESSAGE_FORMAT: Final = "log.message.format.version"
HELD: Final = (PROTOCOL_VERSION, MESSAGE_FORMAT)
"""Settings that stay as they are until the last broker is replaced, since their values say what the others understand."""
OLDEST_RELEASE: Final = Release(1, 1)

_AUTHORIZER: Final = "authorizer.class.name"
_TOKEN_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
_SAME_EVERYWHERE: Final = (
    MESSAGE_FORMAT,
    _AUTHORIZER,
    "allow.everyone.if.no.acl.found",
    "super.users",
    "auto.create.topics.enable",
    "delete.topic.enable",
    "default.replication.factor",
    "num.partitions",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.max.bytes",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.max.timeout.ms",
    "group.max.session.timeout.ms",
    "zookeeper.connect",
)
"""Settings of which any broker's value may decide for the cluster, depending on who is controller, coordinator or leader."""
_KRAFT_MOVE: Final = "zookeeper.metadata.migration.enable"
_CLASS_NAMES: Final = (".class", ".class.name")
"""Endings of settings that name a class of Java, such as principal.builder.class and create.topic.policy.class.name."""
_SET_BY_KAFKA: Final = frozenset({"node.id"})
"""Settings that Apache Kafka adds by itself to those of the file."""
_SCRAM_PREFIX: Final = "SCRAM-"


def judge_brokers(survey: Survey, target: Side) -> Iterator[Finding]:
    """Judge what the brokers are and how they are set, before those that are not of the `target` side are replaced."""
    yield from _judge_kinds(survey.brokers, target)
    answering = [each for each in survey.brokers if each.problem is None]
    if not answering:
        return
    yield from _judge_protocol_version(answering, target)
    yield from _judge_agreement(answering)
    for each in answering:
        if each.side is not target:
            yield from _judge_settings(each, target)


def judge_metadata(survey: Survey, target: Side) -> Iterator[Finding]:
    """Judge what ZooKeeper and coordinators have: settings of topics, ACLs, quotas, tokens, features, and work that goes on."""
    metadata = survey.metadata
    for each in metadata.unreadable:
        yield problem("unreadable znodes", each, "repair it: each side may make something else of it")
    yield _judge_cluster_id(survey)
    yield from _judge_topic_settings(metadata, target)
    yield _judge_authorizer(survey.brokers, metadata)
    yield from _judge_quotas(metadata, target)
    yield _judge_tokens(survey.brokers, metadata)
    yield _judge_features(metadata)
    yield _judge_work(
        "reassignments", "topics that move", metadata.moving, "wait, or cancel: kafkalite partition reassign list"
    )
    yield _judge_work(
        "deletions", "topics that are being deleted", metadata.deleting, "start the brokers that hold them, or wait"
    )
    yield _judge_transactions(survey)


def _judge_cluster_id(survey: Survey) -> Finding:
    check, kept, told = "cluster id", survey.metadata.cluster_id, survey.cluster_id
    if kept == told:
        return ok(check, f"{told} in ZooKeeper and of the brokers")
    remedy = "give the ZooKeeper of these brokers, with its chroot: --zookeeper HOST:PORT/CHROOT"
    return problem(check, f"{kept or 'none'} in ZooKeeper, {told or 'none'} of the brokers", remedy)


def _judge_kinds(brokers: Sequence[SurveyedBroker], target: Side) -> Iterator[Finding]:
    check = "brokers' kinds"
    for each in brokers:
        if each.problem is not None:
            remedy = "every broker is asked before one is replaced: start it, or see why it does not answer"
            yield problem(check, f"broker {each.id} at {each.address}: {each.problem}", remedy)
        elif each.side is Side.APACHE_KAFKA and (each.release is None or each.release < OLDEST_RELEASE):
            what = f"older than {OLDEST_RELEASE}" if each.release is None else f"Apache Kafka {each.release}"
            remedy = f"bring it to {OLDEST_RELEASE} or later first, by Apache Kafka's own upgrade"
            yield problem(check, f"broker {each.id} is {what}", remedy)
    groups: dict[str, list[str]] = {}
    for each in brokers:
        if each.side is not None:
            groups.setdefault(describe_kind(each), []).append(str(each.id))
    if groups:
        found = "; ".join(f"{kind}: {', '.join(ids)}" for kind, ids in sorted(groups.items()))
        left = sum(each.side is not target for each in brokers)
        yield ok(check, f"{found}. {left} of {len(brokers)} to be replaced by {NAMES[target]}")


def describe_kind(broker: SurveyedBroker) -> str:
    """Return the program and the release of Apache Kafka whose protocol it speaks, for people."""
    if broker.side is None:
        return "unknown"
    return NAMES[broker.side] + ("" if broker.release is None else f" {broker.release}")


def _judge_protocol_version(brokers: Sequence[SurveyedBroker], target: Side) -> Iterator[Finding]:
    values = {each.id: each.value_of(PROTOCOL_VERSION) or "" for each in brokers}
    problems = list(_find_protocol_problems(brokers, values, target))
    yield from problems
    if not problems:
        yield ok(PROTOCOL_VERSION, f"{next(iter(values.values()))} on all brokers")


def _find_protocol_problems(
    brokers: Sequence[SurveyedBroker], values: Mapping[int, str], target: Side
) -> Iterator[Finding]:
    check = PROTOCOL_VERSION
    if len(set(values.values())) > 1:
        yield problem(check, _by_value(values), "give all brokers the lowest of these, one restart after the other")
    for each in brokers:
        try:
            version = ProtocolVersion.parse(values[each.id])
        except ValueError as failed:
            yield problem(check, f"broker {each.id}: {failed}", "set it to the oldest release among the brokers")
            continue
        if each.side is Side.APACHE_KAFKA and each.release is not None and version[:2] > each.release:
            remedy = "lower it: brokers would be sent requests that they do not know"
            yield problem(check, f"{values[each.id]} is above broker {each.id}, Apache Kafka {each.release}", remedy)
        if target is Side.KAFKALITE and version[:2] < OLDEST_PROTOCOL:
            remedy = "raise it on all brokers first, as Apache Kafka's upgrade does"
            yield problem(check, f"{values[each.id]} on broker {each.id} is older than kafkalite speaks", remedy)
    yield from _judge_implied_version(brokers, values, target)


def _judge_implied_version(
    brokers: Sequence[SurveyedBroker], values: Mapping[int, str], target: Side
) -> Iterator[Finding]:
    """Find brokers that have their version by default: the other program has another default with the same server.properties."""
    for each in brokers:
        entry, value = each.settings.get(PROTOCOL_VERSION), values[each.id]
        if each.side is target or entry is None or not entry.is_default:
            continue
        remedy = f"write {PROTOCOL_VERSION}={value} into its server.properties; seen here after its next restart"
        default = BROKER_KEYS[PROTOCOL_VERSION].default
        if target is Side.APACHE_KAFKA:
            found = f"broker {each.id} has {value} by default, and releases of Apache Kafka have other defaults"
            yield warning(PROTOCOL_VERSION, found, remedy)
        elif value != default:
            yield problem(
                PROTOCOL_VERSION, f"broker {each.id} has {value} by default, kafkalite's is {default}", remedy
            )


def _judge_agreement(brokers: Sequence[SurveyedBroker]) -> Iterator[Finding]:
    check, differs = "settings of all brokers", False
    for name in _SAME_EVERYWHERE:
        values = {each.id: each.value_of(name) or "" for each in brokers if name in each.settings}
        if len(set(values.values())) > 1:
            differs = True
            remedy = "give all brokers the same, or know why not: it depends on who leads which of them counts"
            yield warning(check, f"{name}: {_by_value(values)}", remedy)
    if not differs:
        yield ok(check, f"{len(_SAME_EVERYWHERE)} that should be the same everywhere are")


def _by_value(values: Mapping[int, str]) -> str:
    """Return "1, 2 have x; 3 has y"."""
    groups: dict[str, list[int]] = {}
    for broker, value in sorted(values.items()):
        groups.setdefault(value, []).append(broker)
    return "; ".join(
        f"{', '.join(map(str, ids))} {'has' if len(ids) == 1 else 'have'} {value or 'nothing'}"
        for value, ids in groups.items()
    )


def _brokers(ids: Sequence[str]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {', '.join(ids)}"


def _judge_settings(broker: SurveyedBroker, target: Side) -> Iterator[Finding]:
    """Judge the settings of a broker that is to be replaced: those that were set, and defaults that differ."""
    check, found = "settings", False
    given = {name: entry for name, entry in broker.settings.items() if not entry.is_default}
    judged = _judge_for_ours(broker, given) if target is Side.KAFKALITE else _judge_for_apache_kafka(given)
    for each in judged:
        found = True
        yield Finding(check, each.status, f"broker {broker.id}: {each.found}", each.remedy)
    if not found:
        yield ok(check, f"broker {broker.id}: {NAMES[target]} takes the {len(given)} that are set")


def _judge_for_ours(broker: SurveyedBroker, given: Mapping[str, ConfigEntry]) -> Iterator[Finding]:
    for name, entry in sorted(given.items()):
        if (refusal := _refusal_of(BROKER_KEYS.get(name), entry.value)) is not None:
            yield problem("", refusal, "take it out or change it: kafkalite would not start with it")
    acts = (broker.value_of(PROTOCOL_VERSION) or "3.9").startswith(("0.", "1.", "2."))
    if (broker.value_of(_KRAFT_MOVE) or "").lower() == "true":
        remedy = "finish the move to KRaft, or go back and take it out; kafkalite takes no part in one"
        yield problem("", f"{_KRAFT_MOVE} is true: it takes part in a move to KRaft", remedy)
    classes = {
        name for name in given if name.endswith(_CLASS_NAMES) and name not in BROKER_KEYS and not is_of_listener(name)
    }
    for name in sorted(classes):
        remedy = "do what it decides in another way; kafkalite runs no classes of Java"
        yield problem("", f"{name} is {given[name].value or 'a class'}, which kafkalite cannot run", remedy)
    for text in warn_of_idle(given.keys() - classes - {*_SET_BY_KAFKA, _KRAFT_MOVE}, message_format_acts=acts):
        yield warning("", text, "decide whether you can do without it")
    for name, entry in sorted(broker.settings.items()):
        key = BROKER_KEYS.get(name)
        if key is None or not entry.is_default or entry.is_sensitive or key.effect is Effect.NONE or name in HELD:
            continue
        default = key.format(key.default)
        if sorted((entry.value or "").split(",")) != sorted((default or "").split(",")):
            value = entry.value or "nothing"
            remedy = f"write {name}={entry.value or ''} into server.properties to keep it"
            yield warning("", f"{name} is {value} by default, kafkalite's default is {default or 'nothing'}", remedy)


def _judge_for_apache_kafka(given: Mapping[str, ConfigEntry]) -> Iterator[Finding]:
    if own := sorted(name for name in given if name.startswith(OWN_SETTINGS)):
        remedy = "it ignores them; kafkalite.zookeeper.jute.maxbuffer is -Djute.maxbuffer in its KAFKA_OPTS"
        yield warning("", f"Apache Kafka does not know {join_first(own)}", remedy)


def _refusal_of(key: Key | None, value: str | None) -> str | None:
    """Return why a setting is not taken, None when it is, or when it is a secret, which nobody can read."""
    if key is None or value is None:
        return None
    try:
        key.parse(value)
    except InvalidValue as refusal:
        return str(refusal)
    return None


def _judge_topic_settings(metadata: SurveyedMetadata, target: Side) -> Iterator[Finding]:
    check, found, count = "settings of topics", False, 0
    for path, settings in sorted(metadata.settings.items()):
        kind, _, topic = path.partition("/")
        if kind != "topics":
            continue
        count += 1
        for name, value in sorted(settings.items()):
            key = TOPIC_KEYS.get(name)
            refusal = f"{name} is not known" if key is None else _refusal_of(key, value)
            if target is Side.KAFKALITE and refusal is not None:
                found = True
                remedy = "change it before; a topic that needs it stays with Apache Kafka"
                yield problem(check, f"{topic}: {refusal}", remedy)
            elif target is Side.KAFKALITE and key is not None and key.effect is Effect.NONE:
                found = True
                yield warning(
                    check, f"{topic}: {name} has no effect: {key.reason}", "decide whether you can do without"
                )
    if not found:
        yield ok(check, f"{NAMES[target]} takes those of {count} topics")


def _judge_authorizer(brokers: Sequence[SurveyedBroker], metadata: SurveyedMetadata) -> Finding:
    check = "authorizer"
    values = {each.id: each.value_of(_AUTHORIZER) or "" for each in brokers if each.problem is None}
    without = [str(broker) for broker, value in values.items() if not value]
    if metadata.acls and without:
        found = (
            f"{metadata.acls} ACLs, and {_brokers(without)} without {_AUTHORIZER}: there everybody may do everything"
        )
        return problem(check, found, f"set {_AUTHORIZER} on every broker, or delete the ACLs: kafkalite acl delete")
    if len(set(values.values())) > 1:
        return problem(check, _by_value(values), f"set the same {_AUTHORIZER} on every broker")
    name = next(iter(values.values()), "")
    return ok(check, f"{metadata.acls} ACLs, {name or 'no authorizer'} on all brokers")


def _judge_quotas(metadata: SurveyedMetadata, target: Side) -> Iterator[Finding]:
    from kafkalite.broker.settings.quotas import CLIENT_KEYS, IP_KEYS

    check, found, count = "quotas", False, 0
    for path, settings in sorted(metadata.settings.items()):
        kind = path.partition("/")[0]
        if kind not in ("users", "clients", "ips"):
            continue
        quotas = {name for name in settings if not name.startswith(_SCRAM_PREFIX)}
        count += bool(quotas)
        unknown = sorted(quotas - (IP_KEYS if kind == "ips" else CLIENT_KEYS).keys())
        if unknown and target is Side.KAFKALITE:
            found = True
            yield warning(check, f"{path}: {join_first(unknown)} is not known here", "it has no effect with kafkalite")
    if not found:
        yield ok(check, f"{NAMES[target]} keeps those of {count} users, clients and addresses")


def _judge_tokens(brokers: Sequence[SurveyedBroker], metadata: SurveyedMetadata) -> Finding:
    check = "delegation tokens"
    if not metadata.tokens:
        return ok(check, "there are none")
    without = [
        str(each.id)
        for each in brokers
        if each.problem is None
        and all(name not in each.settings or each.settings[name].is_default for name in _TOKEN_KEYS)
    ]
    if without:
        remedy = f"set {_TOKEN_KEYS[0]} to the same on every broker: clients with a token cannot log in there"
        return problem(check, f"{metadata.tokens} tokens, and {_brokers(without)} without a key for them", remedy)
    remedy = f"see that {_TOKEN_KEYS[0]} is the same on every broker: no broker tells it"
    return warning(check, f"{metadata.tokens} tokens, and a key on every broker", remedy)


def _judge_features(metadata: SurveyedMetadata) -> Finding:
    check = "finalized features"
    if metadata.features:
        found = ", ".join(f"{name} {level}" for name, level in sorted(metadata.features.items()))
        return problem(check, found, "brokers with ZooKeeper have none: see who finalized it, and what depends on it")
    return ok(check, "there are none")


def _judge_work(check: str, what: str, names: Sequence[str], remedy: str) -> Finding:
    if names:
        return problem(check, f"{what}: {join_first(names)}", remedy)
    return ok(check, "none goes on")


def _judge_transactions(survey: Survey) -> Finding:
    check, found = "transactions", survey.transactions
    if found is None:
        return skip_check(check, "brokers before 3.0 do not list them")
    if found.overdue:
        remedy = "end them before: kafkalite transaction find-hanging --all, kafkalite transaction abort"
        names = join_first(found.overdue)
        return problem(check, f"{len(found.overdue)} are open beyond their timeout: {names}", remedy)
    return ok(check, f"{found.ongoing} are open, none beyond its timeout")
