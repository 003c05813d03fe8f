"""The listener of the mirror: followers of the target connect to it as to any leader. Plaintext.

It speaks Fetch, ListOffsets and OffsetForLeaderEpoch, which a follower needs, and ApiVersions; a connection that asks anything else ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror.relay import Relay, SourceLinks
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import LENGTH, read_head, read_request_header, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey, request_header_version

if TYPE_CHECKING:
    from kafkalite.client.cluster.client import ClusterClient

log = logging.getLogger("kafkalite.mirror")

_MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
_MAX_CONNECTIONS: Final = 1000
_SAME_TO_US: Final[Mapping[ApiKey, int]] = {ApiKey.FETCH: 18, ApiKey.LIST_OFFSETS: 11}
"""Newer versions than those of the codec, whose additions come last and change no answer: the follower's high watermark (KIP-1166), a
timeout and tiered storage's offsets (KIP-1005, KIP-1075)."""
_SPOKEN: Final = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.API_VERSIONS, ApiKey.OFFSET_FOR_LEADER_EPOCH)


class Listener:
    """Serves the relay on a socket."""

    def __init__(self, relay: Relay, source: ClusterClient) -> None:
        self._relay, self._source = relay, source
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.problem = ""
        """Why the last connection was closed: its request was not supported."""

    async def listen(self, host: str, port: int) -> None:
        """Accept connections from now on. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port)

    async def close(self) -> None:
        """End the listener and all connections."""
        if self._server is not None:
            self._server.close()
        for each in list(self._connections):
            each.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= _MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        links = SourceLinks(self._source)
        try:
            while True:
                await self._serve_request(links, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the follower has gone
        except (ProtocolViolation, ValueError) as problem:
            self.problem = str(problem)
            log.warning("a connection was ended: %s", problem)
        except asyncio.CancelledError:
            pass  # the listener closes
        finally:
            self._connections.discard(task)
            links.close()
            writer.close()

    async def _serve_request(
        self, links: SourceLinks, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if not 0 < size <= _MAX_REQUEST_BYTES:
            raise ProtocolViolation(f"a request of {size} bytes")
        frame = await reader.readexactly(size)
        key, version, correlation_id = read_head(frame)
        if key not in _SPOKEN:
            raise ProtocolViolation(f"API {key} is not for a mirror; clients have to wait for the switch")
        api = APIS[key]
        newest = max(api.max_version, _SAME_TO_US.get(api.key, 0))
        read_as = min(version, api.max_version)
        response: Any
        if api.key is ApiKey.API_VERSIONS:
            is_known = version <= api.max_version
            response, read_as = _tell_versions(is_known), version if is_known else 0
        elif version > newest:
            raise ProtocolViolation(f"{api.name} version {version} is newer than {newest}; so is the target's release")
        else:
            header = read_request_header(frame, request_header_version(api, version))
            response = await self._answer(links, codec.decode_request(key, read_as, frame, header.body_position))
        writer.writelines(response_frame(api, read_as, correlation_id, codec.encode_response(response, read_as)))
        await writer.drain()

    async def _answer(self, links: SourceLinks, request: Any) -> Any:
        match request.API.key:
            case ApiKey.FETCH:
                return await self._relay.answer_fetch(links, request)
            case ApiKey.LIST_OFFSETS:
                return await self._relay.answer_offsets(request)
            case _:
                return await self._relay.answer_epochs(request)


def _tell_versions(is_known: bool) -> messages.ApiVersionsResponse:
    entry = messages.api_versions_response.ApiVersion
    return messages.ApiVersionsResponse(
        error_code=ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            entry(
                api_key=each,
                min_version=APIS[each].kept_from,
                max_version=max(APIS[each].max_version, _SAME_TO_US.get(each, 0)),
            )
            for each in _SPOKEN
        ],
    )
