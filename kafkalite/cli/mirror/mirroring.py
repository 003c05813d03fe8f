"""The mirror at work: it keeps its session with the target's controllers, keeps the target's topics like the source's, tells how far it is,
and hands over when it is asked to.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror import copying, plan, producer_ids
from kafkalite.cli.mirror.absence import find_unknown
from kafkalite.cli.mirror.administered.state import AtSwitch
from kafkalite.cli.mirror.clusters import Clusters, read_ends
from kafkalite.cli.mirror.evacuation import Evacuation
from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
from kafkalite.cli.mirror.plan import KnownTopic, MirroredTopic, TopicPlan
from kafkalite.cli.mirror.positions import Positions, find_obstacles
from kafkalite.cli.mirror.relay import Relay
from kafkalite.cli.mirror.switching import Switch, find_late_records
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.types import TopicPartition, topic_id_from_text

if TYPE_CHECKING:
    from kafkalite.cli.mirror.quorum import Quorum

log = logging.getLogger("kafkalite.mirror")

_HEARTBEAT_S: Final = 1.0
_POLL_S: Final = 0.2
_EVACUATION_S: Final = 1.0
"""Between two looks for topics of others that were placed at the mirror: their producers wait so long."""
_EMPTY_S: Final = 30.0
_EVACUATION_PAUSES: Final = 20
"""Pauses are so many times as long as looks: of a target with many topics these take a while."""
_FENCINGS_AT_ONCE: Final = 200
"""Between two looks at the clusters; each takes two commits of the controllers."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator wants: `topics` (none: all), how many replicas, and how often both clusters are compared."""

    topics: Collection[str]
    replication_factor: int | None
    interval_s: float


