"""Wires the parts of the console, and has the table of its paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kafkalite import __version__
from kafkalite.administration.group_offsets import HasMembersError, NothingThereError
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.console import cluster, groups, reading, topics, transactions, writing
from kafkalite.console.access import Access, Guard
from kafkalite.console.actions.outcomes import Outcomes
from kafkalite.console.actions.plan import Scene, Where, act
from kafkalite.console.actions.table import ACTIONS
from kafkalite.console.events import Event, Streams, TooManyStreamsError
from kafkalite.console.freshness import Moment, Part, describe_parts
from kafkalite.console.nights import Nights
from kafkalite.console.parameters import BadRequestError, Parameters
from kafkalite.console.state_sources import ZooKeeperStore
from kafkalite.console.state_survey import StateSurvey
from kafkalite.console.survey import Survey
from kafkalite.console.znodes import znode
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition
from kafkalite.web import CSS, JAVASCRIPT, SHARED, PageFile
from zk.store import NoNodeError, StoreError

if TYPE_CHECKING:
    from starlette.requests import Request

    from kafkalite.client import Admin, Consumer, Producer
    from kafkalite.clock import Clock
    from kafkalite.console.schemas.registry import SchemaRegistry
    from kafkalite.console.state_sources import BrokerSource
    from zk.store import Store

_SCREENS: Final = (
    "load",
    "app",
    "as_of",
    "clusters",
    "screen",
    "overview",
    "topics",
    "transactions",
    "topic",
    "messages",
    "json",
    "produce",
    "groups",
    "zookeeper",
    "brokers",
    "access",
    "action",
    "timeline",
    "times",
    "nights",
)
FILES: Final = {
    "/": PageFile("kafkalite.console", "page", "index.html", "text/html; charset=utf-8"),
    "/console.css": PageFile("kafkalite.console", "page", "console.css", CSS),
    "/icon.svg": PageFile("kafkalite.console", "page", "icon.svg", "image/svg+xml"),
    **{f"/{name}.js": PageFile("kafkalite.console", "page", f"{name}.js", JAVASCRIPT) for name in _SCREENS},
    **SHARED,
}
"""The files of the page by path."""

_STATUS_OF: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
    ErrorCode.NETWORK_EXCEPTION: HTTPStatus.BAD_GATEWAY,
    ErrorCode.BROKER_NOT_AVAILABLE: HTTPStatus.BAD_GATEWAY,
}


@dataclass(frozen=True)
class Ports:
    """Connections to the cluster. `store` is None without an address of ZooKeeper.

    Each survey has connections of its own: on one connection, requests of a person would wait behind the metadata of all topics, and the
    state of the cluster behind its figures.
    """

    admin: Admin
    survey_admin: Admin
    brokers: BrokerSource
    open_consumer: Callable[..., AbstractAsyncContextManager[Consumer]]
    open_producer: Callable[[], AbstractAsyncContextManager[Producer]]
    store: Store | None
    clock: Clock
    nights_output: str | None = None
    registry: SchemaRegistry | None = None
    zookeeper_problem: str | None = None
    """Why there is no store, where somebody said where ZooKeeper is."""


_NAMES: Final = {
    "/api/reassignments": "moves of partitions",
    "/api/group": "the group",
    "/api/nights": "the ledger",
    "/api/transactions": "transactions",
    "/api/hanging": "hanging transactions",
    "/api/topics/{topic}/records": "records",
}
"""What an answer that is read on request is called on the page."""
_LIMITS_MS: Final = {"/api/reassignments": 10_000, "/api/group": 10_000, "/api/transactions": 20_000}
"""Ages from which answers that a page asks for again and again are late."""

Answer = Callable[["Request"], Awaitable[dict[str, Any]]]


class Console:
    """The parts, and the application that serves them."""

    def __init__(self, ports: Ports, access: Access, context: str, where: Where | None = None) -> None:
        self._ports, self._access, self._context, self._where = ports, access, context, where or Where()
        self._admin = ports.admin
        zookeeper = None if ports.store is None else ZooKeeperStore(ports.store, ports.clock)
        self.state = StateSurvey(ports.brokers, zookeeper, ports.clock, ports.zookeeper_problem)
        self.survey = Survey(ports.survey_admin, self.state, ports.clock)
        self._nights = Nights(ports.nights_output, ports.clock)
        self._source = reading.Source(ports.open_consumer, ports.registry)
        self._streams, self._outcomes = Streams(), Outcomes()
        self._overview_version, self._overview_made = (-1, -1), dict[str, Any]()
        self.site = Starlette(routes=self._routes(), lifespan=lambda _: self.running())
        """Serves everybody; `app` serves whom `access` admits."""
        self.app = Guard(self.site, access)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at the cluster meanwhile."""
        self.state.start()
        self.survey.start()
        try:
            yield
        finally:
            await self._streams.close()
            await self._outcomes.close()
            await self.survey.close()
            await self.state.close()

    def describe_problem(self) -> str | None:
        """Return what is wrong with the cluster, as far as it is known without asking it; None when it answers."""
        silent = [f"broker {broker} does not answer" for broker in self.state.silent_brokers()]
        return next(filter(None, (*(part.problem for part in self.state.parts()), *silent)), None)

    def _routes(self) -> list[Route]:
        reads: dict[str, Answer] = {
            "/api/console": self._about,
            "/api/overview": self._overview,
            "/api/topics": self._of_survey(lambda asked: topics.topic_list(self.survey, asked), "records", "sizes"),
            "/api/topics/{topic}": self._topic,
            "/api/topics/{topic}/records": self._records,
            "/api/topics/{topic}/record": self._record,
            "/api/groups": self._of_survey(lambda asked: groups.group_list(self.survey, asked), "groups"),
            "/api/group": lambda request: groups.one_group(self._admin, self.survey, _query(request).text("id")),
            "/api/brokers/{broker}": lambda request: cluster.broker_settings(
                self._admin, request.path_params["broker"]
            ),
            "/api/brokers/{broker}/partitions": self._of_survey(
                lambda asked: cluster.broker_partitions(self.survey, asked), "sizes"
            ),
            "/api/topics/{topic}/groups": self._of_survey(
                lambda asked: groups.groups_of_topic(self.survey, asked.text("topic", longest=300)), "groups"
            ),
            "/api/transactions": lambda request: transactions.transaction_list(self._admin, _query(request)),
            "/api/hanging": lambda request: transactions.hanging(self._admin, self.survey, _query(request)),
            "/api/reassignments": lambda _: cluster.reassignments(self._admin),
            "/api/permissions": lambda _: cluster.permissions(self._admin),
            "/api/timeline": self._of_survey(
                lambda asked: cluster.timeline(
                    self.survey, asked.text("event", longest=30), asked.number("known", -1, -1)
                )
            ),
            "/api/znode": self._znode,
            "/api/nights": lambda _: self._nights.rows(),
        }
        changes: dict[str, Answer] = {
            "/api/topics/{topic}/produce": self._produce,
            "/api/group/reset": self._reset,
            "/api/actions/{action}": self._act,
        }
        streams = {"/api/topics/{topic}/search": reading.search, "/api/topics/{topic}/follow": reading.follow}
        return [
            *file_routes(),
            Route("/api/clusters", _json(_no_others)),
            *(Route(path, _json(self._with_age(path, answer))) for path, answer in reads.items()),
            *(Route(path, self._outcomes.once(_json(answer)), methods=["POST"]) for path, answer in changes.items()),
            *(Route(path, self._stream(events)) for path, events in streams.items()),
        ]

    def _with_age(self, path: str, answer: Answer) -> Answer:
        """Return an endpoint whose answers say as of when they are: what is read on request, as of the request."""

        async def answer_with_age(request: Request) -> dict[str, Any]:
            asked = Moment.now(self._ports.clock)
            found = await answer(request)
            if "as_of" in found:
                return found
            part = Part(_NAMES.get(path, "this"), asked, _LIMITS_MS.get(path))
            return {**found, "as_of": describe_parts(self._ports.clock, part)}

        return answer_with_age

    def _of_survey(self, find: Callable[[Parameters], dict[str, Any]], *figures: str) -> Answer:
        """Return an endpoint that answers from memory, with the ages of the state and of these figures."""

        async def answer(request: Request) -> dict[str, Any]:
            await self.state.wait_fresh()
            asked = Parameters({**request.query_params, **request.path_params})
            return {**find(asked), "as_of": self._ages(*figures)}

        return answer

    def _ages(self, *figures: str) -> list[dict[str, Any]]:
        return describe_parts(self._ports.clock, *self.state.parts(), *self.survey.parts(*figures))

    async def _overview(self, request: Request) -> dict[str, Any]:
        """Return the overview, which is computed once for each answer of the surveys; without plots for a page that has them."""
        await self.state.wait_fresh()
        version = self.state.version, self.survey.rounds
        if self._overview_version != version:
            self._overview_version, self._overview_made = version, cluster.overview(self.survey)
        found = {**self._overview_made, "as_of": self._ages("records", "sizes", "groups")}
        if _query(request).number("rounds", -1, -1) == self.survey.rounds:
            found["history"] = None
        return found

    async def _topic(self, request: Request) -> dict[str, Any]:
        await self.state.wait_fresh()
        with_settings = not _query(request).flag("without_settings")
        found = await topics.one_topic(self._admin, self.survey, _topic(request), with_settings=with_settings)
        return {**found, "as_of": self._ages("records", "sizes")}

    async def _about(self, _: Request) -> dict[str, Any]:
        return {
            "context": self._context,
            "servers": self._where.servers,
            "read_only": self._access.read_only,
            "has_zookeeper": self._ports.store is not None,
            "has_nights": self._ports.nights_output is not None,
            "version": __version__,
            "unanswering": self.state.describe_unanswering(),
        }

    async def _records(self, request: Request) -> dict[str, Any]:
        return await reading.page(self._source, _topic(request), _query(request))

    async def _record(self, request: Request) -> dict[str, Any]:
        asked = _query(request)
        place = TopicPartition(_topic(request), asked.number("partition", 0, highest=2**31 - 1))
        return await reading.one_record(self._source, place, asked)

    async def _produce(self, request: Request) -> dict[str, Any]:
        return await writing.produce(self._ports.open_producer, _topic(request), await _body(request))

    async def _reset(self, request: Request) -> dict[str, Any]:
        asked = await _body(request)
        return await groups.reset(self._admin, asked.text("id"), asked, self._where)

    async def _act(self, request: Request) -> dict[str, Any]:
        """Return the plan of an action, executed if the request says so; then the surveys look at once."""
        planner = ACTIONS.get(request.path_params["action"])
        if planner is None:
            raise BadRequestError(f"there is no action {request.path_params['action']}; there are {', '.join(ACTIONS)}")
        scene = Scene(self._admin, self.survey, await _body(request))
        found = await act(planner, scene, self._where)
        if found["is_done"]:
            self.survey.look_soon()
        return found

    async def _znode(self, request: Request) -> dict[str, Any]:
        if self._ports.store is None:
            raise BadRequestError("nobody said where ZooKeeper is: --zookeeper, or zookeeper.connect in the context")
        try:
            return await znode(self._ports.store, _query(request).text("path", "/"))
        except ValueError as problem:
            raise BadRequestError(str(problem)) from None

    def _stream(
        self, events: Callable[..., AsyncGenerator[Event]]
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def endpoint(request: Request) -> Response:
            async def follow_events() -> AsyncGenerator[Event]:
                try:
                    async with aclosing(events(self._source, _topic(request), _query(request))) as found:
                        async for each in found:
                            yield each
                except (ClientError, BadRequestError) as problem:
                    yield "problem", {"error": str(problem)}

            try:
                return self._streams.respond(follow_events())
            except TooManyStreamsError as problem:
                return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))

        return endpoint


