"""How a client proves who it is, and whom it trusts: the options `security_protocol`, `ssl_*` and `sasl_*`, by Kafka's names.

Secrets among them are in no `repr`. Stores are read when the first connection is made.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from kafkalite.security.jaas import LoginModule
    from kafkalite.security.sasl_client import SaslCredentials
    from kafkalite.security.tls import StoreSettings

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
StoreType = Literal["", "JKS", "PKCS12", "PEM"]
_PROTOCOLS: Final[tuple[str, ...]] = get_args(SecurityProtocol)
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}


@dataclass(frozen=True, kw_only=True)
class SecurityOptions:
    """Names and meanings are Kafka's, where Kafka has the option; empty means not given.

    - `security_protocol`: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
    - `ssl_truststore_location` (PEM, PKCS12 or JKS) with its password, or `ssl_truststore_certificates` (PEM text): whom to trust; by
      default the system's authorities. `ssl_keystore_location` with its passwords, or `ssl_keystore_certificate_chain` and
      `ssl_keystore_key` (PEM text): who the client is. What kind a store is, is seen in its first bytes, whatever `ssl_*_type` says.
    - `ssl_enabled_protocols`, `ssl_cipher_suites`: names as Java's, separated by commas. `ssl_endpoint_identification_algorithm`: the name
      of a broker must be in its certificate, unless this is empty.
    - `allow_world_readable_secrets`: a key store that everybody on the machine can read is refused otherwise.
    - `ssl_context` replaces all other `ssl_` options.
    - `sasl_mechanism`: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER" or "GSSAPI", with `sasl_username` and `sasl_password`, or
      `sasl_jaas_config` as Java's clients have it (parsed, never executed; `tokenauth="true"` for delegation tokens). `sasl_token` gives
      the bearer token of the moment; it is called on a thread of its own, and what it raises is a failed authentication.
    - GSSAPI is Kerberos, by the extra `gssapi`: with the ticket in the cache, or by `sasl_jaas_config` with the keys in a file (`keyTab`,
      `principal`). `sasl_kerberos_service_name`, or `serviceName` in that line, is the service that brokers are: kafka of `kafka/host`.
    """

    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    ssl_keystore_type: StoreType = ""
    ssl_keystore_location: str = ""
    ssl_keystore_password: str = field(default="", repr=False)
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_keystore_certificate_chain: str = ""
    ssl_key_password: str = field(default="", repr=False)
    ssl_truststore_type: StoreType = ""
    ssl_truststore_location: str = ""
    ssl_truststore_password: str = field(default="", repr=False)
    ssl_truststore_certificates: str = ""
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_cipher_suites: str = ""
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    allow_world_readable_secrets: bool = False
    sasl_mechanism: SaslMechanism = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    sasl_jaas_config: str = field(default="", repr=False)
    sasl_token: Callable[[], str] | None = field(default=None, repr=False)
    sasl_kerberos_service_name: str = ""


def check_security(options: SecurityOptions) -> None:
    """ValueError for what cannot work."""
    if options.security_protocol not in _PROTOCOLS:
        known = ", ".join(_PROTOCOLS)
        raise ValueError(f"security_protocol is {options.security_protocol}; it must be one of {known}")
    credentials_of(options)


def credentials_of(security: SecurityOptions) -> SaslCredentials | None:
    """Return the client's SASL credentials; None where its protocol has none. ValueError when something is missing."""
    if not security.security_protocol.startswith("SASL"):
        return None
    from kafkalite.security.sasl_client import SaslCredentials

    if not security.sasl_mechanism:
        raise ValueError(f"security_protocol {security.security_protocol} needs sasl_mechanism")
    username, password, is_token = security.sasl_username, security.sasl_password, False
    if security.sasl_mechanism == "GSSAPI":
        return _kerberos(security)
    if security.sasl_jaas_config:
        options = _login_module(security).options
        username, password = options.get("username", username), options.get("password", password)
        is_token = options.get("tokenauth", "").lower() == "true"
    found = SaslCredentials(
        mechanism=security.sasl_mechanism,
        username=username,
        password=password,
        is_token=is_token,
        token=security.sasl_token,
    )
    if security.sasl_mechanism != "OAUTHBEARER" and not (username and password):
        raise ValueError(f"{security.sasl_mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")
    if security.sasl_mechanism == "OAUTHBEARER" and security.sasl_token is None and not password:
        raise ValueError("OAUTHBEARER needs sasl_token, or the token as sasl_password")
    return found


def _kerberos(security: SecurityOptions) -> SaslCredentials:
    from kafkalite.security import kerberos
    from kafkalite.security.sasl_client import SaslCredentials

    if not kerberos.is_available():
        raise ValueError(f"GSSAPI needs a package: {kerberos.REMEDY}")
    options = _login_module(security).options if security.sasl_jaas_config else {}
    service = security.sasl_kerberos_service_name or options.get("serviceName", "")
    if not service:
        raise ValueError("GSSAPI needs sasl_kerberos_service_name, the service that brokers are; mostly it is kafka")
    return SaslCredentials(
        mechanism="GSSAPI",
        username=options.get("principal", security.sasl_username),
        service=service,
        keytab=options.get("keyTab", ""),
    )


def _login_module(security: SecurityOptions) -> LoginModule:
    from kafkalite.security.jaas import parse_jaas_line

    try:
        module = parse_jaas_line(security.sasl_jaas_config)
    except ValueError as problem:
        raise ValueError(f"sasl_jaas_config: {problem}") from None
    wanted = _LOGIN_MODULES.get(security.sasl_mechanism, "ScramLoginModule")
    if not module.name.endswith(wanted):
        raise ValueError(f"sasl_jaas_config names {module.name}; {security.sasl_mechanism} needs a {wanted}")
    return module


def tls_context_of(security: SecurityOptions) -> ssl.SSLContext | None:
    """Return the context of the client's connections, read from files; None where its protocol has none. OSError names what is wrong."""
    if not security.security_protocol.endswith("SSL"):
        return None
    if security.ssl_context is not None:
        return security.ssl_context
    from kafkalite.security.tls import TlsError, TlsSettings, client_context

    settings = TlsSettings(
        keystore=find_keystore(security),
        truststore=find_truststore(security),
        enabled_protocols=_items(security.ssl_enabled_protocols),
        cipher_suites=_items(security.ssl_cipher_suites),
        checks_hostname=bool(security.ssl_endpoint_identification_algorithm),
    )
    try:
        return client_context(settings)
    except TlsError as problem:
        raise ConnectionError(str(problem)) from None


def find_keystore(security: SecurityOptions) -> StoreSettings:
    """Return where the key and the certificates of the options are."""
    from kafkalite.security.secret_files import ALLOWED_BY_CLIENT
    from kafkalite.security.tls import StoreSettings

    return StoreSettings(
        location=security.ssl_keystore_location or None,
        password=security.ssl_keystore_password or None,
        key_password=security.ssl_key_password or None,
        certificates=security.ssl_keystore_certificate_chain or None,
        key=security.ssl_keystore_key or None,
        private_unless=None if security.allow_world_readable_secrets else ALLOWED_BY_CLIENT,
    )


def find_truststore(security: SecurityOptions) -> StoreSettings:
    """Return where the authorities of the options are."""
    from kafkalite.security.tls import StoreSettings

    return StoreSettings(
        location=security.ssl_truststore_location or None,
        password=security.ssl_truststore_password or None,
        certificates=security.ssl_truststore_certificates or None,
    )


def _items(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
