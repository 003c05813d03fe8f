"""Several clusters in one console. Each has the pages and answers of a console of its own, below `/clusters/NAME/`, so that screens know of
one cluster only; `/` leads to the first.

A cluster is connected to in the background, and again after a failure: one that does not answer has its own pages say so, and costs the
others nothing. The rules of access are those of the whole console.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from kafkalite.backoff import Backoff
from kafkalite.client.errors import ClientError
from kafkalite.console.access import Access, Guard
from kafkalite.console.app import Console, file_routes
from kafkalite.lifecycle import end_tasks, report, start_task

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

_RETRIES: Final = Backoff(1_000, 15_000)
"""Delays before a cluster is connected to again: 1 s, then twice as long each time, at most 15 s."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster by the name that its addresses have. `connect` opens its console, and raises ClientError, OSError or ValueError."""

    name: str
    servers: str
    connect: Callable[[], AbstractAsyncContextManager[Console]]


class ConnectedCluster:
    """The answers of one cluster, or why there are none yet."""

    def __init__(self, cluster: Cluster, tell: Callable[[str], None]) -> None:
        self.cluster, self._tell = cluster, tell
        self._console: Console | None = None
        self._problem = "it has not been connected to yet"

    async def keep_connected(self) -> None:
        """Connect, again and again until it succeeds; then serve until this is cancelled."""
        failures = 0
        while True:
            try:
                async with self.cluster.connect() as console, console.running():
                    self._console = console
                    await asyncio.Event().wait()
            except (ClientError, OSError, ValueError) as problem:
                self._problem = str(problem) or type(problem).__name__
            except Exception as problem:  # unexpected, but neither this cluster nor another one is given up for it
                report(f"the console of {self.cluster.name} failed", problem)
                self._problem = f"unexpected error: {problem!r}"
            finally:
                self._console = None
            failures += 1
            if failures == 1:
                self._tell(f"{self.cluster.name}: {self._problem}; it is tried again")
            await asyncio.sleep(_RETRIES.delay_ms(failures) / 1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as the cluster's console; without a connection refuse it with the reason."""
        if self._console is not None:
            await self._console.site(scope, receive, send)
            return
        text = f"{self.cluster.name} ({self.cluster.servers}) is not connected: {self._problem}. It is tried again."
        await JSONResponse({"error": text}, HTTPStatus.BAD_GATEWAY)(scope, receive, send)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the servers, and what is wrong with it or None."""
        problem = self._problem if self._console is None else self._console.describe_problem()
        return {"name": self.cluster.name, "servers": self.cluster.servers, "problem": problem}


class Clusters:
    """The application that serves several clusters, of which the first is shown when none is named."""

    def __init__(self, clusters: Sequence[Cluster], access: Access, tell: Callable[[str], None]) -> None:
        self._clusters = [ConnectedCluster(each, tell) for each in clusters]
        self.app = Guard(Starlette(routes=self._routes(), lifespan=lambda _: self.running()), access)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep all clusters connected meanwhile."""
        tasks = [start_task(each.keep_connected(), f"console of {each.cluster.name}") for each in self._clusters]
        try:
            yield
        finally:
            await end_tasks(tasks)

    def _routes(self) -> list[Route | Mount]:
        first = self._clusters[0].cluster.name

        async def lead_to_first(_: Request) -> Response:
            return RedirectResponse(f"clusters/{first}/")

        below = [Mount(f"/clusters/{each.cluster.name}", routes=self._routes_of(each)) for each in self._clusters]
        return [Route("/", lead_to_first), *below, Route("/clusters/{name:path}", self._refuse_unknown)]

    def _routes_of(self, cluster: ConnectedCluster) -> list[Route | Mount]:
        async def list_clusters(_: Request) -> Response:
            found = [each.to_dict() for each in self._clusters]
            return JSONResponse({"clusters": found, "current": cluster.cluster.name})

        return [*file_routes(), Route("/api/clusters", list_clusters), Mount("/", app=cluster)]

    async def _refuse_unknown(self, request: Request) -> Response:
        name = request.path_params["name"].partition("/")[0]
        names = [each.cluster.name for each in self._clusters]
        if name in names:
            return RedirectResponse(f"{name}/")
        text = f"there is no cluster {name}; there are {', '.join(names)}"
        return JSONResponse({"error": text}, HTTPStatus.NOT_FOUND)
