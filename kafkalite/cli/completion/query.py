"""Names in a cluster for completion, requested within a fraction of a second: blocking sockets, few imports, no retries.

A cluster that does not answer in time has no names: nobody wants to read an error while typing.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.net.blocking_request import exchange
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS

if TYPE_CHECKING:
    import ssl

    from kafkalite.security.sasl_client import SaslCredentials

_METADATA_VERSION: Final = 5
_LIST_GROUPS_VERSION: Final = 2
"""Versions that brokers of the last ten years speak, without flexible fields: nothing to negotiate, quick to compile."""
_INTERNAL: Final = "__"


class Server(NamedTuple):
    host: str
    port: int


class BrokerAddress(NamedTuple):
    id: int
    host: str
    port: int


class Names(NamedTuple):
    """The content of one Metadata response: brokers, and the number of partitions of each topic."""

    brokers: tuple[BrokerAddress, ...] = ()
    topics: Mapping[str, int] = MappingProxyType({})


class Deadline:
    """A moment of the monotonic clock `now_s`."""

    def __init__(self, seconds: float, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._end_s = now_s() + seconds

    def left_s(self) -> float:
        """Return the time that is left. Raises TimeoutError when there is none."""
        left = self._end_s - self._now_s()
        if left <= 0:
            raise TimeoutError
        return left

    def share(self, parts: int) -> Deadline:
        """Return an equal part of the time that is left. Raises TimeoutError."""
        return Deadline(self.left_s() / parts, self._now_s)


class Access(NamedTuple):
    """TLS and login of the client."""

    tls: ssl.SSLContext | None = None
    credentials: SaslCredentials | None = None


OPEN: Final = Access()


def names_of(servers: Sequence[Server], deadline: Deadline, access: Callable[[], Access] = lambda: OPEN) -> Names:
    """Return topics and brokers from the first server that answers; nothing when none does in time."""
    found: list[Names] = []
    _in_time(lambda: found.append(_first_answer(servers, deadline, access())), deadline)
    return found[0] if found else Names()


def groups_of(servers: Sequence[Server], deadline: Deadline, access: Callable[[], Access] = lambda: OPEN) -> list[str]:
    """Return the groups of the brokers that answer in time, sorted."""
    found: set[str] = set()

    def ask() -> None:
        let_in = access()
        brokers = _first_answer(servers, deadline, let_in).brokers
        for broker in brokers:
            request = messages.list_groups_request.ListGroupsRequest()
            try:
                answer = _ask(Server(broker.host, broker.port), request, _LIST_GROUPS_VERSION, deadline, let_in)
            except OSError:
                continue  # the groups of the others are better than none
            found.update(each.group_id for each in answer.groups)

    _in_time(ask, deadline)
    return sorted(found)


def _in_time(ask: Callable[[], None], deadline: Deadline) -> None:
    """Run `ask` in a thread that is left alone at the deadline: nothing bounds the look-up of a host's name."""

    def quietly() -> None:
        try:
            ask()
        except (OSError, ValueError, struct.error):
            pass

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    try:
        thread.join(deadline.left_s())
    except TimeoutError:
        pass


def _first_answer(servers: Sequence[Server], deadline: Deadline, access: Access) -> Names:
    """Return the answer of the first server that answers; each gets an equal share of the time that is left. Raises OSError when none
    does.
    """
    problem: OSError = TimeoutError()
    for number, server in enumerate(servers):
        share = deadline.share(len(servers) - number)
        try:
            answer = _ask(
                server, messages.metadata_request.MetadataRequest(topics=None), _METADATA_VERSION, share, access
            )
        except OSError as failed:
            problem = failed
            continue
        brokers = tuple(BrokerAddress(each.node_id, each.host, each.port) for each in answer.brokers)
        topics = {each.name: len(each.partitions) for each in answer.topics if not each.name.startswith(_INTERNAL)}
        return Names(brokers, topics)
    raise problem


def _ask(server: Server, request: Any, version: int, deadline: Deadline, access: Access) -> Any:
    """Return the response to one request on a connection of its own. Raises OSError."""
    api = APIS[request.API.key]
    framed = request_frame(api, version, 1, "kafkalite-completion", codec.encode_request(request, version))
    frame = memoryview(exchange(*server, framed, deadline.left_s, *access))
    return codec.decode_response(api.key, version, frame, response_body_position(api, version, frame))
