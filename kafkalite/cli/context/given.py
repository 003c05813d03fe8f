"""The options of a command line that locate the cluster and set up the client, for `calls` and `context.settings`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DEFAULT_TIMEOUT_S = 30.0


class Given(NamedTuple):
    """The values of these options; those that a command does not have are the defaults."""

    bootstrap_server: str = ""
    timeout: float = DEFAULT_TIMEOUT_S
    context: str | None = None
    command_config: Path | None = None
    overrides: Sequence[str] = ()
