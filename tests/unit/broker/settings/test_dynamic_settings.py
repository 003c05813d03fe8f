"""Every setting that acts at once, altered as AlterConfigs alters it: what the part that obeys it does before and after.

A dynamic setting without an entry in the tables below fails `test_every_dynamic_setting_has_an_observation`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from kafkalite.broker.config_updates import follow_settings
from kafkalite.broker.connections.connection_quotas import ConnectionQuotas
from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.broker.connections.server import Server
from kafkalite.broker.coordination.transaction_verification import TransactionVerifier
from kafkalite.broker.registration import registration_of
from kafkalite.broker.replication.leader_fetcher import FetcherContext
from kafkalite.broker.replication.log_dir_moves import LogDirMoves
from kafkalite.broker.replication.replica_fetchers import ReplicaFetchers
from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
from kafkalite.broker.settings.rates import ReplicationRate, replication_rates
from kafkalite.clock import SystemClock
from kafkalite.config.broker import BROKER_KEYS, BrokerConfig, LiveConfig
from kafkalite.config.dynamic import PER_LISTENER_ONLY, check_broker_overrides
from kafkalite.config.keys import Effect
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.lifecycle import Jobs
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.storage.cleaning.cleaning import CleaningTask, Step
from kafkalite.storage.directories import log_store
from kafkalite.storage.directories.cleaner import LogCleaner, in_executor
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import OsDisk
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.storage.cleaning.test_cleaning import put, seal
from tests.unit.storage.logs import append, produced
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.top_level import create_top_level

DAY_MS = 86_400_000
TOPIC_DEFAULTS: Mapping[str, str] = {
    "log.cleanup.policy": "compact",
    "log.retention.ms": "5",
    "log.retention.bytes": "5",
    "log.segment.bytes": "5000",
    "log.roll.ms": "5",
    "log.roll.jitter.ms": "5",
    "log.index.size.max.bytes": "5",
    "log.index.interval.bytes": "5",
    "log.flush.interval.messages": "5",
    "log.flush.interval.ms": "5",
    "log.segment.delete.delay.ms": "5",
    "log.message.downconversion.enable": "false",
    "log.message.timestamp.type": "LogAppendTime",
    "log.message.timestamp.before.max.ms": "5",
    "log.message.timestamp.after.max.ms": "5",
    "log.cleaner.delete.retention.ms": "5",
    "log.cleaner.min.compaction.lag.ms": "5",
    "log.cleaner.max.compaction.lag.ms": "5",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "message.max.bytes": "5",
    "min.insync.replicas": "5",
    "compression.type": "lz4",
    "compression.gzip.level": "5",
    "compression.lz4.level": "5",
    "compression.zstd.level": "5",
    "unclean.leader.election.enable": "true",
}
"""What topics inherit: the logs take over the topic's configuration, and read it at each use."""


class Scene:
    """A broker's settings, with the znodes in which they are altered; `folder` is its log directory."""

    def __init__(self, folder: Path, store: MemoryStore) -> None:
        self.folder = folder
        self.live = LiveConfig(
            BrokerConfig.from_properties(
                {
                    "broker.id": "0",
                    "zookeeper.connect": "unused",
                    "log.dirs": str(folder),
                    "listeners": "A://127.0.0.1:0",
                    "inter.broker.listener.name": "A",
                    "listener.security.protocol.map": "A:PLAINTEXT",
                }
            )
        )
        self.configs = DynamicConfigs(store, self.live)

    async def alter(self, overrides: Mapping[str, str]) -> None:
        """As AlterConfigs and the notification that follows it."""

        def check(wanted: dict[str, str]) -> None:
            check_broker_overrides(self.configs.sources, wanted, per_broker=True)

        await self.configs.change("brokers/0", lambda _: dict(overrides), check, validate_only=False)
        await self.configs.load_broker(0)


Look: TypeAlias = Callable[[], Awaitable[object]]
Observation: TypeAlias = Callable[[Scene], Awaitable[Look]]


def look_of(act: Callable[[], object]) -> Look:
    async def look() -> object:
        return act()

    return look


def stage(folder: Path, act: Callable[[Scene], Awaitable[None]], run: Callable[[Any], None]) -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        await act(Scene(folder, store))
        await store.close()

    run(scenario())


# What is observed


