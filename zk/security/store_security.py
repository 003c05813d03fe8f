"""Encryption and authentication of a store's connection, and the protection of its znodes."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zk.security.digest_md5 import DigestCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSecurity:
    """`context` makes the TLS context of each connection, so renewed certificates are used from the next one on; it may raise OSError.

    A client certificate in it is an identity by itself (ZooKeeper's X509AuthenticationProvider).
    """

    context: Callable[[], ssl.SSLContext] | None = None
    shows_certificate: bool = False
    credentials: DigestCredentials | None = None
    sets_acls: bool = False
    """Kafka's `zookeeper.set.acl`; `znode_acls` has the ACLs."""

    @property
    def has_identity(self) -> bool:
        """True if ZooKeeper knows an identity of this client, which can own znodes."""
        return self.shows_certificate or self.credentials is not None


PLAINTEXT: Final = StoreSecurity()
"""Neither encrypted nor authenticated, and znodes that are open to all."""
