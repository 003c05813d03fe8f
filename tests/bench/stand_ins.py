"""Steps on a cluster of many stand-ins for brokers, whose controller and ZooKeeper are real.

There are two real brokers, which have no partitions: one is the controller, and the other one takes over when it is killed.

| Step | Begins | Ends |
|---|---|---|
| creation | with the first request | when every stand-in was told of all partitions |
| takeover | when the controller's session has ended | when all have their roles, and were told of all partitions or proved to know them |
| death | when a stand-in's session has ended | when every other one was told of all partitions that it had |
| start | when a stand-in registers | when it was told of all partitions |
| controlled stop | with the request of a stand-in to stop | with the answer that nothing is led by it |
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any, Final

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.bench.failover_clients import Moment
from tests.bench.failover_rounds import is_taken, kill
from tests.bench.idle_topics import (
    ROUND_TIMEOUT_S,
    SET_UP_TIMEOUT_S,
    PatientAdmin,
    Shape,
    assignments,
    requests_for,
)
from tests.bench.scale_figures import Costs
from tests.bench.scale_probes import Meter, end_owner, owner_of
from tests.bench.scale_rounds import PER_TOPIC
from tests.bench.stand_in_frames import Tally, is_published
from tests.processor_time import worked_s
from zk import paths
from zk.servers.ensemble import end_with_parent

FIRST_ID: Final = 101
_REQUEST_TIMEOUT_S: Final = 60.0


class StandIns(AbstractContextManager["StandIns"]):
    """The process of the stand-ins, and what it is asked."""

    def __init__(self, zookeeper_connect: str, count: int, side: str = "ours") -> None:
        """`side`: ours, or apache for stand-ins that speak nothing that only brokers of ours do."""
        self.ids = list(range(FIRST_ID, FIRST_ID + count))
        self.witness = self.ids[0]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.stand_in_process", zookeeper_connect, str(FIRST_ID), str(count), side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent(),
        )
        self.ports: list[int] = list(self._read().values())

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def worked_s(self) -> float:
        """Return the processor time of the process."""
        return worked_s(self._process.pid)

    def reset(self, witness: int) -> None:
        """Set what they got to zero; the witness tells of how many partitions it is told."""
        self.witness = witness
        self._ask({"do": "reset", "witness": witness})

    def tallies(self) -> dict[int, Tally]:
        return {int(broker): Tally(**known) for broker, known in self._ask({"do": "tallies"}).items()}

    def die(self, broker: int) -> None:
        self._ask({"do": "die", "id": broker})

    def revive(self, broker: int) -> None:
        self._ask({"do": "revive", "id": broker})

    def wait_published(
        self, partitions: int, without: int | None = None, roles: int = 0
    ) -> tuple[float, dict[int, Tally]]:
        """Wait until all, but for a dead one, know so many partitions and have their roles, so many the witness; return when that was, by
        time.monotonic.
        """
        found: dict[int, Tally] = {}

        def is_done() -> bool:
            found.update(self.tallies())
            found.pop(without or 0, None)
            return is_published(found, self.witness, partitions, roles)

        wait_until(is_done, f"{partitions} partitions at the stand-ins", SET_UP_TIMEOUT_S)
        return max(each.last_ns for each in found.values()) / 1e9, found

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise RuntimeError("the stand-ins listen to nobody")
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the process of the stand-ins has ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class StandInScale:
    """One cluster of stand-ins with many partitions."""

    def __init__(
        self, cluster: LocalCluster, facts: ClusterFacts, stand_ins: StandIns, partitions: int, factor: int
    ) -> None:
        self._cluster, self._facts, self._stand_ins = cluster, facts, stand_ins
        self._admin = PatientAdmin(cluster.bootstrap_servers)
        self._wanted = assignments(Shape(partitions, factor, PER_TOPIC), stand_ins.ids)
        self._partitions = partitions
        self._worked_s = 0.0
        """What the stand-ins had worked before the step."""
        self.received: dict[str, dict[str, Any]] = {}
        """What the stand-ins got in each step, and the seconds of processor time that they took for it."""

    def steps(self) -> dict[str, Callable[[], Costs]]:
        """Return the steps in their order."""
        return {
            "creation": self._create,
            "takeover": self._take_over,
            "death": self._let_one_die,
            "start": self._start_again,
            "controlled stop": self._stop_one,
        }

    def _create(self) -> Costs:
        everybody = {*self._cluster.broker_ids, *self._stand_ins.ids}
        wait_until(lambda: self._facts.brokers() >= everybody, "all registrations", ROUND_TIMEOUT_S)
        self._admin.wait_for_controller()
        self._stand_ins.reset(self._stand_ins.ids[0])
        meter = self._meter()
        began_s = time.monotonic()
        for topics in requests_for(self._wanted):
            self._admin.create(*topics)
        return self._read(meter, "creation", began_s, self._partitions)

    def _take_over(self) -> Costs:
        victim = self._facts.controller()
        ended = Moment(self._facts.client, paths.broker(victim), lambda found: found is None, "the end of the session")
        seat = Moment(self._facts.client, paths.CONTROLLER, partial(is_taken, victim), "a new controller")
        self._stand_ins.reset(self._stand_ins.ids[0])
        meter = self._meter()
        owner = owner_of(self._facts, victim)
        kill(self._cluster, victim)
        end_owner(self._cluster, owner)
        ended_s = ended.wait(ROUND_TIMEOUT_S) / 1e9
        roles = self._replicas_on(self._stand_ins.witness)
        costs = self._read(meter, "takeover", ended_s, self._partitions, roles=roles, seat=seat)
        self._cluster.start_broker(victim)
        return costs

    def _let_one_die(self) -> Costs:
        victim = self._stand_ins.ids[1]
        had = self._replicas_on(victim)
        ended = Moment(self._facts.client, paths.broker(victim), lambda found: found is None, "the end of the session")
        self._stand_ins.reset(self._stand_ins.ids[0])
        meter = self._meter()
        owner = owner_of(self._facts, victim)
        self._stand_ins.die(victim)
        end_owner(self._cluster, owner)
        return self._read(meter, "death", ended.wait(ROUND_TIMEOUT_S) / 1e9, had, without=victim)

    def _replicas_on(self, broker: int) -> int:
        return sum(broker in replicas for partitions in self._wanted.values() for replicas in partitions)

    def _start_again(self) -> Costs:
        victim = self._stand_ins.ids[1]
        self._stand_ins.reset(victim)
        meter = self._meter()
        began_s = time.monotonic()
        self._stand_ins.revive(victim)
        wait_until(lambda: self._stand_ins.tallies()[victim].partitions == self._partitions, "all partitions", 600)
        last_ns = self._stand_ins.tallies()[victim].last_ns
        costs = meter.read(seconds=last_ns / 1e9 - began_s)
        self._note("start", self._stand_ins.tallies())
        return costs

    def _stop_one(self) -> Costs:
        victim = self._stand_ins.ids[2]
        self._stand_ins.reset(self._stand_ins.ids[0])
        meter = self._meter()
        began_s = time.monotonic()
        wait_until(lambda: asyncio.run(self._ask_to_stop(victim)) == 0, "a controlled stop", SET_UP_TIMEOUT_S)
        costs = meter.read(seconds=time.monotonic() - began_s)
        self._note("controlled stop", self._stand_ins.tallies())
        return costs

    async def _ask_to_stop(self, victim: int) -> int:
        """Send ControlledShutdown to the controller; return the partitions that the stand-in still leads."""
        controller = self._cluster.broker(self._facts.controller())
        request = messages.controlled_shutdown_request.ControlledShutdownRequest(
            broker_id=victim, broker_epoch=self._facts.broker_epoch(victim)
        )
        connection = await Connection.open(controller.host, controller.port, client_id="bench")
        with closing(connection):
            await connection.negotiate()
            version = connection.version_of(ApiKey.CONTROLLED_SHUTDOWN)
            response = await connection.request(request, version, _REQUEST_TIMEOUT_S)
        if response.error_code:
            raise RuntimeError(f"the controlled stop was refused with error {response.error_code}")
        return len(response.remaining_partitions)

    def _note(self, step: str, tallies: Mapping[int, Tally]) -> None:
        self.received[step] = received(tallies) | {"processor_s": self._stand_ins.worked_s() - self._worked_s}

    def _meter(self) -> Meter:
        self._worked_s = self._stand_ins.worked_s()
        return Meter(self._cluster, self._facts, self._stand_ins.ports)

    def _read(
        self,
        meter: Meter,
        step: str,
        began_s: float,
        partitions: int,
        *,
        without: int | None = None,
        roles: int = 0,
        seat: Moment | None = None,
    ) -> Costs:
        last_s, tallies = self._stand_ins.wait_published(partitions, without, roles)
        stages = {} if seat is None else {"seat": max(seat.wait(ROUND_TIMEOUT_S) / 1e9 - began_s, 0.0)}
        self._note(step, tallies)
        return meter.read(stages, seconds=last_s - began_s)


def received(tallies: Mapping[int, Tally]) -> dict[str, Any]:
    """Return how many requests and bytes came, by API, and the bytes to one stand-in: least, median, most."""
    requests: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for each in tallies.values():
        for name, count in each.requests.items():
            requests[name] = requests.get(name, 0) + count
            sizes[name] = sizes.get(name, 0) + each.size_bytes[name]
    to_one = sorted(sum(each.size_bytes.values()) for each in tallies.values())
    return {
        "requests": requests,
        "bytes": sizes,
        "bytes to one": [to_one[0], statistics.median_low(to_one), to_one[-1]],
    }
