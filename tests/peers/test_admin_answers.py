"""Administrative requests that the tools do not send, put to our brokers and to Apache Kafka's: the same answers, the same znodes.

The same requests go to the controller and to another broker of both clusters. Lists whose order comes from a hash map in Kafka are sorted.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.security.scram import ScramMechanism
from kafkalite.types import TRANSACTIONS_TOPIC
from tests.peers import apache_kafka, coordinated_transactions, hostile_bytes, old_requests

pytestmark = pytest.mark.peer

START_TIMEOUT_S = 180
ANSWER_TIMEOUT_S = 60
PROPERTIES = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
}
CLOSED = "the connection was closed"
SHA_256, SHA_512 = (int(each) for each in ScramMechanism)
Case = tuple[str, Any, int]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """(ours, Apache Kafka's)."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                LocalCluster(brokers=2, command=command, start_timeout_s=START_TIMEOUT_S, properties=PROPERTIES)
            )
            for command in (BROKER_COMMAND, apache_kafka.broker_command())
        ]
        apache_kafka.wait_for_controller(running[1].bootstrap_servers)
        yield running[0], running[1]


async def _brokers(servers: str) -> tuple[Connection, Connection]:
    """Connections to (the controller, another broker)."""
    host, port = servers.split(",")[0].split(":")
    connection = await Connection.open(host, int(port))
    try:
        known = await connection.request(messages.metadata_request.MetadataRequest(topics=[]), 9, ANSWER_TIMEOUT_S)
    finally:
        connection.close()
    (controller,) = [each for each in known.brokers if each.node_id == known.controller_id]
    (other,) = [each for each in known.brokers if each.node_id != known.controller_id]
    return await Connection.open(controller.host, controller.port), await Connection.open(other.host, other.port)


async def _answers(servers: str, cases: list[Case]) -> list[tuple[str, Any]]:
    found = []
    for who, first in zip(("controller", "other broker"), await _brokers(servers), strict=True):
        connection = first
        for name, request, version in cases:
            try:
                answer = shown(await connection.request(request, version, ANSWER_TIMEOUT_S))
            except ConnectionError:
                answer = CLOSED
                connection = await Connection.open(connection.host, connection.port)
            found.append((f"{who}: {name} version {version}", answer))
        connection.close()
    return found


def shown(message: Any) -> Any:
    """A message as plain data, its lists in an order of their own."""
    if isinstance(message, list):
        return sorted((shown(each) for each in message), key=repr)
    if not hasattr(message, "FIELDS"):
        return message
    return {field.name: shown(getattr(message, field.name)) for field in message.FIELDS}


def differences(clusters: tuple[LocalCluster, LocalCluster], cases: list[Case]) -> list[str]:
    ours, theirs = (asyncio.run(_answers(each.bootstrap_servers, cases)) for each in clusters)
    return [
        f"{name}\n  ours          {mine}\n  Apache Kafka's {other}"
        for (name, mine), (_, other) in zip(ours, theirs, strict=True)
        if mine != other
    ]


def acl_cases() -> Iterator[Case]:
    d, c, x = messages.describe_acls_request, messages.create_acls_request, messages.delete_acls_request
    wanted = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    made = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    made_of: dict[str, Any] = {"resource_name": "t", "principal": "User:ann", "host": "*"}
    for version in (1, 2, 3):
        yield "describe ACLs", d.DescribeAclsRequest(**wanted), version
        yield "create ACLs", c.CreateAclsRequest(creations=[c.AclCreation(**made, **made_of)] * 2), version
        yield "delete ACLs", x.DeleteAclsRequest(filters=[x.DeleteAclsFilter(**wanted)] * 2), version
    yield "create no ACL", c.CreateAclsRequest(), 3
    for part in wanted:
        yield f"describe without {part}", d.DescribeAclsRequest(**{**wanted, part: 0}), 3
        yield f"describe with odd {part}", d.DescribeAclsRequest(**{**wanted, part: 77}), 3
        yield f"delete without {part}", x.DeleteAclsRequest(filters=[x.DeleteAclsFilter(**{**wanted, part: 0})]), 3
    for part in made:
        creation = c.AclCreation(**{**made, part: 0}, **made_of)
        yield f"create without {part}", c.CreateAclsRequest(creations=[creation]), 3


