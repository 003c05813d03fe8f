"""Asks the cluster for figures (ends of partitions, sizes, groups) for lists, plots and lags, apart from its state (`state_survey`).

Figures may take long: of ten thousand topics, or where a broker is slow. So each broker has a deadline of its own, those that do not answer
are left out, and polling takes no more than a tenth of the time: the pause after a round is nine times as long as the round, from `EVERY_S`
to `LONGEST_S`. What could not be read stays as it was, with its time.

Memory is bounded: an hour of the cluster's figures, the same for the topics and groups that were viewed last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalite.administration.cluster_health import min_insync_replicas
from kafkalite.client.errors import ClientError
from kafkalite.console.freshness import Moment, Part
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import Jobs, report
from kafkalite.series import Series
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, GroupListing, TopicDescription
    from kafkalite.clock import Clock
    from kafkalite.console.state_survey import StateSurvey

logger = logging.getLogger("kafkalite.console")

EVERY_S: Final = 5.0
LONGEST_S: Final = 30.0
"""Longest pause between rounds."""
_SHARE: Final = 9
"""Length of a pause in multiples of the round before it."""
SLOW_EVERY_S: Final = 15.0
"""Least pause between requests for sizes and groups."""
_DEADLINE_S: Final = 5.0
"""Time that one broker has for ends, and all of them for groups and settings."""
_LATE_ROUNDS: Final = 2.5
"""Pauses after which figures are late."""
POINTS: Final = 720
"""Rounds in an hour."""
WATCHED_TOPICS: Final = 200
WATCHED_GROUPS: Final = 100
MOST_MINIMUMS: Final = 1000
"""Topics above which min.insync.replicas is not requested."""
_PORTION: Final = 500
"""Partitions whose ends are requested at once, so that brokers serve others in between."""
MOST_PARTITIONS: Final = 50_000
"""Partitions whose ends are requested; others have no rates."""


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
    """The last known figures of the cluster; empty before the first round."""

    def __init__(self, admin: Admin, state: StateSurvey, clock: Clock) -> None:
        self._admin, self.state, self._clock = admin, state, clock
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
        self.topic_lags: dict[str, dict[str, int | None]] = {}
        """Lag by group and topic, of the groups whose lag is kept; None where an end is not known."""
        self.history = Series(("records_per_s", "under_replicated", "offline", "bytes", "lag"), POINTS)
        self.watched_topics = Watched(("records_per_s", "bytes"), WATCHED_TOPICS)
        self.watched_groups = Watched(("lag",), WATCHED_GROUPS)
        self.rounds = 0
        """Counts the points of `history`."""
        self._known: dict[str, Moment] = {}
        """When each kind of figure was read completely."""
        self._problems: dict[str, str | None] = {}
        self._ends_ms = 0.0
        self._pauses = {"records": EVERY_S, "sizes": SLOW_EVERY_S, "groups": SLOW_EVERY_S}
        self._has_records = asyncio.Event()
        self._prompts: dict[str, asyncio.Event] = {}
        self._jobs = Jobs()

    @property
    def topics(self) -> Mapping[str, TopicDescription]:
        """Return the topics of the state survey."""
        return self.state.topics

    def start(self) -> None:
        """Begin to ask."""
        self._jobs.spawn(self._repeat(self.read_records, EVERY_S, "records"), "figures: records")
        self._jobs.spawn(self._repeat(self.read_sizes, SLOW_EVERY_S, "sizes"), "figures: sizes")
        self._jobs.spawn(self._repeat(self.read_groups, SLOW_EVERY_S, "groups"), "figures: groups")

    async def close(self) -> None:
        await self._jobs.stop()

    async def _repeat(self, read: Callable[[], Awaitable[None]], every_s: float, name: str) -> None:
        loop = asyncio.get_running_loop()
        await self.state.seen.wait()
        if name == "groups":  # lags are made of ends
            await self._has_records.wait()
        while True:
            begun_s = loop.time()
            await read()
            took_s = loop.time() - begun_s
            is_complete = self._problems.get(name) is None  # else the time went into waiting for who does not answer
            pause_s = min(max(every_s - took_s, _SHARE * took_s), LONGEST_S) if is_complete else every_s
            self._pauses[name] = max(every_s, pause_s + took_s)
            prompt = self._prompts.setdefault(name, asyncio.Event())
            prompt.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await prompt.wait()

    def look_soon(self) -> None:
        """Read groups and sizes without waiting for their turn, as after a change."""
        for name in ("groups", "sizes"):
            if (prompt := self._prompts.get(name)) is not None:
                prompt.set()

    async def run_round(self) -> None:
        """Read everything once."""
        for read in (self.read_sizes, self.read_records, self.read_groups):
            await read()

    def parts(self, *names: str) -> list[Part]:
        """Return how old kinds of figures are: "records", "sizes", "groups"."""
        return [
            Part(name, self._known.get(name), _LATE_ROUNDS * 1000 * self._pauses[name], self._problems.get(name))
            for name in names
        ]

    @property
    def problem(self) -> str | None:
        """Return why some figures could not be read; None when all could."""
        return next((each for each in self._problems.values() if each is not None), None)

    async def _try_read(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        """Read figures, and note when they were known, or why they could not be read."""
        asked = Moment.now(self._clock)
        try:
            await read()
        except (ClientError, OSError) as problem:
            self._problems[name] = str(problem) or f"{name}: no answer in time"
        except Exception as problem:  # the next round may go well; whoever looks is to know
            report(f"reading {name} failed", problem)
            self._problems[name] = repr(problem)
        else:
            self._known[name], self._problems[name] = asked, None

    async def read_records(self) -> None:
        """Read the ends of partitions, and note a point of the plots."""
        await self._try_read("records", self._read_ends)
        self._has_records.set()
        self._note_figures()
        self.rounds += 1

    async def read_sizes(self) -> None:
        await self._try_read("sizes", self._read_sizes)

    async def read_groups(self) -> None:
        await self._try_read("minimums", self._read_minimums)
        await self._try_read("groups", self._read_groups)

    async def _read_minimums(self) -> None:
        if len(self.topics) <= MOST_MINIMUMS:
            async with asyncio.timeout(_DEADLINE_S):
                self.minimums = await min_insync_replicas(self._admin, self.topics)

    async def _read_ends(self) -> None:
        """Read the ends. Raises the error of the last leader that failed, after those of the others were read."""
        led: dict[int, list[TopicPartition]] = {}
        partitions = ((topic.name, each) for topic in self.topics.values() for each in topic.partitions)
        for number, (topic, each) in enumerate(partitions):
            if each.leader != NO_BROKER and number < MOST_PARTITIONS:
                led.setdefault(each.leader, []).append(TopicPartition(topic, each.partition))
        silent = self.state.silent_brokers()
        before, before_ms = self.ends, self._ends_ms
        answers = await asyncio.gather(
            *(self._read_ends_of(places) for leader, places in led.items() if leader not in silent)
        )
        found = {place: end for ends, _ in answers for place, end in ends.items()}
        self.ends = {
            place: end
            for places in led.values()
            for place in places
            if (end := found.get(place, before.get(place))) is not None
        }
        self._ends_ms = self._clock.monotonic_ms()
        seconds = (self._ends_ms - before_ms) / 1000
        grown, unknown = (
            dict.fromkeys(self.topics, 0),
            {place.topic for places in led.values() for place in places if place not in found},
        )
        for place, end in found.items():
            if place.topic in grown:
                grown[place.topic] += max(0, end - before.get(place, end))
        is_second = before_ms and seconds > 0
        self.rates = (
            {topic: count / seconds for topic, count in grown.items() if topic not in unknown} if is_second else {}
        )
        for broker in silent.keys() & led.keys():
            raise ClientError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} does not answer")
        for _, problem in answers:
            if problem is not None:
                raise problem

    async def _read_ends_of(
        self, places: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], ClientError | OSError | None]:
        """Return the ends of partitions of one leader, and the error that ended it before all were read."""
        ends: dict[TopicPartition, int] = {}
        try:
            async with asyncio.timeout(_DEADLINE_S):
                for begin in range(0, len(places), _PORTION):
                    asked = dict.fromkeys(places[begin : begin + _PORTION], "latest")
                    found = await self._admin.list_offsets(asked, described=self.topics)
                    ends |= {each: answer.offset for each, answer in found.items() if answer is not None}
        except (ClientError, OSError) as problem:
            return ends, problem
        return ends, None

    async def _read_sizes(self) -> None:
        """Read the sizes. Raises the error of the last broker that failed, after those of the others were read."""
        cluster = self.state.cluster
        brokers = [each.id for each in cluster.brokers] if cluster else []
        answers = await asyncio.gather(*(self._read_sizes_of(each) for each in brokers))
        failed: ClientError | OSError | None = None
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, ClientError | OSError):  # the sizes of the others are better than none
                failed = answer
                continue
            for place, size in answer.items():
                sizes.setdefault(place, {})[broker] = size
        self.sizes, self.topic_bytes = sizes, {}
        for place, by_broker in sizes.items():
            self.topic_bytes[place.topic] = self.topic_bytes.get(place.topic, 0) + sum(by_broker.values())
        if failed is not None:
            raise failed

    async def _read_sizes_of(self, broker: int) -> dict[TopicPartition, int] | ClientError | OSError:
        """Return the sizes of a broker's replicas, or why they could not be read."""
        if broker in self.state.silent_brokers():
            return ClientError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} does not answer")
        try:
            async with asyncio.timeout(_DEADLINE_S):
                directories = (await self._admin.describe_log_dirs([broker]))[broker]
        except TimeoutError:
            return TimeoutError(f"broker {broker} did not tell its sizes within {_DEADLINE_S:g} s")
        except (ClientError, OSError) as problem:
            return problem
        replicas = (each for directory in directories for each in directory.replicas if not each.is_future)
        return {each.topic_partition: each.size_bytes for each in replicas}

    async def _read_groups(self) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            self.groups = await self._admin.list_groups()
        self.watched_groups.fill([each.group_id for each in self.groups])
        here = {each.group_id for each in self.groups}
        committed = {name: await self._read_committed(name) for name in self.watched_groups.names() if name in here}
        self.topic_lags = {name: self._lags_by_topic(found) for name, found in committed.items()}
        self.lags = {
            name: sum(known) if (known := [lag for lag in lags.values() if lag is not None]) else None
            for name, lags in self.topic_lags.items()
        }
        self.watched_groups.append(self._clock.now_ms(), {name: {"lag": lag} for name, lag in self.lags.items()})

    async def _read_committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group; none where they cannot be read."""
        try:
            async with asyncio.timeout(_DEADLINE_S):
                found = await self._admin.list_group_offsets(group_id)
        except (ClientError, OSError):
            return {}
        return {place: position.offset for place, position in found.items() if position is not None}

    def _lags_by_topic(self, committed: Mapping[TopicPartition, int]) -> dict[str, int | None]:
        lags: dict[str, int | None] = {}
        for place, offset in committed.items():
            before = lags.setdefault(place.topic, None)
            if place in self.ends:
                lags[place.topic] = (before or 0) + max(0, self.ends[place] - offset)
        return lags

    def _note_figures(self) -> None:
        self.watched_topics.fill([name for name, topic in self.topics.items() if not topic.is_internal])
        partitions = [each for topic in self.topics.values() for each in topic.partitions]
        lags = [lag for lag in self.lags.values() if lag is not None]
        now = Moment.now(self._clock)
        has_rates = self._problems.get("records") is None and bool(self.rates)
        is_state_known = self.state.is_current()
        figures = {
            "records_per_s": sum(self.rates.values()) if has_rates else None,
            "under_replicated": float(sum(each.under_replicated for each in partitions)) if is_state_known else None,
            "offline": float(sum(each.leader == NO_BROKER for each in partitions)) if is_state_known else None,
            "bytes": float(sum(self.topic_bytes.values())) if self.sizes else None,
            "lag": float(sum(lags)) if lags else None,
        }
        self.history.append(now.time_ms, figures)
        watched = {
            name: {"records_per_s": self.rates.get(name), "bytes": self.topic_bytes.get(name)}
            for name in self.watched_topics.names()
        }
        self.watched_topics.append(now.time_ms, watched)
