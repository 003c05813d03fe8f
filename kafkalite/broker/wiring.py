"""The parts of a broker, complete: made in one step once its id is known and its logs are open.

`EarlyParts` is what a broker has from the beginning, when it still recovers its logs; `BrokerParts` is all that its handlers, metrics and
status pages may look at, and nothing is added to it later. Parts that need each other find each other by closures in `wire`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

from kafkalite.broker.config_updates import ConfigUpdates
from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.broker.coordination.coordinators import Coordinators
from kafkalite.broker.coordination.leadership_proof import LeadershipProof, SessionDoubt
from kafkalite.broker.coordination.marker_sender import MarkerSender
from kafkalite.broker.coordination.producer_ids import ProducerIds, blocks_from_controller, blocks_from_zookeeper
from kafkalite.broker.coordination.replica_questions import ReplicaQuestions
from kafkalite.broker.coordination.transaction_markers import MarkerWriter
from kafkalite.broker.coordination.transaction_verification import TransactionVerifier
from kafkalite.broker.coordination.zookeeper_offsets import ZooKeeperOffsets
from kafkalite.broker.delayed_metadata import DelayedMetadata
from kafkalite.broker.failure_detection.detection_settings import DetectionMode, read_detection_settings
from kafkalite.broker.failure_detection.failure_detection import FailureDetection
from kafkalite.broker.failure_detection.peer_sessions import PeerSessions
from kafkalite.broker.failure_detection.unclean_topics import UncleanTopics
from kafkalite.broker.fetch.fetch_sessions import FetchSessionCache, random_session_ids
from kafkalite.broker.fetch.partition_reader import PartitionReader
from kafkalite.broker.fetch.range_digests import RangeDigests
from kafkalite.broker.fetch.replica_selector import selector
from kafkalite.broker.identity.acl_authorizer import AclAuthorizer
from kafkalite.broker.identity.delegation_tokens import DelegationTokens
from kafkalite.broker.identity.user_lookup import UserCredentials
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.replication.isr_changes import AlterPartitionSender, ZooKeeperIsrWriter
from kafkalite.broker.replication.leader_fetcher import FetcherContext
from kafkalite.broker.replication.log_dir_moves import LogDirMoves
from kafkalite.broker.replication.replica_fetchers import ReplicaFetchers
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.broker.requests.served_api import Audience, ServedApi, spoken_of
from kafkalite.broker.settings.dynamic_configs import ConfigChanges, DynamicConfigs
from kafkalite.broker.settings.quotas import ClientQuotas
from kafkalite.broker.settings.rates import replication_rates
from kafkalite.broker.topic_creation import TopicCreation
from kafkalite.broker.traffic import Traffic
from kafkalite.clock import Clock
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller.channel_manager import open_tcp_channels
from kafkalite.controller.controller import Controller
from kafkalite.lifecycle import Jobs
from kafkalite.portions import Portions
from kafkalite.protocol import messages
from kafkalite.protocol.inter_broker import InterBrokerVersions, ProtocolVersion
from kafkalite.security.principal import principals_in
from kafkalite.storage.directories.cleaner import LogCleaner, RunPass, in_executor
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import Disk
from kafkalite.types import BrokerId, Endpoint
from zk.broker_registrar import BrokerRegistrar
from zk.session import Session
from zk.store import Store

if TYPE_CHECKING:
    from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedReads
    from kafkalite.coordinators.group.machine import GroupMachine
    from kafkalite.coordinators.runtime import CoordinatorRuntime
    from kafkalite.coordinators.transaction.machine import TransactionMachine

_STALE_MARGIN_S = 5.0
"""Added to two session timeouts: how long the znode of a killed predecessor may be in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyParts:
    """The parts that a broker has while it still recovers its logs. `fatal(reason)` is called when the broker cannot go on."""

    live_config: LiveConfig
    session: Session
    clock: Clock
    rng: random.Random
    fatal: Callable[[str], None]
    jobs: Jobs
    protocol_version: ProtocolVersion
    metadata: MetadataCache
    quotas: ClientQuotas
    users: UserCredentials
    logs: LogStore
    cleaner: LogCleaner
    dynamic_configs: DynamicConfigs
    security: ListenerSecurity
    delegation_tokens: DelegationTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """All parts that handlers, metrics and status pages may use. Nothing is added later."""

    broker_id: BrokerId
    cluster_id: str
    spoken: messages.api_versions_response.ApiVersionsResponse
    spoken_to_clients: messages.api_versions_response.ApiVersionsResponse
    spoken_to_peers: messages.api_versions_response.ApiVersionsResponse
    live_config: LiveConfig
    clock: Clock
    rng: random.Random
    store: Store
    jobs: Jobs
    versions: InterBrokerVersions
    metadata: MetadataCache
    delayed_metadata: DelayedMetadata
    quotas: ClientQuotas
    traffic: Traffic
    logs: LogStore
    cleaner: LogCleaner
    dynamic_configs: DynamicConfigs
    delegation_tokens: DelegationTokens
    config_changes: ConfigChanges
    acls: AclAuthorizer | None
    controller: Controller
    controller_channel: ControllerChannel
    topic_creation: TopicCreation
    producer_ids: ProducerIds
    isr_changes: AlterPartitionSender | ZooKeeperIsrWriter
    replicas: Replicas
    fetchers: ReplicaFetchers
    log_dir_moves: LogDirMoves
    coordinators: Coordinators
    session_doubt: SessionDoubt
    leadership: LeadershipProof
    marker_writer: MarkerWriter
    marker_sender: MarkerSender
    transaction_verifier: TransactionVerifier
    zookeeper_offsets: ZooKeeperOffsets
    fetch_sessions: FetchSessionCache
    partition_reader: PartitionReader
    range_digests: RangeDigests
    registrar: BrokerRegistrar
    failure_detection: FailureDetection

    @property
    def config(self) -> BrokerConfig:
        """Return the settings as they are now."""
        return self.live_config.current

    @property
    def groups(self) -> CoordinatorRuntime[GroupMachine]:
        return self.coordinators.groups

    @property
    def transactions(self) -> CoordinatorRuntime[TransactionMachine]:
        return self.coordinators.transactions


