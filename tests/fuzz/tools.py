"""Command lines and files that Kafka's tools are given: each says what is wrong with them, as a tool does, and nothing else comes out.

The tools run within this process, on virtual time, against brokers that are objects and a ZooKeeper in memory; what has no end ends.
`zookeeper-shell` needs a server and is left out. An input is a command line, one word behind the other, and behind an empty word the
content of the file that FILE in a word stands for.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import io
import random
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unittest import mock

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from tests.unit.client.fake_broker import FakeCluster
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import BrokerRegistration, PartitionState, RegisteredEndpoint, TopicAssignment

ENDS_S: Final = 3.0
"""Virtual; a consumer that waits for records waits for ever."""
TOOLS: Final = {
    "configs": "configs.tool",
    "console-consumer": "console.consumer",
    "console-producer": "console.producer",
    "consumer-groups": "consumer_groups.tool",
    "consumer-perf-test": "perf_test.consumer",
    "delete-records": "delete_records",
    "dump-log": "dump_log.tool",
    "get-offsets": "get_offsets",
    "leader-election": "leader_election",
    "log-dirs": "log_dirs",
    "preferred-replica-election": "preferred_replica_election",
    "producer-perf-test": "perf_test.producer",
    "reassign-partitions": "reassign_partitions.tool",
    "topics": "topics.tool",
    "transactions": "transactions",
}
_SETTINGS: Final = b"request.timeout.ms=1000\ndefault.api.timeout.ms=2000\nretry.backoff.ms=10\nacks=all\nclient.id=x\n"
_PLAN: Final = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"],"offset":1}]}'
)
_BROKER, _ADMIN, _ZOOKEEPER = "--bootstrap-server 127.0.0.1:9001", "--command-config FILE", "--zookeeper z:1"
_SEEDS: Final[tuple[tuple[str, bytes], ...]] = (
    (
        f"topics --create --topic t2 --partitions 3 --replication-factor 1 --config retention.ms=1 {_BROKER} {_ADMIN}",
        _SETTINGS,
    ),
    (f"topics --create --topic t2 --replica-assignment 1:2,2:1 {_BROKER}", b""),
    (f"topics --describe --topic t --under-replicated-partitions {_BROKER} {_ADMIN}", _SETTINGS),
    (f"topics --alter --topic t --partitions 5 {_ZOOKEEPER}", b""),
    (f"topics --describe {_ZOOKEEPER}", b""),
    (
        f"configs --alter --entity-type topics --entity-name t --add-config retention.ms=[1],a=b {_BROKER} {_ADMIN}",
        _SETTINGS,
    ),
    (f"configs --alter --entity-type brokers --entity-default --add-config-file FILE {_BROKER}", _SETTINGS),
    (f"configs --describe --entity-type users --entity-name u --entity-type clients {_BROKER}", b""),
    (f"configs --alter --entity-type clients --entity-name c --add-config producer_byte_rate=5 {_ZOOKEEPER}", b""),
    (f"console-consumer --topic t --from-beginning --max-messages 1 --consumer.config FILE {_BROKER}", _SETTINGS),
    (f"console-consumer --topic t --partition 0 --offset 5 --timeout-ms 10 --property print.key=true {_BROKER}", b""),
    (f"console-producer --topic t --producer.config FILE --sync {_BROKER}", _SETTINGS),
    (
        f"console-producer --topic t --compression-codec gzip --property parse.key=true --producer-property acks=0 {_BROKER}",
        b"",
    ),
    (f"consumer-groups --reset-offsets --group g --from-file FILE --dry-run {_BROKER}", b"t,0,5\nt,1,7\n"),
    (
        f"consumer-groups --reset-offsets --group g --topic t:0,1 --by-duration P1DT2H --execute {_BROKER} {_ADMIN}",
        _SETTINGS,
    ),
    (f"consumer-groups --reset-offsets --group g --all-topics --to-datetime 2020-01-01T00:00:00.000 {_BROKER}", b""),
    (f"consumer-groups --describe --group g --members --verbose --timeout 5 {_BROKER}", b""),
    (f"consumer-groups --list --state Stable,Empty {_BROKER}", b""),
    (f"consumer-groups --describe --group g {_ZOOKEEPER}", b""),
    (f"consumer-perf-test --topic t --messages 5 --timeout 10 --consumer.config FILE {_BROKER}", _SETTINGS),
    ("producer-perf-test --topic t --num-records 5 --record-size 10 --throughput -1 --producer.config FILE", _SETTINGS),
    (
        "producer-perf-test --topic t --num-records 5 --payload-file FILE --throughput 5 --producer-props acks=1",
        b"a\nb\n",
    ),
    (f"delete-records --offset-json-file FILE {_BROKER}", _PLAN),
    (f"delete-records --offset-json-file /dev/null {_BROKER} {_ADMIN}", _SETTINGS),
    ("dump-log --files FILE.log --print-data-log --deep-iteration", b"\0" * 61),
    ("dump-log --files FILE.log --offsets-decoder --max-message-size 5", _PLAN),
    ("dump-log --files FILE.index", b"\0\0\0\1\0\0\0\2"),
    ("dump-log --files FILE.timeindex --index-sanity-check", b"\0" * 12),
    ("dump-log --files FILE.snapshot", b"\0\1" * 20),
    ("dump-log --files FILE.txnindex", b"\0" * 34),
    (f"get-offsets --topic-partitions t:0-2,x:5 --time -1 {_BROKER} {_ADMIN}", _SETTINGS),
    (f"get-offsets --topic t.* --partitions 0,1 --time earliest {_BROKER}", b""),
    (f"leader-election --election-type preferred --path-to-json-file FILE {_BROKER}", _PLAN),
    (f"leader-election --election-type unclean --topic t --partition 0 {_BROKER} --admin.config FILE", _SETTINGS),
    (f"log-dirs --describe --broker-list 1,2 --topic-list t {_BROKER} {_ADMIN}", _SETTINGS),
    (f"preferred-replica-election --path-to-json-file FILE {_ZOOKEEPER}", _PLAN),
    (f"preferred-replica-election --path-to-json-file FILE {_BROKER}", _PLAN),
    (f"reassign-partitions --execute --reassignment-json-file FILE --throttle 5 {_BROKER}", _PLAN),
    (f"reassign-partitions --verify --reassignment-json-file FILE {_BROKER}", _PLAN),
    (f"reassign-partitions --execute --reassignment-json-file FILE {_ZOOKEEPER}", _PLAN),
    (
        f"reassign-partitions --generate --topics-to-move-json-file FILE --broker-list 1,2 {_BROKER}",
        b'{"version":1,"topics":[{"topic":"t"}]}',
    ),
    (f"reassign-partitions --list {_BROKER} {_ADMIN}", _SETTINGS),
    ("transactions --bootstrap-server 127.0.0.1:9001 --command-config FILE list", _SETTINGS),
    ("transactions --bootstrap-server 127.0.0.1:9001 abort --topic t --partition 0 --start-offset 5", b""),
    ("transactions --bootstrap-server 127.0.0.1:9001 find-hanging --broker-id 1 --max-transaction-timeout 5", b""),
    ("transactions --bootstrap-server 127.0.0.1:9001 describe --transactional-id x", b""),
)


class Tools:
    """See the module."""

    name = "tools"
    measured_every = 0
    """Tools are processes, which end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name, "00000000000000000000")

        self._files = {f"{self._file}.{kind}" for kind in ("log", "index", "timeindex", "snapshot", "txnindex")}

    def close(self) -> None:
        self._folder.cleanup()

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [line.replace(" ", "\0").encode() + b"\0\0" + content for line, content in _SEEDS]

    def check(self, data: bytes) -> str:
        line, _, content = data.partition(b"\0\0")
        words = [word.replace("FILE", str(self._file)) for word in line.decode("utf-8", "surrogateescape").split("\0")]
        for file in {self._file, *(Path(word) for word in words if word in self._files)}:
            file.write_bytes(content)
        if words[0] not in TOOLS:
            return "no such tool"
        tool = import_module(f"kafkalite.legacy.{TOOLS[words[0]]}")
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with without_a_cluster(is_odd=len(data) % 2 == 1), redirect_stdout(out), redirect_stderr(err):
            try:
                status = tool.main(words[1:])
            except (TimeoutError, asyncio.CancelledError):
                return f"{words[0]} waits"
        out.flush()
        told = (out.buffer.getvalue().decode(errors="replace") + err.getvalue()).strip()  # type: ignore[attr-defined]
        assert "Traceback" not in told, told
        assert told or status == 0, f"{words[0]} ends with {status} and says nothing"
        return f"{words[0]} {status} {told[:40]}"


