"""A whole broker: the only place where its parts are wired together, started in order, and stopped.

The order of start is Kafka's (spec-zookeeper 3.1): ZooKeeper and cluster id, meta.properties, dynamic configuration, logs, listeners bound,
registration, controller, change notifications, requests served. `Broker` has all parts as attributes, because handlers get it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.broker.coordinators import Coordinators
from kafkalite.broker.dispatch import Dispatcher
from kafkalite.broker.dynamic_configs import ConfigChanges, DynamicConfigs
from kafkalite.broker.fetch_sessions import FetchSessionCache
from kafkalite.broker.fetching import PartitionReader
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.isr_changes import AlterPartitionSender, ZooKeeperIsrWriter
from kafkalite.broker.leader_fetcher import FetcherContext
from kafkalite.broker.log_dir_moves import LogDirMoves
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.producer_ids import ProducerIds
from kafkalite.broker.quota_znodes import all_quotas, entity_of, quotas_of
from kafkalite.broker.quotas import ClientQuotas
from kafkalite.broker.rates import replication_rates
from kafkalite.broker.registration import registration_of
from kafkalite.broker.replica_fetchers import ReplicaFetchers
from kafkalite.broker.replica_selection import selector
from kafkalite.broker.replicas import Replicas
from kafkalite.broker.server import Server
from kafkalite.broker.setting_changes import act_on_changes
from kafkalite.broker.shutdown import controlled_shutdown
from kafkalite.broker.topic_creation import TopicCreation
from kafkalite.broker.traffic import Traffic
from kafkalite.clock import Clock
from kafkalite.config.broker import BrokerConfig, ConfigError, LiveConfig
from kafkalite.controller.channels import tcp_channels
from kafkalite.controller.controller import Controller
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import Jobs, UnexpectedErrors
from kafkalite.protocol import messages
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.storage.cleaner import LogCleaner, RunPass, in_executor
from kafkalite.storage.disk import Disk
from kafkalite.storage.log_store import LogStore
from kafkalite.types import BrokerId, Endpoint, topic_id_to_text
from zk import paths
from zk.broker_registrar import BrokerRegistrar, DuplicateBrokerError
from zk.producer_ids import allocate_block
from zk.session import Session
from zk.store import NoNodeError, SessionExpiredError, Store
from zk.top_level import create_top_level, generate_broker_id, read_or_create_cluster_id
from zk.watches import ChildrenChanged, ChildWatch
from zk.znodes import BrokerRegistration, LogDirEvent

if TYPE_CHECKING:
    from kafkalite.broker.observation.pages import Observation
    from kafkalite.coordinators.group.machine import GroupMachine
    from kafkalite.coordinators.runtime import CoordinatorRuntime

logger = logging.getLogger("kafkalite.broker")

OLDEST_PROTOCOL = (2, 1, 1)
"""The oldest inter.broker.protocol.version of which all requests between brokers are spoken."""

_HAND_OVER_S = 1.0
"""How long a controller that stops waits for the brokers to hear its last decisions."""

_STALE_MARGIN_S = 5.0
"""Added to two session timeouts: how long the znode of a killed predecessor may be in the way."""


class Broker:
    """See the module. The session's store must be started already; `fatal(reason)` is called when the broker cannot go on.

    `run_pass` makes the passes of the log cleaner, by default in the event loop's executor.
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
    ) -> None:
        self.live_config = live = LiveConfig(config)
        self.session, self.clock, self.rng = session, clock, rng
        self.store: Store = session.store
        self.broker_id = config.broker_id
        self.cluster_id = ""
        self.state = BrokerState.NOT_RUNNING
        self._observation: Observation | None = None
        self._fatal = fatal
        self.errors = UnexpectedErrors(fatal)
        self.jobs = Jobs()
        self.protocol_version = ProtocolVersion.parse(config.inter_broker_protocol_version)
        if self.protocol_version < OLDEST_PROTOCOL:
            raise ConfigError(
                f"inter.broker.protocol.version is {config.inter_broker_protocol_version}; this broker speaks 2.1-IV1 and newer"
            )
        self.versions = self.protocol_version.requests
        self.served = SERVED
        self.metadata = MetadataCache()
        self.traffic = Traffic()
        self.quotas = ClientQuotas(config.quota_window_num, config.quota_window_size_seconds)
        self.leader_rate, self.follower_rate = replication_rates(live)
        self.logs = LogStore(live, disk, clock, rng)
        self.cleaner = LogCleaner(self.logs, live, clock, run_pass or in_executor(disk))
        self.dynamic_configs = DynamicConfigs(self.store, live)
        self.dispatcher = Dispatcher(self, SERVED)
        self.server = Server(live, self.dispatcher)
        self.controller_channel = ControllerChannel(
            config.broker_id, self._find_controller, config.controller_socket_timeout_ms / 1000
        )
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.topic_creation = TopicCreation(live, self.metadata, self.controller_channel, self.store)

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.live_config.current

    # Start

    async def start(self) -> None:
        """Until requests are served and the first metadata has arrived."""
        self.state = BrokerState.STARTING
        await self._start_observation()
        await create_top_level(self.store)
        self.cluster_id = await read_or_create_cluster_id(self.store, topic_id_to_text(self.rng.randbytes(16)))
        self.logs.acquire()
        self.broker_id = await self._resolve_broker_id()
        self.logs.check_identity(self.broker_id, self.cluster_id)
        await self.dynamic_configs.load_broker(self.broker_id)
        self.state = BrokerState.RECOVERY
        await self.logs.open(await self.dynamic_configs.all_topics())
        self.logs.claim(self.broker_id, self.cluster_id)
        self._make_parts()
        for entity, quotas in (await all_quotas(self.store, self.dynamic_configs.read)).items():
            self.quotas.take(entity, quotas)
        await self.server.bind()
        self.session.on_renewed(
            self._register
        )  # before the controller's hook: it stands for election as a registered broker
        await self._register()
        # Not before: what the controller sent to this broker's earlier life is known by the older broker epoch.
        await self.server.serve()
        act_on_changes(self.live_config, self.jobs, self.server, self.cleaner, self._announce_listeners)
        await self._config_changes_watch.start()
        self.controller.start()
        self._start_jobs()
        self.state = BrokerState.RUNNING
        await self.metadata.wait_for_controller()

    async def _start_observation(self) -> None:
        """First of all, so that a broker that recovers its logs for long is seen to be alive."""
        if self.config.kafkalite_http_listener is not None:
            from kafkalite.broker.observation.pages import Observation  # 1 MB that brokers without it save

            self._observation = Observation(self)
            await self._observation.start(self.config.kafkalite_http_listener)

    async def _resolve_broker_id(self) -> BrokerId:
        if self.config.broker_id >= 0:
            return self.config.broker_id
        stored = self.logs.read_identity().broker_id
        if stored is not None:
            return stored
        return await generate_broker_id(self.store, self.config.reserved_broker_max_id)

    def _make_parts(self) -> None:
        """What needs the broker's id."""
        live, clock, broker_id = self.live_config, self.clock, self.broker_id
        config = live.current
        if self.protocol_version.alters_partitions:
            self.isr_changes: AlterPartitionSender | ZooKeeperIsrWriter = AlterPartitionSender(
                broker_id,
                lambda: self.replicas.broker_epoch,
                self.controller_channel,
                clock.monotonic_ms,
            )
        else:
            self.isr_changes = ZooKeeperIsrWriter(broker_id, self.store, clock.monotonic_ms)
        self.replicas = Replicas(
            broker_id,
            self.logs,
            self.metadata,
            clock,
            config.replica_lag_time_max_ms,
            self.dynamic_configs.topic,
            self.isr_changes.propose,
        )
        self.fetchers = ReplicaFetchers(
            FetcherContext(
                broker_id,
                lambda: self.replicas.broker_epoch,
                live,
                self.versions,
                lambda leader: self.metadata.endpoint(leader, config.inter_broker_listener_name),
                clock.monotonic_ms,
                clock.now_ms,
                self.follower_rate,
            )
        )
        self.replicas.followers = self.fetchers
        self.log_dir_moves = LogDirMoves(
            self.replicas,
            self.logs,
            self.jobs,
            live,
        )
        self.coordinators = Coordinators(live, self.metadata, clock, self.jobs.spawn, self._fatal)
        self.replicas.on_roles = self.coordinators.take_roles
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            self._new_session_id,
            self.replicas.watch,
            self.replicas.unwatch,
        )
        self.partition_reader = PartitionReader(
            self.replicas,
            self.isr_changes.propose,
            self.leader_rate,
            selector(config.replica_selector_class, self.metadata, broker_id),
        )
        self.registrar = BrokerRegistrar(
            self.store, broker_id, 2 * config.zookeeper_session_timeout_ms / 1000 + _STALE_MARGIN_S
        )
        self.controller = Controller(
            self.store,
            broker_id,
            live,
            clock,
            self.rng,
            tcp_channels(str(broker_id), config.controller_socket_timeout_ms),
            session=self.session,
            on_fatal=lambda problem: self._fatal(f"the controller stopped: {problem}"),
        )
        self._config_changes_watch = ChildWatch(self.session, paths.CONFIG_CHANGES, self._config_changes_seen)
        self.config_changes = ConfigChanges(self.store, clock, self._config_changed)

    def _registration(self) -> BrokerRegistration:
        return registration_of(self.config, self.server.bound_ports, self.clock.now_ms())

    async def _register(self) -> None:
        """At start, and again under each new session, which makes a new broker epoch."""
        try:
            self.replicas.broker_epoch = await self.registrar.register(self._registration())
        except DuplicateBrokerError as problem:
            self._fatal(str(problem))
            raise
        logger.info("registered as broker %d, broker epoch %d", self.broker_id, self.replicas.broker_epoch)

    async def _announce_listeners(self) -> None:
        """Have the controller tell everybody where this broker listens now."""
        try:
            await self.registrar.update(self._registration())
        except (NoNodeError, SessionExpiredError):
            logger.info("the listeners are told when the next session registers this broker")

    def _config_changes_seen(self, change: ChildrenChanged) -> None:
        self.jobs.retry(lambda: self.config_changes.look(list(change.names)), "configuration changes")

    def _start_jobs(self) -> None:
        config, every = self.config, self.jobs.every
        every(config.replica_lag_time_max_ms / 2000, "shrink ISRs", self.replicas.shrink_isrs)
        every(
            config.replica_high_watermark_checkpoint_interval_ms / 1000,
            "checkpoint high watermarks",
            self.replicas.checkpoint_high_watermarks,
        )
        first_s = config.log_initial_task_delay_ms / 1000
        check_s = config.log_retention_check_interval_ms / 1000
        every(check_s, "retention", self._apply_retention, first_s)
        every(1.0, "flush sealed segments", self.logs.flush_sealed)
        every(
            min(1.0, config.log_flush_scheduler_interval_ms / 1000),
            "flush",
            lambda: self.logs.flush_overdue(self.clock.now_ms()),
        )
        every(
            config.log_flush_offset_checkpoint_interval_ms / 1000,
            "checkpoint recovery points",
            self.logs.checkpoint_recovery_points,
            first_s,
        )
        every(
            config.log_flush_start_offset_checkpoint_interval_ms / 1000,
            "checkpoint log start offsets",
            self.logs.checkpoint_log_start_offsets,
            first_s,
        )
        every(
            config.producer_id_expiration_check_interval_ms / 1000,
            "expire producer ids",
            lambda: self.logs.expire_producers(self.clock.now_ms()),
        )
        every(1.0, "delete files", lambda: self.logs.purge_deleted(self.clock.now_ms()))
        if config.log_cleaner_enable:
            self.cleaner.start_workers(self.jobs.retry)
        self.log_dir_moves.resume()
        every(1.0, "notice failed directories", self._notice_failed_directories)

    def _apply_retention(self) -> None:
        self.logs.delete_old_segments(self.clock.now_ms())

    # Stop

    async def stop(self) -> None:
        """A clean stop: leaders moved away, answers sent, logs flushed, registration removed."""
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self.fetchers.follow_no_more()
        if self.config.controlled_shutdown_enable:
            await controlled_shutdown(self)
            await self.controller.hand_over(_HAND_OVER_S)
        self.state = BrokerState.SHUTTING_DOWN
        await self._config_changes_watch.stop()
        await self.jobs.stop()
        await self.controller.stop()
        await self.fetchers.close()
        await self.isr_changes.close()
        self.coordinators.close()
        await self.server.close()
        self.dispatcher.cancel_all()
        await self.controller_channel.close()
        self.replicas.checkpoint_high_watermarks()
        await self.logs.close()
        if self._observation is not None:
            await self._observation.close()
        await self.store.close()

    @property
    def groups(self) -> CoordinatorRuntime[GroupMachine]:
        return self.coordinators.groups

    @property
    def left_to_stop(self) -> str:
        """What a stop still has to do; the text changes as long as it comes along."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            leaders = sum(len(partition.replicas) > 1 for partition in self.replicas.leading())
            return f"{leaders} leaders to hand over"
        return f"{self.logs.left_to_close} logs to close"

    # Ports for the parts

    def _find_controller(self) -> tuple[BrokerId, Endpoint] | None:
        controller_id = self.controller.active_controller_id
        if controller_id < 0:
            controller_id = self.metadata.controller_id
        endpoint = self.metadata.endpoint(controller_id, self.config.inter_broker_listener_name)
        return (controller_id, endpoint) if endpoint is not None else None

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        if not self.protocol_version.allocates_producer_ids:
            block = await allocate_block(self.store, self.broker_id)
            return block.first_producer_id, block.last_producer_id - block.first_producer_id + 1
        request = messages.allocate_producer_ids_request.AllocateProducerIdsRequest(
            broker_id=self.broker_id, broker_epoch=self.replicas.broker_epoch
        )
        deadline_s = asyncio.get_running_loop().time() + self.config.request_timeout_ms / 1000
        try:
            reply = await self.controller_channel.request(request, deadline_s)
        except TimeoutError as problem:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {problem}") from None
        if reply.error_code:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {ErrorCode(reply.error_code).name}"
            )
        return int(reply.producer_id_start), int(reply.producer_id_len)

    def _new_session_id(self, taken: Any) -> int:
        session_id = 0
        while session_id == 0 or session_id in taken:
            session_id = self.rng.randrange(1, 1 << 31)
        return session_id

    async def _config_changed(self, entity_type: str, entity_name: str) -> None:
        if entity_type == "topics":
            await self._take_topic_config(entity_name)
            overrides = await self.dynamic_configs.read(paths.topic_config(entity_name))
            self.controller.topic_config_changed(entity_name, overrides)
        elif entity_type == "brokers" and entity_name in (paths.DEFAULT_ENTITY, str(self.broker_id)):
            await self._take_broker_config()
        elif (entity := entity_of(entity_type, entity_name)) is not None:
            self.quotas.take(entity, await quotas_of(self.dynamic_configs.read, entity))

    async def _take_broker_config(self) -> None:
        await self.dynamic_configs.load_broker(self.broker_id)
        for topic in sorted({tp.topic for tp in self.replicas.partitions}):
            await self._take_topic_config(topic)

    async def _take_topic_config(self, topic: str) -> None:
        self.replicas.take_topic_config(topic, await self.dynamic_configs.topic(topic))

    async def _notice_failed_directories(self) -> None:
        """Partitions of a failed directory go offline, and the controller is told (spec-zookeeper 5, LogDirEvent)."""
        if self.replicas.directory_failed():
            event = LogDirEvent(broker_id=self.broker_id).encode()
            await self.store.create(paths.LOG_DIR_EVENT_PREFIX, event, sequence=True)
