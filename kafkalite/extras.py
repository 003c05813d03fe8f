"""Packages that only some installations have: each belongs to an extra of this distribution, which the message names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

Extra = Literal["server", "console"]

_MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "server": ("uvloop", "h11", "jwt"),
    "console": ("starlette", "uvicorn"),
}
"""What the packages of an extra are imported as."""


class MissingExtraError(ImportError):
    """Raised when packages of an extra are not installed; the message is one line, and names the command that installs them."""


def require_extra(extra: Extra, user: str) -> None:
    """Raise MissingExtraError unless all packages of an extra are installed. `user` is the subject of the message."""
    missing = [name for name in _MODULES[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{user} needs packages that are not installed ({', '.join(missing)}): pip install 'kafkalite[{extra}]'"
        )
