"""A cluster at work for a long time while faults strike at random: `python -m tests.system --soak MINUTES [--seed N]`.

Three brokers, three ZooKeeper servers. Writers, readers and a group share a topic for a spell of five minutes; then everything is healed,
the history of the spell is judged, the topic is deleted, and memory, files, tasks and znodes are counted. Meanwhile other topics are made
and deleted all the time, and each half minute something happens to somebody. The report has a line for each spell, and in the end how
fast each count grew: of the fitted line, in one hour. The first broker and the first ZooKeeper server suffer all but death, so they show
what grows in an hour; of the others each process is told for itself, if it lived long enough.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.client import ClientError, NewTopic, SyncAdmin
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.workloads.group_workload import GroupWorkload, judge
from kafkalite.testing.workloads.resources import resources_of
from tests.class_data import use_archive
from tests.system.scenario import PROPERTIES, Scenario
from tests.warm_broker import use_warm_brokers
from zk.servers.ensemble import HOST, Ensemble, four_letter_word

SPELL_S: Final = 300.0
EVERY_S: Final = 30.0
PARTITIONS: Final = 4
HEALED_WITHIN_S: Final = 120.0
MOST_AN_HOUR: Final = {
    "memory MB": 60.0,
    "files": 30.0,
    "connections": 60.0,
    "tasks": 60.0,
    "znodes": 60.0,
    "watches": 60.0,
}
"""Growth of a broker, or of ZooKeeper, in an hour, beyond which a soak of at least `JUDGED_SPELLS` fails."""
WARM_UP_SPELLS: Final = 1
"""Of a process; they fill caches."""
JUDGED_SPELLS: Final = 6


class Sample(NamedTuple):
    """What there was at the end of a spell; the name says of whom."""

    at_s: float
    counts: dict[str, dict[str, float]]


class Soak:
    """See the module."""

    def __init__(self, cluster: LocalCluster, seed: int, folder: Path) -> None:
        self.cluster, self.rng, self._folder = cluster, random.Random(f"soak/{seed}"), folder
        self.scenario = Scenario(cluster, folder)
        self.struck: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.problems: list[str] = []
        self._began_s = time.monotonic()
        self._stopping = threading.Event()
        self._maker = threading.Thread(target=self._make_topics, daemon=True)
        self.made = 0
        self._faults: dict[str, Callable[[], None]] = {
            "kill of a broker": lambda: self._bounce("kill"),
            "restart of a broker": lambda: self._bounce("restart"),
            "short pause of a broker": lambda: self._pause(self.rng.uniform(0.2, 1.5)),
            "long pause of a broker": lambda: self._pause(self.rng.uniform(4, 10)),
            "cut between brokers": lambda: self._cut(one_way=False),
            "cut in one direction": lambda: self._cut(one_way=True),
            "cut from ZooKeeper": self._cut_from_zookeeper,
            "expired session": self._expire,
            "stall of an event loop": self._stall,
            "refused or late requests": self._disturb_requests,
            "kill of a ZooKeeper server": self._kill_zookeeper,
            "pause of a ZooKeeper server": self._pause_zookeeper,
        }

    def run(self, minutes: float) -> bool:
        self._maker.start()
        end_s = self._began_s + minutes * 60
        spell = 0
        while (left_s := end_s - time.monotonic()) > 0 and not self.problems:
            spell += 1
            try:
                self._spell(min(SPELL_S, left_s))
            except Exception as problem:
                self.problems.append(f"spell {spell}: {problem!r}")
                break
            self._sample()
            self._tell(spell)
        self._stopping.set()
        self._maker.join(120)
        return self._report()

    def _spell(self, seconds: float) -> None:
        topic = self.scenario.create_topic(PARTITIONS)
        workload = self.scenario.start_workload(topic, PARTITIONS, ("confluent-idempotent", "kafkalite-idempotent"))
        group = GroupWorkload(self.cluster.bootstrap_servers, f"group-{topic}", topic, PARTITIONS)
        group.start()
        try:
            group.wait_committing(HEALED_WITHIN_S)
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                self._strike()
                workload.wait_flowing(HEALED_WITHIN_S)
                group.wait_committing(HEALED_WITHIN_S)
                if violations := judge(group.history):
                    raise AssertionError(violations[:5])
                self._wait(min(EVERY_S, end_s - time.monotonic()))
            self.scenario.wait_replicated(topic, HEALED_WITHIN_S)
            self.scenario.verdict(workload)
            self._finish_group(group)
        finally:
            group.stop()
        with SyncAdmin(bootstrap_servers=self.cluster.bootstrap_servers, default_api_timeout_ms=60_000) as admin:
            wait_until(lambda: _done(admin.delete_groups, [group.group]), "the end of the group", HEALED_WITHIN_S)
            wait_until(lambda: _done(admin.delete_topics, [topic]), "the end of the topic", HEALED_WITHIN_S)

    def _finish_group(self, group: GroupWorkload) -> None:
        ends = self.scenario.ends(group.topic, PARTITIONS)
        group.wait_caught_up(ends, HEALED_WITHIN_S)
        group.stop()
        if violations := judge(group.history, ends):
            raise AssertionError(violations[:5])

    def _strike(self) -> None:
        name = self.rng.choice(sorted(self._faults))
        began_s = time.monotonic()
        try:
            self._faults[name]()
        finally:
            self.cluster.heal()
        self.struck[name] += 1
        print(f"  {time.monotonic() - self._began_s:6.0f} s  {name}, {time.monotonic() - began_s:.1f} s", flush=True)

    # Faults, each over when it returns

    def _broker(self) -> int:
        return self.rng.choice(self.cluster.broker_ids)

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            self._stopping.wait(seconds)

    def _bounce(self, how: str) -> None:
        victim = self.rng.choice(self.cluster.broker_ids[1:])
        epoch = self.scenario.facts.broker_epoch(victim)
        if how == "kill":
            self.cluster.kill(victim)
        else:
            self.cluster.stop(victim)
        self._wait(self.rng.uniform(0, 6))
        self.scenario.start_broker(victim)
        self.scenario.wait_registered_again(victim, epoch, HEALED_WITHIN_S)

    def _pause(self, seconds: float) -> None:
        victim = self._broker()
        self.cluster.pause(victim)
        self._wait(seconds)
        self.cluster.unpause(victim)

    def _cut(self, *, one_way: bool) -> None:
        one, other = self.rng.sample(self.cluster.broker_ids, 2)
        self.cluster.partition(one, other, one_way=one_way)
        self._wait(self.rng.uniform(1, 12))

    def _cut_from_zookeeper(self) -> None:
        self.cluster.partition(self._broker(), ["zk1", "zk2", "zk3"])
        self._wait(self.rng.uniform(0.5, 8))

    def _expire(self) -> None:
        victim = self._broker()
        epoch = self.scenario.facts.broker_epoch(victim)
        self.scenario.facts.expire_session(victim)
        self.scenario.wait_registered_again(victim, epoch, HEALED_WITHIN_S)

    def _stall(self) -> None:
        seconds = self.rng.uniform(0.5, 5)
        self.cluster.faults.stall(seconds, broker_id=self._broker())
        self._wait(seconds)

    def _disturb_requests(self) -> None:
        api = self.rng.choice([ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.METADATA])
        if api is ApiKey.PRODUCE and self.rng.random() < 0.5:
            self.cluster.faults.fail(api, "NOT_LEADER_OR_FOLLOWER", times=5)
        else:
            self.cluster.faults.delay(api, self.rng.uniform(0.2, 3), times=5)
        self._wait(5)
        self.cluster.faults.clear()

    def _kill_zookeeper(self) -> None:
        ensemble, number = self._zookeeper(spared=1)
        asyncio.run(ensemble.kill(number))
        self._wait(self.rng.uniform(0, 8))
        asyncio.run(ensemble.start_member(number, HEALED_WITHIN_S))

    def _pause_zookeeper(self) -> None:
        ensemble, number = self._zookeeper()
        ensemble.pause(number)
        self._wait(self.rng.uniform(0.5, 8))
        ensemble.resume(number)
        asyncio.run(ensemble.wait_quorum(HEALED_WITHIN_S))

    def _zookeeper(self, spared: int = 0) -> tuple[Ensemble, int]:
        ensemble = self.cluster.ensemble
        assert ensemble is not None
        return ensemble, self.rng.choice(ensemble.members[spared:]).number

    # Topics beside

    def _make_topics(self) -> None:
        servers = self.cluster.bootstrap_servers
        with SyncAdmin(bootstrap_servers=servers, default_api_timeout_ms=30_000) as admin:
            while not self._stopping.is_set():
                with suppress(ClientError):  # in the middle of a fault; the name is not used again
                    admin.create_topics([NewTopic(f"passing-{self.made}", 3, 3)])
                self._delete_passing(admin)
                self.made += 1
                self._stopping.wait(2)
            self._delete_passing(admin)

    def _delete_passing(self, admin: SyncAdmin) -> None:
        """The last one, and those whose deletion was refused in the middle of a fault."""
        with suppress(ClientError):
            for name in admin.list_topics():
                if name.startswith("passing-"):
                    admin.delete_topics([name])

    # Counts

    def _sample(self) -> None:
        counts: dict[str, dict[str, float]] = {}
        for broker in self.cluster.brokers.values():
            counts[f"broker {broker.id}, process {broker.pid}"] = {"memory MB": broker.resident_bytes() / 1e6} | dict(
                resources_of(broker)
            )
        ensemble = self.cluster.ensemble
        assert ensemble is not None
        mntr = asyncio.run(four_letter_word(HOST, ensemble.members[0].ports.client, "mntr", 20)) or ""
        told = dict(line.split("\t")[:2] for line in mntr.splitlines() if "\t" in line)
        names = {"zk_znode_count": "znodes", "zk_watch_count": "watches", "zk_num_alive_connections": "connections"}
        counts["ZooKeeper 1"] = {what: float(told[key]) for key, what in names.items() if key in told}
        self.samples.append(Sample(time.monotonic() - self._began_s, counts))

    def _tell(self, spell: int) -> None:
        counts = self.samples[-1].counts
        shown = "; ".join(
            f"{who} " + ", ".join(f"{value:.0f} {what}" for what, value in of.items()) for who, of in counts.items()
        )
        print(f"spell {spell} kept all promises; {self.made} topics made and deleted; {shown}", flush=True)

    def _report(self) -> bool:
        print(json.dumps(dict(self.struck), indent=1))
        lines: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for sample in self.samples:
            for who, of in sample.counts.items():
                for what, value in of.items():
                    lines[who, what].append((sample.at_s, value))
        for (who, what), counted in sorted(lines.items()):
            points = counted[WARM_UP_SPELLS:]
            if len(points) < 2:
                continue
            growth = slope(points) * 3600
            shown = f"{growth:+.1f} an hour from {points[0][1]:.0f} to {points[-1][1]:.0f}"
            print(f"{who}: {what} {shown} in {len(points)} spells")
            if len(points) >= JUDGED_SPELLS and growth > MOST_AN_HOUR[what]:
                self.problems.append(f"{who}: {what} grows by {growth:.1f} an hour")
        for problem in self.problems:
            print(f"FAILED: {problem}")
        print(
            f"{sum(self.struck.values())} faults in {(time.monotonic() - self._began_s) / 60:.0f} minutes, logs in {self._folder}"
        )
        return not self.problems


def _done(delete: Callable[[list[str]], object], names: list[str]) -> bool:
    """A controller or coordinator that changes meanwhile says so; who asks again may hear that there is nothing to delete.

    A member whose farewell reached a coordinator that was not ready stays until its session is over.
    """
    try:
        delete(names)
    except ClientError as problem:
        if problem.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND):
            return True
        if not problem.retriable and problem.code is not ErrorCode.NON_EMPTY_GROUP:
            raise
        return False
    return True


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line through the points by least squares; 0 when there are too few."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def run(minutes: float, seed: int, folder: Path) -> bool:
    """See the module; True when all was well."""
    use_archive()
    use_warm_brokers()
    cluster = LocalCluster(
        brokers=3,
        zookeepers=3,
        properties=PROPERTIES | {"log.segment.bytes": "10000000", "log.retention.check.interval.ms": "10000"},
        directory=folder,
        partitionable=True,
        faults=True,
        http=True,
    )
    with cluster:
        soak = Soak(cluster, seed, folder)
        wait_until(lambda: len(soak.scenario.facts.brokers()) == 3, "all brokers", 60)
        try:
            return soak.run(minutes)
        finally:
            soak.scenario.close()
