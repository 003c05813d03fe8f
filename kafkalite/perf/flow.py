"""The figures of a measurement: latencies, flows of records, intervals, and the pace of a load. No I/O; time comes from a clock.

Latencies are kept as counts of values, exact to 10 us; when there are too many different ones they are rounded to 0.2 %, so that a
measurement of any length takes bounded memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.clock import Clock

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
MEGABYTE: Final = 1024 * 1024
_PER_MS: Final = 100
_EXACT_BITS: Final = 10
_MOST_VALUES: Final = 1 << 16
"""More than there are after rounding: 512 for each power of two."""
_LEAST_SLEEP_MS: Final = 2.0
"""Shorter waits would measure the timer instead of the throughput."""


class Latencies:
    """Durations in ms, for percentiles: counts of values, exact to 10 us until there are too many of them."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0

    def add(self, durations_ms: Sequence[float]) -> None:
        if not durations_ms:
            return
        self.count += len(durations_ms)
        self.total_ms += sum(durations_ms)
        self.max_ms = max(self.max_ms, max(durations_ms))
        self._counts.update([int(each * _PER_MS) for each in durations_ms])
        self._bound()

    def merge(self, others: Latencies) -> None:
        """Count those of `others`, too."""
        self.count += others.count
        self.total_ms += others.total_ms
        self.max_ms = max(self.max_ms, others.max_ms)
        self._counts.update(others._counts)
        self._bound()

    def _bound(self) -> None:
        if len(self._counts) > _MOST_VALUES:
            rounded: Counter[int] = Counter()
            for value, count in self._counts.items():
                rounded[_round_to_ten_bits(value)] += count
            self._counts = rounded

    @property
    def mean_ms(self) -> float:
        """Return the mean, 0 without durations."""
        return self.total_ms / self.count if self.count else 0.0

    def percentiles_ms(self, wanted: Iterable[float] = PERCENTILES) -> list[float]:
        """Return for each percentage the value that as many of the durations do not exceed; 0 without durations."""
        values = sorted(self._counts)
        if not values:
            return [0.0 for _ in wanted]
        sums = list(accumulate(self._counts[each] for each in values))
        return [values[min(bisect_left(sums, self.count * each / 100), len(values) - 1)] / _PER_MS for each in wanted]

    def to_dict(self) -> dict[str, float]:
        names = [f"p{each:g}_ms".replace(".", "") for each in PERCENTILES]
        shares = dict(zip(names, self.percentiles_ms(), strict=True))
        fields = {"mean_ms": self.mean_ms, **shares, "max_ms": self.max_ms}
        return {name: round(value, 3) for name, value in fields.items()}


def _round_to_ten_bits(value: int) -> int:
    """Return `value` with its first ten binary digits, the others zero."""
    shift = max(value.bit_length() - _EXACT_BITS, 0)
    return value >> shift << shift


@dataclass(slots=True)
class Flow:
    """Records, and bytes of their keys and values, between two moments in ms of the measuring clock."""

    began_ms: float
    ended_ms: float
    records: int = 0
    bytes: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    @property
    def elapsed_ms(self) -> float:
        return self.ended_ms - self.began_ms

    @property
    def records_per_s(self) -> float:
        """Return the rate, 0 while no time has passed."""
        return self.records * 1000 / self.elapsed_ms if self.elapsed_ms > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.bytes * 1000 / self.elapsed_ms if self.elapsed_ms > 0 else 0.0

    @property
    def mb_per_s(self) -> float:
        """Return the rate in units of 1024 * 1024 bytes, as in Kafka's tools."""
        return self.bytes_per_s / MEGABYTE

    def to_dict(self) -> dict[str, Any]:
        """Return all figures under stable names."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "elapsed_ms": round(self.elapsed_ms, 1),
            "records_per_s": round(self.records_per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
            "latency": self.latencies.to_dict(),
        }


Report = Callable[[Flow, Flow], None]
"""Called at the end of every interval with its flow, and with the flow since the start."""


class Meter:
    """Adds records to the total and to the current interval; `report` is called when an interval ends.

    The total has an interval's latencies only when it is over: counting them once is enough work for each record.
    """

    def __init__(self, clock: Clock, report: Report, interval_ms: float) -> None:
        self._clock, self._report, self._interval_ms = clock, report, interval_ms
        now_ms = clock.monotonic_ms()
        self.total = Flow(now_ms, now_ms)
        self._window = Flow(now_ms, now_ms)

    def add(self, records: int, size_bytes: int, durations_ms: Sequence[float]) -> None:
        now_ms = self._clock.monotonic_ms()
        for each in (self.total, self._window):
            each.records += records
            each.bytes += size_bytes
            each.ended_ms = now_ms
        self._window.latencies.add(durations_ms)
        self.tick(now_ms)

    def tick(self, now_ms: float) -> None:
        """Report when an interval has ended, also one without records."""
        if now_ms - self._window.began_ms >= self._interval_ms:
            self._window.ended_ms = now_ms
            window = self._next_window(now_ms)
            self._report(window, self.total)

    def finish(self) -> Flow:
        """Return the total, with the latencies of the unfinished interval."""
        self._next_window(self.total.ended_ms)
        return self.total

    def _next_window(self, now_ms: float) -> Flow:
        window, self._window = self._window, Flow(now_ms, now_ms)
        self.total.latencies.merge(window.latencies)
        return window


class Pace:
    """Limits a load to `per_s` records per second; a rate that is not positive does not limit."""

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s, self._clock = per_s, clock
        self._began_ms = clock.monotonic_ms()

    def ahead_ms(self, done: int) -> float:
        """Return how long to wait after `done` records; 0 when the wait would be too short."""
        if self._per_s <= 0:
            return 0.0
        ahead_ms = done * 1000 / self._per_s - (self._clock.monotonic_ms() - self._began_ms)
        return ahead_ms if ahead_ms >= _LEAST_SLEEP_MS else 0.0
