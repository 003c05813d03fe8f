"""Transcripts of what happens to a small cluster: a command, its words, a line `----`, and what is to be seen then.

    python -m tests.simulation.stories --write      writes what is seen now into the transcripts, for a person to compare

Lines that begin with `#` tell the story. The commands:

    cluster SIZE [SETTING=VALUE ...]          brokers 1 to SIZE, each on its machine broker-N; broker 1 is the controller
    topic NAME replicas=1,2 [SETTING=VALUE ...]
    produce PARTITION VALUE ... [acks=1] [as NAME]
                                              one after the other, acks=all unless it says otherwise; KEY:VALUE has a key, KEY: is a
                                              tombstone; with a name the same producer, on the machine NAME, goes on
    read PARTITION [as NAME]                  all that a consumer is given; with a name the same consumer goes on
    seek PARTITION OFFSET as NAME             that consumer goes on there
    state PARTITION                           as ZooKeeper has it
    logs PARTITION                            every replica: values, each with its leader epoch
    controller                                who governs, in which epoch
    until in-sync|leader=N|leaderless|isr=1,2 PARTITION
    until controller=N|registered=N|unregistered=N
    reassign PARTITION N,N ...                asked for; `until in-sync` waits for its end
    elect PARTITION                           the preferred leader
    commit GROUP PARTITION OFFSET [as NAME [generation=N]]
                                              by a consumer that is no member, on the machine NAME; or by the member that joined so
    join GROUP as NAME                        a member that sends nothing but what is asked of it; it is answered when all have joined
    share GROUP as NAME                       it asks for its share; who leads the group gives nobody anything
    offsets GROUP [as NAME]                   what its coordinator tells, to a client on the machine NAME
    begin COMMAND ...                         goes on in the background until
    end                                       which shows what it saw
    wait SECONDS
    said BROKER TEXT                          the lines of that broker's log that hold the text
    kill|stop|start|pause|resume N ...
    lose-power N ... [keeping=none|half|holes]   of what was not synced nothing stays, or half of the changes and half of the
                                              next write, the rest of which reads as zeros with `holes`
    cut|heal ONE OTHER                        between two machines
    delay ONE OTHER SECONDS                   everything from the one machine to the other takes so much longer
    delete-controller                         somebody deletes the znode
    cut-zookeeper|heal-zookeeper N
    slow-zookeeper N SECONDS                  both ways, between that broker and ZooKeeper
    refuse N API ERROR                        the broker answers the next request of that kind with an error
    believes N PARTITION                      what broker N takes itself for
    epoch PARTITION EPOCH                     where that leader epoch ends, as the leader answers
    metadata N                                what broker N tells clients of the cluster
    tells N PARTITION                         what broker N tells clients of a partition
    prove-metadata                            new controllers ask brokers which metadata they have, however little there is
    written PARTITION                         the ISR, and by which controller
    reach N                                   does anybody listen there?
    lose-quorum|regain-quorum                 of ZooKeeper
    expire-session N
    verdict ENDER N [silent] [seen]           broker ENDER carries out a verdict about broker N, or about the registration that was `seen`
                                              last; what becomes of it
    reject|accept ONE OTHER                   connections of a machine to another break and are refused, though somebody listens
    registered                                which brokers are, compared with the last look
    may-complain N                            that broker logs an error, which is right here
    plan                                      a run of `tests.simulation.plan`, as a failing seed leaves it: `holds`, or what is broken
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from kafkalite.broker.requests.request_faults import Rule
from kafkalite.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import iter_batches, iter_records
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Process, Simulation
from tests.simulation.knobs import ways_of_large_clusters
from tests.simulation.members import BareMember, Members, partition_named
from tests.simulation.plan import Plan
from tests.simulation.power import KEPT
from tests.simulation.seeds import live
from tests.simulation.sights import Sights
from tests.simulation.verdicts import Verdicts
from zk import paths
from zk.memory.memory_store import MemoryStore
from zk.store import Delete, NoNodeError
from zk.znodes import ControllerEpoch, ControllerSeat

FOLDER: Final = Path(__file__).with_name("transcripts")
_PROVE: Final = "prove-metadata"
_DELIVERY_MS: Final = 4_000
_READ_S: Final = 3.0
_UNNOTICED_S: Final = 600.0
"""Longer than any story."""


@dataclass
class Step:
    """One command with the lines before it, its input, and what was seen."""

    story: list[str]
    command: str
    more: list[str]
    seen: list[str]

    def __str__(self) -> str:
        return "\n".join([*self.story, self.command, *self.more, "----", *self.seen])


def parse(text: str) -> list[Step]:
    """The steps of a transcript. An empty line ends a step."""
    steps = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        story = list(takewhile(lambda line: line.startswith("#"), lines))
        rest = lines[len(story) :]
        if not rest:
            story.append("")
            steps.append(Step(story, "", [], []))
            continue
        border = rest.index("----")
        steps.append(Step(story, rest[0], rest[1:border], rest[border + 1 :]))
    return steps


def written(steps: list[Step]) -> str:
    return "\n\n".join(str(step) if step.command else "\n".join(step.story).rstrip() for step in steps) + "\n"


class Story(Sights, Members, Verdicts):
    """Runs the commands of one transcript in one simulation."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self._steps = steps
        self.simulation = Simulation(1)
        self._clients = 0
        self._readers: dict[str, tuple[Process, Consumer]] = {}
        self._producers: dict[str, tuple[Process, Producer]] = {}
        self.bare_members: dict[str, BareMember] = {}
        self._under_way: list[asyncio.Task[list[str]]] = []
        self.cluster: SimulatedCluster
        self.seen: list[list[str]] = []

    def run(self) -> list[Step]:
        """The steps, with what was seen."""
        if any(step.command == "plan" for step in self._steps):
            return [Step(step.story, step.command, step.more, _lived(step)) for step in self._steps]
        with ways_of_large_clusters(are_taken=any(step.command == _PROVE for step in self._steps)):
            self.simulation.run(self._scenario(), limit_s=3_600.0)
        seen = iter(self.seen)
        return [Step(each.story, each.command, each.more, next(seen) if each.command else []) for each in self._steps]

    async def _scenario(self) -> None:
        for step in self._steps:
            if step.command:
                self.seen.append(await self._do(step.command))
        bare = [(each.process, each) for each in self.bare_members.values()]
        for process, client in [*self._readers.values(), *self._producers.values(), *bare]:
            await process.run(client.close())
            process.kill()
        await self.cluster.stop()

    async def _do(self, command: str) -> list[str]:
        name, *words = command.split()
        act: Callable[..., Awaitable[list[str]]] = getattr(self, "_" + name.replace("-", "_"))
        return await act(*words)

    async def _begin(self, *words: str) -> list[str]:
        self._under_way.append(asyncio.ensure_future(self._do(" ".join(words))))
        return []

    async def _end(self) -> list[str]:
        return await self._under_way.pop(0)

    # clients

    async def _client(
        self, use: Callable[[dict[str, Any]], Awaitable[list[str]]], process: Process | None = None, name: str = ""
    ) -> list[str]:
        """What a client sees: that of `process`, or one that ends then, on the machine of that name or one of its own."""
        self._clients += 1
        own = process or self.simulation.process(name or f"client-{self._clients}")
        options = {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": own.name,
            "request_timeout_ms": 2_000,
            "chance": self.simulation.chance(own.name).random,
        }

        async def run() -> list[str]:
            return await use(options)

        seen = await own.run(run())
        if process is None:
            own.kill()
        return seen

    async def _cluster(self, size: str, *settings: str) -> list[str]:
        self.cluster = SimulatedCluster(self.simulation, int(size), dict(each.split("=") for each in settings))
        for broker in self.cluster.brokers:  # one after the other, so that the first one governs
            await self.cluster.start(broker)
        return []

    async def _topic(self, name: str, replicas: str, *settings: str) -> list[str]:
        wanted = [int(each) for each in replicas.removeprefix("replicas=").split(",")]
        topic = NewTopic(
            name, replica_assignments={0: wanted}, topic_configs=dict(each.split("=") for each in settings)
        )

        async def create(options: dict[str, Any]) -> list[str]:
            async with Admin(**options) as admin:
                await admin.create_topics([topic])
            return []

        await self._client(create)
        return await self._until("in-sync", f"{name}-0")

    async def _produce(self, partition: str, *words: str) -> list[str]:
        target, name = partition_named(partition), words[-1] if "as" in words else ""
        values = [each for each in (words[:-2] if name else words) if not each.startswith("acks=")]
        acks: Any = 1 if "acks=1" in words else "all"
        process, producer = self._producers.get(name, (self.simulation.process(name) if name else None, None))

        async def produce(options: dict[str, Any]) -> list[str]:
            nonlocal producer
            if producer is None:
                producer = Producer(
                    clock=self.cluster.clock,
                    acks=acks,
                    enable_idempotence=acks == "all",
                    delivery_timeout_ms=_DELIVERY_MS,
                    **options,
                )
                await producer.connect()
            seen = [await self._sent(producer, target, value) for value in values]
            if not name:
                await producer.close()
            return seen

        seen = await self._client(produce, process)
        if name:
            assert process is not None and producer is not None
            self._producers[name] = process, producer
        return seen

    async def _sent(self, producer: Producer, target: TopicPartition, text: str) -> str:
        key, colon, value = text.partition(":") if ":" in text else ("", "", text)
        try:
            delivery = await producer.send(
                target.topic,
                value.encode() if value else None,
                key=key.encode() if colon else None,
                partition=target.partition,
            )
            return f"{text}: acknowledged at {(await delivery).offset}"
        except Exception:
            return f"{text}: not acknowledged"

    async def _reassign(self, partition: str, replicas: str) -> list[str]:
        async def ask(options: dict[str, Any]) -> list[str]:
            async with Admin(**options) as admin:
                wanted = [int(each) for each in replicas.split(",")]
                await admin.alter_partition_reassignments({partition_named(partition): wanted})
            return []

        return await self._client(ask)

    async def _elect(self, partition: str) -> list[str]:
        async def ask(options: dict[str, Any]) -> list[str]:
            async with Admin(**options) as admin:
                await admin.elect_leaders("preferred", [partition_named(partition)])
            return []

        return await self._client(ask)

    async def _read(self, partition: str, *words: str) -> list[str]:
        target = partition_named(partition)
        name = words[1] if words else ""
        process, consumer = self._readers.get(name, (self.simulation.process(name or f"reader-{self._clients}"), None))
        self._clients += 1
        lines_before = len(self.simulation.trace.lines)

        async def read(options: dict[str, Any]) -> list[str]:
            nonlocal consumer
            if consumer is None:
                consumer = Consumer(auto_offset_reset="earliest", **options)
                await consumer.connect()
                consumer.assign([target])
            found = []
            loop = asyncio.get_running_loop()
            quiet_s = loop.time() + _READ_S
            while loop.time() < quiet_s:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [f"{record.offset}: {_shown(record.key, record.value)}" for record in records]
            return found

        seen = await self._client(read, process)
        assert consumer is not None
        if name:
            self._readers[name] = (process, consumer)
        else:
            await process.run(consumer.close())
            process.kill()
        told = [
            f"{process.name} says: {line.text}"
            for line in self.simulation.trace.lines[lines_before:]
            if line.source == process.name
        ]
        return told + seen

    async def _seek(self, partition: str, offset: str, *words: str) -> list[str]:
        _, consumer = self._readers[words[1]]
        consumer.seek(partition_named(partition), int(offset))
        return []

    # what there is

    async def _state(self, partition: str) -> list[str]:
        state = self.cluster.partition_state(partition_named(partition))
        assert state is not None
        return [f"leader {state.leader}, leader epoch {state.leader_epoch}, ISR {sorted(state.isr)}"]

    async def _logs(self, partition: str) -> list[str]:
        target = partition_named(partition)
        lines = []
        for broker in self.cluster.brokers:
            if target in self.cluster.replicas_on(broker):
                data = self.cluster.log_bytes(broker, target)
                values = [
                    f"{_shown(record.key, record.value)}@{batch.partition_leader_epoch}"
                    for batch in iter_batches(data)
                    for record in iter_records(data, batch)
                ]
                lines.append(f"broker-{broker}: {' '.join(values)}".rstrip())
        return lines

    async def _controller(self) -> list[str]:
        tree = self.cluster.zookeeper.tree
        epoch = ControllerEpoch.decode(tree.read(paths.CONTROLLER_EPOCH)[0]).epoch
        return [f"broker {self._governor()}, controller epoch {epoch}"]

    def _governor(self) -> int | None:
        try:
            return ControllerSeat.decode(self.cluster.zookeeper.tree.read(paths.CONTROLLER)[0]).broker_id
        except NoNodeError:
            return None

    async def _said(self, broker: str, *words: str) -> list[str]:
        text = " ".join(words)
        return [
            line.text for line in self.simulation.trace.lines if line.source == f"broker-{broker}" and text in line.text
        ]

    async def _until(self, what: str, partition: str = "") -> list[str]:
        await self.cluster.until(lambda: self._holds(what, partition), f"{what} {partition}")
        return []

    def _holds(self, what: str, partition: str) -> bool:
        name, _, value = what.partition("=")
        if name == "controller":
            return self._governor() == int(value)
        if name.endswith("registered"):
            return (self.cluster.broker_epoch(int(value)) is None) == (name == "unregistered")
        state = self.cluster.partition_state(partition_named(partition))
        if state is None:
            return False
        if name == "in-sync":
            return partition_named(partition) not in self.cluster.out_of_sync()
        if name == "isr":
            return sorted(state.isr) == [int(each) for each in value.split(",")]
        return state.leader == (-1 if name == "leaderless" else int(value))

    async def _wait(self, seconds: str) -> list[str]:
        await asyncio.sleep(float(seconds))
        return []

    # what is done to brokers

    async def _kill(self, *brokers: str) -> list[str]:
        for each in brokers:
            self.cluster.kill(int(each))
        return []

    async def _lose_power(self, *words: str) -> list[str]:
        kept = next((word.removeprefix("keeping=") for word in words if word.startswith("keeping=")), None)
        for each in words:
            if each.isdecimal():
                self.cluster.lose_power(int(each), None if kept is None else KEPT[kept])
        return []

    async def _stop(self, *brokers: str) -> list[str]:
        await self.cluster.stop(*map(int, brokers))
        return []

    async def _start(self, *brokers: str) -> list[str]:
        await self.cluster.start(*map(int, brokers))
        return []

    async def _pause(self, broker: str) -> list[str]:
        process, store = self._running(broker)
        process.pause()
        store.fall_silent()
        return []

    async def _resume(self, broker: str) -> list[str]:
        process, store = self._running(broker)
        process.resume()
        store.resume()
        return []

    def _running(self, broker: str) -> tuple[Process, MemoryStore]:
        process, store = self._of(broker).process, self._of(broker).store
        assert process is not None and store is not None
        return process, store

    async def _cut(self, one: str, other: str) -> list[str]:
        self.cluster.cut(one, other)
        return []

    async def _heal(self, one: str, other: str) -> list[str]:
        self.cluster.heal(one, other)
        return []

    async def _delay(self, one: str, other: str, seconds: str) -> list[str]:
        self.simulation.network.delay(one, other, float(seconds))
        return []

    async def _slow_zookeeper(self, broker: str, seconds: str) -> list[str]:
        store = self._of(broker).store
        assert store is not None
        store.lag_s = float(seconds)
        return []

    async def _refuse(self, broker: str, api: str, error: str) -> list[str]:
        rule = Rule(ApiKey[api], "fail", ErrorCode[error], client_id=None)
        self._of(broker).requests.add(rule)
        return []

    async def _prove_metadata(self) -> list[str]:
        return []  # acts on the whole story

    async def _delete_controller(self) -> list[str]:
        self.cluster.zookeeper.administer([Delete(paths.CONTROLLER)])
        return []

    async def _lose_quorum(self) -> list[str]:
        self.cluster.zookeeper.lose_quorum()
        return []

    async def _regain_quorum(self) -> list[str]:
        self.cluster.zookeeper.regain_quorum()
        return []

    async def _cut_zookeeper(self, broker: str, *words: str) -> list[str]:
        self._running(broker)[1].suspend(noticed_after_s=_UNNOTICED_S if "unnoticed" in words else 0.0)
        return []

    async def _heal_zookeeper(self, broker: str) -> list[str]:
        self._running(broker)[1].resume()
        return []

    async def _expire_session(self, broker: str) -> list[str]:
        self._running(broker)[1].expire_session()
        return []

    async def _may_complain(self, broker: str) -> list[str]:
        self.simulation.may_complain[f"broker-{broker}"] += 1
        return []


def _shown(key: Any, value: Any) -> str:
    text = bytes(value or b"").decode()
    return text if key is None else f"{bytes(key).decode()}:{text}"


def _lived(step: Step) -> list[str]:
    if step.command != "plan":
        return []
    result, _ = live(Plan.parse("\n".join(step.more)))
    return result.problem.splitlines() or ["holds"]


def replayed(path: Path) -> str:
    """The transcript with what is seen now."""
    return written(Story(parse(path.read_text())).run())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.stories", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("transcripts", nargs="*", type=Path, help="by default all")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    differ = 0
    for path in options.transcripts or sorted(FOLDER.glob("*.txt")):
        seen = replayed(path)
        differ += seen != path.read_text()
        print(seen)
        if options.write:
            path.write_text(seen)
    return 1 if differ and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
