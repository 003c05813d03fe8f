"""Carries out what the detector decides: sends heartbeats, tries listeners, and ends the ZooKeeper sessions of dead brokers.

An ended session is an ordinary expiry for everybody: only that session's registration and seat vanish, a successor's are untouched; two
brokers that end the same one are harmless. Before a session is ended, ZooKeeper is asked whether it still owns the registration, and
whether the listeners that refused are those of the registration; a broker that moves its listener closes the old one. Some verdicts are
not carried out (`restraints`), nor is one whose evidence has gone meanwhile. In a cluster one session is ended at a time (`ending_claim`).

`kafkalite.failover.detection` says whether any of this happens (`session`: nothing), is noted only (`observe`), or is done (`evidence`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.broker.failure_detection.detection_settings import DetectionMode, DetectionSettings
from kafkalite.broker.failure_detection.detector import MIN_BETWEEN_VERDICTS_MS, FailureDetector, Verdict
from kafkalite.broker.failure_detection.ending_claim import VALID_S, EndingClaim
from kafkalite.broker.failure_detection.evidence import Evidence, PeerHeartbeat, Sighting
from kafkalite.broker.failure_detection.heartbeats import HeartbeatLink, Sender
from kafkalite.broker.failure_detection.listeners import Trial, all_refused, try_listeners
from kafkalite.broker.failure_detection.restraints import Restraints, SessionIsOver
from kafkalite.broker.failure_detection.watchers import Watchers
from kafkalite.lifecycle import end_tasks, start_task
from kafkalite.types import BrokerId, Endpoint
from zk.store import SessionEnding, SessionState, Store, StoreError

if TYPE_CHECKING:
    from kafkalite.broker.failure_detection.peer_sessions import PeerSession, PeerSessions
    from kafkalite.broker.failure_detection.unclean_topics import UncleanTopics
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.clock import Clock
    from kafkalite.controller.control_requests import LiveBroker
    from kafkalite.lifecycle import Jobs
    from kafkalite.net.connection import OpenToBroker

logger = logging.getLogger("kafkalite.broker.failure_detection")

_BETWEEN_TRIALS_S: Final = 0.02
_QUICK_TRIALS: Final = 20
"""Afterwards the pause is that of heartbeats."""
_CONNECT_S: Final = 0.5
"""A listener that has not answered by then does not refuse."""
_LOOK_S: Final = 0.02
"""A broker that lives answers a heartbeat sooner, unless it is very busy; the connections of one that was killed end sooner."""
_LISTED_S: Final = 10.0
"""Less than Apache Kafka lists a dead broker: for its session timeout, 18 s."""
_END_S: Final = 2.0
"""Longest wait for ZooKeeper to end a session; who got no answer asks again while the evidence lasts."""
_MAY_STILL_END_S: Final = 4.0
"""How long nobody else ends a session after an ending that was not answered: ZooKeeper may still carry it out."""
_LOOK_AGAIN_S: Final = 60.0
"""Longest wait for new brokers in the metadata; each change of them ends it."""
_LEAVE_S: Final = 0.5
"""Longest wait of a broker that stops until its neighbours know; those that do not may end its session while it closes its logs."""


Holds: TypeAlias = Callable[[Verdict], Awaitable[bool]]


class Outcome(Enum):
    """What became of a verdict (ENDED to FAILED), and what it turned out to be (RIGHT, WRONG)."""

    ENDED = "ended"
    OVER = "over"
    """The session had ended by itself, or another broker was faster."""
    RESTRAINED = "restrained"
    DEFERRED = "deferred"
    """Another broker was ending a session, this one or another; it is tried again while the evidence lasts."""
    FAILED = "failed"
    """Whether the session has ended is not known; it is tried again."""
    RIGHT = "right"
    """The session timed out later; known of verdicts that were only observed."""
    WRONG = "wrong"


class FailureDetection:
    """Detection of dead brokers on this one, for as long as it runs. `note_heartbeat` takes the heartbeats of others."""

    def __init__(
        self,
        broker_id: BrokerId,
        settings: DetectionSettings,
        metadata: MetadataCache,
        store: Store,
        clock: Clock,
        sessions: PeerSessions,
        unclean_topics: UncleanTopics,
        inter_broker_listener: str,
        connect: OpenToBroker,
    ) -> None:
        self._settings, self._metadata = settings, metadata
        self._store, self._clock, self._sessions, self.unclean_topics = store, clock, sessions, unclean_topics
        self._interval_s = settings.heartbeat_interval_ms / 1000
        self._sender = Sender(
            broker_id,
            lambda: sessions.broker_epoch,
            lambda: sessions.incarnation,
            store,
            lambda: self._detector.accusations(clock.monotonic_ms()),
            lambda: self._detector.sightings(clock.monotonic_ms()),
            lambda broker: metadata.endpoint(broker, inter_broker_listener),
            connect,
            self._interval_s,
        )
        self._detector = FailureDetector(broker_id, settings, clock.monotonic_ms())
        self._links: dict[BrokerId, tuple[HeartbeatLink, asyncio.Task[None]]] = {}
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._told: object = ()
        """The accusations and sightings that heartbeats have carried last."""
        self._restraints = Restraints(store, metadata, unclean_topics)
        self._watchers = Watchers(self._sender)
        self._claim = EndingClaim(store)
        self._is_closed = False
        self._may_still_end = False
        """True if this broker stopped while it ended a session."""
        self._refusing: dict[BrokerId, frozenset[Endpoint]] = {}
        """The listeners of each broker that refused last, all that it had."""
        self._known_brokers = metadata.brokers
        self._left: dict[BrokerId, tuple[LiveBroker, float]] = {}
        """Brokers that have left a short while ago, and when."""
        self._observed: dict[BrokerId, Verdict] = {}
        """Verdicts that were only noted, until it shows whether they were right."""
        self.verdicts: Counter[Evidence] = Counter()
        self.outcomes: Counter[Outcome] = Counter()

    @property
    def mode(self) -> DetectionMode:
        return self._settings.mode

    @property
    def patience(self) -> int:
        """Return how many times the usual evidence is needed, because of wrong verdicts."""
        return self._detector.patience

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's registration."""
        return self._sessions.broker_epoch

    @property
    def incarnation(self) -> bytes:
        """Return what tells this process from others of the same broker."""
        return self._sessions.incarnation

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """Return which of its neighbours this broker hears."""
        return self._detector.sightings(self._clock.monotonic_ms())

    def is_suspected(self, broker: BrokerId) -> bool:
        """True if there is some evidence that a broker is dead, in `evidence` mode."""
        return self.mode is DetectionMode.EVIDENCE and self._detector.is_suspected(broker)

    def count_certain(self, outcomes: Counter[Outcome]) -> None:
        """Count what became of this broker's predecessors, which were certainly dead."""
        self.verdicts[Evidence.CERTAIN] += outcomes.total()
        self.outcomes.update(outcomes)

    async def look_around(self) -> None:
        """Wait until each neighbour has answered a heartbeat of now or is suspected, shortly at most."""
        asked = [link.ask_now() for broker, (link, _) in self._links.items() if not self._detector.is_suspected(broker)]
        if asked:
            _, unanswered = await asyncio.wait(asked, timeout=_LOOK_S)
            for each in unanswered:
                each.cancel()

    def find_left(self) -> list[LiveBroker]:
        """Return the brokers that have left the cluster in the last `_LISTED_S`."""
        self._note_left()
        return [broker for broker, _ in self._left.values()]

    def _note_left(self) -> None:
        brokers, now_ms = self._metadata.brokers, self._clock.monotonic_ms()
        if brokers is not self._known_brokers:
            for broker_id in self._known_brokers.keys() - brokers.keys():
                self._left[broker_id] = self._known_brokers[broker_id], now_ms
            self._known_brokers = brokers
        for broker_id in [
            each for each, (_, left_ms) in self._left.items() if each in brokers or now_ms - left_ms > 1000 * _LISTED_S
        ]:
            del self._left[broker_id]

    def start(self, jobs: Jobs) -> None:
        """Begin to watch the neighbours, as the mode demands."""
        if self.mode is not DetectionMode.SESSION:
            jobs.every(self._interval_s, "failure detection", self._tick)
            self._spawn(self._meet_brokers(), "meeting other brokers")

    async def close(self) -> None:
        """Take leave of the neighbours, end all connections and whatever is being done, and begin nothing any more.

        Heartbeats are heard for a while yet, because connections are closed later than this.
        """
        self._is_closed = True
        await asyncio.gather(*(link.take_leave(_LEAVE_S) for link, _ in self._links.values()))
        tasks = [task for _, task in self._links.values()]
        self._links.clear()
        await end_tasks([*tasks, *self._tasks])
        if not self._may_still_end:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._claim.give_back()

    # What is heard

    def note_heartbeat(self, heartbeat: PeerHeartbeat) -> None:
        """Take a heartbeat of another broker."""
        self._sessions.note_heartbeat(heartbeat)
        if self.mode is DetectionMode.SESSION:
            return
        now_ms = self._clock.monotonic_ms()
        broker = heartbeat.broker_id
        self._note_sign_of_life(broker, heartbeat.broker_epoch, heartbeat.incarnation, answered=False)
        if not heartbeat.session_id:
            self._detector.note_leave(broker, heartbeat.broker_epoch)
        self._detector.note_accusations(broker, heartbeat.accusations, now_ms)
        self._detector.note_sightings(broker, heartbeat.sightings, now_ms)
        self._act()

    def note_answer(self, broker: BrokerId, broker_epoch: int, incarnation: bytes) -> None:
        """Note an answer to a heartbeat of this broker."""
        self._note_sign_of_life(broker, broker_epoch, incarnation, answered=True)
        self._act()

    def _note_sign_of_life(self, broker: BrokerId, broker_epoch: int, incarnation: bytes, *, answered: bool) -> None:
        now_ms = self._clock.monotonic_ms()
        wrong = self._detector.note_sign_of_life(broker, broker_epoch, incarnation, now_ms, answered=answered)
        if wrong is not None:
            self._observed.pop(broker, None)
            self.outcomes[Outcome.WRONG] += 1

    def note_rejection(self, broker: BrokerId) -> None:
        """Note that a broker answers, and rejects this one."""
        self._detector.note_rejection(broker, self._clock.monotonic_ms())

    def note_connection_lost(self, broker: BrokerId) -> None:
        """Note the end of the connection to a broker, and try its listeners."""
        self._detector.note_connection_lost(broker)
        session = self._sessions.find(broker)
        if session is not None and self._detector.is_to_be_tried(broker, session.broker_epoch):
            self._spawn(self._try_listeners(broker, session.broker_epoch), f"trying the listeners of broker {broker}")
        self._act()

    async def _try_listeners(self, broker: BrokerId, broker_epoch: int) -> None:
        """Try all listeners of a broker until it is accused, is connected again, or has another registration."""
        rounds = 0
        while self._detector.is_to_be_tried(broker, broker_epoch):
            registered = self._metadata.brokers.get(broker)
            if registered is None:
                return
            trials = await self._try(broker, broker_epoch, registered)
            self._refusing[broker] = frozenset(registered.endpoints.values())
            self._detector.note_trial(broker, broker_epoch, refused=all_refused(trials))
            self._act()
            rounds += 1
            await asyncio.sleep(_BETWEEN_TRIALS_S if rounds < _QUICK_TRIALS else self._interval_s)

    async def _try(self, broker: BrokerId, broker_epoch: int, registered: LiveBroker) -> Collection[Trial]:
        """Try the listeners of a broker, and note if one of them accepts."""
        trials = await try_listeners(self._counted_endpoints(registered.endpoints), _CONNECT_S)
        if Trial.ACCEPTED in trials:
            self._detector.note_accepted(broker, broker_epoch, self._clock.monotonic_ms())
        return trials

    def _counted_endpoints(self, endpoints: Mapping[str, Endpoint]) -> list[Endpoint]:
        return [
            each for listener, each in endpoints.items() if listener.upper() not in self._settings.proxied_listeners
        ]

    # What follows

    async def _meet_brokers(self) -> None:
        """Connect to new neighbours as soon as the metadata name them: who has not been connected to a broker cannot witness its death."""
        while True:
            met = self._metadata.brokers
            self._take_brokers()
            self._follow_neighbours()
            await self._metadata.wait_until(partial(self._has_not_met, met), _LOOK_AGAIN_S)

    def _has_not_met(self, met: Mapping[BrokerId, LiveBroker]) -> bool:
        return self._metadata.brokers is not met

    def _take_brokers(self) -> None:
        brokers = self._metadata.brokers
        self._detector.set_brokers(brokers, {each: broker.rack for each, broker in brokers.items() if broker.rack})

    async def _tick(self) -> None:
        detector = self._detector
        self._take_brokers()
        detector.tick(
            self._clock.monotonic_ms(),
            has_zookeeper=self._store.state is SessionState.CONNECTED,
            is_acknowledging=self._is_acknowledging,
        )
        self._ask_hosts()
        self._follow_neighbours()
        self._note_left()
        self._confirm_observations()
        self._act()
        try:
            await self.unclean_topics.read_some()
        except StoreError as problem:
            logger.debug("configurations of topics: %s", problem)

    def _is_acknowledging(self, broker: BrokerId) -> bool:
        return broker in self._links and self._links[broker][0].is_acknowledged

    def _ask_hosts(self) -> None:
        """Try the listeners of silent brokers, whose connection may be lost while their host lives.

        Some trials of one broker may be under way: on a busy machine each takes a while.
        """
        for broker, broker_epoch in self._detector.find_silent(self._clock.monotonic_ms()):
            registered = self._metadata.brokers.get(broker)
            if registered is not None and not self._is_acknowledging(broker):
                trial = self._try(broker, broker_epoch, registered)
                self._spawn(trial, f"trying the host of broker {broker}")

    def _follow_neighbours(self) -> None:
        """Let there be a connection to each neighbour, and to those that may confirm what this broker suspects."""
        wanted = self._detector.find_peers()
        for broker in [each for each in self._links if each not in wanted]:
            self._links.pop(broker)[1].cancel()
        for broker in sorted(wanted):
            if broker not in self._links:
                link = HeartbeatLink(broker, self._sender, self)
                self._links[broker] = link, start_task(link.run(), f"heartbeats to broker {broker}")

    def _act(self) -> None:
        """Tell others at once whom this broker accuses and hears now, and carry out a verdict that is due."""
        now_ms = self._clock.monotonic_ms()
        told = self._detector.accusations(now_ms), self._detector.sightings(now_ms)
        if told != self._told:
            self._told = told
            for link, _ in self._links.values():
                link.send_now()
        verdict = self._detector.take_verdict(now_ms)
        if verdict is not None:
            self.carry_out(verdict)

    def carry_out(self, verdict: Verdict, holds: Holds | None = None) -> None:
        """Begin to end the session that a verdict is about, as the mode and the restraints allow.

        `holds` says whether the verdict would be given now, too, and is asked last; by default of the detector and other brokers.
        """
        if self._is_closed:
            return
        self.verdicts[verdict.evidence] += 1
        self._spawn(self._carry_out(verdict, holds or self._holds), f"ending the session of broker {verdict.broker_id}")

    async def _holds(self, verdict: Verdict) -> bool:
        detector, victim = self._detector, verdict.broker_id
        return await self._watchers.confirm(
            victim,
            verdict.broker_epoch,
            watchers=detector.find_watchers(victim),
            others=detector.find_others(victim),
            deniers=detector.find_deniers(victim, verdict.broker_epoch, self._clock.monotonic_ms()),
        ) and detector.still_holds(verdict, self._clock.monotonic_ms())

    async def _carry_out(self, verdict: Verdict, holds: Holds) -> None:
        broker = verdict.broker_id
        session = self._sessions.find(broker)
        may_claim = self.mode is DetectionMode.EVIDENCE and not self._claim.is_held
        held_s = 0.0
        try:
            if session is None or session.broker_epoch != verdict.broker_epoch or session.password is None:
                self._restrain(verdict, "it has handed over no password")
            elif self.mode is DetectionMode.OBSERVE or (may_claim and await self._claim.take(session.session_id)):
                why = await self._find_restraint(verdict, session)
                if why is not None:
                    self._restrain(verdict, why)
                elif not await self._is_still_due(verdict, holds):
                    logger.info("broker %d seemed to be dead; the evidence has gone meanwhile", broker)
                    self.outcomes[Outcome.RESTRAINED] += 1
                    self._detector.withdraw(verdict, for_good=False)
                else:
                    held_s = _MAY_STILL_END_S
                    await self._end(verdict, session)
                    held_s = MIN_BETWEEN_VERDICTS_MS / 1000
            else:
                logger.info("broker %d seems to be dead; another session is being ended first", broker)
                self.outcomes[Outcome.DEFERRED] += 1
                self._detector.defer(verdict)
        except asyncio.CancelledError:
            may_claim = False  # this broker stops, and the claim ends with its session; see `close`
            self._may_still_end = held_s > 0
            raise
        except SessionIsOver:
            logger.info("broker %d (epoch %d) seems to be dead; its session is over", broker, verdict.broker_epoch)
            self.outcomes[Outcome.OVER] += 1
        except (StoreError, TimeoutError) as problem:
            text = (
                "the ending of its session was not answered"
                if held_s
                else "whether to end its session could not be asked"
            )
            logger.warning("broker %d seems to be dead; %s: %r", broker, text, problem)
            self.outcomes[Outcome.FAILED] += 1
            self._detector.withdraw(verdict, for_good=False)
        finally:
            if may_claim:
                await self._claim.give_back(held_s)

    async def _find_restraint(self, verdict: Verdict, session: PeerSession) -> str | None:
        """Return why a verdict is not carried out, None if it is. Raises SessionIsOver, StoreError, TimeoutError."""
        async with asyncio.timeout(VALID_S):
            return await self._restraints.find(verdict, session.session_id, self._find_refusing(verdict.broker_id))

    async def _is_still_due(self, verdict: Verdict, holds: Holds) -> bool:
        """True if the evidence is still there, and this broker still the one that may end sessions. Raises TimeoutError."""
        if not await holds(verdict):
            return False
        if self.mode is DetectionMode.EVIDENCE and not await self._claim.is_valid():
            raise TimeoutError("ZooKeeper was too slow")
        return True

    def _find_refusing(self, broker: BrokerId) -> frozenset[Endpoint]:
        """Return the listeners of a broker that refused when they were tried last; those that it has, if none were."""
        registered = self._metadata.brokers.get(broker)
        known = frozenset() if registered is None else frozenset(registered.endpoints.values())
        return self._refusing.get(broker, known)

    async def _end(self, verdict: Verdict, session: PeerSession) -> None:
        """End the session of a broker, or note that it would have been ended. Raises StoreError."""
        broker, epoch, evidence = verdict.broker_id, verdict.broker_epoch, verdict.evidence.name.lower()
        if self.mode is DetectionMode.OBSERVE:
            logger.warning("broker %d (epoch %d) would be taken for dead: %s", broker, epoch, evidence)
            self._observed[broker] = verdict
            return
        text = "broker %d (epoch %d) is taken for dead (%s): ending its session 0x%x"
        logger.warning(text, broker, epoch, evidence, session.session_id)
        ending = await self._store.end_session(session.session_id, session.password or b"", _END_S)
        self.outcomes[Outcome.ENDED if ending is SessionEnding.ENDED else Outcome.OVER] += 1

    def _restrain(self, verdict: Verdict, why: str) -> None:
        logger.warning("broker %d seems to be dead and keeps its session: %s", verdict.broker_id, why)
        self.outcomes[Outcome.RESTRAINED] += 1
        self._detector.withdraw(verdict, for_good=True)

    def _confirm_observations(self) -> None:
        """Count the observed verdicts that ZooKeeper has come to by itself."""
        for broker in [each for each in self._observed if each not in self._metadata.brokers]:
            del self._observed[broker]
            self.outcomes[Outcome.RIGHT] += 1

    def _spawn(self, coroutine: Coroutine[object, object, object], name: str) -> None:
        if self._is_closed:
            coroutine.close()
            return
        task = start_task(coroutine, name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
