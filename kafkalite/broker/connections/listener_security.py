"""Encryption and authentication of the connections of each listener, and of this broker's connections to others.

What is made of settings and files (contexts of TLS) is kept until one of them changes: `look` finds files that were replaced, so a renewed
certificate needs neither a restart nor a command. A context that cannot be made leaves the one before in place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from kafkalite.broker.connections.key_sets import fetcher
from kafkalite.broker.connections.sasl_authenticator import SaslAuthenticator
from kafkalite.broker.connections.tls_listener import TlsListener
from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedReads
from kafkalite.config.keys import ConfigError
from kafkalite.config.security_keys import SecuritySettings, security_of
from kafkalite.net.connection import Connection
from kafkalite.security import kerberos
from kafkalite.security.bearer_tokens import BearerTokens, TokenRules
from kafkalite.security.jaas import LoginModule, jaas_file, parse_jaas_file, parse_jaas_line
from kafkalite.security.kerberos_names import KerberosShortNames
from kafkalite.security.principal import ANONYMOUS, USER, KafkaPrincipal
from kafkalite.security.principal_mapping import PrincipalMapping
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.security.sasl_server import (
    OAuthBearerServer,
    PlainServer,
    SaslServer,
    ScramServer,
    TokenCredential,
    UserLookup,
)
from kafkalite.security.scram import ScramCredential, ScramMechanism
from kafkalite.security.secret_files import ALLOWED_BY, exposure, read_secret
from kafkalite.security.tls import StoreSettings, TlsError, TlsSettings, client_context, peer_name, server_context
from kafkalite.types import Endpoint

if TYPE_CHECKING:
    import socket

    from kafkalite.broker.requests.request_handler import RequestHandler
    from kafkalite.config.broker import LiveConfig

logger = logging.getLogger("kafkalite.broker.connections.listener_security")

LOOK_EVERY_S: Final = 5.0
"""Interval at which renewed certificates are looked for."""
_HTTP: Final = Endpoint("http", "", 0, "SSL")
"""The broker's HTTP pages, as a listener."""
UNAUTHENTICATED_BYTES: Final = 16 * 1024
_SCRAM: Final = {each.config_key: each for each in ScramMechanism}
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_Stamps = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class _Context:
    """A TLS context with the settings and files that it was made of."""

    settings: TlsSettings
    stamps: _Stamps
    context: ssl.SSLContext


@dataclass(slots=True, kw_only=True)
class ListenerSasl:
    """The settings by which one listener authenticates, as they are now (`sasl_authenticator.SaslListener`)."""

    mechanisms: tuple[str, ...]
    failure_delay_s: float
    timeout_s: float
    outcomes: Counter[str]
    unauthenticated: UnauthenticatedConnections
    token_bytes: int
    make: Mapping[str, Callable[[], SaslServer]]
    session_ms: Mapping[str, int]
    now_ms: Callable[[], int] = field(repr=False)

    def server(self, mechanism: str) -> SaslServer:
        return self.make[mechanism]()

    def max_session_ms(self, mechanism: str) -> int:
        return self.session_ms[mechanism]


