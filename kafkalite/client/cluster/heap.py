"""What the C library does with memory that was freed: a client whose records come and go in megabytes wants it kept."""

from __future__ import annotations

from functools import cache

_LARGEST_KEPT_BYTES = 8 * 1024 * 1024


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next records instead of giving it back to the system at once.

    glibc trims its heap when more than 128 KiB at the end of it are free, so the records of each poll would come from fresh pages, and
    the system maps and clears them again: measured, a third of the time of reading records of 1 kB. Its thresholds follow the
    largest block that was mapped and freed (mallopt(3), M_MMAP_THRESHOLD: up to twice that is kept); so one such block is asked
    for and freed, which touches none of it. Other C libraries are not changed by this.
    """
    bytes(_LARGEST_KEPT_BYTES)
