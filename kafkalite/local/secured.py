"""The security of a cluster for trials: a certificate authority, users with passwords, ACLs, and client files for each kind of client.

Clients come in by SASL_SSL as users of SCRAM, brokers among each other and the administrator's certificate by mutual TLS, to ZooKeeper too,
whose znodes are theirs. The folder is made once and then used again; everything in it that is a secret has mode 600.

Users: `admin` may do all; `app` may do what an application does with topics, groups and transactional ids that begin with `app`.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.properties import read_properties
from kafkalite.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafkalite.security.authority import ORGANIZATION, Authority
from kafkalite.security.tls import StoreSettings, TlsSettings, client_context
from kafkalite.zookeeper_connection import security_of_texts
from zk.security.store_security import StoreSecurity
from zk.servers.java_properties import properties_text
from zk.servers.server_settings import EnsembleTls

if TYPE_CHECKING:
    from kafkalite.client import Admin

ADMIN, USER = "admin", "app"
MECHANISM: Final = "SCRAM-SHA-512"
INSIDE: Final = "BROKERS"
"""The listener of brokers and of the administrator's certificate."""
_LOOKERS: Final = "http.users"
"""File with the users of status pages and metrics."""
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_PROTOCOLS: Final = f"CLIENTS:SASL_SSL,{INSIDE}:SSL"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_RIGHTS: Final = (
    (ResourceType.TOPIC, (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE_CONFIGS)),
    (ResourceType.GROUP, (Operation.READ, Operation.DELETE)),
    (ResourceType.TRANSACTIONAL_ID, (Operation.WRITE, Operation.DESCRIBE)),
)


