"""The ACLs of a cluster's znodes: Kafka's `ZkData.defaultAcls`, its `SecureRootPaths` and `SensitiveRootPaths`.

With `zookeeper.set.acl` a znode belongs to its creator and is readable by everybody, except znodes with secrets: the configuration of
users (SCRAM credentials) and brokers, and delegation tokens. /consumers itself stays open, because old consumers write there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zk import paths

READ, WRITE, CREATE, DELETE, ADMIN = (1 << place for place in range(5))
ALL: Final = READ | WRITE | CREATE | DELETE | ADMIN


class ZnodeAcl(NamedTuple):
    """An entry of a znode's ACL: permissions of the identity `scheme` and `id`. The scheme `auth` means all those of its creator."""

    permissions: int
    scheme: str
    id: str


OPEN: Final = (ZnodeAcl(ALL, "world", "anyone"),)
"""The ACL of a znode without protection."""
PRIVATE: Final = (ZnodeAcl(ALL, "auth", ""),)
READABLE: Final = (*PRIVATE, ZnodeAcl(READ, "world", "anyone"))

SECURE_ROOT_PATHS: Final = (
    paths.ADMIN,
    paths.BROKERS,
    paths.CLUSTER,
    paths.CONFIG,
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.ISR_CHANGES,
    paths.PRODUCER_ID_BLOCK,
    paths.LOG_DIR_EVENTS,
    paths.DELEGATION_TOKEN_ROOT,
    paths.ACL_EXTENDED,
    paths.MIGRATION,
    paths.FEATURE,
    paths.ACL,
    paths.ACL_CHANGES,
    paths.ACL_PREFIXED,
    paths.ACL_EXTENDED_CHANGES,
)
"""The subtrees that `zookeeper-security-migration` changes, in Kafka's order."""

SENSITIVE_ROOT_PATHS: Final = (paths.CONFIG_USERS, paths.CONFIG_BROKERS, paths.DELEGATION_TOKENS)


def default_acl(path: str, *, is_secure: bool) -> tuple[ZnodeAcl, ...]:
    """Return the ACL of a path, below the chroot, that is created or migrated."""
    if not is_secure or path == paths.CONSUMERS:
        return OPEN
    return PRIVATE if path.startswith(SENSITIVE_ROOT_PATHS) else READABLE
