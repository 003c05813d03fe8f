"""Frames for a live broker, while another client beside asks for ApiVersions each 10 ms.

Frames are requests of every API in each version: right ones, mutated ones, ones that grow up to some megabytes, and random bytes. They are
sent in windows, each frame over a connection of its own, without waiting for answers. When the client beside waited for longer than
WAIT_S, each frame of the window is sent again alone: one that holds the broker does it each time, where a busy machine does not. What was
seen only once is told with the report and is no finding.

A file of the corpus has frames with their lengths before them, compressed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import select
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkalite.client import Admin, NewTopic
from kafkalite.local.broker_process import BrokerDied, BrokerProcess
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.fuzz.beside import ClientBeside, Wait, forget_peak, peak_bytes
from tests.fuzz.engine import Finding, corpus
from tests.fuzz.grown import grown
from tests.fuzz.messages import requests
from tests.fuzz.mutation import mutate
from tests.fuzz.record_batches import batches

NAME: Final = "live"
TOPIC: Final = "topic"
WAIT_S: Final = 0.1
TRIES: Final = 3
MEMORY_FACTOR, MEMORY_EXTRA_BYTES = 2, 64 * 1024 * 1024
WINDOW: Final = 64
"""Frames; that many connections are open at once."""
_LONGEST_BYTES: Final = 4 * 1024 * 1024
_ANSWER_S: Final = 0.002
_SETTLED: Final = 3
"""Answers to the client beside, after which what was sent has been begun."""


@dataclass
class LiveReport:
    frames: int = 0
    sent_bytes: int = 0
    elapsed_s: float = 0.0
    longest: Wait = Wait(0.0, 0.0, 0.0)
    longest_held_s: float = 0.0
    once: list[str] = field(default_factory=list)
    """Waits above WAIT_S that no frame caused again."""
    grown_bytes: int = 0
    """The most that one window added to the broker's memory."""
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{NAME}: {self.frames} frames of {self.sent_bytes / 1e6:.0f} MB in {self.elapsed_s:.0f} s; the client beside waited "
            f"{self.longest.waited_s * 1000:.0f} ms at most, was held {self.longest_held_s * 1000:.0f} ms; "
            f"a window added {self.grown_bytes / 1e6:.0f} MB at most; {len(self.findings)} findings"
        ]
        lines += [f"  once: {each}" for each in self.once]
        lines += [f"  {each.file_name} ({len(each.data)} bytes): {each.problem}" for each in self.findings]
        return "\n".join(lines)


