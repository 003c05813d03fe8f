"""Compaction passes in a process of their own, so that they take no time from the event loop's interpreter.

A pass is pure Python work for minutes; in a thread it would hold the interpreter's lock for 5 ms at a time, which is ten times what
a produce request takes. The child runs `main` at a lower priority:

    its standard input     one message: (task, bytes per second); then silence until the end of the broker
    its standard output    messages: CleanedSegment, CleanedUpTo, or Failure

A message is its length, 4 bytes big endian, and a pickle. When its input ends, because the broker is gone or stops the pass, the
child ends at once: no two passes ever write the same files. What it leaves unfinished, the next pass or start removes.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.storage.cleaning.cleaning import CleaningTask, CorruptSegment, PassInterrupted, Progress, Step, clean
from kafkalite.storage.cleaning.throttle import Throttle
from kafkalite.storage.disk import OsDisk

_LENGTH: Final = struct.Struct(">I")
_NICENESS: Final = 10
_END_S: Final = 10.0


class PassFailed(Exception):
    """Raised when a pass met an unexpected error, which its process has written to the broker's log."""


class Failure(NamedTuple):
    """A pass that raised: an error number of the system for OSError, an error code for KafkaError."""

    message: str
    errno: int | None = None
    code: int | None = None
    is_corrupt: bool = False

    def error(self) -> Exception:
        if self.errno is not None:
            return OSError(self.errno, self.message)
        if self.code is not None:
            return KafkaError(ErrorCode(self.code), self.message)
        return CorruptSegment(self.message) if self.is_corrupt else PassFailed(self.message)


# The broker's side


async def in_process(task: CleaningTask, bytes_per_second: float) -> AsyncGenerator[Step, None]:
    """Yield the steps of a pass but its progress. Raises as `clean` does; PassInterrupted when the process died, PassFailed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from {__name__} import main; main()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    source, target = process.stdout, process.stdin
    if source is None or target is None:
        raise InvariantBroken("both were asked for as pipes")
    try:
        target.write(_message((task, bytes_per_second)))
        has_task = False
        while True:
            try:
                # Once, because it raises when the process is gone: steps of one that has done its work are still to be read.
                if not has_task:
                    await target.drain()
                    has_task = True
                (length,) = _LENGTH.unpack(await source.readexactly(_LENGTH.size))
                step = pickle.loads(await source.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError) as problem:
                status = await _wait_for_child(process)
                raise PassInterrupted(f"the process that made it ended with status {status}") from problem
            if step is None:
                return
            if isinstance(step, Failure):
                raise step.error()
            yield step
    finally:
        target.close()
        if await _wait_for_child(process) is not None:
            with suppress(
                ConnectionError
            ):  # of a child that ended before it read all: what is not retrieved would be logged
                await target.wait_closed()


async def _wait_for_child(process: asyncio.subprocess.Process) -> int | None:
    """Return the exit status of a child that is about to end, or kill one that does not in time.

    Not by `asyncio.wait_for`, which up to Python 3.11 forgets a cancellation that comes together with the result: the worker whose pass
    this was would go on, and the stop of its broker would wait for it for ever.
    """
    if process.returncode is not None:
        return process.returncode
    try:
        async with asyncio.timeout(_END_S):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()


def _message(content: object) -> bytes:
    data = pickle.dumps(content)
    return _LENGTH.pack(len(data)) + data


# The child's side


def main() -> None:
    """Make the pass that standard input asks for."""
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the broker and to us; the broker decides
    source, target = sys.stdin.buffer, sys.stdout.buffer
    (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
    task, bytes_per_second = pickle.loads(source.read(length))
    threading.Thread(target=_end_with_broker, daemon=True).start()
    for message in _results(task, bytes_per_second):
        target.write(_message(message))
        target.flush()


def _results(task: CleaningTask, bytes_per_second: float) -> Iterator[Step | Failure | None]:
    throttle = Throttle(bytes_per_second, time.monotonic())
    try:
        for step in clean(task, OsDisk()):
            if isinstance(step, Progress):
                time.sleep(throttle.pause_s(step.bytes, time.monotonic()))
            else:
                yield step
        yield None
    except CorruptSegment as problem:
        yield Failure(str(problem), is_corrupt=True)
    except MemoryError:
        raise  # the process ends: an interrupted pass
    except OSError as problem:
        yield Failure(str(problem), errno=problem.errno)
    except KafkaError as problem:
        yield Failure(str(problem), code=int(problem.code))
    except Exception as problem:
        traceback.print_exc()
        yield Failure(repr(problem))


def _end_with_broker() -> None:
    """End this process when the broker closes its end of the pipe or dies; it writes nothing after the task.

    By the descriptor, because an interpreter that ends aborts when a thread holds the lock of `sys.stdin`.
    """
    os.read(0, 1)
    os._exit(1)
