"""The `zoo.cfg` of a server that we start, and the settings that secure it. Pure.

Whatever of ZooKeeper's is open by default and not needed is off: the admin server, four-letter words that name sessions or paths,
addresses beyond this machine. With TLS nobody connects without a certificate of the ensemble's authority, the servers among each
other neither, and a client's certificate is who it is in znodes' ACLs.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zk.servers.java_properties import properties_text

_NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_AUTHENTICATION: Final = "org.apache.zookeeper.server.auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleTls:
    """Files in PEM; `client` makes the context with which this program itself asks the servers how they are."""

    identity: Path
    """Private key and certificate of the servers, for the address that they listen on."""
    authorities: Path
    client: Callable[[], ssl.SSLContext]
    keeps_plaintext: bool = False
    """Is there a port without TLS too, as there is while a cluster moves to TLS?"""


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """Ports of one server; 0 for one that it has not."""

    client: int
    quorum: int
    election: int
    secure: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings common to all servers of an ensemble. `users` may authenticate by SASL DIGEST-MD5, each with a password."""

    host: str
    tick_time_ms: int
    min_session_timeout_ms: int
    tls: EnsembleTls | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, data_path: Path, own: ServerPorts, ensemble: Mapping[int, ServerPorts]) -> str:
        """Return the `zoo.cfg` of the server with the ports `own`; `ensemble` has those of all by number.

        Raises ValueError for a `data_path` that is not UTF-8.
        """
        settings = {
            "tickTime": str(self.tick_time_ms),
            "initLimit": "20",
            "syncLimit": "10",
            "minSessionTimeout": str(self.min_session_timeout_ms),
            "maxSessionTimeout": "120000",
            "dataDir": str(data_path),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "conf,mntr,ruok,srvr",  # none that names sessions or paths
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
        }
        if own.client:
            settings |= {"clientPort": str(own.client), "clientPortAddress": self.host}
        if self.tls is not None:
            settings |= self._tls_settings(self.tls, own, is_alone=len(ensemble) == 1)
        if self.users:
            settings["authProvider.sasl"] = f"{_AUTHENTICATION}.SASLAuthenticationProvider"
        if len(ensemble) > 1:
            settings |= {f"server.{n}": f"{self.host}:{each.quorum}:{each.election}" for n, each in ensemble.items()}
        return properties_text(settings)

    def _tls_settings(self, tls: EnsembleTls, own: ServerPorts, *, is_alone: bool) -> dict[str, str]:
        settings = {
            "secureClientPort": str(own.secure),
            "secureClientPortAddress": self.host,
            "serverCnxnFactory": _NETTY,
            "authProvider.x509": f"{_AUTHENTICATION}.X509AuthenticationProvider",
            "ssl.clientAuth": "need",
        }
        if not is_alone:
            settings["sslQuorum"] = "true"
        for use in ("ssl",) if is_alone else ("ssl", "ssl.quorum"):
            for store, path in (("keyStore", tls.identity), ("trustStore", tls.authorities)):
                settings |= {f"{use}.{store}.location": str(path), f"{use}.{store}.type": "PEM"}
        return settings

    @property
    def jaas(self) -> str | None:
        """The JAAS file of a server with users, in UTF-8; None without. Raises ValueError for what such a file cannot hold."""
        if not self.users:
            return None
        named = " ".join(f'user_{_word(name)}="{_escape(password)}"' for name, password in self.users.items())
        return f"Server {{ {_AUTHENTICATION}.DigestLoginModule required {named}; }};\n"


def _word(name: str) -> str:
    if not re.fullmatch(r"[\w.@-]+", name):
        raise ValueError(f"a JAAS file cannot name the user {name!r}: use letters, digits and . _ - @")
    return name


def _escape(text: str) -> str:
    """Return text as it stands between quotes in a JAAS file."""
    if "${" in text:
        raise ValueError(
            "a JAAS file cannot hold a password with ${, where Java puts in a system property; choose another"
        )
    return "".join(_ESCAPES.get(character, character) for character in text)
