"""The programs of deploy/examples as modules, for their tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "examples"


def example(name: str) -> Any:
    """Loaded from its file, without being run."""
    spec = importlib.util.spec_from_file_location(f"deploy_examples_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
