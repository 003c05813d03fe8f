"""The controller component of a broker: stands for election, and governs the cluster while it holds the seat.

Every broker runs one; all keep a watch on /controller and know who governs (`active_controller_id`). All events,
election included, go through one queue with one consumer; watches, timers, responses and API calls only enqueue.

How the end of a ZooKeeper session is survived:
1. The session's `on_ended` hook at once ends the term (nothing more is written), drops the queue, queues Expire.
2. Expire resigns.
3. Under the new session the broker registers (a hook that was added to the `Session` before the controller's), then
   Reelect is queued: look at the seat, stand for election.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.change_signal import ChangeSignal
from kafkalite.clock import Clock
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller import events
from kafkalite.controller.api import ControllerApi
from kafkalite.controller.channel_manager import ControllerChannelManager, OpenChannel
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.control_requests import ControlRequest
from kafkalite.controller.event_manager import NOT_CONTROLLER_MESSAGE, ControllerEventManager, not_controller_error
from kafkalite.controller.failover import on_controller_failover
from kafkalite.controller.handlers import HANDLERS
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.statistics import cluster_statistics
from kafkalite.controller.term import ControllerTerm, TermEnded
from kafkalite.controller.wire import decode_response
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.lifecycle import report
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
    """See the module; the requests that it answers are in `api`.

    `session` is the one whose hooks register the broker, so that it does so first; by default one is made.
    `on_fatal` is called once when an invariant broke and the consumer has stopped. `lost_nothing`: this broker began with all the
    records with which it had ended.
    """

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        config: LiveConfig,
        clock: Clock,
        rng: random.Random,
        open_channel: OpenChannel,
        *,
        session: Session | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        lost_nothing: bool = False,
    ) -> None:
        super().__init__(store, config, rng)
        self.broker_id = broker_id
        self.active_controller_id: BrokerId = NO_BROKER
        self._clock = clock
        self._open_channel = open_channel
        self._session = session or Session(store)
        self._settings = ControllerSettings.from_config(broker_id, config.current)
        config.subscribe(self._config_changed)
        self._whole = frozenset({broker_id}) if lost_nothing else frozenset()
        self._queue = ControllerEventManager(self._process_event, on_fatal)
        self._term: ControllerTerm | None = None
        self._last_epoch = 0
        self._no_election_before_s = 0.0
        self._timers: dict[type, asyncio.TimerHandle] = {}
        self._changes = ChangeSignal()
        """After each event, and at the end of a term."""
        self._stopped = False

    # -- life

    def start(self) -> None:
        """Begin to take part; returns at once. The broker is registered and serves requests already."""
        self._session.on_ended(self._session_ended)
        self._session.on_renewed(self._session_renewed)
        self._queue.start()
        self._queue.put(events.Startup())

    async def stop(self) -> None:
        """Resign, without waiting for what is under way. The seat goes with the ZooKeeper session."""
        self._stopped = True
        self._resign()
        await self._queue.stop()

    async def drain_requests(self, timeout_s: float) -> None:
        """Before a clean stop: let the brokers hear what was decided, so that no partition waits for the next controller."""
        if self._term is not None and not await self._term.channels.drain(timeout_s):
            logger.warning("not all brokers answered within %g s; the next controller will tell them", timeout_s)

    def _config_changed(self, _: BrokerConfig, config: BrokerConfig) -> None:
        """Obey a changed dynamic configuration of this broker; newly allowed unclean elections are held."""
        before, self._settings = self._settings, ControllerSettings.from_config(self.broker_id, config)
        if self._term is not None:
            self._term.cluster.settings = self._settings
            if self._settings.unclean_leader_election_enable and not before.unclean_leader_election_enable:
                self._queue.put(events.UncleanLeaderElectionEnable())

    def topic_config_changed(self, topic: str, overrides: dict[str, str]) -> None:
        """A topic's settings changed: if they now allow unclean elections, hold them."""
        if overrides.get("unclean.leader.election.enable", "").strip().lower() == "true":
            self._queue.put(events.TopicUncleanLeaderElectionEnable(topic))

    @property
    def is_active(self) -> bool:
        """Does this broker govern? True as soon as it took the seat, also while it still reads the cluster."""
        return self._term is not None and not self._term.ended

    @property
    def epoch(self) -> int:
        """The controller epoch of the present or last term of this broker; 0 before the first."""
        return self._last_epoch

    @property
    def cluster(self) -> ClusterState | None:
        """What the active controller knows, to look at between awaits; None when not active."""
        return None if self._term is None else self._term.cluster

    async def wait_until_deleted(self, topic: str, timeout_s: float) -> bool:
        """Until the controller is done with a topic, its znodes included; at once where this broker is not the controller."""
        return await self._changes.wait_until(
            lambda: self.cluster is None or topic not in self.cluster.topics, timeout_s
        )

    async def wait_until_brokers_know(self, timeout_s: float) -> bool:
        """Until every registered broker has answered what this controller has told so far, or False after `timeout_s`.

        At once where this broker is not the controller.
        """
        return self._term is None or await self._term.channels.drain(timeout_s)

    def statistics(self) -> dict[str, Any]:
        """Figures for metrics: Kafka's gauges of the controller, the queue and the channels."""
        figures: dict[str, Any] = {
            "active_controller_count": int(self.is_active),
            "active_controller_id": self.active_controller_id,
            "controller_epoch": self._last_epoch,
            **self._queue.statistics(),
        }
        if self._term is not None:
            figures |= cluster_statistics(self._term.cluster)
            figures |= self._term.channels.statistics()
        return figures

    # -- events

    async def _process_event(self, event: events.Event) -> Any:
        match event:
            case events.Startup() | events.ControllerChange() | events.Reelect():
                # Who took the seat may have left it before the watch was armed again; so always look and elect.
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
            self._changes.changed()
            if isinstance(event, events.AutoPreferredReplicaLeaderElection) and term is self._term:
                self._schedule(self._settings.leader_imbalance_check_interval_seconds, event)

    async def _retry_on_store_error(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do something about the seat; a session that ends meanwhile will bring another chance."""
        try:
            await step()
        except (SessionExpiredError, StoreClosedError):
            logger.info("the ZooKeeper session ended during %s", step.__name__)
        except (StoreError, MalformedZnodeError) as problem:
            logger.error("%s failed and is tried again: %s", step.__name__, problem)
            self._schedule(FAILED_FAILOVER_BACKOFF_S, events.Reelect())

    # -- the seat

    async def _check_seat_and_elect(self) -> None:
        await self._maybe_resign()
        # A seat with our name and without our term is a claim whose answer was lost; `elect` sorts it out.
        if self._term is None and self.active_controller_id in (NO_BROKER, self.broker_id) and not self._stopped:
            wait_s = self._no_election_before_s - asyncio.get_running_loop().time()
            if wait_s > 0:
                self._schedule(wait_s, events.Reelect())
            else:
                await self._elect()

    async def _maybe_resign(self) -> None:
        """Look who has the seat, and leave it when it is somebody else."""
        self.active_controller_id = await self._read_controller_id()
        if self._term is not None and self.active_controller_id != self.broker_id:
            self._resign()

    async def _read_controller_id(self) -> BrokerId:
        """Who governs, NO_BROKER for nobody; arms the watch of the seat."""
        try:
            found = await read_controller(self._store, self._seat_changed)
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
        channels = ControllerChannelManager(self._open_channel, self._response_received)
        term = self._term = ControllerTerm(self._store, seat, cluster, channels, self._queue.put, self._rng)
        self._last_epoch = seat.epoch
        logger.info("broker %d is the controller with epoch %d", self.broker_id, seat.epoch)
        try:
            await term.perform(on_controller_failover(cluster, self._whole, seat.earlier_zxid))
        except ControllerMovedError:
            self._resign_and_reelect()
        except TermEnded:
            self._resign()
        except (SessionExpiredError, StoreClosedError):
            self._resign()
            raise
        except (StoreError, ValueError) as problem:
            logger.exception("taking over failed, another broker shall try: %s", problem)
            await self._vacate_seat()
        except InvariantBroken:
            raise
        except Exception as problem:
            report("taking over failed, another broker shall try", problem)
            await self._vacate_seat()
        else:
            term.settled.set()
            if self._settings.auto_leader_rebalance_enable:
                self._schedule(FIRST_REBALANCE_DELAY_S, events.AutoPreferredReplicaLeaderElection())

    async def _vacate_seat(self) -> None:
        """Resign and free the seat; stand back for a moment so that another broker can take it."""
        term = self._term
        self._resign()
        self._no_election_before_s = asyncio.get_running_loop().time() + FAILED_FAILOVER_BACKOFF_S
        if term is not None:
            try:
                await term.release()
            except ControllerMovedError:
                self._resign_and_reelect()

    def _resign_and_reelect(self) -> None:
        """A write was refused because of the epoch: resign, whatever /controller says, and look who has the seat."""
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
        self._changes.changed()

    # -- what enqueues

    def _seat_changed(self, notification: WatchEvent) -> None:
        deleted = notification.type is EventType.DELETED
        self._queue.put(events.Reelect() if deleted else events.ControllerChange())

    def _session_ended(self) -> None:
        if self._term is not None:
            self._term.end()
        self._queue.clear()
        self._queue.put(events.Expire())

    async def _session_renewed(self) -> None:
        if not self._stopped:
            self._queue.put(events.Reelect())

    def _response_received(
        self, broker_id: BrokerId, broker_epoch: int, request: ControlRequest, response: Any
    ) -> None:
        event = decode_response(broker_id, broker_epoch, request, response)
        if event is not None:
            self._queue.put(event)

    def _schedule(self, delay_s: float, event: events.Event) -> None:
        """Queue an event after a while, unless this broker resigns before."""
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