def token_cases() -> Iterator[Case]:
    c = messages.create_delegation_token_request
    for version in (1, 2, 3):
        yield "create a token", c.CreateDelegationTokenRequest(max_lifetime_ms=1000), version
        describe = messages.describe_delegation_token_request.DescribeDelegationTokenRequest
        yield "describe tokens", describe(owners=None), version
    for_ann = c.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ann")
    yield "create a token for another", for_ann, 3
    for version in (1, 2):
        renew = messages.renew_delegation_token_request.RenewDelegationTokenRequest
        expire = messages.expire_delegation_token_request.ExpireDelegationTokenRequest
        yield "renew a token", renew(hmac=b"x", renew_period_ms=1), version
        yield "expire a token", expire(hmac=b"x", expiry_time_period_ms=1), version


def feature_cases() -> Iterator[Case]:
    m = messages.update_features_request

    def update(*updates: dict[str, Any], **more: Any) -> Any:
        keys = [m.FeatureUpdateKey(**{"max_version_level": 1, **each}) for each in updates]
        return m.UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=keys, **more)

    for version in (0, 1):
        yield "no feature", update(), version
        yield "a feature", update({"feature": "f"}), version
        yield "two features", update({"feature": "f"}, {"feature": "metadata.version"}), version
        yield "one twice", update({"feature": "f"}, {"feature": "f", "max_version_level": 0}), version
        yield "no name", update({"feature": ""}), version
        yield "level 0", update({"feature": "f", "max_version_level": 0}), version
    yield "deletion", update({"feature": "f", "max_version_level": 0, "allow_downgrade": True}), 0
    for kind in (0, 1, 2, 3, 9):
        yield f"kind {kind}", update({"feature": "f", "upgrade_type": kind}), 1
        yield f"kind {kind}, level 0", update({"feature": "f", "upgrade_type": kind, "max_version_level": 0}), 1
    yield "validation", update({"feature": "f"}, validate_only=True), 1


def transaction_cases() -> Iterator[Case]:
    listed = messages.list_transactions_request.ListTransactionsRequest
    described = messages.describe_transactions_request.DescribeTransactionsRequest
    yield "list", listed(), 0
    yield "list", listed(duration_filter=5), 1
    yield "list by state", listed(state_filters=["Ongoing", "Dead", "ongoing", "", "PrepareEpochFence"]), 1
    yield "describe none", described(), 0
    yield "describe what is no id", described(transactional_ids=[""]), 0


def credential_cases() -> Iterator[Case]:
    m = messages.alter_user_scram_credentials_request
    d = messages.describe_user_scram_credentials_request

    def up(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> Any:
        salted = bytes([mechanism]) * 32
        return m.ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
        )

    def down(user: str, mechanism: int = SHA_256) -> Any:
        return m.ScramCredentialDeletion(name=user, mechanism=mechanism)

    def alter(*changes: Any) -> Any:
        return m.AlterUserScramCredentialsRequest(
            upsertions=[each for each in changes if isinstance(each, m.ScramCredentialUpsertion)],
            deletions=[each for each in changes if isinstance(each, m.ScramCredentialDeletion)],
        )

    def describe(*users: str) -> Any:
        return d.DescribeUserScramCredentialsRequest(users=[d.UserName(name=each) for each in users] or None)

    requests = {
        "describe nobody": describe(),
        "alter nothing": alter(),
        "set": alter(up("u"), up("u", SHA_512, 16384), up("a b/ü*"), up("<default>")),
        "describe everybody": describe(),
        "describe some": describe("u", "nobody", "", "twice", "twice"),
        "too few": alter(up("u", iterations=4095)),
        "too many": alter(up("u", SHA_512, 16385)),
        "no mechanism": alter(up("u", 0)),
        "unknown mechanism": alter(up("u", 3), up("v")),
        "no name": alter(up(""), down("")),
        "twice": alter(up("u"), up("u", iterations=5000), up("w")),
        "set and deleted": alter(up("u"), down("u")),
        "set one, delete the other": alter(up("u"), down("u", SHA_512)),
        "delete what is not there": alter(down("nobody"), up("u", SHA_512), down("u", SHA_512), down("w", SHA_512)),
        "some of each": alter(up("m", 7), down("c"), up("x"), down("w"), up("y", iterations=1)),
        "describe what is left": describe(),
        "delete": alter(*(down(each) for each in ("u", "v", "x", "a b/ü*", "<default>"))),
        "describe nobody again": describe(),
    }
    for name, request in requests.items():
        yield name, request, 0


