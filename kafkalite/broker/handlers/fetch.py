"""Fetch (1): records for consumers and followers, with long polling and incremental sessions.

- 0 to 3 messages of the formats before record batches (`fetch_down_conversion`); 1 throttle time; 3 max bytes of the response (KIP-74);
  4 isolation level; 5 log start offset; 7 sessions (KIP-227); 9 current leader epoch (KIP-320); 10 zstd; 11 rack and reads from
  followers (KIP-392); 12 last fetched epoch, the diverging epoch in the answer (KIP-595); 13 topic ids (KIP-516); 15 the follower's
  identity in a tagged field; 16 endpoints of the current leaders in the answer (KIP-951); 17 directory ids, which are ignored.
- A consumer over its consumer_byte_rate gets an answer without records and is silenced (KIP-219); a follower's throttled partitions are
  left out while leader.replication.throttled.rate is exceeded (KIP-73).
- Where an authorizer is, consumers need READ of each topic and followers CLUSTER_ACTION, in each fetch of a session again.
- Not done: tiered storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.fetch.fetch_authorization import is_denied
from kafkalite.broker.fetch.fetch_contexts import AT_ONCE, FetchContext, FullFetch, IncrementalFetch
from kafkalite.broker.fetch.fetch_contexts import Parts as FetchParts
from kafkalite.broker.fetch.fetch_down_conversion import ALL_KNOWN_FROM, DownConvertedFetch, replace_unknown_errors
from kafkalite.broker.fetch.fetch_sessions import (
    FIRST_EPOCH,
    SESSIONLESS_EPOCH,
    UNKNOWN_NAME,
    FetchItem,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
)
from kafkalite.broker.fetch.paced_fetch import PacedFullFetch
from kafkalite.broker.fetch.partition_reader import BATCHES_FROM, FetchParams
from kafkalite.broker.parts import HasConfig
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.request_fields import find_replica_id
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import PORTION_UNITS, Work, idle_units
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_contexts import Reply, Response


_PIECE: Final = 2000
"""Partitions of a session that are changed in one portion."""


class Parts(FetchParts, HasConfig, Protocol):
    """The parts of the broker that this handler uses."""


def fetch(parts: Parts, request: messages.FetchRequest, context: RequestContext) -> Reply:
    """Return the response, or a future of it while the fetch is delayed or its partitions take several portions."""
    params = _params(parts, request, context)
    try:
        fetching = context.portions.run(_new_context(parts, request, params, context))
    except KafkaError as problem:
        return messages.FetchResponse(error_code=problem.code)
    reply = asyncio.ensure_future(_start(fetching)) if isinstance(fetching, asyncio.Future) else fetching.start()
    version = params.version
    return reply if version >= ALL_KNOWN_FROM else replace_unknown_errors(parts, reply, version, context.portions)


async def _start(fetching: asyncio.Future[FetchContext | DownConvertedFetch]) -> Response:
    """Return the response of a fetch whose partitions take several portions; it is not the request's, which may be much larger."""
    try:
        reply = (await fetching).start()
    except KafkaError as problem:
        return messages.FetchResponse(error_code=problem.code)
    return await reply if isinstance(reply, asyncio.Future) else reply


def _params(parts: Parts, request: messages.FetchRequest, context: RequestContext) -> FetchParams:
    replica_id = find_replica_id(request)
    max_bytes = min(request.max_bytes, parts.config.fetch_max_bytes, context.connection.unread.response_bytes_max)
    if replica_id < 0:
        quota = parts.quotas.fetched
        if quota.is_set and (most_bytes := quota.most_bytes(context.user, context.client_id or "")) is not None:
            max_bytes = min(max_bytes, int(most_bytes))
    return FetchParams(
        replica_id,
        context.api_version,
        max(0, request.max_wait_ms),
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.isolation_level,
        request.rack_id,
    )