class ListenerSecurity:
    """Makes what secures connections. `users` finds SCRAM credentials, `tokens` those of delegation tokens; `now_ms` is since 1970.

    `monotonic_s` measures the steps of unauthenticated connections, `reads` reads from them.
    """

    def __init__(
        self,
        live: LiveConfig,
        users: UserLookup,
        now_ms: Callable[[], int],
        tokens: Callable[[ScramMechanism, str], TokenCredential | None] = lambda mechanism, token_id: None,
        monotonic_s: Callable[[], float] = monotonic,
        reads: UnauthenticatedReads | None = None,
    ) -> None:
        self._live, self._users, self._now_ms, self._tokens = live, users, now_ms, tokens
        self._contexts: dict[tuple[str, bool], _Context] = {}
        self._sasl_of: dict[str, tuple[Mapping[str, str], ListenerSasl]] = {}
        """By listener, the settings of SASL and the originals that they were made of."""
        self._secret = secrets.token_bytes(32)
        self.outcomes: Counter[str] = Counter()
        """Number of authentications by SASL by outcome."""
        self.unauthenticated = UnauthenticatedConnections(
            lambda: live.current.kafkalite_max_unauthenticated_connections, monotonic_s, self.outcomes, reads
        )

    # TLS

    async def prepare(self) -> None:
        """Make the contexts of all listeners. ConfigError when one cannot be made."""
        for endpoint, is_client in self._find_tls_endpoints():
            await self._prepare(endpoint, is_client)
        for endpoint in self._live.current.listeners:
            if endpoint.security_protocol.startswith("SASL"):
                self._current_sasl(endpoint)

    async def of_http(self) -> Callable[[list[socket.socket], Callable[[], asyncio.BaseProtocol]], TlsListener]:
        """Return what accepts HTTP over TLS, with the settings of a listener called http. ConfigError."""
        await self._prepare(_HTTP, is_client=False)

        def listener(sockets: list[socket.socket], make: Callable[[], asyncio.BaseProtocol]) -> TlsListener:
            current = self._live.current
            return TlsListener(
                sockets,
                lambda: self.context(_HTTP.listener),
                make,
                lambda: self._live.current.kafkalite_handshake_timeout_ms / 1000,
                lambda: current.kafkalite_http_max_connections,
                Counter(),
                self.unauthenticated,
            )

        return listener

    async def _prepare(self, endpoint: Endpoint, is_client: bool) -> None:
        try:
            await self._renew_context(endpoint, is_client)
        except TlsError as problem:
            raise ConfigError(f"listener {endpoint.listener}: {problem}") from None

    async def look(self) -> None:
        """Use settings and files that have changed from now on."""
        for endpoint, is_client in self._find_tls_endpoints():
            try:
                await self._renew_context(endpoint, is_client)
            except (TlsError, ValueError) as problem:
                logger.error("listener %s keeps its certificate: %s", endpoint.listener, problem)

    def _find_tls_endpoints(self) -> Iterator[tuple[Endpoint, bool]]:
        """Yield (listener, whether this broker is the client) for all that use TLS."""
        current = self._live.current
        for endpoint in current.listeners:
            if endpoint.security_protocol.endswith("SSL"):
                yield endpoint, False
                if self._is_inter_broker(endpoint):
                    yield endpoint, True
        if current.kafkalite_http_listener is not None and current.kafkalite_http_ssl_enable:
            yield _HTTP, False

    def context(self, listener: str) -> ssl.SSLContext:
        """Return the TLS context for a connection that arrives now."""
        return self._contexts[listener, False].context

    async def _renew_context(self, endpoint: Endpoint, is_client: bool) -> None:
        settings = self._tls(endpoint)
        place = endpoint.listener, is_client
        loop = asyncio.get_running_loop()
        stamps = await loop.run_in_executor(None, _read_stamps, settings)
        known = self._contexts.get(place)
        if known is not None and known.settings == settings and known.stamps == stamps:
            return
        made = await loop.run_in_executor(None, client_context if is_client else server_context, settings)
        self._contexts[place] = _Context(settings, stamps, made)
        if known is not None:
            logger.info("listener %s has a new context of TLS", endpoint.listener)

    def _tls(self, endpoint: Endpoint) -> TlsSettings:
        originals = self._live.current.originals
        config = security_of(originals, endpoint.listener)
        client_auth = config.ssl_client_auth
        if endpoint.security_protocol == "SASL_SSL" or endpoint is _HTTP:
            # As in Kafka, unless it is set for this very listener.
            client_auth = originals.get(f"listener.name.{endpoint.listener.lower()}.ssl.client.auth", "none")
        return TlsSettings(
            keystore=StoreSettings(
                location=config.ssl_keystore_location,
                password=config.ssl_keystore_password,
                key_password=config.ssl_key_password,
                certificates=config.ssl_keystore_certificate_chain,
                key=config.ssl_keystore_key,
                private_unless=None if self._live.current.kafkalite_allow_world_readable_secrets else ALLOWED_BY,
            ),
            truststore=StoreSettings(
                location=config.ssl_truststore_location,
                password=config.ssl_truststore_password,
                certificates=config.ssl_truststore_certificates,
            ),
            enabled_protocols=config.ssl_enabled_protocols,
            cipher_suites=config.ssl_cipher_suites,
            client_auth=client_auth,
            checks_hostname=bool(config.ssl_endpoint_identification_algorithm),
        )

    def identify(self, listener: str) -> Callable[[asyncio.BaseTransport], KafkaPrincipal]:
        """Return a function from a TLS transport to its principal, by its certificate. ValueError if no rule names the owner."""
        config = security_of(self._live.current.originals, listener)
        mapping = PrincipalMapping(config.ssl_principal_mapping_rules)

        def principal(transport: asyncio.BaseTransport) -> KafkaPrincipal:
            connection = transport.get_extra_info("ssl_object")
            certificate = connection.getpeercert(binary_form=True) if connection is not None else None
            if not certificate:
                return ANONYMOUS
            return KafkaPrincipal(USER, mapping.name_of(peer_name(certificate)))

        return principal

    # SASL

    def gate(self, endpoint: Endpoint, dispatcher: RequestHandler) -> Callable[[], SaslAuthenticator]:
        """Return the factory of the authenticators of a listener's connections."""
        return lambda: SaslAuthenticator(self._current_sasl(endpoint), dispatcher)

    def max_receive_bytes(self, listener: str) -> int:
        """Return the size of the largest request before authentication, except for bearer tokens: no other has more than names and keys."""
        config = security_of(self._live.current.originals, listener)
        return min(config.sasl_server_max_receive_size, UNAUTHENTICATED_BYTES)

    def _current_sasl(self, endpoint: Endpoint) -> ListenerSasl:
        """Return the settings of SASL as they are now; the previous ones where they cannot be used."""
        originals = self._live.current.originals
        made_of, sasl = self._sasl_of.get(endpoint.listener, (None, None))
        if sasl is None or made_of is not originals:
            try:
                sasl = self._make_sasl(endpoint)
            except ConfigError as problem:
                if sasl is None:
                    raise
                logger.error("listener %s authenticates as before: %s", endpoint.listener, problem)
            self._sasl_of[endpoint.listener] = originals, sasl
        return sasl

    def _make_sasl(self, endpoint: Endpoint) -> ListenerSasl:
        current, listener = self._live.current, endpoint.listener
        config = security_of(current.originals, listener)
        mechanisms = config.sasl_enabled_mechanisms
        of = {each: security_of(current.originals, listener, each) for each in mechanisms}
        return ListenerSasl(
            mechanisms=mechanisms,
            failure_delay_s=current.connection_failed_authentication_delay_ms / 1000,
            timeout_s=current.kafkalite_handshake_timeout_ms / 1000,
            outcomes=self.outcomes,
            unauthenticated=self.unauthenticated,
            token_bytes=config.sasl_server_max_receive_size,
            make={each: self._make_server_factory(listener, each, of[each]) for each in mechanisms},
            session_ms={each: config.connections_max_reauth_ms for each, config in of.items()},
            now_ms=self._now_ms,
        )

    def _make_server_factory(self, listener: str, mechanism: str, config: SecuritySettings) -> Callable[[], SaslServer]:
        if mechanism in _SCRAM:
            return lambda: ScramServer(
                _SCRAM[mechanism], self._find_user, self._tokens, self._secret, secrets.token_urlsafe(24)
            )
        if mechanism == "OAUTHBEARER":
            return partial(OAuthBearerServer, self._bearer_tokens(listener, config).validate)
        options = self._login(listener, mechanism, config).options
        if mechanism == "GSSAPI":
            return self._kerberos(listener, options, config)
        passwords = {name.removeprefix("user_"): each for name, each in options.items() if name.startswith("user_")}
        return partial(PlainServer, passwords)

    def _kerberos(
        self, listener: str, options: Mapping[str, str], config: SecuritySettings
    ) -> Callable[[], SaslServer]:
        kerberos_service(listener, options, config)
        keytab, principal = options.get("keyTab", ""), options.get("principal", "")
        if not (keytab and principal):
            raise ConfigError(f"listener {listener}: the JAAS line of GSSAPI needs keyTab and principal")
        try:
            why = exposure(keytab, "the keys of a principal")
        except OSError as problem:
            raise ConfigError(f"listener {listener}: keyTab {keytab}: {problem.strerror}") from None
        if why is not None and not self._live.current.kafkalite_allow_world_readable_secrets:
            raise ConfigError(f"listener {listener}: {why}")
        return partial(
            kerberos.GssapiServer,
            partial(kerberos.accept, principal, keytab),
            KerberosShortNames(config.sasl_kerberos_principal_to_local_rules),
            kerberos.default_realm,
        )

    async def _find_user(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user, once it is the turn of the next step."""
        found = await self._users(mechanism, user)
        await self.unauthenticated.wait_for_turn()
        return found

    def _bearer_tokens(self, listener: str, config: SecuritySettings) -> BearerTokens:
        url = config.sasl_oauthbearer_jwks_endpoint_url
        if url is None:  # Kafka takes tokens without a signature then
            raise ConfigError(f"listener {listener}: OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
        rules = TokenRules(
            audience=config.sasl_oauthbearer_expected_audience or (),
            issuer=config.sasl_oauthbearer_expected_issuer,
            sub_claim=config.sasl_oauthbearer_sub_claim_name,
            clock_skew_s=config.sasl_oauthbearer_clock_skew_seconds,
            refresh_s=config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
        )
        try:
            return BearerTokens(rules, fetcher(url), lambda: self._now_ms() / 1000)
        except ValueError as problem:
            raise ConfigError(f"listener {listener}: sasl.oauthbearer.jwks.endpoint.url {problem}") from None

    def _login(self, listener: str, mechanism: str, config: SecuritySettings) -> LoginModule:
        """Return the JAAS line of a mechanism. ConfigError if there is none."""
        wanted = _MODULES.get(mechanism, "ScramLoginModule")
        if config.sasl_jaas_config is not None:
            modules: tuple[LoginModule, ...] = (parse_jaas_line(config.sasl_jaas_config),)
        else:
            modules = self._login_of_file(listener)
        for module in modules:
            if module.name.endswith(wanted):
                return module
        raise ConfigError(
            f"listener {listener}: {mechanism} needs listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config, or a "
            f"section {listener.lower()}.KafkaServer or KafkaServer in kafkalite.jaas.file, with a {wanted}"
        )

    def _login_of_file(self, listener: str) -> tuple[LoginModule, ...]:
        current = self._live.current
        path = jaas_file(current.kafkalite_jaas_file, os.environ)
        if path is None:
            return ()
        try:
            sections = parse_jaas_file(
                read_secret(path, "passwords", is_allowed=current.kafkalite_allow_world_readable_secrets)
            )
        except (OSError, ValueError) as problem:
            raise ConfigError(f"kafkalite.jaas.file {path}: {problem}") from None
        return sections.get(f"{listener.lower()}.KafkaServer") or sections.get("KafkaServer") or ()

    # Other brokers

    async def open(self, endpoint: Endpoint, client_id: str, timeout_s: float) -> Connection:
        """Open an authenticated connection to another broker's inter-broker listener. OSError, TimeoutError."""
        protocol, credentials = endpoint.security_protocol, None
        if protocol.startswith("SASL"):
            credentials = self._own_credentials(endpoint.listener)
        context = None
        if protocol.endswith("SSL"):
            held = self._contexts.get((endpoint.listener, True))
            if held is None:
                raise ConnectionError(f"this broker has no context of TLS for the listener {endpoint.listener}")
            context = held.context
        return await Connection.open(
            endpoint.host,
            endpoint.port,
            client_id=client_id,
            timeout_s=timeout_s,
            security_protocol=protocol,
            ssl_context=context,
            credentials=credentials,
        )

    def _own_credentials(self, listener: str) -> SaslCredentials:
        originals = self._live.current.originals
        config = security_of(originals, listener)
        mechanism = config.sasl_mechanism_inter_broker_protocol
        config = security_of(originals, listener, mechanism)
        try:
            options = self._login(listener, mechanism, config).options
            service = kerberos_service(listener, options, config) if mechanism == "GSSAPI" else ""
        except ConfigError as problem:
            raise ConnectionError(str(problem)) from None
        return SaslCredentials(
            mechanism=mechanism,
            username=options.get("principal" if service else "username", ""),
            password=options.get("password", ""),
            service=service,
            keytab=options.get("keyTab", "") if service else "",
        )

    def _is_inter_broker(self, endpoint: Endpoint) -> bool:
        current = self._live.current
        return endpoint.listener in (current.inter_broker_listener_name, current.control_plane_listener_name)


def kerberos_service(listener: str, options: Mapping[str, str], config: SecuritySettings) -> str:
    """Return the Kerberos service name of the brokers by the JAAS line and the setting, which must agree. ConfigError."""
    named, wanted = options.get("serviceName"), config.sasl_kerberos_service_name
    if named and wanted and named != wanted:
        raise ConfigError(
            f"listener {listener}: serviceName is {named} in the JAAS line, and sasl.kerberos.service.name is {wanted}"
        )
    if not (service := named or wanted):
        raise ConfigError(
            f"listener {listener}: GSSAPI needs sasl.kerberos.service.name, or serviceName in its JAAS line"
        )
    return service


def _read_stamps(settings: TlsSettings) -> _Stamps:
    """Return what identifies the versions of the files of the settings."""
    stamps = []
    for path in settings.files:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        stamps.append((path, status.st_mtime_ns, status.st_ino))
    return tuple(stamps)
