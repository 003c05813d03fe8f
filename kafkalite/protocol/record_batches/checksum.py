"""CRC-32C by hardware: the function of the package crc32c.

When that package is imported it looks up its own version, for which Python loads its parsers of mail and archives: 14 of its 19 ms. The
function lies in an extension module, so that one alone is loaded, under its own name. Where the package is laid out in another way, it is
imported whole.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

_PACKAGE = "crc32c"
_EXTENSION = f"{_PACKAGE}._crc32c"


def load_function(extension: str = _EXTENSION) -> Any:
    """Return `crc32c.crc32c`. Raises ImportError where the package is not installed."""
    if _PACKAGE not in sys.modules:
        try:
            return _load_extension(extension).crc32c
        except (ImportError, AttributeError):
            pass
    from crc32c import crc32c

    return crc32c


def _load_extension(name: str) -> Any:
    """Return the extension module, which the package finds loaded when it is imported later."""
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec(_PACKAGE)
    spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:
    crc32c = load_function()
