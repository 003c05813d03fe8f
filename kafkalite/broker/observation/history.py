"""Figures of the last hour for the plots of the status page: a point every ten seconds, in a ring that is allocated once (23 kB).

Made from counters that the parts have anyway, and from this broker's memory alone: nobody is asked. The lag is that of groups which
this broker coordinates, in partitions that have a replica here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.histogram import Histogram, quantile_s
from kafkalite.protocol.apis import ApiKey
from kafkalite.series import Series

if TYPE_CHECKING:
    from kafkalite.broker.observation.observed import Observed, Serving

EVERY_S: Final = 10.0
POINTS: Final = 360
FIGURES: Final = (
    "requests_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "produce_p99_ms",
    "other_p99_ms",
    "under_replicated",
    "lag",
)
_P99: Final = 0.99
_PORTION: Final = 2000
"""Offsets that are processed before other work of the event loop."""

Counts = list[int]
"""The number of durations in each bucket of a histogram."""


class History:
    """A series of `FIGURES` from `start` to `stop`. Latencies leave out fetches, which wait on purpose."""

    def __init__(self, broker: Observed) -> None:
        self._broker = broker
        self.series = Series(FIGURES, POINTS)
        self._timer: asyncio.TimerHandle | None = None
        self._before: tuple[float, dict[str, int], Counts, Counts] | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def to_dict(self) -> dict[str, Any]:
        """Return `times` in ms and `values` by name, the oldest first."""
        return self.series.to_dict()

    def _tick(self) -> None:
        self._broker.jobs.spawn(self.take_sample(), "figures of the last hour")
        self.start()

    async def take_sample(self) -> None:
        """Return one sample, with None for all figures while the broker is starting or stopping."""
        serving = self._broker.serving
        if serving is None:
            self._before = None
            self.series.append(self._broker.clock.now_ms(), {})
            return
        now_s = asyncio.get_running_loop().time()
        traffic = serving.parts.traffic.topics.values()
        totals = {
            "requests_per_s": _requests(serving),
            "bytes_in_per_s": sum(each.bytes_in for each in traffic),
            "bytes_out_per_s": sum(each.bytes_out for each in traffic),
        }
        produced, others = _latencies(serving.dispatcher.latencies)
        figures: dict[str, float | None] = {
            "under_replicated": float(serving.parts.replicas.statistics()["under_replicated"]),
            "lag": await _lag(serving),
        }
        if self._before is not None:
            before_s, old_totals, old_produced, old_others = self._before
            seconds = max(now_s - before_s, 1e-3)
            figures |= {name: (total - old_totals[name]) / seconds for name, total in totals.items()}
            figures["produce_p99_ms"] = _p99_ms(produced, old_produced)
            figures["other_p99_ms"] = _p99_ms(others, old_others)
        self._before = (now_s, totals, produced, others)
        self.series.append(self._broker.clock.now_ms(), figures)


def _requests(serving: Serving) -> int:
    dispatcher = serving.dispatcher
    return sum(each.count for each in dispatcher.latencies.values()) + dispatcher.follower_fetches.count


def _latencies(latencies: Mapping[int, Histogram]) -> tuple[Counts, Counts]:
    """Return the latencies of Produce, and of everything else but Fetch, since the start."""
    empty = Histogram().counts
    others = [each.counts for key, each in latencies.items() if key not in (ApiKey.PRODUCE, ApiKey.FETCH)]
    produced = latencies.get(ApiKey.PRODUCE)
    return list(produced.counts if produced else empty), [sum(column) for column in zip(empty, *others, strict=True)]


def _p99_ms(now: Sequence[int], before: Sequence[int]) -> float | None:
    found = quantile_s([new - old for new, old in zip(now, before, strict=True)], _P99)
    return None if found is None else found * 1000


async def _lag(serving: Serving) -> float | None:
    """Return the lag, None when this broker coordinates no group that has committed anything here."""
    partitions = serving.parts.replicas.partitions
    groups = [group for machine in serving.parts.groups.loaded_machines() for group in machine.groups.values()]
    total, is_known, looked_at = 0, False, 0
    for group in groups:
        for topic_partition, committed in list(group.offsets.items()):
            partition = partitions.get(topic_partition)
            if partition is not None:
                is_known = True
                total += max(0, partition.high_watermark - committed.offset)
            looked_at += 1
            if looked_at % _PORTION == 0:
                await asyncio.sleep(0)
    return float(total) if is_known else None
