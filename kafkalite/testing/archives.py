"""Archives of files that come from elsewhere: out of containers and out of source distributions."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract_all(archive: tarfile.TarFile, destination: Path) -> None:
    """Extract all members below `destination`, by the rules for data of PEP 706.

    A Python without them (before 3.11.4, as that of Debian 12) trusts the archive.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(destination)
