"""The machines of brokers and controllers on their way to KRaft and Apache Kafka 4, started and stopped by an operator's script, and what
their metadata has.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from click.testing import CliRunner, Result
from confluent_kafka.admin import (  # type: ignore[attr-defined]
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

from deploy.docs.blocks import blocks_of
from kafkalite.cli.main import main
from kafkalite.client import QuotaEntity, SyncAdmin
from kafkalite.config.properties import parse_properties
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.peers import apache_kafka, kraft
from tests.peers.probed import NONE

PAGE: Final = Path(__file__).parents[2] / "deploy/docs/pages/howto/to-kafka-4.md"
BLOCKS: Final = blocks_of(PAGE.read_text("utf-8"))
CONTROLLER: Final = 3001
PATIENCE: Final = 20
"""So many looks at a controller that has not registered, before it is restarted."""
SETTINGS: Final = {
    "inter.broker.protocol.version": "3.9",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "30000",
}
FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
SCRIPT: Final = r"""#!/bin/sh
# server.sh stop|start: a server by its id and form, as an operator's own script would.
cd {directory}
id=$KAFKALITE_BROKER_ID
case $1 in
stop)
    kill -TERM "$(cat "$id.pid")" 2> /dev/null || true
    while grep -q "^State:.[^ZX]" "/proc/$(cat "$id.pid")/status" 2> /dev/null; do sleep 0.2; done ;;
start)
    if [ -e "$id.pid" ] && grep -q "^State:.[^ZX]" "/proc/$(cat "$id.pid")/status" 2> /dev/null; then exit 0; fi
    form=${{KAFKALITE_FORM:-$2}}
    setsid sh -c "exec $(cat "$form.command") $id.$form.properties" >> "$id.log" 2>&1 < /dev/null &
    echo $! > "$id.pid" ;;
