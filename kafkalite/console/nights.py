"""The results of the nightly jobs on Spark from their ledger: the rows of `kafkalite spark status`, which is run as a program.

It reads the ledger and the audits beside it, and needs neither Spark nor brokers. Its output is cached for a while.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.clock import Clock

_TIMEOUT_S: Final = 30.0
_KEPT_MS: Final = 30_000
_ERROR_BYTES: Final = 2_000


class Nights:
    """The ledger of an output folder or URI, None without one."""

    def __init__(self, output: str | None, clock: Clock) -> None:
        self._output, self._clock = output, clock
        self._known: dict[str, Any] = {}
        self._asked_ms = 0
        self._asking = asyncio.Lock()

    async def rows(self) -> dict[str, Any]:
        """Return a row for each job, topic and date; or `problem`."""
        if self._output is None:
            return {"rows": [], "problem": "no ledger was named: give --nights with the --output of the jobs"}
        async with self._asking:
            if not self._known or self._clock.now_ms() - self._asked_ms > _KEPT_MS:
                self._known = await self._ask(self._output)
                self._asked_ms = self._clock.now_ms()
        return self._known

    async def _ask(self, output: str) -> dict[str, Any]:
        command = (sys.executable, "-m", "spark_jobs", "status", "--output", output, "-o", "json")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                told, problem = await process.communicate()
        except TimeoutError:
            return {"rows": [], "problem": f"the ledger was not read within {_TIMEOUT_S:g} s"}
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            return {"rows": [], "problem": problem[-_ERROR_BYTES:].decode("utf-8", "replace")}
        return {"rows": json.loads(told), "problem": None}