@pytest.mark.parametrize("make", [acl_cases, token_cases, feature_cases, transaction_cases])
def test_answers_are_those_of_apache_kafka(clusters: tuple[LocalCluster, LocalCluster], make: Any) -> None:
    assert not (found := differences(clusters, list(make()))), "\n".join(found)


def test_transactions_are_coordinated_as_by_apache_kafka(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, theirs = (
        asyncio.run(coordinated_transactions.answers(each.bootstrap_servers.split(",")[0], shown)) for each in clusters
    )
    wrong = [f"{mine}\n  {other}" for mine, other in zip(ours, theirs, strict=True) if mine != other]
    assert not wrong, "\n".join(wrong)
    assert _settings_of_transactions(clusters[0]) == _settings_of_transactions(clusters[1])


def _settings_of_transactions(cluster: LocalCluster) -> Any:
    """Those that a broker makes the topic with."""
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start(30)
    try:
        return json.loads(zookeeper.get(f"/config/topics/{TRANSACTIONS_TOPIC}")[0])
    finally:
        zookeeper.stop()
        zookeeper.close()


def test_credentials_are_altered_as_by_apache_kafka(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, theirs = (dict(asyncio.run(_answers(each.bootstrap_servers, list(credential_cases())))) for each in clusters)
    for answer in ours.values():  # where Apache Kafka says no word, and some clients take it for success
        for result in answer["results"]:
            if result["error_code"] == ErrorCode.NOT_CONTROLLER:
                assert result.pop("error_message") == "This is not the correct controller for this cluster."
                result["error_message"] = None
    assert ours == theirs


def test_credentials_lie_beside_quotas_as_apache_kafka_has_them(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    found = [asyncio.run(_stored(each)) for each in clusters]
    assert found[0] == found[1]
    assert found[0][0]["/config/users/one"].startswith(
        '{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key='
    )


async def _stored(cluster: LocalCluster) -> tuple[dict[str, Any], list[str]]:
    """(the znodes of users, the notifications), after credentials and quotas were set and one of each taken away."""
    m, q = messages.alter_user_scram_credentials_request, messages.alter_client_quotas_request
    controller, other = await _brokers(cluster.bootstrap_servers)

    async def alter(*upsertions: tuple[str, int], deleted: tuple[str, ...] = ()) -> None:
        request = m.AlterUserScramCredentialsRequest(
            upsertions=[
                m.ScramCredentialUpsertion(
                    name=user, mechanism=mechanism, iterations=8192, salt=b"salt", salted_password=b"p" * 32
                )
                for user, mechanism in upsertions
            ],
            deletions=[m.ScramCredentialDeletion(name=user, mechanism=SHA_256) for user in deleted],
        )
        answer = await controller.request(request, 0, ANSWER_TIMEOUT_S)
        assert all(not each.error_code for each in answer.results), answer

    async def set_quota(user: str, rate: float | None) -> None:
        op = q.OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
        entry = q.EntryData(entity=[q.EntityData(entity_type="user", entity_name=user)], ops=[op])
        answer = await controller.request(q.AlterClientQuotasRequest(entries=[entry]), 1, ANSWER_TIMEOUT_S)
        assert not answer.entries[0].error_code, answer

    zookeeper = KazooClient(cluster.zookeeper_connect)
    await asyncio.to_thread(zookeeper.start, 30)
    try:
        before = set(zookeeper.get_children("/config/changes"))
        await alter(("one", SHA_256))
        await alter(("two", SHA_512), ("ü/*", SHA_256))
        await set_quota("one", 5)
        await set_quota("three", 6)
        await alter(("three", SHA_256), ("three", SHA_512))
        await alter(deleted=("three",))
        await set_quota("one", None)
        await set_quota("three", None)
        await alter(("gone", SHA_256))
        await alter(deleted=("gone",))
        users = {each: zookeeper.get(f"/config/users/{each}")[0] for each in zookeeper.get_children("/config/users")}
        znodes = {f"/config/users/{each}": data.decode() for each, data in users.items()}
        changes = sorted(set(zookeeper.get_children("/config/changes")) - before)
        said = [zookeeper.get(f"/config/changes/{each}")[0].decode() for each in changes]
    finally:
        await asyncio.to_thread(zookeeper.stop)
        zookeeper.close()
        controller.close()
        other.close()
    assert all(json.loads(each)["version"] == 2 and re.search("users/", each) for each in said)
    return znodes, said


async def _create_hostile_topic(controller: Connection) -> None:
    """Led by the controller, which has heard of it."""
    c, m = messages.create_topics_request, messages.metadata_request
    known = await controller.request(m.MetadataRequest(topics=[]), 9, ANSWER_TIMEOUT_S)
    assigned = c.CreatableReplicaAssignment(partition_index=0, broker_ids=[known.controller_id])
    topic = c.CreatableTopic(name=hostile_bytes.TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assigned])
    await controller.request(c.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5, ANSWER_TIMEOUT_S)
    asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=hostile_bytes.TOPIC)])
    deadline_s = asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S
    while True:
        (found,) = (await controller.request(asked, 9, ANSWER_TIMEOUT_S)).topics
        if found.partitions and found.partitions[0].leader_id == known.controller_id:
            return
        assert asyncio.get_running_loop().time() < deadline_s, found
        await asyncio.sleep(0.05)