esac
"""


def properties_text(settings: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class Machines:
    """The machines of brokers 1 to `count` and of the controllers, with their files and the script that starts and stops them.

    `secured` are settings of their listeners, for brokers and controllers.
    """

    def __init__(
        self,
        directory: Path,
        cluster: LocalCluster,
        count: int,
        secured: Mapping[str, str] = NONE,
        controllers: Sequence[int] = (CONTROLLER,),
    ) -> None:
        self.directory, self.zookeeper = directory, cluster.zookeeper_connect
        self._reserved = [ReservedPort() for _ in range(count + len(controllers))]
        ports = [each.number for each in self._reserved]
        self.brokers = dict(enumerate(ports[:count], 1))
        self.controllers = dict(zip(controllers, ports[count:], strict=True))
        self.servers = ",".join(f"127.0.0.1:{port}" for port in self.brokers.values())
        self.voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in self.controllers.items())
        self.environment = os.environ | {
            "KAFKALITE_BOOTSTRAP_SERVERS": self.servers,
            "KAFKALITE_ZOOKEEPER": self.zookeeper,
        }
        self.settings = SETTINGS | dict.fromkeys(FACTORS, str(count)) | secured
        self.secured = secured
        (directory / "server.sh").write_text(SCRIPT.format(directory=directory))
        theirs = apache_kafka.broker_command()
        newer = [each for each in theirs if "SharedArchive" not in each]
        newer[newer.index("-cp") + 1] = f"{kraft.fetch()}/*"
        commands = dict.fromkeys(("zookeeper", "migration", "kraft"), theirs)
        for form, command in {"ours": BROKER_COMMAND, "kafka-4": newer, **commands}.items():
            (directory / f"{form}.command").write_text(" ".join(f"'{each}'" for each in command))

    def write_settings(self) -> None:
        """Write each broker's file for each form: the one on ZooKeeper by hand, the others as `kafkalite migrate kraft settings` says."""
        for number, port in self.brokers.items():
            settings = self.settings | {
                "broker.id": str(number),
                "listeners": f"{self.secured.get('inter.broker.listener.name', 'PLAINTEXT')}://127.0.0.1:{port}",
                "log.dirs": str(self.directory / f"broker-{number}"),
                "zookeeper.connect": self.zookeeper,
            }
            for form in ("ours", "zookeeper"):
                (self.directory / f"{number}.{form}.properties").write_text(properties_text(settings))
            for form in ("migration", "kraft", "kafka-4"):
                given = str(self.directory / f"{number}.zookeeper.properties")
                text = self.call("kraft", "settings", form, given, "--controllers", self.voters)
                (self.directory / f"{number}.{form}.properties").write_text(text)
        (of_page,) = [parse_properties(each.text) for each in BLOCKS if each.language == "properties"]
        kept = ("super.users", "default.replication.factor", "min.insync.replicas")
        given = of_page | {
            "controller.quorum.voters": self.voters,
            "controller.quorum.election.timeout.ms": "5000",  # the machine may be busy
            "controller.quorum.fetch.timeout.ms": "10000",
            "zookeeper.connect": self.zookeeper,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            **{name: self.settings[name] for name in kept},
            **self.secured,
        }
        finalized = {name: value for name, value in given.items() if not name.startswith("zookeeper.")}
        for form, settings in {"migration": given, "kraft": finalized, "kafka-4": finalized}.items():
            for number, port in self.controllers.items():
                own = {
                    "node.id": str(number),
                    "listeners": f"CONTROLLER://127.0.0.1:{port}",
                    "log.dirs": str(self.directory / f"controller-{number}"),
                }
                (self.directory / f"{number}.{form}.properties").write_text(properties_text(settings | own))

    def run(self, verb: str, server: int, form: str = "") -> None:
        """Stop or start one server."""
        environment = self.environment | {"KAFKALITE_BROKER_ID": str(server)}
        subprocess.run(["sh", str(self.directory / "server.sh"), verb, form], env=environment, check=True, timeout=300)

    def start_brokers(self, form: str = "ours") -> None:
        """Start all brokers."""
        for number in self.brokers:
            self.run("start", number, form)
        wait_until(self.is_healthy, "all brokers are registered", 120)

    def is_healthy(self) -> bool:
        done = CliRunner().invoke(main, ["cluster", "info", "-o", "json"], env=self.environment)
        return done.exit_code == 0 and len(json.loads(done.stdout)[0]["brokers"]) == len(self.brokers)

    def start_controllers(self, epoch: int = 0) -> None:
        """Format the controllers' empty directories with the brokers' cluster id, and start them; their first epoch is above `epoch`."""
        cluster_id = parse_properties((self.directory / "broker-1/meta.properties").read_text())["cluster.id"]
        for number in self.controllers:
            path = str(self.directory / f"{number}.migration.properties")
            words = ["format", f"--cluster-id={cluster_id}", "--config", path]
            subprocess.run(apache_kafka.java_command("kafka.tools.StorageTool", *words), check=True, timeout=300)
            if epoch:
                quorum = {"clusterId": "", "leaderId": -1, "leaderEpoch": epoch, "votedId": -1, "appliedOffset": 0}
                quorum |= {"currentVoters": [{"voterId": each} for each in self.controllers], "data_version": 0}
                state = self.directory / f"controller-{number}/__cluster_metadata-0/quorum-state"
                state.parent.mkdir()
                state.write_text(json.dumps(quorum))
        for number in self.controllers:
            self.run("start", number, "migration")

    def try_call(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["migrate", *words], env=self.environment)

    def call(self, *words: str) -> str:
        done = self.try_call(*words)
        assert done.exit_code == 0, f"{words}: {done.exit_code}\n{done.output}\n{self.log_tails()}"
        return done.stdout

    def words_of(self, *words: str, start: str = "start") -> tuple[str, ...]:
        """Return the words of a `step` or `rollback` by the script."""
        script = f"sh {self.directory}/server.sh"
        given = ("--stop-command", f"{script} stop", "--start-command", f"{script} {start}")
        return (*words, "--yes", "--timeout", "60", *given)

    def step(self, *words: str, start: str = "start") -> None:
        """`step` or `rollback` of a plan, by the script."""
        self.call(*self.words_of(*words, start=start))

    def place(self, before: str = "migration") -> str:
        """Return how far the move is, by `kafkalite migrate kraft check`, when no problem stands against the phase."""
        words = ("kraft", "check", "--controllers", self.voters, "--before", before, "-o", "json")
        found: list[dict[str, Any]] = []
        unregistered = itertools.count(1)

        def is_well() -> bool:
            done = self.try_call(*words)
            found[:] = json.loads(done.stdout or "[]")
            for late in re.findall(r"controller (\d+): it is not registered with its quorum", done.stdout):
                if next(unregistered) % PATIENCE == 0:
                    self.run("stop", int(late))  # KAFKA-20247, as the check says; on a busy machine only
                    self.run("start", int(late), "migration")
            return done.exit_code == 0

        wait_until(is_well, f"nothing stands against {before}: {found}", 240)
        return str(found[0]["found"])

    def log_tails(self) -> str:
        tails = [
            (path.name, path.read_text(errors="replace").splitlines()[-8:]) for path in self.directory.glob("*.log")
        ]
        return "\n".join(f"{name}:\n" + "\n".join(lines) for name, lines in tails)

    def close(self) -> None:
        for path in self.directory.glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        for each in self._reserved:
            each.release()


