"""Garbage in ZooKeeper: brokers and controller go on, name the path, and are well again when the znode is mended.

A round writes the same garbage to many paths at once, lets another controller take over that finds it all, and mends it. After each step
records are produced to a topic that was well from the beginning.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from kafkalite.client import Admin, NewTopic, Producer
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from zk import paths
from zk.memory_store import MemoryStore
from zk.store import NoNodeError

WELL, SICK = "well", "sick"
NOTICE_S = 1.0
CHANGE, STRAY = f"{paths.CONFIG_CHANGES}/config_change_0000009000", f"{paths.CONFIG_CHANGES}/stray"


def text(document: object) -> bytes:
    return json.dumps(document).encode()


def anything() -> Iterator[tuple[str, bytes]]:
    """Data that is nothing of any kind."""
    yield "nothing", b""
    yield "no JSON", b"\0\xff not json"
    yield "another shape", b"[]"
    yield "deep", b"[" * 100_000
    yield "a megabyte", b"x" * 1_000_000
    yield "an unknown version", text({"version": 99})
    yield "digits", b"9" * 5_000


EVERYWHERE = (
    paths.topic("broken"),
    paths.partition_state(SICK, 0),
    paths.topic_config(SICK),
    CHANGE,
    STRAY,
    f"{paths.ISR_CHANGES}/isr_change_0000000000",
    f"{paths.ISR_CHANGES}/stray",
    f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000",
    f"{paths.LOG_DIR_EVENTS}/stray",
    paths.delete_topic("nobody"),
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
    paths.client_config("c"),
    paths.user_config("u"),
    paths.user_config("u", "c"),
    paths.ip_config("nonsense"),
    paths.broker_config(1),
    paths.broker_config(None),
    paths.CLUSTER_ID,
    paths.FEATURE,
    paths.broker(7),
    f"{paths.BROKER_IDS}/stray",
    f"{paths.BROKER_IDS}/99999999999",
    f"{paths.ACL}/Topic",
)


def topic(partitions: object, **others: object) -> bytes:
    return text({"version": 3, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}} | others)


def state(**others: object) -> bytes:
    return text({"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]} | others)


def broker(**others: object) -> bytes:
    protocols = {"PLAINTEXT": "PLAINTEXT"}
    return text(
        {
            "listener_security_protocol_map": protocols,
            "endpoints": ["PLAINTEXT://h:1"],
            "jmx_port": -1,
            "version": 5,
            "timestamp": "1",
        }
        | others
    )


def config(**values: str) -> bytes:
    return text({"version": 1, "config": {name.replace("_", "."): value for name, value in values.items()}})


def partitions(entry: dict[str, object]) -> bytes:
    return text({"version": 1, "partitions": [entry, entry]})


_ILLEGAL = ("a b", "ü", "x" * 300, "a\n[INFO]", "😀")
_TOPICS = (
    topic({"-1": [1]}),
    topic({str(2**40): [1]}),
    topic({"0": [-1]}),
    topic({"0": [2**40]}),
    topic({"0": [1]}, topic_id="x"),
    topic({"0": [1]}, topic_id="\ud800"),
    topic({"0": [77, 78]}),
    topic({"0": [1, 1]}, removing_replicas={"0": [1]}),
)
_BROKERS = (
    broker(endpoints=[]),
    broker(endpoints=["PLAINTEXT://h:99999999"]),
    broker(endpoints=["PLAINTEXT://" + "h" * 70_000 + ":1"]),
    broker(endpoints=["PLAINTEXT://\ud800:1"]),
    broker(rack="r" * 70_000),
    broker(listener_security_protocol_map={"PLAINTEXT": "NOPE"}),
    broker(timestamp="1" * 400),
    broker(features={"x": {"min_version": 2**40, "max_version": -1}}),
)
_CONFIGS = (
    config(retention_ms="abc", no_such="1", segment_bytes="-1", cleanup_policy="\ud800"),
    config(retention_ms="9" * 400, segment_bytes="9" * 400, cleanup_policy="x" * 70_000),
    config(listeners="garbage", metric_reporters="os.system", log_cleaner_threads="-5", producer_byte_rate="1e999"),
    text({"version": 1, "config": {"producer_byte_rate": "abc", "connection_creation_rate": "-1e999", "x": "\ud800"}}),
)
_STATES = (
    state(isr=[]),
    state(isr=[-1]),
    state(isr="1"),
    state(leader=-5),
    state(leader=2**40),
    state(leader_epoch=2**63),
    state(leader_epoch=-3),
    state(controller_epoch=-1),
)
_CHANGED = (
    "topics/a/b/c",
    "topics/../x",
    "topics/a\0b",
    "users/%zz/clients/%ff",
    "brokers/abc",
    "nope/x",
    "ips/\ud800",
)
_PARTITIONS: tuple[dict[str, object], ...] = (
    {"topic": "nobody", "partition": 0},
    {"topic": WELL, "partition": -1},
    {"topic": WELL, "partition": 2**40},
    {"topic": 1, "partition": "0"},
    {"topic": "\ud800", "partition": 0},
    {"topic": "a/../b\0", "partition": 0},
)
_REPLICAS: tuple[list[int], ...] = ([77], [-1], [1, 1], [2**40], [], [1])


def nonsense(number: int) -> dict[str, bytes]:
    """What looks like its kind and makes no sense: the `number`-th of each kind, by path."""

    def pick(choice: Any) -> Any:
        return choice[number % len(choice)]

    name, entry = pick(_ILLEGAL), pick(_PARTITIONS)
    return {
        paths.topic(name): topic({"0": [1, 2]}),
        paths.topic_config(name): config(retention_ms="1"),
        paths.delete_topic(name): b"",
        paths.topic(f"made-{number}"): pick(_TOPICS),
        paths.partition_state(SICK, 0): pick(_STATES),
        paths.broker(7): pick(_BROKERS),
        paths.topic_config(SICK): pick(_CONFIGS),
        paths.broker_config(None): pick(_CONFIGS),
        paths.client_config("c"): pick(_CONFIGS),
        paths.ip_config("1.2.3.4"): pick(_CONFIGS),
        CHANGE: text({"version": 2, "entity_path": pick(_CHANGED)}),
        f"{paths.ISR_CHANGES}/isr_change_0000000001": partitions(entry),
        paths.PREFERRED_REPLICA_ELECTION: partitions(entry),
        paths.REASSIGN_PARTITIONS: partitions(entry | {"replicas": pick(_REPLICAS)}),
        f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001": text({"version": 1, "broker": number * 2**30, "event": 1}),
    }


class Patient:
    """A cluster of two brokers, and somebody who writes into its ZooKeeper."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        settings = {"default.replication.factor": "2", "min.insync.replicas": "1"}
        self.cluster = SimulatedCluster(self.simulation, 2, settings)
        self.store = MemoryStore(self.cluster.zookeeper)
        self._clients = 0

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def scenario() -> None:
            await self.cluster.start()
            await self.store.start(10)
            await self.client(self._create)
            await self.works()
            await story()
            await self.cluster.stop()
            await self.store.close()

        self.simulation.run(scenario(), limit_s=3_600.0)

    async def client(self, use: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self._clients += 1
        process = self.simulation.process(f"client-{self._clients}")
        chance = self.simulation.chance(process.name).random
        options = {"bootstrap_servers": self.cluster.bootstrap_servers, "client_id": "c", "chance": chance}

        async def run() -> None:
            await use(options)

        await asyncio.wait_for(process.run(run()), 30)
        process.kill()

    async def _create(self, options: dict[str, Any]) -> None:
        async with Admin(**options) as admin:
            await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=2) for name in (WELL, SICK)])

    async def works(self, topic: str = WELL) -> None:
        async def use(options: dict[str, Any]) -> None:
            producer = Producer(clock=self.cluster.clock, acks="all", enable_idempotence=True, **options)
            async with producer:
                await (await producer.send(topic, b"x", partition=0))

        await self.client(use)

    async def write(self, path: str, data: bytes) -> None:
        if await self.store.exists(path) is None:
            await self.store.create(path, data, parents=True)
        else:
            await self.store.write(path, data)

    async def remove(self, path: str) -> None:
        try:
            for name in await self.store.children(path):
                await self.remove(paths.child(path, name))
            await self.store.delete(path)
        except NoNodeError:
            pass

    async def another_controller(self) -> None:
        await self.remove(paths.CONTROLLER)
        await asyncio.sleep(NOTICE_S)

    async def round(self, garbage: dict[str, bytes]) -> str:
        """Write, take over, mend; what was logged as an error."""
        before: dict[str, bytes | None] = {}
        for path, data in garbage.items():
            before[path] = (await self.store.read(path))[0] if await self.store.exists(path) else None
            await self.write(path, data)
            if path.startswith(paths.CONFIG) and not path.startswith(paths.CONFIG_CHANGES):
                note = text({"version": 2, "entity_path": path.removeprefix(f"{paths.CONFIG}/")})
                await self.store.create(paths.CONFIG_CHANGE_PREFIX, note, sequence=True)
        await asyncio.sleep(NOTICE_S)
        await self.works()
        await self.another_controller()
        await self.works()
        for path, mended in before.items():
            await (self.remove(path) if mended is None else self.write(path, mended))
        await asyncio.sleep(NOTICE_S)
        await self.works()
        await self.works(SICK)
        problems, causes = self.simulation.problems, self.simulation.causes
        unexpected = [each for each in causes if each is not None]
        assert not unexpected, f"an error that nobody expected: {unexpected}"
        assert len(problems) < 8 * len(garbage), "so many lines for so few znodes"
        lines = "\n".join(problems)
        problems.clear()
        causes.clear()
        return lines


