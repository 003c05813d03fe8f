"""Clusters of three brokers with many idle partitions, and what each step on them costs.

| Step | Begins | Ends |
|---|---|---|
| creation | with the first request | when some broker tells that all partitions are led by their first replicas and in sync |
| controlled stop | with SIGTERM to a broker that is not the controller | when the process has ended |
| restart after a stop, after kill -9 | with the start of the process | when every broker tells that it leads again what it led, in sync |
| a broker's death | when its session has ended | when no other broker tells of it as a leader, or in an ISR with others |
| the same, stage `led` | when its session has ended | when each other broker tells of living leaders, of a sample of topics |
| takeover | when the controller's session has ended | as a broker's death |

A step begins when the brokers are at rest. A dead broker's session is ended at once, as a verdict does, so that no session's timeout is
part of a figure. What a restart waits for in the end, elections of preferred leaders, is asked for by the bench.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.types import NO_BROKER
from tests.bench.cells import Target, drain, fill
from tests.bench.clusters import cpu_s, idle_cpu_percent
from tests.bench.failover_clients import Moment
from tests.bench.failover_rounds import is_taken, kill
from tests.bench.idle_topics import (
    ROUND_TIMEOUT_S,
    SET_UP_TIMEOUT_S,
    PatientAdmin,
    Shape,
    assignments,
    create_idle,
    spread_leaders,
)
from tests.bench.scale_figures import LED, Costs, View
from tests.bench.scale_probes import Condition, Meter, end_owner, idle_of, owner_of, resident_mb, wait_for_views
from zk import paths

PER_TOPIC: Final = 100
VALUE_BYTES: Final = 1000
READ_PASSES: Final = 10
"""Reading once what was written in seconds takes the brokers so little that the consumer's metadata would count."""
_RESTING_PERCENT: Final = 15.0
_REST_TIMEOUT_S: Final = 120.0


