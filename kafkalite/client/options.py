"""The options of clients: what they share, and what turns keyword arguments and Java's dotted names into them.

One frozen dataclass for each client, in its sub-package, is the only home of its options, their defaults and their validation. A client
takes their fields as keyword arguments, which `keywords` types, and `from_config` takes them by the names that Kafka's Java clients give
them, with dots for underscores.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafkalite.backoff import Backoff
from kafkalite.client.errors import UnknownOptionError
from kafkalite.client.security import SecurityOptions, check_security
from kafkalite.server_addresses import parse_servers
from kafkalite.suggestions import did_you_mean

if TYPE_CHECKING:
    from kafkalite.net.connection import Connection

Opener = Callable[[str, int], Awaitable["Connection"]]
"""Makes the connection to a host and port; ConnectionError and TimeoutError tell that there is none."""
Function = TypeVar("Function", bound=Callable[..., Any])

_LEAST_RECEIVED_BYTES = 1000
_RETRY_JITTER = 0.2
"""By how much Kafka's clients spread their retries (CommonClientConfigs.RETRY_BACKOFF_JITTER)."""


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(SecurityOptions):
    """What every client needs to reach a cluster. Times are in ms; names and meanings are Kafka's, where Kafka has the option.

    - `bootstrap_servers`: "host:port,host:port" or a list of such, IPv6 addresses in brackets; the port is 9092 by default. A scheme
      (`PLAINTEXT://host:port`) is ignored, as in Kafka's clients.
    - `client_id`: what brokers call this client in logs, quotas and metrics.
    - `request_timeout_ms` bounds one request.
    - `retry_backoff_ms`, `retry_backoff_max_ms`: the wait before the first retry, and the longest one (KIP-580).
    - `metadata_max_age_ms`: the view of the cluster is refreshed after so long without a reason.
    - `receive_message_max_bytes`: a response that announces more is not read, and its connection ends (librdkafka's
      receive.message.max.bytes). It must hold what one fetch may bring, and the largest batch of a topic.
    - `security_protocol`, `ssl_…`, `sasl_…`: see `SecurityOptions`.
    - `opener` replaces the way in which connections are made, `chance` the random numbers in [0, 1) that spread retries: for tests and
      simulation.

    ValueError for a value that an option cannot have.
    """

    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    client_id: str | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 1000
    metadata_max_age_ms: int = 300_000
    receive_message_max_bytes: int = 256 * 1024 * 1024
    opener: Opener | None = None
    chance: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        _check_types(self)
        parse_servers(self.bootstrap_servers)
        check_security(self)
        if self.receive_message_max_bytes < _LEAST_RECEIVED_BYTES:
            raise ValueError(
                f"receive_message_max_bytes is {self.receive_message_max_bytes}; it must be at least {_LEAST_RECEIVED_BYTES}"
            )

    @classmethod
    def client_name(cls) -> str:
        """Return the client that these are the options of."""
        return cls.__name__.removesuffix("Options")

    @property
    def retry_backoff(self) -> Backoff:
        """Return the policy that spaces retries."""
        return Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms, _RETRY_JITTER)


def _check_types(options: ConnectionOptions) -> None:
    """Raise ValueError for text where a number or a truth value belongs, and for servers that are no text."""
    for each in fields(options):
        value = getattr(options, each.name)
        if isinstance(each.default, bool):
            if not isinstance(value, bool):
                raise ValueError(f"{each.name} is {value!r}, neither True nor False")
        elif isinstance(each.default, Real) and (isinstance(value, bool) or not isinstance(value, Real)):
            raise ValueError(f"{each.name} is {value!r}, not a number")
    servers = options.bootstrap_servers
    is_list = isinstance(servers, Collection) and all(isinstance(each, str) for each in servers)
    if not isinstance(servers, str) and not is_list:
        raise ValueError(f"bootstrap_servers is {servers!r}; it may be 'host:port,host:port' or a list of such")


def takes_options(options: type[ConnectionOptions]) -> Callable[[Function], Function]:
    """Decorate a function with `**options`: what is no field of `options` is an UnknownOptionError.

    To `help` and to completion in a shell the fields are keyword arguments of the function.
    """
    keywords = inspect.signature(options).parameters.values()

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        takes_topics = any(each.kind is each.VAR_POSITIONAL for each in own)
        known = {each.name for each in (*own, *keywords) if each.kind is not each.VAR_POSITIONAL}

        @functools.wraps(function)
        def call_with_options(*positional: Any, **named: Any) -> Any:
            if takes_topics:
                _check_topics(options, positional[len(own) - 1 :])
            elif len(positional) > len(own):
                raise UnknownOptionError(
                    f"{options.client_name()} takes options by name alone, as in "
                    f"bootstrap_servers='localhost:9092'; {positional[len(own)]!r} has none"
                )
            for name in named:
                if name not in known:
                    raise UnknownOptionError(_unknown_option(options, name, takes_topics))
            return function(*positional, **named)

        vars(call_with_options)["__signature__"] = signature.replace(parameters=[*own, *keywords])
        return cast(Function, call_with_options)

    return decorate


def _check_topics(options: type[ConnectionOptions], topics: Sequence[Any]) -> None:
    for each in topics:
        if not isinstance(each, str):
            name = options.client_name()
            raise UnknownOptionError(
                f"{name} takes topics by name, as in {name}('flights', 'delays'); {each!r} is none"
            )


def _unknown_option(options: type[ConnectionOptions], name: str, takes_topics: bool) -> str:
    if takes_topics and name in ("topic", "topics"):
        return f"{options.client_name()} has no option {name}; topics come first, without a keyword"
    return f"{options.client_name()} has no option {name}{did_you_mean(name, option_names(options))}"


def option_names(options: type[ConnectionOptions]) -> list[str]:
    """Return the options of a client, as keyword arguments."""
    return [each.name for each in fields(options)]


def options_from_config(options: type[ConnectionOptions], config: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a client from dotted (or plain) names; text becomes the type of the option's default.

    Raises UnknownOptionError for a name that the client has no option for, ValueError for text that does not fit.
    """
    found, unknown = split_config(options, config)
    for name in unknown:
        known = [each.replace("_", ".") if "." in name else each for each in option_names(options)]
        raise UnknownOptionError(f"{options.client_name()} has no option {name}{did_you_mean(name, known)}")
    return found


def split_config(options: type[ConnectionOptions], config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`options_from_config`, and apart from it those entries of `config` that the client has no option for.

    Raises ValueError for text that does not fit.
    """
    defaults = {each.name: each.default for each in fields(options)}
    found: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for name, value in config.items():
        keyword = name.replace(".", "_")
        if keyword in defaults:
            found[keyword] = _convert_value(name, value, defaults[keyword])
        else:
            unknown[name] = value
    return found, unknown


def _convert_value(name: str, value: Any, default: Any) -> Any:
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
