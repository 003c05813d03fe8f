"""The build backend of the package (PEP 517, PEP 660): setuptools', whose archives are then made reproducible by `build_archives`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from kafkalite.build_archives import moment_s, settle_source_archive, settle_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    name = str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
    settle_wheel(Path(wheel_directory, name), moment_s())
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    name = str(build_meta.build_sdist(sdist_directory, config_settings))
    settle_source_archive(Path(sdist_directory, name), moment_s())
    return name
