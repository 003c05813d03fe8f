"""A proxy between clients and one broker that knows requests: it loses answers of an API, or sends requests a second time.

    with FrameProxy("127.0.0.1:9092") as proxy:
        proxy.lose_answer(ApiKey.PRODUCE)      # the next one; then its connection is closed, as after a time without an answer
        proxy.repeat(ApiKey.PRODUCE)           # the next one is sent twice in a row; its client sees one answer

Answers come in the order of requests, so the n-th answer belongs to the n-th request; Produce with acks=0, which has none, must not pass.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from types import TracebackType
from typing import Any, Final

from kafkalite.local.ports import ReservedPort
from kafkalite.protocol.apis import ApiKey

HOST: Final = "127.0.0.1"
_KEEP, _DROP, _CLOSE = "keep", "drop", "close"


class FrameProxy:
    """See the module. `done` counts the faults that struck, by API."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._port = ReservedPort()
        self._losing: Counter[ApiKey] = Counter()
        self._repeating: Counter[ApiKey] = Counter()
        self.done: Counter[ApiKey] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._thread.start()
        self._started.wait(10)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port.number}"

    def lose_answer(self, api: ApiKey, times: int = 1) -> None:
        self._losing[api] += times

    def repeat(self, api: ApiKey, times: int = 1) -> None:
        self._repeating[api] += times

    @property
    def left(self) -> int:
        """Faults that have not struck yet."""
        return sum(self._losing.values()) + sum(self._repeating.values())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._port.release()

    def __enter__(self) -> FrameProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, HOST, self._port.number))
        self._loop.call_soon(self._started.set)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            fates: deque[tuple[str, ApiKey | None]] = deque()
            pumps = [
                asyncio.ensure_future(self._requests(reader, far_writer, fates)),
                asyncio.ensure_future(self._answers(far_reader, writer, fates)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            for each in (writer, far_writer):
                if each is not None:
                    each.close()

    async def _requests(self, reader: Any, writer: Any, fates: deque[tuple[str, ApiKey | None]]) -> None:
        while True:
            frame = await _frame(reader)
            key = int.from_bytes(frame[4:6], "big", signed=True)
            api = ApiKey(key) if key in ApiKey.__members__.values() else None
            if api is not None and self._losing[api]:
                self._losing[api] -= 1
                fates.append((_CLOSE, api))
            else:
                fates.append((_KEEP, None))
            if api is not None and self._repeating[api]:
                self._repeating[api] -= 1
                fates.append((_DROP, api))
                frame += frame
            writer.write(frame)
            await writer.drain()

    async def _answers(self, reader: Any, writer: Any, fates: deque[tuple[str, ApiKey | None]]) -> None:
        while True:
            frame = await _frame(reader)
            fate, api = fates.popleft()
            if api is not None:
                self.done[api] += 1
            if fate == _CLOSE:
                return
            if fate == _KEEP:
                writer.write(frame)
                await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    try:
        length = await reader.readexactly(4)
        return length + await reader.readexactly(int.from_bytes(length, "big"))
    except asyncio.IncompleteReadError:
        raise ConnectionResetError from None
