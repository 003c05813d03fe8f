"""Connections of commands to a cluster: the options that locate it, and exit codes for errors of the client."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from kafkalite.cli.context.given import DEFAULT_TIMEOUT_S, Given
from kafkalite.cli.output import Exit, fail, fail_each, note

if TYPE_CHECKING:
    from kafkalite.client.errors import ClientError
    from kafkalite.errors import ErrorCode

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Result = TypeVar("Result")

DEFAULT_SERVER = "localhost:9092"
_GIVEN = "kafkalite.cli.calls.given"


def bootstrap_option(function: Decorated) -> Decorated:
    """Add the options that locate the cluster and set up the client; `context.settings` has their precedence.

    None of them is passed on: `admin_options` and its like, and `given_timeout_s`, know them.
    """
    for option in (
        click.option(
            "--command-config",
            type=click.Path(dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help="A properties file with settings of the client, as for Apache Kafka's tools.",
        ),
        click.option(
            "-X",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help="A setting of the client, by Kafka's dotted name.",
        ),
        context_option,
        click.option(
            "--timeout",
            type=float,
            default=DEFAULT_TIMEOUT_S,
            show_default=True,
            expose_value=False,
            callback=_remember,
            help="Seconds to wait for the cluster.",
        ),
        click.option(
            "-b",
            "--bootstrap-server",
            default="",
            metavar="HOST:PORT,...",
            expose_value=False,
            callback=_remember,
            help=f"Brokers to connect to first.  [default: KAFKALITE_BOOTSTRAP_SERVERS, the context's, or {DEFAULT_SERVER}]",
        ),
    ):
        function = option(function)
    return function


def context_option(function: Decorated) -> Decorated:
    """Add the option `--context`, once, also on a command that uses brokers and ZooKeeper."""
    if any("--context" in each.opts for each in getattr(function, "__click_params__", ())):
        return function
    return click.option(
        "--context",
        metavar="NAME",
        is_eager=True,  # others are resolved by it
        expose_value=False,
        callback=_remember,
        help="The cluster by its name; see `kafkalite context`.",
    )(function)


def contexts_option(function: Decorated) -> Decorated:
    """Add the option `--context` that may be repeated, passed as `context`. Given once it is what it is for other commands.

    It stands below `bootstrap_option`, which then does not add its own.
    """

    def remember_one(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(value))
        if len(names) == 1:
            _remember(ctx, parameter, names[0])
        return names

    return click.option(
        "--context",
        metavar="NAME",
        multiple=True,
        is_eager=True,
        callback=remember_one,
        help="The cluster by its name; see `kafkalite context`. Repeated, it names several.",
    )(function)


@contextmanager
def use_context(name: str) -> Iterator[None]:
    """Have settings resolved as with `--context NAME` meanwhile."""
    given = click.get_current_context().meta.setdefault(_GIVEN, {})
    before = given.get("context")
    given["context"] = name
    try:
        yield
    finally:
        given["context"] = before


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_GIVEN, {})[parameter.name] = value


def given_on_command_line(context: click.Context | None = None) -> Given:
    """Return the options of a command, by default of the running one."""
    context = context or click.get_current_context(silent=True)
    return Given(**context.meta.get(_GIVEN, {})) if context is not None else Given()


def given_timeout_s() -> float:
    """Return `--timeout`, in seconds."""
    return given_on_command_line().timeout


def client_options(client: str = "Admin", bootstrap_server: str = "") -> dict[str, Any]:
    """Return the options of a client ("Admin", "Producer", "Consumer") that gives up after `--timeout`.

    `bootstrap_server` comes after the option of that name and before all other settings. Invalid settings end the command.
    """
    from kafkalite.cli.context.file import ContextError
    from kafkalite.cli.context.settings import (
        BOOTSTRAP_SERVERS,
        exposed_files,
        gather,
        keyword_options,
        setting_names,
        working_directory,
    )
    from kafkalite.config.errors import ConfigError

    line = given_on_command_line()
    bootstrap_server = line.bootstrap_server or bootstrap_server
    try:
        settings = gather(line, os.environ, working_directory(), setting_names(client))
        if bootstrap_server:
            settings.pop(BOOTSTRAP_SERVERS, None)
        options = keyword_options(settings, client, line.command_config, note)
        for told in exposed_files(settings):
            note(told)
    except (ConfigError, ContextError) as problem:
        fail(str(problem), Exit.USAGE)
    if bootstrap_server or BOOTSTRAP_SERVERS not in settings:
        options["bootstrap_servers"] = bootstrap_server or DEFAULT_SERVER
    if _timeout_given() or "request_timeout_ms" not in options:
        options["request_timeout_ms"] = int(line.timeout * 1000)
    return options


def _timeout_given() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source("timeout") is ParameterSource.COMMANDLINE


def admin_options(client: str = "Admin", bootstrap_server: str = "") -> dict[str, Any]:
    """Return `client_options` for a client whose calls are bounded as a whole: "Admin" or "Consumer"."""
    options = client_options(client, bootstrap_server)
    if _timeout_given() or "default_api_timeout_ms" not in options:
        options["default_api_timeout_ms"] = int(given_timeout_s() * 1000)
    return options


def producer_options() -> dict[str, Any]:
    """Return `client_options` for a producer that waits for a topic, or for buffer memory, no longer than the command waits for the
    cluster.
    """
    options = client_options("Producer")
    options.setdefault("max_block_ms", options["request_timeout_ms"])
    return options


def select_given(**flags: Any) -> dict[str, Any]:
    """Return the options that were given. They win over settings of `-X` and contexts, which win over the client's defaults."""
    return {name: value for name, value in flags.items() if value is not None}


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's coroutine; an error of the client ends the command with its message and exit code.

    It runs on asyncio's loop, which takes a command that starts 3 ms and 2 MB less than uvloop's.
    """
    import asyncio

    return _run_on(asyncio.run, coroutine)


def run_long(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Do as `run` does, on the loop that serves most requests: `event_loop`'s."""
    from kafkalite import event_loop

    return _run_on(event_loop.run, coroutine)


