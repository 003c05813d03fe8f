"""The table of a broker's settings with Kafka's defaults; `kafkalite.config.broker` reads and resolves them.

The field `replica_lag_time_max_ms` is the key `replica.lag.time.max.ms`. Keys that give topics their defaults are
declared in `kafkalite.config.topic` and named here with `_default_of`. `dynamic=True` marks what can be changed while the
broker runs (KIP-226). What acts neither at once nor at restart says so with `_without_effect` or `_refused`, and why; tests
look for the readers of all others, and alter each that is dynamic.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kafkalite.config.keys import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    Effect,
    Key,
    at_least,
    between,
    declare,
    keys_of,
    matching,
    one_of,
    readable,
    rule,
)
from kafkalite.config.listeners import (
    DEFAULT_PROTOCOL_MAP,
    SECURITY_PROTOCOLS,
    parse_connection_limits,
    split_host_port,
)
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.config.zookeeper_keys import ZookeeperSettings
from kafkalite.security.principal import principals_in
from kafkalite.types import Endpoint

_ONE_LOOP: Final = "one event loop serves all connections and requests"
_SYSTEM_BUFFERS: Final = "the system sizes socket buffers as it sees fit"
_NO_QUEUE: Final = "requests are not queued: a connection is not read while its own wait"
_NO_PURGATORY: Final = "what waits is forgotten as soon as it ends"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
ZOOKEEPER_CLIENTS: Final = ("kazoo", "native")
DETECTIONS: Final = ("session", "observe", "evidence")
DOUBLE_MAX: Final = 1.7976931348623157e308
_DEFAULT_LISTENERS: Final = (Endpoint("PLAINTEXT", "", 9092),)


_int = partial(declare, ConfigType.INT)
_short = partial(declare, ConfigType.SHORT)
_long = partial(declare, ConfigType.LONG)
_double = partial(declare, ConfigType.DOUBLE)
_boolean = partial(declare, ConfigType.BOOLEAN)
_text = partial(declare, ConfigType.STRING)
_password = partial(declare, ConfigType.PASSWORD, None)


def _default_of(topic_key: str, *, dynamic: bool = True) -> Any:
    """Return the broker setting that gives topics their default for `topic_key`; None where a synonym holds the default."""
    key = TOPIC_KEYS[topic_key]
    only_name = len(key.synonyms) == 1
    return declare(
        key.type,
        key.default if only_name else None,
        key.documentation,
        key.rule,
        dynamic=dynamic,
        effect=key.effect if dynamic or key.effect is not Effect.AT_ONCE else Effect.AT_RESTART,
        reason=key.reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerSettings(ZookeeperSettings):
    """Every broker setting, typed. Durations in ms unless the name says otherwise, sizes in bytes."""

    # Identity
    broker_id: int = _int(
        -1, "The broker's id; -1 lets ZooKeeper choose one above reserved.broker.max.id.", at_least(-1)
    )
    broker_id_generation_enable: bool = _boolean(True, "May the broker be given an id by ZooKeeper?")
    reserved_broker_max_id: int = _int(
        1000, "Largest id that may be configured; generated ones lie above.", at_least(0)
    )
    broker_rack: str | None = _text(None, "Where the broker stands; replicas are spread over racks.")
    log_dir: str = _text("/tmp/kafka-logs", "Directory of the logs when log.dirs is not set.")
    log_dirs: tuple[str, ...] = _text(
        None, "Directories of the logs, separated by commas.", resolved=("/tmp/kafka-logs",)
    )

    # ZooKeeper
    zookeeper_connect: str = _text(None, "Servers as host:port,host:port/chroot; required.", resolved="")
    zookeeper_session_timeout_ms: int = _int(18_000, "Silence after which ZooKeeper takes the broker for dead.")
    zookeeper_connection_timeout_ms: int | None = _int(
        None, "Wait for the first connection; the session timeout if unset."
    )
    zookeeper_max_in_flight_requests: int = _int(10, "Requests to ZooKeeper without an answer yet.", at_least(1))
    kafkalite_zookeeper_client: str = _text(
        "kazoo",
        "Client through which the broker talks to ZooKeeper: the library kazoo, or kafkalite's own (native), which takes a third of the "
        "processor time for a request, and less where there are many.",
        one_of(*ZOOKEEPER_CLIENTS),
    )

    # Listeners
    listeners: tuple[Endpoint, ...] = _text(
        "PLAINTEXT://:9092", "Where the broker listens: NAME://host:port,...", dynamic=True, resolved=_DEFAULT_LISTENERS
    )
    advertised_listeners: tuple[Endpoint, ...] = _text(
        None, "Addresses for clients and brokers; as listeners if unset.", dynamic=True, resolved=_DEFAULT_LISTENERS
    )
    listener_security_protocol_map: Mapping[str, str] = _text(
        ",".join(f"{name}:{protocol}" for name, protocol in DEFAULT_PROTOCOL_MAP.items()),
        "Listener names and their protocols: NAME:PROTOCOL,...",
        dynamic=True,
        resolved=None,
    )
    inter_broker_listener_name: str = _text(
        None, "Listener through which brokers talk; excludes security.inter.broker.protocol.", resolved="PLAINTEXT"
    )
    security_inter_broker_protocol: str = _text(
        "PLAINTEXT", "Protocol of the listener through which brokers talk.", one_of(*SECURITY_PROTOCOLS)
    )
    control_plane_listener_name: str | None = _text(None, "Listener only for what the controller sends.")

    # Threads and bounds of work
    num_network_threads: int = _int(3, "Network workers of each listener.", at_least(1), dynamic=True, reason=_ONE_LOOP)
    num_io_threads: int = _int(8, "Workers that carry out requests.", at_least(1), dynamic=True, reason=_ONE_LOOP)
    background_threads: int = _int(
        10, "Workers for background chores.", at_least(1), dynamic=True, reason="chores are tasks of the event loop"
    )
    num_replica_fetchers: int = _int(1, "Fetchers from each leading broker.", at_least(1), dynamic=True)
    num_recovery_threads_per_data_dir: int = _int(
        1, "Workers that open logs at start.", at_least(1), dynamic=True, effect=Effect.AT_RESTART
    )

    # Sockets and requests
    socket_send_buffer_bytes: int = _int(
        102_400, "SO_SNDBUF of client connections; -1 leaves it to the system.", reason=_SYSTEM_BUFFERS
    )
    socket_receive_buffer_bytes: int = _int(
        102_400, "SO_RCVBUF of client connections; -1 leaves it to the system.", reason=_SYSTEM_BUFFERS
    )
    socket_request_max_bytes: int = _int(
        104_857_600, "Largest request; a longer one closes the connection.", at_least(1)
    )
    socket_listen_backlog_size: int = _int(50, "Connections waiting to be accepted.", at_least(1))
    queued_max_requests: int = _int(500, "Requests waiting to be served.", at_least(1), reason=_NO_QUEUE)
    queued_max_request_bytes: int = _long(
        -1, "Memory of requests on all connections; -1: four times socket.request.max.bytes (Kafka: no bound)."
    )
    max_connections: int = _int(INT_MAX, "Connections of the whole broker.", at_least(0), dynamic=True)
    max_connections_per_ip: int = _int(INT_MAX, "Connections from one address.", at_least(0), dynamic=True)
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = _text(
        "",
        "Other bounds for some addresses: host:n,...",
        readable("Must be a list of HOST:NUMBER", parse_connection_limits),
        dynamic=True,
        resolved=(),
    )
    max_connection_creation_rate: int = _int(INT_MAX, "New connections a second.", at_least(0), dynamic=True)
    connections_max_idle_ms: int = _long(600_000, "Idle time after which a connection is closed; negative: never.")
    connection_failed_authentication_delay_ms: int = _int(100, "Wait before a failed login is answered.", at_least(0))
    request_timeout_ms: int = _int(30_000, "Longest wait for another broker's answer.")

    # Topics
    num_partitions: int = _int(1, "Partitions of topics made without a number.", at_least(1))
    default_replication_factor: int = _int(1, "Replicas of topics made without a number.", at_least(1))
    auto_create_topics_enable: bool = _boolean(True, "Does asking for an unknown topic make it?")
    delete_topic_enable: bool = _boolean(True, "May topics be deleted?")

    # Defaults of topics; the units of log.retention, log.roll and log.flush go from the finest to the coarsest
    log_cleanup_policy: tuple[str, ...] = _default_of("cleanup.policy")
    log_retention_ms: int | None = _default_of("retention.ms")
    log_retention_minutes: int | None = _int(None, "log.retention.ms in minutes, used when that is not set.")
    log_retention_hours: int = _int(168, "log.retention.ms in hours, used when neither ms nor minutes are set.")
    log_retention_bytes: int = _default_of("retention.bytes")
    log_segment_bytes: int = _default_of("segment.bytes")
    log_roll_ms: int | None = _default_of("segment.ms")
    log_roll_hours: int = _int(168, "log.roll.ms in hours, used when that is not set.", at_least(1))
    log_roll_jitter_ms: int | None = _default_of("segment.jitter.ms")
    log_roll_jitter_hours: int = _int(0, "log.roll.jitter.ms in hours, used when that is not set.", at_least(0))
    log_index_size_max_bytes: int = _default_of("segment.index.bytes")
    log_index_interval_bytes: int = _default_of("index.interval.bytes")
    log_flush_interval_messages: int = _default_of("flush.messages")
    log_flush_interval_ms: int | None = _default_of("flush.ms")
    log_flush_scheduler_interval_ms: int = _long(LONG_MAX, "How often logs are looked through for flush.ms.")
    log_segment_delete_delay_ms: int = _default_of("file.delete.delay.ms")
    log_preallocate: bool = _default_of("preallocate")
    log_message_format_version: str = _default_of("message.format.version", dynamic=False)
    log_message_timestamp_type: str = _default_of("message.timestamp.type")
    log_message_timestamp_difference_max_ms: int = _default_of("message.timestamp.difference.max.ms")
    log_message_timestamp_before_max_ms: int = _default_of("message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int = _default_of("message.timestamp.after.max.ms")
    log_message_downconversion_enable: bool = _default_of("message.downconversion.enable")
    log_local_retention_ms: int = _default_of("local.retention.ms")
    log_local_retention_bytes: int = _default_of("local.retention.bytes")
    log_cleaner_delete_retention_ms: int = _default_of("delete.retention.ms")
    log_cleaner_min_compaction_lag_ms: int = _default_of("min.compaction.lag.ms")
    log_cleaner_max_compaction_lag_ms: int = _default_of("max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio: float = _default_of("min.cleanable.dirty.ratio")
    message_max_bytes: int = _default_of("max.message.bytes")
    min_insync_replicas: int = _default_of("min.insync.replicas")
    compression_type: str = _default_of("compression.type")
    compression_gzip_level: int = _default_of("compression.gzip.level")
    compression_lz4_level: int = _default_of("compression.lz4.level")
    compression_zstd_level: int = _default_of("compression.zstd.level")
    unclean_leader_election_enable: bool = _default_of("unclean.leader.election.enable")

    # Logs
    log_retention_check_interval_ms: int = _long(300_000, "How often retention is looked after.", at_least(1))
    log_flush_offset_checkpoint_interval_ms: int = _int(60_000, "How often recovery points are written.", at_least(0))
    log_flush_start_offset_checkpoint_interval_ms: int = _int(
        60_000, "How often the logs' start offsets are written.", at_least(0)
    )
    log_initial_task_delay_ms: int = _long(30_000, "Wait after the start before the logs' chores begin.", at_least(0))
    log_deletion_max_segments_per_run: int = _int(INT_MAX, "Segments that one retention run deletes.", at_least(1))
    log_cleaner_enable: bool = _boolean(True, "Are logs compacted?")
    log_cleaner_threads: int = _int(1, "Workers that compact logs.", at_least(0), dynamic=True)
    log_cleaner_dedupe_buffer_size: int = _long(134_217_728, "Memory for the key maps of all cleaners.", dynamic=True)
    log_cleaner_io_buffer_size: int = _int(524_288, "Memory for the I/O of all cleaners.", at_least(0), dynamic=True)
    log_cleaner_io_buffer_load_factor: float = _double(0.9, "How full a cleaner's key map may get.", dynamic=True)
    log_cleaner_backoff_ms: int = _long(15_000, "Pause of a cleaner without work.", at_least(0), dynamic=True)
    log_cleaner_io_max_bytes_per_second: float = _double(DOUBLE_MAX, "Bound on the cleaners' I/O.", dynamic=True)

    # Replicas
    replica_lag_time_max_ms: int = _long(30_000, "Time behind the leader after which a follower leaves the ISR.")
    replica_socket_timeout_ms: int = _int(30_000, "Longest wait for a leader's answer.")
    replica_socket_receive_buffer_bytes: int = _int(
        65_536, "SO_RCVBUF of a follower's connection.", reason=_SYSTEM_BUFFERS
    )
    replica_fetch_max_bytes: int = _int(1_048_576, "Bytes that a follower asks of one partition.", at_least(0))
    replica_fetch_wait_max_ms: int = _int(500, "Longest time that a leader holds back a follower's fetch.")
    replica_fetch_min_bytes: int = _int(1, "Bytes for which a leader answers a follower at once.")
    replica_fetch_backoff_ms: int = _int(1000, "Pause of a follower after a failed fetch.", at_least(0))
    replica_fetch_response_max_bytes: int = _int(10_485_760, "Bytes that a follower asks in one fetch.", at_least(0))
    replica_high_watermark_checkpoint_interval_ms: int = _long(5000, "How often high watermarks are written.")
    replica_selector_class: str | None = declare(
        ConfigType.CLASS, None, "Chooses the replica that a consumer reads; unset: the leader (KIP-392)."
    )

    # Fetch
    fetch_max_bytes: int = _int(57_671_680, "Largest answer to one fetch.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = _int(1000, "Fetch sessions that are kept.", at_least(0))
    max_request_partition_size_limit: int = _int(
        2000,
        "Partitions in one DescribeTopicPartitions.",
        at_least(1),
        reason="DescribeTopicPartitions is not served in a ZooKeeper cluster",
    )
    fetch_purgatory_purge_interval_requests: int = _int(
        1000, "Finished waiting fetches kept before a clean-up.", reason=_NO_PURGATORY
    )
    producer_purgatory_purge_interval_requests: int = _int(
        1000, "Finished waiting produces kept before a clean-up.", reason=_NO_PURGATORY
    )
    delete_records_purgatory_purge_interval_requests: int = _int(
        1, "Finished waiting deletes kept before a clean-up.", reason=_NO_PURGATORY
    )

    # Controller
    controller_socket_timeout_ms: int = _int(30_000, "Longest wait of the controller for a broker's answer.")
    auto_leader_rebalance_enable: bool = _boolean(
        True, "Does the controller give leadership back to preferred replicas?"
    )
    leader_imbalance_per_broker_percentage: int = _int(10, "Share of foreign leaders from which it does so.")
    leader_imbalance_check_interval_seconds: int = _long(300, "How often it looks.", at_least(1))
    controlled_shutdown_enable: bool = _boolean(True, "Does a stopping broker hand over its leaderships first?")
    controlled_shutdown_max_retries: int = _int(3, "Attempts to hand over.")
    controlled_shutdown_retry_backoff_ms: int = _long(5000, "Pause between these attempts.")
    kafkalite_shutdown_timeout_ms: int = _int(
        100_000,
        "Longest clean stop, half of it for handing over leaderships; what is not done by then is left behind, with exit status 1.",
        at_least(1),
    )

    # Detection of dead brokers: settings of our own
    kafkalite_failover_detection: str = _text(
        "evidence",
        "When a dead broker's ZooKeeper session ends: as soon as there is evidence of its death (evidence), at its timeout (session), "
        "or there too but with a log of what peers saw (observe).",
        one_of(*DETECTIONS),
    )
    kafkalite_failover_heartbeat_interval_ms: int = _int(
        200, "Pause between heartbeats to other brokers.", at_least(10)
    )
    kafkalite_failover_silence_ms: int = _int(
        1200,
        "Unanswered heartbeats for so long, seen by two brokers, are evidence: more than any pause of a broker may take. 0: never.",
        at_least(0),
    )
    kafkalite_failover_proxied_listeners: tuple[str, ...] = declare(
        ConfigType.LIST,
        (),
        "Names of listeners behind a proxy or a firewall that may refuse connections while the broker lives.",
    )

    # Groups
    group_min_session_timeout_ms: int = _int(6000, "Shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms: int = _int(1_800_000, "Longest session timeout that a member may ask for.")
    group_initial_rebalance_delay_ms: int = _int(3000, "Wait for more members before a new group is balanced.")
    group_max_size: int = _int(INT_MAX, "Members of one group.", at_least(1))
    offset_metadata_max_bytes: int = _int(4096, "Size of the text stored with a committed offset.")
    offsets_topic_num_partitions: int = _int(50, "Partitions of __consumer_offsets.", at_least(1))
    offsets_topic_replication_factor: int = _short(3, "Replicas of __consumer_offsets.", at_least(1))
    offsets_topic_segment_bytes: int = _int(104_857_600, "Segment size of __consumer_offsets.", at_least(1))
    offsets_topic_compression_codec: int = _int(0, "Codec of __consumer_offsets by its number.", between(0, 4))
    offsets_load_buffer_size: int = _int(5_242_880, "Bytes read at a time when groups are loaded.", at_least(1))
    offsets_retention_minutes: int = _int(10_080, "How long the offsets of an unused group are kept.", at_least(1))
    offsets_retention_check_interval_ms: int = _long(600_000, "How often expired offsets are looked for.", at_least(1))
    offsets_commit_timeout_ms: int = _int(5000, "Longest wait for the replicas of a commit.", at_least(1))
    offsets_commit_required_acks: int = _short(-1, "Replicas that must have a commit; -1: the whole ISR.")

    # Transactions and producers
    transaction_max_timeout_ms: int = _int(900_000, "Longest timeout that a transaction may ask for.", at_least(1))
    transaction_state_log_num_partitions: int = _int(50, "Partitions of __transaction_state.", at_least(1))
    transaction_state_log_replication_factor: int = _short(3, "Replicas of __transaction_state.", at_least(1))
    transaction_state_log_min_isr: int = _int(2, "min.insync.replicas of __transaction_state.", at_least(1))
    transaction_state_log_segment_bytes: int = _int(104_857_600, "Segment size of __transaction_state.", at_least(1))
    transaction_state_log_load_buffer_size: int = _int(
        5_242_880, "Bytes read at a time when it is loaded.", at_least(1)
    )
    transactional_id_expiration_ms: int = _int(604_800_000, "How long an unused transactional id is kept.", at_least(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _int(
        10_000, "How often transactions past their timeout are looked for.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _int(
        3_600_000, "How often expired transactional ids are looked for.", at_least(1)
    )
    transaction_partition_verification_enable: bool = _boolean(
        True, "Is a partition's part in a transaction verified at its first write?", dynamic=True
    )
    producer_id_expiration_ms: int = _int(86_400_000, "How long a silent producer is known.", at_least(1), dynamic=True)
    producer_id_expiration_check_interval_ms: int = _int(
        600_000, "How often silent producers are looked for.", at_least(1)
    )

    # Quotas
    quota_window_num: int = _int(11, "Samples kept for client quotas.", at_least(1))
    quota_window_size_seconds: int = _int(1, "Length of such a sample.", at_least(1))
    replication_quota_window_num: int = _int(11, "Samples kept for replication quotas.", at_least(1))
    replication_quota_window_size_seconds: int = _int(1, "Length of such a sample.", at_least(1))
    controller_quota_window_num: int = _int(11, "Samples whose partitions a client may create at once.", at_least(1))
    controller_quota_window_size_seconds: int = _int(1, "Length of such a sample.", at_least(1))
    leader_replication_throttled_rate: int = _long(
        None, "Bytes a second that a leader sends to throttled followers.", at_least(0), dynamic=True, resolved=LONG_MAX
    )
    follower_replication_throttled_rate: int = _long(
        None, "Bytes a second that throttled followers fetch.", at_least(0), dynamic=True, resolved=LONG_MAX
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = _long(
        None, "Bytes a second copied between log directories.", at_least(0), dynamic=True, resolved=LONG_MAX
    )

    # Security
    authorizer_class_name: str = _text(
        "",
        "What decides who may do what: Kafka's AclAuthorizer, by its full name, or nothing.",
        one_of("", ACL_AUTHORIZER),
    )
    super_users: str = _text(
        "",
        "Principals that may do everything, as User:name;User:name.",
        readable("Must be principals such as User:name, between semicolons", principals_in),
    )
    allow_everyone_if_no_acl_found: bool = _boolean(False, "May everybody do what no ACL is about?")
    authorizer_zookeeper_url: str | None = _text(
        None,
        "Another ZooKeeper for ACLs.",
        rule("ACLs are in the cluster's own ZooKeeper here; leave it out", operator.not_),
        effect=Effect.REFUSED,
        reason="the ACLs there would not be obeyed",
    )
    kafkalite_handshake_timeout_ms: int = _int(
        10_000, "Time in which a connection is encrypted and authenticated, or closed.", at_least(1)
    )
    kafkalite_max_unauthenticated_connections: int = _int(
        1000,
        "Connections to listeners with SASL that are not authenticated yet; beyond that somebody gives way.",
        at_least(1),
    )
    kafkalite_max_handshakes: int = _int(
        256, "TLS handshakes at once on a listener; beyond that the oldest of the busiest address ends.", at_least(1)
    )

    password_encoder_secret: str | None = _password(
        "Secret by which passwords in the dynamic configuration of a broker are encrypted in ZooKeeper; without it there are none."
    )
    password_encoder_old_secret: str | None = _password(
        "The secret before that one: passwords that were encrypted with it are read."
    )
    delegation_token_secret_key: str | None = _password(
        "The same on all brokers: from it the secrets of delegation tokens follow. Unset: none."
    )
    delegation_token_master_key: str | None = _password(
        "Its name until 2.8, which counts when the newer one is not set."
    )
    delegation_token_max_lifetime_ms: int = _long(604_800_000, "Longest life of a delegation token.", at_least(1))
    delegation_token_expiry_time_ms: int = _long(86_400_000, "Life of a delegation token without renewal.", at_least(1))
    delegation_token_expiry_check_interval_ms: int = _long(
        3_600_000, "How often the controller's broker removes expired delegation tokens.", at_least(1)
    )

    # Observation: settings of our own
    kafkalite_http_listener: str | None = _text(
        None,
        "host:port of the metrics, the health checks and the status page; keep it inside, or set the next two. Unset: none.",
        readable("Must be host:port, an IPv6 host in brackets", split_host_port),
    )
    kafkalite_http_users_file: str | None = _text(
        None, "File of those who may look there, lines of name:password. Unset: everybody who reaches it."
    )
    kafkalite_http_ssl_enable: bool = _boolean(
        False,
        "Is TLS spoken there? With listener.name.http.ssl.*, else ssl.*, and no certificate of clients by default.",
    )
    kafkalite_http_max_connections: int = _int(64, "HTTP connections at once.", at_least(1))
    kafkalite_http_max_event_streams: int = _int(16, "Clients that the status page keeps up to date.", at_least(0))
    kafkalite_metrics_max_partitions: int = _int(
        5000, "Partitions, and topics, with metrics of their own.", at_least(0)
    )
    kafkalite_metrics_max_groups: int = _int(500, "Groups with metrics of their own.", at_least(0))

    # Bounds on strangers: settings of our own
    kafkalite_unproven_request_max_bytes: int = _int(
        16_777_216,
        "Largest request on a connection that was not answered yet; controllers begin with all of the metadata.",
        at_least(1),
    )
    kafkalite_request_receive_timeout_ms: int = _int(
        30_000, "Time in which a request that has begun arrives, beside what its length takes at 32 KiB/s.", at_least(1)
    )
    kafkalite_unread_response_max_bytes: int = _long(
        536_870_912,
        "Responses that clients have not read, on all connections: beyond, fetches get little, and who does not read is closed.",
        at_least(1),
    )
    kafkalite_response_read_timeout_ms: int = _int(
        30_000, "Time after which who does not read 32 KiB/s is closed, while too much is unread.", at_least(1)
    )

    # Faults on purpose: a setting of our own
    kafkalite_fault_injection_enable: bool = _boolean(
        False,
        "May the environment arm failpoints and faults of requests? For tests only: who can reach them can end the broker.",
    )

    # Protocol
    inter_broker_protocol_version: str = _text(
        "3.9-IV0",
        "The oldest release among the brokers of the cluster, 1.1 or newer.",
        matching(r"(0\.([89]|1[01])(\.[0-9]+)*|[1-9]\.[0-9]+)(-IV[0-9]+)?", "Must be a release such as 3.9 or 2.8-IV1"),
    )


BROKER_KEYS: Final[Mapping[str, Key]] = keys_of(BrokerSettings)
"""Every broker setting by its Kafka name."""