def test_what_is_nothing_of_its_kind() -> None:
    patient = Patient()

    async def story() -> None:
        for what, data in anything():
            lines = await patient.round(dict.fromkeys(EVERYWHERE, data))
            if data:
                named = (
                    paths.topic("broken"),
                    paths.partition_state(SICK, 0),
                    paths.topic_config(SICK),
                    paths.broker(7),
                )
                missing = [path for path in named if path not in lines]
                assert what == "an unknown version" or not missing, f"{what}: no line names {missing}"

    patient.run(story)


def test_what_looks_like_its_kind_and_makes_no_sense() -> None:
    patient = Patient()

    async def story() -> None:
        for number in range(max(map(len, (_TOPICS, _BROKERS, _STATES, _CHANGED)))):
            await patient.round(nonsense(number))

    patient.run(story)


def test_a_seat_and_an_epoch_that_cannot_be_read() -> None:
    """Nobody can govern meanwhile, but brokers serve; and somebody does when they are mended. An unreadable epoch left nobody trying."""
    patient = Patient()

    async def governs() -> None:
        await patient.cluster.until(
            lambda: any(each.app and each.app.serving.parts.controller.is_active for each in patient.cluster.running()),  # type: ignore[union-attr]
            "a controller",
        )

    async def story() -> None:
        epoch, _ = await patient.store.read(paths.CONTROLLER_EPOCH)
        for data in (b"x", b"-5", b"9" * 30, b" 1_000 "):
            await patient.write(paths.CONTROLLER_EPOCH, data)
            await patient.another_controller()
            await patient.works()
            await patient.write(paths.CONTROLLER_EPOCH, b"%d" % (int(epoch) + 100))
            await governs()
        for data in (b"", b"[]", text({"version": 2, "brokerid": "x"}), text({"version": 2, "brokerid": -9})):
            await patient.write(paths.CONTROLLER, data)
            await asyncio.sleep(NOTICE_S)
            await patient.works()
            await patient.another_controller()
            await governs()
        assert not [each for each in patient.simulation.causes if each is not None]
        assert len(patient.simulation.problems) < 100
        patient.simulation.problems.clear()

    patient.run(story)
