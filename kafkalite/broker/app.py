"""A whole broker: starts its parts in order, and stops them.

The order of start is that of Kafka's `KafkaServer.startup`: ZooKeeper and cluster id, meta.properties, dynamic configuration, logs,
listeners bound, registration, controller, change notifications, requests served. What exists before the logs are open are the
`EarlyParts` of `wiring`, afterwards the complete `BrokerParts`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalite.broker.bounded_stop import HAND_OVER_SHARE, LAST_SHARE, BoundedStop
from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.config_updates import follow_settings
from kafkalite.broker.connections.listener_security import LOOK_EVERY_S
from kafkalite.broker.connections.server import Server
from kafkalite.broker.coordination.leadership_proof import CHECKS
from kafkalite.broker.failure_detection.own_session import OwnSession
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.identity.authorizer import ALLOW_ALL
from kafkalite.broker.registration import registration_of
from kafkalite.broker.replication.directory_failures import DirectoryFailures
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.request_metering import RequestMetering
from kafkalite.broker.settings.quota_znodes import all_settings, quotas_in
from kafkalite.broker.shutdown import controlled_shutdown
from kafkalite.broker.stages import Stages
from kafkalite.broker.wiring import BrokerParts, make_early_parts, wire
from kafkalite.clock import Clock
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.errors import InvariantBroken
from kafkalite.lifecycle import UnexpectedErrors
from kafkalite.storage.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kafkalite.storage.directories.cleaner import RunPass
from kafkalite.storage.directories.identity import check_identity, claim_directories, read_identity
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import Disk
from kafkalite.types import BrokerId, topic_id_to_text
from zk.broker_registrar import DuplicateBrokerError
from zk.session import Session
from zk.store import NoNodeError, SessionExpiredError, Store
from zk.top_level import create_top_level, generate_broker_id, read_or_create_cluster_id
from zk.watches import ChildWatch
from zk.znodes import BrokerRegistration

if TYPE_CHECKING:
    from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedReads
    from kafkalite.broker.observation.pages import Observation
    from kafkalite.broker.requests.fault_control import FaultControl
    from kafkalite.broker.requests.served_api import ServedApi

T = TypeVar("T")

logger = logging.getLogger("kafkalite.broker")

_HAND_OVER_S = 1.0
"""Time for which a controller that stops waits until the brokers have its last requests."""


class Serving(NamedTuple):
    """The dispatcher, servers and parts of a running broker."""

    parts: BrokerParts
    dispatcher: Dispatcher[BrokerParts]
    server: Server
    config_changes_watch: ChildWatch


class Broker:
    """A broker from start to stop. The session's store must be started; `fatal(reason)` is called when the broker cannot go on.

    `run_pass` makes the passes of the log cleaner, by default in the event loop's executor. `fault_control` has faults on purpose,
    `stages` hears how far start and stop are, `unauthenticated_reads` reads from those who are not authenticated.
    """

    def __init__(
        self,
        config: BrokerConfig,
        session: Session,
        disk: Disk,
        clock: Clock,
        rng: random.Random,
        fatal: Callable[[str], None],
        run_pass: RunPass | None = None,
        fault_control: FaultControl | None = None,
        stages: Stages | None = None,
        unauthenticated_reads: UnauthenticatedReads | None = None,
    ) -> None:
        self._early = early = make_early_parts(
            LiveConfig(config), session, disk, clock, rng, fatal, run_pass, unauthenticated_reads
        )
        self.stages = stages or Stages()
        self.store: Store = session.store
        self.own_session = OwnSession(early.live_config, early.logs, session.store)
        self.clock = clock
        self.broker_id = config.broker_id
        self.cluster_id = ""
        self.state = BrokerState.NOT_RUNNING
        self.errors = UnexpectedErrors(fatal)
        self.jobs, self.metadata = early.jobs, early.metadata
        self.security, self.cleaner = early.security, early.cleaner
        self._observation: Observation | None = None
        self._fault_control = fault_control
        self._stop: BoundedStop | None = None
        """The stop that is under way."""
        self.serving: Serving | None = None
        """The parts that serve clients; None until the broker is running."""

    @property
    def config(self) -> BrokerConfig:
        """Return the settings as they are now."""
        return self._early.live_config.current

    # Start

    async def start(self) -> None:
        """Start all parts; return when requests are served and the first metadata has arrived."""
        self.state = BrokerState.STARTING
        await self._start_observation()
        early, stages = self._early, self.stages
        again = self._under_any_session
        await again(lambda: create_top_level(self.store))
        new_id = topic_id_to_text(early.rng.randbytes(16))
        self.cluster_id = await again(lambda: read_or_create_cluster_id(self.store, new_id))
        early.logs.acquire()
        self.broker_id = await again(self._resolve_broker_id)
        check_identity(early.logs.online_directories, self.broker_id, self.cluster_id)
        await again(lambda: self.own_session.end_predecessor(self.broker_id))
        await again(lambda: early.dynamic_configs.load_broker(self.broker_id))
        stages.end("cluster and broker id")
        self.state = BrokerState.RECOVERY
        await early.logs.open(await again(early.dynamic_configs.all_topics))
        claim_directories(early.logs.online_directories, self.broker_id, self.cluster_id)
        stages.end("logs opened")
        self.metadata.expects_topics = bool(early.logs.all_logs())
        parts = wire(early, self.broker_id, self.cluster_id, SERVED)
        parts.failure_detection.count_certain(self.own_session.outcomes)
        dispatcher = Dispatcher(
            parts,
            await self._choose_served(),
            parts.acls or ALLOW_ALL,
            peer_listener=self.config.inter_broker_listener_name,
        )
        metering = RequestMetering(early.quotas.requests, self.clock.monotonic_ms)
        early.quotas.requests.on_change = lambda is_set: dispatcher.run_within(metering.around if is_set else None)
        server = Server(early.live_config, dispatcher, self.security, early.quotas.opened)
        serving = Serving(parts, dispatcher, server, parts.config_changes.watch(early.session, self.jobs))
        found = await again(lambda: all_settings(self.store, early.dynamic_configs.read))
        for entity, settings in found.items():
            early.quotas.take(entity, quotas_in(entity, settings))
            early.users.take(entity, settings)
        if parts.acls is not None:  # which everything that is served asks
            await again(partial(parts.acls.start, early.session, self.jobs))
        await again(lambda: self._early.delegation_tokens.start(early.session, self.jobs))
        await self.security.prepare()
        await server.bind()
        stages.end("parts made, settings read, listeners bound")
        register = partial(self._register, serving)
        early.session.on_renewed(
            register
        )  # before the controller's hook: it stands for election as a registered broker
        await again(register)
        # Not before: what the controller sent to this broker's earlier life is known by the older broker epoch.
        await server.serve()
        stages.end("registered, connections accepted")
        announce = partial(self._announce_listeners, serving)
        follow_settings(early.live_config, self.jobs, server, self.cleaner, announce)
        await again(serving.config_changes_watch.start)
        parts.controller.start()
        self._start_jobs(parts)
        self.serving = serving
        self.state = BrokerState.RUNNING
        await self.metadata.wait_for_controller()
        stages.end("roles and metadata received")

    async def _start_observation(self) -> None:
        """Start the HTTP listener before everything else, so that a broker with a long log recovery is seen to be alive."""
        if self.config.kafkalite_http_listener is not None:
            from kafkalite.broker.observation.pages import Observation  # 1 MB that brokers without it save

            self._observation = Observation(self)
            await self._observation.start(self.config.kafkalite_http_listener)

    async def _choose_served(self) -> Sequence[ServedApi[BrokerParts]]:
        """Return the APIs that clients are served, behind the faults that tests ask for."""
        if self._fault_control is None:
            return SERVED
        await self._fault_control.start()
        return self._fault_control.faults.around(SERVED, self.metadata.topic_name)

    async def _resolve_broker_id(self) -> BrokerId:
        if self.config.broker_id >= 0:
            return self.config.broker_id
        stored = read_identity(self._early.logs.online_directories).broker_id
        if stored is not None:
            return stored
        return await generate_broker_id(self.store, self.config.reserved_broker_max_id)

    def _registration(self, server: Server) -> BrokerRegistration:
        return registration_of(self.config, server.bound_ports, self.clock.now_ms())

    async def _register(self, serving: Serving) -> None:
        """Register the broker, at its start and under each new session, and note the broker epoch that results."""
        parts = serving.parts
        self.own_session.write(parts.broker_id)
        try:
            parts.replicas.broker_epoch = await parts.registrar.register(self._registration(serving.server))
        except DuplicateBrokerError as problem:
            self._early.fatal(str(problem))
            raise
        logger.info("registered as broker %d, broker epoch %d", parts.broker_id, parts.replicas.broker_epoch)

    async def _under_any_session(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run a repeatable step, again under the next session while one ends meanwhile.

        That happens on a busy machine, and where the znode of the broker's earlier process has to expire first.
        """
        while True:
            try:
                return await step()
            except SessionExpiredError:
                logger.info("the ZooKeeper session ended during the start of this broker")
                await self._early.session.wait_connected()

    async def _announce_listeners(self, serving: Serving) -> None:
        """Update the registration with the listeners as they are now, which the controller announces to the cluster."""
        try:
            await serving.parts.registrar.update(self._registration(serving.server))
        except (NoNodeError, SessionExpiredError):
            logger.info("the listeners are registered with the next session of this broker")

    def _start_jobs(self, parts: BrokerParts) -> None:
        config, every, logs, clock = self.config, self.jobs.every, parts.logs, self.clock
        every(config.replica_lag_time_max_ms / 2000, "shrink ISRs", parts.replicas.shrink_isrs)
        every(
            config.replica_high_watermark_checkpoint_interval_ms / 1000,
            "checkpoint high watermarks",
            partial(_save_high_watermarks, parts),
        )
        every(config.zookeeper_session_timeout_ms / 1000 / CHECKS, "look for pauses", parts.session_doubt.check_pause)
        first_s = config.log_initial_task_delay_ms / 1000
        check_s = config.log_retention_check_interval_ms / 1000
        every(check_s, "retention", partial(self._apply_retention, logs), first_s)
        every(1.0, "flush sealed segments", logs.flush_sealed)
        if any(each.security_protocol.endswith("SSL") for each in config.listeners):
            every(LOOK_EVERY_S, "renewed certificates", self.security.look)
        every(
            config.delegation_token_expiry_check_interval_ms / 1000,
            "remove expired delegation tokens",
            partial(self._remove_expired_tokens, parts),
        )
        every(
            min(1.0, config.log_flush_scheduler_interval_ms / 1000),
            "flush",
            lambda: logs.flush_overdue(clock.now_ms()),
        )
        every(
            config.log_flush_offset_checkpoint_interval_ms / 1000,
            "checkpoint recovery points",
            partial(logs.save_checkpoint_later, RECOVERY_POINT),
            first_s,
        )
        every(config.log_flush_offset_checkpoint_interval_ms / 1000, "summarize logs", logs.summarize_changed, first_s)
        every(
            config.log_flush_start_offset_checkpoint_interval_ms / 1000,
            "checkpoint log start offsets",
            partial(logs.save_checkpoint_later, LOG_START),
            first_s,
        )
        every(
            config.producer_id_expiration_check_interval_ms / 1000,
            "expire producer ids",
            lambda: logs.expire_producers(clock.now_ms()),
        )
        every(1.0, "delete files", lambda: logs.purge_deleted(clock.now_ms()))
        if config.log_cleaner_enable:
            self.cleaner.start_workers(self.jobs.retry)
        parts.log_dir_moves.resume()
        parts.failure_detection.start(self.jobs)
        failures = DirectoryFailures(self.broker_id, parts.replicas, self.store)
        every(1.0, "notice failed directories", failures.notice)

    async def _remove_expired_tokens(self, parts: BrokerParts) -> None:
        if parts.controller.is_active:
            await self._early.delegation_tokens.remove_expired()

    async def _apply_retention(self, logs: LogStore) -> None:
        await logs.delete_old_segments(self.clock.now_ms())

    # Stop

    async def stop(self) -> None:
        """Stop a started broker cleanly: move leaders away, send responses, flush logs, remove the registration.

        Checkpoints are written first, and again with the logs at the end: a kill during the stop undoes nothing that was answered. Raises
        UncleanStop, after all that could be done, for what failed or took too long.
        """
        serving = self.serving
        if serving is None:
            raise InvariantBroken("a broker is stopped that has not started")
        parts, stages = serving.parts, self.stages
        stop = self._stop = BoundedStop(self.config.kafkalite_shutdown_timeout_ms / 1000)
        stages.begin()
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        stop.call("checkpoints", partial(_write_checkpoints, parts))
        parts.logs.leave_files_to_close()  # else each step of the stop would wait for those of another log
        parts.fetchers.refuse_partitions()
        if self.config.controlled_shutdown_enable:
            await stop.step("leaders that are handed over", controlled_shutdown(parts), HAND_OVER_SHARE)
            await stop.step("brokers that hear of it", parts.controller.drain_requests(_HAND_OVER_S))
        stages.end("leaders handed over")
        self.state = BrokerState.SHUTTING_DOWN
        await self._end_serving(serving, stop)
        stages.end("jobs, controller and connections ended")
        stop.call("high watermarks", parts.replicas.checkpoint_high_watermarks)
        await stop.step("logs that are closed", parts.logs.close(may_mark=not stop.problems), LAST_SHARE)
        stages.end("logs closed")
        if self._observation is not None:
            await stop.step("HTTP listener", self._observation.close())
        if self._fault_control is not None:
            stop.call("faults on purpose", self._fault_control.close)
        await stop.step("session with ZooKeeper", self.own_session.close())
        stages.end("session with ZooKeeper closed")
        stop.end()

    async def _end_serving(self, serving: Serving, stop: BoundedStop) -> None:
        """End everything that appends, answers or decides."""
        parts, dispatcher, server, config_changes_watch = serving
        await stop.step("watch of configuration changes", config_changes_watch.stop())
        if parts.acls is not None:
            await stop.step("watches of ACLs", parts.acls.stop())
        await stop.step("watch of delegation tokens", self._early.delegation_tokens.stop())
        await stop.step("jobs", self.jobs.stop())
        await stop.step("failure detection", parts.failure_detection.close())
        await stop.step("controller", parts.controller.stop())
        await stop.step("replica fetchers", parts.fetchers.close())
        await stop.step("ISR changes", parts.isr_changes.close())
        stop.call("coordinators", parts.coordinators.close)
        stop.call("transaction markers", parts.marker_sender.close)
        stop.call("transaction verification", parts.transaction_verifier.close)
        stop.call("proofs of leadership", parts.leadership.close)
        await stop.step("connections", server.close())
        stop.call("requests", dispatcher.cancel_all)
        await stop.step("jobs that requests began", self.jobs.stop())
        await stop.step("producer ids", parts.producer_ids.close())
        await stop.step("topics that are created", parts.topic_creation.close())
        await stop.step("connection to the controller", parts.controller_channel.close())

    @property
    def left_to_stop(self) -> str:
        """Return what a stop still has to do; the text changes as long as the stop makes progress."""
        if self.serving is not None and self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            leaders = sum(len(partition.replicas) > 1 for partition in self.serving.parts.replicas.leading())
            return f"{leaders} leaders to hand over"
        step = f"; now {self._stop.step_name}" if self._stop is not None else ""
        return f"{self._early.logs.left_to_close} logs to close{step}"


async def _save_high_watermarks(parts: BrokerParts) -> None:
    """Write the high watermarks to disk, once roles are known."""
    if parts.replicas.has_roles:
        await parts.logs.save_checkpoint_later(HIGH_WATERMARK)


def _write_checkpoints(parts: BrokerParts) -> None:
    """Write what a kill would undo: where logs start, what is on the medium, what is committed."""
    parts.logs.checkpoint_log_start_offsets()
    parts.logs.checkpoint_recovery_points()
    parts.replicas.checkpoint_high_watermarks()
