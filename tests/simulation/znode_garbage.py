"""Garbage for znodes of every kind that brokers and controllers read: what is nothing of its kind, and what makes no sense as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from zk import paths

WELL, SICK = "well", "sick"
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
    paths.config("clients/c"),
    paths.user_config("u"),
    paths.user_config("u", "c"),
    paths.config("ips/nonsense"),
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


_ILLEGAL = ("a b", "ü", "x" * 300)
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
NONSENSE = max(map(len, (_TOPICS, _BROKERS, _STATES, _CHANGED)))
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
        paths.config("clients/c"): pick(_CONFIGS),
        paths.config("ips/1.2.3.4"): pick(_CONFIGS),
        CHANGE: text({"version": 2, "entity_path": pick(_CHANGED)}),
        f"{paths.ISR_CHANGES}/isr_change_0000000001": partitions(entry),
        paths.PREFERRED_REPLICA_ELECTION: partitions(entry),
        paths.REASSIGN_PARTITIONS: partitions(entry | {"replicas": pick(_REPLICAS)}),
        f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001": text({"version": 1, "broker": number * 2**30, "event": 1}),
    }
