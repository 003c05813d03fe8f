"""Figures about the process, under the names that every Prometheus client gives them; read from /proc."""

from __future__ import annotations

import gc
import os
import platform
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkalite.broker.observation.exposition import Family, Sample, counter, counters, gauge, label_text

_PROC: Final = Path("/proc/self")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_START_TIME, _VIRTUAL_BYTES, _RESIDENT_PAGES = 19, 20, 21
"""Places in /proc/self/stat behind the program's name, which may hold spaces."""


def families() -> Iterator[Family]:
    """Return memory, processor time, open files and garbage collection. Without /proc only some of them are known."""
    times = os.times()
    yield counter("process_cpu_seconds_total", "Processor time, user and system.", times.user + times.system)
    try:
        yield from _proc_families()
    except OSError:  # not a Linux
        pass
    yield gauge("process_max_fds", "Files that may be open at once.", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    collections = [(number, each["collections"]) for number, each in enumerate(gc.get_stats())]
    yield counters("python_gc_collections_total", "Rounds of the garbage collector.", "generation", collections)
    version = label_text(implementation=platform.python_implementation(), version=platform.python_version())
    yield Family("python_info", "gauge", "The interpreter.", (Sample(version, 1),))


def _proc_families() -> Iterator[Family]:
    stat = (_PROC / "stat").read_text().rpartition(")")[2].split()
    booted_s = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
    )
    yield gauge("process_virtual_memory_bytes", "Address space in use.", int(stat[_VIRTUAL_BYTES]))
    yield gauge("process_resident_memory_bytes", "Memory in RAM.", int(stat[_RESIDENT_PAGES]) * _PAGE_BYTES)
    started_s = booted_s + int(stat[_START_TIME]) / _TICKS
    yield gauge("process_start_time_seconds", "When the process began, in seconds since 1970.", started_s)
    yield gauge("process_open_fds", "Open files and sockets.", len(os.listdir(_PROC / "fd")))
