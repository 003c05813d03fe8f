"""The cluster itself: overview, brokers' settings, reassignments, ACLs and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.administration.acl_rows import acl_row
from kafkalite.administration.cluster_health import Verdict, judge
from kafkalite.administration.cluster_info import broker_rows, partition_counts
from kafkalite.client.errors import ClientError
from kafkalite.console.membership import UNTOLD_CONTROLLER
from kafkalite.console.parameters import BadRequestError, Parameters, cut_page
from kafkalite.console.topics import setting_rows
from kafkalite.security.acl import SUPPORTED_OPERATIONS, pascal_case
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from kafkalite.client import Admin, ClusterDescription, TopicDescription
    from kafkalite.console.survey import Survey

_PROBLEMS_SHOWN = 20
_CHANGES_SHOWN = 12
_ROLES = ("", "leads", "follows", "not in sync")


def overview(survey: Survey) -> dict[str, Any]:
    """Return brokers, controller, health, counts, and the figures of the last hour."""
    state = survey.state
    topics, cluster = list(state.topics.values()), state.cluster
    sizes: dict[int, int] = {}
    for by_broker in survey.sizes.values():
        for broker, size in by_broker.items():
            sizes[broker] = sizes.get(broker, 0) + size
    brokers = [] if cluster is None else broker_rows(cluster, topics)
    verdicts = [] if cluster is None else health(survey, cluster, topics)
    controller_id = NO_BROKER if cluster is None else cluster.controller_id
    return {
        "problem": survey.problem,
        "cluster_id": cluster.cluster_id if cluster else None,
        "controller_id": None if controller_id == UNTOLD_CONTROLLER else controller_id,
        "source": state.members.source if state.members else None,
        "brokers": [{**row, **_broker_state(survey, row["id"]), "bytes": sizes.get(row["id"])} for row in brokers],
        "counts": partition_counts(topics),
        "bytes": sum(sizes.values()) if sizes else None,
        "records_per_s": sum(survey.rates.values()) if survey.rates else None,
        "groups": len(survey.groups),
        "health": [{**each.to_dict(), "problems": each.problems[:_PROBLEMS_SHOWN]} for each in verdicts],
        "rounds": survey.rounds,
        "history": survey.history.to_dict(),
        "changes": timeline(survey)["rows"][:_CHANGES_SHOWN],
    }


def _broker_state(survey: Survey, broker: int) -> dict[str, Any]:
    state, problem, since_ms = survey.state.broker_state(broker)
    registered = survey.state.registered
    znode = registered.brokers.get(broker) if registered is not None else None
    up_since_ms = znode.since_ms if znode is not None and state != "down" else None
    return {"state": state, "problem": problem, "silent_since_ms": since_ms, "registered_since_ms": up_since_ms}


def health(survey: Survey, cluster: ClusterDescription, topics: Sequence[TopicDescription]) -> list[Verdict]:
    """Return the verdicts of `kafkalite cluster health`, and whether brokers, leaders and ZooKeeper answer."""
    verdicts = judge(cluster, topics, survey.minimums)
    if cluster.controller_id == UNTOLD_CONTROLLER:
        verdicts = [each for each in verdicts if each.check != "controller"]
    silent = survey.state.silent_brokers()
    leaders = {each.leader for topic in topics for each in topic.partitions}
    unanswering = {leader for leader in leaders if survey.state.is_unanswering(leader)}
    unanswered = tuple(
        f"{topic.name}-{each.partition}" for topic in topics for each in topic.partitions if each.leader in unanswering
    )
    verdicts += [
        Verdict(
            "brokers answer", tuple(f"broker {broker}: {survey.state.broker_state(broker)[1]}" for broker in silent)
        ),
        Verdict("leaders answer", unanswered),
    ]
    if survey.state.has_zookeeper:
        problem = survey.state.zookeeper_problem
        verdicts.append(Verdict("ZooKeeper answers", () if problem is None else (problem,)))
    return verdicts


def timeline(survey: Survey, event: str = "", known: int = -1) -> dict[str, Any]:
    """Return elections, ISR changes, and brokers and topics that appeared and disappeared, the newest first; with `event` those of one
    kind. `rows` is None for a page that has all up to number `known`.
    """
    changes = survey.state.changes
    found: dict[str, Any] = {"most": changes.most, "known": changes.count, "rows": None}
    if known != changes.count:
        rows = [each.to_dict() for each in changes.newest_first()]
        found["rows"] = [row for row in rows if event in ("", row["event"])]
    return found


async def broker_settings(admin: Admin, broker: str) -> dict[str, Any]:
    """Return a broker's settings with their sources. Raises BadRequestError for a broker that is no number."""
    if not broker.isdecimal() or len(broker) > 10:
        raise BadRequestError(f"{broker!r} is no broker's id")
    settings = await admin.describe_configs("broker", broker, documentation=True, synonyms=True)
    return {"broker": int(broker), "settings": setting_rows(settings)}


