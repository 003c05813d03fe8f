"""Delays before retries: exponential backoff with jitter (KIP-144, KIP-580). Pure."""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_ms` after one failure, doubled with each further one in a row, at most `longest_ms`.

    `jitter` spreads the delays by that share to either side, so that clients which failed together do not come back together.
    """

    first_ms: float
    longest_ms: float
    jitter: float = 0.0

    def delay_ms(self, failures: int, chance: float = 0.5) -> float:
        """Return the wait after `failures` consecutive failures (0 for none); `chance` is uniform in [0, 1), the middle by default."""
        if failures <= 0:
            return 0.0
        exponential = self.first_ms * 2.0 ** min(failures - 1, _DOUBLINGS)
        spread = 1.0 + self.jitter * (2.0 * chance - 1.0)
        return min(exponential, self.longest_ms) * spread
