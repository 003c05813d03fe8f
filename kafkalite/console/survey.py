"""Polls the cluster every few seconds for lists, plots and the timeline, so that requests are answered from memory.

A round reads metadata and the ends of partitions, and every few rounds sizes and groups. However large the cluster is, polling takes no
more than a tenth of the time: the pause after a round is nine times as long as the round, from `EVERY_S` to `LONGEST_S`.

Memory is bounded: an hour of the cluster's figures, the same for the topics and groups that were viewed last, the newest changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.cluster_changes import Change, ClusterChanges, PartitionChange
from kafkalite.administration.cluster_health import min_insync_replicas
from kafkalite.client.errors import ClientError
from kafkalite.lifecycle import report, start_task
from kafkalite.series import Series
from kafkalite.types import NO_BROKER, TopicPartition
from zk.znodes.topics import PartitionState

if TYPE_CHECKING:
    from kafkalite.client import Admin, ClusterDescription, GroupListing, TopicDescription
    from kafkalite.clock import Clock

logger = logging.getLogger("kafkalite.console")

EVERY_S: Final = 5.0
LONGEST_S: Final = 30.0
"""Longest pause between rounds."""
_SHARE: Final = 9
"""Length of a pause in multiples of the round before it."""
_SLOW_ROUNDS: Final = 3
"""Sizes and groups are requested in one of so many rounds."""
POINTS: Final = 720
"""Rounds in an hour."""
WATCHED_TOPICS: Final = 200
WATCHED_GROUPS: Final = 100
CHANGES_KEPT: Final = 1000
_MOST_OF_A_TOPIC: Final = 6
_MOST_TOGETHER: Final = 200
"""Changes that one round adds to the timeline; further ones are counted."""
MOST_MINIMUMS: Final = 1000
"""Topics above which min.insync.replicas is not requested."""
_PORTION: Final = 500
"""Partitions whose ends are requested at once, so that brokers serve others in between."""
MOST_PARTITIONS: Final = 50_000
"""Partitions whose ends are requested; others have no rates."""


@dataclass(frozen=True, slots=True)
class TimedChange:
    """A change and when it was noticed; `more` like it were noticed at the same time, and are only counted."""

    time_ms: int
    change: Change
    more: int = 0

    def to_dict(self) -> dict[str, Any]:
        text = " ".join(str(self.change).split()) + (f", and {self.more} more" if self.more else "")
        return {"time_ms": self.time_ms, **self.change.to_dict(), "more": self.more, "text": text}


def fold_changes(time_ms: int, changes: Sequence[Change]) -> list[TimedChange]:
    """Return the changes of one round, with those of many partitions of a topic merged, and at most so many: one broker can lead
    everything.
    """
    groups: dict[Any, list[Change]] = {}
    for number, change in enumerate(changes):
        key = (change.event, change.topic_partition.topic) if isinstance(change, PartitionChange) else number
        groups.setdefault(key, []).append(change)
    found: list[TimedChange] = []
    for alike in groups.values():
        if len(alike) > _MOST_OF_A_TOPIC:
            found.append(TimedChange(time_ms, alike[0], len(alike) - 1))
        else:
            found += [TimedChange(time_ms, each) for each in alike]
    shown, rest = found[:_MOST_TOGETHER], found[_MOST_TOGETHER:]
    if rest:
        shown.append(replace(rest[0], more=sum(1 + each.more for each in rest) - 1))
    return shown


class Watched:
    """A series for each of the names that were requested last."""

    def __init__(self, figures: Sequence[str], most: int) -> None:
        self._figures, self._most = figures, most
        self._series: OrderedDict[str, Series] = OrderedDict()

    def names(self) -> list[str]:
        return list(self._series)

    def of(self, name: str) -> Series:
        """Return the series of a name, which is kept from now on. It may replace the one that was not requested for longest."""
        found = self._series.setdefault(name, Series(self._figures, POINTS))
        self._series.move_to_end(name)
        if len(self._series) > self._most:
            self._series.popitem(last=False)
        return found

    def fill(self, names: Sequence[str]) -> None:
        """Keep these too, as long as there is room."""
        for name in names:
            if len(self._series) >= self._most:
                return
            self._series.setdefault(name, Series(self._figures, POINTS))

    def append(self, time_ms: int, figures: Mapping[str, Mapping[str, float | None]]) -> None:
        for name, series in self._series.items():
            series.append(time_ms, figures.get(name, {}))


class Survey:
    """The last known state of the cluster; None and empty before the first round."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin, self._clock = admin, clock
        self.seen = asyncio.Event()
        """Set when the cluster was looked at, or could not be."""
        self.time_ms = 0
        self.problem: str | None = None
        """Why the last round failed."""
        self.cluster: ClusterDescription | None = None
        self.topics: dict[str, TopicDescription] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.sizes: dict[TopicPartition, dict[int, int]] = {}
        """Bytes by broker."""
        self.topic_bytes: dict[str, int] = {}
        """All replicas of a topic together."""
        self.rates: dict[str, float] = {}
        """Records a second by topic."""
        self.minimums: dict[str, int] = {}
        """min.insync.replicas by topic, of a cluster that has not too many."""
        self.groups: list[GroupListing] = []
        self.lags: dict[str, int | None] = {}
        self.history = Series(("records_per_s", "under_replicated", "offline", "bytes", "lag"), POINTS)
        self.watched_topics = Watched(("records_per_s", "bytes"), WATCHED_TOPICS)
        self.watched_groups = Watched(("lag",), WATCHED_GROUPS)
        self.changes: deque[TimedChange] = deque(maxlen=CHANGES_KEPT)
        self._cluster_changes = ClusterChanges()
        self.rounds = 0
        """How often the cluster was looked at."""
        self._task: asyncio.Task[None] | None = None
        self._ends_ms = 0
        self._is_current = False
        self._slow_problem: str | None = None
        """Of the last round that asked for all."""

    def start(self) -> None:
        self._task = start_task(self._run(), "survey")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            await self.run_round()
            took_s = loop.time() - begun_s
            is_known = self._is_current  # else the time went into waiting for who does not answer
            await asyncio.sleep(min(max(EVERY_S - took_s, _SHARE * took_s), LONGEST_S) if is_known else EVERY_S)

    async def run_round(self) -> None:
        """Run one round. What cannot be read stays as it was, and `problem` says why."""
        is_slow_round = self.rounds % _SLOW_ROUNDS == 0
        self._is_current = False
        slow_problems: list[str | None] = []
        found = await self._try_read(self._read_cluster)
        if found is None:
            found = await self._try_read(self._read_ends)
            self._is_current = found is None
            if is_slow_round:  # who may not see one of them may see the others
                for read in (self._read_sizes, self._read_minimums, self._read_groups):
                    slow_problems.append(await self._try_read(read))
                self._slow_problem = next((each for each in slow_problems if each is not None), None)
        self.problem = found or self._slow_problem
        self._note_figures()
        self.rounds += 1
        self.seen.set()

    async def _try_read(self, read: Callable[[], Awaitable[None]]) -> str | None:
        """Return why the cluster could not be read, None after success."""
        try:
            await read()
        except ClientError as problem:
            return str(problem)
        except Exception as problem:  # the next round may go well; whoever looks is to know
            report("a look at the cluster failed", problem)
            return repr(problem)
        return None

    async def _read_minimums(self) -> None:
        if len(self.topics) <= MOST_MINIMUMS:
            self.minimums = await min_insync_replicas(self._admin, self.topics)

    async def _read_cluster(self) -> None:
        self.cluster = await self._admin.describe_cluster()
        self.topics = {each.name: each for each in await self._admin.describe_topics()}
        self.time_ms = self._clock.now_ms()
        await self._take_changes(self.cluster)
        self.seen.set()

    async def _take_changes(self, cluster: ClusterDescription) -> None:
        """Add the differences to the round before to the timeline, in portions, so that other requests are served in between."""
        known = self._cluster_changes
        found: list[Change] = [*known.brokers_are(each.id for each in cluster.brokers)]
        found += known.controller_is(cluster.controller_id)
        gone = set(known.states)
        partitions = ((topic.name, each) for topic in self.topics.values() for each in topic.partitions)
        for number, (topic, each) in enumerate(partitions, 1):
            place = TopicPartition(topic, each.partition)
            state = PartitionState(each.leader, each.leader_epoch, each.isr, -1)
            gone.discard(place)
            if known.states.get(place) != state:
                found += known.state_is(place, state)
            if number % _PORTION == 0:
                await asyncio.sleep(0)
        for place in sorted(gone):
            found += known.state_is(place, None)
        known.all_known()
        self.changes.extend(fold_changes(self.time_ms, found))

    async def _read_ends(self) -> None:
        led = [
            TopicPartition(topic.name, each.partition)
            for topic in self.topics.values()
            for each in topic.partitions
            if each.leader != NO_BROKER
        ][:MOST_PARTITIONS]
        before, before_ms = self.ends, self._ends_ms
        ends: dict[TopicPartition, int] = {}
        for begin in range(0, len(led), _PORTION):
            asked = dict.fromkeys(led[begin : begin + _PORTION], "latest")
            found = await self._admin.list_offsets(asked, described=self.topics)
            ends |= {each: answer.offset for each, answer in found.items() if answer is not None}
        self.ends, self._ends_ms = ends, self._clock.now_ms()
        seconds = (self._ends_ms - before_ms) / 1000
        grown = dict.fromkeys(self.topics, 0)
        for each, end in self.ends.items():
            grown[each.topic] += max(0, end - before.get(each, end))
        self.rates = {topic: count / seconds for topic, count in grown.items()} if before_ms and seconds > 0 else {}

    async def _read_sizes(self) -> None:
        """Read the sizes. Raises the error of the last broker that failed, after those of the others were read."""
        failed: ClientError | None = None
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for broker in [each.id for each in self.cluster.brokers] if self.cluster else []:
            try:
                directories = (await self._admin.describe_log_dirs([broker]))[broker]
            except ClientError as problem:  # the sizes of the others are better than none
                failed = problem
                continue
            for replica in (each for directory in directories for each in directory.replicas if not each.is_future):
                sizes.setdefault(replica.topic_partition, {})[broker] = replica.size_bytes
        self.sizes, self.topic_bytes = sizes, {}
        for place, by_broker in sizes.items():
            self.topic_bytes[place.topic] = self.topic_bytes.get(place.topic, 0) + sum(by_broker.values())
        if failed is not None:
            raise failed

    async def _read_groups(self) -> None:
        self.groups = await self._admin.list_groups()
        self.watched_groups.fill([each.group_id for each in self.groups])
        here = {each.group_id for each in self.groups}
        self.lags = {name: await self._lag(name) for name in self.watched_groups.names() if name in here}
        self.watched_groups.append(self._clock.now_ms(), {name: {"lag": lag} for name, lag in self.lags.items()})

    async def _lag(self, group_id: str) -> int | None:
        try:
            committed = await self._admin.list_group_offsets(group_id)
        except ClientError:
            return None
        lags = [
            max(0, self.ends[place] - position.offset)
            for place, position in committed.items()
            if position is not None and place in self.ends
        ]
        return sum(lags) if lags else None

    def _note_figures(self) -> None:
        self.watched_topics.fill([name for name, topic in self.topics.items() if not topic.is_internal])
        partitions = [each for topic in self.topics.values() for each in topic.partitions]
        lags = [lag for lag in self.lags.values() if lag is not None]
        has_rates = self._is_current and bool(self.rates)
        figures = {
            "records_per_s": sum(self.rates.values()) if has_rates else None,
            "under_replicated": float(sum(each.under_replicated for each in partitions)),
            "offline": float(sum(each.leader == NO_BROKER for each in partitions)),
            "bytes": float(sum(self.topic_bytes.values())) if self.sizes else None,
            "lag": float(sum(lags)) if lags else None,
        }
        now_ms = self._clock.now_ms()
        self.history.append(now_ms, figures if self._is_current else {})
        watched = {
            name: {"records_per_s": self.rates.get(name) if has_rates else None, "bytes": self.topic_bytes.get(name)}
            for name in self.watched_topics.names()
        }
        self.watched_topics.append(now_ms, watched)