class Frames:
    """Frames without their lengths, as chance will have them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._seeds = [*requests(rng), *_produced(rng)]

    def __iter__(self) -> Iterator[bytes]:
        ways = (
            self._seed,
            self._mutated,
            self._mutated,
            self._mutated,
            self._grown,
            self._grown,
            self._broken,
            self._random,
        )
        while True:
            yield self._rng.choice(ways)()

    def _seed(self) -> bytes:
        return self._rng.choice(self._seeds)

    def _mutated(self) -> bytes:
        return mutate(self._rng, self._seed(), self._seeds)

    def _grown(self) -> bytes:
        return grown(self._rng, int(math.exp(self._rng.uniform(math.log(1_000), math.log(_LONGEST_BYTES)))))

    def _broken(self) -> bytes:
        return mutate(self._rng, self._grown(), self._seeds)

    def _random(self) -> bytes:
        api = self._rng.choice(list(APIS.values()))
        version = self._rng.randrange(api.min_version, api.max_version + 1)
        return struct.pack(">hhih", api.key, version, 7, -1) + self._rng.randbytes(self._rng.randrange(1, 200))


def _produced(rng: random.Random) -> list[bytes]:
    m, api, found = messages.produce_request, APIS[ApiKey.PRODUCE], []
    for number, records in enumerate(batches(rng)):
        data = m.PartitionProduceData(index=number % 3, records=records)
        topic = m.TopicProduceData(name=TOPIC, partition_data=[data])
        request, version = m.ProduceRequest(acks=1, timeout_ms=10, topic_data=[topic]), 3 + number % 9
        found.append(b"".join(request_frame(api, version, 7, "fuzz", codec.encode_request(request, version)))[4:])
    return found


def run(broker: BrokerProcess, frames: int, seed: int) -> LiveReport:
    """The corpus and so many frames. It ends early when the broker ends, which is a finding."""
    fuzzer = LiveFuzzer(broker, seed)
    began_s = time.perf_counter()
    with contextlib.suppress(BrokerDied):
        fuzzer.run(frames)
    fuzzer.report.elapsed_s = time.perf_counter() - began_s
    fuzzer.close()
    return fuzzer.report


class LiveFuzzer:
    """Of one broker process; `close` when done. BrokerDied when it ends."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self._broker = broker
        self._rng = random.Random(f"{NAME}/{seed}")
        self._open: deque[socket.socket] = deque()
        self.report = LiveReport()
        asyncio.run(self._create())
        self._beside = ClientBeside(broker)
        self._beside.start()
        self._beside.wait_answers(_SETTLED)

    async def _create(self) -> None:
        async with Admin(bootstrap_servers=self._broker.address) as admin:
            await admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=1)])

    def close(self) -> None:
        self._let_go(0)
        self._beside.end()

    def run(self, count: int) -> None:
        """The corpus, then so many frames."""
        frames = iter(Frames(self._rng))
        for data in corpus(NAME):
            self._window(unpacked(data))
        for first in range(0, count, WINDOW):
            self._window([next(frames) for _ in range(min(WINDOW, count - first))])

    def _window(self, frames: Sequence[bytes]) -> None:
        report = self.report
        try:
            wait, grown_bytes = self._sent(frames)
        except (BrokerDied, OSError):
            if not self._broker.running:
                last = self._broker.log_tail(1)
                report.findings.append(Finding(packed(frames), f"the broker ended: {last}"))
                raise BrokerDied(last) from None
            raise
        report.frames += len(frames)
        report.sent_bytes += sum(map(len, frames))
        report.grown_bytes = max(report.grown_bytes, grown_bytes)
        allowed_bytes = MEMORY_FACTOR * sum(map(len, frames)) + MEMORY_EXTRA_BYTES
        if wait.waited_s > WAIT_S or grown_bytes > allowed_bytes:
            self._look_closer(frames, wait)

    def _look_closer(self, frames: Sequence[bytes], wait: Wait) -> None:
        found = len(self.report.findings)
        for frame in frames:
            if problem := self._repeated(frame):
                self.report.findings.append(Finding(packed([frame]), problem))
        if found == len(self.report.findings):
            self.report.once.append(f"{wait.waited_s * 1000:.0f} ms, held {wait.held_s * 1000:.0f} ms")

    def _repeated(self, frame: bytes) -> str:
        """What is wrong with a frame each time that it is sent alone; empty when it was right once."""
        waits, grown_bytes = [], []
        for _ in range(TRIES):
            wait, more = self._sent([frame])
            waits.append(wait.held_s)
            grown_bytes.append(more)
            is_slow = min(waits) > WAIT_S
            if not is_slow and min(grown_bytes) <= MEMORY_FACTOR * len(frame) + MEMORY_EXTRA_BYTES:
                return ""
        key, version = struct.unpack_from(">hh", frame) if len(frame) >= 4 else (-1, -1)
        times = "/".join(f"{each * 1000:.0f}" for each in waits)
        return f"API {key} version {version}, {len(frame)} bytes: held for {times} ms, {min(grown_bytes) / 1e6:+.0f} MB"

    def _sent(self, frames: Sequence[bytes]) -> tuple[Wait, int]:
        """Send them; the longest wait of the client beside, and how much memory grew."""
        self._let_go(0)
        self._beside.wait_answers(1)
        before = self._broker.resident_bytes()
        forget_peak(self._broker)
        self._beside.forget()
        for frame in frames:
            self._send(frame)
        self._beside.wait_answers(_SETTLED)
        wait = self._beside.longest
        self.report.longest = max(self.report.longest, wait)
        self.report.longest_held_s = max(self.report.longest_held_s, self._beside.longest_held.held_s)
        return wait, peak_bytes(self._broker) - before

    def _send(self, frame: bytes) -> None:
        connection = socket.create_connection((self._broker.host, self._broker.port), timeout=30)
        self._open.append(connection)
        with contextlib.suppress(ConnectionError):
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            if select.select([connection], [], [], _ANSWER_S)[0]:
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    connection.recv(1 << 16)
        self._let_go(WINDOW)

    def _let_go(self, most: int) -> None:
        while len(self._open) > most:
            self._open.popleft().close()


def packed(frames: Sequence[bytes]) -> bytes:
    return zlib.compress(b"".join(struct.pack(">i", len(each)) + each for each in frames), 9)


def unpacked(data: bytes) -> list[bytes]:
    stream, found, position = zlib.decompress(data), [], 0
    while position < len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        found.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return found