@contextlib.contextmanager
def without_a_cluster(is_odd: bool) -> Iterator[None]:
    cluster, stored = _Brokers({"t": 3}), MemoryZooKeeper()
    with contextlib.ExitStack() as stack:
        for target, name, value in (
            (ClusterClient, "_open", lambda _, host, port: cluster.open(host, port)),
            (asyncio, "run", run_on_virtual_time),
            (import_module("zk.kazoo_adapter.kazoo_store"), "KazooStore", lambda connect, **_: _Store(stored, is_odd)),
            (virtual_time.VirtualTimeLoop, "add_signal_handler", lambda *_: None),
            (atexit, "register", lambda *_: None),
            (gc, "disable", lambda: None),
            (sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


class _Brokers(FakeCluster):
    """What they do not play has an empty answer."""

    def answer(self, broker_id: int, request: Any) -> Any:
        try:
            return super().answer(broker_id, request)
        except KeyError:
            return getattr(messages, f"{request.API.name}_response").ROOT()


def run_on_virtual_time(work: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        with virtual_time.expected_errors() as seen:
            try:
                return await until_it_ends()
            finally:
                unexpected = [each for each in seen.contexts if "never retrieved" not in each["message"]]
                assert not unexpected, unexpected

    async def until_it_ends() -> Any:
        task = asyncio.ensure_future(work)
        if not (await asyncio.wait([task], timeout=ENDS_S))[0]:
            for each in asyncio.all_tasks() - {asyncio.current_task()}:
                each.cancel()
            await asyncio.wait([task])
            raise TimeoutError
        return task.result()

    return virtual_time.run(in_time())


class _Store(MemoryStore):
    """With a topic and a broker; odd ones beside them, perhaps."""

    def __init__(self, zookeeper: MemoryZooKeeper, is_odd: bool) -> None:
        super().__init__(zookeeper)
        self._is_odd = is_odd

    async def start(self, timeout_s: float) -> None:
        await super().start(timeout_s)
        broker = BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "h", 9092),), timestamp_ms=1)
        for path, data in (
            (paths.broker(1), broker.encode()),
            (paths.topic("t"), TopicAssignment({0: (1, 2)}).encode()),
            (paths.partition_state("t", 0), PartitionState(1, 0, (1,), 1).encode()),
            *(((f"{paths.BROKER_IDS}/stray", b"\xff"), (paths.topic("odd"), b"[]")) if self._is_odd else ()),
        ):
            await self.create(path, data, parents=True)