async def _outcomes(servers: str, rows: list[hostile_bytes.Row]) -> list[hostile_bytes.Outcome]:
    controller, other = await _brokers(servers)
    await _create_hostile_topic(controller)
    found = [await hostile_bytes.outcome(controller.host, controller.port, row, other) for row in rows]
    for each in (controller, other):  # alive, whatever they were sent
        await each.request(messages.metadata_request.MetadataRequest(topics=[]), 9, ANSWER_TIMEOUT_S)
        each.close()
    return found


def test_hostile_bytes(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    """The same bytes, the same answers; where not, the table says why. Waits are shown and held to nothing: others share the machine."""
    rows = hostile_bytes.rows()
    ours, theirs = (asyncio.run(_outcomes(each.bootstrap_servers, rows)) for each in clusters)
    table, wrong = [], []
    for row, mine, other in zip(rows, ours, theirs, strict=True):
        waits = f"{mine.waited_ms:.0f} and {other.waited_ms:.0f} ms"
        table.append(f"{row.name}: {mine.answer}, Apache Kafka {other.answer}; waited {waits}")
        if mine.answer != (row.ours or other.answer):
            wrong.append(table[-1])
        assert not row.ours or row.why
        assert row.ours != other.answer, f"{row.name}: no difference is left"
    print("\n".join(table))
    assert not wrong, "\n".join(wrong)


async def _old_answers(cluster: LocalCluster) -> list[tuple[str, bytes]]:
    """What `old_requests` are answered, and the znodes that they leave."""
    o = old_requests
    zookeeper = KazooClient(cluster.zookeeper_connect)
    await asyncio.to_thread(zookeeper.start, 30)
    try:
        for path, content in o.GARBAGE.items():
            zookeeper.create(path, content, makepath=True)
        asker = await o.Asker.of(cluster.bootstrap_servers, [str(each) for each in cluster.log_directories()[o.LEADER]])
        found = await asker.answers(o.of_controller())
        await asker.wait_for("old-0", "old-1")
        for rows in (o.of_leader(), o.of_zookeeper(), o.of_coordinator()):
            found += await asker.answers(rows)
        found += sorted(_subtree(zookeeper, "/consumers"))
        return found + await asker.answers(o.at_the_end())
    finally:
        await asyncio.to_thread(zookeeper.stop)
        zookeeper.close()


def _subtree(zookeeper: KazooClient, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, zookeeper.get(path)[0] or b""  # Kafka makes znodes without data where others have data of no bytes
    for name in zookeeper.get_children(path):
        yield from _subtree(zookeeper, f"{path}/{name}")


def test_old_versions_are_answered_byte_for_byte(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, theirs = (asyncio.run(_old_answers(each)) for each in clusters)
    different = [
        f"{name}\n  ours          {mine!r}\n  Apache Kafka's {other!r}"
        for (name, mine), (_, other) in zip(ours, theirs, strict=True)
        if mine != other
    ]
    assert not different, "\n".join(different)


def _advertised(cluster: LocalCluster) -> dict[int, tuple[int, int]]:
    async def ask() -> dict[int, tuple[int, int]]:
        connection, other = await _brokers(cluster.bootstrap_servers)
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name="a", client_software_version="1"
        )
        answers = [await each.request(request, 3, ANSWER_TIMEOUT_S) for each in (connection, other)]
        connection.close()
        other.close()
        told = [{each.api_key: (each.min_version, each.max_version) for each in answer.api_keys} for answer in answers]
        assert told[0] == told[1]
        return told[0]

    return asyncio.run(ask())


def test_advertised_versions(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, theirs = map(_advertised, clusters)
    assert ours == theirs
