"""Failure detection at work for a long time: `python -m tests.system --soak-detection MINUTES [--seed N]`, as root on Linux.

All cores are busy the whole time. A spell takes five minutes, on a cluster of its own with three ZooKeeper servers: of three brokers and of
five in turn, with kafkalite.failover.detection=evidence in odd spells and observe in even ones. Things happen that are not a broker's
death: pauses up to `LONGEST_PAUSE` of what is allowed, also in the middle of all else, changes of ZooKeeper's leader, half-open and
reset connections, moved listeners, iptables rules between two brokers, ended sessions, restarts. Brokers are killed in between, and hosts
vanish, which must be noticed.

A spell fails when a broker is taken for dead that nobody killed, when a registration ends that nobody ended, when a killed broker is
noticed later than `FOUND_WITHIN_S`, or a vanished host later than `VANISHED_WITHIN_S`, when an acknowledged record is lost, or when logs
and metrics count differently.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from kazoo.exceptions import KazooException

from kafkalite.client import ConfigChange, ConfigResource, SyncAdmin
from kafkalite.local.broker_process import BrokerDied, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.death_watch import DETECTION
from kafkalite.local.ports import ReservedPort
from tests.class_data import use_archive
from tests.system import network
from tests.system.scenario import Scenario
from tests.system.watched_broker import NOTED_MS
from zk.servers.ensemble import Ensemble, end_with_parent

SPELL_S: Final = 300.0
PARTITIONS: Final = 4
SILENCE_MS: Final = 1200
STANDING_STILL_MS: Final = 4800
"""How long a broker may stand still whose host lives; it follows from SILENCE_MS."""
LONGEST_PAUSE: Final = 0.8
LONGEST_STANDSTILL: Final = 0.5
"""Half of the pauses are up to so much of STANDING_STILL_MS; brokers wait up to 2.1 s for a processor besides."""
BREATH_S: Final = 1.0
"""Between two pauses, in which the same broker is to answer."""
FOUND_WITHIN_S: Final = 1.0
VANISHED_WITHIN_S: Final = 2.5
SESSION_S: Final = 18.0
HEALED_WITHIN_S: Final = 120.0
PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "replica.lag.time.max.ms": "10000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "kafkalite.failover.silence.ms": str(SILENCE_MS),
}
_COMMAND: Final = (sys.executable, str(Path(__file__).with_name("watched_broker.py")), "-X")
_SHOWN_SILENCES: Final = 8


class Said(NamedTuple):
    """What a broker has logged about another: `accused`, `wrong`, or what became of a verdict.

    That is `verdict` where it was carried out or only noted, and one of `_NOT_CARRIED_OUT`.
    """

    kind: str
    by: int
    about: int
    broker_epoch: int
    """0 where the line does not say it."""
    line: str


_LINES: Final = {
    "verdict": re.compile(r"broker (\d+) \(epoch (\d+)\) (?:is|would be) taken for dead"),
    "restrained": re.compile(r"broker (\d+)() seems to be dead and keeps its session"),
    "over": re.compile(r"broker (\d+) \(epoch (\d+)\) seems to be dead; its session is over"),
    "gone": re.compile(r"broker (\d+)() seemed to be dead; the evidence has gone"),
    "deferred": re.compile(r"broker (\d+)() seems to be dead; another session is being ended"),
    "unknown": re.compile(r"broker (\d+)() seems to be dead; whether to end its session"),
    "accused": re.compile(r"broker (\d+)() has (?:not answered for|closed its connection and refuses)"),
    "wrong": re.compile(r"broker (\d+)() was taken for dead"),
}
_NOT_CARRIED_OUT: Final = ("restrained", "over", "gone", "deferred", "unknown")


class Logs:
    """Reads what brokers log about each other, as it comes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._read: Counter[int] = Counter()
        self.said: list[Said] = []

    def read(self) -> list[Said]:
        """Return what is new."""
        new = [said for broker in self._cluster.brokers.values() for said in self._read_of(broker.id, broker.log_path)]
        self.said += new
        return new

    def _read_of(self, broker_id: int, path: Path) -> Iterator[Said]:
        with path.open("rb") as file:
            file.seek(self._read[broker_id])
            lines, _, _ = file.read().rpartition(b"\n")
        if lines:
            self._read[broker_id] += len(lines) + 1
        for line in lines.decode(errors="replace").splitlines():
            for kind, pattern in _LINES.items():
                if found := pattern.search(line):
                    yield Said(kind, broker_id, int(found[1]), int(found[2] or 0), line)


