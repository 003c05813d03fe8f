"""Values of settings on a command line."""

from __future__ import annotations

import click


def plain_setting(key: str, text: str, hint: str) -> str:
    """Return a value without its unit; `kafkalite.config.units` has the rules. A unit that cannot be used is wrong usage of `hint`."""
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.units import plain_value

    try:
        return plain_value(key, text)
    except ConfigError as problem:
        raise click.BadParameter(str(problem), param_hint=hint) from None
