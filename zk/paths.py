"""Every path that a Kafka 2.8 to 3.9 cluster in ZooKeeper mode uses; no path literal stands anywhere else.

Constants are the paths that exist once; functions make those with a name in them. Paths are relative to the chroot of the
connect string.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_plus

BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CLUSTER: Final = "/cluster"
CLUSTER_ID: Final = "/cluster/id"
CONSUMERS: Final = "/consumers"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
FEATURE: Final = "/feature"
ADMIN: Final = "/admin"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
CONFIG: Final = "/config"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_BROKERS: Final = "/config/brokers"
CONFIG_CLIENTS: Final = "/config/clients"
CONFIG_USERS: Final = "/config/users"
CONFIG_IPS: Final = "/config/ips"
CONFIG_CHANGES: Final = "/config/changes"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
ACL: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
ACL_EXTENDED: Final = "/kafka-acl-extended"
ACL_EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_PREFIXED: Final = "/kafka-acl-extended/prefixed"
DELEGATION_TOKEN_ROOT: Final = "/delegation_token"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES: Final = "/delegation_token/token_changes"
MIGRATION: Final = "/migration"
SPARK_JOB_LOCKS: Final = "/kafkalite/spark_jobs/locks"
SESSION_ENDING_PREFIX: Final = "/kafkalite_session_ending_"
"""Ephemeral, of the broker that ends the session of a dead one. These two are ours; everything else is Kafka's."""

ZOOKEEPER: Final = "/zookeeper"
"""ZooKeeper's own, beside the chroot's."""

CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
ISR_CHANGE_PREFIX: Final = "/isr_change_notification/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
ACL_CHANGE_PREFIX: Final = "/kafka-acl-changes/acl_changes_"
ACL_EXTENDED_CHANGE_PREFIX: Final = "/kafka-acl-extended-changes/acl_changes_"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    CONFIG_TOPICS,
    CONFIG_CLIENTS,
    CONFIG_USERS,
    CONFIG_BROKERS,
    CONFIG_IPS,
)
"""What every broker creates at its start if it is missing, without data, in Kafka's order."""

DEFAULT_ENTITY: Final = "<default>"
"""The literal name of the znode that holds the defaults of brokers, clients, users or ips."""


_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""Characters that ZooKeeper takes in no path (its `PathUtils`); what is beyond 16 bits is two surrogates in Java."""


def check(path: str) -> str:
    """Return the path itself. ValueError when ZooKeeper would not take it."""
    if (
        path.isascii()
        and path.isprintable()
        and path.startswith("/")
        and "//" not in path
        and "/." not in path
        and not path.endswith("/")
    ):
        return path  # as nearly all are, and there may be hundreds of thousands
    if not path.startswith("/") or _REFUSED.search(path):
        raise ValueError(f"{path!r} is no absolute path of a znode")
    if path != "/" and not all(part not in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError(f"{path!r} has an empty or relative element")
    return path


def parent(path: str) -> str:
    """Return `/a/b` for `/a/b/c`, `/` for `/a`."""
    return path.rpartition("/")[0] or "/"


def name(path: str) -> str:
    """Return the last element of a path."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> list[str]:
    """Return `/a`, `/a/b` for `/a/b/c`: what must exist before it, outermost first."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]


def child(path: str, child_name: str) -> str:
    """Return the path of a child by its name."""
    return f"{path}/{child_name}" if path != "/" else f"/{child_name}"


def broker(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def broker_id(znode_name: str) -> int | None:
    """Return the broker that registers under this name; None for a name that is no broker's."""
    number = int(znode_name) if znode_name.isdecimal() and len(znode_name) <= 10 else -1
    return number if 0 <= number < 2**31 and str(number) == znode_name else None


def topic(topic_name: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{topic_name}"


def partitions(topic_name: str) -> str:
    """Return the path of the parent of a topic's partitions."""
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, partition_index: int) -> str:
    """Return the path of the parent of a partition's state."""
    return f"{TOPICS}/{topic_name}/partitions/{partition_index}"


def partition_state(topic_name: str, partition_index: int) -> str:
    """Return the path of a partition's leader and ISR."""
    return f"{TOPICS}/{topic_name}/partitions/{partition_index}/state"


