"""The administrative calls of confluent-kafka and kafka-python that other modules do not make: topics, settings, offsets, the cluster."""

from __future__ import annotations

import ast
import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import ACL, AbortTransactionSpec, ConfigResourceType, MemberToRemove, ResourcePattern
from kafka.admin import ConfigResource as OtherResource
from kafka.structs import OffsetAndMetadata, TopicPartitionReplica

from kafkalite.local.broker_process import wait_until
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker, wait_until_known
from tests.wire.test_refusals import code_of

pytestmark = pytest.mark.wire

TIMEOUT_S = 30
_names = itertools.count(1)


@pytest.fixture
def other_admin(servers: str) -> Iterator[kafka.KafkaAdminClient]:
    """kafka-python's."""
    client = kafka.KafkaAdminClient(bootstrap_servers=servers.split(","))
    yield client
    client.close()


@pytest.fixture
def new_name() -> str:
    return f"admin-{next(_names)}"


def only(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    return dict(only(admin.describe_configs([ConfigResource(kind, name)], request_timeout=TIMEOUT_S)))


def alter(
    admin: AdminClient, kind: ResourceType, name: str, *changes: tuple[str, AlterConfigOpType, str | None]
) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    only(admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S))


# confluent-kafka


def test_topics_are_created_described_and_deleted(servers: str, admin: AdminClient, new_name: str) -> None:
    placed = NewTopic(new_name, num_partitions=2, replica_assignment=[[1, 2], [2, 3]], config={"retention.ms": "60000"})
    checked = admin.create_topics([placed], validate_only=True, request_timeout=TIMEOUT_S)
    only(checked)
    assert new_name not in admin.list_topics(timeout=TIMEOUT_S).topics
    only(admin.create_topics([placed], request_timeout=TIMEOUT_S))
    wait_until_known(servers, new_name, 2)
    described = only(admin.describe_topics(TopicCollection([new_name]), request_timeout=TIMEOUT_S))
    assert [[node.id for node in each.replicas] for each in described.partitions] == [[1, 2], [2, 3]]
    assert described.topic_id is not None
    only(admin.delete_topics([new_name], request_timeout=TIMEOUT_S, operation_timeout=TIMEOUT_S))
    wait_until_known(servers, new_name, 0)
    assert new_name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_the_cluster_is_described(admin: AdminClient) -> None:
    described = admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.controller.id in (1, 2, 3)
    assert described.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id == admin.cluster_id()


def test_settings_of_a_topic(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    kind, op = ResourceType.TOPIC, AlterConfigOpType
    alter(admin, kind, topic, ("retention.ms", op.SET, "5000"), ("cleanup.policy", op.APPEND, "compact"))
    found = settings(admin, kind, topic)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("5000", "delete,compact")
    assert found["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    alter(admin, kind, topic, ("cleanup.policy", op.SUBTRACT, "delete"), ("retention.ms", op.DELETE, None))
    found = settings(admin, kind, topic)
    assert found["cleanup.policy"].value == "compact"
    assert found["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    replaced = ConfigResource(kind, topic, set_config={"segment.bytes": "2000000"})
    with pytest.deprecated_call():
        replacing = admin.alter_configs([replaced], request_timeout=TIMEOUT_S)
    only(replacing)
    own = {
        name: each.value
        for name, each in settings(admin, kind, topic).items()
        if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }
    assert own == {"segment.bytes": "2000000"}


def test_a_setting_that_is_not_taken(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    entry = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (answer,) = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
    assert code_of(answer) == confluent_kafka.KafkaError.INVALID_CONFIG
    said = str(answer.exception(TIMEOUT_S))
    assert "Invalid value soon for configuration retention.ms: Not a number of type LONG" in said


def test_settings_of_a_broker_take_effect_without_a_restart(
    servers: str, admin: AdminClient, make_topic: TopicMaker
) -> None:
    topic = make_topic(config={"min.insync.replicas": "1"})
    kind, op = ResourceType.BROKER, AlterConfigOpType
    for broker in ("1", "2", "3"):
        alter(admin, kind, broker, ("message.max.bytes", op.SET, "2000"))
    try:
        found = settings(admin, kind, "1")["message.max.bytes"]
        assert (found.value, found.source) == ("2000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers})

        def refused() -> bool:
            problems: list[Any] = []
            producer.produce(topic, bytes(5000), on_delivery=lambda problem, message: problems.append(problem))
            producer.flush(TIMEOUT_S)
            return bool(problems[0]) and problems[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE

        wait_until(refused, "the new limit", TIMEOUT_S)
    finally:
        for broker in ("1", "2", "3"):
            alter(admin, kind, broker, ("message.max.bytes", op.DELETE, None))
    assert settings(admin, kind, "1")["message.max.bytes"].source == ConfigSource.DEFAULT_CONFIG.value


def test_offsets_are_listed(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    times = [1_000_000, 3_000_000, 2_000_000]
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"v", (), each) for each in times])
    partition = TopicPartition(topic, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 1),
        (OffsetSpec.for_timestamp(2_000_000), 1),
    ):
        assert only(admin.list_offsets({partition: spec}, request_timeout=TIMEOUT_S)).offset == offset


def test_offsets_of_a_group(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), f"group-{uuid.uuid4()}"
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"v")] * 5)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    only(admin.alter_consumer_group_offsets([wanted], request_timeout=TIMEOUT_S))
    found = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_S))
    assert [(each.topic, each.partition, each.offset) for each in found.topic_partitions] == [(topic, 0, 3)]
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert group in {each.group_id for each in listed.valid}
    with pytest.deprecated_call():
        assert group in {each.id for each in admin.list_groups(group, timeout=TIMEOUT_S)}
    described = only(admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S))
    assert (described.group_id, list(described.members)) == (group, [])
    only(admin.delete_consumer_groups([group], request_timeout=TIMEOUT_S))
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert group not in {each.group_id for each in listed.valid}


