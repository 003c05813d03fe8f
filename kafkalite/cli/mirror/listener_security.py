"""What secures the mirror's listener, and the connections by which it passes on what came there.

With SASL the mirror knows no user: authentication is passed on to a broker of the target like any request, and by asking that broker on
the same connection the mirror learns whether who has authenticated may follow (`listener`). TLS ends at the mirror, and begins again
towards the broker without the mirror's own certificate, so that nobody gets its rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

    from kafkalite.client import AdminOptions

PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""With their numbers in a broker's registration. A principal that is a certificate's cannot be passed on, hence no SSL."""


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security protocol of the listener, and its contexts of TLS: as a server, and as a client of brokers."""

    protocol: str = "PLAINTEXT"
    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None
    refusal: str = ""
    """Why nobody is passed on."""

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")


def load_security(
    protocol: str, listen_options: Mapping[str, Any], target_options: Mapping[str, Any]
) -> ListenerSecurity:
    """Return the security of a listener that is one with that of the target's brokers. ValueError, ConnectionError say what is wrong."""
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
    anonymous = replace(target, ssl_keystore_location="", ssl_keystore_certificate_chain="", ssl_keystore_key="")
    return ListenerSecurity(protocol, _make_server_context(own), tls_context_of(anonymous))


def _make_server_context(own: AdminOptions) -> ssl.SSLContext:
    from kafkalite.client.security import find_keystore
    from kafkalite.security.tls import TlsError, TlsSettings, server_context

    try:
        return server_context(TlsSettings(keystore=find_keystore(own)))
    except TlsError as problem:
        raise ValueError(f"--listen-config: {problem}") from None