def _json(answer: Answer) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return an endpoint that answers with JSON, also after an error."""

    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await answer(request))
        except BadRequestError as problem:
            return _refusal(HTTPStatus.BAD_REQUEST, str(problem))
        except (HasMembersError, NothingThereError) as problem:
            return _refusal(HTTPStatus.CONFLICT, str(problem))
        except NoNodeError as problem:
            return _refusal(HTTPStatus.NOT_FOUND, f"there is no znode {problem.path}")
        except AdminError as problem:
            texts = [str(each) for each in problem.failures.values()]
            return _refusal(_status_of(problem), "; ".join(texts[:5]))
        except ClientError as problem:
            return _refusal(_status_of(problem), str(problem))
        except TimeoutError as problem:
            return _refusal(HTTPStatus.GATEWAY_TIMEOUT, str(problem) or "the cluster did not answer in time")
        except (StoreError, OSError) as problem:
            return _refusal(HTTPStatus.BAD_GATEWAY, str(problem) or type(problem).__name__)

    return endpoint


def _status_of(problem: ClientError) -> HTTPStatus:
    if problem.code.name.endswith("AUTHORIZATION_FAILED"):
        return HTTPStatus.FORBIDDEN
    return _STATUS_OF.get(problem.code, HTTPStatus.CONFLICT)


def _refusal(status: HTTPStatus, text: str) -> Response:
    return JSONResponse({"error": text}, status)


async def _no_others(_: Request) -> dict[str, Any]:
    """Return what `kafkalite.console.clusters` answers, for a console of one cluster."""
    return {"clusters": [], "current": None}


def file_routes() -> list[Route]:
    """Return the routes of the page's files."""
    return [Route(path, _file(file)) for path, file in FILES.items()]


def _file(file: PageFile) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def endpoint(_: Request) -> Response:
        content = await asyncio.get_running_loop().run_in_executor(None, file.read)
        return Response(content, media_type=file.content_type)

    return endpoint


def _query(request: Request) -> Parameters:
    return Parameters(dict(request.query_params))


def _topic(request: Request) -> str:
    return str(request.path_params["topic"])


async def _body(request: Request) -> Parameters:
    """Return the JSON object of a request. Raises BadRequestError."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequestError("the request is no JSON object")
    return Parameters(found)
