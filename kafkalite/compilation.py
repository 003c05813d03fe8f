"""Which modules are compiled by mypyc where the package was built with a compiler, and whether they are here.

A compiled module is an extension beside its Python file, and found first. The list is short on purpose: what is in it was measured.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

MODULES: Final = ("kafkalite.protocol.record_batches.record_rewriting",)


def is_compiled(name: str) -> bool:
    """Is the imported module of this name an extension?"""
    return not (sys.modules[name].__file__ or "").endswith(".py")


def description() -> str:
    """What `kafkalite --version` says of it."""
    for name in MODULES:
        import_module(name)
    return "compiled" if all(map(is_compiled, MODULES)) else "pure Python"