def test_credentials_of_users(admin: AdminClient) -> None:
    user, mechanism = f"user-{uuid.uuid4()}", ScramMechanism.SCRAM_SHA_256

    def alter_credentials(*changes: Any) -> Any:
        return admin.alter_user_scram_credentials(list(changes), request_timeout=TIMEOUT_S)[user]

    def described() -> Any:
        return admin.describe_user_scram_credentials([user], request_timeout=TIMEOUT_S)[user]

    wanted = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(each, 8192), b"secret")
        for each in (mechanism, ScramMechanism.SCRAM_SHA_512)
    ]
    alter_credentials(*wanted).result(TIMEOUT_S)
    found = described().result(TIMEOUT_S).scram_credential_infos
    assert [(each.mechanism, each.iterations) for each in found] == [
        (mechanism, 8192),
        (ScramMechanism.SCRAM_SHA_512, 8192),
    ]
    everybody = admin.describe_user_scram_credentials(request_timeout=TIMEOUT_S)
    assert user in everybody.result(TIMEOUT_S)  # type: ignore[union-attr]
    weak = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4095), b"secret")
    assert code_of(alter_credentials(weak)) == confluent_kafka.KafkaError.UNACCEPTABLE_CREDENTIAL
    deletions = [UserScramCredentialDeletion(user, each.scram_credential_info.mechanism) for each in wanted]
    alter_credentials(*deletions).result(TIMEOUT_S)
    assert code_of(described()) == confluent_kafka.KafkaError.RESOURCE_NOT_FOUND
    assert code_of(alter_credentials(deletions[0])) == confluent_kafka.KafkaError.RESOURCE_NOT_FOUND


def test_there_are_no_acls_without_an_authorizer(admin: AdminClient) -> None:
    pattern, operation, allow = ResourcePatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW
    parts = (ResourceType.TOPIC, "t", pattern, "User:ann", "*", operation, allow)
    wanted, wanted_filter = AclBinding(*parts), AclBindingFilter(*parts)
    disabled = confluent_kafka.KafkaError.SECURITY_DISABLED
    # The client gives an empty list for a refusal of the whole request, whoever refuses.
    assert admin.describe_acls(wanted_filter, request_timeout=TIMEOUT_S).result(TIMEOUT_S) == []
    assert code_of(admin.create_acls([wanted], request_timeout=TIMEOUT_S)[wanted]) == disabled
    assert code_of(admin.delete_acls([wanted_filter], request_timeout=TIMEOUT_S)[wanted_filter]) == disabled


def test_calls_that_ask_no_broker(admin: AdminClient) -> None:
    assert admin.poll(0) == 0
    admin.set_sasl_credentials("ann", "secret")


# kafka-python


def test_topics_with_kafka_python(servers: str, other_admin: kafka.KafkaAdminClient, new_name: str) -> None:
    wanted = {new_name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "60000"}}}
    other_admin.create_topics(wanted, validate_only=True)
    assert new_name not in other_admin.list_topics()
    other_admin.create_topics(wanted)
    other_admin.wait_for_topics([new_name])
    wait_until_known(servers, new_name, 2)
    assert new_name in other_admin.list_topics()
    (described,) = other_admin.describe_topics([new_name])
    assert sorted(each["partition_index"] for each in described["partitions"]) == [0, 1]
    other_admin.create_partitions({new_name: 3})
    wait_until_known(servers, new_name, 3)
    assert len(other_admin.describe_topics([new_name])[0]["partitions"]) == 3
    other_admin.delete_topics([new_name])
    wait_until_known(servers, new_name, 0)
    assert new_name not in other_admin.list_topics()