def make_early_parts(
    live: LiveConfig,
    session: Session,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    fatal: Callable[[str], None],
    run_pass: RunPass | None,
    unauthenticated_reads: UnauthenticatedReads | None,
) -> EarlyParts:
    """Make the first parts of a broker."""
    config = live.current
    protocol_version = ProtocolVersion.parse(config.inter_broker_protocol_version)
    logs = LogStore(live, disk, clock, rng)
    dynamic_configs = DynamicConfigs(session.store, live)
    delegation_tokens = DelegationTokens(session.store, live, clock)
    users = UserCredentials(session.store, dynamic_configs.read, clock)
    return EarlyParts(
        live_config=live,
        session=session,
        clock=clock,
        rng=rng,
        fatal=fatal,
        jobs=Jobs(),
        protocol_version=protocol_version,
        metadata=MetadataCache(),
        quotas=ClientQuotas(
            (config.quota_window_num, config.quota_window_size_seconds),
            (config.controller_quota_window_num, config.controller_quota_window_size_seconds),
        ),
        users=users,
        logs=logs,
        cleaner=LogCleaner(logs, live, clock, run_pass or in_executor(disk)),
        dynamic_configs=dynamic_configs,
        security=ListenerSecurity(
            live,
            users.find,
            clock.now_ms,
            delegation_tokens.credential,
            lambda: clock.monotonic_ms() / 1000,
            unauthenticated_reads,
        ),
        delegation_tokens=delegation_tokens,
    )


