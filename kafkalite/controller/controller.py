"""The controller component of a broker: stands for election, and controls the cluster while it holds the seat.

Every broker runs one; all keep a watch on /controller and know the active controller (`active_controller_id`). All events,
election included, go through one queue with one consumer; watches, timers, responses and API calls only enqueue.

The end of a ZooKeeper session:
1. The session's `on_ended` hook at once ends the term (nothing more is written), clears the queue, queues Expire.
2. Expire resigns.
3. Under the new session the broker registers (a hook that was added to the `Session` before the controller's), then
   Reelect is queued, which reads /controller and tries to be elected.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafkalite.change_signal import ChangeSignal
from kafkalite.clock import Clock
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller import events
from kafkalite.controller.api import ControllerApi
from kafkalite.controller.channel_manager import ControllerChannelManager, OpenControlChannel
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.control_requests import ControlRequest, MetadataDigests
from kafkalite.controller.event_manager import NOT_CONTROLLER_MESSAGE, ControllerEventManager, not_controller_error
from kafkalite.controller.failover import on_controller_failover
from kafkalite.controller.handlers import HANDLERS
from kafkalite.controller.metadata_digests import KnownTopic
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.statistics import cluster_statistics
from kafkalite.controller.term import ControllerTerm, TermEnded
from kafkalite.controller.wire import decode_response, read_digests
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.lifecycle import report
from kafkalite.portions import Work, in_one_go
from kafkalite.types import NO_BROKER, BrokerId
from zk import paths
from zk.controller_seat import ControllerMovedError, Seat, elect, read_controller
from zk.session import Session
from zk.store import EventType, SessionExpiredError, Store, StoreClosedError, StoreError, WatchEvent
from zk.znodes import MalformedZnodeError

logger = logging.getLogger(__name__)

FIRST_REBALANCE_DELAY_S = 5.0
FAILED_FAILOVER_BACKOFF_S = 1.0


class Controller(ControllerApi):
    """The controller of one broker, active or not; `ControllerApi` has the requests that it serves.

    `session` is the one whose hooks register the broker, so that registration comes first; by default one is made.
    `on_fatal` is called once when an invariant broke and the consumer has stopped. `had_clean_shutdown`: this broker has
    all the records that it had before its restart. `own_metadata` returns the metadata of this broker by topic: a mapping that may change,
    of topics that do not.
    """

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        config: LiveConfig,
        clock: Clock,
        rng: random.Random,
        open_channel: OpenControlChannel,
        *,
        session: Session | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        had_clean_shutdown: bool = False,
        own_metadata: Callable[[], Mapping[str, KnownTopic]] = dict,
    ) -> None:
        super().__init__(store, config, rng)
        self.broker_id = broker_id
        self.active_controller_id: BrokerId = NO_BROKER
        self._clock = clock
        self._open_channel, self._own_metadata = open_channel, own_metadata
        self._session = session or Session(store)
        self._settings = ControllerSettings.from_config(broker_id, config.current)
        config.subscribe(self._on_config_change)
        self._clean_brokers = frozenset({broker_id}) if had_clean_shutdown else frozenset()
        self._queue = ControllerEventManager(self._process_event, on_fatal)
        self._term: ControllerTerm | None = None
        self._last_epoch = 0
        self._no_election_before_s = 0.0
        self._timers: dict[type, asyncio.TimerHandle] = {}
        self._changes = ChangeSignal()
        """Notified after each event, and at the end of a term."""
        self._stopped = False

    # -- start and stop

    def start(self) -> None:
        """Start the event manager and queue Startup. The broker must be registered and serve requests already."""
        self._session.on_ended(self._on_session_end)
        self._session.on_renewed(self._on_session_renewal)
        self._queue.start()
        self._queue.put(events.Startup())

    async def stop(self) -> None:
        """Resign without waiting for the event being processed. The seat is freed with the ZooKeeper session."""
        self._stopped = True
        self._resign()
        await self._queue.stop()

    async def drain_requests(self, timeout_s: float) -> None:
        """Wait before a clean stop until the brokers have all requests, so no partition waits for the next controller."""
        if self._term is not None and not await self._term.channels.drain(timeout_s):
            logger.warning("not all brokers answered within %g s; the next controller repeats the requests", timeout_s)

    def _on_config_change(self, _: BrokerConfig, config: BrokerConfig) -> None:
        """Apply a changed dynamic configuration of this broker; hold unclean elections where they are newly allowed."""
        before, self._settings = self._settings, ControllerSettings.from_config(self.broker_id, config)
        if self._term is not None:
            self._term.cluster.settings = self._settings
            if self._settings.unclean_leader_election_enable and not before.unclean_leader_election_enable:
                self._queue.put(events.UncleanLeaderElectionEnable())

    def on_topic_config_change(self, topic: str, overrides: dict[str, str]) -> None:
        """Hold unclean elections for a topic if its changed settings allow them."""
        if overrides.get("unclean.leader.election.enable", "").strip().lower() == "true":
            self._queue.put(events.TopicUncleanLeaderElectionEnable(topic))

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller: from its election on, also while it still reads the cluster."""
        return self._term is not None and not self._term.ended

    @property
    def epoch(self) -> int:
        """Return the controller epoch of this broker's present or last term; 0 before the first."""
        return self._last_epoch

    @property
    def cluster(self) -> ClusterState | None:
        """Return the active controller's state, to be read between awaits; None when not active."""
        return None if self._term is None else self._term.cluster

    async def wait_until_deleted(self, topic: str, timeout_s: float) -> bool:
        """Wait until a topic and its znodes are deleted; False after `timeout_s`.

        Returns True at once where this broker is not the controller.
        """
        return await self._changes.wait_until(
            lambda: self.cluster is None or topic not in self.cluster.topics, timeout_s
        )

    async def wait_until_brokers_know(self, timeout_s: float) -> bool:
        """Wait until every registered broker has answered all requests queued so far; False after `timeout_s`.

        Returns True at once where this broker is not the controller.
        """
        return self._term is None or await self._term.channels.drain(timeout_s)

    def statistics(self) -> dict[str, Any]:
        """Return figures for metrics: Kafka's gauges of the controller, its queue and its channels."""
        return in_one_go(self.make_statistics())

    def make_statistics(self) -> Work[dict[str, Any]]:
        """Do what `statistics` does, in portions. The state changes between two of them, so the counts are not of one moment."""
        figures: dict[str, Any] = {
            "active_controller_count": int(self.is_active),
            "active_controller_id": self.active_controller_id,
            "controller_epoch": self._last_epoch,
            **self._queue.statistics(),
        }
        if self._term is not None:
            term = self._term
            figures |= yield from cluster_statistics(term.cluster)
            figures |= term.channels.statistics()
        return figures

    # -- events

    async def _process_event(self, event: events.Event) -> Any:
        match event:
            case events.Startup() | events.ControllerChange() | events.Reelect():
                # The new controller may have left the seat before the watch was armed again, so always read it and elect.
                await self._retry_on_store_error(self._check_seat_and_elect)
            case events.Expire():
                self.active_controller_id = NO_BROKER
                self._resign()
            case _:
                return await self._process_as_controller(event)
        return None

    async def _process_as_controller(self, event: events.Event) -> Any:
        term = self._term
        if term is None or term.ended:
            raise not_controller_error(event)
        term.cluster.reason = type(event).__name__
        try:
            return await term.perform(HANDLERS[type(event)](term.cluster, event))
        except ControllerMovedError:
            self._resign_and_reelect()
            raise not_controller_error(event) from None
        except (SessionExpiredError, StoreClosedError, TermEnded):
            raise not_controller_error(event) from None
        finally:
            self._changes.notify()
            if isinstance(event, events.AutoPreferredReplicaLeaderElection) and term is self._term:
                self._schedule(self._settings.leader_imbalance_check_interval_seconds, event)

    async def _retry_on_store_error(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step of an election; after a store error queue Reelect. A session that ends brings a Reelect by itself."""
        try:
            await step()
        except (SessionExpiredError, StoreClosedError):
            logger.info("the ZooKeeper session ended during %s", step.__name__)
        except (StoreError, MalformedZnodeError) as problem:
            logger.error("%s failed and will be retried: %s", step.__name__, problem)
            self._schedule(FAILED_FAILOVER_BACKOFF_S, events.Reelect())

    # -- the seat

    async def _check_seat_and_elect(self) -> None:
        await self._maybe_resign()
        # A seat with this broker's id and no term is a claim whose reply was lost; `elect` repairs it.
        if self._term is None and self.active_controller_id in (NO_BROKER, self.broker_id) and not self._stopped:
            wait_s = self._no_election_before_s - asyncio.get_running_loop().time()
            if wait_s > 0:
                self._schedule(wait_s, events.Reelect())
            else:
                await self._elect()

    async def _maybe_resign(self) -> None:
        """Read /controller and resign when it names another broker."""
        self.active_controller_id = await self._read_controller_id()
        if self._term is not None and self.active_controller_id != self.broker_id:
            self._resign()

    async def _read_controller_id(self) -> BrokerId:
        """Return the id in /controller, NO_BROKER for none, and arm its watch."""
        try:
            found = await read_controller(self._store, self._on_seat_change)
        except MalformedZnodeError as problem:
            logger.error("%s: %s; delete it", paths.CONTROLLER, problem)
            return NO_BROKER
        return NO_BROKER if found is None else found.broker_id

    async def _elect(self) -> None:
        seat = await elect(self._store, self.broker_id, self._clock.now_ms())
        if seat is not None:
            self.active_controller_id = self.broker_id
            await self._start_term(seat)
            return
        await self._maybe_resign()
        if self.active_controller_id == NO_BROKER:
            self._queue.put(events.Reelect())

    async def _start_term(self, seat: Seat) -> None:
        cluster = ClusterState(self.broker_id, seat.epoch, self._settings)
        cluster.reason = "failover"
        channels = ControllerChannelManager(self._open_channel, self._on_response)
        term = self._term = ControllerTerm(self._store, seat, cluster, channels, self._queue.put, self._rng)
        self._last_epoch = seat.epoch
        logger.info("broker %d is the controller with epoch %d", self.broker_id, seat.epoch)
        try:
            await term.perform(
                on_controller_failover(cluster, self._clean_brokers, seat.earlier_zxid, self._own_metadata())
            )
        except ControllerMovedError:
            self._resign_and_reelect()
        except TermEnded:
            self._resign()
        except (SessionExpiredError, StoreClosedError):
            self._resign()
            raise
        except (StoreError, ValueError) as problem:
            logger.exception("controller failover failed, another broker may be elected: %s", problem)
            await self._vacate_seat()
        except InvariantBroken:
            raise
        except Exception as problem:
            report("controller failover failed, another broker may be elected", problem)
            await self._vacate_seat()
        else:
            term.settled.set()
            if self._settings.auto_leader_rebalance_enable:
                self._schedule(FIRST_REBALANCE_DELAY_S, events.AutoPreferredReplicaLeaderElection())

    async def _vacate_seat(self) -> None:
        """Resign and delete /controller, then pause so that another broker can be elected."""
        term = self._term
        self._resign()
        self._no_election_before_s = asyncio.get_running_loop().time() + FAILED_FAILOVER_BACKOFF_S
        if term is not None:
            try:
                await term.release()
            except ControllerMovedError:
                self._resign_and_reelect()

    def _resign_and_reelect(self) -> None:
        """Resign after a write was refused because of the epoch, and queue Reelect."""
        self._resign()
        self._queue.put(events.Reelect())

    def _resign(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._term is not None:
            logger.info("broker %d resigns as controller of epoch %d", self.broker_id, self._term.seat.epoch)
            self._term.end()
            self._term = None
        self._changes.notify()

    # -- what enqueues

    def _on_seat_change(self, notification: WatchEvent) -> None:
        deleted = notification.type is EventType.DELETED
        self._queue.put(events.Reelect() if deleted else events.ControllerChange())

    def _on_session_end(self) -> None:
        if self._term is not None:
            self._term.end()
        self._queue.clear()
        self._queue.put(events.Expire())

    async def _on_session_renewal(self) -> None:
        if not self._stopped:
            self._queue.put(events.Reelect())

    def _on_response(self, broker_id: BrokerId, broker_epoch: int, request: ControlRequest, response: Any) -> None:
        if isinstance(request, MetadataDigests):
            if self._term is not None and self._term.seat.epoch == request.controller_epoch:
                self._term.note_digests(broker_id, broker_epoch, read_digests(response))
            return
        event = decode_response(broker_id, broker_epoch, request, response)
        if event is not None:
            self._queue.put(event)

    def _schedule(self, delay_s: float, event: events.Event) -> None:
        """Queue an event after `delay_s`, unless this broker resigns before; a later call for its type replaces it."""
        earlier = self._timers.get(type(event))
        if earlier is not None:
            earlier.cancel()
        self._timers[type(event)] = asyncio.get_running_loop().call_later(delay_s, self._queue.put, event)

    async def _wait_for_cluster(self) -> ClusterState:
        term = self._term
        if term is not None:
            await term.settled.wait()
        if term is None or term.ended:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
        return term.cluster

    async def _submit(self, event: events.Event) -> Any:
        if not self.is_active:
            raise not_controller_error(event)
        return await self._queue.submit(event)
