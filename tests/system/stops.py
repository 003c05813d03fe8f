"""Clean stops of real brokers under every kind of traffic: `python -m tests.system.stops --stops 300`.

Three brokers have the traffic of `tests.stop_traffic`. They are stopped one at a time and several at once, by a SIGTERM to the whole
process group, as supervisors send it, so that the child of the log cleaner may end in the same moment; some are killed in the middle.
What must hold: a stop ends within the bound of its broker, with exit status 0; in the end nothing is missing that was acknowledged or
committed; no log starts before what a DeleteRecords was answered. `--secure` has TLS, users and ACLs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from kafkalite.client import Admin, Consumer, NewTopic, TopicPartition
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from tests.stop_traffic import COMPACTED, COPIES, CUT, KEYS, MONEY, PLAIN, Figures, Traffic

T = TypeVar("T")

BOUND_S: Final = 60.0
PROPERTIES: Final = {
    "kafkalite.shutdown.timeout.ms": str(int(BOUND_S * 1000)),
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "60000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "100",
}
_MARGIN_S: Final = 10.0
_WHOLE_S: Final = 180.0


class Clients:
    """The traffic in a loop of its own thread; a program that fails is begun again."""

    def __init__(self, traffic: Traffic, brokers: list[BrokerProcess]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._programs = traffic.programs()
        for broker in brokers:
            self._programs[f"silent-{broker.id}"] = lambda broker=broker: traffic.be_silent(broker.host, broker.port)  # type: ignore[misc]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread.start()
        self.ask(self._start)

    def ask(self, what: Callable[[], Coroutine[Any, Any, T]], timeout_s: float = 240.0) -> T:
        return asyncio.run_coroutine_threadsafe(what(), self._loop).result(timeout_s)

    def stop(self) -> None:
        """End the traffic; questions are answered still."""
        self.ask(self._end)

    def close(self) -> None:
        """End what a program has left in the loop, too: collected as garbage it would write to closed connections."""
        self.ask(self._cancel_all)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        self._tasks = [asyncio.create_task(self._forever(program)) for program in self._programs.values()]

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=30)

    @staticmethod
    async def _cancel_all() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=30)

    @staticmethod
    async def _forever(program: Callable[[], Any]) -> None:
        while True:
            try:
                await program()
            except Exception:
                await asyncio.sleep(0.5)


class Stops:
    """A cluster with its traffic, whose brokers are stopped again and again."""

    def __init__(self, cluster: LocalCluster, options: dict[str, Any], seed: int) -> None:
        self._cluster, self._options = cluster, options
        self._rng = random.Random(seed)
        self._traffic = Traffic(
            options, sorted(cluster.brokers), lambda: random.Random(self._rng.random()), time.monotonic
        )
        self._clients = Clients(self._traffic, list(cluster.brokers.values()))
        self.figures = Figures()

    def run(self, stops: int, tell: Callable[[str], None] = lambda line: None) -> Figures:
        """AssertionError when something does not hold."""
        asyncio.run(self._create())
        self._clients.start()
        try:
            began = self._traffic.committed.__len__
            wait_until(lambda: began() > 0 and self._traffic.floors, "traffic", _WHOLE_S)
            while len(self.figures.stops_s) < stops:
                time.sleep(self._rng.uniform(0.0, 1.0))  # the moment of a stop is left to chance
                self._traffic.interrupt()
                self._stop_some()
                for partition in range(2):
                    self._cluster.await_isr(CUT, partition, size=3, timeout_s=_WHOLE_S)
                self._check_starts()
                self._traffic.is_whole = True
                tell(f"{len(self.figures.stops_s)} of {stops} stops, {self.figures.stops_s[-1:]} s")
            self._clients.stop()
            self._check_records()
        finally:
            self._clients.close()
        self.figures.took_part(self._traffic)
        return self.figures

    async def _create(self) -> None:
        wanted = {"min.insync.replicas": "2"}
        topics = [
            NewTopic(name, num_partitions=2, replication_factor=3, topic_configs=wanted)
            for name in (PLAIN, CUT, MONEY, COPIES)
        ]
        topics.append(NewTopic(KEYS, num_partitions=1, replication_factor=3, topic_configs=wanted | COMPACTED))
        async with Admin(**self._options) as admin:
            await admin.create_topics(topics)

    def _stop_some(self) -> None:
        rng, brokers = self._rng, self._cluster.brokers
        chosen = [brokers[each] for each in rng.sample(sorted(brokers), rng.choices([1, 2, 3], [6, 2, 2])[0])]
        dies = rng.random() < 0.1
        pids = {each.id: each.pid for each in chosen}
        began_s = time.monotonic()
        for broker in chosen:
            os.killpg(pids[broker.id], signal.SIGTERM)
        if dies:
            time.sleep(rng.uniform(0.0, 0.5))
            for broker in chosen:
                if broker.running:
                    broker.kill()
                    self.figures.kills += 1
        else:
            left = {each.id: each for each in chosen}
            while left:
                for broker in tuple(left.values()):
                    took_s = time.monotonic() - began_s
                    if not broker.running:
                        del left[broker.id]
                        self.figures.stops_s.append(took_s)
                        status = broker.exit_status
                        assert status == 0, f"broker {broker.id} ended with {status}:\n{broker.log_tail()}"
                    assert took_s <= BOUND_S + _MARGIN_S, f"broker {broker.id} did not stop:\n{broker.log_tail()}"
                time.sleep(0.005)
            for broker in chosen:
                text = broker.log_path.read_text(errors="replace")
                assert "cancelled and goes on" not in text, f"broker {broker.id}:\n{broker.log_tail()}"
        for broker in chosen:
            broker.start()
        for broker in chosen:
            broker.wait_started(_WHOLE_S)

    def _check_starts(self) -> None:
        floors = dict(self._traffic.floors)

        async def look() -> dict[TopicPartition, int]:
            async with Consumer(**self._options) as consumer:
                return dict(await consumer.beginning_offsets(list(floors)))

        undone = self._traffic.undone(floors, self._clients.ask(look))
        assert not undone, undone

    def _check_records(self) -> None:
        async def read() -> dict[str, list[tuple[int, int, bytes | None]]]:
            found: dict[str, list[tuple[int, int, bytes | None]]] = {topic: [] for topic in (PLAIN, CUT, MONEY)}
            partitions = [TopicPartition(topic, number) for topic in found for number in range(2)]
            async with Consumer(auto_offset_reset="earliest", **self._options) as consumer:
                ends = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                while any([await consumer.position(each) < ends[each] for each in partitions]):
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        for record in records:
                            found[record.topic].append((record.partition, record.offset, record.value))
            return found

        lost = self._traffic.lost(self._clients.ask(read))
        assert not lost, lost


def run(
    stops: int, seed: int, folder: Path, *, secure: bool = False, tell: Callable[[str], None] = lambda line: None
) -> Figures:
    """Start a cluster below `folder`, and stop its brokers so often. AssertionError when something does not hold."""
    with LocalCluster(
        brokers=3, properties=PROPERTIES, directory=folder, secure=secure, start_timeout_s=_WHOLE_S
    ) as cluster:
        options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
        if secure:
            inside = ",".join(
                f"{each.inside.host}:{each.inside.port}" for each in cluster.brokers.values() if each.inside
            )
            options = {"bootstrap_servers": inside, **cluster.security.admin_options()}
        try:
            return Stops(cluster, options, seed).run(stops, tell)
        finally:
            for broker in cluster.brokers.values():
                broker.kill()  # nobody needs what they would hand over now


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.stops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stops", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--secure", action="store_true", help="with TLS, users and ACLs")
    parser.add_argument(
        "--logs", type=Path, help="where logs and data are kept; by default a folder for temporary files"
    )
    options = parser.parse_args()
    folder = options.logs or Path(tempfile.mkdtemp(prefix="kafkalite-stops-"))
    began_s = time.monotonic()
    figures = run(options.stops, options.seed, folder, secure=options.secure, tell=lambda line: print(line, flush=True))
    print(f"{figures}; {time.monotonic() - began_s:.0f} s, logs in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
