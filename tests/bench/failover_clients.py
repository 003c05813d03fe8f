"""What a failover is watched with: producers that send one record at a time, and watches on znodes. Both note moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import confluent_kafka
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import WatchedEvent

from kafkalite.client import SyncProducer
from tests.bench.failover_figures import Sent

CLIENTS: Final = ("confluent-kafka", "kafkalite")
PAUSE_S: Final = 0.005
"""Between two records: a client that waits leaves the processors to the brokers."""

_POLL_S: Final = 0.1
_END_TIMEOUT_S: Final = 10.0
_CONNECT_TIMEOUT_S: Final = 30.0
_VALUE: Final = bytes(100)


class Producer(Protocol):
    def send(self, stopped: Callable[[], bool], partition: int = 0) -> int | None:
        """Send a record, and return the moment of its acknowledgement in ns; None if it was `stopped` first. Raises RuntimeError."""

    def close(self) -> None: ...


class ConfluentProducer:
    """librdkafka with its own settings but for acks=all, which is its default too."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        self._topic = topic

    def send(self, stopped: Callable[[], bool], partition: int = 0) -> int | None:
        done: list[tuple[Any, int]] = []
        self._producer.produce(
            self._topic,
            _VALUE,
            partition=partition,
            on_delivery=lambda error, _: done.append((error, time.monotonic_ns())),
        )
        while not done:
            if stopped():
                return None
            self._producer.poll(_POLL_S)
        error, at_ns = done[0]
        if error is not None:
            raise RuntimeError(str(error))
        return at_ns

    def close(self) -> None:
        self._producer.purge()


class KafkaliteProducer:
    """Our own producer, with its own settings."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = SyncProducer(bootstrap_servers=servers)
        self._producer.connect(_CONNECT_TIMEOUT_S)
        self._topic = topic

    def send(self, stopped: Callable[[], bool], partition: int = 0) -> int | None:
        done: list[tuple[Exception | None, int]] = []
        delivered = threading.Event()

        def notice(_: object, error: Exception | None) -> None:
            done.append((error, time.monotonic_ns()))
            delivered.set()

        self._producer.send(self._topic, _VALUE, partition=partition, on_delivery=notice)
        while not delivered.wait(_POLL_S):
            if stopped():
                return None
        error, at_ns = done[0]
        if error is not None:
            raise RuntimeError(str(error))
        return at_ns

    def close(self) -> None:
        self._producer.close()


def new_producer(client: str, servers: str, topic: str) -> Producer:
    """Return a producer to the topic."""
    return KafkaliteProducer(servers, topic) if client == "kafkalite" else ConfluentProducer(servers, topic)


class SteadyWriter(AbstractContextManager["SteadyWriter"]):
    """A thread that sends one record after the other to partition 0, and keeps when each was sent and acknowledged."""

    def __init__(self, client: str, servers: str, topic: str, others: Sequence[int] = ()) -> None:
        """`others` are partitions that get one record each before, so that the client knows their brokers."""
        self.records: list[Sent] = []
        self._others = others
        self.problems: list[str] = []
        """Errors that the client reported; the next record is sent all the same."""
        self._producer = new_producer(client, servers, topic)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(_END_TIMEOUT_S)

    def _write(self) -> None:
        for partition in self._others:
            self._producer.send(self._stopped.is_set, partition)
        while not self._stopped.is_set():
            sent_ns = time.monotonic_ns()
            try:
                acknowledged_ns = self._producer.send(self._stopped.is_set)
            except RuntimeError as problem:
                self.problems.append(str(problem))
            else:
                if acknowledged_ns is not None:
                    self.records.append(Sent(sent_ns, acknowledged_ns))
            self._stopped.wait(PAUSE_S)
        self._producer.close()


class Moment:
    """The first moment at which a znode's content fulfils a condition, which gets None for a znode that is not there.

    The moment is when the watch's event arrived, not when the content was read then.
    """

    def __init__(self, client: KazooClient, path: str, holds: Callable[[bytes | None], bool], what: str) -> None:
        self._client, self._path, self._holds, self._what = client, path, holds, what
        self._at_ns = 0
        self._seen, self._cancelled = threading.Event(), False
        self._look(None)

    def _look(self, _: WatchedEvent | None) -> None:
        if self._cancelled or self._seen.is_set():
            return
        at_ns = time.monotonic_ns()
        try:
            fulfilled = self._holds(self._read())
        except KazooException:
            return  # the wait ends by its deadline, and says for what
        if fulfilled:
            self._at_ns = at_ns
            self._seen.set()

    def _read(self) -> bytes | None:
        try:
            content: bytes = self._client.get(self._path, watch=self._look)[0]
        except NoNodeError:
            if self._client.exists(self._path, watch=self._look) is not None:
                return self._read()
            return None
        return content

    @property
    def has_come(self) -> bool:
        return self._seen.is_set()

    def wait(self, timeout_s: float) -> int:
        """Return the moment in ns. Raises TimeoutError that says what was waited for."""
        if not self._seen.wait(timeout_s):
            raise TimeoutError(f"{self._what}: not within {timeout_s:g} s")
        return self._at_ns

    def cancel(self) -> None:
        """Look no more."""
        self._cancelled = True