def test_settings_with_kafka_python(other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    other_admin.wait_for_topics([topic])

    def own() -> dict[str, str]:
        resource = OtherResource(ConfigResourceType.TOPIC, topic)
        found = other_admin.describe_configs([resource], config_filter="all")
        (of_topic,) = (by_name[topic] for by_name in found.values())
        return {
            key: each["value"] for key, each in of_topic.items() if each["config_source"] in (1, "DYNAMIC_TOPIC_CONFIG")
        }

    other_admin.alter_configs([OtherResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5000"})])
    assert own() == {"retention.ms": "5000"}
    other_admin.reset_configs([OtherResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    assert own() == {}


def test_the_cluster_with_kafka_python(other_admin: kafka.KafkaAdminClient) -> None:
    described = other_admin.describe_cluster()
    assert sorted(each.get("node_id", each.get("broker_id")) for each in described["brokers"]) == [1, 2, 3]
    assert not other_admin.describe_features().get("finalized_features")
    assert other_admin.get_broker_version_data(1).broker_version >= (2, 6)
    versions = {key.name: versions for key, versions in other_admin.api_versions().items()}
    assert versions["AlterUserScramCredentials"] == (0, 0) and versions["ListTransactions"] == (0, 1)


def test_log_directories_with_kafka_python(other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    found = {each["broker"]: each["log_dirs"] for each in other_admin.describe_log_dirs([topic])}
    assert sorted(found) == [1, 2, 3]
    (directory,) = found[1]
    assert [each["name"] for each in directory["topics"]] == [topic]
    here, nowhere = TopicPartitionReplica(topic, 0, 1), TopicPartitionReplica(topic, 0, 2)
    moved = other_admin.alter_replica_log_dirs({here: directory["log_dir"], nowhere: "/nowhere"})
    assert moved == {here: kafka.errors.NoError, nowhere: kafka.errors.LogDirNotFoundError}


def test_records_and_producers_with_kafka_python(
    servers: str, other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(5):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0
    partition = kafka.TopicPartition(topic, 0)
    state = other_admin.describe_producers([partition])[partition]
    (active,) = state.active_producers if hasattr(state, "active_producers") else state
    assert active.last_sequence == 4
    other_admin.delete_records({partition: 2})
    found = other_admin.list_partition_offsets({partition: kafka.admin.OffsetSpec.EARLIEST})
    assert found[partition].offset == 2


def test_groups_with_kafka_python(servers: str, other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), f"group-{uuid.uuid4()}"
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"v")] * 5)
    partition = kafka.TopicPartition(topic, 0)
    other_admin.alter_group_offsets(group, {partition: OffsetAndMetadata(4, "noted", -1)})
    committed = other_admin.list_group_offsets({group: None})[group][partition]
    assert (committed.offset, committed.metadata) == (4, "noted")
    other_admin.reset_group_offsets(group, {partition: kafka.admin.OffsetSpec.EARLIEST})
    assert other_admin.list_group_offsets({group: None})[group][partition].offset == 0
    assert group in {each["group_id"] for each in other_admin.list_groups()}
    assert other_admin.describe_groups([group])[group]["group_state"] == "Empty"
    other_admin.delete_group_offsets(group, [partition])
    assert partition not in other_admin.list_group_offsets({group: None}).get(group, {})
    other_admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "", -1)})
    other_admin.delete_groups([group])
    assert group not in {each["group_id"] for each in other_admin.list_groups()}


def test_leaders_are_elected_with_kafka_python(
    admin: AdminClient, other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    (described,) = other_admin.describe_topics([topic])
    (before,) = described["partitions"]
    leader, others = before["leader_id"], [each for each in before["replica_nodes"] if each != before["leader_id"]]
    partition = kafka.TopicPartition(topic, 0)
    assert other_admin.alter_partition_reassignments({partition: [*others, leader]}) == {partition: None}

    def led_by(broker: int) -> bool:
        other_admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
        return bool(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0].leader == broker)

    wait_until(lambda: other_admin.list_partition_reassignments() == {}, "the end of the move", TIMEOUT_S)
    wait_until(lambda: led_by(others[0]), "the preferred leader", TIMEOUT_S)


def test_a_member_is_removed_with_kafka_python(
    servers: str, other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker
) -> None:
    topic, group = make_topic(), f"group-{uuid.uuid4()}"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": group, "group.instance.id": "fixed", "session.timeout.ms": 30_000}
    )
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "an assignment", TIMEOUT_S)
        removed = MemberToRemove(group_instance_id="fixed")
        assert other_admin.remove_group_members(group, [removed]) == {"fixed": kafka.errors.NoError}
        assert other_admin.describe_groups([group])[group]["members"] == []
    finally:
        consumer.close()


