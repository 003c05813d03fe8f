"""Reads the batches of partitions from every replica in sync, as they lie in its log: followers answer consumers too.

From Fetch 11 on any replica serves consumers (KIP-392); older brokers serve Kafka's replica verification tool, by its id, from followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.migrate.digests import CopyDigester
from kafkalite.cli.migrate.evidence import CopyDigest, Span, UnreadCopy
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.client.cluster.view import BrokerNode
    from kafkalite.net.connection import Connection

_NEWEST_BY_NAME: Final = 12
_FOLLOWERS_FROM: Final = 11
_CONSUMER, _VERIFICATION_TOOL = -1, -2
_READ_COMMITTED: Final = 1
_FETCH_BYTES: Final = 8 * 1024 * 1024
_MAX_WAIT_MS: Final = 200
_PAUSE_S: Final = 0.05
_GONE: Final = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors that do not pass: retention deleted the offset meanwhile, or nobody lets us read."""


async def read_copies(
    admin: Admin,
    spans: Mapping[TopicPartition, Span],
    security: Mapping[str, Any],
    timeout_s: float,
    *,
    without_epochs: bool = False,
) -> tuple[list[CopyDigest], list[UnreadCopy]]:
    """Return a digest of each span from each replica in sync, and the copies that could not be read.

    `security` are options of `Connection.open`; a copy is given up when nothing more comes of it within the timeout. Raises ClientError.
    """
    described = await admin.describe_topics(sorted({place.topic for place in spans})) if spans else []
    brokers = {each.id: each for each in (await admin.describe_cluster()).brokers}
    wanted: dict[int, list[CopyDigester]] = {}
    unread: list[UnreadCopy] = []
    for partition in [each for topic in described for each in topic.partitions]:
        place = TopicPartition(partition.topic, partition.partition)
        for replica in partition.replicas if place in spans else ():
            if replica not in partition.isr or replica not in brokers:
                unread.append(UnreadCopy(*place, replica, "it is not in sync"))
            else:
                digester = CopyDigester(place, replica, spans[place], without_epochs=without_epochs)
                wanted.setdefault(replica, []).append(digester)
    read = [_read_broker(brokers[broker], some, security, timeout_s) for broker, some in sorted(wanted.items())]
    unread += [each for some in await asyncio.gather(*read) for each in some]
    failed = {(each.topic, each.partition, each.broker) for each in unread}
    copies = [each.finish() for some in wanted.values() for each in some]
    return [each for each in copies if (each.topic, each.partition, each.broker) not in failed], unread


async def _read_broker(
    node: BrokerNode, digesters: Sequence[CopyDigester], security: Mapping[str, Any], timeout_s: float
) -> list[UnreadCopy]:
    """Read all copies of one broker, one after the other; return those that could not be read."""
    from kafkalite.net.connection import Connection

    unread = []
    try:
        connection = await Connection.open(
            node.host, node.port, client_id="kafkalite-migrate", timeout_s=timeout_s, **security
        )
    except OSError as problem:
        return [each.give_up(str(problem)) for each in digesters]
    try:
        await connection.negotiate(timeout_s)
        for each in digesters:
            if failed := await _read_copy(connection, each, timeout_s):
                unread.append(failed)
    except (OSError, ValueError) as problem:  # the connection is of no use any more
        unread += [each.give_up(str(problem)) for each in digesters if not each.is_complete]
    finally:
        connection.close()
    return unread


async def _read_copy(connection: Connection, digester: CopyDigester, timeout_s: float) -> UnreadCopy | None:
    """Read one copy to the end of its span; return why it could not be read, None if it was.

    A follower knows of the high watermark and of the last stable offset a fetch later than its leader: that is waited for.
    """
    loop = asyncio.get_running_loop()
    version = min(connection.version_of(ApiKey.FETCH), _NEWEST_BY_NAME)
    deadline_s = loop.time() + timeout_s
    while not digester.is_complete:
        request = _make_request(digester, _CONSUMER if version >= _FOLLOWERS_FROM else _VERIFICATION_TOOL)
        response = await connection.request(request, version, timeout_s)
        answers = [each for topic in response.responses for each in topic.partitions]
        code = ErrorCode(response.error_code or (answers[0].error_code if answers else ErrorCode.NONE))
        if code is ErrorCode.NONE and answers and digester.add_batches(answers[0].records or b""):
            aborted = answers[0].aborted_transactions or ()
            digester.add_aborted((each.producer_id, each.first_offset) for each in aborted)
            deadline_s = loop.time() + timeout_s
        elif code in _GONE:
            return digester.give_up(code.name, is_lacking=code is ErrorCode.OFFSET_OUT_OF_RANGE)
        elif loop.time() > deadline_s:
            ends_early = code is ErrorCode.NONE
            why = f"nothing from offset {digester.position} on" if ends_early else code.name
            return digester.give_up(why, is_lacking=ends_early)
        else:
            await asyncio.sleep(_PAUSE_S)
    return None


def _make_request(digester: CopyDigester, replica_id: int) -> messages.FetchRequest:
    """Return a fetch of what is next: as a reader of committed records up to the last stable offset, for the aborted transactions."""
    m = messages.fetch_request
    topic, partition = digester.place
    question = m.FetchPartition(
        partition=partition, fetch_offset=digester.position, partition_max_bytes=_FETCH_BYTES, current_leader_epoch=-1
    )
    return m.FetchRequest(
        replica_id=replica_id,
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=_READ_COMMITTED if digester.is_stable else 0,
        session_epoch=-1,
        topics=[m.FetchTopic(topic=topic, partitions=[question])],
    )
