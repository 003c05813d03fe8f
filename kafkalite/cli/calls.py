"""How commands call a cluster: the options that say where it is, and what an error of the client becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalite.cli.output import Exit, fail

if TYPE_CHECKING:
    from kafkalite.errors import ErrorCode

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Result = TypeVar("Result")

ENVIRONMENT_VARIABLE = "KAFKALITE_BOOTSTRAP_SERVERS"


def bootstrap_option(function: Decorated) -> Decorated:
    """The options `--bootstrap-server` and `--timeout`, passed as `bootstrap_server` and `timeout`."""
    function = click.option(
        "--timeout", type=float, default=30.0, show_default=True, help="Seconds to wait for the cluster."
    )(function)
    return click.option(
        "-b",
        "--bootstrap-server",
        envvar=ENVIRONMENT_VARIABLE,
        default="localhost:9092",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Brokers to begin with.",
    )(function)


def client_options(bootstrap_server: str, timeout: float) -> dict[str, Any]:
    """Options for a client that gives up after `timeout` seconds."""
    return {"bootstrap_servers": bootstrap_server, "request_timeout_ms": int(timeout * 1000)}


def admin_options(bootstrap_server: str, timeout: float) -> dict[str, Any]:
    return {**client_options(bootstrap_server, timeout), "default_api_timeout_ms": int(timeout * 1000)}


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's coroutine; an error of the client ends the command with its message and exit code."""
    import uvloop

    from kafkalite.client.errors import ClientError, ClientTimeoutError, NoBrokersAvailableError

    try:
        return uvloop.run(coroutine)
    except NoBrokersAvailableError as problem:
        fail(str(problem), Exit.UNREACHABLE)
    except ClientTimeoutError as problem:
        fail(str(problem), Exit.UNREACHABLE)
    except ClientError as problem:
        fail(f"{problem} [{problem.name}]", exit_code(problem.code))
    except ValueError as problem:
        fail(str(problem), Exit.USAGE)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(130) from None


def exit_code(code: ErrorCode) -> Exit:
    """The exit code for one of Kafka's error codes."""
    from kafkalite.errors import ErrorCode as Code

    if code in (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.RESOURCE_NOT_FOUND,
        Code.GROUP_ID_NOT_FOUND,
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
