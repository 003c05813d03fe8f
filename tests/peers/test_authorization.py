"""Callers put each API in each version to our broker and to Apache Kafka's with its AclAuthorizer: one that may nothing, one that may
everything of some names (literal, prefixed, denied in both ways), and some with one permission each in the newest versions. Both answer
with the same errors, and tell the same names. And the tools of both with the ACLs of one cluster.

With KAFKALITE_ALL_VERSIONS=1 there is a caller for each permission, and each asks in every version.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.client.admin.acls import creation_request
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import MAX_RESPONSE_BYTES, Connection
from kafkalite.protocol import messages
from kafkalite.security.acl import CLUSTER_NAME, AclEntry, Operation, PermissionType, ResourcePattern, ResourceType
from tests.authorization_callers import (
    ALL_OF_IT,
    ANONYMOUS,
    NAMES,
    NOBODY,
    OPEN,
    Case,
    callers,
    outcome,
    rules,
    told,
)
from tests.authorization_cases import cases
from tests.peers import apache_kafka
from tests.peers.tool_comparison import Comparison
from tests.peers.tool_server import shared_tools
from zk.kazoo_adapter.kazoo_store import KazooStore

pytestmark = pytest.mark.peer

START_TIMEOUT_S: Final = 180
ANSWER_TIMEOUT_S: Final = 60
PROPERTIES: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "auto.create.topics.enable": "false",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "allow.everyone.if.no.acl.found": "true",
}
OPERATOR: Final = "127.0.0.1"
"""Whence the broker itself and the test's preparations come."""
CALLERS: Final = (
    (ResourceType.TOPIC, Operation.READ),
    (ResourceType.TOPIC, Operation.WRITE),
    (ResourceType.GROUP, Operation.READ),
    (ResourceType.CLUSTER, Operation.ALTER),
    (ResourceType.CLUSTER, Operation.CLUSTER_ACTION),
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
)
BETTER: Final = {
    r"OFFSET_FETCH .* 1 .*": "a group that may not be seen is refused (Kafka: no partitions, as if there were no offsets)",
    r"CONTROLLED_SHUTDOWN [23] .*": "there is no such broker (Kafka: UNKNOWN_SERVER_ERROR)",
}
"""What is answered differently on purpose to those who may ask at all, and to nobody's harm."""
EVERY_VERSION: Final = os.environ.get("KAFKALITE_ALL_VERSIONS") == "1"


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """(ours, Apache Kafka's)."""
    with ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(
                LocalCluster(brokers=1, command=command, start_timeout_s=START_TIMEOUT_S, properties=PROPERTIES)
            )
            for command in (BROKER_COMMAND, apache_kafka.broker_command())
        )
        apache_kafka.wait_for_controller(theirs.bootstrap_servers)
        for each in (ours, theirs):
            asyncio.run(_prepare(each.bootstrap_servers))
        yield ours, theirs


async def _connected(servers: str, host: str) -> Connection:
    """From an address of this machine."""
    _, _, port = servers.rpartition(":")
    loop = asyncio.get_running_loop()
    connection = Connection(OPERATOR, int(port), None, loop, MAX_RESPONSE_BYTES)
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        await loop.create_connection(lambda: connection, OPERATOR, int(port), local_addr=(host, 0))
    return connection


async def _prepare(servers: str) -> None:
    """The topics, a group's and a transaction's coordinator, and all rules."""
    operator = await _connected(servers, OPERATOR)
    topics = messages.create_topics_request
    wanted = [topics.CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in NAMES]
    await operator.request(topics.CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 5, ANSWER_TIMEOUT_S)
    await _until_coordinated(operator)
    everything = [
        (ResourcePattern(type_, CLUSTER_NAME if type_ is ResourceType.CLUSTER else "*"), entry)
        for type_ in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
        for entry in (AclEntry(ANONYMOUS, OPERATOR, Operation.ALL, PermissionType.ALLOW),)
    ]
    bindings = [*everything, *rules()]
    for some in (bindings[:1], bindings[1:]):
        answer = await operator.request(creation_request(some), 3, ANSWER_TIMEOUT_S)
        assert {each.error_code for each in answer.results} == {ErrorCode.NONE}
    operator.close()


async def _until_coordinated(connection: Connection) -> None:
    allocated = messages.init_producer_id_request.InitProducerIdRequest()
    async with asyncio.timeout(START_TIMEOUT_S):
        while (await connection.request(allocated, 4, ANSWER_TIMEOUT_S)).error_code:
            await asyncio.sleep(0.1)
    for key_type in (0, 1):
        request = messages.find_coordinator_request.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[OPEN])
        async with asyncio.timeout(START_TIMEOUT_S):
            while (await connection.request(request, 4, ANSWER_TIMEOUT_S)).coordinators[0].error_code:
                await asyncio.sleep(0.1)


