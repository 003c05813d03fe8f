"""What is in the `zoo.cfg` of a server that we start, and what secures it. Pure.

Whatever of ZooKeeper's is open by default and not needed is off: the admin server, four-letter words that name sessions or paths,
addresses beyond this machine. With TLS nobody connects without a certificate of the ensemble's authority, the servers among each
other neither, and a client's certificate is who it is in znodes' ACLs.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"
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
    """What all servers of an ensemble have in common. `users` may authenticate by SASL DIGEST-MD5, each with a password."""

    host: str
    tick_time_ms: int
    min_session_timeout_ms: int
    tls: EnsembleTls | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, data_path: Path, own: ServerPorts, ensemble: Mapping[int, ServerPorts]) -> str:
        """The `zoo.cfg` of the server with the ports `own`; `ensemble` has those of all by number."""
        lines = [
            f"tickTime={self.tick_time_ms}",
            "initLimit=20",
            "syncLimit=10",
            f"minSessionTimeout={self.min_session_timeout_ms}",
            "maxSessionTimeout=120000",
            f"dataDir={data_path}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=conf,mntr,ruok,srvr",  # none that names sessions or paths
            "autopurge.snapRetainCount=3",
            "autopurge.purgeInterval=1",
        ]
        if own.client:
            lines += [f"clientPort={own.client}", f"clientPortAddress={self.host}"]
        if self.tls is not None:
            lines += self._tls_lines(self.tls, own, is_alone=len(ensemble) == 1)
        if self.users:
            lines.append(f"authProvider.sasl={_AUTHENTICATION}.SASLAuthenticationProvider")
        if len(ensemble) > 1:
            lines += [f"server.{n}={self.host}:{each.quorum}:{each.election}" for n, each in ensemble.items()]
        return "\n".join(lines) + "\n"

    def _tls_lines(self, tls: EnsembleTls, own: ServerPorts, *, is_alone: bool) -> list[str]:
        uses = ("ssl",) if is_alone else ("ssl", "ssl.quorum")
        return [
            f"secureClientPort={own.secure}",
            f"secureClientPortAddress={self.host}",
            f"serverCnxnFactory={_NETTY}",
            f"authProvider.x509={_AUTHENTICATION}.X509AuthenticationProvider",
            "ssl.clientAuth=need",
            *([] if is_alone else ["sslQuorum=true"]),
            *(
                f"{use}.{store}.{key}"
                for use in uses
                for store, path in (("keyStore", tls.identity), ("trustStore", tls.authorities))
                for key in (f"location={path}", "type=PEM")
            ),
        ]

    @property
    def jaas(self) -> str | None:
        """The JAAS file of a server with users; None without."""
        if not self.users:
            return None
        named = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in self.users.items())
        return f"Server {{ {_AUTHENTICATION}.DigestLoginModule required {named}; }};\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
