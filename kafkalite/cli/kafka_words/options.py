"""Options of Apache Kafka's tools that mean the same here, so that habits go on working: they are accepted and not shown in `--help`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class _NamedArgument(click.Argument):
    """An argument whose values may also be given by an option."""

    def __init__(self, *names: Any, option: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self._option = option

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        named = opts.get(_parameter_name(self._option))
        if not named:
            return value, source
        if self.nargs == -1:
            return (*(value if isinstance(value, tuple) else ()), *named), ParameterSource.COMMANDLINE
        if isinstance(value, str) or len(named) > 1:  # click has an object of its own for no value
            raise click.UsageError(
                f"{self.make_metavar(ctx)} is given twice; {self._option} is another way to name it", ctx
            )
        return named[0], ParameterSource.COMMANDLINE


def named_argument(name: str, option: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Add an argument that may also be given by Apache Kafka's option, several times if the argument takes several values."""

    def decorate(function: Decorated) -> Decorated:
        function = click.option(
            option, _parameter_name(option), multiple=True, hidden=True, expose_value=False, metavar="NAME"
        )(function)
        return click.argument(name, cls=_NamedArgument, option=option, **settings)(function)

    return decorate


def _parameter_name(option: str) -> str:
    return f"kafka_{option.removeprefix('--').replace('-', '_')}"