async def bound_listeners(scene: Scene) -> Look:
    """Names of the listeners that are bound, once they are told to the cluster; they are on sockets until the loop ends."""
    security = ListenerSecurity(scene.live, None, lambda: 0)  # type: ignore[arg-type]  # nobody authenticates
    server = Server(scene.live, None, security)  # type: ignore[arg-type]  # nobody sends a request
    await server.bind()
    told: asyncio.Queue[object] = asyncio.Queue()

    async def announce() -> None:
        endpoints = registration_of(scene.live.current, server.bound_ports, 0).endpoints
        told.put_nowait([(each.listener, each.host) for each in endpoints])

    follow_settings(scene.live, Jobs(), server, SimpleNamespace(start_workers=lambda start: None), announce)  # type: ignore[arg-type]
    await announce()
    return told.get


async def connections_of_one_address(scene: Scene) -> Look:
    """How many of three a client may have."""

    def admitted() -> int:
        quotas = ConnectionQuotas(scene.live)
        return sum(not quotas.admit("A", "10.0.0.1", 0.0).refusal for _ in range(3))

    return look_of(admitted)


async def pause_of_the_third_connection(scene: Scene) -> Look:
    def paused_ms() -> list[int]:
        quotas = ConnectionQuotas(scene.live)
        return [quotas.admit("A", "10.0.0.1", 0.0).hold_ms for _ in range(12)][10:]

    return look_of(paused_ms)


async def loops_of_fetchers(scene: Scene) -> Look:
    """Over how many loops nine partitions of one leader are spread."""
    rate = ReplicationRate(11, 1000, lambda: 1e18)
    versions = ProtocolVersion.parse("3.9").requests
    context = FetcherContext(
        0, lambda: 0, scene.live, versions, lambda leader: None, lambda: 0.0, lambda: 0, rate, lambda logs: None
    )
    fetchers = ReplicaFetchers(context)
    return look_of(lambda: len({fetchers._index(TopicPartition("t", number)) for number in range(9)}))


async def threads_that_open_logs(scene: Scene) -> Look:
    async def opened() -> object:
        asked: list[int] = []
        original = log_store.open_all
        log_store.open_all = lambda openings, threads: asked.append(threads) or original(openings, threads)  # type: ignore[assignment,func-returns-value]
        try:
            store = LogStore(scene.live, OsDisk(), SystemClock(), Random(1))
            await store.open()
            await store.close()
        finally:
            log_store.open_all = original
        return asked

    return opened


async def workers_of_the_cleaner(scene: Scene) -> Look:
    """How many workers the cleaner has, once each had the time to see that it is one too many."""
    jobs = Jobs()
    cleaner = LogCleaner(
        SimpleNamespace(upkeep=SimpleNamespace(find_dirty=list)), scene.live, SystemClock(), in_executor(OsDisk())
    )  # type: ignore[arg-type]
    follow_settings(scene.live, jobs, SimpleNamespace(), cleaner, lambda: asyncio.sleep(0))  # type: ignore[arg-type]
    cleaner.start_workers(jobs.retry)

    async def running() -> object:
        await asyncio.sleep(scene.live.current.log_cleaner_backoff_ms / 1000 + 1)
        return sum(task.get_name().startswith("log cleaner") for task in asyncio.all_tasks())

    return running


async def pause_of_the_cleaner(scene: Scene) -> Look:
    """Seconds between two looks at logs of which none is due."""
    loop, looked_s = asyncio.get_running_loop(), asyncio.Queue[float]()

    def no_logs() -> list[Any]:
        looked_s.put_nowait(loop.time())
        return []

    cleaner = LogCleaner(
        SimpleNamespace(upkeep=SimpleNamespace(find_dirty=no_logs)), scene.live, SystemClock(), in_executor(OsDisk())
    )  # type: ignore[arg-type]
    Jobs().retry(lambda: cleaner._work(0), "worker")

    async def between() -> object:
        await looked_s.get()
        first_s = await looked_s.get()  # the pause before it may have begun with the old setting
        return await looked_s.get() - first_s

    return between


def of_a_pass(field: Callable[[CleaningTask, float], object]) -> Observation:
    """What a pass over a log is told."""

    async def make(scene: Scene) -> Look:
        store = LogStore(scene.live, OsDisk(), SystemClock(), Random(1))
        await store.open()
        log = store.create(TopicPartition("t", 0), NO_TOPIC_ID, TopicConfig(cleanup_policy=("compact",)))
        put(log, (b"k", b"v"))
        seal(log)
        told: list[object] = []

        async def run_pass(task: CleaningTask, bytes_per_second: float) -> AsyncGenerator[Step, None]:
            told.append(field(task, bytes_per_second))
            for none in ():
                yield none

        cleaner = LogCleaner(store, scene.live, SystemClock(), run_pass)

        async def look() -> object:
            assert await cleaner.clean_dirtiest()
            return told.pop()

        return look

    return make


