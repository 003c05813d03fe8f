"""How far the target's brokers have copied what they are to have, and what keeps a switch from happening. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafkalite.types import TopicPartition


class Positions:
    """The offsets that followers ask for next, and what the source said last of each partition."""

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, dict[int, int]] = {}
        self._bounds: dict[TopicPartition, tuple[int, int]] = {}
        self.broker_epochs: dict[int, int] = {}
        self.refused: dict[TopicPartition, str] = {}
        """Why nothing of a partition is given out."""
        self.highest_producer_id = -1

    def note_follower(self, place: TopicPartition, broker: int, broker_epoch: int, offset: int) -> None:
        """A follower asks for what is at `offset`: it has all before."""
        self._offsets.setdefault(place, {})[broker] = offset
        self.broker_epochs[broker] = broker_epoch

    def forget_followers(self) -> None:
        """Wait for followers to ask again before anything is said of them."""
        self._offsets.clear()

    def note_source(self, place: TopicPartition, log_start: int, high_watermark: int) -> None:
        """The source told where a partition begins and ends."""
        self._bounds[place] = log_start, high_watermark
        self.refused.pop(place, None)

    def bounds_of(self, place: TopicPartition) -> tuple[int, int] | None:
        """Return log start and high watermark as the source told them last."""
        return self._bounds.get(place)

    def offset_of(self, place: TopicPartition, broker: int) -> int:
        """Return the offset that a follower asked for last, -1 before it has."""
        return self._offsets.get(place, {}).get(broker, -1)

    def describe(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
        """Yield a row for each partition: where the source ends, how far the slowest follower is."""
        for place, brokers in sorted(targets.items()):
            slowest = min((self.offset_of(place, each) for each in brokers), default=-1)
            end = self._bounds.get(place, (-1, -1))[1]
            yield {
                "topic": place.topic,
                "partition": place.partition,
                "source_end": end,
                "copied_to": max(slowest, 0),
                "lag": None if end < 0 else max(0, end - max(slowest, 0)),
                "brokers": list(brokers),
                "problem": self.refused.get(place, ""),
            }


def find_obstacles(
    positions: Positions,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    ends: Mapping[TopicPartition, int],
    stable_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, str]:
    """Return what keeps partitions from being handed over. `ends` are the source's high watermarks, `stable_ends` its last stable offsets.

    Every follower becomes an in-sync replica at the switch, and any of them may be elected: each must have everything.
    """
    obstacles: dict[TopicPartition, str] = {}
    for place, brokers in sorted(targets.items()):
        end = ends.get(place, -1)
        behind = [each for each in brokers if positions.offset_of(place, each) != end]
        if place in positions.refused:
            obstacles[place] = positions.refused[place]
        elif end < 0:
            obstacles[place] = "the source does not tell where it ends"
        elif stable_ends.get(place, -1) < end:
            obstacles[place] = f"a transaction is open in the source since offset {stable_ends.get(place)}"
        elif behind:
            where = ", ".join(f"broker {each} at {max(positions.offset_of(place, each), 0)}" for each in behind)
            obstacles[place] = f"the source ends at offset {end}: {where}"
    return obstacles
