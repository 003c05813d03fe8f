"""A cluster with a listener of each security protocol, whose brokers talk over SASL_SSL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkalite.local.cluster import LocalCluster
from tests.certificates import PASSWORD, Authority, write
from zk.servers.ensemble import HOST

USER, USER_PASSWORD = "alice", "alice-secret"
_PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="broker-secret" user_broker="broker-secret" user_{USER}="{USER_PASSWORD}";'
)

_SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecuredCluster(LocalCluster):
    """`port(protocol)` of the first broker; users of SCRAM are made by tests, through the listener PLAINTEXT."""

    def __init__(
        self, folder: Path, brokers: int = 2, settings: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.authority = Authority()
        folder.mkdir(exist_ok=True)
        self.store = folder / "broker.p12"
        self.trust = write(folder / "ca.pem", self.authority.pem)
        write(self.store, self.authority.pkcs12(self.authority.issue("broker")))
        self._ports: dict[tuple[int, str], int] = {}
        super().__init__(brokers=brokers, properties=self._settings() | dict(settings or {}), **options)

    def _settings(self) -> dict[str, str]:
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,BOTH:SASL_SSL",
            "inter.broker.listener.name": "BOTH",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.store),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
            "listener.name.tls.ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),O=kafkalite$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "delegation.token.secret.key": "token-secret",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": _PLAIN_JAAS,
            "listener.name.both.plain.sasl.jaas.config": _PLAIN_JAAS,
            **{
                f"listener.name.{listener}.scram-sha-{bits}.sasl.jaas.config": _SCRAM_JAAS
                for listener in ("sasl", "both")
                for bits in (256, 512)
            },
            "connection.failed.authentication.delay.ms": "10",
        }

    def _listeners(self, broker_id: int, port: int) -> dict[str, str]:
        ports = {"PLAINTEXT": port} | {name: self._reserve_port() for name in ("TLS", "SASL", "BOTH")}
        self._ports |= {(broker_id, name): number for name, number in ports.items()}
        return {"listeners": ",".join(f"{name}://{HOST}:{number}" for name, number in ports.items())}

    def servers(self, listener: str) -> str:
        """host:port of every broker at one of its listeners."""
        return ",".join(f"{HOST}:{number}" for (_, name), number in self._ports.items() if name == listener)