async def producers_that_are_known(scene: Scene) -> Look:
    """Of one that was silent for a minute, when the next look for such producers comes."""
    store = LogStore(scene.live, OsDisk(), SystemClock(), Random(1))
    await store.open()
    log = store.create(TopicPartition("t", 0))
    now_ms = SystemClock().now_ms()
    append(log, produced(7, timestamp=now_ms), now_ms=now_ms)

    async def known() -> int:
        await store.expire_producers(now_ms + 60_000)
        return len(log.producers.producers)

    return known


def excess_of(side: int) -> Observation:
    """ms that throttled replication of a megabyte takes too long; side 0 leads, side 1 follows."""

    async def make(scene: Scene) -> Look:
        rate = replication_rates(scene.live)[side]
        rate.add(1_000_000, 0.0)
        return look_of(lambda: rate.exceeded_ms(0.0))

    return make


async def verification(scene: Scene) -> Look:
    verifier = TransactionVerifier(1, scene.live, None, None, None)  # type: ignore[arg-type]
    return look_of(lambda: verifier.is_enabled)


async def pause_of_a_move(scene: Scene) -> Look:
    moves = LogDirMoves(None, None, None, scene.live)  # type: ignore[arg-type]
    return look_of(lambda: moves.pause_s(1_000_000))


