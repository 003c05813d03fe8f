"""The modules that a wheel has compiled, made once for what is in them and kept beside the tests' environment."""

from __future__ import annotations

import fcntl
import importlib.machinery
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from kafkalite import build_backend
from kafkalite.compilation import MODULES
from tests.conftest import not_run

CACHE = Path(os.environ.get(build_backend.CACHE) or Path(sys.prefix) / "compiled")


@cache
def compiled_folder() -> Path:
    """Where they lie as a wheel has them; without a compiler the test is reported as not run."""
    if not build_backend.has_compiler():
        not_run("a C compiler and Python's headers are not installed (Debian packages gcc and python3-dev)")
    CACHE.mkdir(exist_ok=True)
    os.environ[build_backend.CACHE] = str(CACHE)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait for the first of them
        folder = build_backend.compiled()
    assert folder is not None, "the modules could not be compiled: see stderr"
    return folder


@cache
def compiled_module(name: str) -> ModuleType:
    """The compiled module of this name, beside the one in Python that everything imports."""
    for extension in build_backend.EXTENSIONS:
        if extension not in MODULES:
            sys.modules[extension] = _loaded(extension)
    return _loaded(name)


def _loaded(name: str) -> ModuleType:
    path = str(compiled_folder() / build_backend.place_of(name))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    assert isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
