"""The main loop of `kafka-console-consumer`: read, print, count, and close the consumer when a signal comes."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.cluster.client_settings import options_for
from kafkalite.legacy.command_line.entry import log, runs_long
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.console import consumer_options as tool
from kafkalite.standard_streams import OutputError, is_reader_gone

if TYPE_CHECKING:
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.legacy.command_line.option_parser import Options
    from kafkalite.legacy.console.message_formatters import Formatter

_POLL_MS: Final = 500.0
_POLL_RECORDS: Final = 2000
_TIMEOUT: Final = "org.apache.kafka.common.errors.TimeoutException"
_ENDED: Final = "Error processing message, terminating consumer process: "


class Reading:
    """One run of the tool. `count` is the number of records read so far."""

    def __init__(self, options: Options, formatter: Formatter) -> None:
        self._options, self._formatter = options, formatter
        self._limit = options.value(tool.MAX_MESSAGES) if options.has(tool.MAX_MESSAGES) else -1
        given = options.value(tool.TIMEOUT_MS) if options.has(tool.TIMEOUT_MS) else -1
        self._timeout_ms: float | None = given if given >= 0 else None
        self._skip = options.has(tool.SKIP_ON_ERROR)
        self._output: Any = sys.stdout.buffer
        self.count = 0

    async def run(self, settings: dict[str, str], start: int | str) -> int:
        runs_long()
        from kafkalite.client.consumer.consumer import Consumer
        from kafkalite.client.consumer.options import ConsumerOptions

        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, _settle, stopped, 128 + number)
        consumer = Consumer(**options_for(ConsumerOptions, settings))
        reading = asyncio.ensure_future(self._read_all(consumer, start))
        try:
            await asyncio.wait([reading, stopped], return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            status = stopped.result() if stopped.done() else reading.result()
        finally:
            await asyncio.gather(reading, return_exceptions=True)
            # Records that could not be written are read again.
            await consumer.close(commit=not _lost_output(reading))
            self._output.flush()
            print(f"Processed a total of {self.count} messages", file=sys.stderr)
        if self._options.has(tool.SYSTEST_EVENTS):
            print("shutdown_complete")
        return status

    async def _read_all(self, consumer: Consumer, start: int | str) -> int:
        from kafkalite.client.errors import ClientError, NoBrokersAvailableError

        try:
            await self._start_reading(consumer, start)
            while self._limit < 0 or self.count < self._limit:
                if not await self._read_some(consumer):
                    log("ERROR", _ENDED, tool.LOGGER, _TIMEOUT)
                    return 0
                if is_reader_gone():
                    print("Unable to write to standard out, closing consumer.", file=sys.stderr)
                    return 0
        except NoBrokersAvailableError:
            log("ERROR", _ENDED, tool.LOGGER, _TIMEOUT)
        except ClientError as problem:
            log("ERROR", _ENDED, tool.LOGGER, problem)
        except ToolError as problem:
            log("ERROR", "Unknown error when running consumer: ", tool.LOGGER, problem)
            return 1
        return 0

    async def _start_reading(self, consumer: Consumer, start: int | str) -> None:
        from kafkalite.types import TopicPartition

        await self._connect(consumer)
        options = self._options
        if not options.has(tool.TOPIC):
            consumer.subscribe(pattern=options.value(tool.INCLUDE if options.has(tool.INCLUDE) else tool.WHITELIST))
        elif not options.has(tool.PARTITION):
            consumer.subscribe([options.value(tool.TOPIC)])
        else:
            partition = TopicPartition(options.value(tool.TOPIC), options.value(tool.PARTITION))
            consumer.assign([partition])
            if start == "earliest":
                await consumer.seek_to_beginning(partition)
            elif start == "latest":
                await consumer.seek_to_end(partition)
            else:
                consumer.seek(partition, int(start))

    async def _connect(self, consumer: Consumer) -> None:
        """Connect. The cluster is waited for as long as a record would be."""
        from kafkalite.client.errors import NoBrokersAvailableError

        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            try:
                await consumer.connect(10)
                return
            except NoBrokersAvailableError:
                if self._timeout_ms is not None and (loop.time() - began_s) * 1000 > self._timeout_ms:
                    raise
                await asyncio.sleep(_POLL_MS / 1000)

    async def _read_some(self, consumer: Consumer) -> bool:
        """Print what comes next; False when nothing came in time."""
        room = _POLL_RECORDS if self._limit < 0 else min(self._limit - self.count, _POLL_RECORDS)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            found = await consumer.getmany(timeout_ms=min(_POLL_MS, self._timeout_ms or _POLL_MS), max_records=room)
            if found:
                break
            if self._timeout_ms is not None and (loop.time() - began_s) * 1000 > self._timeout_ms:
                return False
        try:
            for records in found.values():
                for record in records:
                    self.count += 1
                    self._print(record)
        finally:
            self._output.flush()
        return True

    def _print(self, record: Any) -> None:
        try:
            self._output.write(self._formatter(record))
        except ToolError as problem:
            if not self._skip:
                raise
            log("ERROR", "Error processing message, skipping this message: ", tool.LOGGER, problem)


def _lost_output(reading: asyncio.Future[int]) -> bool:
    return not reading.cancelled() and isinstance(reading.exception(), OutputError)


def _settle(future: asyncio.Future[int], status: int) -> None:
    if not future.done():
        future.set_result(status)
