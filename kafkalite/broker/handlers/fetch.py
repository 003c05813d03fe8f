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
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.fetch.fetch_authorization import CLUSTER_ACTION, READ, judge
from kafkalite.broker.fetch.fetch_contexts import AT_ONCE, FullFetch, IncrementalFetch
from kafkalite.broker.fetch.fetch_contexts import Parts as FetchParts
from kafkalite.broker.fetch.fetch_down_conversion import ALL_KNOWN_FROM, OldFetch, in_known_errors, tell_known_errors
from kafkalite.broker.fetch.fetch_sessions import (
    FIRST_EPOCH,
    NAMELESS,
    SESSIONLESS_EPOCH,
    FetchItem,
    FetchSession,
    PartitionKey,
)
from kafkalite.broker.fetch.paced_fetch import ManyPartitions, is_much, pieces, session_of_many
from kafkalite.broker.fetch.partition_reader import BATCHES_FROM, FetchParams
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.request_fields import find_replica_id
from kafkalite.broker.requests.served_api import served
from kafkalite.errors import KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig


class Parts(FetchParts, Protocol):
    """What this handler uses of the broker."""

    @property
    def config(self) -> BrokerConfig: ...


def fetch(
    parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext
) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
    """The reply, or a future of it while the fetch is delayed."""
    if is_much(request):
        return asyncio.ensure_future(_fetch_much(parts, request, context))
    params = _params(parts, request, context)
    version = context.api_version
    items = _items(parts, request.topics, params, context)
    if version < BATCHES_FROM:
        return asyncio.ensure_future(_old_fetch(parts, items.values(), params, context).answered())
    try:
        session, is_full = _session(parts, request, list(items.values()), params)
    except KafkaError as problem:
        return messages.fetch_response.FetchResponse(error_code=problem.code)
    if session is not None and not is_full:
        reply = IncrementalFetch(parts, session, params, context).start()
    else:
        reply = FullFetch(parts, session, items, params, context).start()
    return reply if version >= ALL_KNOWN_FROM else in_known_errors(parts, reply, version)


def _old_fetch(parts: Parts, items: Iterable[FetchItem], params: FetchParams, context: RequestContext) -> OldFetch:
    def begin(
        items: list[FetchItem], params: FetchParams
    ) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
        fetching = FullFetch(parts, None, {item.key: item for item in items}, params, context)
        if len(items) > AT_ONCE:
            return asyncio.ensure_future(ManyPartitions(fetching, context.portions.pace()).answered())
        return fetching.start()

    return OldFetch(parts, context, parts.partition_reader.conversion_cache, items, params, begin)


def _params(parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext) -> FetchParams:
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


def _items(
    parts: Parts,
    topics: Iterable[messages.fetch_request.FetchTopic],
    params: FetchParams,
    context: RequestContext,
) -> dict[PartitionKey, FetchItem]:
    """Return the partitions asked for; one that is named twice is asked for as the last time."""
    items: dict[PartitionKey, FetchItem] = {}
    for topic in topics:
        name: str = topic.topic
        if params.uses_topic_ids:
            name = parts.replicas.topic_name(topic.topic_id) or NAMELESS
        topic_id = topic.topic_id
        goes_by_name = topic_id == NO_TOPIC_ID
        for asked in topic.partitions:
            topic_partition = TopicPartition(name, asked.partition)
            key = topic_partition if goes_by_name else (topic_id, asked.partition)
            items[key] = FetchItem(
                key,
                topic_partition,
                topic_id,
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )
    judge(items.values(), params, context)
    return items


def _session(
    parts: Parts,
    request: messages.fetch_request.FetchRequest,
    items: list[FetchItem],
    params: FetchParams,
) -> tuple[FetchSession | None, bool]:
    """(session or None, whether this fetch names all its partitions)."""
    sessions, now_ms = parts.fetch_sessions, parts.clock.monotonic_ms()
    if request.session_epoch in (FIRST_EPOCH, SESSIONLESS_EPOCH):
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == SESSIONLESS_EPOCH:
            return None, True
        return sessions.open(items, params.is_follower, params.uses_topic_ids, now_ms), True
    session = sessions.resume(request.session_id, request.session_epoch, params.uses_topic_ids)
    session.last_fetch_ms = now_ms
    sessions.forget(session, session.meant_by(request.forgotten_topics_data))
    sessions.update(session, items)
    return session, False


# Fetches of very many partitions


async def _fetch_much(
    parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext
) -> messages.fetch_response.FetchResponse:
    """As `fetch`, in portions; a full one is answered as soon as there is anything, whatever min.bytes says."""
    params = _params(parts, request, context)
    pace = context.portions.pace()
    items: dict[PartitionKey, FetchItem] = {}
    for piece in pieces(request.topics):
        await pace.unit(1 + len(piece.partitions))
        items |= _items(parts, [piece], params, context)
    version = params.version
    if version < BATCHES_FROM:
        return await _old_fetch(parts, items.values(), params, context).answered()
    try:
        session, is_full = await session_of_many(parts, request, list(items.values()), params, pace)
    except KafkaError as problem:
        return messages.fetch_response.FetchResponse(error_code=problem.code)
    del request  # which may be much larger than what is waited for
    if session is not None and not is_full:
        begun = IncrementalFetch(parts, session, params, context).start()
        reply = await begun if isinstance(begun, asyncio.Future) else begun
    else:
        reply = await ManyPartitions(FullFetch(parts, session, items, params, context), pace).answered()
    if version < ALL_KNOWN_FROM:
        await tell_known_errors(parts, reply, version, pace)
    return reply


APIS: Final = (served(ApiKey.FETCH, 0, 17, fetch, READ, CLUSTER_ACTION, failure=FailedItems(high_watermark=-1)),)
