"""A secured cluster for the roles of the console: users with different rights, what each role may want to change, and facts about it."""

from __future__ import annotations

import json
import secrets
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafkalite.client import ConfigChange, ConfigResource, NewTopic, ScramUpsertion, SyncAdmin, SyncProducer
from kafkalite.errors import ErrorCode
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.secured import MECHANISM
from kafkalite.net.blocking_request import exchange
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, NewRecord, build_batch
from kafkalite.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    Operation,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafkalite.types import TopicPartition

ADMIN, LOOKER, UNAUTHORIZED = "admin", "looker", "unauthorized"
"""Users of the brokers: one who may do all, one who may describe and read all, one without any right."""

ORDERS: Final = TopicPartition("orders", 0)
_TIMEOUT_S: Final = 60
_SETTING: Final = "log.cleaner.threads"
_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.partition.verification.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.retention.hours": "-1",
}
_LOOKS: Final = (
    (ResourceType.TOPIC, "*", (Operation.READ, Operation.DESCRIBE_CONFIGS)),
    (ResourceType.GROUP, "*", (Operation.DESCRIBE,)),
    (ResourceType.TRANSACTIONAL_ID, "*", (Operation.DESCRIBE,)),
    (ResourceType.CLUSTER, CLUSTER_NAME, (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)),
)
"""The rights of `LOOKER`."""
_TIME_MS: Final = 1_700_000_000_000


