"""Containers, networks and volumes end with the process that made them, whatever ended it.

Each carries its owner in a label. What an owner left behind that was killed is removed by the next process that starts
containers on the machine; so it works where testcontainers' own reaper, an image of its own, cannot be had.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Final

import docker
import docker.errors

OWNER_LABEL: Final = "kafkalite.owner"

_lock: Final = threading.Lock()
_removed = False


def owner_labels() -> dict[str, str]:
    """For what this process makes: host, process id, and the start of the process, because ids are used again."""
    pid = os.getpid()
    return {OWNER_LABEL: f"{socket.gethostname()}/{pid}/{_find_start_time(pid)}"}


def is_orphan(owner: str) -> bool:
    """Was it a process of this machine, and is it gone?"""
    host, _, process = owner.partition("/")
    pid, _, started = process.partition("/")
    return host == socket.gethostname() and pid.isdecimal() and _find_start_time(int(pid)) != started


def remove_orphans_once(client: docker.DockerClient) -> None:
    """Remove what processes left that are gone: once, before this process makes its first container."""
    global _removed
    with _lock:
        if not _removed:
            remove_orphans(client)
            _removed = True


def remove_orphans(client: docker.DockerClient) -> None:
    for container in client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True):
        if is_orphan(container.labels[OWNER_LABEL]):
            with contextlib.suppress(docker.errors.APIError):  # another process is at it as well
                container.remove(force=True, v=True)
    for network in client.networks.list(filters={"label": OWNER_LABEL}):
        if is_orphan(network.attrs["Labels"][OWNER_LABEL]):
            with contextlib.suppress(docker.errors.APIError):
                network.remove()
    for volume in client.volumes.list(filters={"label": OWNER_LABEL}):
        if is_orphan(volume.attrs["Labels"][OWNER_LABEL]):
            with contextlib.suppress(docker.errors.APIError):
                volume.remove()


def _find_start_time(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty when there is none, or no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