def delete_topic(topic_name: str) -> str:
    """Return the path of the mark that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{topic_name}"


def config(entity_path: str) -> str:
    """Return the path of an entity's configuration; `entity_path` as in a change notification: `topics/t`, `users/u/clients/c`."""
    return f"{CONFIG}/{entity_path}"


def topic_config(topic_name: str) -> str:
    return f"{CONFIG_TOPICS}/{topic_name}"


def broker_config(broker_id: int | None) -> str:
    """Return the path of a broker's dynamic configuration; of None, the defaults of all brokers."""
    return f"{CONFIG_BROKERS}/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def user_config(user: str, client_id: str | None = None) -> str:
    """Return the path of a user's configuration, or that of a client of the user."""
    name = sanitize(user)
    return f"{CONFIG_USERS}/{name}" if client_id is None else f"{user_clients(name)}/{sanitize(client_id)}"


def user_clients(user_name: str) -> str:
    """Return the parent of the configurations of a user's clients, by the name of the user's znode."""
    return f"{CONFIG_USERS}/{user_name}/clients"


def acls_of_type(resource_type: str, is_prefixed: bool) -> str:
    """Return the path of the parent of the patterns, literal or prefixed, of a type of resources: `Topic`, `TransactionalId`."""
    return f"{ACL_PREFIXED if is_prefixed else ACL}/{resource_type}"


def resource_acls(resource_type: str, resource_name: str, is_prefixed: bool) -> str:
    """Return the path of the entries of one pattern; its name goes in as it is."""
    return f"{acls_of_type(resource_type, is_prefixed)}/{resource_name}"


def consumer_group(group_id: str) -> str:
    """Return the path of a group of the time before Kafka kept offsets itself; its name goes in as it is."""
    return f"{CONSUMERS}/{group_id}"


def consumer_ids(group_id: str) -> str:
    """Return the path of the parent of a group's members."""
    return f"{CONSUMERS}/{group_id}/ids"


def consumer_id(group_id: str, member_id: str) -> str:
    """Return the path of a member's subscription."""
    return f"{CONSUMERS}/{group_id}/ids/{member_id}"


def consumer_owners(group_id: str, topic_name: str | None = None) -> str:
    """Return the path of the parent of the topics that a group reads, or of one topic's owners."""
    return f"{CONSUMERS}/{group_id}/owners" + (f"/{topic_name}" if topic_name is not None else "")


def consumer_owner(group_id: str, topic_name: str, partition_index: int) -> str:
    """Return the path of the owner of a partition: the thread of a member that reads it."""
    return f"{CONSUMERS}/{group_id}/owners/{topic_name}/{partition_index}"


def consumer_offsets(group_id: str, topic_name: str | None = None) -> str:
    """Return the path of the parent of the topics that a group has offsets of, or of one topic's offsets."""
    return f"{CONSUMERS}/{group_id}/offsets" + (f"/{topic_name}" if topic_name is not None else "")


def consumer_offset(group_id: str, topic_name: str, partition_index: int) -> str:
    """Return the path of the offset that a group has committed for a partition."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic_name}/{partition_index}"


def spark_job_lock(output: str) -> str:
    """Return the path of the lock of the jobs that write to an output folder, given by its URI."""
    return f"{SPARK_JOB_LOCKS}/{sanitize(output)}"


def sanitize(entity_name: str) -> str:
    """Return a user or client name as a znode's name: percent-encoded UTF-8, except that `<default>` stays as it is."""
    return entity_name if entity_name == DEFAULT_ENTITY else sanitize_name(entity_name)


def sanitize_name(name: str) -> str:
    """Return a name as that of a znode, as `sanitize` does; `<default>` is a name as any other.

    The same set of characters as Kafka's Sanitizer, which encodes `~` where Python's `quote` never does.
    """
    return quote(name, safe="-._").replace("~", "%7E")


def desanitize(znode_name: str) -> str:
    """Return the entity that `sanitize` made this name for. A `+`, which it does not make, is a blank, as Kafka reads it."""
    return znode_name if znode_name == DEFAULT_ENTITY else unquote_plus(znode_name)


def sequence_number(path_or_name: str) -> int:
    """Return the number that ZooKeeper appended to a sequential znode; ValueError when there is none.

    The counter is a signed 32-bit one, so the last ten characters may carry a sign.
    """
    digits = name(path_or_name)[-10:]
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"{path_or_name!r} does not end in a sequence number") from None
