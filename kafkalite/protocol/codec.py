"""Bodies of requests and responses: bytes to unified messages and back, in any version of `apis.APIS`.

The readers and writers are compiled at first use and kept. `adapters` holds the few versions whose structure really changed.

A message of more than `bounds.PLAIN_BYTES` is read with a budget: in portions by whoever has a loop that must turn, in one go by
`decode_request` and `decode_response`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from kafkalite.portions import Work, in_one_go
from kafkalite.protocol import adapters, messages
from kafkalite.protocol.apis import APIS, Api, ApiKey
from kafkalite.protocol.bounds import (
    BROKERS_MEMORY_BYTES,
    BROKERS_MEMORY_FACTOR,
    PLAIN_BYTES,
    PORTION,
    REQUEST_MEMORY_BYTES,
    RESPONSE_MEMORY_BYTES,
    Budget,
)
from kafkalite.protocol.schemas.compiler import (
    ItemWriter,
    MeteredReader,
    PortionedWriter,
    Reader,
    Reading,
    Writer,
    compile_item_writer,
    compile_metered_reader,
    compile_portioned_writer,
    compile_reader,
    compile_writer,
)
from kafkalite.types import Buffer

T = TypeVar("T")

_BETWEEN_BROKERS: Final = frozenset(
    {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION}
)


@cache
def reader(api_key: int, direction: str, version: int) -> Reader:
    """Return the compiled reader of one message version, with its adapter."""
    api = APIS[api_key]
    classes = getattr(messages, f"{api.name}_{direction}").CLASSES
    read = compile_reader(messages.schema(api, direction, version), classes)
    upgrade = adapters.upgrade(api.name, direction, version)
    if upgrade is None:
        return read

    def read_and_upgrade(buffer: Buffer, position: int) -> Any:
        message = read(buffer, position)
        for _ in upgrade(message, version):
            pass
        return message

    return read_and_upgrade


@cache
def metered_reader(api_key: int, direction: str, version: int) -> MeteredReader:
    """Return the compiled reader of long messages of one version, with its adapter."""
    api = APIS[api_key]
    classes = getattr(messages, f"{api.name}_{direction}").CLASSES
    read = compile_metered_reader(messages.schema(api, direction, version), classes)
    upgrade = adapters.upgrade(api.name, direction, version)
    if upgrade is None:
        return read

    def read_and_upgrade(buffer: Buffer, position: int, budget: Budget) -> Reading:
        message = yield from read(buffer, position, budget)
        for number, size in enumerate(upgrade(message, version)):
            budget.charge(size)
            if not number % PORTION:
                yield
        return message

    return read_and_upgrade


@cache
def writer(api_key: int, direction: str, version: int) -> Writer:
    """Return the compiled writer of one message version, with its adapter."""
    api = APIS[api_key]
    classes = getattr(messages, f"{api.name}_{direction}").CLASSES
    return _downgrade_before(compile_writer(messages.schema(api, direction, version), classes), api, direction, version)


@cache
def portioned_writer(api_key: int, direction: str, version: int) -> PortionedWriter:
    """Return the compiled writer of long messages of one version, with its adapter."""
    api = APIS[api_key]
    return _downgrade_before(
        compile_portioned_writer(messages.schema(api, direction, version)), api, direction, version
    )


def _downgrade_before(write: Callable[[Any], T], api: Api, direction: str, version: int) -> Callable[[Any], T]:
    """Return the writer behind the adapter of its version, if that has one."""
    downgrade = adapters.downgrade(api.name, direction, version)
    if downgrade is None:
        return write

    def downgrade_and_write(message: Any) -> T:
        downgrade(message, version)
        return write(message)

    return downgrade_and_write


def decode_request(api_key: int, version: int, buffer: Buffer, position: int = 0) -> Any:
    """Return the request whose body begins at `position`. ProtocolViolation when it cannot be read."""
    if len(buffer) > PLAIN_BYTES:
        return in_one_go(request_portions(api_key, version, buffer, position))
    return reader(api_key, "request", version)(buffer, position)


def decode_response(api_key: int, version: int, buffer: Buffer, position: int = 0) -> Any:
    """Return the response whose body begins at `position`. ProtocolViolation when it cannot be read."""
    if len(buffer) > PLAIN_BYTES:
        return in_one_go(response_portions(api_key, version, buffer, position))
    return reader(api_key, "response", version)(buffer, position)


def request_portions(
    api_key: int, version: int, buffer: Buffer, position: int = 0, budget: Budget | None = None
) -> Reading:
    """Decode as `decode_request` does, a portion at each step."""
    return metered_reader(api_key, "request", version)(buffer, position, budget or request_budget(api_key, len(buffer)))


def request_budget(api_key: int, request_bytes: int) -> Budget:
    """Return the memory that a request of so many bytes may take."""
    memory_bytes = REQUEST_MEMORY_BYTES
    if api_key in _BETWEEN_BROKERS:
        memory_bytes = min(memory_bytes + BROKERS_MEMORY_FACTOR * request_bytes, BROKERS_MEMORY_BYTES)
    return Budget(request_bytes, memory_bytes)


def response_portions(api_key: int, version: int, buffer: Buffer, position: int = 0) -> Reading:
    """Decode as `decode_response` does, a portion at each step."""
    return metered_reader(api_key, "response", version)(buffer, position, Budget(len(buffer), RESPONSE_MEMORY_BYTES))


def encode_request(message: Any, version: int) -> list[Buffer]:
    """Return the body as a few buffers; fields that the version lacks are left out."""
    return writer(message.API.key, "request", version)(message)


def encode_long_request(message: Any, version: int) -> Work[list[Buffer]]:
    """Encode as `encode_request` does, for a request of which `messages.has_more_items` says that it is long."""
    return portioned_writer(message.API.key, "request", version)(message)


@cache
def request_item_writer(api_key: int, version: int, name: str) -> ItemWriter:
    """Return the encoder of one struct of a request, for structs that several requests share."""
    return compile_item_writer(messages.schema(APIS[api_key], "request", version), name)


def encode_around(message: Any, version: int, names: tuple[str, ...]) -> Work[list[Buffer]]:
    """Encode a request whose arrays of structs of these names hold what `request_item_writer` has returned.

    No adapter is used: the message has the structure of the version.
    """
    return _writer_around(message.API.key, version, names)(message)


@cache
def _writer_around(api_key: int, version: int, names: tuple[str, ...]) -> PortionedWriter:
    return compile_portioned_writer(messages.schema(APIS[api_key], "request", version).with_encoded(names))


def encode_response(message: Any, version: int) -> list[Buffer]:
    """Return the body as a few buffers; record data is not copied."""
    return writer(message.API.key, "response", version)(message)


def encode_long_response(message: Any, version: int) -> Work[list[Buffer]]:
    """Encode as `encode_response` does, for a response of which `messages.has_more_items` says that it is long."""
    return portioned_writer(message.API.key, "response", version)(message)
