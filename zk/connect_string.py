"""The parts of a `zookeeper.connect`. Pure."""

from __future__ import annotations

from zk import paths


def split_connect(connect: str) -> tuple[str, str]:
    """Split `h1:2181,h2:2181/kafka` into servers and chroot, which is empty or starts with a slash.

    Raises ValueError without a server or for an invalid chroot.
    """
    servers, slash, chroot = connect.strip().partition("/")
    hosts = [server.strip() for server in servers.split(",")]
    if not all(hosts):
        raise ValueError(f"zookeeper.connect {connect!r} does not name a server")
    chroot = slash + chroot.strip("/") if chroot.strip("/") else ""
    if chroot:
        paths.check(chroot)
    return ",".join(hosts), chroot
