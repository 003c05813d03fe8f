"""What a seed draws before anything runs: settings of brokers and topics, what is asked of the cluster, and its faults.

A plan is data. Its text is what a transcript of a failing seed holds, and a plan that is read from there runs as it did.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.testing.simulation.faults import Fault, draw_faults

BROKERS: Final = ("broker-1", "broker-2", "broker-3")
CLIENTS: Final = ("producer-all", "producer-one", "consumer-0", "consumer-1")
ROLES: Final = (
    "leader:flights-0",
    "leader:flights-1",
    "follower:flights-0",
    "leader:__consumer_offsets-0",
    "controller",
)
MEMBERS: Final = ("consumer-0", "consumer-1")
KILL_CLIENT, PAUSE_CLIENT = "kill-client", "pause-client"
FOR_GOOD: Final = "for_good"
"""Parameter of a kill-client: no other member takes the place of this one."""
CLIENT_FAULTS: Final = (KILL_CLIENT, PAUSE_CLIENT)
"""A client dies between any two callbacks and is replaced; or it falls silent and wakes up again, when others may have its place."""
WINDOW_S: Final = 6.0
REPLICAS_ON_THE_BRINK: Final = "brink_replicas"
"""The key of `workload` with the replicas of a topic that allows unclean elections; without it there is none."""

_SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "replica.lag.time.max.ms": ("500", "1500", "5000", "30000"),
    "replica.fetch.wait.max.ms": ("50", "500", "500"),
    "replica.fetch.max.bytes": ("200", "1048576", "1048576"),
    "zookeeper.session.timeout.ms": ("2000", "6000", "6000"),
    "log.segment.bytes": ("1000", "5000", "1073741824"),
    "log.flush.interval.messages": ("1", "10", "9223372036854775807"),
    "log.index.interval.bytes": ("1", "4096"),
    "replica.high.watermark.checkpoint.interval.ms": ("100", "5000"),
    "log.flush.offset.checkpoint.interval.ms": ("500", "60000"),
    "offsets.topic.num.partitions": ("1", "2"),
    "offsets.topic.segment.bytes": ("2000", "104857600"),
    "log.retention.check.interval.ms": ("1000", "300000"),
    "log.cleaner.backoff.ms": ("500", "15000"),
    "auto.leader.rebalance.enable": ("true", "false"),
    "leader.imbalance.check.interval.seconds": ("2", "300"),
    "num.replica.fetchers": ("1", "1", "2"),
    "producer.id.expiration.ms": ("86400000", "86400000"),
    "group.initial.rebalance.delay.ms": ("0", "100", "1000"),
    "controller.socket.timeout.ms": ("1000", "30000"),
    "replica.socket.timeout.ms": ("1000", "30000"),
    "request.timeout.ms": ("1500", "30000"),
    "max.incremental.fetch.session.cache.slots": ("0", "2", "1000"),
}
"""What is worth drawing for a broker, each value as likely as the others."""

PROTOCOL: Final = "inter.broker.protocol.version"
_PROTOCOLS: Final = ("2.1-IV1", "2.3-IV1", "2.6-IV0")
"""Versions of `inter.broker.protocol.version` in which leaders write their ISR to ZooKeeper themselves (before KIP-497)."""
_ZSTD: Final = 4
"""Number of the codec in a workload."""
_OLD_PROTOCOL_SHARE: Final = 0.1
_EVIDENCE_SHARE: Final = 0.1
"""Few, because heartbeats cost a run as much again; `--lies` runs nothing else."""

_OPERATIONS: Final = ("create-topic", "delete-topic", "add-partitions", "reassign", "elect", "alter-config")


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. `settings` are those of all brokers; `workload` are numbers that the clients go by."""

    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    operations: tuple[Fault, ...] = ()
    """What administrators ask for, in the form of faults: moment, kind, targets."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"setting {name}={value}" for name, value in self.settings.items()]
        lines += [f"workload {name}={value}" for name, value in self.workload.items()]
        lines += [f"fault {each}" for each in self.faults]
        lines += [f"asks {each}" for each in self.operations]
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """What `str` wrote. ValueError."""
        plan = cls(0)
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            name, _, value = rest.partition("=")
            if word == "seed":
                plan = replace(plan, seed=int(rest))
            elif word == "setting":
                plan = replace(plan, settings={**plan.settings, name: value})
            elif word == "workload":
                plan = replace(plan, workload={**plan.workload, name: int(value)})
            elif word == "fault":
                plan = replace(plan, faults=(*plan.faults, Fault.parse(rest)))
            elif word == "asks":
                plan = replace(plan, operations=(*plan.operations, Fault.parse(rest)))
            elif word:
                raise ValueError(f"no line of a plan: {line}")
        return plan

    def parts(self) -> list[object]:
        """What can be left out, one by one."""
        return [*self.faults, *self.operations, *self.settings.items()]

    def only(self, parts: Sequence[object]) -> Plan:
        """The same with these of its parts."""
        return replace(
            self,
            faults=tuple(each for each in self.faults if each in parts),
            operations=tuple(each for each in self.operations if each in parts),
            settings={name: value for name, value in self.settings.items() if (name, value) in parts},
        )


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    return add_lies(draw_honest(seed), ROLES, WINDOW_S)


def draw_honest(seed: int) -> Plan:
    """The plan of a seed whose brokers take nobody for dead but on their own evidence."""
    plan = draw_patient(seed)
    return replace(plan, settings={**plan.settings, **_draw_detection(random.Random(f"{seed}/detection"))})


def draw_patient(seed: int) -> Plan:
    """The plan of a seed whose brokers wait for the end of each session."""
    plan = _draw(seed)
    plan = replace(plan, workload={**plan.workload, **draw_ways(seed)})
    plan = _speak_old_protocol(plan, random.Random(f"{seed}/protocol"))
    members = tuple(_draw_client_faults(random.Random(f"{seed}/members")))
    plan = replace(plan, faults=tuple(sorted((*plan.faults, *members), key=lambda each: each.at_s)))
    if any(each.kind == "full-disk" for each in plan.faults):
        # A replica that could not be made for want of room comes with the next start of its broker only.
        made = ("create-topic", "add-partitions", "reassign")
        plan = replace(plan, operations=tuple(each for each in plan.operations if each.kind not in made))
    return plan


def _speak_old_protocol(plan: Plan, chance: random.Random) -> Plan:
    """Return the plan with an old inter-broker protocol, and without what that refuses, or as it is."""
    if chance.random() >= _OLD_PROTOCOL_SHARE:
        return plan
    return without_refused(replace(plan, settings={**plan.settings, PROTOCOL: chance.choice(_PROTOCOLS)}))


def without_refused(plan: Plan) -> Plan:
    """Return the plan without what its inter-broker protocol refuses to clients."""
    if PROTOCOL not in plan.settings:
        return plan
    protocol, workload = ProtocolVersion.parse(plan.settings[PROTOCOL]), dict(plan.workload)
    if protocol < (2, 3, 0):
        workload["static_members"] = 0
    if protocol < (2, 1, 0) and workload["compression"] == _ZSTD:
        workload["compression"] = 0
    return replace(plan, workload=workload)


def _draw_detection(chance: random.Random) -> dict[str, str]:
    """Return the settings of brokers that end the sessions of others on evidence, or nothing; silence may be shorter than faults last."""
    if chance.random() >= _EVIDENCE_SHARE:
        return {}
    return {
        "kafkalite.failover.detection": chance.choice(("evidence", "evidence", "evidence", "observe")),
        "kafkalite.failover.silence.ms": chance.choice(("0", "600", "1200", "1200")),
    }


def add_lies(plan: Plan, roles: Sequence[str], window_s: float) -> Plan:
    """Return the plan, with lies of failure detectors if its brokers end sessions on evidence."""
    if plan.settings.get("kafkalite.failover.detection") != "evidence":
        return plan
    chance = random.Random(f"{plan.seed}/lies")
    lies = [_draw_lie(chance, [*BROKERS, *roles, *roles], window_s) for _ in range(chance.choice([0, 1, 2, 3, 5]))]
    replicas = chance.choice([0, 2, 2, 3])
    if replicas and roles is ROLES:
        lies += _draw_falls(chance, window_s)
    return replace(
        plan,
        workload={**plan.workload, **({REPLICAS_ON_THE_BRINK: replicas} if replicas else {})},
        faults=tuple(sorted((*plan.faults, *lies), key=lambda each: each.at_s)),
    )


def _draw_falls(chance: random.Random, window_s: float) -> list[Fault]:
    """Draw what leaves one in sync of a topic that allows unclean elections, and verdicts about that one."""
    leader, follower, lies = "leader:brink-0", "follower:brink-0", []
    for _ in range(chance.choice([0, 1, 1, 2])):
        at_s, length_s = round(chance.uniform(0.0, window_s), 3), chance.choice([0.5, 2.0, 4.0])
        kind = chance.choice(["kill", "kill", "stop", "isolate", "cut-zookeeper", "false-verdict"])
        lies.append(Fault(at_s, kind, (follower,), length_s, (("callbacks", 1.0),) if kind == "kill" else ()))
        for _ in range(chance.choice([1, 2, 3])):
            later_s = round(at_s + chance.uniform(0.0, length_s + 0.5), 3)
            lies.append(replace(_draw_lie(chance, [leader], window_s), at_s=later_s))
    return lies


def _draw_lie(chance: random.Random, targets: Sequence[str], window_s: float) -> Fault:
    kind = chance.choice(["false-verdict", "false-verdict", "false-verdict", "reject", "end-at-write", "end-at-claim"])
    target, at_s = chance.choice(targets), round(chance.uniform(0.0, window_s), 3)
    if kind == "false-verdict":
        parameters = {
            "enders": chance.choice([1, 2]),
            "evidence": chance.choice([1, 2]),
            "wait_s": chance.choice([0.0, 0.0, 0.01, 0.1, 0.4]),
            "times": chance.choice([1, 1, 2, 4]),
            "bounce": chance.choice([0, 0, 1, 2]),
        }
        length_s = chance.choice([0.02, 0.2, 1.0])
    elif kind == "reject":
        parameters = {"witnesses": chance.choice([1, 2, 2]), "chance": chance.choice([0.3, 0.8, 1.0])}
        length_s = chance.choice([0.1, 0.5, 2.0])
    elif kind == "end-at-write":
        parameters, length_s = {"write": chance.choice([1, 1, 2, 5])}, 3.0
    else:
        parameters, length_s = {"times": chance.choice([1, 2, 3])}, 3.0
    targeted = () if kind == "end-at-claim" else (target,)
    numbers = tuple((name, float(value)) for name, value in parameters.items())
    return Fault(at_s, kind, targeted, length_s, numbers)


def _draw(seed: int) -> Plan:
    chance = random.Random(f"{seed}/plan")
    chosen = chance.sample(list(_SETTINGS), chance.choice([0, 3, 8]))
    return Plan(
        seed,
        {name: chance.choice(_SETTINGS[name]) for name in chosen},
        {
            "records": chance.choice([10, 20, 40]),
            "pace_ms": chance.choice([30, 100, 200]),
            "flights_min_isr": chance.choice([1, 2, 2, 2]),
            "freight_min_isr": chance.choice([1, 2]),
            "batch_size": chance.choice([1, 300, 16384]),
            "linger_ms": chance.choice([0, 5, 200]),
            "compression": chance.choice([0, 0, 1, 2, 3, 4]),
            "static_members": chance.choice([0, 1]),
            "session_timeout_ms": chance.choice([6000, 6000, 10000]),
            "compacts": chance.choice([0, 1]),
            "acks_one": chance.choice([0, 1]),
        },
        tuple(draw_faults(chance, BROKERS, CLIENTS, ROLES, WINDOW_S)),
        tuple(_draw_operations(chance)),
    )


def draw_ways(seed: int) -> dict[str, int]:
    """Which ways through the broker a run takes: logins, answers in portions, single records at once, requests without waiting, proofs of
    metadata.
    """
    chance = random.Random(f"{seed}/ways")
    return {
        "authenticates": chance.choice([0, 0, 0, 1]),
        "portion_bytes": chance.choice([0, 0, 0, 700]),
        "at_once": chance.choice([1, 1, 1, 4]),
        "pipelines": chance.choice([0, 0, 0, 1]),
        "proves_metadata": chance.choice([0, 1]),
    }


def _draw_client_faults(chance: random.Random) -> list[Fault]:
    faults = []
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        kind, member = chance.choice(CLIENT_FAULTS), chance.choice(MEMBERS)
        callbacks = (("callbacks", float(chance.randrange(1, 60))),) if kind == KILL_CLIENT else ()
        at_s, length_s = round(chance.uniform(0.0, WINDOW_S), 3), round(chance.choice([0.5, 3.0, 9.0]), 3)
        faults.append(Fault(at_s, kind, (member,), length_s, callbacks))
    return faults


def _draw_operations(chance: random.Random) -> list[Fault]:
    operations = []
    for _ in range(chance.choice([0, 0, 1, 2, 4])):
        kind = chance.choice(_OPERATIONS)
        target = {
            "create-topic": f"extra-{chance.randrange(3)}",
            "delete-topic": f"extra-{chance.randrange(3)}",
            "add-partitions": "flights",
            "reassign": chance.choice(["flights-0", "freight-0", "freight-0"]),
            "elect": "flights-0",
            "alter-config": "flights",
        }[kind]
        replicas = chance.sample([1, 2, 3], 2 if target == "freight-0" else 3)
        parameters = tuple((f"replica{number}", float(each)) for number, each in enumerate(replicas))
        at_s = round(chance.uniform(0.0, WINDOW_S), 3)
        operations.append(Fault(at_s, kind, (target,), 0.0, parameters if kind == "reassign" else ()))
    return sorted(operations, key=lambda each: each.at_s)
