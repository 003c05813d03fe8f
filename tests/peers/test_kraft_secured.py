"""The way from brokers of ours to Apache Kafka 4 with three controllers, SASL over TLS between all servers, SCRAM users and ACLs.

With `--long`, because two dozen Java machines start one after the other.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.client import ClientError, SyncAdmin
from kafkalite.errors import ErrorCode
from tests.peers.face_server import our_command
from tests.peers.kraft_machines import Machines, describe, fill, machines, move, swap
from tests.peers.probed import GROUP, TOPIC, check_evidence, loading
from tests.peers.test_kraft import BROKERS, commands, directory, refuse_finalization
from tests.peers.test_kraft_accidents import secure

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3000)]

__all__ = ["directory"]
CONTROLLERS: Final = (3001, 3002, 3003)
SCRAM: Final = "SCRAM-SHA-256"
_PASSWORD: Final = "secret"


@dataclass(frozen=True)
class Identity:
    """A user of clients, and the file of authorities that they trust."""

    name: str
    trusted: Path
    mechanism: str = SCRAM
    password: str = _PASSWORD

    @property
    def jaas(self) -> str:
        module = "scram.Scram" if self.mechanism == SCRAM else "plain.Plain"
        return (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{self.name}" password="{self.password}";'
        )

    @property
    def options(self) -> dict[str, str]:
        """Those of our client."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(self.trusted),
            "sasl_mechanism": self.mechanism,
            "sasl_jaas_config": self.jaas,
        }

    @property
    def librdkafka(self) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.trusted),
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.name,
            "sasl.password": self.password,
        }

    @property
    def variables(self) -> dict[str, str]:
        """Variables of our commands."""
        return {f"KAFKALITE_{name.upper()}": value for name, value in self.options.items()}


class Users:
    """An administrator, who may do everything; a writer and a reader of the probe's topic; one who may do nothing."""

    def __init__(self, folder: Path) -> None:
        self._trusted = folder / "trust.pem"
        self.admin = Identity("admin", self._trusted, "PLAIN")
        self.writer, self.reader, self.nobody = (
            Identity(each, self._trusted) for each in ("writer", "reader", "nobody")
        )

    def make(self, servers: str) -> None:
        """Give them credentials and rights."""
        admin = AdminClient({"bootstrap.servers": servers, **self.admin.librdkafka})
        users = [
            UserScramCredentialUpsertion(
                each.name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), each.password.encode()
            )
            for each in (self.writer, self.reader, self.nobody)
        ]
        acls = [
            acl(ResourceType.TOPIC, TOPIC, self.writer, AclOperation.WRITE),
            acl(ResourceType.TOPIC, TOPIC, self.reader, AclOperation.READ),
            acl(ResourceType.GROUP, GROUP, self.reader, AclOperation.READ),
        ]
        for future in [*admin.alter_user_scram_credentials(users).values(), *admin.create_acls(acls).values()]:
            future.result(60)

    def check(self, servers: str) -> None:
        """Nobody else than before gets in, or may do what was not allowed."""
        impostor = Identity("writer", self._trusted, password="wrong")
        codes = {
            each: find_refusal(servers, each) for each in (self.admin, self.writer, self.reader, self.nobody, impostor)
        }
        assert codes == {
            self.admin: None,
            self.writer: None,
            self.reader: None,
            self.nobody: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            impostor: ErrorCode.SASL_AUTHENTICATION_FAILED,
        }


def acl(kind: ResourceType, name: str, user: Identity, operation: AclOperation) -> AclBinding:
    principal = f"User:{user.name}"
    return AclBinding(kind, name, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)


def find_refusal(servers: str, user: Identity) -> ErrorCode | None:
    """Return why a user is not told of the probe's topic at any broker; None when all tell."""
    found = set()
    for server in servers.split(","):
        try:
            with SyncAdmin(bootstrap_servers=server, **user.options) as admin:
                admin.describe_topics([TOPIC])
            found.add(None)
        except ClientError as refused:
            found.add(refused.code)
    assert len(found) == 1, (user.name, found)
    return found.pop()


def secure_with_scram(folder: Path) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """As `secure`, but brokers authenticate with each other by SCRAM, and so do clients; controllers and the tool by PLAIN."""
    servers, variables = secure(folder)
    scram = {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "sasl.mechanism.inter.broker.protocol": SCRAM,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.inside.{SCRAM.lower()}.sasl.jaas.config": Identity("admin", folder).jaas,
    }
    return {**servers, **scram}, variables


def make_first_user(zookeeper: str) -> None:
    """Give brokers the credentials with which they reach each other, before there is one: in ZooKeeper."""
    words = ["--zookeeper", zookeeper, "--entity-type", "users", "--entity-name", "admin", "--alter"]
    command = our_command("kafka-configs", *words, "--add-config", f"{SCRAM}=[password={_PASSWORD}]")
    subprocess.run(command, check=True, timeout=60)


def test_three_controllers_with_sasl_tls_and_acls_on_the_way_to_kafka_4(directory: Path) -> None:
    evidence, plan = directory / "evidence", directory / "kraft.toml"
    servers, variables = secure_with_scram(directory)
    users = Users(directory)
    with machines(directory, BROKERS, servers, CONTROLLERS) as (found, cluster):
        found.environment |= variables
        make_first_user(found.zookeeper)
        found.start_brokers()
        fill(found.servers, BROKERS, users.admin.librdkafka, users.admin.options)
        users.make(found.servers)
        was = describe(found.servers, users.admin.options)
        with loading(found, evidence, users.writer.variables, users.reader.librdkafka) as group:
            swap(found, directory / "swap.toml", "apache-kafka", "zookeeper")
            users.check(found.servers)
            found.start_controllers()
            assert found.place().startswith("controllers wait")
            found.call("kraft", "plan", str(plan), "--controllers", found.voters)
            move(found, plan, BROKERS)
            assert found.place("kraft").startswith("metadata is copied")
            users.check(found.servers)
            refuse_finalization(found)
            refuse_without_a_controller(found, plan)
            move(found, plan, 1)
            users.check(found.servers)
            move(found, plan, 1)
            for _ in range(BROKERS):
                found.step("kraft", "rollback", str(plan))
            users.check(found.servers)
            move(found, plan, BROKERS)
            assert found.place("final").startswith("brokers are restarted on KRaft")
            users.check(found.servers)
            move(found, plan, len(CONTROLLERS), "--no-way-back")
            assert cluster.ensemble is not None
            asyncio.run(cluster.ensemble.kill(1))
            assert found.place("kafka-4").startswith("finalized")
            users.check(found.servers)
            move(found, plan, len(CONTROLLERS) + BROKERS)
            assert found.place("kafka-4").startswith("servers become Apache Kafka 4")
            users.check(found.servers)
        check_evidence(found, evidence, group)
        assert describe(found.servers, users.admin.options) == was
        assert found.try_call("kraft", "step", str(plan), *commands()).exit_code == 3


def refuse_without_a_controller(found: Machines, plan: Path) -> None:
    """No server is restarted while one of the controllers is missing, though two of three lead the cluster."""
    late = CONTROLLERS[-1]
    found.run("stop", late)
    done = found.try_call(*found.words_of("kraft", "step", str(plan)))
    assert done.exit_code == 7 and "controller at 127.0.0.1" in done.stderr, done.output
    found.run("start", late, "migration")
    found.place("kraft")
