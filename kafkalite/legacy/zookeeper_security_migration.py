"""`zookeeper-security-migration`: give existing znodes the ACLs that brokers give to new ones, or remove them.

To protect a cluster: restart its brokers one by one with an identity for ZooKeeper, then with `zookeeper.set.acl=true`, then run this with
`--zookeeper.acl=secure` and the same identity. The way back: `zookeeper.set.acl=false`, `--zookeeper.acl=unsecure`, no identity.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.command_line.option_parser import Options, declared_options, flag, integer, text

if TYPE_CHECKING:
    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.security.store_security import StoreSecurity

TOOL: Final = "zookeeper-security-migration"
HEADLINE: Final = (
    "ZooKeeper Migration Tool Help. This tool updates the ACLs of znodes as part of the process of setting up ZooKeeper "
    "authentication."
)
ACL: Final = text("zookeeper.acl")
CONNECT: Final = text("zookeeper.connect", "localhost:2181")
SESSION_TIMEOUT: Final = integer("zookeeper.session.timeout", 30_000)
CONNECTION_TIMEOUT: Final = integer("zookeeper.connection.timeout", 30_000)
ENABLE_PATH_CHECK: Final = flag("enable.path.check")
TLS_CONFIG_FILE: Final = text("zk-tls-config-file")
OPTIONS: Final = declared_options(vars())

_NOBODY: Final = (
    "ERROR: No JAAS configuration file has been specified and no TLS client certificate has been specified. Please make sure that you set "
    "the system property java.security.auth.login.config or provide a ZooKeeper client TLS configuration via --zk-tls-config-file "
    "<filename> identifying at least zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, and zookeeper.ssl.keystore.location"
)
_WAYS: Final = {"secure": True, "unsecure": False}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    security = _security(options)
    way = _WAYS.get(options.value(ACL))
    if way is None:
        options.refuse(HEADLINE)
    from dataclasses import replace

    from kafkalite.legacy.cluster.zookeeper_store import with_store

    migration = _Migration(is_secure=bool(way), checks_paths=options.has(ENABLE_PATH_CHECK))
    return with_store(options.value(CONNECT), migration.run, replace(security, sets_acls=bool(way)))


def _security(options: Options) -> StoreSecurity:
    """Return the security of the session. Raises ToolError when it would be unauthenticated."""
    from kafkalite.legacy.cluster.zookeeper_store import tool_security
    from kafkalite.security.jaas import jaas_file

    security = tool_security(options.value(TLS_CONFIG_FILE))
    if not security.has_identity:
        jaas = jaas_file(os.environ.get("KAFKALITE_JAAS_FILE"), os.environ)
        if jaas is None:
            print(_NOBODY, file=sys.stderr)
        else:
            print(f"ERROR: Security isn't enabled, most likely the file isn't set properly: {jaas}")
        raise ToolError("Incorrect configuration")
    return security


class _Migration:
    def __init__(self, *, is_secure: bool, checks_paths: bool) -> None:
        self._is_secure, self._checks_paths = is_secure, checks_paths

    async def run(self, store: KazooStore) -> int:
        from zk import paths
        from zk.security.znode_acls import SECURE_ROOT_PATHS
        from zk.store import NodeExistsError

        await self._set(store, "/")
        absent = [path for path in SECURE_ROOT_PATHS if await store.exists(path) is None]
        if absent:
            print(f"Warning: The following secure root paths do not exist in ZooKeeper: {','.join(absent)}")
            print("That might be due to an incorrect chroot is specified when executing the command.")
            if self._checks_paths:
                print("Exit the command.")
                return 1
        for path in SECURE_ROOT_PATHS:
            if path in absent:
                if path == paths.CONTROLLER:
                    continue
                try:
                    await store.create(path, parents=True)
                except NodeExistsError:
                    pass
            await self._set_all(store, path)
        return 0

    async def _set_all(self, store: KazooStore, path: str) -> None:
        """Set the ACLs of the tree level by level, because ZooKeeper answers many requests as fast as one."""
        import asyncio

        from zk import paths

        level = [path]
        while level:
            await asyncio.gather(*(self._set(store, each) for each in level))
            names = await asyncio.gather(*(_children(store, each) for each in level))
            level = [paths.child(each, name) for each, found in zip(level, names, strict=True) for name in found]

    async def _set(self, store: KazooStore, path: str) -> None:
        from zk.security.znode_acls import default_acl
        from zk.store import NoNodeError

        try:
            await store.write_acl(path, default_acl(path, is_secure=self._is_secure))
        except NoNodeError:
            pass  # deleted meanwhile


async def _children(store: KazooStore, path: str) -> list[str]:
    from zk.store import NoNodeError

    try:
        return await store.children(path)
    except NoNodeError:
        return []