class Scale:
    """One cluster with many partitions; the steps leave it whole."""

    def __init__(self, cluster: LocalCluster, facts: ClusterFacts, partitions: int, factor: int) -> None:
        self._cluster, self._facts = cluster, facts
        self._admin = PatientAdmin(cluster.bootstrap_servers)
        self._wanted = assignments(Shape(partitions, factor, PER_TOPIC), cluster.broker_ids)
        self._idle = idle_of(self._wanted)
        self._factor = factor
        self._written, self._victim = 0, NO_BROKER

    def create(self) -> Costs:
        wait_until(lambda: self._facts.controller() != NO_BROKER, "a controller", ROUND_TIMEOUT_S)
        self._admin.wait_for_controller()
        meter = Meter(self._cluster, self._facts)
        create_idle(self._admin, self._wanted)
        return meter.read()

    def resident_mb(self) -> dict[int, float]:
        return resident_mb(self._cluster)

    def controller(self) -> int:
        return self._facts.controller()

    def wait_for_rest(self) -> float:
        """Wait until the brokers have done what a step left for later, as summaries of changed logs, which is no part of the next step.

        After two minutes the next one begins in any case. Return the seconds until then.
        """
        began_s = time.monotonic()
        while self._measure_busy_percent() > _RESTING_PERCENT and time.monotonic() < began_s + _REST_TIMEOUT_S:
            pass
        return time.monotonic() - began_s

    def _measure_busy_percent(self) -> float:
        """Return what the brokers use together in a second, in percent of one processor."""
        before_s, began_s = self.worked_s(), time.monotonic()
        time.sleep(1.0)  # measured is a stretch of time: there is no condition to wait for
        return 100 * (self.worked_s() - before_s) / (time.monotonic() - began_s)

    def worked_s(self) -> float:
        """Return the processor time of the brokers that run."""
        return sum(cpu_s(each) for each in self._cluster.brokers.values() if each.running)

    def rest_percent(self, seconds: float) -> float:
        """Return what the brokers use together while nobody asks for anything, in percent of one processor."""
        return idle_cpu_percent(self._cluster, seconds)

    def load(self, seconds: float, rest_percent: float = 0.0) -> dict[str, float]:
        """Write to and read from one partition that all brokers have, with acks=all and alone on the cluster.

        Processor time is what the brokers use beyond `rest_percent`, which they use whether somebody writes or not.
        """
        self._written += 1
        topic = f"written-{self._written}"
        self._admin.create(NewTopic(topic, 1, replica_assignment=[self._cluster.broker_ids]))
        wait_until(lambda: self._facts.fully_replicated(topic), f"replicas of {topic}", ROUND_TIMEOUT_S)
        target = Target(self._cluster, 0.0, seconds)
        begin = self._work_beyond(rest_percent)
        count, produced_s = fill(target, topic, VALUE_BYTES, acks="all")
        written = self._work_beyond(rest_percent)
        consumed_s = drain(target, topic, count, READ_PASSES)
        read = self._work_beyond(rest_percent)
        self._admin.delete(topic)
        return {
            "produced, records/s": count / produced_s,
            "consumed, records/s": READ_PASSES * count / consumed_s,
            "produced, processor µs a record": (written - begin) * 1e6 / count,
            "consumed, processor µs a record": (read - written) * 1e6 / (READ_PASSES * count),
        }

    def _work_beyond(self, rest_percent: float) -> float:
        """Return the brokers' processor time, less what they would have used at rest: only differences count."""
        return self.worked_s() - time.monotonic() * rest_percent / 100

    def steps(self) -> dict[str, Callable[[], Costs]]:
        """Return the steps after the creation, in their order."""
        return {
            "controlled stop": self._stop,
            "restart after a stop": self._restart,
            "death": lambda: self._kill(self._other_than_controller()),
            "restart after kill -9": self._restart,
            "takeover": lambda: self._kill(self._facts.controller()),
        }

    def _stop(self) -> Costs:
        self._victim = self._other_than_controller()
        meter = Meter(self._cluster, self._facts)
        began_s = time.monotonic()
        self._cluster.stop(self._victim)
        return meter.read(seconds=time.monotonic() - began_s)

    def _kill(self, victim: int) -> Costs:
        """Kill a broker and end its session; return the costs from that end until nothing is held by it any more."""
        self._victim = victim
        was_controller = self._facts.controller() == victim
        ended = Moment(self._facts.client, paths.broker(victim), lambda found: found is None, "the end of the session")
        seat = Moment(self._facts.client, paths.CONTROLLER, partial(is_taken, victim), "a new controller")
        try:
            meter = Meter(self._cluster, self._facts)
            owner = owner_of(self._facts, victim)
            kill(self._cluster, victim)
            end_owner(self._cluster, owner)
            ended_s = ended.wait(ROUND_TIMEOUT_S) / 1e9
            led_s = self._wait_for_views(lambda view: not view.lost and self._is_led_enough(view), of_few=True)
            told_s = self._wait_for_views(lambda view: not view.held and self._is_led_enough(view))
            stages = {"seat": max(seat.wait(ROUND_TIMEOUT_S) / 1e9 - ended_s, 0.0)} if was_controller else {}
            stages[LED] = led_s - ended_s
            return meter.read(stages, seconds=told_s - ended_s)
        finally:
            ended.cancel()
            seat.cancel()

    def _is_led_enough(self, view: View) -> bool:
        """True if all that can have a leader has one: with one replica, what the dead broker had has none."""
        return view.led == view.partitions or self._factor == 1

    def _restart(self) -> Costs:
        """Start the broker that ended; return the costs until it leads again what it led."""
        broker, path = self._cluster.broker(self._victim), paths.broker(self._victim)
        registered = Moment(self._facts.client, path, lambda found: found is not None, "a registration")
        try:
            meter = Meter(self._cluster, self._facts)
            began_s = time.monotonic()
            broker.start()
            registered_s = registered.wait(SET_UP_TIMEOUT_S) / 1e9
            broker.wait_started(SET_UP_TIMEOUT_S)
            serving_s = time.monotonic()
            self._wait_for_views(lambda view: view.in_sync == view.partitions)
            in_sync_s = time.monotonic()
            wait_until(
                partial(spread_leaders, self._admin, sum(self._idle.partitions.values())),
                "the leaders",
                SET_UP_TIMEOUT_S,
            )
            led_s = self._wait_for_views(lambda view: view.preferred == view.in_sync == view.led == view.partitions)
            stages = {
                "registered": registered_s - began_s,
                "serving": serving_s - registered_s,
                "in sync": in_sync_s - serving_s,
                "leading": max(led_s - in_sync_s, 0.0),
            }
            return meter.read(stages, seconds=max(led_s, in_sync_s) - began_s)
        finally:
            registered.cancel()

    def _wait_for_views(self, condition: Condition, *, of_few: bool = False) -> float:
        running = [each for each in self._cluster.brokers.values() if each.running]
        alive = [each.id for each in running]
        return wait_for_views(running, self._idle, condition, alive, SET_UP_TIMEOUT_S, of_few=of_few)

    def _other_than_controller(self) -> int:
        controller = self._facts.controller()
        return next(each for each in self._cluster.broker_ids if each != controller)


def memory(before: Mapping[int, float], after: Mapping[int, float], controller: int) -> dict[str, float]:
    """Return MB of all brokers and of the controller, and what partitions added to all."""
    together = sum(after.values())
    return {"together": together, "controller": after[controller], "added": together - sum(before.values())}
