"""How each client logs in: one call that succeeds, or raises what the client raises when it is not let in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import aiokafka
import kafka
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkalite.client import ClientError, SyncAdmin
from tests.wire.secured import SecuredCluster

PROTOCOLS: Final = {"TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
_PATIENCE_MS: Final = 30_000
TOPIC: Final = "t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where, and with what. `secret` is a password or a bearer token; `certificate` and `trust` are files in PEM."""

    listener: str
    trust: str
    mechanism: str = ""
    user: str = ""
    secret: str = ""
    certificate: str | None = None
    patience_ms: int = _PATIENCE_MS
    """For so long kafka-python tries again, also when it is refused."""

    def but(self, **wrong: Any) -> Login:
        """One that is to be refused."""
        return replace(self, patience_ms=500, **wrong)

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.listener == "SASL":
            return None
        context = ssl.create_default_context(cafile=self.trust)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context

    @property
    def of_sasl(self) -> dict[str, str]:
        """For clients in the manner of kafka-python."""
        if not self.mechanism:
            return {}
        named = {"sasl_mechanism": self.mechanism}
        if self.mechanism == "OAUTHBEARER":
            return named
        return named | {"sasl_plain_username": self.user, "sasl_plain_password": self.secret}


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # not typed
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class _AsyncToken(AsyncTokenProvider):  # type: ignore[misc]  # not typed
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def kafka_python(cluster: SecuredCluster, login: Login) -> None:
    token = {"sasl_oauth_token_provider": _Token(login.secret)} if login.mechanism == "OAUTHBEARER" else {}
    admin = kafka.KafkaAdminClient(
        bootstrap_servers=cluster.servers(login.listener),
        security_protocol=PROTOCOLS[login.listener],
        ssl_context=login.context,
        bootstrap_timeout_ms=login.patience_ms,
        **login.of_sasl,
        **token,
    )
    with closing(admin):
        assert TOPIC in admin.list_topics()


def aiokafka_(cluster: SecuredCluster, login: Login) -> None:
    async def life() -> None:
        token = {"sasl_oauth_token_provider": _AsyncToken(login.secret)} if login.mechanism == "OAUTHBEARER" else {}
        admin = AIOKafkaAdminClient(
            bootstrap_servers=cluster.servers(login.listener),
            security_protocol=PROTOCOLS[login.listener],
            ssl_context=login.context,
            **login.of_sasl,
            **token,
        )
        try:
            await admin.start()
            assert TOPIC in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(life())


def ours(cluster: SecuredCluster, login: Login, topic: str | None = TOPIC) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.servers(login.listener),
        "security_protocol": PROTOCOLS[login.listener],
    }
    if login.listener != "SASL":
        options["ssl_truststore_location"] = login.trust
    if login.certificate is not None:
        options["ssl_keystore_location"] = login.certificate
    if login.mechanism:
        options |= {"sasl_mechanism": login.mechanism, "sasl_username": login.user, "sasl_password": login.secret}
    with SyncAdmin(**options) as admin:
        assert topic in (None, *admin.list_topics())


CLIENTS: Final[Mapping[str, Callable[[SecuredCluster, Login], None]]] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka_,
    "ours": ours,
}
REFUSED: Final = (kafka.errors.KafkaError, aiokafka.errors.KafkaError, ClientError, OSError)
"""What they raise; of a listener with TLS some tell only that the connection ended."""
