"""Carries out what the detector decides: sends heartbeats, tries listeners, and ends the ZooKeeper sessions of dead brokers.

An ended session is an ordinary expiry for everybody: only that session's registration and seat vanish, a successor's are untouched; two
brokers that end the same one are harmless. Before a session is ended, ZooKeeper is asked whether it still owns the registration, and
whether the listeners that refused are those of the registration; a broker that moves its listener closes the old one.

Some verdicts are not carried out, because a wrong one would cost records or help nobody:

- A broker is the only one in sync of a partition that allows unclean elections: a successor would lose what it acknowledged alone.
- It was silent, and its end would help nobody: no partition has it and another one in sync, and it is not the controller. Followers count,
  because writers with acks=all wait for them.

`kafkalite.failover.detection` says whether any of this happens (`session`: nothing), is noted only (`observe`), or is done (`evidence`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalite.broker.failure_detection.detection_settings import DetectionMode, DetectionSettings
from kafkalite.broker.failure_detection.detector import FailureDetector, Verdict
from kafkalite.broker.failure_detection.evidence import Evidence, PeerHeartbeat
from kafkalite.broker.failure_detection.heartbeats import HeartbeatLink, Sender
from kafkalite.broker.failure_detection.listeners import all_refuse, any_accepts
from kafkalite.lifecycle import end_tasks, start_task
from kafkalite.types import BrokerId, Endpoint, TopicPartition
from zk import paths
from zk.store import NoNodeError, SessionEnding, SessionState, Store, StoreError
from zk.znodes import BrokerRegistration, MalformedZnodeError, PartitionState

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
_LEAVE_S: Final = 0.5
"""Longest wait of a broker that stops until its neighbours know; those that do not may end its session while it closes its logs."""
_STATES_READ: Final = 3000
"""Partition states that are read before a session is ended; a broker with more of those that matter is left to its session."""


class Outcome(Enum):
    """What became of a verdict (ENDED to FAILED), and what it turned out to be (RIGHT, WRONG)."""

    ENDED = "ended"
    OVER = "over"
    """The session had ended by itself, or another broker was faster."""
    RESTRAINED = "restrained"
    FAILED = "failed"
    """Whether the session has ended is not known; it is tried again."""
    RIGHT = "right"
    """The session timed out later; known of verdicts that were only observed."""
    WRONG = "wrong"


class _SessionIsOver(Exception):
    """Raised when a session that is to end owns its registration no more: mostly another broker was faster."""


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
            lambda broker: metadata.endpoint(broker, inter_broker_listener),
            connect,
            self._interval_s,
        )
        self._detector = FailureDetector(broker_id, settings, clock.monotonic_ms())
        self._links: dict[BrokerId, tuple[HeartbeatLink, asyncio.Task[None]]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._told: object = ()
        """The accusations that heartbeats have carried last."""
        self._known_brokers = metadata.brokers
        self._left: dict[BrokerId, tuple[LiveBroker, float]] = {}
        """Brokers that have left a short while ago, and when."""
        self._underway: dict[BrokerId, Verdict] = {}
        """Verdicts that are being carried out, of brokers that have not answered since."""
        self._asked_hosts: set[BrokerId] = set()
        """Silent brokers whose listeners are being tried."""
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
            await asyncio.wait(asked, timeout=_LOOK_S)

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

    async def close(self) -> None:
        """Take leave of the neighbours, end all connections and whatever is being done."""
        await asyncio.gather(*(link.take_leave(_LEAVE_S) for link, _ in self._links.values()))
        tasks = [task for _, task in self._links.values()]
        self._links.clear()
        await end_tasks([*tasks, *self._tasks])

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
        self._act()

    def note_answer(self, broker: BrokerId, broker_epoch: int, incarnation: bytes) -> None:
        """Note an answer to a heartbeat of this broker."""
        self._underway.pop(broker, None)
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
        self._underway.pop(broker, None)
        self._detector.note_rejection(broker, self._clock.monotonic_ms())

    def note_connection_lost(self, broker: BrokerId) -> None:
        """Note the end of the connection to a broker, and try its listeners."""
        self._detector.note_connection_lost(broker)
        session = self._sessions.find(broker)
        if session is not None and self._detector.is_to_be_tried(broker, session.broker_epoch):
            self._spawn(self._try_listeners(broker, session.broker_epoch), f"trying the listeners of broker {broker}")

    async def _try_listeners(self, broker: BrokerId, broker_epoch: int) -> None:
        """Try all listeners of a broker until it is accused, is connected again, or has another registration."""
        trials = 0
        while self._detector.is_to_be_tried(broker, broker_epoch):
            registered = self._metadata.brokers.get(broker)
            if registered is None:
                return
            refused = await all_refuse(self._counted_endpoints(registered.endpoints), _CONNECT_S)
            self._detector.note_trial(broker, broker_epoch, refused=refused)
            self._act()
            trials += 1
            await asyncio.sleep(_BETWEEN_TRIALS_S if trials < _QUICK_TRIALS else self._interval_s)

    def _counted_endpoints(self, endpoints: Mapping[str, Endpoint]) -> list[Endpoint]:
        return [
            each for listener, each in endpoints.items() if listener.upper() not in self._settings.proxied_listeners
        ]

    # What follows

    async def _tick(self) -> None:
        detector = self._detector
        brokers = self._metadata.brokers
        detector.set_brokers(brokers, {each: broker.rack for each, broker in brokers.items() if broker.rack})
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
        """Try the listeners of silent brokers, whose connection may be lost while their host lives."""
        for broker, broker_epoch in self._detector.find_silent(self._clock.monotonic_ms()):
            if broker not in self._asked_hosts and not self._is_acknowledging(broker):
                self._asked_hosts.add(broker)
                self._spawn(self._ask_host(broker, broker_epoch), f"trying the host of broker {broker}")

    async def _ask_host(self, broker: BrokerId, broker_epoch: int) -> None:
        registered = self._metadata.brokers.get(broker)
        try:
            if registered is not None and await any_accepts(
                self._counted_endpoints(registered.endpoints), self._interval_s
            ):
                self._detector.note_accepted(broker, broker_epoch, self._clock.monotonic_ms())
        finally:
            self._asked_hosts.discard(broker)

    def _follow_neighbours(self) -> None:
        """Let there be a connection to each neighbour, and to nobody else."""
        wanted = self._detector.neighbours
        for broker in [each for each in self._links if each not in wanted]:
            self._links.pop(broker)[1].cancel()
        for broker in wanted:
            if broker not in self._links:
                link = HeartbeatLink(broker, self._sender, self)
                self._links[broker] = link, start_task(link.run(), f"heartbeats to broker {broker}")

    def _act(self) -> None:
        """Tell others at once of whom this broker accuses now, and carry out a verdict that is due."""
        now_ms = self._clock.monotonic_ms()
        accusations = self._detector.accusations(now_ms)
        if accusations != self._told:
            self._told = accusations
            for link, _ in self._links.values():
                link.send_now()
        verdict = self._detector.take_verdict(now_ms)
        if verdict is not None:
            self.carry_out(verdict)

    def carry_out(self, verdict: Verdict) -> None:
        """Begin to end the session that a verdict is about, as the mode and the restraints allow."""
        self.verdicts[verdict.evidence] += 1
        self._underway[verdict.broker_id] = verdict
        self._spawn(self._carry_out(verdict), f"ending the session of broker {verdict.broker_id}")

    async def _carry_out(self, verdict: Verdict) -> None:
        broker, evidence = verdict.broker_id, verdict.evidence.name.lower()
        session = self._sessions.find(broker)
        try:
            if session is None or session.broker_epoch != verdict.broker_epoch or session.password is None:
                self._restrain(verdict, "it has handed over no password")
                return
            why = await self._find_restraint(verdict, session)
            if why is None and self._underway.get(broker) is not verdict:
                why = "it has answered meanwhile"
            if why is not None:
                self._restrain(verdict, why)
            elif self.mode is DetectionMode.OBSERVE:
                logger.warning(
                    "broker %d (epoch %d) would be taken for dead: %s", broker, verdict.broker_epoch, evidence
                )
                self._observed[broker] = verdict
            else:
                logger.warning(
                    "broker %d (epoch %d) is taken for dead (%s): ending its session 0x%x",
                    broker,
                    verdict.broker_epoch,
                    evidence,
                    session.session_id,
                )
                ending = await self._store.end_session(session.session_id, session.password, _END_S)
                self.outcomes[Outcome.ENDED if ending is SessionEnding.ENDED else Outcome.OVER] += 1
        except _SessionIsOver:
            logger.info("broker %d (epoch %d) seems to be dead; its session is over", broker, verdict.broker_epoch)
            self.outcomes[Outcome.OVER] += 1
        except StoreError as problem:
            logger.warning("the session of broker %d could not be ended: %s", broker, problem)
            self.outcomes[Outcome.FAILED] += 1
            self._detector.withdraw(verdict, for_good=False)
        finally:
            if self._underway.get(broker) is verdict:
                del self._underway[broker]

    def _restrain(self, verdict: Verdict, why: str) -> None:
        logger.warning("broker %d seems to be dead and keeps its session: %s", verdict.broker_id, why)
        self.outcomes[Outcome.RESTRAINED] += 1
        self._detector.withdraw(verdict, for_good=True)

    async def _find_restraint(self, verdict: Verdict, session: PeerSession) -> str | None:
        """Return why a verdict is not carried out; None if it is. Raises StoreError and _SessionIsOver."""
        broker = verdict.broker_id
        await self._store.sync(paths.BROKER_IDS)
        try:
            data, stat = await self._store.read(paths.broker(broker))
            registration = BrokerRegistration.decode(data)
        except NoNodeError:
            raise _SessionIsOver from None
        except MalformedZnodeError as problem:
            return str(problem)
        if stat.ephemeral_owner != session.session_id:
            raise _SessionIsOver
        if verdict.evidence is Evidence.REFUSED:
            known = self._metadata.brokers.get(broker)
            tried = {(each.host, each.port) for each in known.endpoints.values()} if known is not None else set()
            if tried != {(each.host, each.port) for each in registration.endpoints}:
                return "it has moved its listeners"
        if verdict.evidence is Evidence.SILENT and not self._is_waited_for(broker):
            return "its end would help nobody"
        only = await self._find_only_in_sync(broker)
        return f"it is the only one in sync of {only}, which allows unclean elections" if only else None

    def _is_waited_for(self, broker: BrokerId) -> bool:
        """True if the controller would elect others instead of this broker, writers wait for it, or it is the controller."""
        alive = self._metadata.brokers.keys() - {broker}
        return self._metadata.controller_id == broker or any(
            broker in partition.isr and not alive.isdisjoint(partition.isr)
            for topic in self._metadata.topics.values()
            for partition in topic.partitions.values()
        )

    def _find_replicated(self, broker: BrokerId) -> Iterator[TopicPartition]:
        """Return the partitions that have a replica on this broker and others elsewhere."""
        for topic in self._metadata.topics.values():
            for number, partition in topic.partitions.items():
                if broker in partition.replicas and len(partition.replicas) > 1:
                    yield TopicPartition(topic.name, number)

    async def _find_only_in_sync(self, broker: BrokerId) -> TopicPartition | None:
        """Return a partition that allows unclean elections and of which no other replica in sync is registered, by ZooKeeper's data.

        Who leads and who is in sync is not asked of the metadata, which are late where the controller is; nor does an ISR count whose other
        members are gone already.
        """
        at_risk = list(self._find_replicated(broker))
        unclean = {
            topic for topic in dict.fromkeys(each.topic for each in at_risk) if await self.unclean_topics.allows(topic)
        }
        asked = list(islice((each for each in at_risk if each.topic in unclean), _STATES_READ + 1))
        if len(asked) > _STATES_READ:
            return asked[-1]
        isrs = await asyncio.gather(*map(self._read_isr, asked))
        registered = set(await self._store.children(paths.BROKER_IDS)) if asked else set()
        for each, isr in zip(asked, isrs, strict=True):
            if broker in isr and not any(str(other) in registered for other in isr if other != broker):
                return each
        return None

    async def _read_isr(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        try:
            data, _ = await self._store.read(paths.partition_state(*topic_partition))
            return PartitionState.decode(data).isr
        except (NoNodeError, MalformedZnodeError):
            return ()

    def _confirm_observations(self) -> None:
        """Count the observed verdicts that ZooKeeper has come to by itself."""
        for broker in [each for each in self._observed if each not in self._metadata.brokers]:
            del self._observed[broker]
            self.outcomes[Outcome.RIGHT] += 1

    def _spawn(self, coroutine: Coroutine[object, object, None], name: str) -> None:
        task = start_task(coroutine, name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
