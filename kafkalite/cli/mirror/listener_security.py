"""What secures the mirror's listener, and the connections by which it passes on what came there.

With SASL the mirror knows no user: authentication is passed on to a broker of the target like any request, and by asking that broker on
the same connection the mirror learns whether who has authenticated may follow (`listener`). TLS ends at the mirror, and begins again
towards the broker without the mirror's own certificate, so that nobody gets its rights.

With SSL alone the mirror knows by the certificate who follows, and decides by the target's own rules (`follower_rights`). A certificate
cannot be passed on, and by another one clients would get rights that are not theirs: they are told nothing, and turn to another broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror.follower_rights import FollowerRights

if TYPE_CHECKING:
    import ssl

    from kafkalite.client import AdminOptions

PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""With their numbers in a broker's registration."""
BROKER_SETTINGS: Final = ("ssl.principal.mapping.rules", "super.users", "allow.everyone.if.no.acl.found")
"""Settings of the target's brokers by which they know each other by certificates; DescribeConfigs does not give them all out."""
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_SSL_REFUSAL: Final = "clients of the target that ask the mirror are refused, and turn to another broker: certificates cannot be passed on"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security protocol of the listener, and its contexts of TLS: as a server, and as a client of brokers."""

    protocol: str = "PLAINTEXT"
    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None
    refusal: str = ""
    """Why nobody is passed on."""
    rights: FollowerRights | None = None
    """With SSL alone."""

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def knows_followers(self) -> bool:
        """True if only brokers of the target are given records."""
        return self.has_sasl or self.rights is not None


def load_security(
    protocol: str,
    listen_options: Mapping[str, Any],
    target_options: Mapping[str, Any],
    broker_settings: Mapping[str, str] = NO_SETTINGS,
) -> ListenerSecurity:
    """Return the security of a listener that is one with that of the target's brokers, of which SSL alone needs `BROKER_SETTINGS`.

    ValueError, ConnectionError say what is wrong.
    """
    from kafkalite.client import AdminOptions
    from kafkalite.client.security import tls_context_of

    target = AdminOptions(**target_options)
    if protocol == "PLAINTEXT":
        refused = target.security_protocol.endswith("SSL")
        why = f"clients of the target that ask the mirror are refused: it does not pass them on by {target.security_protocol}"
        return ListenerSecurity(refusal=why if refused else "")
    if target.security_protocol != protocol:
        raise ValueError(f"--to and --to-config have to be of the {protocol} listener between the target's brokers")
    if not protocol.endswith("SSL"):
        return ListenerSecurity(protocol)
    own = AdminOptions(**{**listen_options, "bootstrap_servers": target.bootstrap_servers})
    if protocol == "SSL":
        rights = FollowerRights(*(broker_settings.get(each, "") for each in BROKER_SETTINGS))
        return ListenerSecurity(protocol, _make_server_context(own, "requested"), None, _SSL_REFUSAL, rights)
    anonymous = replace(target, ssl_keystore_location="", ssl_keystore_certificate_chain="", ssl_keystore_key="")
    return ListenerSecurity(protocol, _make_server_context(own), tls_context_of(anonymous))


def _make_server_context(own: AdminOptions, client_auth: str = "none") -> ssl.SSLContext:
    """Return the context of the listener; it verifies what certificates clients show, and lets in those who show none."""
    from kafkalite.client.security import find_keystore, find_truststore
    from kafkalite.security.tls import TlsError, TlsSettings, server_context

    trusted = find_truststore(own)
    try:
        return server_context(TlsSettings(keystore=find_keystore(own), truststore=trusted, client_auth=client_auth))
    except TlsError as problem:
        raise ValueError(f"--listen-config: {problem}") from None