OBSERVATIONS: Mapping[str, tuple[Mapping[str, str], Observation, object, object]] = {
    # the setting: what is altered, what is observed, before, after
    "listeners": (
        {"listeners": "A://127.0.0.1:0,B://127.0.0.1:0", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
        bound_listeners,
        [("A", "127.0.0.1")],
        [("A", "127.0.0.1"), ("B", "127.0.0.1")],
    ),
    "listener.security.protocol.map": (
        {"listener.security.protocol.map": "A:PLAINTEXT,C:PLAINTEXT", "listeners": "A://127.0.0.1:0,C://127.0.0.1:0"},
        bound_listeners,
        [("A", "127.0.0.1")],
        [("A", "127.0.0.1"), ("C", "127.0.0.1")],
    ),
    "advertised.listeners": (
        {"advertised.listeners": "A://elsewhere:9"},
        bound_listeners,
        [("A", "127.0.0.1")],
        [("A", "elsewhere")],
    ),
    "max.connections": ({"max.connections": "1"}, connections_of_one_address, 3, 1),
    "max.connections.per.ip": ({"max.connections.per.ip": "2"}, connections_of_one_address, 3, 2),
    "max.connections.per.ip.overrides": (
        {"max.connections.per.ip.overrides": "10.0.0.1:1"},
        connections_of_one_address,
        3,
        1,
    ),
    "max.connection.creation.rate": (
        {"max.connection.creation.rate": "1"},
        pause_of_the_third_connection,
        [0, 0],
        [1000, 2000],
    ),
    "num.replica.fetchers": ({"num.replica.fetchers": "2"}, loops_of_fetchers, 1, 2),
    "num.recovery.threads.per.data.dir": ({"num.recovery.threads.per.data.dir": "2"}, threads_that_open_logs, [1], [2]),
    "log.cleaner.threads": ({"log.cleaner.threads": "2"}, workers_of_the_cleaner, 1, 2),
    "log.cleaner.backoff.ms": ({"log.cleaner.backoff.ms": "40000"}, pause_of_the_cleaner, 15.0, 40.0),
    "log.cleaner.dedupe.buffer.size": (
        {"log.cleaner.dedupe.buffer.size": "4000000"},
        of_a_pass(lambda task, _: task.key_map_bytes),
        134_217_728,
        4_000_000,
    ),
    "log.cleaner.io.buffer.size": (
        {"log.cleaner.io.buffer.size": "4000"},
        of_a_pass(lambda task, _: task.io_buffer_bytes),
        262_144,
        2000,
    ),
    "log.cleaner.io.buffer.load.factor": (
        {"log.cleaner.io.buffer.load.factor": "0.5"},
        of_a_pass(lambda task, _: task.key_map_load_factor),
        0.9,
        0.5,
    ),
    "log.cleaner.io.max.bytes.per.second": (
        {"log.cleaner.io.max.bytes.per.second": "7.0"},
        of_a_pass(lambda _, bytes_per_second: bytes_per_second < 1e300),
        False,
        True,
    ),
    "transaction.partition.verification.enable": (
        {"transaction.partition.verification.enable": "false"},
        verification,
        True,
        False,
    ),
    "producer.id.expiration.ms": ({"producer.id.expiration.ms": "1000"}, producers_that_are_known, 1, 0),
    "leader.replication.throttled.rate": (
        {"leader.replication.throttled.rate": "500000"},
        excess_of(0),
        0.0,
        1000.0,
    ),
    "follower.replication.throttled.rate": (
        {"follower.replication.throttled.rate": "500000"},
        excess_of(1),
        0.0,
        1000.0,
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        {"replica.alter.log.dirs.io.max.bytes.per.second": "1"},
        pause_of_a_move,
        0.0,
        1_000_000.0,
    ),
}
ON_SOCKETS = (bound_listeners,)


def test_every_dynamic_setting_has_an_observation() -> None:
    claimed = {key.name for key in BROKER_KEYS.values() if key.dynamic and key.effect is not Effect.NONE}
    through_others = {"log.message.timestamp.difference.max.ms"}  # see `config.topic`
    of_listeners = PER_LISTENER_ONLY  # see test_listener_security
    assert claimed - through_others - of_listeners == TOPIC_DEFAULTS.keys() | OBSERVATIONS.keys()


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_altering_a_setting_changes_what_the_part_does(name: str, tmp_path: Path) -> None:
    overrides, observation, before, after = OBSERVATIONS[name]
    assert name in overrides

    async def act(scene: Scene) -> None:
        look = await observation(scene)
        assert await look() == pytest.approx(before) if isinstance(before, float) else await look() == before
        await scene.alter(overrides)
        assert await look() == (pytest.approx(after, abs=1.0) if isinstance(after, float) else after)

    stage(tmp_path, act, asyncio.run if observation in ON_SOCKETS else virtual_time.run)


def test_a_log_cleaner_too_many_ends(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        look = await workers_of_the_cleaner(scene)
        for wanted in (2, 4, 2, 3):
            await scene.alter({"log.cleaner.threads": str(wanted)})
            assert await look() == wanted

    stage(tmp_path, act, virtual_time.run)


def test_topics_inherit_what_is_altered(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        for name, text in TOPIC_DEFAULTS.items():
            (key,) = (each for each in TOPIC_KEYS.values() if name in {synonym.name for synonym in each.synonyms})
            before = getattr(await scene.configs.topic("t"), key.attribute)
            await scene.alter({name: text})
            after = getattr(await scene.configs.topic("t"), key.attribute)
            assert (before, after) == (key.default, key.parse(text)), name
        await scene.alter({"log.message.timestamp.difference.max.ms": "6"})
        topic = await scene.configs.topic("t")
        assert (topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms) == (6, 6)

    stage(tmp_path, act, virtual_time.run)


def test_what_has_no_effect_is_taken_and_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def act(scene: Scene) -> None:
        await scene.alter({"num.io.threads": "9"})
        await scene.alter({"num.io.threads": "10", "max.connections": "9"})
        await scene.configs.change("topics/t", lambda _: {"preallocate": "true"}, lambda _: None, validate_only=False)
        for _ in range(2):
            assert (await scene.configs.topic("t")).preallocate

    with caplog.at_level(logging.WARNING):
        stage(tmp_path, act, virtual_time.run)
    assert [record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()] == [
        "dynamic broker configuration: num.io.threads has no effect: one event loop serves all connections and requests",
        "topic t: preallocate has no effect: segments grow as they are written",
    ]


def test_what_is_not_dynamic_is_refused_and_does_not_act_where_somebody_wrote_it_past_a_broker(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        for name, key in BROKER_KEYS.items():
            if not key.dynamic:
                with pytest.raises(KafkaError, match=rf"Cannot update these configs dynamically: Set\({name}\)"):
                    await scene.alter({name: key.format(key.default) or "1"})
        await scene.configs.change("brokers/0", lambda _: {"num.partitions": "7"}, lambda _: None, validate_only=False)
        await scene.configs.load_broker(0)
        assert scene.live.current.num_partitions == 1

    stage(tmp_path, act, virtual_time.run)


@pytest.mark.parametrize(
    "overrides",
    [
        {"listeners": "A://127.0.0.1:0,D://127.0.0.1:0"},
        {"listeners": "B://127.0.0.1:0", "listener.security.protocol.map": "B:PLAINTEXT"},
        {"advertised.listeners": "B://elsewhere:9"},
        {"max.connections.per.ip.overrides": "10.0.0.1"},
        {"max.connections.per.ip": "0"},
        {"log.cleaner.dedupe.buffer.size": "1000000"},
    ],
)
def test_settings_that_contradict_the_others_are_refused(overrides: dict[str, str], tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        with pytest.raises(KafkaError):
            await scene.alter(overrides)

    stage(tmp_path, act, virtual_time.run)
