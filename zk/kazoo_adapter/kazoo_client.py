"""kazoo's clients with our TLS and our identity, for stores also with patience without end; and ACLs in its form."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id

from zk.kazoo_adapter.kazoo_bridge import LoopHandler
from zk.kazoo_adapter.kazoo_sasl import DigestConnection
from zk.kazoo_adapter.kazoo_tls import TlsHandler
from zk.mailbox import Mailbox
from zk.security.store_security import StoreSecurity
from zk.security.znode_acls import ZnodeAcl

_RECONNECT_DELAY_S = 0.05
_MAX_RECONNECT_DELAY_S = 0.25


def make_client(
    servers: str,
    session_timeout_s: float,
    mailbox: Mailbox,
    security: StoreSecurity,
    authenticated: Callable[[], object],
) -> KazooClient:
    """Return a client, not started yet. `authenticated` is called in its thread, only where there are credentials."""
    handler = LoopHandler(
        mailbox,
        connect_timeout_s=max(1.0, session_timeout_s / (servers.count(",") + 1)),
        context=security.context,
    )
    quiet = logging.getLogger("zk.kazoo")
    quiet.setLevel(logging.ERROR)
    client = KazooClient(
        hosts=servers,
        timeout=session_timeout_s,
        handler=handler,
        connection_retry=KazooRetry(
            max_tries=-1,
            delay=_RECONNECT_DELAY_S,
            max_delay=_MAX_RECONNECT_DELAY_S,
            sleep_func=handler.sleep_func,
        ),
        logger=quiet,
    )
    _authenticate(client, quiet, security, authenticated)
    return client


def threaded_client(servers: str, session_timeout_s: float, security: StoreSecurity) -> KazooClient:
    """Return a client for programs without an event loop, not started yet; its calls block."""
    client = KazooClient(hosts=servers, timeout=session_timeout_s, handler=TlsHandler(security.context))
    _authenticate(client, client.logger, security, lambda: None)
    return client


def _authenticate(
    client: KazooClient, logger: logging.Logger, security: StoreSecurity, authenticated: Callable[[], object]
) -> None:
    if security.credentials is not None:
        sleeper = client._connection.retry_sleeper
        client._connection = DigestConnection(client, sleeper, logger, security.credentials, authenticated)


def kazoo_acl(acl: Sequence[ZnodeAcl]) -> list[ACL]:
    return [ACL(each.permissions, Id(each.scheme, each.id)) for each in acl]


def znode_acl(answer: tuple[list[ACL], ZnodeStat]) -> list[ZnodeAcl]:
    """Return the entries in kazoo's answer to a request for a znode's ACL."""
    return [ZnodeAcl(each.perms, each.id.scheme, each.id.id) for each in answer[0]]