def wire(early: EarlyParts, broker_id: BrokerId, cluster_id: str, served: Sequence[ServedApi[Never]]) -> BrokerParts:
    """Make the complete parts of a broker; none of them runs yet."""
    live, clock, metadata, jobs, logs = early.live_config, early.clock, early.metadata, early.jobs, early.logs
    config, versions, store = live.current, early.protocol_version.requests, early.session.store
    connect = early.security.open
    leader_rate, follower_rate = replication_rates(live)

    def broker_epoch() -> int:
        return replicas.broker_epoch

    def find_controller() -> tuple[BrokerId, Endpoint] | None:
        controller_id = controller.active_controller_id
        if controller_id < 0:
            controller_id = metadata.controller_id
        endpoint = metadata.endpoint(controller_id, live.current.inter_broker_listener_name)
        return (controller_id, endpoint) if endpoint is not None else None

    controller = Controller(
        store,
        broker_id,
        live,
        clock,
        early.rng,
        open_tcp_channels(str(broker_id), config.controller_socket_timeout_ms, connect),
        session=early.session,
        on_fatal=lambda problem: early.fatal(f"the controller stopped: {problem}"),
        had_clean_shutdown=logs.lost_nothing,
        own_metadata=lambda: metadata.topics,
    )
    channel = ControllerChannel(broker_id, find_controller, config.controller_socket_timeout_ms / 1000, connect)
    isr_changes: AlterPartitionSender | ZooKeeperIsrWriter
    if early.protocol_version.alters_partitions:
        isr_changes = AlterPartitionSender(broker_id, broker_epoch, channel, clock.monotonic_ms)
    else:
        isr_changes = ZooKeeperIsrWriter(broker_id, store, clock.monotonic_ms)
    fetchers = ReplicaFetchers(
        FetcherContext(
            broker_id,
            broker_epoch,
            live,
            versions,
            lambda leader: metadata.endpoint(leader, config.inter_broker_listener_name),
            clock.monotonic_ms,
            clock.now_ms,
            follower_rate,
            logs.note_log_starts,
            connect,
        )
    )
    coordinators = Coordinators(
        live,
        metadata,
        clock,
        jobs.spawn,
        early.fatal,
        lambda partition, markers: marker_sender.send(partition, markers),
    )
    replicas = Replicas(
        broker_id,
        logs,
        metadata,
        clock,
        config.replica_lag_time_max_ms,
        early.dynamic_configs.topic,
        isr_changes.propose,
        fetchers,
        coordinators.apply_roles,
    )
    unclean_topics = UncleanTopics(metadata, early.dynamic_configs.topic)

    def on_defaults_change(before: BrokerConfig, after: BrokerConfig) -> None:
        if before.unclean_leader_election_enable != after.unclean_leader_election_enable:
            unclean_topics.forget_all()

    live.subscribe(on_defaults_change)

    def on_topic_config_change(topic: str, overrides: dict[str, str]) -> None:
        unclean_topics.forget(topic)
        controller.on_topic_config_change(topic, overrides)

    updates = ConfigUpdates(
        broker_id, early.dynamic_configs, replicas, early.quotas, early.users, on_topic_config_change
    )
    if early.protocol_version.allocates_producer_ids:
        blocks = blocks_from_controller(
            broker_id, broker_epoch, channel, lambda: live.current.request_timeout_ms / 1000
        )
    else:
        blocks = blocks_from_zookeeper(broker_id, store)
    topic_creation = TopicCreation(live, metadata, channel, store)
    marker_writer = MarkerWriter(
        replicas, clock, lambda: live.current.request_timeout_ms, coordinators.groups.on_transaction_end
    )
    session_doubt = SessionDoubt(store, clock, config.zookeeper_session_timeout_ms)
    detection = read_detection_settings(config)
    failure_detection = FailureDetection(
        broker_id,
        detection,
        metadata,
        store,
        clock,
        PeerSessions(lambda: metadata.brokers, broker_epoch, early.rng),
        unclean_topics,
        config.inter_broker_listener_name,
        connect,
    )
    portions = Portions()
    marker_sender = MarkerSender(
        broker_id,
        config.inter_broker_listener_name,
        versions.write_txn_markers,
        metadata,
        coordinators.transactions.coordinator_epoch,
        coordinators.markers_written,
        lambda markers: marker_writer.write(markers, portions),
        open_tcp_channels(str(broker_id), config.request_timeout_ms, connect),
        topic_creation.partition_count,
        jobs.spawn,
    )
    return BrokerParts(
        broker_id=broker_id,
        cluster_id=cluster_id,
        spoken=spoken_of(served),
        spoken_to_clients=spoken_of(served, Audience.CLIENTS),
        spoken_to_peers=spoken_of(served, Audience.BROKERS),
        live_config=live,
        clock=clock,
        rng=early.rng,
        store=store,
        jobs=jobs,
        versions=versions,
        metadata=metadata,
        delayed_metadata=DelayedMetadata(
            metadata,
            failure_detection.is_suspected,
            failure_detection.look_around if detection.mode is DetectionMode.EVIDENCE else None,
            failure_detection.find_left if detection.mode is DetectionMode.EVIDENCE else tuple,
        ),
        quotas=early.quotas,
        traffic=Traffic(),
        logs=logs,
        cleaner=early.cleaner,
        dynamic_configs=early.dynamic_configs,
        delegation_tokens=early.delegation_tokens,
        config_changes=ConfigChanges(store, clock, updates.apply_change),
        acls=_authorizer(config, early.protocol_version, store, clock),
        controller=controller,
        controller_channel=channel,
        topic_creation=topic_creation,
        producer_ids=ProducerIds(blocks),
        isr_changes=isr_changes,
        replicas=replicas,
        fetchers=fetchers,
        log_dir_moves=LogDirMoves(replicas, logs, jobs, live),
        coordinators=coordinators,
        session_doubt=session_doubt,
        leadership=LeadershipProof(
            broker_id,
            session_doubt,
            detection.mode is not DetectionMode.SESSION,
            replicas.partitions.get,
            ReplicaQuestions(
                broker_id,
                lambda broker: metadata.endpoint(broker, live.current.inter_broker_listener_name),
                jobs.spawn,
                connect,
            ),
            jobs.spawn,
        ),
        marker_writer=marker_writer,
        marker_sender=marker_sender,
        transaction_verifier=TransactionVerifier(
            broker_id, live, metadata, coordinators.transactions, jobs.spawn, connect
        ),
        zookeeper_offsets=ZooKeeperOffsets(store),
        fetch_sessions=FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            random_session_ids(early.rng),
            replicas.watch,
            replicas.unwatch,
        ),
        partition_reader=PartitionReader(
            replicas,
            isr_changes.propose,
            leader_rate,
            selector(config.replica_selector_class, metadata, broker_id),
        ),
        range_digests=RangeDigests(),
        registrar=BrokerRegistrar(store, broker_id, 2 * config.zookeeper_session_timeout_ms / 1000 + _STALE_MARGIN_S),
        failure_detection=failure_detection,
    )


def _authorizer(config: BrokerConfig, protocol: ProtocolVersion, store: Store, clock: Clock) -> AclAuthorizer | None:
    if not config.authorizer_class_name:
        return None
    supers, allow_if_none = principals_in(config.super_users), config.allow_everyone_if_no_acl_found
    return AclAuthorizer(store, clock, supers, allow_if_none, protocol.has_prefixed_acls)