def broker_partitions(survey: Survey, asked: Parameters) -> dict[str, Any]:
    """Return a page of the partitions of `broker`: all that it has a replica of, or with `role` those that it leads, follows, or is not in
    sync with. Only the rows of the page are made.
    """
    broker = asked.number("broker", 0, 0, 2**31 - 1)
    role = asked.one_of("role", _ROLES, "")
    wanted = asked.text("filter", longest=300).lower()
    found = []
    for topic in survey.topics.values():
        if wanted not in topic.name.lower():
            continue
        for each in topic.partitions:
            if broker not in each.replicas:
                continue
            own = "leads" if each.leader == broker else "follows" if broker in each.isr else "not in sync"
            if role in ("", own):
                found.append((topic.name, each, own))
    page = cut_page(found, *asked.page())
    rows = [
        {
            "topic": name,
            **each.to_dict(),
            "role": own,
            "bytes": survey.sizes.get(TopicPartition(name, each.partition), {}).get(broker),
        }
        for name, each, own in page["rows"]
    ]
    return {**page, "rows": rows, "all": len(found)}


async def reassignments(admin: Admin) -> dict[str, Any]:
    """Return the moves in progress, and how much of each new replica is there, compared with the largest one."""
    moves = await admin.list_partition_reassignments()
    sizes: dict[TopicPartition, dict[int, int]] = {}
    if moves:
        for broker, directories in (await admin.describe_log_dirs(partitions=list(moves))).items():
            for each in (replica for directory in directories for replica in directory.replicas):
                if not each.is_future:
                    sizes.setdefault(each.topic_partition, {})[broker] = each.size_bytes
    rows = []
    for place, move in moves.items():
        by_broker = sizes.get(place, {})
        whole = max(by_broker.values(), default=0)
        arrived = {str(each): by_broker.get(each, 0) for each in move.adding_replicas}
        share = sum(arrived.values()) / (whole * len(arrived)) if whole and arrived else None
        rows.append({**move.to_dict(), "bytes": whole, "arrived_bytes": arrived, "share": share})
    return {"rows": rows}


async def permissions(admin: Admin) -> dict[str, Any]:
    """Return ACLs, users with SCRAM credentials (never the credentials), and quotas; for each an error, if it cannot be read."""
    found: dict[str, Any] = {"problems": {}}

    async def part(name: str, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except ClientError as problem:
            found["problems"][name] = str(problem)
            return []

    found["operations"] = {
        pascal_case(kind): ["All", *map(pascal_case, operations)] for kind, operations in SUPPORTED_OPERATIONS.items()
    }
    rules = await part("acls", admin.describe_acls())
    users = await part("users", admin.describe_user_scram_credentials())
    quotas = await part("quotas", admin.describe_client_quotas())
    found["acls"] = [acl_row(each) for each in rules]
    found["users"] = [
        {
            "user": user,
            "mechanisms": [each.mechanism for each in credentials],
            "credentials": [f"{each.mechanism}, {each.iterations} iterations" for each in credentials],
        }
        for user, credentials in sorted(dict(users).items())
    ]
    found["quotas"] = [{"entity": str(each.entity), "quotas": dict(each.quotas)} for each in quotas]
    return found