class ClusterSecurity:
    """The folder with authority, users and client files of a cluster. `hosts` are names and addresses of servers beyond this machine's.

    Servers find the folder at `mounted_at`, by default where it is.
    """

    def __init__(self, folder: Path, hosts: tuple[str, ...] = (), mounted_at: Path | None = None) -> None:
        self.folder = folder
        self._at_servers = mounted_at or folder
        self._hosts = (*_HOSTS, *hosts)
        self.authorities, self._passwords_path = folder / "ca.pem", folder / "passwords.properties"
        self._broker, self._admin, self._zookeeper = (folder / f"{name}.pem" for name in ("broker", ADMIN, "zookeeper"))
        self.passwords: Mapping[str, str] = {}

    @property
    def is_made(self) -> bool:
        return self._passwords_path.exists()

    @staticmethod
    def rights() -> list[AclBinding]:
        """Return the rights of `app`; `admin` may do all."""
        return list(_rules())

    def make(self) -> None:
        """Write what is not there yet. OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.is_made:
            authority = Authority()
            write_private(self.authorities, authority.pem.decode())
            for path in (self._broker, self._admin, self._zookeeper):
                write_private(path, authority.issue(path.stem, self._hosts).decode())
            made = {name: secrets.token_urlsafe(18) for name in (ADMIN, USER)}
            write_private(self._passwords_path, properties_text(made))  # last: with it, all is there
        self.passwords = read_properties(self._passwords_path)
        if not (self.folder / _LOOKERS).exists():
            write_private(self.folder / _LOOKERS, f"{ADMIN}:{self.passwords[ADMIN]}\n")

    # servers

    def broker_settings(self, host: str, port: int, inside_port: int) -> dict[str, str]:
        """Return the settings of a broker with its two listeners; the first is for clients."""
        return {
            "listeners": f"CLIENTS://{host}:{port},{INSIDE}://{host}:{inside_port}",
            **self.security_settings(),
        }

    def security_settings(self) -> dict[str, str]:
        """Return the settings of every broker with listeners of these names."""
        identity, authorities = self._at_servers / self._broker.name, self._at_servers / self.authorities.name
        return {
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": INSIDE,
            **_stores("ssl.", identity, authorities),
            f"listener.name.{INSIDE.lower()}.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
            "kafkalite.http.users.file": str(self._at_servers / _LOOKERS),
            "kafkalite.http.ssl.enable": "true",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{ADMIN};"
            + ";".join(f"User:CN={name},O={ORGANIZATION}" for name in ("broker", ADMIN)),
            **_zookeeper_settings(identity, authorities),
            "zookeeper.set.acl": "true",
        }

    def java_options_of_zookeeper(self) -> str:
        """Return the options of a server in a container, which has no `zoo.cfg` of its own (`zk.servers.server_settings`)."""
        identity, authorities = self._at_servers / self._zookeeper.name, self._at_servers / self.authorities.name
        stores = [
            f"{use}.{store}.{key}"
            for use in ("ssl", "ssl.quorum")
            for store, path in (("keyStore", identity), ("trustStore", authorities))
            for key in (f"location={path}", "type=PEM")
        ]
        options = (
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.clientAuth=need",
            "ssl.quorum.clientHostnameVerification=false",  # it would ask DNS for the names of addresses
            *stores,
        )
        return " ".join(f"-Dzookeeper.{each}" for each in options)

    def ensemble_tls(self) -> EnsembleTls:
        context = self.context()
        return EnsembleTls(identity=self._zookeeper, authorities=self.authorities, client=lambda: context)

    # the administrator of this machine

    def context(self) -> ssl.SSLContext:
        """Return a TLS context with the administrator's certificate."""
        return client_context(
            TlsSettings(
                keystore=StoreSettings(location=str(self._admin)),
                truststore=StoreSettings(location=str(self.authorities)),
            )
        )

    def store_security(self) -> StoreSecurity:
        """Return the security of a ZooKeeper session of a broker, which owns the znodes."""
        return security_of_texts(_zookeeper_settings(self._broker, self.authorities), {})

    def admin_options(self) -> dict[str, Any]:
        """Return the options of a client at the listener of brokers."""
        return {"security_protocol": "SSL", "ssl_context": self.context()}

    async def make_users(self, admin: Admin) -> None:
        """Create the users' passwords and the ACLs of `app`."""
        from kafkalite.client import ScramUpsertion

        await admin.alter_user_scram_credentials(
            [ScramUpsertion(name, MECHANISM, password) for name, password in self.passwords.items()]
        )
        await admin.create_acls(self.rights())

    # clients

    def client_settings(self, user: str = USER) -> dict[str, str]:
        """Return a client's settings by Java's names, which our clients and contexts accept too."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authorities),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_SCRAM} required username="{user}" password="{self.passwords[user]}";',
        }

    def write_client_files(self, bootstrap_servers: str, zookeeper_connect: str) -> dict[str, Path]:
        """Write the files for each kind of client, and return them by purpose."""
        java, admin = ({"bootstrap.servers": bootstrap_servers, **self.client_settings(user)} for user in (USER, ADMIN))
        zookeeper = {"zookeeper.clientCnxnSocket": _NETTY, **_zookeeper_settings(self._broker, self.authorities)}
        librdkafka = {
            "bootstrap.servers": bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authorities),
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": self.passwords[USER],
        }
        python = {
            "bootstrap_servers": bootstrap_servers.split(","),
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.authorities),
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": USER,
            "sasl_plain_password": self.passwords[USER],
        }
        spark = {f"kafka.{key}": text for key, text in java.items()}
        files = {
            "Java's clients, kafkalite --command-config": ("app.properties", properties_text(java)),
            "Java's clients as the administrator": ("admin.properties", properties_text(admin)),
            "librdkafka, kcat -F": ("librdkafka.conf", _librdkafka(librdkafka)),
            "kafka-python, as keyword arguments": ("kafka_python.json", _json(python)),
            "kafkalite, as KAFKALITE_CONFIG": ("kafkalite.toml", _contexts(java, admin, zookeeper_connect, zookeeper)),
            "Spark, as options of the source": ("spark.json", _json(spark)),
            "Kafka's tools with --zk-tls-config-file": ("zookeeper.properties", properties_text(zookeeper)),
        }
        made = {}
        for purpose, (name, text) in files.items():
            made[purpose] = self.folder / name
            write_private(made[purpose], text)
        return made

    def client_lines(self, files: Mapping[str, str]) -> Iterator[str]:
        """Return how each kind of client connects: the content of the files, without passwords."""
        for purpose, path in files.items():
            yield f"  {purpose}: {path}"
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                if line.strip() and not path.endswith(".toml"):
                    yield f"    {self._without_passwords(line)}"
        yield f"users are {ADMIN} and {USER} (topics and groups that begin with {USER}); their passwords are in {self._passwords_path}"

    def _without_passwords(self, line: str) -> str:
        for password in self.passwords.values():
            line = line.replace(password, "***")
        return line


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner may read, at no time anybody else. OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)


def _rules() -> Iterator[AclBinding]:
    def may(resource: ResourcePattern, operation: Operation) -> AclBinding:
        return AclBinding(resource, AclEntry(f"User:{USER}", "*", operation, PermissionType.ALLOW))

    for kind, operations in _RIGHTS:
        for operation in operations:
            yield may(ResourcePattern(kind, USER, PatternType.PREFIXED), operation)
    yield may(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME), Operation.IDEMPOTENT_WRITE)


def _zookeeper_settings(identity: Path, authorities: Path) -> dict[str, str]:
    return {
        "zookeeper.ssl.client.enable": "true",
        **_stores("zookeeper.ssl.", identity, authorities),
        "zookeeper.ssl.protocol": "TLSv1.3",
    }


def _stores(prefix: str, identity: Path, authorities: Path) -> dict[str, str]:
    return {
        f"{prefix}keystore.type": "PEM",
        f"{prefix}keystore.location": str(identity),
        f"{prefix}truststore.type": "PEM",
        f"{prefix}truststore.location": str(authorities),
    }


def _librdkafka(settings: Mapping[str, str]) -> str:
    """Return a file for `kcat -F`, which knows no escapes."""
    return "".join(f"{key}={text}\n" for key, text in settings.items())


def _json(settings: Mapping[str, Any]) -> str:
    import json

    return json.dumps(settings, indent=2) + "\n"


def _contexts(user: Mapping[str, str], admin: Mapping[str, str], connect: str, zookeeper: Mapping[str, str]) -> str:
    """Return a contexts file: `admin` also reaches ZooKeeper."""
    import json

    contexts = {USER: user, ADMIN: {**admin, "zookeeper.connect": connect, **zookeeper}}
    lines = [f'current-context = "{USER}"']
    for name, settings in contexts.items():
        lines += [
            "",
            f"[contexts.{name}]",
            *(f"{json.dumps(key)} = {json.dumps(text, ensure_ascii=False)}" for key, text in settings.items()),
        ]
    return "\n".join(lines) + "\n"
