"""Reproducible archives: the same source gives the same bytes, wherever and whenever it is built.

setuptools writes the time of the build, the owner's name and the umask into a source archive, and modes into a wheel. Here an archive
that it has made is rewritten: entries sorted, all of one time, without owners, with one of two modes.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EPOCH: Final = "SOURCE_DATE_EPOCH"
"""Variable with the time of all entries, in seconds (https://reproducible-builds.org/specs/source-date-epoch/)."""
EARLIEST_S: Final = 315_532_800
"""1980, the earliest time of a zip file's entry; the default where the variable is not set."""

_FILE_MODE: Final = 0o644
_PROGRAM_MODE: Final = 0o755


def moment_s(environment: Mapping[str, str] = os.environ) -> int:
    """Return the time of all entries, in seconds since 1970."""
    return max(int(environment.get(EPOCH) or EARLIEST_S), EARLIEST_S)


def settle_source_archive(path: Path, at_s: int) -> None:
    """Write a `.tar.gz` again, in its place."""
    content = io.BytesIO()
    with tarfile.open(path) as found, tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as settled:
        for entry in sorted(found.getmembers(), key=lambda entry: entry.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = at_s, 0, 0, "", ""
            entry.mode = _PROGRAM_MODE if entry.isdir() else _mode(entry.mode)
            entry.pax_headers = {}
            settled.addfile(entry, found.extractfile(entry) if entry.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=at_s) as packed:
        packed.write(content.getvalue())


def settle_wheel(path: Path, at_s: int) -> None:
    """Write a wheel again, in its place; its RECORD stays last, as the format recommends."""
    date = time.gmtime(at_s)[:6]
    content = io.BytesIO()
    with zipfile.ZipFile(path) as found, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as settled:
        for entry in sorted(found.infolist(), key=lambda entry: (entry.filename.endswith("/RECORD"), entry.filename)):
            written = zipfile.ZipInfo(entry.filename, date)
            written.compress_type = zipfile.ZIP_DEFLATED
            written.external_attr = (0o100000 | _mode(entry.external_attr >> 16)) << 16
            settled.writestr(written, found.read(entry))
    path.write_bytes(content.getvalue())


def _mode(found: int) -> int:
    return _PROGRAM_MODE if found & 0o100 else _FILE_MODE