class Registrations(threading.Thread):
    """Watches which registrations there were, by broker and broker epoch."""

    def __init__(self, facts: ClusterFacts, broker_ids: list[int]) -> None:
        super().__init__(daemon=True)
        self._facts, self._broker_ids = facts, broker_ids
        self._stopping = threading.Event()
        self.ended: list[tuple[int, int]] = []

    def run(self) -> None:
        known: dict[int, int] = {}
        while not self._stopping.wait(0.1):
            for broker_id in self._broker_ids:
                with suppress(KazooException):  # ZooKeeper's leader changes
                    epoch = self._facts.broker_epoch(broker_id)
                    if known.get(broker_id, epoch) != epoch and known[broker_id]:
                        self.ended.append((broker_id, known[broker_id]))
                    known[broker_id] = epoch

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that always want a processor."""
    loops = [
        subprocess.Popen(
            [sys.executable, "-c", "while True: pass"], start_new_session=True, preexec_fn=end_with_parent()
        )
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


class Spell:
    """One cluster in one mode; `run` strikes for so long, `problems` says what was wrong."""

    def __init__(self, cluster: LocalCluster, mode: str, rng: random.Random, folder: Path, begin_s: float) -> None:
        self.cluster, self._mode, self._rng, self._begin_s = cluster, mode, rng, begin_s
        self.scenario = Scenario(cluster, folder)
        self.logs = Logs(cluster)
        self.problems: list[str] = []
        self.struck: Counter[str] = Counter()
        self.found_s: list[float] = []
        """Of each killed broker, how long it took to notice."""
        self.vanished_s: list[float] = []
        self.pauses_s: list[float] = []
        self.counts: Counter[str] = Counter()
        self._noticing = threading.Lock()
        """Held while somebody is paused, or a death is to be noticed."""
        self._ended: set[tuple[int, int]] = set()
        """Registrations, by broker and epoch, that were to end."""
        self._killed: set[tuple[int, int]] = set()
        self._verdicts_of_dead = 0
        """Verdicts of brokers that have ended since, by their metrics."""
        self._faults: dict[str, Callable[[], str | None]] = {
            "pause of a broker": lambda: self._pause(1),
            "pause of two brokers": lambda: self._pause(2),
            "pause of all brokers": lambda: self._pause(len(cluster.brokers)),
            "many busy loops": self._starve,
            "kill of ZooKeeper's leader": self._kill_zookeeper,
            "pause of ZooKeeper's leader": self._pause_zookeeper,
            "cut from ZooKeeper": self._cut_from_zookeeper,
            "reset of a pair": lambda: self._reset(everybody=False),
            "reset of all connections to a broker": lambda: self._reset(everybody=True),
            "half-open connections of a pair": lambda: self._half_open(everybody=False),
            "half-open connections to a broker": lambda: self._half_open(everybody=True),
            "moved listener": self._move,
            "REJECT with tcp-reset": lambda: self._disturb(network.TCP_RESET),
            "REJECT with icmp-port-unreachable": lambda: self._disturb(network.PORT_UNREACHABLE),
            "DROP": lambda: self._disturb(network.DROP),
            "ended session": self._expire,
            "restart": self._restart,
            "kill -9": lambda: self._kill(1),
            "vanished host": self._vanish,
        }
        if len(cluster.brokers) >= 5:
            self._faults["kill -9 of two"] = lambda: self._kill(2)

    def run(self, seconds: float) -> None:
        """Raises AssertionError and TimeoutError for records that were lost, or a cluster that does not recover."""
        with ClusterFacts(self.cluster.zookeeper_connect) as facts:
            registrations = Registrations(facts, self.cluster.broker_ids)
            registrations.start()
            try:
                self._run(seconds)
            finally:
                registrations.stop()
                self.logs.read()
                self._judge(registrations.ended)

    def _run(self, seconds: float) -> None:
        topic = self.scenario.create_topic(PARTITIONS)
        workload = self.scenario.start_workload(topic, PARTITIONS, ("confluent-idempotent", "kafkalite-idempotent"))
        end_s = time.monotonic() + seconds
        left: list[str] = []
        with self._pausing():
            while time.monotonic() < end_s:
                left = left or self._rng.sample(sorted(self._faults), len(self._faults))
                self._strike(left.pop())
                workload.wait_flowing(HEALED_WITHIN_S)
                time.sleep(self._rng.uniform(0, 4))
        self.scenario.verdict(workload)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Pause brokers all the time, except while a death is to be noticed."""
        rng = random.Random(self._rng.random())
        stopping = threading.Event()

        def pause() -> None:
            while not stopping.wait(rng.uniform(1, 10)):
                with self._noticing:
                    victims = [each.id for each in self.cluster.brokers.values() if each.running]
                    self._pause_brokers(rng.sample(victims, 1), rng)

        thread = threading.Thread(target=pause, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    def _strike(self, name: str) -> None:
        began_s = time.monotonic()
        about = self._faults[name]()
        self.struck[name] += 1
        said = self.logs.read()
        told = "".join(f"\n      {each.by}: {each.line}" for each in said if self._is_news(each))
        at_s, took_s = began_s - self._begin_s, time.monotonic() - began_s
        print(f"  {at_s:6.0f} s  {name}, {took_s:.1f} s{f', {about}' if about else ''}{told}", flush=True)

    def _is_news(self, said: Said) -> bool:
        return said.about not in {broker for broker, _ in self._killed} or self._is_false(said)

    def _is_false(self, said: Said) -> bool:
        return said.kind == "wrong" or (said.kind == "verdict" and (said.about, said.broker_epoch) not in self._killed)

    # What comes of it

    def _judge(self, ended: list[tuple[int, int]]) -> None:
        for said in self.logs.said:
            self.counts[said.kind] += 1
            if self._is_false(said):
                self.counts["false"] += 1
                self.problems.append(f"broker {said.by}: {said.line}")
        self.counts["killed"] = len(self._killed)
        for broker_id, epoch in ended:
            if (broker_id, epoch) not in self._ended:
                self.problems.append(f"the registration of broker {broker_id} of epoch {epoch} has ended")
        running = [broker.id for broker in self.cluster.brokers.values() if broker.running]
        counted = self._verdicts_of_dead + sum(map(self._count_verdicts, running))
        logged = self.counts["verdict"] + sum(self.counts[kind] for kind in _NOT_CARRIED_OUT)
        if counted != logged:
            self.problems.append(f"{counted} verdicts in the metrics and {logged} in the logs")

    def _count_verdicts(self, broker_id: int) -> int:
        url = self.cluster.broker(broker_id).http_url
        assert url is not None
        with urllib.request.urlopen(f"{url}metrics", timeout=HEALED_WITHIN_S) as response:
            text = response.read().decode()
        found = re.findall(r'^kafkalite_failure_verdicts_total\{evidence="(\w+)"\} (\S+)$', text, re.MULTILINE)
        return sum(int(float(n)) for evidence, n in found if evidence != "certain")

    def silences(self) -> list[tuple[float, float, int, int]]:
        """Return the longest silences of brokers that lived: milliseconds, when, of whom and who noted it."""
        found = []
        for broker in self.cluster.brokers.values():
            path = broker.properties_path.with_suffix(".silences")
            for line in path.read_text().splitlines() if path.exists() else ():
                at_s, about, _, silent_ms = line.split()
                found.append((float(silent_ms), float(at_s), int(about), broker.id))
        return sorted(found, reverse=True)

    # Faults, each over when it returns

    def _choose(self, count: int = 1) -> list[int]:
        return self._rng.sample(self.cluster.broker_ids, count)

    def _expect_end(self, broker_id: int) -> int:
        """Let the present registration of a broker end without a problem; return its epoch."""
        epoch = self.scenario.facts.broker_epoch(broker_id)
        self._ended.add((broker_id, epoch))
        return epoch

    def _pause(self, count: int) -> str:
        victims = self._choose(count)
        with self._noticing:
            return f"{victims} for {self._pause_brokers(victims, self._rng):.3f} s"

    def _pause_brokers(self, victims: Iterable[int], rng: random.Random) -> float:
        longest_ms = rng.choice((SILENCE_MS * LONGEST_PAUSE, STANDING_STILL_MS * LONGEST_STANDSTILL))
        pause_s = rng.uniform(50, longest_ms) / 1000
        began_s = time.monotonic()
        for signal_number in (signal.SIGSTOP, signal.SIGCONT):
            for each in victims:
                with suppress(BrokerDied, ProcessLookupError):  # it is restarted meanwhile
                    os.kill(self.cluster.broker(each).pid, signal_number)
            if signal_number == signal.SIGSTOP:
                time.sleep(pause_s)
        self.pauses_s.append(took_s := time.monotonic() - began_s)
        time.sleep(BREATH_S)
        return took_s

    def _starve(self) -> str:
        count = self._rng.randint(2, 6) * (os.cpu_count() or 1)
        with busy_loops(count):
            time.sleep(self._rng.uniform(3, 8))
        return f"{count} more"

    def _ensemble(self) -> Ensemble:
        assert self.cluster.ensemble is not None
        return self.cluster.ensemble

    def _kill_zookeeper(self) -> str:
        ensemble = self._ensemble()
        leader = asyncio.run(ensemble.wait_quorum(HEALED_WITHIN_S))
        asyncio.run(ensemble.kill(leader))
        time.sleep(self._rng.uniform(0, 6))
        asyncio.run(ensemble.start_member(leader, HEALED_WITHIN_S))
        return f"server {leader}"

    def _pause_zookeeper(self) -> str:
        ensemble = self._ensemble()
        leader = asyncio.run(ensemble.wait_quorum(HEALED_WITHIN_S))
        ensemble.pause(leader)
        time.sleep(self._rng.uniform(0.5, 6))
        ensemble.resume(leader)
        asyncio.run(ensemble.wait_quorum(HEALED_WITHIN_S))
        return f"server {leader}"

    def _cut_from_zookeeper(self) -> str:
        victim = self._choose()[0]
        with ExitStack() as rules:
            for member in self._ensemble().members:
                to = ("--dport", str(member.ports.client))
                rules.enter_context(network.rule(victim, *to, target=network.DROP))
            time.sleep(self._rng.uniform(0.5, 6))
        return f"{victim}"

    def _connections(self, *, everybody: bool) -> tuple[int, list[int]]:
        """Return a broker, and the ports from which another one, or every other one, is connected to it."""
        victim, one = self._choose(2)
        others = [each for each in self.cluster.broker_ids if each != victim] if everybody else [one]
        port = self.cluster.broker(victim).port
        return victim, [each for other in others for each in network.local_ports(self.cluster.broker(other).pid, port)]

    def _reset(self, *, everybody: bool) -> str:
        victim, clients = self._connections(everybody=everybody)
        network.reset_servers_side(self.cluster.broker(victim).port, clients)
        return f"{len(clients)} connections to {victim}"

    def _half_open(self, *, everybody: bool) -> str:
        victim, clients = self._connections(everybody=everybody)
        port = self.cluster.broker(victim).port
        with ExitStack() as rules:
            for client in clients:
                between = ("--sport", str(port), "--dport", str(client))
                rules.enter_context(network.rule(None, *between, target=network.DROP))
            network.reset_servers_side(port, clients)
            time.sleep(self._rng.uniform(0.5, 6))
        return f"{len(clients)} connections to {victim}"

    def _move(self) -> str:
        victim = self._choose()[0]
        resource = ConfigResource("broker", str(victim))
        with ReservedPort() as port, SyncAdmin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            moved = ConfigChange("listeners", "set", f"PLAINTEXT://127.0.0.1:{port.number}")
            admin.incremental_alter_configs({resource: [moved]})
            if reset := self._rng.random() < 0.7:
                time.sleep(self._rng.uniform(0, 0.2))
                old = self.cluster.broker(victim).port
                others = [broker.pid for broker in self.cluster.brokers.values() if broker.id != victim]
                network.reset_servers_side(old, [each for pid in others for each in network.local_ports(pid, old)])
            time.sleep(self._rng.uniform(0.2, 5))
            admin.incremental_alter_configs({resource: [ConfigChange("listeners", "delete")]})
            time.sleep(self._rng.uniform(0, 1))
        return f"{victim}{', with a reset' if reset else ''}"

    def _disturb(self, target: tuple[str, ...]) -> str:
        one, other = self._choose(2)
        both = self._rng.random() < 0.3
        with ExitStack() as rules:
            for source, to in ((one, other), (other, one))[: 2 if both else 1]:
                port = str(self.cluster.broker(to).port)
                rules.enter_context(network.rule(source, "--dport", port, target=target))
            time.sleep(self._rng.uniform(0.5, 8))
        return f"{one} to {other}{' and back' if both else ''}"

    def _expire(self) -> str:
        victim = self._choose()[0]
        epoch = self._expect_end(victim)
        self.scenario.facts.expire_session(victim)
        self.scenario.wait_registered_again(victim, epoch, HEALED_WITHIN_S)
        return f"{victim}"

    def _restart(self) -> str:
        victim = self._choose()[0]
        epoch = self._expect_end(victim)
        self._verdicts_of_dead += self._count_verdicts(victim)
        self.cluster.stop(victim)
        time.sleep(self._rng.uniform(0, 4))
        self._start([victim], [epoch])
        return f"{victim}"

    def _kill(self, count: int) -> str:
        victims = self._choose(count)
        for each in victims:
            self._verdicts_of_dead += self._count_verdicts(each)
        epochs = [self._expect_end(each) for each in victims]
        self._killed.update(zip(victims, epochs, strict=True))
        with self._noticing:
            began_s = time.monotonic()
            for each in victims:
                os.kill(self.cluster.broker(each).pid, signal.SIGKILL)
            took_s = [self._time_to_notice(each, epoch, began_s) for each, epoch in zip(victims, epochs, strict=True)]
        self.found_s += took_s
        if max(took_s) > FOUND_WITHIN_S:
            self.problems.append(f"the death of {victims} was noticed after {took_s} s")
        for each in victims:
            self.cluster.kill(each)  # waits
        time.sleep(self._rng.uniform(0, 2))
        self._start(victims, epochs)
        return f"{victims}, noticed after {', '.join(f'{each:.3f}' for each in took_s)} s"

    def _vanish(self) -> str:
        """Lose all packets of a broker; kill it when that was noticed, because the others trust their evidence less when it comes back.

        Time counts from the last rule of iptables, which busy cores let wait for seconds while the host still answers.
        """
        victim = self._choose()[0]
        self._verdicts_of_dead += self._count_verdicts(victim)
        epoch = self._expect_end(victim)
        self._killed.add((victim, epoch))
        with self._noticing, network.host_lost(victim, self.cluster.broker(victim).pid):
            took_s = self._time_to_notice(victim, epoch, time.monotonic())
            self.cluster.kill(victim)
        self.vanished_s.append(took_s)
        if took_s > VANISHED_WITHIN_S:
            self.problems.append(f"that {victim} has vanished was noticed after {took_s} s")
        self._start([victim], [epoch])
        return f"{victim}, noticed after {took_s:.3f} s"

    def _time_to_notice(self, victim: int, epoch: int, began_s: float) -> float:
        """Return how long after `began_s` the registration was gone, or somebody would have ended it."""

        def noticed() -> bool:
            if self._mode == "observe":
                self.logs.read()
                return any((each.about, each.broker_epoch) == (victim, epoch) for each in self.logs.said)
            return self.scenario.facts.broker_epoch(victim) != epoch

        with suppress(TimeoutError):
            wait_until(noticed, "the notice of a death", SESSION_S + 10)
        return time.monotonic() - began_s

    def _start(self, brokers: list[int], epochs: list[int]) -> None:
        for each in brokers:
            self.cluster.broker(each).start()
        for each, epoch in zip(brokers, epochs, strict=True):
            self.cluster.broker(each).wait_started(HEALED_WITHIN_S)
            self.scenario.wait_registered_again(each, epoch, HEALED_WITHIN_S)


def run(minutes: float, seed: int, folder: Path) -> bool:
    """See the module; True when all was well. Raises OSError without the rights for a network of its own."""
    network.enter_own_network()
    use_archive()
    begin_s = time.monotonic()
    end_s = begin_s + minutes * 60
    struck: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {"evidence": Counter(), "observe": Counter()}
    found_s: dict[str, list[float]] = {"evidence": [], "observe": []}
    vanished_s: dict[str, list[float]] = {"evidence": [], "observe": []}
    problems: list[str] = []
    number = 0
    with busy_loops(os.cpu_count() or 1):
        while (left_s := end_s - time.monotonic()) > 0:
            number += 1
            mode, brokers = ("evidence", "observe")[(number - 1) % 2], (3, 5)[(number - 1) // 2 % 2]
            rng = random.Random(f"detection/{seed}/{number}")
            spell = _run_spell(number, mode, brokers, rng, folder, min(SPELL_S, left_s), begin_s)
            struck += spell.struck
            counts[mode] += spell.counts
            found_s[mode] += spell.found_s
            vanished_s[mode] += spell.vanished_s
            problems += [f"spell {number}: {each}" for each in spell.problems]
    print(json.dumps(dict(sorted(struck.items())), indent=1))
    for mode, of_mode in counts.items():
        print(f"{mode}: {dict(of_mode)}")
        for what, took_s in ("killed", sorted(found_s[mode])), ("vanished", sorted(vanished_s[mode])):
            if took_s:
                print(
                    f"  {len(took_s)} {what}: noticed after {took_s[len(took_s) // 2]:.3f} s, at most {took_s[-1]:.3f} s"
                )
    for problem in problems:
        print(f"FAILED: {problem}")
    took_min = (time.monotonic() - begin_s) / 60
    print(f"{sum(struck.values())} faults, {number} spells, {took_min:.0f} minutes, seed {seed}, logs in {folder}")
    return not problems


def _run_spell(
    number: int, mode: str, brokers: int, rng: random.Random, folder: Path, seconds: float, begin_s: float
) -> Spell:
    directory = folder / f"spell-{number}"
    with LocalCluster(
        brokers=brokers,
        zookeepers=3,
        # The cluster itself, which sees its processes exit, leaves their sessions alone: brokers alone are to notice a death.
        properties={**PROPERTIES, DETECTION: "session"},
        command=(*_COMMAND, f"{DETECTION}={mode}", "--config"),
        directory=directory,
        http=True,
        start_timeout_s=HEALED_WITHIN_S,
    ) as cluster:
        print(f"spell {number}: {brokers} brokers, {mode}", flush=True)
        spell = Spell(cluster, mode, rng, directory, begin_s)
        try:
            # The history of a spell that failed is kept, and its clients leave the next one alone.
            for step in (lambda: spell.run(seconds), spell.scenario.close):
                try:
                    step()
                except Exception as problem:
                    spell.problems.append(repr(problem))
        finally:
            for broker in cluster.brokers.values():
                broker.kill()
    silences = spell.silences()
    print(f"  {len(spell.pauses_s)} pauses, at most {max(spell.pauses_s, default=0):.3f} s")
    print(f"  {len(silences)} silences of more than {NOTED_MS:.0f} ms, the longest:", end="")
    print("".join(f"\n    {ms:.0f} ms of {of} for {by}" for ms, _, of, by in silences[:_SHOWN_SILENCES]))
    print(
        f"  {dict(spell.counts)}, {len(spell.problems)} problems{''.join(f'{chr(10)}    {each}' for each in spell.problems)}",
        flush=True,
    )
    return spell
