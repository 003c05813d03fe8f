"""A producer whose acknowledgements are kept in a ledger while brokers are replaced."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.migrate.digests import digest_record
from kafkalite.cli.migrate.evidence import ProbeRecord, SealedFile, ledger_header
from kafkalite.cli.migrate.witness import probe_key

if TYPE_CHECKING:
    from kafkalite.client import Producer, RecordMetadata

_UNANSWERED_MAX: Final = 1000
"""Records that wait for an acknowledgement; while brokers do not answer, no more are sent."""
_POLL_S: Final = 0.05
_EXACTLY_ONCE: Final[Mapping[str, Any]] = {"acks": "all", "enable_idempotence": True, "transactional_id": None}
"""Options that win over those of contexts and the command line."""


class Probe:
    """Sends numbered records with acks=all to the partitions of a topic in turn, and notes what becomes of each. `name` tells its records
    from those of others.
    """

    def __init__(self, name: str, topic: str, file: SealedFile) -> None:
        self._name, self._topic, self._file = name, topic, file
        self._unanswered: set[int] = set()
        self.sent = self.acknowledged = 0

    async def run(
        self, producer_options: Mapping[str, Any], rate: float, stop: asyncio.Event, most: int | None = None
    ) -> None:
        """Send `rate` records a second until `stop` is set or `most` are sent, then wait for the last answers.

        Raises ClientError when it cannot begin.
        """
        from kafkalite.client import Producer

        try:
            async with Producer(**{**producer_options, **_EXACTLY_ONCE}) as producer:
                await self._send_until(producer, rate, stop, sys.maxsize if most is None else most)
                await producer.flush()
        finally:
            for number in sorted(self._unanswered):
                self._file.write({"unresolved": number})

    async def _send_until(self, producer: Producer, rate: float, stop: asyncio.Event, most: int) -> None:
        partitions = sorted(await producer.partitions_for(self._topic))
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while not stop.is_set() and self.sent < most:
            due = min(int((loop.time() - begun_s) * rate) + 1, most)
            while self.sent < due and len(self._unanswered) < _UNANSWERED_MAX and not stop.is_set():
                await self._send(producer, partitions[self.sent % len(partitions)])
            await wait_at_most(stop, _POLL_S)

    async def _send(self, producer: Producer, partition: int) -> None:
        from kafkalite.client import ClientError

        number, self.sent = self.sent, self.sent + 1
        key, value = probe_key(self._name, number), blake2b(b"%d" % number).digest()
        self._unanswered.add(number)

        def note_fate(metadata: RecordMetadata | None, problem: Exception | None) -> None:
            self._unanswered.discard(number)
            if metadata is None:
                self._file.write({"unresolved": number})
                return
            self.acknowledged += 1
            digest = digest_record(key, value).hex()
            self._file.write(asdict(ProbeRecord(number, metadata.partition, metadata.offset, digest)))

        try:
            await producer.send(self._topic, value, key, partition, on_delivery=note_fate)
        except ClientError as problem:  # it is in no batch
            note_fate(None, problem)


async def wait_at_most(event: asyncio.Event, timeout_s: float) -> None:
    """Return when the event is set, or after so long."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


async def run_probe(
    path: Path, topic: str, producer_options: Mapping[str, Any], rate: float, most: int | None
) -> Probe:
    """Run a probe until SIGINT, SIGTERM or `most` records, and seal its ledger. Raises ClientError, FileExistsError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    name = f"probe-{secrets.token_hex(8)}"
    with SealedFile(path, ledger_header(name, topic)) as file:
        found = Probe(name, topic, file)
        await found.run(producer_options, rate, stop, most)
        file.seal()
    return found
