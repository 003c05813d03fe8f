"""Several clusters in one console, of which one may be away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kafkalite.client.errors import NoBrokersAvailableError
from kafkalite.console.access import Access
from kafkalite.console.app import FILES, Console, Ports
from kafkalite.console.clusters import Cluster, Clusters
from kafkalite.testing.simulation import virtual_time
from tests.unit.clocks import HandClock
from tests.unit.console.asgi_client import Answer, ask
from tests.unit.console.fake_admin import FakeAdmin
from tests.unit.console.fake_brokers import FakeBrokers

REASON = "no broker can be reached (staging:9092: no route)"


class Scene:
    """Two clusters: `staging` has the topic `s`, `production` the topic `p`."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.admins = {"staging": FakeAdmin({"s": 1}), "production": FakeAdmin({"p": 1})}
        self.away: set[str] = set()
        self.failure: Exception | None = None
        """What connecting to one that is away raises; without it NoBrokersAvailableError."""
        self.told: list[str] = []
        self.attempts: list[str] = []
        self._access = Access(read_only=read_only)
        clusters = [Cluster(name, f"{name}:9092", lambda name=name: self._connect(name)) for name in self.admins]  # type: ignore[misc]
        self.clusters = Clusters(clusters, self._access, self.told.append)

    @asynccontextmanager
    async def _connect(self, name: str) -> AsyncIterator[Console]:
        self.attempts.append(name)
        if name in self.away:
            raise self.failure or NoBrokersAvailableError({f"{name}:9092": "no route"})
        admin = self.admins[name]
        ports = Ports(admin, admin, FakeBrokers(admin), None, admin.open_producer, None, HandClock(1_000_000))  # type: ignore[arg-type]
        console = Console(ports, self._access, f"{name} ({name}:9092)")
        await console.state.look()
        await console.survey.run_round()
        yield console

    async def ask(self, target: str, body: Any = None) -> Answer:
        return await ask(self.clusters.app, target, body)

    async def topics(self, name: str) -> list[str]:
        return [row["name"] for row in (await self.ask(f"/clusters/{name}/api/topics")).json["rows"]]


def run(scenario: Callable[[Scene], Awaitable[None]], *, away: str = "", **options: Any) -> None:
    async def all_of_it() -> None:
        scene = Scene(**options)
        scene.away = {away} if away else set()
        async with scene.clusters.running():
            await asyncio.sleep(0.5)
            await scenario(scene)

    virtual_time.run(all_of_it())


def test_each_cluster_has_its_screens_under_its_name() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.topics("staging") == ["s"] and await scene.topics("production") == ["p"]
        for path, file in FILES.items():
            assert (await scene.ask(f"/clusters/production{path}")).body == file.read()
        found = (await scene.ask("/clusters/production/api/clusters")).json
        assert found["current"] == "production"
        assert found["clusters"][0] == {"name": "staging", "servers": "staging:9092", "problem": None}
        for asked, place in (("/", "clusters/staging/"), ("/clusters/production", "production/")):
            answer = await scene.ask(asked)
            assert (answer.status, answer.headers["location"]) == (307, place)
        answer = await scene.ask("/clusters/absent/api/topics")
        assert answer.status == 404 and "there are staging, production" in answer.json["error"]
        assert (await scene.ask("/api/topics")).status == 404

    run(scenario)


def test_one_that_is_away_does_not_harm_the_others_and_is_tried_again() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.topics("production") == ["p"]
        answer = await scene.ask("/clusters/staging/api/console")
        assert answer.status == 502
        assert answer.json["error"].startswith(f"staging (staging:9092) is not connected: {REASON}")
        assert (await scene.ask("/clusters/staging/")).status == 200, "the page is there, and says so"
        for name in ("staging", "production"):
            first, second = (await scene.ask(f"/clusters/{name}/api/clusters")).json["clusters"]
            assert first["problem"] == REASON and second["problem"] is None
        await asyncio.sleep(60)
        assert 5 < scene.attempts.count("staging") < 12 and scene.attempts.count("production") == 1
        assert scene.told == [f"staging: {REASON}; it is tried again"], "once"
        scene.away.clear()
        await asyncio.sleep(20)
        assert await scene.topics("staging") == ["s"]
        scene.admins["staging"].is_away = True
        await asyncio.sleep(20)
        first, _ = (await scene.ask("/clusters/production/api/clusters")).json["clusters"]
        assert "Connection refused" in first["problem"] and await scene.topics("production") == ["p"]

    run(scenario, away="staging")


def test_an_unexpected_error_is_reported_and_gives_no_cluster_up() -> None:
    async def scenario(scene: Scene) -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        scene.away, scene.failure = {"staging"}, RuntimeError("nobody foresaw it")
        async with scene.clusters.running():
            await asyncio.sleep(0.5)
            answer = await scene.ask("/clusters/staging/api/topics")
            assert "unexpected error: RuntimeError('nobody foresaw it')" in answer.json["error"]
            assert await scene.topics("production") == ["p"] and reported == ["the console of staging failed"]
            scene.away.clear()
            await asyncio.sleep(5)
            assert await scene.topics("staging") == ["s"]

    virtual_time.run(scenario(Scene()))


def test_the_rules_of_access_are_those_of_every_cluster() -> None:
    async def scenario(scene: Scene) -> None:
        for name in scene.admins:
            assert (await scene.ask(f"/clusters/{name}/api/console")).json["read_only"]
            answer = await scene.ask(f"/clusters/{name}/api/actions/create-topic", {"topic": "new", "execute": True})
            assert answer.status == 403 and "only reads" in answer.json["error"]
            refused = await ask(scene.clusters.app, f"/clusters/{name}/api/topics", origin="http://elsewhere")
            assert refused.status == 403
        refused = await ask(scene.clusters.app, "/clusters/staging/api/topics", host="elsewhere:8980")
        assert refused.status == 421

    run(scenario, read_only=True)


def test_a_console_of_one_cluster_names_no_others() -> None:
    async def scenario() -> None:
        admin = FakeAdmin({"t": 1})
        ports = Ports(admin, admin, FakeBrokers(admin), None, admin.open_producer, None, HandClock(1_000_000))  # type: ignore[arg-type]
        console = Console(ports, Access(), "h:9092")
        assert (await ask(console.app, "/api/clusters")).json == {"clusters": [], "current": None}

    asyncio.run(scenario())