def _run_on(
    run_loop: Callable[[Coroutine[Any, Any, Result]], Result], coroutine: Coroutine[Any, Any, Result]
) -> Result:
    import asyncio

    from kafkalite.client.errors import AdminError, ClientError, ClientTimeoutError, NoBrokersAvailableError

    try:
        return run_loop(coroutine)
    except (NoBrokersAvailableError, ClientTimeoutError) as problem:
        fail(str(problem), Exit.UNREACHABLE)
    except AdminError as problem:
        refuse(problem.failures)
    except ClientError as problem:
        refuse({"": problem})
    except ValueError as problem:
        fail(str(problem), Exit.USAGE)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(int(Exit.INTERRUPTED)) from None


def refuse(failures: Mapping[str, ClientError]) -> NoReturn:
    """End the command with a line for each failure, and the exit code of all of them, FAILED when they differ."""
    codes = {exit_code(problem.code) for problem in failures.values()}
    texts = [f"{problem} [{problem.name}]{_hint(problem)}" for problem in failures.values()]
    fail_each(texts, codes.pop() if len(codes) == 1 else Exit.FAILED)


def _hint(problem: ClientError) -> str:
    """Return a suggestion for the user: the notes of the exception, the nearest setting of a topic, and how a time or size is written."""
    hint = "".join(getattr(problem, "__notes__", ()))
    if unknown := re.search(r"Unknown topic config name: (\S+)", str(problem)):
        from kafkalite.config.topic import TOPIC_KEYS
        from kafkalite.suggestions import did_you_mean

        hint += did_you_mean(unknown[1], TOPIC_KEYS)
    if invalid := re.search(r"for configuration (\S+): Not a number", str(problem)):
        from kafkalite.config.units import remedy_for

        hint += remedy_for(invalid[1])
    return hint


def exit_code(code: ErrorCode) -> Exit:
    """Return the exit code for one of Kafka's error codes."""
    from kafkalite.errors import ErrorCode as Code

    if code in (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.RESOURCE_NOT_FOUND,
        Code.GROUP_ID_NOT_FOUND,
        Code.TRANSACTIONAL_ID_NOT_FOUND,
        Code.LOG_DIR_NOT_FOUND,
    ):
        return Exit.NOT_FOUND
    if code in (Code.TOPIC_ALREADY_EXISTS, Code.DUPLICATE_RESOURCE):
        return Exit.EXISTS
    if code in (
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_NOT_AVAILABLE,
    ):
        return Exit.UNREACHABLE
    if code.name.endswith("AUTHORIZATION_FAILED") or code is Code.SASL_AUTHENTICATION_FAILED:
        return Exit.NOT_AUTHORIZED
    return Exit.FAILED
