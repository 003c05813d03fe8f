"""Rates of bytes over a sliding window, measured as Apache Kafka's quotas measure them: samples of a fixed length, of which some are kept.

A rate is what the kept samples hold, divided by the time that they cover. Who has only just begun is not judged by a
window of a few milliseconds: client quotas assume that all samples but the current one have passed (`ClientRate`), replication
quotas one sample at least (`ReplicationRate`). Times are monotonic ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.config.broker import LiveConfig


class _Samples:
    """Bytes by sample; what is older than all samples together counts no more."""

    __slots__ = ("_samples", "count", "length_ms", "total")

    def __init__(self, count: int, length_ms: float) -> None:
        self.count, self.length_ms = count, length_ms
        self.total = 0
        self._samples: deque[list[float]] = deque()

    def add(self, size: int, now_ms: float) -> None:
        self.forget_old(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self.length_ms:
            samples.append([now_ms, 0])
        samples[-1][1] += size
        self.total += size

    def forget_old(self, now_ms: float) -> None:
        samples, oldest_ms = self._samples, now_ms - self.count * self.length_ms
        while samples and samples[0][0] <= oldest_ms:
            self.total -= int(samples.popleft()[1])

    def age_ms(self, now_ms: float) -> float:
        return now_ms - self._samples[0][0] if self._samples else 0.0


class ClientRate:
    """A client's rate. `count` samples of `length_ms` each: quota.window.num and quota.window.size.seconds."""

    __slots__ = ("_samples",)

    def __init__(self, count: int, length_ms: float) -> None:
        self._samples = _Samples(count, length_ms)

    def add(self, size: int, now_ms: float) -> None:
        """Count `size` bytes; a negative number takes back what was counted just before."""
        self._samples.add(size, now_ms)

    def is_idle(self, now_ms: float) -> bool:
        self._samples.forget_old(now_ms)
        return self._samples.total == 0

    def throttle_ms(self, bytes_per_s: float, now_ms: float) -> int:
        """Return the throttle time in ms after which the rate is down to the bound; 0 below it."""
        self._samples.forget_old(now_ms)
        window_ms = self._window_ms(now_ms)
        excess = self._samples.total - bytes_per_s * window_ms / 1000
        if excess <= 0:
            return 0
        return max(1, round(excess / max(bytes_per_s, 1e-3) * 1000))

    def _window_ms(self, now_ms: float) -> float:
        samples = self._samples
        age_ms = samples.age_ms(now_ms)
        missing = samples.count - 1 - int(age_ms / samples.length_ms)
        return max(1.0, age_ms + max(0, missing) * samples.length_ms)


class TokenBucket:
    """Tokens that come at a rate, at most as many as come in `burst_s`; full at first. Who finds some may take more, and leaves a debt."""

    __slots__ = ("_burst_s", "_tokens", "_updated_ms", "per_s")

    def __init__(self, per_s: float, burst_s: float, now_ms: float) -> None:
        self.per_s = per_s
        """May change at any time."""
        self._burst_s, self._updated_ms = burst_s, now_ms
        self._tokens = per_s * burst_s

    def count_tokens(self, now_ms: float) -> float:
        """Return the tokens that are left now; a negative number is a debt."""
        gained = self.per_s * (now_ms - self._updated_ms) / 1000
        self._tokens, self._updated_ms = min(self.per_s * self._burst_s, self._tokens + gained), now_ms
        return self._tokens

    def take(self, tokens: int) -> None:
        self._tokens -= tokens

    def is_full(self, now_ms: float) -> bool:
        return self.count_tokens(now_ms) >= self.per_s * self._burst_s


class ReplicationRate:
    """The rate of throttled replication on one side; `bound()` is what it may be now, in bytes a second."""

    __slots__ = ("_bound", "_samples")

    def __init__(self, count: int, length_ms: float, bound: Callable[[], float]) -> None:
        self._samples = _Samples(count, length_ms)
        self._bound = bound

    def add(self, size: int, now_ms: float) -> None:
        self._samples.add(size, now_ms)

    def exceeded_ms(self, now_ms: float) -> float:
        """Return the ms until the rate is within its bound if nothing is added; 0 when it is."""
        samples, bytes_per_s = self._samples, self._bound()
        samples.forget_old(now_ms)
        window_ms = max(samples.age_ms(now_ms), samples.length_ms)
        excess = samples.total - bytes_per_s * window_ms / 1000
        return excess / max(bytes_per_s, 1e-3) * 1000 if excess > 0 else 0.0

    def is_exceeded(self, now_ms: float) -> bool:
        return self.exceeded_ms(now_ms) > 0


def replication_rates(live: LiveConfig) -> tuple[ReplicationRate, ReplicationRate]:
    """Return the rates of what is sent to throttled followers and of what throttled replicas fetch, with their bounds (KIP-73)."""
    config = live.current
    count, length_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
    return (
        ReplicationRate(count, length_ms, lambda: live.current.leader_replication_throttled_rate),
        ReplicationRate(count, length_ms, lambda: live.current.follower_replication_throttled_rate),
    )


def is_throttled(throttled_replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """True if {leader,follower}.replication.throttled.replicas of a topic names this replica; `*` names all (KIP-73)."""
    return bool(throttled_replicas) and (
        f"{partition}:{broker_id}" in throttled_replicas or throttled_replicas == ("*",)
    )
