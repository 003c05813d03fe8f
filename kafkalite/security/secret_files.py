"""Files with secrets that everybody on the machine can read are refused, as ssh refuses them; Kafka takes them."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kafkalite import OWN_SETTINGS

ALLOWED_BY: Final = "kafkalite.allow.world.readable.secrets"
ALLOWED_BY_CLIENT: Final = "allow.world.readable.secrets"
_SECRET: Final = ("password", "secret", "jaas", "keystore.key", "token")


def is_secret(key: str) -> bool:
    """True if the value of this setting must not be shown."""
    return any(part in key for part in _SECRET) and not key.startswith(OWN_SETTINGS) and key != ALLOWED_BY_CLIENT


def exposed_settings(path: Path, keys: Iterable[str]) -> str | None:
    """Return the warning about a file of settings, if there are secrets among them and everybody can read it.

    That is no reason to refuse it: Kafka's `server.properties` and files for `--command-config` are often like this.
    """
    try:
        is_exposed = any(map(is_secret, keys)) and exposure(path, "passwords") is not None
    except OSError:
        return None
    return f"{path} has passwords and everybody on this machine can read it: chmod 600 {path}" if is_exposed else None


def exposure(path: str | Path, content: str, allowed_by: str = ALLOWED_BY) -> str | None:
    """Return why a file with `content` ("a private key") must not be used, and the remedy; None if others cannot read it.

    Others cannot read a file in a folder that they cannot enter, whatever its own mode. Raises OSError.
    """
    found = Path(path).resolve()
    mode = found.stat().st_mode
    if not mode & stat.S_IROTH or any(not each.stat().st_mode & stat.S_IXOTH for each in _folders(found)):
        return None
    return (
        f"{path} has {content} and everybody on this machine can read it (mode {stat.S_IMODE(mode):o}); "
        f"chmod 600 {path}, or set {allowed_by}=true"
    )


def _folders(path: Path) -> Sequence[Path]:
    """Return the folders that must be entered to reach a file."""
    return path.parents


def read_secret(path: str, content: str, *, is_allowed: bool) -> str:
    """Return the text of a file with a secret. Raises OSError, and ValueError if everybody can read it and that is not allowed."""
    if not is_allowed and (why := exposure(path, content)) is not None:
        raise ValueError(why)
    return Path(path).read_text()
