"""Builds the package: setuptools' backend, and where there is a compiler the modules of `compilation.MODULES` as extensions (PEP 517).

- A wheel has them; without a C compiler, Python's headers or with KAFKALITE_PURE=1 it has the same Python files alone.
- An editable installation is pure, so that what is edited is what runs, unless KAFKALITE_COMPILE=1 asks for more.
- KAFKALITE_COMPILED_CACHE names a folder that keeps extensions by what they were made of; who finds them there needs no compiler.
- The same source gives the same archives, byte for byte (`build_archives`).

`python -m kafkalite.build_backend` brings them into that folder, and prints it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

from kafkalite.build_archives import moment_s, settle_source_archive, settle_wheel
from kafkalite.compilation import MODULES

PURE: Final = "KAFKALITE_PURE"
EDITABLE: Final = "KAFKALITE_COMPILE"
CACHE: Final = "KAFKALITE_COMPILED_CACHE"
MYPYC: Final = "mypy>=2.4"
"""The first whose runtime library writes bytes (librt.strings.BytesWriter)."""

ROOT: Final = Path(__file__).parents[1]
_GROUP: Final = "kafkalite.compiled"
EXTENSIONS: Final = (*MODULES, f"{_GROUP}__mypyc")
"""The compiled modules share what the last one holds."""
_SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))

Settings = Mapping[str, Any] | None


def source_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def place_of(extension: str) -> str:
    """Where it lies below the folder of packages."""
    return extension.replace(".", "/") + _SUFFIX


def cache() -> Path | None:
    """The folder of extensions that were made of these files for this Python, if there is a cache."""
    named = os.environ.get(CACHE)
    if not named:
        return None
    made_of = hashlib.sha256(f"{MYPYC} {_SUFFIX}".encode())
    for module in (*MODULES, __name__ if __name__ != "__main__" else "kafkalite.build_backend"):
        made_of.update(source_of(module).read_bytes())
    return Path(named) / made_of.hexdigest()[:16]


def has_compiler() -> bool:
    """Are there a C compiler and Python's headers?"""
    command = str(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(command) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def compile_into(folder: Path) -> None:
    """Make the extensions there. Raises whatever stops it; SystemExit for an error that mypyc finds."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    with tempfile.TemporaryDirectory() as temporary:
        # What is installed here must not change what is made, so types of other packages are not looked at.
        options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={temporary}/types"]
        # Their names stand in what is made, so they are the same wherever the source lies.
        sources = [str(source_of(module).relative_to(ROOT)) for module in MODULES]
        with chdir(ROOT):
            extensions = mypycify(
                [*options, *sources], opt_level="3", debug_level="0", target_dir=temporary, group_name=_GROUP
            )
        distribution = Distribution({"name": "kafkalite", "packages": [], "ext_modules": extensions})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp, command.inplace = temporary, temporary, False
        command.ensure_finalized()
        command.run()
        for module in EXTENSIONS:
            target = folder / place_of(module)
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = target.with_suffix(f".{os.getpid()}")
            shutil.copyfile(Path(temporary, place_of(module)), unfinished)
            unfinished.replace(target)


def compiled() -> Path | None:
    """A folder with the extensions, made now or before; None where there are none, and why on stderr."""
    if os.environ.get(PURE) == "1":
        return None
    folder = cache()
    if folder is not None and all((folder / place_of(name)).exists() for name in EXTENSIONS):
        return folder
    if not has_compiler():
        print("kafkalite is built in pure Python: there is no C compiler, or no Python.h", file=sys.stderr)
        return None
    folder = folder or ROOT / "build" / "compiled"
    try:
        compile_into(folder)
    except (Exception, SystemExit) as problem:
        print(f"kafkalite is built in pure Python: {type(problem).__name__}: {problem}", file=sys.stderr)
        return None
    return folder


def _backend(folder: Path | None) -> Any:
    """setuptools' backend for a package with the extensions in `folder`."""
    from setuptools import Extension, build_meta, setup
    from setuptools.command.build_ext import build_ext

    class Ready(build_ext):  # type: ignore[misc]
        """Takes extensions as they are."""

        def build_extension(self, ext: Any) -> None:
            assert folder is not None
            target = Path(self.get_ext_fullpath(ext.name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / place_of(ext.name), target)

    class Backend(build_meta._BuildMetaBackend):  # type: ignore[misc]
        """setuptools' own, with what a setup.py would say."""

        def run_setup(self, setup_script: str = "setup.py") -> None:
            extensions = [] if folder is None else [Extension(name, []) for name in EXTENSIONS]
            setup(ext_modules=extensions, cmdclass={"build_ext": Ready})

    return Backend()


def _wanted_in_editable() -> bool:
    return os.environ.get(EDITABLE) == "1"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """mypyc, if it is to run."""
    found: list[str] = _backend(None).get_requires_for_build_wheel(config_settings)
    folder = cache()
    is_made = folder is not None and folder.exists()
    needs_compiler = os.environ.get(PURE) != "1" and not is_made and has_compiler()
    return [*found, MYPYC] if needs_compiler else found


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    if _wanted_in_editable():
        return get_requires_for_build_wheel(config_settings)
    found: list[str] = _backend(None).get_requires_for_build_editable(config_settings)
    return found


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    found: list[str] = _backend(None).get_requires_for_build_sdist(config_settings)
    return found


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    return str(_backend(None).prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    return str(_backend(None).prepare_metadata_for_build_editable(metadata_directory, config_settings))


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    built = str(_backend(compiled()).build_wheel(wheel_directory, config_settings, metadata_directory))
    settle_wheel(Path(wheel_directory, built), moment_s())
    return built


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    folder = compiled() if _wanted_in_editable() else None
    return str(_backend(folder).build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    built = str(_backend(None).build_sdist(sdist_directory, config_settings))
    settle_source_archive(Path(sdist_directory, built), moment_s())
    return built


if __name__ == "__main__":
    made = compiled()
    print(made or "")
    sys.exit(made is None)