@contextmanager
def machines(
    directory: Path, count: int, secured: Mapping[str, str] = NONE, controllers: Sequence[int] = (CONTROLLER,)
) -> Iterator[tuple[Machines, LocalCluster]]:
    apache_kafka.fetch()
    with LocalCluster(brokers=0, directory=directory, start_timeout_s=240) as cluster:
        found = Machines(directory, cluster, count, secured, controllers)
        try:
            found.write_settings()
            yield found, cluster
        finally:
            found.close()


def fill(servers: str, replicas: int, security: Mapping[str, str] = NONE, options: Mapping[str, str] = NONE) -> None:
    """Make what the metadata has of each kind, records, a transaction of each end, and a group's offset.

    `security` are settings of librdkafka, `options` those of our client.
    """
    client = {"bootstrap.servers": servers, **security}
    admin = AdminClient(client)
    topics = [
        NewTopic("plain", 2, replicas, config={"retention.ms": "-1"}),
        NewTopic("compacted", 1, replicas, config={"cleanup.policy": "compact"}),
        NewTopic("transactions", 1, replicas),
        NewTopic("probed", 2, replicas),
    ]
    for future in admin.create_topics(topics, request_timeout=60).values():
        future.result(60)
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    acls = [
        AclBinding(ResourceType.TOPIC, "plain", literal, "User:alice", "*", AclOperation.READ, allow),
        AclBinding(ResourceType.GROUP, "g", ResourcePatternType.PREFIXED, "User:bob", "*", AclOperation.READ, allow),
    ]
    user = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    for future in [*admin.create_acls(acls).values(), *admin.alter_user_scram_credentials([user]).values()]:
        future.result(60)
    with SyncAdmin(bootstrap_servers=servers, **options) as ours:
        for entity in ((("user", "alice"),), (("user", None), ("client-id", "c 1")), (("client-id", None),)):
            ours.alter_client_quotas({QuotaEntity(entity): {"producer_byte_rate": 5e6}})
        ours.alter_client_quotas({QuotaEntity((("ip", "10.0.0.1"),)): {"connection_creation_rate": 50.0}})
    producer = confluent_kafka.Producer({**client, "transactional.id": "t", "compression.type": "zstd"})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        for topic in ("plain", "compacted", "transactions"):
            for count in range(50):
                producer.produce(topic, b"%d-%d" % (number, count), b"%d" % (count % 7))
        producer.flush(60)
        producer.abort_transaction(60) if number % 2 else producer.commit_transaction(60)
    consumer = confluent_kafka.Consumer({**client, "group.id": "kept"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("plain", 0, 7)], asynchronous=False)
    consumer.close()


def describe(servers: str, options: Mapping[str, str] = NONE) -> dict[str, Any]:
    """Return what any release tells of the metadata."""
    with SyncAdmin(bootstrap_servers=servers, **options) as admin:
        topics = {each.name: each for each in admin.describe_topics(["plain", "compacted", "transactions", "probed"])}
        configs = {name: admin.describe_configs("topic", name) for name in topics}
        return {
            "partitions": {
                name: [(each.partition, sorted(each.replicas)) for each in topic.partitions]
                for name, topic in topics.items()
            },
            "configs": {
                name: sorted(
                    (key, each.value) for key, each in entries.items() if each.source == "DYNAMIC_TOPIC_CONFIG"
                )
                for name, entries in configs.items()
            },
            "acls": sorted(map(str, admin.describe_acls())),
            "quotas": sorted(str(each.to_dict()) for each in admin.describe_client_quotas()),
            "users": dict(admin.describe_user_scram_credentials()),
        }


def swap(machines: Machines, plan: Path, target: str, start: str) -> None:
    """All brokers become those of the other program."""
    machines.call("plan", str(plan), "--to", target)
    for _ in machines.brokers:
        machines.step("step", str(plan), start=f"start {start}")


def move(machines: Machines, plan: Path, count: int, *words: str) -> None:
    """Take so many steps of the plan."""
    for _ in range(count):
        machines.step("kraft", "step", str(plan), *words)
