"""The switch: all followers become in-sync replicas, which ends the reassignments, and the mirror leaves the target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.cli.mirror import copying, plan
from kafkalite.cli.mirror.administered.reading import read_administered
from kafkalite.cli.mirror.clusters import Clusters, read_ends
from kafkalite.cli.mirror.partition_epochs import begin
from kafkalite.cli.mirror.positions import Positions, find_obstacles
from kafkalite.client.errors import AdminError, error_name
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, topic_id_from_text

if TYPE_CHECKING:
    from kafkalite.cli.mirror.administered.state import Administered
    from kafkalite.cli.mirror.plan import MirroredTopic
    from kafkalite.cli.mirror.quorum import Quorum
    from kafkalite.cli.mirror.relay import Relay
    from kafkalite.client import Admin

_FREEZE_S: Final = 15.0
_LEADERS_S: Final = 30.0
_POLL_S: Final = 0.1


class Switch:
    """One attempt to hand everything over."""

    def __init__(self, clusters: Clusters, quorum: Quorum, relay: Relay, positions: Positions, mirror_id: int) -> None:
        self._clusters, self._quorum, self._relay, self._positions = clusters, quorum, relay, positions
        self._mirror_id = mirror_id

    async def hand_over(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        topics: Mapping[str, MirroredTopic],
        note_ends: Callable[[Mapping[TopicPartition, int]], None],
    ) -> list[str]:
        """Hand over all partitions; return what kept it from happening, though some may be handed over. Raises ClientError, OSError.

        `note_ends` gets the source's ends before the first partition is handed over, so that what comes later is found by whoever goes on.
        """
        self._relay.is_frozen = True
        try:
            ends, obstacles = await self._compare_frozen(targets)
            if obstacles:
                return [f"{place}: {why}" for place, why in sorted(obstacles.items())]
            note_ends(ends)
            failed = await self._alter(targets, topics)
            if failed:
                return [f"{place} was not handed over: {error_name(code)}" for place, code in sorted(failed.items())]
        finally:
            self._relay.is_frozen = False
        left = await self._wait_for_leaders(topics, targets)
        return [f"{each} is not known to be led by a broker of the target" for each in left]

    async def _compare_frozen(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Return the source's ends, and what stands against the switch once each follower has asked again and got nothing new."""
        self._positions.forget_followers()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _FREEZE_S
        while True:
            ends, stable_ends = await read_ends(self._clusters.source, targets)
            obstacles = find_obstacles(self._positions, targets, ends, stable_ends)
            if not obstacles or loop.time() > deadline_s:
                return ends, obstacles
            await asyncio.sleep(_POLL_S)

    async def _alter(
        self, targets: Mapping[TopicPartition, tuple[int, ...]], topics: Mapping[str, MirroredTopic]
    ) -> dict[TopicPartition, int]:
        """Return the error codes of partitions that were not handed over."""
        current = await copying.read_topics(self._clusters.target, topics)
        handed_over = [
            begin(place, topic_id_from_text(topic.topic_id), each.leader_epoch, targets[place])
            for topic in current.values()
            for each in topic.partitions
            if (place := TopicPartition(topic.name, each.partition)) in targets and each.leader == self._mirror_id
        ]
        return await self._quorum.hand_over(handed_over, self._positions.broker_epochs)

    async def _wait_for_leaders(
        self, topics: Mapping[str, MirroredTopic], targets: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions that the mirror still has a replica of, and those of topics that are not shown, when the time is over."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _LEADERS_S
        while True:
            current = await copying.read_topics(self._clusters.target, topics)
            left = [place for place, _, _ in plan.find_targets(current.values(), self._mirror_id, ())]
            left += [place for place in targets if place.topic not in current]
            if not left or loop.time() > deadline_s:
                return left
            await asyncio.sleep(_POLL_S)

    async def read_target(self, topics: Collection[str]) -> Administered:
        """Return what administrators have set in the target, with the settings that `restore_settings` gives to topics. Raises ClientError,
        OSError.
        """
        source = await copying.read_topics(self._clusters.source, topics)
        found = await read_administered(self._clusters.target, self._clusters.target_cluster)
        released = {
            name: replace(
                found.topics[name], settings=plan.release_settings(each.settings, found.topics[name].settings)
            )
            for name, each in source.items()
            if name in found.topics
        }
        return replace(found, topics={**found.topics, **released})

    async def restore_settings(self, topics: Collection[str]) -> list[str]:
        """Give topics the settings that they have in the source, in place of those that were held; return the problems.

        Others stay: administrators of the target may have changed them since the switch began.
        """
        from kafkalite.client import ConfigChange, ConfigResource

        source = await copying.read_topics(self._clusters.source, topics)
        target = await copying.read_topics(self._clusters.target, topics)
        changes: dict[ConfigResource, list[ConfigChange]] = {}
        for name in source.keys() & target.keys():
            there = target[name].settings
            differing = plan.compare_settings(plan.release_settings(source[name].settings, there), there)
            changes[ConfigResource("topic", name)] = [
                ConfigChange(key, "delete" if value is None else "set", value) for key, value in differing.items()
            ]
        try:
            await self._clusters.target.incremental_alter_configs({key: some for key, some in changes.items() if some})
        except AdminError as problem:
            return [str(each) for each in problem.failures.values()]
        return []

    async def leave(self) -> None:
        """End the session and take the mirror's registration out of the metadata. Raises ClientError, OSError."""
        await self._quorum.send_heartbeat(shut_down=True)
        await self._clusters.target_cluster.request_any(messages.UnregisterBrokerRequest(broker_id=self._mirror_id))


async def find_late_records(source: Admin, ends: Mapping[TopicPartition, int]) -> list[str]:
    """Return what came into the source after partitions were handed over at these ends: it is not in the target. Raises ClientError."""
    now = (await read_ends(source, ends))[0] if ends else {}
    return [
        f"{place}: the source went on to offset {end} after the switch at {ends[place]}"
        for place, end in sorted(now.items())
        if end != ends[place]
    ]