def _new_context(
    parts: Parts, request: messages.FetchRequest, params: FetchParams, context: RequestContext
) -> Work[FetchContext | DownConvertedFetch]:
    """Return the context that serves a request (Kafka's FetchManager.newContext); of `AT_ONCE` partitions in one go.

    Raises KafkaError for the whole request as `FetchSessionCache.resume` and `update`.
    """
    items, is_large = yield from _items(parts, request.topics, params, context)
    if params.version < BATCHES_FROM:
        return DownConvertedFetch(parts, context, items, params, is_large)
    sessions = parts.fetch_sessions
    if request.session_epoch == SESSIONLESS_EPOCH or request.session_epoch == FIRST_EPOCH:
        if request.session_id:
            yield from _close(sessions, request.session_id)
        session = None
        if request.session_epoch == FIRST_EPOCH:
            now_ms = parts.clock.monotonic_ms()
            session = sessions.open(len(items), params.is_follower, params.uses_topic_ids, now_ms)
            if session is not None and not (yield from _update(sessions, session, list(items.values()))):
                session = None
        kind = PacedFullFetch if is_large else FullFetch
        return kind(parts, session, items, params, context)
    session = sessions.resume(request.session_id, request.session_epoch, params.uses_topic_ids)
    session.last_fetch_ms = parts.clock.monotonic_ms()
    if request.forgotten_topics_data:
        yield from _forget(sessions, session, session.forgotten_keys(request.forgotten_topics_data))
    if is_large:
        if not (yield from _update(sessions, session, list(items.values()))):
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    elif items:
        sessions.update(session, items.values())
    return IncrementalFetch(parts, session, params, context)


def _items(
    parts: Parts, topics: Sequence[messages.fetch_request.FetchTopic], params: FetchParams, context: RequestContext
) -> Work[tuple[dict[PartitionKey, FetchItem], bool]]:
    """Return the partitions that are fetched, and True if the request has more than `AT_ONCE` entries.

    The last entry counts for a partition that is named twice.
    """
    items: dict[PartitionKey, FetchItem] = {}
    left, is_follower, max_bytes = AT_ONCE, params.is_follower, 0
    is_follower_denied = is_follower and bool(topics) and is_denied("", True, context)
    for topic in topics:
        left -= 1
        if not topic.partitions:
            continue
        name: str = topic.topic
        if params.uses_topic_ids:
            name = parts.replicas.topic_name(topic.topic_id) or UNKNOWN_NAME
        topic_id = topic.topic_id
        goes_by_name = topic_id == NO_TOPIC_ID
        is_topic_denied = is_follower_denied if is_follower else is_denied(name, False, context)
        for requested in topic.partitions:
            left -= 1
            if left < 0:
                yield
            topic_partition = TopicPartition(name, requested.partition)
            key = topic_partition if goes_by_name else (topic_id, requested.partition)
            if max_bytes != requested.partition_max_bytes:
                max_bytes = requested.partition_max_bytes  # one number for all partitions, which a session keeps
            items[key] = FetchItem(
                key,
                topic_partition,
                topic_id,
                requested.fetch_offset,
                max_bytes,
                requested.current_leader_epoch,
                requested.last_fetched_epoch,
                requested.log_start_offset,
                is_topic_denied,
            )
    return items, left < 0


def _update(sessions: FetchSessionCache, session: FetchSession, items: list[FetchItem]) -> Work[bool]:
    """Add or change partitions of a session; return False if it was closed meanwhile, because others needed its room."""
    for first in range(0, len(items), _PIECE):
        if first:
            yield from idle_units(PORTION_UNITS)
            if session.session_id not in sessions.sessions:
                return False
        sessions.update(session, items[first : first + _PIECE])
    return True


def _close(sessions: FetchSessionCache, session_id: int) -> Work[None]:
    """Close the former session of a client that begins another one; it may be a follower of tens of thousands of partitions."""
    session = sessions.sessions.get(session_id)
    if session is not None and len(session.items) > _PIECE:
        yield from _forget(sessions, session, list(session.items)[_PIECE:])
        yield from idle_units(PORTION_UNITS)
    sessions.close(session_id)


def _forget(sessions: FetchSessionCache, session: FetchSession, keys: list[PartitionKey]) -> Work[None]:
    """Remove partitions from a session."""
    for first in range(0, len(keys), _PIECE):
        if first:
            yield from idle_units(PORTION_UNITS)
        sessions.forget(session, keys[first : first + _PIECE])


APIS: Final = (serve_api(ApiKey.FETCH, 0, 17, fetch, failure=FailedItems(high_watermark=-1)),)
