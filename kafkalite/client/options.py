"""Options of clients by Java's dotted names: `{"bootstrap.servers": …}` becomes the keyword arguments of a client class.

The signature of the class is the only list of options, defaults and types; nothing is repeated here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def options_from_config(client: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `client` from dotted (or plain) names; text becomes the type of the option's default.

    Raises ValueError for a name that `client` has no option for, and for text that does not fit.
    """
    options, unknown = split_config(client, config)
    for name in unknown:
        raise ValueError(f"{getattr(client, '__name__', 'the client')} has no option {name}")
    return options


def split_config(client: Callable[..., Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`options_from_config`, and apart from it those entries of `config` that `client` has no option for.

    Raises ValueError for text that does not fit.
    """
    parameters = inspect.signature(client).parameters
    options: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for name, value in config.items():
        keyword = name.replace(".", "_")
        parameter = parameters.get(keyword)
        if parameter is None or parameter.kind is not parameter.KEYWORD_ONLY:
            unknown[name] = value
        else:
            options[keyword] = _converted(name, value, parameter.default)
    return options, unknown


def _converted(name: str, value: Any, default: Any) -> Any:
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool) or value.lower() in ("true", "false"):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} is {value!r}, neither true nor false")
        return value.lower() == "true"
    if isinstance(default, int | float):
        try:
            return type(default)(value)
        except ValueError:
            raise ValueError(f"{name} is {value!r}, not a number") from None
    return value
