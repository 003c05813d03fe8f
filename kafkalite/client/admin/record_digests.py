"""Digests of the committed records of ranges of offsets: asked of the leaders, where the records lie.

Brokers that do not know the request, those of Apache Kafka, are asked for the records instead, and the digests are made of them here:
with the same result (`protocol/record_batches/record_digest`), and all the bytes over the network. Whichever it is, nothing is left out
without an error: offsets that the log does not have any more, or that are not committed yet, batches that are damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Final

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.consumer.range_reader import RangeReader, RangeSettings
from kafkalite.client.errors import ClientError, ClientTimeoutError, error_of, raise_error
from kafkalite.errors import ErrorCode
from kafkalite.portions import Portions
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.record_digest import FINGERPRINT_BYTES, NO_RECORDS, RangeDigest, Times
from kafkalite.timestamps import LARGEST_INT64
from kafkalite.types import TopicPartition

_READ_COMMITTED: Final = 1
_FETCH_MAX_WAIT_MS: Final = 500


class RangeDigester:
    """Digests the range of `place` from `start` to before `end`, records within `times`. Each step of it may take `timeout_s`."""

    def __init__(
        self,
        cluster: ClusterClient,
        place: TopicPartition,
        start: int,
        end: int,
        timeout_s: float,
        *,
        times: Times,
        fresh: bool,
    ) -> None:
        self._cluster, self._place = cluster, place
        self._start, self._end = start, end
        self._timeout_s, self._fresh, self._times = timeout_s, fresh, times
        self._what = f"digesting {place}"

    async def digest_parts(self, ends: Sequence[int]) -> list[RangeDigest]:
        """Return the digests of the parts of the range that end before these offsets, the last of which is the range's end.

        ClientTimeoutError where the end is not committed in time, ClientError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE,
        TOPIC_AUTHORIZATION_FAILED and others that no retry changes.
        """
        found: list[RangeDigest] = []
        offset = self._start
        for number, end in enumerate(ends):
            total = NO_RECORDS
            while offset < end:
                answer = await self._ask_until_more(offset, end)
                if answer is None:
                    rest = await self._digest_fetched(offset, ends[number:])
                    return [*found, total + rest[0], *rest[1:]]
                total, offset = total + _digest_in(answer), answer.next_offset
            found.append(total)
        return found

    async def _ask_until_more(self, offset: int, end: int) -> messages.DigestRecordsResponse | None:
        """Return an answer that goes beyond `offset`, None where the broker does not know the request."""
        loop = asyncio.get_running_loop()
        deadline_s, waits = loop.time() + self._timeout_s, 0
        while True:
            try:
                answer = await self._cluster.retrying(lambda: self._ask(offset, end), self._what, self._timeout_s)
            except ClientError as problem:
                if problem.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                return None
            raise_error(answer, self._what)
            if answer.next_offset > offset:
                return answer
            waits += 1
            delay_s = self._cluster.retry.delay_ms(waits, self._cluster.chance()) / 1000
            if loop.time() + delay_s >= deadline_s:
                raise ClientTimeoutError(
                    f"{self._what} up to offset {self._end}: after {self._timeout_s:g} s only what is before "
                    f"{answer.last_stable_offset} is committed"
                )
            await asyncio.sleep(delay_s)

    async def _ask(self, offset: int, end: int) -> messages.DigestRecordsResponse:
        """Return the leader's answer about what begins at `offset`, also that it is damaged. Raises ClientError, OSError."""
        known = self._cluster.view.partition(self._place)
        if known is None:
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._what)
        if known.leader < 0:
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, self._what)
        request = messages.DigestRecordsRequest(
            topic=self._place.topic,
            partition_index=self._place.partition,
            current_leader_epoch=known.leader_epoch,
            start_offset=offset,
            end_offset=end,
            since_timestamp=self._times.since,
            until_timestamp=min(self._times.until, LARGEST_INT64),
            is_fresh=self._fresh,
        )
        answer = await self._cluster.request(known.leader, request)
        if answer.error_code == ErrorCode.CORRUPT_MESSAGE:
            return answer  # of fetched records it may be worth another try; these lie on the leader's disk
        raise_error(answer, self._what)
        if not offset <= answer.next_offset <= end or len(answer.fingerprint) != FINGERPRINT_BYTES:
            raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, self._what, f"an answer about other offsets than {offset}")
        return answer

    async def _digest_fetched(self, start: int, ends: Sequence[int]) -> list[RangeDigest]:
        """Return the digests of the parts from `start` on, whose records are read once."""
        settings = RangeSettings(_READ_COMMITTED, True, _FETCH_MAX_WAIT_MS, self._timeout_s)
        reader, portions = RangeReader(self._cluster, self._place, settings), Portions()
        parts = list(pairwise([start, *ends]))
        totals, first, reached = [NO_RECORDS] * len(parts), 0, start
        async with aclosing(reader.batches(start, ends[-1])) as batches:
            async for batch in batches:
                while first < len(parts) - 1 and parts[first][1] <= reached:
                    first += 1
                reached = max(reached, batch.header.next_offset)
                for number in range(first, len(parts)):
                    if parts[number][0] >= reached:
                        break
                    with batch.naming_errors():
                        totals[number] += await portions.finish(batch.digest(*parts[number], self._times))
        return totals


def _digest_in(answer: messages.DigestRecordsResponse) -> RangeDigest:
    return RangeDigest(
        answer.records,
        answer.first_offset,
        answer.last_offset,
        answer.least_timestamp,
        answer.largest_timestamp,
        answer.content_bytes,
        int.from_bytes(answer.fingerprint, "big"),
    )
