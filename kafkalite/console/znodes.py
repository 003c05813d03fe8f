"""The tree of ZooKeeper, one znode at a time, and the meaning of each znode from a table of paths, in which * stands for one name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.console.decoding import WHOLE_BYTES, decode_text
from zk import paths

if TYPE_CHECKING:
    from zk.store import Store

MOST_CHILDREN: Final = 1_000
_HIDDEN: Final = "It holds what nobody is to read: it is not shown."


class Meaning(NamedTuple):
    """The purpose of znodes at a path. The contents of secret ones are not shown."""

    path: str
    text: str
    is_secret: bool = False


MEANINGS: Final = (
    Meaning("/", "All that the cluster keeps in ZooKeeper."),
    Meaning(paths.BROKERS, "Brokers that live, and topics."),
    Meaning(paths.BROKER_IDS, "The brokers that live: each has an ephemeral znode here, which goes with its session."),
    Meaning(
        f"{paths.BROKER_IDS}/*",
        "A broker that lives: its addresses, its rack. Ephemeral; when it goes, the broker is dead.",
    ),
    Meaning(paths.BROKER_SEQUENCE, "Gives out ids to brokers that have none: its version is the next one."),
    Meaning(paths.TOPICS, "The topics."),
    Meaning(f"{paths.TOPICS}/*", "A topic: the brokers that hold each of its partitions, the preferred leader first."),
    Meaning(f"{paths.TOPICS}/*/partitions", "The partitions of the topic."),
    Meaning(f"{paths.TOPICS}/*/partitions/*", "A partition; what counts is in its state."),
    Meaning(
        f"{paths.TOPICS}/*/partitions/*/state",
        "Who leads the partition and which replicas are in sync, with the epochs of leader and controller. "
        "Written by the controller and, when the ISR changes, for the leader.",
    ),
    Meaning(paths.CLUSTER, "What the cluster is."),
    Meaning(
        paths.CLUSTER_ID,
        "The cluster's id, made by its first broker. Brokers refuse a log directory of another cluster.",
    ),
    Meaning(paths.CONSUMERS, "Groups of consumers of the time before Kafka kept offsets itself."),
    Meaning(f"{paths.CONSUMERS}/*", "An old consumer group."),
    Meaning(f"{paths.CONSUMERS}/*/ids", "Its members."),
    Meaning(f"{paths.CONSUMERS}/*/ids/*", "A member, ephemeral: what it subscribes to."),
    Meaning(f"{paths.CONSUMERS}/*/owners", "Who reads which partition, by topic."),
    Meaning(f"{paths.CONSUMERS}/*/owners/*", "Who reads the partitions of a topic."),
    Meaning(f"{paths.CONSUMERS}/*/owners/*/*", "The member that reads this partition; ephemeral."),
    Meaning(f"{paths.CONSUMERS}/*/offsets", "What the group has committed, by topic."),
    Meaning(f"{paths.CONSUMERS}/*/offsets/*", "What it has committed for a topic."),
    Meaning(f"{paths.CONSUMERS}/*/offsets/*/*", "The offset of the next record to read of this partition."),
    Meaning(paths.CONTROLLER, "The controller's seat: the broker whose ephemeral znode this is elects leaders."),
    Meaning(
        paths.CONTROLLER_EPOCH,
        "How often the controller has changed. Every write of a controller is refused when this has gone on meanwhile.",
    ),
    Meaning(paths.FEATURE, "Finalized features of the cluster (KIP-584)."),
    Meaning(paths.ADMIN, "What administrators have asked the controller for."),
    Meaning(paths.DELETE_TOPICS, "Topics that are to be deleted."),
    Meaning(f"{paths.DELETE_TOPICS}/*", "This topic is being deleted."),
    Meaning(paths.REASSIGN_PARTITIONS, "Moves of partitions, as tools before 2.4 ask for them."),
    Meaning(paths.PREFERRED_REPLICA_ELECTION, "Preferred leaders that are to be elected, as old tools ask for them."),
    Meaning(paths.CONFIG, "Settings that were changed while the cluster runs."),
    Meaning(paths.CONFIG_TOPICS, "Settings of topics."),
    Meaning(f"{paths.CONFIG_TOPICS}/*", "What this topic has set; everything else is the brokers' default."),
    Meaning(paths.CONFIG_BROKERS, "Settings of brokers."),
    Meaning(
        f"{paths.CONFIG_BROKERS}/*",
        f"What is set of this broker, of {paths.DEFAULT_ENTITY} for all. Passwords may be in it.",
        True,
    ),
    Meaning(paths.CONFIG_CLIENTS, "Quotas of clients."),
    Meaning(f"{paths.CONFIG_CLIENTS}/*", "Quotas of the clients with this id."),
    Meaning(paths.CONFIG_USERS, "Users: quotas and SCRAM credentials."),
    Meaning(f"{paths.CONFIG_USERS}/*", "Quotas of the user, and its SCRAM credentials.", True),
    Meaning(f"{paths.CONFIG_USERS}/*/clients", "Quotas of the user's clients."),
    Meaning(f"{paths.CONFIG_USERS}/*/clients/*", "Quotas of one client of the user."),
    Meaning(paths.CONFIG_IPS, "Quotas of addresses."),
    Meaning(f"{paths.CONFIG_IPS}/*", "How many connections a second this address may make."),
    Meaning(paths.CONFIG_CHANGES, "Notices of changed settings, which brokers watch."),
    Meaning(
        f"{paths.CONFIG_CHANGES}/*", "Settings of something changed; a quarter of an hour later the notice may go."
    ),
    Meaning(paths.ISR_CHANGES, "Notices of leaders that have changed an ISR, as brokers before 2.7 write them."),
    Meaning(f"{paths.ISR_CHANGES}/*", "Partitions whose ISR changed; the controller removes it when everybody knows."),
    Meaning(paths.LOG_DIR_EVENTS, "Notices of log directories that failed."),
    Meaning(f"{paths.LOG_DIR_EVENTS}/*", "The broker that lost a log directory."),
    Meaning(paths.PRODUCER_ID_BLOCK, "The block of producer ids that was given out last: no id is given out twice."),
    Meaning(paths.ACL, "Rules for names in full: who may do what."),
    Meaning(f"{paths.ACL}/*", "Rules about resources of a type."),
    Meaning(f"{paths.ACL}/*/*", "The rules about one resource."),
    Meaning(paths.ACL_CHANGES, "Notices of changed rules, which brokers watch."),
    Meaning(f"{paths.ACL_CHANGES}/*", "The rules of a resource changed."),
    Meaning(paths.ACL_EXTENDED, "Rules for names that begin with something."),
    Meaning(paths.ACL_PREFIXED, "Rules by prefix."),
    Meaning(f"{paths.ACL_PREFIXED}/*", "Rules by prefix about resources of a type."),
    Meaning(f"{paths.ACL_PREFIXED}/*/*", "The rules about all names that begin like this."),
    Meaning(paths.ACL_EXTENDED_CHANGES, "Notices of changed rules by prefix."),
    Meaning(f"{paths.ACL_EXTENDED_CHANGES}/*", "The rules of a prefix changed."),
    Meaning(paths.DELEGATION_TOKEN_ROOT, "Delegation tokens (KIP-48)."),
    Meaning(paths.DELEGATION_TOKENS, "The tokens that were given out."),
    Meaning(f"{paths.DELEGATION_TOKENS}/*", "A token: its owner, who may renew it, until when it holds.", True),
    Meaning(paths.DELEGATION_TOKEN_CHANGES, "Notices of changed tokens."),
    Meaning(f"{paths.DELEGATION_TOKEN_CHANGES}/*", "A token changed."),
    Meaning(paths.MIGRATION, "How far Apache Kafka's move from ZooKeeper to KRaft is."),
    Meaning(
        paths.parent(paths.parent(paths.SPARK_JOB_LOCKS)), "What is kafkalite's own; everything else has Kafka's form."
    ),
    Meaning(
        f"{paths.SESSION_ENDING_PREFIX}*",
        "A broker that ends the session of a dead one, and keeps others from ending a second one meanwhile.",
    ),
    Meaning(paths.parent(paths.SPARK_JOB_LOCKS), "The nightly jobs on Spark."),
    Meaning(paths.SPARK_JOB_LOCKS, "Which nightly runs go on, so that no two write to one place."),
    Meaning(f"{paths.SPARK_JOB_LOCKS}/*", "A nightly run that goes on."),
    Meaning(paths.ZOOKEEPER, "ZooKeeper's own: its quotas and its members."),
    Meaning(f"{paths.ZOOKEEPER}/config", "The members of the ensemble."),
    Meaning(f"{paths.ZOOKEEPER}/quota", "Limits on how much may be kept below a path."),
)


def meaning_of(path: str) -> Meaning | None:
    """Return the first entry of the table that matches the path; None for a path that Kafka does not use."""
    parts = path.split("/")
    for each in MEANINGS:
        pattern = each.path.split("/")
        if len(pattern) == len(parts) and all(map(fnmatchcase, parts, pattern)):
            return each
    return None


async def znode(store: Store, path: str) -> dict[str, Any]:
    """Return a znode with its stat, its contents unless they are secret, and its children. Raises ValueError, and the store's errors."""
    data, stat = await store.read(paths.check(path))
    names = sorted(await store.children(path), key=_natural)
    found = meaning_of(path)
    is_secret = found is not None and found.is_secret
    children = []
    for name in names[:MOST_CHILDREN]:
        below = meaning_of(paths.child(path, name))
        children.append({"name": name, "path": paths.child(path, name), "meaning": below.text if below else None})
    return {
        "path": path,
        "meaning": found.text if found else None,
        "data": {"kind": "hidden", "text": _HIDDEN, "bytes": len(data)}
        if is_secret and data
        else decode_text(data, limit_bytes=WHOLE_BYTES),
        "stat": {name: getattr(stat, name) for name in stat.__slots__},
        "session": f"0x{stat.ephemeral_owner:x}" if stat.ephemeral_owner else None,
        "children": children,
        "children_count": len(names),
    }


def _natural(name: str) -> tuple[bool, int, str]:
    """Return a sort key that puts numbers in their order, before names."""
    return (False, int(name), name) if name.isdecimal() and len(name) < 20 else (True, 0, name)
