"""The build backend of the package (PEP 517, PEP 660): setuptools', with the one module that is compiled, and with archives that
`build_archives` makes reproducible.

`_EXTENSION` is written in Cython and uses the stable ABI only, so that a wheel serves Python 3.11 and all later ones. Where it cannot be
compiled it is left out, with a warning, and `KAFKALITE_PURE_PYTHON=1` leaves it out: then Python's code does the same (`record_code`).
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import setuptools
from setuptools import Extension, build_meta

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
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PURE_VARIABLE: Final = "KAFKALITE_PURE_PYTHON"
_EXTENSION: Final = "kafkalite.protocol.record_batches._records"
_SOURCE: Final = f"{_EXTENSION.replace('.', '/')}.pyx"
_STABLE_ABI: Final = (("CYTHON_LIMITED_API", "1"), ("Py_LIMITED_API", "0x030B0000"))
_COMPILER_ARGUMENTS: Final = ("-O3", "-g0")
_LINKER_ARGUMENTS: Final = ("-Wl,--strip-all", "-Wl,--build-id=none")
"""Without symbols and without an id, which would tell one place of building from another."""


def describe_extension(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what `setuptools.setup` is told of the compiled module; nothing where there shall be none."""
    if environment.get(PURE_VARIABLE) or sysconfig.get_config_var("Py_GIL_DISABLED"):  # which has no stable ABI
        return {}
    extension = Extension(
        _EXTENSION,
        [_SOURCE],
        define_macros=list(_STABLE_ABI),
        extra_compile_args=list(_COMPILER_ARGUMENTS),
        extra_link_args=list(_LINKER_ARGUMENTS),
        py_limited_api=True,
        optional=True,
    )
    options = {"bdist_wheel": {"py_limited_api": "cp311"}}
    if find_spec("Cython") is not None:
        options["build_ext"] = {"cython_c_in_temp": "1"}
    return {"ext_modules": [extension], "options": options}


@contextmanager
def _extension_declared() -> Iterator[None]:
    """Have `setup` know the extension, which setup.cfg has no words for; a setup.py would only say this."""
    plain = setuptools.setup
    setuptools.setup = partial(plain, **describe_extension())
    try:
        yield
    finally:
        setuptools.setup = plain


def _with_extension(hook: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with _extension_declared():
            return hook(*arguments, **named)

    return run


build_editable = _with_extension(build_meta.build_editable)
get_requires_for_build_editable = _with_extension(build_meta.get_requires_for_build_editable)
get_requires_for_build_sdist = _with_extension(build_meta.get_requires_for_build_sdist)
get_requires_for_build_wheel = _with_extension(build_meta.get_requires_for_build_wheel)
prepare_metadata_for_build_editable = _with_extension(build_meta.prepare_metadata_for_build_editable)
prepare_metadata_for_build_wheel = _with_extension(build_meta.prepare_metadata_for_build_wheel)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    with _extension_declared():
        name = str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
    settle_wheel(Path(wheel_directory, name), moment_s())
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    with _extension_declared():
        name = str(build_meta.build_sdist(sdist_directory, config_settings))
    settle_source_archive(Path(sdist_directory, name), moment_s())
    return name