class Mirror:
    """One mirror, from its registration to the switch."""

    def __init__(
        self, directory: MirrorDirectory, state: MirrorState, clusters: Clusters, quorum: Quorum, wanted: Wanted
    ) -> None:
        self._directory, self._state, self._clusters, self._quorum = directory, state, clusters, quorum
        self._wanted = wanted
        self.positions = Positions()
        self.positions.highest_producer_id = state.highest_producer_id
        self.relay = Relay(clusters.source_cluster, self.positions, self._is_broker)
        self.find_notes: Callable[[], list[str]] = list
        """Says what the listener has met with."""
        self._evacuation = Evacuation(clusters, quorum, self.relay, self.positions, state.broker_id)
        self._targets: dict[TopicPartition, tuple[int, ...]] = {}
        self._followers: set[int] = set()
        self._topics: dict[str, MirroredTopic] = {}
        self._begun: list[str] = []
        self._copied: copying.GroupOffsets = {}
        self._phase = "starting"
        self._problems: list[str] = []
        self._late_records: list[str] = []
        """Of partitions that a switch has handed over, though it is not finished."""
        self._notes: list[str] = []
        self._obstacles: list[str] = []

    async def run(self) -> list[str]:
        """Mirror until the switch; return what is wrong after it. Raises ClientError when the target does not take the mirror."""
        await self._quorum.register(self._state.target_cluster)
        await self._quorum.send_heartbeat()
        beating = asyncio.create_task(self._beat(), name="kafkalite-mirror-heartbeats")
        try:
            while True:
                is_switched = await self._compare()
                if is_switched:
                    return self._problems
                self._tell()
                await self._pause()
        finally:
            beating.cancel()
            self._tell()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            try:
                await self._quorum.send_heartbeat()
            except (OSError, ClientError) as problem:
                log.warning("no heartbeat: %s", problem)
            self._tell()

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + (self._wanted.interval_s if self._phase == "mirroring" else _POLL_S)
        wants_switch = self._directory.switch_wanted
        evacuation_s = loop.time() + _EVACUATION_S
        while loop.time() < deadline_s and self._directory.switch_wanted == wants_switch:
            await asyncio.sleep(_POLL_S)
            if (began_s := loop.time()) >= evacuation_s:
                await self._evacuate()
                took_s = loop.time() - began_s
                evacuation_s = loop.time() + max(_EVACUATION_S, _EVACUATION_PAUSES * took_s)

    async def _evacuate(self) -> None:
        try:
            await self._evacuation.move_on(self._state.topics)
        except (OSError, ClientError) as problem:
            log.warning("topics of others are not moved from the mirror: %s", problem)

    async def _compare(self) -> bool:
        """Look at both clusters and do what is to be done; True after the switch."""
        try:
            await self._evacuate()
            todo = await self._copy_topics()
            self._late_records = await find_late_records(self._clusters.source, self._find_handed_over())
            await self._copy_the_rest()
            if self._phase != "mirroring":
                self._obstacles = ["topics are being made in the target"]
                return False
            self._obstacles = await self._find_obstacles(todo)
            if self._directory.switch_wanted and not self._obstacles:
                return await self._switch()
        except (OSError, ClientError) as problem:
            log.warning("%s", problem)
            self._problems = [str(problem)]
            self._obstacles = [str(problem)]
        return False

    def _is_broker(self, replica: int) -> bool:
        """True for the id of a broker of the target that is there, or is to follow."""
        is_there = replica in self._clusters.target_cluster.view.brokers and replica != self._state.broker_id
        return is_there or replica in self._followers

    def _find_handed_over(self) -> dict[TopicPartition, int]:
        """Return the partitions that an unfinished switch has handed over, and where the source ended then."""
        return {
            place: end
            for place, end in self._state.list_ends().items()
            if place.topic in self._begun and place not in self._targets
        }

    async def _read_at_switch(self, switch: Switch) -> AtSwitch | None:
        """Return what the target has before the first partition is handed over, None if it is noted already: administrators may have
        changed it since an interrupted switch began.
        """
        if self._find_handed_over() and self._directory.read_at_switch() is not None:
            return None
        return AtSwitch(await switch.read_target(self._begun))

    def _note_begin(self, at_switch: AtSwitch | None, ends: Mapping[TopicPartition, int]) -> None:
        """Write down what has to be known after the first partition is handed over."""
        if at_switch is not None:
            self._directory.write_at_switch(at_switch)
        self._state.note_ends(ends)
        self._directory.write_state(self._state)

    async def _copy_topics(self) -> TopicPlan:
        clusters, mirror_id = self._clusters, self._state.broker_id
        await clusters.source_cluster.refresh()
        await clusters.target_cluster.refresh()
        names, absent_names = await copying.choose_topics(clusters.source, self._wanted.topics)
        source = await copying.read_topics(clusters.source, names)
        target = await copying.read_topics(clusters.target, {*names, *self._state.topics})
        known = self._state.topics.keys()
        unknown = await find_unknown(clusters.source_cluster, "source", (known | {*absent_names}) - source.keys())
        unknown |= await find_unknown(clusters.target_cluster, "target", known - target.keys())
        view = clusters.target_cluster.view
        brokers = {node.id: node.rack for node in view.brokers.values() if node.id != mirror_id}
        replicas = self._wanted.replication_factor
        todo = plan.plan_topics(source, target, self._state.topics, mirror_id, brokers, replicas, unknown)
        self._problems = [f"topic {name} {why}" for name, why in sorted(todo.problems.items())]
        self._problems += [
            f"topic {name} of --topic is not in the source" for name in absent_names if name not in todo.problems
        ]
        self._adopt(todo, source, target)
        mirrored = [target[name] for name in todo.mirrored]
        self._topics = {each.name: each for each in mirrored}
        self._begun = [*todo.mirrored, *todo.handed_over]
        self.relay.names = {topic_id_from_text(each.topic_id): each.name for each in mirrored}
        self._targets = {}
        absent: set[int] = set()
        for place, followers, missing in plan.find_targets(mirrored, mirror_id, brokers):
            self._targets[place] = followers
            absent.update(missing)
        self._followers = {each for some in self._targets.values() for each in some}
        self._problems += [f"broker {each} of the target is not there" for each in sorted(absent)]
        is_new = await self._carry_out(todo, source, brokers)
        fencings = plan.count_fencings(self._find_needed_epochs(source[name] for name in todo.mirrored), mirrored)
        if fencings:
            await self._quorum.raise_epochs(min(fencings, _FENCINGS_AT_ONCE))
        self._phase = "starting" if is_new or fencings else "mirroring"
        return todo

    def _find_needed_epochs(self, source: Iterable[MirroredTopic]) -> dict[TopicPartition, int]:
        """Return the leader epochs of the source, without those of partitions that are handed over: no fencing raises theirs."""
        return {place: epoch for place, epoch in plan.source_epochs(source).items() if place in self._targets}

    def _adopt(self, todo: TopicPlan, source: Mapping[str, MirroredTopic], target: Mapping[str, MirroredTopic]) -> None:
        """Write down what is begun before it is, and the ids in the target as soon as they are known."""
        before = dict(self._state.topics)
        for name in todo.creations:
            self._state.topics[name] = KnownTopic(source[name].topic_id)
        for name in todo.mirrored:
            self._state.topics[name] = replace(self._state.topics[name], target_id=target[name].topic_id)
        if before != self._state.topics or self.positions.highest_producer_id != self._state.highest_producer_id:
            self._state.highest_producer_id = self.positions.highest_producer_id
            self._directory.write_state(self._state)

    async def _carry_out(
        self, todo: TopicPlan, source: Mapping[str, MirroredTopic], brokers: Mapping[int, str | None]
    ) -> bool:
        """Make topics and partitions that only the mirror has, begin reassignments, set settings; True if something was made."""
        from kafkalite.client import ConfigChange, ConfigResource, NewPartitions, NewTopic

        target, mirror_id = self._clusters.target, self._state.broker_id
        if not brokers:
            self._problems.append("the target has no broker but the mirror")
            return True
        made = False
        for name, count in todo.creations.items():
            settings = {**plan.wanted_settings(source[name]), **plan.HELD_SETTINGS}
            new = NewTopic(
                name, replica_assignments={each: [mirror_id] for each in range(count)}, topic_configs=settings
            )
            made |= await self._attempt(target.create_topics([new]))
        for name, (there, wanted) in todo.additions.items():
            more = NewPartitions(wanted, [[mirror_id]] * (wanted - there))
            made |= await self._attempt(target.create_partitions({name: more}))
        if todo.moves:
            made |= await self._attempt(target.alter_partition_reassignments(todo.moves))
        is_led = bool(self._find_handed_over())  # its administrators' changes stay, but for what is held
        for name, changes in todo.settings.items():
            some = [
                ConfigChange(key, "delete" if value is None else "set", value)
                for key, value in changes.items()
                if key in plan.HELD_SETTINGS or not is_led
            ]
            await self._attempt(target.incremental_alter_configs({ConfigResource("topic", name): some}))
        return made

    async def _attempt(self, call: Any) -> bool:
        try:
            await call
        except AdminError as problem:
            self._problems += [str(each) for each in problem.failures.values()]
            return False
        return True

    async def _copy_the_rest(self) -> None:
        source, target = self._clusters.source, self._clusters.target
        failed = await copying.copy_group_offsets(
            source, target, lambda place: place.topic in self._topics, self._copied
        )
        self._problems += failed.values()
        if not self._find_handed_over():  # else the target leads, and what its administrators change there stays
            cluster = self._clusters.source_cluster
            self._problems += await copying.copy_acls(cluster, self._clusters.target_cluster, target)
            self._problems += await copying.copy_quotas(source, target)
        self._notes = await copying.find_uncopied_users(source, target)

    async def _find_obstacles(self, todo: TopicPlan) -> list[str]:
        """Return what keeps the switch from happening now."""
        ends, stable_ends = await read_ends(self._clusters.source, self._targets)
        found = find_obstacles(self.positions, self._targets, ends, stable_ends)
        names = set(todo.creations) | set(todo.additions)
        return [
            *self._problems,
            *(["the controllers of the target have fenced the mirror"] if self._quorum.is_fenced else []),
            *(f"topic {name} is not complete in the target" for name in sorted(names)),
            *(
                f"topic {name} of the target is being moved from the mirror to brokers"
                for name in self._evacuation.left
            ),
            *(f"{place}: {why}" for place, why in sorted(found.items())),
        ]

    async def _switch(self) -> bool:
        self._phase = "switching"
        self._tell()
        switch = Switch(self._clusters, self._quorum, self.relay, self.positions, self._state.broker_id)
        highest = await producer_ids.find_highest(self._clusters.source, self._targets)
        highest = max(highest, self.positions.highest_producer_id)
        others = set(self._clusters.target_cluster.view.brokers) - {self._state.broker_id}
        await producer_ids.reserve(self._quorum, self._clusters.target_cluster, self._followers | others, highest)
        if not self._directory.switch_wanted:  # who asked did not wait for so long
            self._phase = "mirroring"
            return False
        at_switch = await self._read_at_switch(switch)
        self._obstacles = await switch.hand_over(
            self._targets, self._topics, lambda ends: self._note_begin(at_switch, ends)
        )
        if self._obstacles:
            self._phase = "mirroring"
            return False
        self._targets = {}
        late_records = await find_late_records(self._clusters.source, self._find_handed_over())
        self._problems = late_records + await switch.restore_settings(self._begun)
        await self._leave_others(switch)
        self._phase, self._late_records = "switched", []
        self._tell()  # before the state says that all is done: nobody compares the ends again then
        self._state.is_switched = True
        self._directory.write_state(self._state)
        self._directory.withdraw_switch()
        return True

    async def _leave_others(self, switch: Switch) -> None:
        """Leave the target once nothing of others is at the mirror; name what was placed there in the last moment."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _EMPTY_S
        await self._evacuate()
        while self._evacuation.left and loop.time() < deadline_s:
            await asyncio.sleep(_POLL_S)
            await self._evacuate()
        await switch.leave()
        await self._evacuate()
        self._problems += [
            f"topic {name} of the target was placed at the mirror when it left; make it again if it has no leader"
            for name in self._evacuation.left
        ]

    def _tell(self) -> None:
        rows = list(self.positions.describe(self._targets))
        self._directory.write_status(
            {
                "time_ms": int(time.time() * 1000),
                "phase": self._phase,
                "is_fenced": self._quorum.is_fenced,
                "topics": len(self._topics),
                "groups": len({group for group, _ in self._copied}),
                "problems": self._problems + self._late_records,
                "handed_over": 0 if self._phase == "switched" else len(self._find_handed_over()),
                "notes": self._notes + self.find_notes(),
                "obstacles": self._obstacles,
                "partitions": rows,
            }
        )
