"""The table of the settings of TLS, SASL and delegation tokens, which each listener may have for itself, with Kafka's defaults.

`listener.name.<listener>.ssl.keystore.location` goes before `ssl.keystore.location`; what belongs to a mechanism of SASL has its name
before it, in lower case: `listener.name.<listener>.scram-sha-256.sasl.jaas.config`. `security_of` finds what counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from kafkalite.config.keys import ConfigType, Key, at_least, declare, keys_of, list_of, one_of, readable
from kafkalite.security.jaas import parse_jaas_line
from kafkalite.security.kerberos_names import KerberosShortNames
from kafkalite.security.principal_mapping import PrincipalMapping

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""Those that need no package besides."""
_SEEN: Final = "what kind a store is, is seen in its first bytes"


_text = partial(declare, ConfigType.STRING)
_password = partial(declare, ConfigType.PASSWORD, None)
_list = partial(declare, ConfigType.LIST)
_long = partial(declare, ConfigType.LONG)
_int = partial(declare, ConfigType.INT)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SecuritySettings:
    """Those of one listener, or of all that have none of their own. There is no `repr`: it would show secrets."""

    ssl_enabled_protocols: tuple[str, ...] = _list(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS that are spoken; older ones are not.", dynamic=True
    )
    ssl_cipher_suites: tuple[str, ...] = _list(
        (), "Ciphers of TLS 1.2 by their names in Java; those of OpenSSL if unset.", dynamic=True
    )
    ssl_keystore_type: str = _text("JKS", "PEM, PKCS12 or JKS.", dynamic=True, reason=_SEEN)
    ssl_keystore_location: str | None = _text(
        None, "File of the key store; when it is replaced, new connections get the new certificate.", dynamic=True
    )
    ssl_keystore_password: str | None = _password("Secret of the key store of TLS listeners.", dynamic=True)
    ssl_key_password: str | None = _password("Secret of the private key in the key store.", dynamic=True)
    ssl_keystore_key: str | None = _password("The private key itself, in PEM.", dynamic=True)
    ssl_keystore_certificate_chain: str | None = _password("The certificates themselves, in PEM.", dynamic=True)
    ssl_truststore_type: str = _text("JKS", "PEM, PKCS12 or JKS.", dynamic=True, reason=_SEEN)
    ssl_truststore_location: str | None = _text(None, "File of trusted certificates.", dynamic=True)
    ssl_truststore_password: str | None = _password("Secret of the store of trusted certificates.", dynamic=True)
    ssl_truststore_certificates: str | None = _password("The trusted certificates themselves, in PEM.", dynamic=True)
    ssl_client_auth: str = _text(
        "none",
        "Must clients show a certificate: required, requested or none.",
        one_of("required", "requested", "none"),
        dynamic=True,
    )
    ssl_principal_mapping_rules: str = _text(
        "DEFAULT",
        "From the name in a certificate to that of the principal: RULE:pattern/replacement/[LU],...,DEFAULT.",
        readable("Must be rules RULE:pattern/replacement/[LU], or DEFAULT", PrincipalMapping),
    )
    ssl_endpoint_identification_algorithm: str = _text(
        "https", "How brokers check the names of others; empty: not at all.", dynamic=True
    )
    sasl_enabled_mechanisms: tuple[str, ...] = _list(
        ("GSSAPI",), "Mechanisms of SASL for clients.", list_of("GSSAPI", *MECHANISMS), dynamic=True
    )
    sasl_mechanism_inter_broker_protocol: str = _text(
        "GSSAPI",
        "Mechanism by which brokers authenticate to each other.",
        one_of("GSSAPI", *MECHANISMS),
        dynamic=True,
    )
    sasl_jaas_config: str | None = _password(
        "A JAAS line: who the broker is, for PLAIN also who its clients are; it is parsed, and no class is loaded.",
        readable("Must be one login module with a flag and options, and end with ;", parse_jaas_line),
        dynamic=True,
    )
    sasl_kerberos_service_name: str | None = _text(
        None,
        "The service of brokers' principals: kafka of kafka/host@REALM; serviceName in the JAAS line says the same.",
        dynamic=True,
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = _list(
        ("DEFAULT",),
        "From a Kerberos principal to Kafka's: RULE:[n:text](pattern)s/pattern/replacement/g/[LU],...,DEFAULT.",
        readable("Must be rules RULE:[n:text](pattern)s/pattern/replacement/g/[LU], or DEFAULT", KerberosShortNames),
        dynamic=True,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = _text(
        None, "Where the keys are by which bearer tokens are signed: https:// or file:///."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _long(3_600_000, "Time after which these keys are read again.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = _list(
        None, "Audiences of which a bearer token must name one; unset: any."
    )
    sasl_oauthbearer_expected_issuer: str | None = _text(None, "The issuer that a bearer token must name; unset: any.")
    sasl_oauthbearer_sub_claim_name: str = _text("sub", "Which claim of a bearer token names the principal.")
    sasl_oauthbearer_clock_skew_seconds: int = _int(30, "By how much clocks may differ.", at_least(0))
    sasl_server_max_receive_size: int = _int(
        524_288, "Largest request before a connection is authenticated.", at_least(1)
    )
    connections_max_reauth_ms: int = _long(
        0, "Time after which clients have to authenticate again (KIP-368); 0: never."
    )


SECURITY_KEYS: Final[Mapping[str, Key]] = keys_of(SecuritySettings)
_OF_MECHANISMS: Final = ("sasl.jaas.config", "connections.max.reauth.ms")


def security_of(originals: Mapping[str, str], listener: str, mechanism: str | None = None) -> SecuritySettings:
    """Return the settings that count for one listener, and for one mechanism of it. InvalidValue names the key whose value is wrong."""
    values = {}
    for name, key in SECURITY_KEYS.items():
        for given in _names(name, listener, mechanism):
            if (text := originals.get(given)) is not None:
                values[key.attribute] = replace(key, name=given).parse(text)
                break
    return SecuritySettings(**values)


def _names(name: str, listener: str, mechanism: str | None) -> list[str]:
    prefix = f"listener.name.{listener.lower()}."
    names = [prefix + name, name]
    if name in _OF_MECHANISMS and mechanism is not None:
        of_mechanism = f"{mechanism.lower()}.{name}"
        names = [prefix + of_mechanism, of_mechanism, *names]
    return names


def is_of_listener(name: str) -> bool:
    """True if the name is one of these settings, for a listener or a mechanism."""
    if not name.startswith("listener.name."):
        name = "." + name
    return any(name.endswith("." + known) for known in SECURITY_KEYS)


def is_secret(name: str) -> bool:
    """True if the name is a password among these settings, for all listeners, for one or for a mechanism."""
    dotted = "." + name
    return any(dotted.endswith("." + known) for known, key in SECURITY_KEYS.items() if key.sensitive)