class World:
    """The cluster, and an administrator who looks at it beside the console."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        inside = {each.inside.port: each.inside for each in cluster.brokers.values() if each.inside is not None}
        servers = ",".join(f"{each.host}:{port}" for port, each in inside.items())
        assert cluster.security is not None
        self.admin = SyncAdmin(bootstrap_servers=servers, **cluster.security.admin_options())
        self._passwords = {user: secrets.token_urlsafe(12) for user in (LOOKER, UNAUTHORIZED)}
        self.contexts = folder / "contexts.toml"

    def make(self, roles: Collection[str]) -> None:
        """Make the users, the topic `orders` with a record and a group, and for each role what is its own."""
        made = [ScramUpsertion(user, MECHANISM, password) for user, password in self._passwords.items()]
        made += [ScramUpsertion(f"user-{role}", MECHANISM, secrets.token_urlsafe(12)) for role in roles]
        self.admin.alter_user_scram_credentials(made)
        rules = [
            _allow(LOOKER, ResourcePattern(kind, name), operation)
            for kind, name, operations in _LOOKS
            for operation in operations
        ]
        orders = ResourcePattern(ResourceType.TOPIC, ORDERS.topic)
        rules += [_allow(f"foe-{role}", orders, Operation.READ) for role in roles]
        self.admin.create_acls(rules)
        own = [f"{what}-{role}" for what in ("own", "hangs") for role in roles]
        self.admin.create_topics([NewTopic(name, 1, 2) for name in (ORDERS.topic, *own)])
        self._write(roles)
        for group in ("readers", *(f"readers-{role}" for role in roles)):
            self.admin.alter_group_offsets(group, {ORDERS: 1})
        self._write_contexts()

    def _write(self, roles: Collection[str]) -> None:
        """Write a record to each topic, one of a transaction that is committed, and those of transactions that hang."""
        with SyncProducer(**self._client_options()) as producer:
            for topic in (ORDERS.topic, *(f"own-{role}" for role in roles)):
                producer.send_and_wait(topic, b"an order", partition=0)
        with SyncProducer(**self._client_options(), transactional_id="paid") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_and_wait(ORDERS.topic, b"a payment", partition=0)
            producer.commit_transaction()
        for number, role in enumerate(roles):
            self._leave_hanging(f"hangs-{role}", 77_000 + number)

    def _leave_hanging(self, topic: str, producer_id: int) -> None:
        """Write a record of a transaction that no coordinator knows, as a producer may while partitions are not verified."""
        options = {"attributes": TRANSACTIONAL, "producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        batch = build_batch([NewRecord(None, b"left", _TIME_MS)], **options)
        m = messages.produce_request
        data = m.TopicProduceData(name=topic, partition_data=[m.PartitionProduceData(index=0, records=bytes(batch))])
        request = m.ProduceRequest(transactional_id="paid", acks=-1, timeout_ms=30_000, topic_data=[data])
        api, version = request.API, 11
        inside = self.cluster.brokers[self.cluster.leader_of(topic)].inside
        assert inside is not None
        frame = request_frame(api, version, 1, "hangs", codec.encode_request(request, version))
        told = memoryview(exchange(inside.host, inside.port, frame, lambda: _TIMEOUT_S, inside.tls))
        answer = codec.decode_response(api.key, version, told, response_body_position(api, version, told))
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.NONE, partition

    def _client_options(self) -> dict[str, Any]:
        security = self.cluster.security
        assert security is not None
        settings = {"bootstrap.servers": self.cluster.bootstrap_servers, **security.client_settings(ADMIN)}
        return {name.replace(".", "_"): value for name, value in settings.items()}

    def _write_contexts(self) -> None:
        """Write a file with a context of each user; that of the administrator also reaches ZooKeeper."""
        security = self.cluster.security
        assert security is not None
        written = security.write_client_files(self.cluster.bootstrap_servers, self.cluster.zookeeper_connect)
        known = tomllib.loads(next(each for each in written.values() if each.suffix == ".toml").read_text())["contexts"]
        contexts = {ADMIN: known[ADMIN]}
        for user, password in self._passwords.items():
            login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'
            contexts[user] = {**known["app"], "sasl.jaas.config": login}
        lines = []
        for name, settings in contexts.items():
            lines.append(f"[contexts.{name}]")
            lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in settings.items()]
        self.contexts.write_text("\n".join(lines) + "\n")

    def names(self, role: str) -> dict[str, str]:
        """Return what places, fields and texts of the tables are filled in with, as it is now."""
        (partition,) = self.admin.describe_topics([ORDERS.topic])[0].partitions
        (follower,) = set(partition.replicas) - {partition.leader}
        return {"role": role, "leader": str(partition.leader), "follower": str(follower)}


@contextmanager
def run_world(folder: Path, roles: Collection[str]) -> Iterator[World]:
    """Run two brokers with everything that the roles may look at and want to change."""
    with LocalCluster(brokers=2, secure=True, directory=folder / "cluster", properties=_SETTINGS) as cluster:
        world = World(cluster, folder)
        try:
            world.make(roles)
            yield world
        finally:
            world.admin.close()


def _allow(user: str, resource: ResourcePattern, operation: Operation) -> AclBinding:
    return AclBinding(resource, AclEntry(f"User:{user}", "*", operation, PermissionType.ALLOW))


# Preparations


def leave_as_it_is(world: World, names: Mapping[str, str]) -> None:
    """Change nothing."""


def create_topic(world: World, names: Mapping[str, str]) -> None:
    """Let a topic come that the console has not seen yet."""
    name = f"late-{names['role']}"
    if name not in world.admin.list_topics():
        world.admin.create_topics([NewTopic(name, 1, 1)])


def prefer_follower(world: World, names: Mapping[str, str]) -> None:
    """Let the follower of `orders` be preferred, so that an election would change the leader."""
    world.admin.alter_partition_reassignments({ORDERS: (int(names["follower"]), int(names["leader"]))})


def prefer_leader(world: World, names: Mapping[str, str]) -> None:
    """Let the leader of `orders` be preferred."""
    world.admin.alter_partition_reassignments({ORDERS: (int(names["leader"]), int(names["follower"]))})


def forget_broker_settings(world: World, names: Mapping[str, str]) -> None:
    """Give brokers back the setting that the roles change."""
    resources = [ConfigResource("broker", name) for name in ("", *map(str, world.cluster.broker_ids))]
    world.admin.incremental_alter_configs({each: [ConfigChange(_SETTING, "delete")] for each in resources})


# Facts, as the administrator sees them; what an action changes is one of them


def topic_names(world: World, _: Mapping[str, str]) -> object:
    return world.admin.list_topics()


def topic_settings(world: World, names: Mapping[str, str]) -> object:
    return world.admin.describe_configs("topic", f"own-{names['role']}", keys=["retention.ms"])["retention.ms"].value


def partition_count(world: World, names: Mapping[str, str]) -> object:
    return len(world.admin.describe_topics([f"own-{names['role']}"])[0].partitions)


def leaders(world: World, _: Mapping[str, str]) -> object:
    (partition,) = world.admin.describe_topics([ORDERS.topic])[0].partitions
    return partition.leader


def first_offset(world: World, names: Mapping[str, str]) -> object:
    place = TopicPartition(f"own-{names['role']}", 0)
    return world.admin.list_offsets({place: "earliest"})[place].offset


def end_offsets(world: World, names: Mapping[str, str]) -> object:
    (topic,) = world.admin.describe_topics([f"own-{names['role']}"])
    places = {TopicPartition(topic.name, each.partition): "latest" for each in topic.partitions}
    return {place: found.offset for place, found in world.admin.list_offsets(places).items() if found is not None}


def committed_offset(world: World, names: Mapping[str, str]) -> object:
    return world.admin.list_group_offsets(f"readers-{names['role']}")


def group_names(world: World, _: Mapping[str, str]) -> object:
    return [each.group_id for each in world.admin.list_groups()]


def broker_settings(world: World, names: Mapping[str, str]) -> object:
    return world.admin.describe_configs("broker", names["leader"], keys=[_SETTING])[_SETTING].value


def rules(world: World, _: Mapping[str, str]) -> object:
    return set(world.admin.describe_acls())


def credentials(world: World, _: Mapping[str, str]) -> object:
    return world.admin.describe_user_scram_credentials()


def open_transactions(world: World, names: Mapping[str, str]) -> object:
    place = TopicPartition(f"hangs-{names['role']}", 0)
    return [each.transaction_start_offset for each in world.admin.describe_producers([place])[place]]