def _versions(case: Case, host: str) -> list[int]:
    (served,) = [each for each in SERVED if each.api.key == case.key]
    newest = min(served.last_version, case.last)
    return list(range(case.first, newest + 1)) if host in (NOBODY, ALL_OF_IT) or EVERY_VERSION else [newest]


async def _answers(servers: str) -> dict[str, str]:
    """What each caller is answered, side by side."""
    operator = await _connected(servers, OPERATOR)
    m = messages.metadata_request
    asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=each) for each in NAMES])
    topic_ids = {each.name: bytes(each.topic_id) for each in (await operator.request(asked, 12)).topics}
    operator.close()
    some = {host: told(each) for host, each in callers().items() if EVERY_VERSION or each in CALLERS}
    asking = (
        _answered(servers, host, who, topic_ids)
        for host, who in {NOBODY: "nothing", ALL_OF_IT: "everything", **some}.items()
    )
    return {what: shown for each in await asyncio.gather(*asking) for what, shown in each.items()}


async def _answered(servers: str, host: str, who: str, topic_ids: Mapping[str, bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    connection = await _connected(servers, host)
    for case in cases(topic_ids):
        for version in _versions(case, host):
            try:
                answer = await connection.request(case.request, version, ANSWER_TIMEOUT_S)
                shown = outcome(answer, topic_ids)
            except (ConnectionError, TimeoutError) as problem:
                shown = "closed" if isinstance(problem, ConnectionError) else "no answer"
                connection.close()
                connection = await _connected(servers, host)
            found[f"{case} {version} with {who}"] = shown
    connection.close()
    return found


def test_both_refuse_the_same(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    ours, theirs = (asyncio.run(_answers(each.bootstrap_servers)) for each in clusters)
    differing = {
        what: (ours[what], theirs[what])
        for what in theirs
        if ours[what] != theirs[what] and not any(re.fullmatch(each, what) for each in BETTER)
    }
    assert not differing, "\n".join(f"{what}: ours {a}, theirs {b}" for what, (a, b) in differing.items())


def test_tools_of_both_read_and_write_the_same_acls(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through our brokers, and past them in their ZooKeeper; each tool sees what the other did."""
    ours, _ = clusters
    tools = Comparison(shared_tools(), ours.bootstrap_servers, tmp_path_factory.mktemp("acls"))
    in_zookeeper = ("--authorizer-properties", f"zookeeper.connect={ours.zookeeper_connect}")
    rules = (
        ("--add", "--topic", "WHO-t", "--allow-principal", "User:WHO", "--operation", "Read"),
        ("--add", "--topic", "WHO-p", "--deny-principal", "User:WHO", "--resource-pattern-type", "prefixed"),
        ("--add", "--group", "WHO-g", "--allow-principal", "User:WHO", "--allow-host", "10.1.1.1"),
        ("--add", "--transactional-id", "WHO-i", "--topic", "WHO-s", "--producer", "--allow-principal", "User:WHO"),
        ("--list", "--topic", "WHO-t"),
        ("--list", "--topic", "WHO-p2", "--resource-pattern-type", "match"),
        ("--list", "--group", "WHO-g", "--principal", "User:WHO"),
        ("--list", "--group", "nothing"),
        ("--remove", "--group", "WHO-g", "--allow-principal", "User:WHO", "--allow-host", "10.1.1.1", "--force"),
        ("--list", "--group", "WHO-g"),
    )
    for way in (("@",), in_zookeeper):
        for rule in rules:
            tools.same("kafka-acls", *way, *rule, mask=_in_order, settles=True)
    for topic in ("jvmone-t", "pytwoo-t"):
        listed = tools.same("kafka-acls", "@", "--list", "--topic", topic, mask=_in_order, settles=True)
        assert "operation=READ" in listed, "what one tool made both show"
    data = asyncio.run(_znode(ours.zookeeper_connect, "/kafka-acl-extended/prefixed/Topic/jvmone-p"))
    assert data.replace(b"jvmone", b"pytwoo") == asyncio.run(
        _znode(ours.zookeeper_connect, "/kafka-acl-extended/prefixed/Topic/pytwoo-p")
    )


def _in_order(text: str) -> str:
    """Kafka prints rules in the order of a hash set, with blanks around the first and the last."""
    return "\n".join(sorted(line.strip() for line in text.split("\n")))


async def _znode(connect: str, path: str) -> bytes:
    store = KazooStore(connect)
    await store.start(ANSWER_TIMEOUT_S)
    try:
        return (await store.read(path))[0]
    finally:
        await store.close()