def test_what_apache_kafka_has_without_zookeeper_only_is_not_offered(other_admin: kafka.KafkaAdminClient) -> None:
    for call in (
        other_admin.describe_metadata_quorum,
        other_admin.list_config_resources,
        lambda: other_admin.describe_topic_partitions(["t"]),
    ):
        with pytest.raises(kafka.errors.UnsupportedVersionError):
            call()


def test_credentials_with_kafka_python(servers: str, other_admin: kafka.KafkaAdminClient) -> None:
    user, mechanism = f"user-{uuid.uuid4()}", "SCRAM-SHA-512"

    def altered(change: Any) -> bool:
        """Done? This client asks any broker, always the same one; only the controller alters."""
        asking = kafka.KafkaAdminClient(bootstrap_servers=servers.split(","))
        try:
            asking.alter_user_scram_credentials([change])
            found = other_admin.describe_user_scram_credentials([user])[user]["credential_infos"]
            return bool(found) == isinstance(change, kafka.admin.UserScramCredentialUpsertion)
        finally:
            asking.close()

    wanted = kafka.admin.UserScramCredentialUpsertion(user, mechanism, "secret", iterations=5000)
    wait_until(lambda: altered(wanted), "the credential", TIMEOUT_S)
    (info,) = other_admin.describe_user_scram_credentials([user])[user]["credential_infos"]
    assert (info["mechanism"].name, info["iterations"]) == ("SCRAM_SHA_512", 5000)
    assert user in other_admin.describe_user_scram_credentials()
    wait_until(lambda: altered(kafka.admin.UserScramCredentialDeletion(user, mechanism)), "its end", TIMEOUT_S)
    assert "does not exist" in other_admin.describe_user_scram_credentials([user])[user]["error"]
    refused = other_admin.alter_user_scram_credentials([kafka.admin.UserScramCredentialDeletion(user, mechanism)])
    assert list(refused) == [user]


def test_there_are_no_acls_with_kafka_python(other_admin: kafka.KafkaAdminClient) -> None:
    acl = ACL(
        "User:ann",
        "*",
        kafka.admin.ACLOperation.READ,
        kafka.admin.ACLPermissionType.ALLOW,
        ResourcePattern(kafka.admin.ResourceType.TOPIC, "t"),
    )
    disabled = kafka.errors.SecurityDisabledError
    with pytest.raises(disabled):
        other_admin.describe_acls(acl)
    assert other_admin.create_acls([acl])["failed"] == [disabled]
    ((_, matching, error),) = other_admin.delete_acls([acl])
    assert (matching, error) == ([], disabled)


def test_features_with_kafka_python(other_admin: kafka.KafkaAdminClient) -> None:
    for validate_only in (False, True):
        answer = other_admin.update_features({"group.version": 1}, validate_only=validate_only)
        assert "the provided feature is not supported" in answer["group.version"]


def test_transactions_with_kafka_python(other_admin: kafka.KafkaAdminClient, make_topic: TopicMaker) -> None:
    assert set(other_admin.list_transactions()) == {1, 2, 3}
    assert other_admin.list_transactions(state_filters=["PrepareEpochFence"]) == {1: [], 2: [], 3: []}
    with pytest.raises(kafka.errors.TransactionalIdNotFoundError):
        other_admin.describe_transactions(["never used"])
    assert other_admin.find_hanging_transactions() == []
    partition = kafka.TopicPartition(make_topic(), 0)
    other_admin.abort_transaction(AbortTransactionSpec(partition, 1, 0))


CALLED_AS = {"admin": AdminClient, "other_admin": kafka.KafkaAdminClient}
"""The names under which the tests of this folder have the two clients."""
UNNAMED = {"close"}
"""What is called under another name: the end of a client, by fixtures."""


def test_every_administrative_call_of_both_clients_is_tested() -> None:
    called: dict[str, set[str]] = {name: set() for name in CALLED_AS}
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called:
                called[node.value.id].add(node.attr)
    for name, client in CALLED_AS.items():
        offered = {each for each in dir(client) if not each.startswith("_") and callable(getattr(client, each))}
        assert offered - called[name] - UNNAMED == set(), f"methods of {client.__name__} without a test"
