"""Three brokers that watch each other over SASL_SSL, at a ZooKeeper that wants TLS and a user of SASL.

Between brokers is SCRAM, with credentials in ZooKeeper, and authenticated again every `REAUTHENTICATED_MS`; there is an authorizer, and the
znodes are the brokers'. Nobody supervises their processes.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.serialization import Encoding

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from kafkalite.security.scram import ScramMechanism, credential_of, salted_password
from kafkalite.zookeeper_connection import security_of_texts
from tests.certificates import PASSWORD, Authority, write
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers import ensemble as ensembles
from zk.servers.ensemble import HOST, Ensemble
from zk.servers.server_settings import EnsembleTls
from zk.znodes import ConfigEntity

BROKER, ADMIN, APP = "broker", "admin", "app"
CLIENTS, INSIDE = "CLIENTS", "INSIDE"
MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
REAUTHENTICATED_MS: Final = 2000
SESSION_S, TIMEOUT_S = 60, 60
_ITERATIONS: Final = 4096
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule required"
_ZOOKEEPER_USER, _ZOOKEEPER_PASSWORD = "kafka", "zookeeper-secret"

ResultT = TypeVar("ResultT")


class SecuredBrokers:
    """The brokers by id. `folder` receives certificates, logs and data."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._authority = folder, Authority()
        self.trust = write(folder / "ca.pem", self._authority.pem)
        self._store = folder / "broker.p12"
        self.renew_certificate()
        jaas = f'Client {{ {_DIGEST} username="{_ZOOKEEPER_USER}" password="{_ZOOKEEPER_PASSWORD}"; }};\n'
        self._zookeeper = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self._store),
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": self.trust,
            "zookeeper.set.acl": "true",
            "kafkalite.jaas.file": write(folder / "jaas.conf", jaas.encode()),
        }
        self.zookeeper_security = security_of_texts(self._zookeeper, {})
        context = self.zookeeper_security.context
        assert context is not None
        identity = write(folder / "zookeeper.pem", self._authority.issue("zookeeper").pem)
        tls = EnsembleTls(identity=Path(identity), authorities=Path(self.trust), client=context)
        users = {_ZOOKEEPER_USER: _ZOOKEEPER_PASSWORD}
        self.ensemble = Ensemble(folder / "zookeeper", tls=tls, users=users, force_sync=False, class_data=True)
        self.passwords = {user: secrets.token_urlsafe(12) for user in (BROKER, ADMIN, APP)}
        self.brokers: dict[int, BrokerProcess] = {}
        self.ports: dict[str, dict[int, int]] = {CLIENTS: {}, INSIDE: {}}

    def renew_certificate(self) -> bytes:
        """Replace the brokers' certificate, which they notice while they run, and return it."""
        issued = self._authority.issue(BROKER)
        write(self._store, self._authority.pkcs12(issued))
        return issued.certificate.public_bytes(Encoding.DER)

    def shown_certificate(self, broker_id: int) -> bytes | None:
        """Return the certificate that a broker shows to others."""
        context = ssl.create_default_context(cafile=self.trust)
        with (
            socket.create_connection((HOST, self.ports[INSIDE][broker_id]), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            return connection.getpeercert(binary_form=True)

    def settings(self, broker_id: int) -> dict[str, str]:
        listeners = ",".join(f"{name}://{HOST}:{ports[broker_id]}" for name, ports in self.ports.items())
        mechanism = MECHANISM.config_key
        inside = f"listener.name.{INSIDE.lower()}.{mechanism.lower()}"
        login = f'{_SCRAM} username="{BROKER}" password="{self.passwords[BROKER]}";'
        return {
            "listeners": listeners,
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{INSIDE}:SASL_SSL",
            "inter.broker.listener.name": INSIDE,
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.{CLIENTS.lower()}.{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM};",
            f"{inside}.sasl.jaas.config": login,
            f"{inside}.connections.max.reauth.ms": str(REAUTHENTICATED_MS),
            "ssl.keystore.location": str(self._store),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
            "connection.failed.authentication.delay.ms": "10",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{ADMIN}",
            "zookeeper.connect": self.ensemble.secure_connect,
            **self._zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_S * 1000),
            "kafkalite.failover.detection": "evidence",
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.num.partitions": "1",
        }

    async def start_ensemble(self) -> None:
        """Start ZooKeeper, which ends sessions for its users only, and the brokers beside it, which wait for it; make the users."""
        usual = ensembles.JVM_OPTIONS
        ensembles.JVM_OPTIONS = (*usual, "-Dzookeeper.sessionRequireClientSASLAuth=true")
        serving = asyncio.create_task(self.ensemble.start(TIMEOUT_S))
        await asyncio.sleep(0)  # the process runs, and has its ports
        ensembles.JVM_OPTIONS = usual
        for each in self.brokers.values():
            each.properties |= self.settings(each.id)
            each.start()  # they wait for ZooKeeper
        await serving
        await self.set_passwords(BROKER, ADMIN, APP)

    async def set_passwords(self, *users: str) -> None:
        """Keep the credentials of users in ZooKeeper, as they are in `passwords`, by which they log in from now on."""

        async def keep(store: KazooStore) -> None:
            for user in users:
                salt = secrets.token_bytes(16)
                salted = salted_password(MECHANISM, self.passwords[user], salt, _ITERATIONS)
                credential = credential_of(MECHANISM, salted, salt, _ITERATIONS).encode()
                znode = ConfigEntity({MECHANISM.config_key: credential}).encode()
                path = paths.user_config(user)
                found = await store.exists(path)
                if found is None:
                    await store.create(path, znode, parents=True)
                else:
                    await store.write(path, znode, found.version)

        await self.with_store(keep)

    async def with_store(self, work: Callable[[KazooStore], Awaitable[ResultT]]) -> ResultT:
        """Let work be done in a session with the brokers' identity."""
        store = KazooStore(self.ensemble.secure_connect, 20.0, security=self.zookeeper_security)
        await store.start(TIMEOUT_S)
        try:
            return await work(store)
        finally:
            await store.close()

    def client(self, user: str, listener: str = CLIENTS) -> dict[str, Any]:
        """Return the settings of a client."""
        return {
            "bootstrap_servers": ",".join(f"{HOST}:{port}" for port in self.ports[listener].values()),
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": self.trust,
            "sasl_mechanism": MECHANISM.config_key,
            "sasl_username": user,
            "sasl_password": self.passwords[user],
        }

    def start(self, *broker_ids: int) -> None:
        """Start brokers with the settings of now; returns when they serve."""
        chosen = [self.brokers[each] for each in broker_ids or self.brokers]
        for each in chosen:
            each.properties |= self.settings(each.id)
            each.start()
        for each in chosen:
            each.wait_started(TIMEOUT_S)

    def await_heartbeats(self) -> None:
        """Wait until each broker has had several heartbeats of each other one that runs since now."""
        running = [each.id for each in self.brokers.values() if each.running]
        before = {each: self.heartbeats(each) for each in running}
        wait_until(
            lambda: all(self.heartbeats(each) - before[each] > 3 * len(running) for each in running),
            "heartbeats between all brokers",
            TIMEOUT_S,
        )

    def heartbeats(self, broker_id: int) -> int:
        """Return how many heartbeats a broker has had."""
        return self.metric(broker_id, r'kafkalite_requests_total\{request="PeerHeartbeat"\}')

    def verdicts(self) -> dict[int, int]:
        """Return how many verdicts each broker that runs has come to."""
        running = [each.id for each in self.brokers.values() if each.running]
        return {each: self.metric(each, r"kafkalite_failure_verdicts_total\{.*\}") for each in running}

    def metric(self, broker_id: int, series: str) -> int:
        """Return the sum of the samples of a broker whose names and labels match."""
        with urllib.request.urlopen(f"{self.brokers[broker_id].http_url}metrics", timeout=TIMEOUT_S) as response:
            return sum(int(float(n)) for n in re.findall(rf"^{series} (\S+)$", response.read().decode(), re.MULTILINE))


@contextmanager
def run_secured_brokers(folder: Path) -> Iterator[tuple[SecuredBrokers, ClusterFacts]]:
    """Start ZooKeeper and the brokers 1 to 3; they end with the block."""
    with ExitStack() as stack:
        secured = SecuredBrokers(folder)
        stack.callback(lambda: asyncio.run(secured.ensemble.stop()))
        for number in (1, 2, 3):
            http_port, inside = (stack.enter_context(ReservedPort()).number for _ in range(2))
            secured.brokers[number] = BrokerProcess(number, folder, {}, http_port=http_port)
            stack.callback(secured.brokers[number].close)
            secured.ports[CLIENTS][number], secured.ports[INSIDE][number] = secured.brokers[number].port, inside
        asyncio.run(secured.start_ensemble())
        secured.start()
        connect = secured.ensemble.secure_connect
        yield secured, stack.enter_context(ClusterFacts(connect, secured.zookeeper_security))
