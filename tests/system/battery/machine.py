"""What else a machine does to brokers: clocks that jump, no more files, no more memory, very many clients, slow and silent ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.client import ClientError, SyncAdmin, SyncProducer
from kafkalite.client import NewTopic as OurNewTopic
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from tests.system.battery.shim import Shim
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

HOUR_MS = 3_600_000
FILES_MAX = 256
IDLE, BURST = 10_000, 5_000
CHURN_S, CHURN_PER_S = 60, 200
SLOW = 1000
MB = 1024 * 1024


@pytest.fixture
def lone() -> Iterator[Callable[..., LocalCluster]]:
    """One broker, started by a shell command around it, if any: `lone("ulimit -n 256")`."""
    with contextlib.ExitStack() as stack:

        def start(limit: str = "true", **properties: str) -> LocalCluster:
            command = ["sh", "-c", f'{limit}; exec "$@"', "sh", *BROKER_COMMAND]
            return stack.enter_context(LocalCluster(brokers=1, command=command, properties=properties))

        yield start


def files_of(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def processor_s(broker: BrokerProcess) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Beside:
    """A producer that sends one record after the other; `most_work_s` is the most that the broker has worked while one was on its way."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.sent, self.most_work_s, self.problem = 0, 0.0, ""
        self._broker = cluster.broker(1)
        self._servers = cluster.bootstrap_servers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Beside:
        self._thread.start()
        self.wait_more(5)
        return self

    def __exit__(self, *problem: object) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self.problem, self.problem

    def wait_more(self, count: int, timeout_s: float = 60) -> None:
        wanted = self.sent + count
        wait_until(lambda: self.sent >= wanted or bool(self.problem), f"{count} records more beside", timeout_s)
        assert not self.problem, self.problem

    def _run(self) -> None:
        try:
            with SyncProducer(bootstrap_servers=self._servers) as producer:
                while not self._stopping.is_set():
                    before_s = processor_s(self._broker)
                    producer.send_and_wait("beside", b"x", partition=0)
                    if self.sent:
                        self.most_work_s = max(self.most_work_s, processor_s(self._broker) - before_s)
                    self.sent += 1
                    time.sleep(0.01)
        except Exception as problem:
            self.problem = repr(problem)


