"""The state of the cluster (brokers, controller, leaders, ISRs), asked for about once a second and apart from everything else.

Every source is asked by a task of its own, so none waits for another: ZooKeeper, each broker for the members that it knows, and one broker
for all topics. For these the brokers are asked in turn, the controller first: the next one when an answer takes long, fails, or differs
from the members that are known otherwise. A broker that hangs or is slow costs nothing but its own row.

What cannot be asked for stays as it was, with its time. While nobody looks, the cluster is asked every `IDLE_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.administration.cluster_changes import Change, ClusterChanges
from kafkalite.client import ClusterDescription
from kafkalite.client.errors import ClientError
from kafkalite.console.asking import ask_in_turn
from kafkalite.console.changes import Changes, time_broker_changes
from kafkalite.console.freshness import Moment, Part
from kafkalite.console.membership import (
    ANSWER_MS,
    LATE_MS,
    RECENT_MS,
    SILENT,
    SLOW,
    UP,
    Contact,
    Members,
    Registered,
    Told,
    agrees,
    choose_members,
    order_for_topics,
)
from kafkalite.console.topic_states import TopicStates
from kafkalite.lifecycle import Jobs, report
from kafkalite.types import NO_BROKER
from zk.store import StoreError

if TYPE_CHECKING:
    from kafkalite.client import BrokerNode, TopicDescription
    from kafkalite.clock import Clock
    from kafkalite.console.state_sources import BrokerSource, ZooKeeperSource

LOOK_S: Final = 0.75
"""Pause between two requests to the same source."""
IDLE_S: Final = 5.0
IDLE_AFTER_S: Final = 60.0
"""Time without a request of a page after which the cluster is asked less often."""
FIRST_LOOK_S: Final = 30.0
"""Longest wait of a request for the first look."""
_LEAST_PAUSE_S: Final = 0.05
_CHANGE_S: Final = 3.0
"""Longest wait of an action until brokers tell that it was done."""
_WORDS: Final = {SILENT: "does not answer", SLOW: "is slow"}
_TOPICS_SHARE: Final = 4
"""Length of a pause between two looks at all topics in multiples of the first one; with at most `_LONGEST_TOPICS_PAUSE_S`."""
_LONGEST_TOPICS_PAUSE_S: Final = 1.5
_NEXT_BROKER_S: Final = 0.5
"""Wait for the topics of one broker until the next one is asked, too; three times as long as the last look took, where that is longer."""
_TOPICS_DEADLINE_S: Final = 2.0
_SLOW_FOR_MS: Final = 10_000
"""Time for which a broker that was slow to tell the topics is asked after the others."""


class StateSurvey:
    """The last known state of the cluster. `members` is None, and `topics` are empty, before they were told for the first time."""

    def __init__(
        self,
        brokers: BrokerSource,
        zookeeper: ZooKeeperSource | None,
        clock: Clock,
        zookeeper_problem: str | None = None,
    ) -> None:
        self._brokers, self._zookeeper, self._clock = brokers, zookeeper, clock
        self.seen = asyncio.Event()
        """Set when the cluster was looked at, or could not be."""
        self.contacts: dict[int, Contact] = {}
        self.registered: Registered | None = None
        self.zookeeper_problem = zookeeper_problem
        """Why ZooKeeper did not answer the last time; None when it did, and without an address of it."""
        self.members: Members | None = None
        self.topics_known: Moment | None = None
        self.changes = Changes()
        self.version = 0
        """Counts the answers."""
        self._topics_problem: str | None = None
        self._no_broker_problem: str | None = None
        self._took_s = 0.0
        self._known = ClusterChanges()
        self._topic_states = TopicStates(self._known, self.changes, zookeeper, clock)
        self._epochs: dict[int, int] = {}
        self._jobs = Jobs()
        self._prompts: dict[str, asyncio.Event] = {}
        self._broker_tasks: dict[int, asyncio.Task[None]] = {}
        self._asked_ms = clock.monotonic_ms()
        self._woken_ms = -LATE_MS * 1.0
        """When a page asked again after a time in which none did."""
        self._is_running = False

    # life

    def start(self) -> None:
        """Begin to ask all sources."""
        self._is_running = True
        if self._zookeeper is not None:
            self._jobs.spawn(self._repeat("zookeeper", self._ask_zookeeper), "state: ZooKeeper")
        self._jobs.spawn(self._repeat("servers", self._ask_servers), "state: bootstrap servers")
        self._jobs.spawn(self._repeat("topics", self._ask_topics), "state: topics")

    async def close(self) -> None:
        self._is_running = False
        await self._jobs.stop()
        await self._brokers.close()

    async def look(self) -> None:
        """Ask all sources once."""
        await self._ask_servers()
        if self._zookeeper is not None:
            await self._ask_zookeeper()
        await asyncio.gather(*(self._ask_broker(each) for each in list(self.contacts)))
        await self._ask_servers()
        await self._ask_topics()

    async def wait_fresh(self) -> None:
        """Wait for the first look; after a time in which nobody looked, for a new one. Raises TimeoutError."""
        now_ms = self._clock.monotonic_ms()
        was_idle, self._asked_ms = self._is_idle(now_ms), now_ms
        if not self.seen.is_set():
            async with asyncio.timeout(FIRST_LOOK_S):
                await self.seen.wait()
        elif was_idle and self._is_running:
            self._woken_ms = now_ms
            self.look_soon()
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_MS / 1000):
                    while not self._has_looked_since(now_ms):
                        await asyncio.sleep(_LEAST_PAUSE_S)

    def _has_looked_since(self, since_ms: float) -> bool:
        return (
            self.members is not None
            and self.topics_known is not None
            and min(self.members.at_ms, self.topics_known.monotonic_ms) >= since_ms
        )

    async def wait_for_topics(self, condition: Callable[[Mapping[str, TopicDescription]], bool]) -> None:
        """Look at once, and return when the topics meet a condition; after `_CHANGE_S` all the same."""
        if not self._is_running:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHANGE_S):
                while True:
                    self.look_soon()
                    await asyncio.sleep(2 * _LEAST_PAUSE_S)
                    if condition(self.topics):
                        return

    def look_soon(self) -> None:
        """Ask all sources without waiting for their turn, as after a change."""
        for prompt in self._prompts.values():
            prompt.set()

    def _recent_ms(self, now_ms: float) -> float:
        """Return the age up to which answers decide: longer while they are seldom asked for, and until all have been asked for again."""
        is_seldom = self._is_idle(now_ms) or now_ms - self._woken_ms < LATE_MS
        return RECENT_MS + (IDLE_S * 1000 if is_seldom else 0)

    def is_current(self) -> bool:
        """True if members and topics are as recent as they can be at the pace of the survey."""
        now_ms = self._clock.monotonic_ms()
        return self._has_looked_since(now_ms - self._recent_ms(now_ms) - self._topics_limit_ms())

    def _is_idle(self, now_ms: float) -> bool:
        return now_ms - self._asked_ms > IDLE_AFTER_S * 1000

    async def _repeat(self, name: str, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask again and again; earlier than planned when the source is prompted."""
        prompt = self._prompts[name] = asyncio.Event()
        while True:
            prompt.clear()
            try:
                await ask()
            except Exception as problem:  # the next one may go well
                report(f"a look at the state of the cluster failed ({name})", problem)
            pause_s = IDLE_S if self._is_idle(self._clock.monotonic_ms()) else LOOK_S
            if name == "topics":
                pause_s = max(pause_s, self._topics_pause_s())
            await asyncio.sleep(_LEAST_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s - _LEAST_PAUSE_S):
                    await prompt.wait()

    def _topics_pause_s(self) -> float:
        return max(LOOK_S, min(_TOPICS_SHARE * self._took_s, _LONGEST_TOPICS_PAUSE_S))

    def _topics_limit_ms(self) -> float:
        return max(LATE_MS, 2_000 * (self._topics_pause_s() + self._took_s) + 1_000)

    def _prompt(self, name: str) -> None:
        if (prompt := self._prompts.get(name)) is not None:
            prompt.set()

    # what is known

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """Return the topics by name, as a broker told them last."""
        return self._topic_states.topics

    @property
    def cluster(self) -> ClusterDescription | None:
        """Return the brokers that are there and the controller; None before anybody told them."""
        if self.members is None:
            return None
        return ClusterDescription(
            self.members.cluster_id, self.members.controller_id, tuple(self.members.brokers.values())
        )

    @property
    def has_zookeeper(self) -> bool:
        """True if somebody said where ZooKeeper is."""
        return self._zookeeper is not None or self.zookeeper_problem is not None

    def silent_brokers(self) -> dict[int, Contact]:
        """Return the brokers that do not answer, of those that are there."""
        now_ms = self._clock.monotonic_ms()
        return {broker: each for broker, each in self.contacts.items() if each.state(now_ms) == SILENT}

    def is_unanswering(self, broker: int) -> bool:
        """True if a leader does not answer, or is not there any more."""
        if broker == NO_BROKER or self.members is None:
            return False
        contact = self.contacts.get(broker)
        is_silent = contact is not None and contact.state(self._clock.monotonic_ms()) == SILENT
        return is_silent or broker not in self.members.brokers

    def broker_state(self, broker: int) -> tuple[str, str | None, int | None]:
        """Return "up", "slow", "silent", "unknown" or "down", the reason, and since when (ms since 1970) a silent one is."""
        if self.members is None or broker not in self.members.brokers:
            return "down", None, None
        contact = self.contacts.get(broker)
        if contact is None:
            return "unknown", "no broker tells its address", None
        now_ms = self._clock.monotonic_ms()
        state, since_ms = contact.state(now_ms), contact.silent_since_ms
        if since_ms is None and contact.asked_ms is not None:
            since_ms = self._moment(contact.asked_ms).time_ms
        return state, contact.why_silent(now_ms), since_ms if state == SILENT else None

    def describe_unanswering(self) -> list[str]:
        """Return a sentence for each broker that does not answer or answers slowly."""
        brokers = sorted(self.members.brokers) if self.members is not None else []
        states = {broker: self.broker_state(broker)[0] for broker in brokers}
        return [f"broker {broker} {_WORDS[state]}" for broker, state in states.items() if state in _WORDS]

    def parts(self) -> list[Part]:
        """Return how old the members and the topics are."""
        members = self.members
        known = None if members is None else self._moment(members.at_ms)
        found = [
            Part("brokers and controller", known, LATE_MS, self._no_broker_problem),
            Part("leaders and in-sync replicas", self.topics_known, self._topics_limit_ms(), self._topics_problem),
        ]
        if self.has_zookeeper:
            asked = None if self.registered is None else self._moment(self.registered.at_ms)
            found.append(Part("ZooKeeper", asked, LATE_MS, self.zookeeper_problem))
        return found

    def _moment(self, monotonic_ms: float) -> Moment:
        now = Moment.now(self._clock)
        return Moment(now.time_ms - round(now.monotonic_ms - monotonic_ms), monotonic_ms)

    # members

    async def _ask_zookeeper(self) -> None:
        if self._zookeeper is None:
            return
        try:
            async with asyncio.timeout(ANSWER_MS / 1000):
                self.registered = await self._zookeeper.ask_registered(lambda: self._prompt("zookeeper"))
            self.zookeeper_problem = None
        except TimeoutError:
            self.zookeeper_problem = f"ZooKeeper does not answer within {ANSWER_MS / 1000:g} s"
        except (StoreError, OSError) as problem:
            self.zookeeper_problem = f"ZooKeeper: {problem}"
        self._update_members()

    async def _ask_servers(self) -> None:
        """Ask the bootstrap servers for brokers, unless there is one that answers."""
        now_ms = self._clock.monotonic_ms()
        if any(each.state(now_ms) == UP for each in self.contacts.values()):
            return
        calls = [partial(self._brokers.ask_members, *each) for each in self._brokers.servers]
        told, problems = await ask_in_turn(calls, lambda _: True, 0.0, ANSWER_MS / 1000)
        if told is None:
            self._no_broker_problem = "no broker answers: " + "; ".join(problems[:3])
            self._prompt("topics")
            return
        for node in told.brokers.values():
            self._meet_broker(node)

    def _meet_broker(self, node: BrokerNode) -> None:
        """Begin to ask a broker, or to ask it at a new address."""
        known = self.contacts.get(node.id)
        if known is None:
            self.contacts[node.id] = Contact(node)
            if self._is_running:
                name = f"broker {node.id}"
                task = self._jobs.spawn(self._repeat(name, partial(self._ask_broker, node.id)), f"state: {name}")
                self._broker_tasks[node.id] = task
        elif known.node != node:
            known.node = node

    def _leave_broker(self, broker: int) -> None:
        del self.contacts[broker]
        self._prompts.pop(f"broker {broker}", None)
        if (task := self._broker_tasks.pop(broker, None)) is not None:
            task.cancel()

    async def _ask_broker(self, broker: int) -> None:
        contact = self.contacts.get(broker)
        if contact is None:
            return
        asked_ms = contact.asked_ms = self._clock.monotonic_ms()
        try:
            told = await self._brokers.ask_members(contact.node.host, contact.node.port)
        except Exception as problem:
            if not isinstance(problem, OSError | ClientError):  # whatever it is, the broker has not answered
                report(f"broker {broker} could not be asked", problem)
            was_silent = contact.problem is not None
            contact.problem = str(problem) or type(problem).__name__
            if not was_silent:
                contact.silent_since_ms = self._clock.now_ms()
                self._prompt("topics")
        else:
            contact.took_ms = self._clock.monotonic_ms() - asked_ms
            contact.told, contact.told_ms = told, asked_ms
            contact.problem = contact.silent_since_ms = self._no_broker_problem = None
        finally:
            contact.asked_ms = None
        if self.contacts.get(broker) is contact:
            self._update_members()

    def _update_members(self) -> None:
        """Choose the members again, note what has changed, and ask those brokers from now on that are there."""
        now_ms = self._clock.monotonic_ms()
        found = choose_members(self.registered, self.contacts.values(), now_ms - self._recent_ms(now_ms))
        self.version += 1
        if found is None:
            return
        before, self.members = self.members, found
        changes = self._member_changes(found)
        if changes:
            by_zookeeper = self.registered if found.source == "ZooKeeper" else None
            self.changes.extend(time_broker_changes(self._clock.now_ms(), changes, by_zookeeper))
        if changes or before is None:
            self._prompt("topics")
        told = [each.told for each in self.contacts.values() if each.told is not None]
        for node in {node.id: node for each in told for node in each.brokers.values()}.values():
            if node.id in found.brokers:
                self._meet_broker(found.brokers[node.id])
        for broker in set(self.contacts) - set(found.brokers):
            self._leave_broker(broker)

    def _member_changes(self, found: Members) -> list[Change]:
        """Return the changes of brokers and controller; a broker that was restarted between two looks, as its epoch says, went and came."""
        epochs = {}
        if found.source == "ZooKeeper" and self.registered is not None:
            epochs = {broker: each.epoch for broker, each in self.registered.brokers.items()}
        restarted = {broker for broker, epoch in epochs.items() if self._epochs.get(broker, epoch) != epoch}
        self._epochs |= epochs
        changes = [*self._known.brokers_are(set(found.brokers) - restarted)] if restarted else []
        changes += self._known.brokers_are(found.brokers)
        changes += self._known.controller_is(found.controller_id)
        return changes

    # topics

    async def _ask_topics(self) -> None:
        """Ask the brokers in turn for all topics, until one knows the members that are known otherwise."""
        if not self.contacts and self._no_broker_problem is None:
            return  # the bootstrap servers have not answered yet
        now_ms = self._clock.monotonic_ms()
        members = self.members
        order = order_for_topics(self.contacts.values(), members.controller_id if members else NO_BROKER, now_ms)
        calls = [partial(self._ask_topics_of, each) for each in order]
        next_after_s = max(_NEXT_BROKER_S, 3 * self._took_s)
        deadline_s = max(_TOPICS_DEADLINE_S, 6 * self._took_s)
        asked = Moment.now(self._clock)
        answer = await ask_in_turn(calls, self._suits, next_after_s, deadline_s)
        told, problems = answer
        if told is None:
            self._topics_problem = "; ".join(problems[:3]) or f"no broker tells the topics within {deadline_s:g} s"
        else:
            self._took_s = (self._clock.monotonic_ms() - now_ms) / 1000
            await self._topic_states.take(told)
            if self._suits(told):
                self._topics_problem, self.topics_known = None, asked
            else:
                self._topics_problem = self._disagreement(told)
        self.version += 1
        self.seen.set()

    async def _ask_topics_of(self, contact: Contact) -> Told:
        try:
            return await self._brokers.ask_topics(contact.node.host, contact.node.port)
        except asyncio.CancelledError:  # another one was faster
            contact.slow_topics_until_ms = self._clock.monotonic_ms() + _SLOW_FOR_MS
            raise

    def _suits(self, told: Told) -> bool:
        return self.members is None or agrees(told, self.members)

    def _disagreement(self, told: Told) -> str:
        members = self.members
        if members is None:
            return ""
        return (
            f"{members.source} has brokers {_list(members.brokers)} and controller {members.controller_id}, "
            f"a broker tells the topics with {_list(told.brokers)} and controller {told.controller_id}"
        )


def _list(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers))) or "none"
