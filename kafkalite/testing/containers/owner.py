"""Containers, networks and volumes end with the process that made them, whatever ended it.

Each carries its owner in a label. What an owner left behind that was killed is removed by the next process that starts
containers on the machine; so it works where testcontainers' own reaper, an image of its own, cannot be had.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import docker
import docker.errors

OWNER_LABEL: Final = "kafkalite.owner"

_lock: Final = threading.Lock()
_removed = False


def owner_labels() -> dict[str, str]:
    """Return the labels of what this process makes: host, process id, and its start, because process ids are used again."""
    pid = os.getpid()
    return {OWNER_LABEL: f"{socket.gethostname()}/{pid}/{_find_start_time(pid)}"}


def is_orphan(owner: str) -> bool:
    """True if the owner was a process of this machine, and is gone."""
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
    label = {"label": OWNER_LABEL}
    for container in client.containers.list(all=True, filters=label, ignore_removed=True):
        _remove_orphan(container.labels, partial(container.remove, force=True, v=True))
    for network in client.networks.list(filters=label):
        _remove_orphan(network.attrs["Labels"], network.remove)
    for volume in client.volumes.list(filters=label):
        _remove_orphan(volume.attrs["Labels"], volume.remove)


def _remove_orphan(labels: Mapping[str, str], remove: Callable[[], object]) -> None:
    if is_orphan(labels[OWNER_LABEL]):
        with contextlib.suppress(docker.errors.APIError):  # another process is at it as well
            remove()


def _find_start_time(pid: int) -> str:
    """Return the start of a process in the kernel's ticks; empty when there is none, or no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
