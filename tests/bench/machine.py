"""Where figures were measured, and of what: beside each of them on a page."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kafkalite import __version__


def machine() -> dict[str, Any]:
    """What figures of two runs must have in common to be compared."""
    about = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip() for line in about.read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "processors": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "memory, GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def ours() -> str:
    """Return the version of this source and its event loop."""
    return f"{__version__}, uvloop"


def file_system() -> str:
    """Return the kind of file system that temporary folders are on, such as tmpfs: there are the brokers' logs."""
    command = ["df", "--output=fstype", tempfile.gettempdir()]  # `stat` has one name for ext2, ext3 and ext4
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
