"""The programs of deploy/examples as modules, for their tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "examples"


def example(name: str) -> Any:
    """Loaded from its file, without being run."""
    spec = importlib.util.spec_from_file_location(f"deploy_examples_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))  # as for a program that is run: they import what is beside them
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
