"""A live Apache Kafka 3.9.1 with `zookeeper.set.acl=true`, and our brokers with it: whose each znode is, and who may read it.

Both authenticate to one ZooKeeper server as the same user (SASL DIGEST-MD5), each below a chroot of its own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.local.cluster import LocalCluster
from tests.certificates import write
from tests.peers.apache_kafka import TOOLS, broker_command, java_command, wait_for_controller
from tests.peers.face_server import our_command
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import StoreSecurity
from zk.security.znode_acls import OPEN, ZnodeAcl, default_acl
from zk.servers.ensemble import Ensemble
from zk.store import NoNodeError

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

CREDENTIALS: Final = DigestCredentials("kafka", "kafka-secret")
TOOL: Final = "zookeeper-security-migration"
TIMEOUT_S: Final = 60.0
ABSENT: Final = (
    "Warning: The following secure root paths do not exist in ZooKeeper: /controller\n"
    "That might be due to an incorrect chroot is specified when executing the command.\n"
)
"""What is said where brokers are down and all else is there."""
Tree = dict[str, list[ZnodeAcl]]


class Stage:
    """One server with users, and the JAAS file with which brokers and tools are one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ensemble = Ensemble(folder, force_sync=False, users={CREDENTIALS.username: CREDENTIALS.password})
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        client = f'Client {{ {module} required username="kafka" password="{CREDENTIALS.password}"; }};'
        self.jaas = write(folder / "client.jaas", client.encode())

    def java(self, command: list[str]) -> list[str]:
        return [command[0], f"-Djava.security.auth.login.config={self.jaas}", *command[1:]]

    def tree(self, chroot: str) -> Tree:
        """The ACL of every znode below a chroot."""

        async def look() -> Tree:
            store = KazooStore(f"{self.ensemble.connect}{chroot}", security=StoreSecurity(credentials=CREDENTIALS))
            await store.start(TIMEOUT_S)
            found, left = Tree(), ["/"]
            try:
                while left:
                    path = left.pop()
                    try:
                        found[path] = await store.read_acl(path)
                        left += [paths.child(path, name) for name in await store.children(path)]
                    except NoNodeError:
                        continue  # deleted meanwhile, as notifications are
            finally:
                await store.close()
            return found

        return asyncio.run(look())

    def theirs(self, *arguments: str) -> tuple[int, str]:
        return self._run(self.java(java_command(TOOLS[TOOL], *arguments)), {})

    def ours(self, *arguments: str) -> tuple[int, str]:
        return self._run(
            our_command(TOOL, *arguments), {"KAFKA_OPTS": f"-Djava.security.auth.login.config={self.jaas}"}
        )

    def _run(self, command: list[str], more: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S * 2, env=os.environ | more)
        assert "Exception" not in done.stderr, done.stderr
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("znode_acls"))
    asyncio.run(made.ensemble.start(TIMEOUT_S))
    yield made
    asyncio.run(made.ensemble.stop())


def expected(path: str, *, is_secure: bool) -> list[ZnodeAcl]:
    owner = ZnodeAcl(0, "sasl", CREDENTIALS.username)
    return [
        owner._replace(permissions=each.permissions) if each.scheme == "auth" else each
        for each in default_acl(path, is_secure=is_secure)
    ]


def use(servers: str) -> None:
    """What makes znodes of every kind: a topic, settings of it, of a broker, of a user, an ACL of each kind."""
    wait_for_controller(servers)
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    acls = [
        AclBinding(ResourceType.TOPIC, "t", kind, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
        for kind in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    ]
    for futures in (
        admin.create_topics([NewTopic("t", 1, 1, config={"retention.ms": "1000000"})], operation_timeout=TIMEOUT_S),
        admin.alter_user_scram_credentials([wanted]),
        admin.create_acls(acls),
    ):
        for future in futures.values():
            future.result(TIMEOUT_S)


def test_znodes_have_the_acls_that_apache_kafka_gives_them(stage: Stage) -> None:
    secured = {
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    kinds: list[tuple[str, dict[str, str], Callable[[], list[str]] | None]] = [
        ("/apache", {}, lambda: stage.java(broker_command())),
        ("/ours", {"kafkalite.jaas.file": stage.jaas}, None),
    ]
    trees = {}
    for chroot, more, command in kinds:
        options = {"command": command()} if command is not None else {}
        with LocalCluster(
            brokers=1,
            zookeeper_connect=stage.ensemble.connect + chroot,
            properties=secured | more,
            **options,  # type: ignore[arg-type]
        ) as cluster:
            use(cluster.bootstrap_servers)
            trees[chroot] = stage.tree(chroot)
    for chroot, tree in trees.items():
        assert {paths.user_config("alice"), paths.topic("t"), "/kafka-acl-extended/prefixed/Topic/t"} <= tree.keys()
        wrong = {path: acl for path, acl in tree.items() if acl != expected(path, is_secure=True)}
        assert not wrong, f"{chroot}: {wrong}"
    lacking = {path for path in trees["/apache"].keys() - trees["/ours"].keys() if not path[-10:].isdecimal()}
    assert not lacking


def test_the_tool_protects_and_opens_as_apache_kafkas(stage: Stage) -> None:
    """Each undoes what the other did, and says the same."""
    connect = ("--zookeeper.connect", f"{stage.ensemble.connect}/migrated")
    nowhere = ("--zookeeper.connect", f"{stage.ensemble.connect}/nowhere", "--zookeeper.acl", "secure")

    async def plant() -> None:
        store = KazooStore(f"{stage.ensemble.connect}/migrated")
        await store.start(TIMEOUT_S)
        for path in (paths.TOPICS, paths.CONSUMERS, paths.user_config("alice"), paths.DELEGATION_TOKENS, "/else"):
            await store.create(path, parents=True)
        await store.close()

    asyncio.run(plant())
    said = stage.ours(*connect, "--zookeeper.acl=secure")
    assert said[0] == 0 and said[1].startswith("Warning: The following secure root paths do not exist")
    secure = stage.tree("/migrated")
    reached = {path for path in secure if path not in ("/else", paths.CONSUMERS)}
    assert {path for path in reached if secure[path] != expected(path, is_secure=True)} == set()
    assert secure["/else"] == list(OPEN), "what is not Kafka's stays as it was"
    assert stage.theirs(*connect, "--zookeeper.acl=unsecure") == (0, ABSENT)
    assert all(acl == list(OPEN) for acl in stage.tree("/migrated").values())
    assert stage.theirs(*connect, "--zookeeper.acl=secure")[0] == 0
    assert stage.tree("/migrated") == secure
    assert stage.ours(*connect, "--zookeeper.acl=unsecure") == (0, ABSENT)
    assert all(acl == list(OPEN) for acl in stage.tree("/migrated").values())
    assert stage.ours(*nowhere, "--enable.path.check") == stage.theirs(*nowhere, "--enable.path.check")