def test_a_clock_jumps(scenario: Scenario, tmp_path: Path, rng: random.Random) -> None:
    """An hour forth and back, at one broker, under load: no session ends, nothing is deleted, nothing waits for an hour."""
    shim = Shim(tmp_path)
    victim = rng.choice(scenario.cluster.broker_ids)
    broker = scenario.cluster.broker(victim)
    shim.load_into(broker)
    scenario.cluster.restart(victim)
    try:
        topic = scenario.create_topic(3, config={"retention.ms": str(HOUR_MS // 2), "segment.ms": "100000"})
        workload = scenario.start_workload(topic, 3)
        epoch = scenario.facts.broker_epoch(victim)
        for offset_ms in (HOUR_MS, -HOUR_MS, 0, HOUR_MS, 0):
            shim.set(clock_offset_ms=offset_ms)
            for _ in range(3):
                workload.wait_flowing(60)
            scenario.wait_replicated(topic, 60)
        assert scenario.facts.broker_epoch(victim) == epoch, "the session ended"
        scenario.verdict(workload)
    finally:
        shim.set()
        broker.command = BROKER_COMMAND
        scenario.cluster.restart(victim)


def test_no_file_is_left(lone: Callable[..., LocalCluster]) -> None:
    """More connections than a process may have files: those that are there are served, nobody spins, and all is well when they go."""
    cluster = lone(f"ulimit -n {FILES_MAX}")
    broker = cluster.broker(1)
    with Beside(cluster) as beside:
        strangers = []
        for _ in range(FILES_MAX + 50):
            stranger = socket.socket()
            stranger.setblocking(False)
            stranger.connect_ex((broker.host, broker.port))
            strangers.append(stranger)
        wait_until(lambda: files_of(broker) > FILES_MAX - 20, "no more files", 60)
        before_s, began_s = processor_s(broker), time.monotonic()
        beside.wait_more(100)
        busy = (processor_s(broker) - before_s) / (time.monotonic() - began_s)
        assert busy < 0.8, f"the broker takes {busy:.0%} of a processor while it has no files"
        for stranger in strangers:
            stranger.close()
        wait_until(lambda: files_of(broker) < FILES_MAX - 100, "free files", 60)
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([OurNewTopic("after", 4, 1)])
        beside.wait_more(20)


def test_more_partitions_than_files(lone: Callable[..., LocalCluster]) -> None:
    """Partitions need no files of their own as long as nobody writes to them: what is too much is closed and opened again."""
    cluster = lone(f"ulimit -n {FILES_MAX}")
    with Beside(cluster) as beside:
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=60_000) as admin:
            for number in range(5):
                admin.create_topics([OurNewTopic(f"many-{number}", 100, 1)])
        with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(5):
                for partition in range(100):
                    producer.send(f"many-{number}", b"x", partition=partition)
            producer.flush(60)
        beside.wait_more(50)


def test_little_memory(lone: Callable[..., LocalCluster]) -> None:
    """A broker with 600 MB of address space beyond its start: many long requests are promised, and it lives."""
    cluster = lone("ulimit -v 1500000")
    broker = cluster.broker(1)
    with Beside(cluster) as beside, contextlib.ExitStack() as stack:
        before = broker.resident_bytes()
        for _ in range(100):
            stranger = stack.enter_context(socket.create_connection((broker.host, broker.port), 10))
            stranger.sendall((100 * MB).to_bytes(4, "big") + bytes(1000))
        for _ in range(100):
            stranger = stack.enter_context(socket.create_connection((broker.host, broker.port), 10))
            stranger.sendall((16 * MB).to_bytes(4, "big") + bytes(100_000))
        beside.wait_more(50)
        assert broker.resident_bytes() - before < 200 * MB


def test_slow_and_silent_clients(lone: Callable[..., LocalCluster]) -> None:
    """A thousand that send a byte a second, and some that ask for much and read nothing: others do not notice, and memory is bounded."""
    cluster = lone()
    broker = cluster.broker(1)
    with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(100):
            producer.send("large", b"x" * 900_000, partition=0)
        producer.flush(120)
    with Beside(cluster) as beside, contextlib.ExitStack() as stack:
        before = broker.resident_bytes()
        slow = [stack.enter_context(socket.create_connection((broker.host, broker.port), 10)) for _ in range(SLOW)]
        silent = [stack.enter_context(socket.create_connection((broker.host, broker.port), 10)) for _ in range(3)]
        for each in silent:
            for _ in range(5):
                with contextlib.suppress(OSError):
                    each.sendall(fetch_of_much())
        for number in range(10):
            for each in slow:
                with contextlib.suppress(OSError):
                    each.sendall(b"\0\0\0\x40\0\0\0\0\0\0"[number : number + 1])
            beside.wait_more(20)
        assert beside.most_work_s < 1, f"{beside.most_work_s:.1f} s"
        grown = broker.resident_bytes() - before
        assert grown < 600 * MB, f"{grown / MB:.0f} MB for clients that do not read"


def fetch_of_much() -> bytes:
    from kafkalite.net.frames import request_frame
    from kafkalite.protocol import codec, messages
    from kafkalite.protocol.apis import APIS, ApiKey

    m = messages.fetch_request
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100 * MB)
    request = m.FetchRequest(
        max_wait_ms=100, max_bytes=100 * MB, topics=[m.FetchTopic(topic="large", partitions=[partition])]
    )
    return b"".join(request_frame(APIS[ApiKey.FETCH], 11, 1, "silent", codec.encode_request(request, 11)))


def test_very_many_idle_connections(lone: Callable[..., LocalCluster]) -> None:
    cluster = lone()
    broker = cluster.broker(1)
    with Beside(cluster) as beside:
        before, files = broker.resident_bytes(), files_of(broker)

        async def connect(count: int) -> list[socket.socket]:
            loop = asyncio.get_running_loop()
            made = []
            for start in range(0, count, 500):
                some = [socket.socket() for _ in range(min(500, count - start))]
                for each in some:
                    each.setblocking(False)
                await asyncio.gather(*(loop.sock_connect(each, (broker.host, broker.port)) for each in some))
                made += some
            return made

        idle = asyncio.run(connect(IDLE))
        wait_until(lambda: files_of(broker) >= files + IDLE, f"{IDLE} connections", 120)
        grown = broker.resident_bytes() - before
        assert grown < IDLE * 30_000, f"{grown / IDLE:.0f} bytes for an idle connection"
        began_s = time.monotonic()
        burst = asyncio.run(connect(BURST))
        wait_until(lambda: files_of(broker) >= files + IDLE + BURST, f"{BURST} connections at once", 60)
        print(f"{grown / IDLE:.0f} bytes a connection; {BURST} more in {time.monotonic() - began_s:.1f} s")
        beside.wait_more(50)
        for each in (*idle, *burst):
            each.close()
        wait_until(lambda: files_of(broker) <= files + 5, "the end of all connections", 120)
        assert beside.most_work_s < 2, f"{beside.most_work_s:.1f} s"


def test_connections_come_and_go(lone: Callable[..., LocalCluster], rng: random.Random) -> None:
    """Two hundred a second; some ask, some say half a word, some are reset: nothing is left of them."""
    cluster = lone()
    broker = cluster.broker(1)
    api_versions = bytes.fromhex("0000000e0012000000000001000474657374")
    with Beside(cluster) as beside:
        wait_until(lambda: files_of(broker) > 0, "files", 10)
        files, sizes = files_of(broker), []
        end_s = time.monotonic() + CHURN_S
        while time.monotonic() < end_s:
            began_s = time.monotonic()
            for _ in range(CHURN_PER_S):
                with socket.socket() as stranger:
                    stranger.settimeout(10)
                    stranger.connect((broker.host, broker.port))
                    way = rng.randrange(4)
                    if way == 0:
                        stranger.sendall(api_versions)
                        stranger.recv(1000)
                    elif way == 1:
                        stranger.sendall(api_versions[: rng.randrange(len(api_versions))])
                    elif way == 2:
                        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sizes.append(broker.resident_bytes())
            time.sleep(max(0.0, 1 - (time.monotonic() - began_s)))
        wait_until(lambda: files_of(broker) <= files + 5, "the end of all connections", 60)
        half = sizes[len(sizes) // 3 :]
        assert half[-1] - half[0] < 20 * MB, f"{(half[-1] - half[0]) / MB:.0f} MB more"
        beside.wait_more(20)


def test_a_client_that_asks_for_more_than_it_may(lone: Callable[..., LocalCluster]) -> None:
    """Names that would be paths, and names that are too long, make no file anywhere."""
    cluster = lone()
    folder = cluster.directory
    before = {path.name for path in folder.iterdir()}
    with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name in ("..", ".", "a/../b", "a\0b", "x" * 250, "", "ä", "a b"):
            with pytest.raises(ClientError) as problem:
                admin.create_topics([OurNewTopic(name, 1, 1)])
            assert problem.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        admin.create_topics([OurNewTopic("x" * 249, 1, 1)])
    assert {path.name for path in folder.iterdir()} == before
