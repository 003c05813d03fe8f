"""Power failures of transcripts: what is left of what was not synced is said, and not drawn."""

from __future__ import annotations

from typing import Final

from kafkalite.testing.simulation.memory_disk import HOLES


class Share:
    """Instead of chance: always the same share of what there is."""

    def __init__(self, share: float) -> None:
        self._share = share

    def randint(self, a: int, b: int, /) -> int:
        return a + int((b - a) * self._share)


class Holes(Share):
    """Half, and what is not there of the next write reads as zeros."""

    def randint(self, a: int, b: int, /) -> int:
        return b if (a, b) == (0, HOLES) else super().randint(a, b)


KEPT: Final = {"none": Share(0.0), "half": Share(0.5), "holes": Holes(0.5)}
"""What a power failure leaves of what was not synced."""
