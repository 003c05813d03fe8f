"""What the console asks a cluster: each thing once, however many topics there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kafkalite.client import Admin
from kafkalite.client.admin.options import AdminOptions
from kafkalite.console import topics
from kafkalite.console.state_sources import BrokerConnections
from kafkalite.console.state_survey import StateSurvey
from kafkalite.console.survey import Survey
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.testing.simulation.virtual_time import VirtualClock
from tests.unit.client.fake_broker import HANG, FakeCluster

TOPICS = 2_000
PORTION = 500


def test_a_look_at_very_many_topics_asks_for_their_metadata_once() -> None:
    """It asked twice for each, and in the first round for all before it, too: 2.7 s of processor time for 10,000 topics, now 0.3."""
    cluster = FakeCluster({f"topic-{number:05}": 1 for number in range(TOPICS)})

    async def scenario() -> None:
        async with console_of(cluster) as (_, state, survey):
            for _ in range(2):
                cluster.requests.clear()
                await state.look()
                assert len(state.topics) == TOPICS
                everything = [each for each in cluster.requests_of(ApiKey.METADATA) if each.topics is None]
                assert len(everything) == 1 and len(cluster.requests) <= 5, "the others ask for no topics"
                cluster.requests.clear()
                await survey.read_records()
                assert survey.problem is None and len(survey.ends) == TOPICS
                portions = TOPICS // PORTION  # all of one leader
                assert Counter(each.API.key for _, each in cluster.requests) == {ApiKey.LIST_OFFSETS: portions}

    virtual_time.run(scenario())


def test_the_screen_of_a_topic_takes_three_requests() -> None:
    cluster = FakeCluster({f"topic-{number}": 1 for number in range(3)})
    m = messages.describe_configs_response
    settings = m.DescribeConfigsResponse(results=[m.DescribeConfigsResult(resource_type=2, resource_name="topic-2")])

    async def scenario() -> None:
        async with console_of(cluster) as (admin, state, survey):
            await state.look()
            for name in cluster.topics:  # each as the first one: what was looked at before costs nothing any more
                settings.results[0].resource_name = name
                cluster.script[ApiKey.DESCRIBE_CONFIGS].append(settings)
                cluster.requests.clear()
                found = await topics.one_topic(admin, survey, name)
                assert found["settings_problem"] is None and found["partition_list"][0]["end_offset"] == 0
                asked = Counter(each.API.key for _, each in cluster.requests)
                assert asked == {ApiKey.LIST_OFFSETS: 2, ApiKey.DESCRIBE_CONFIGS: 1}

    virtual_time.run(scenario())


def test_figures_of_a_leader_that_hangs_are_missing_and_those_of_others_are_not() -> None:
    cluster = FakeCluster({"t": 2})

    def hang(broker: int, _: object) -> object:
        cluster.script[ApiKey.LIST_OFFSETS].append(hang)
        return HANG if broker == 1 else None

    async def scenario() -> None:
        async with console_of(cluster) as (admin, state, survey):
            await state.look()
            await survey.read_records()
            cluster.script[ApiKey.LIST_OFFSETS].append(hang)
            loop = asyncio.get_running_loop()
            begun_s = loop.time()
            await survey.read_records()
            await survey.read_records()
            assert loop.time() - begun_s < 15 and survey.problem
            assert survey.rates == {} and len(survey.ends) == 2, "a rate of one partition would be no rate of the topic"
            found = await topics.one_topic(admin, survey, "t", with_settings=False)
            assert [each["end_offset"] for each in found["partition_list"]] == [None, 0]
            assert "broker 1 did not tell offsets" in found["offsets_problem"]

    virtual_time.run(scenario())


@asynccontextmanager
async def console_of(cluster: FakeCluster) -> AsyncIterator[tuple[Admin, StateSurvey, Survey]]:
    options = AdminOptions(bootstrap_servers="fake:9001", opener=cluster.open)
    async with Admin(bootstrap_servers="fake:9001", opener=cluster.open) as admin:
        state = StateSurvey(BrokerConnections(options), None, VirtualClock())
        yield admin, state, Survey(admin, state, VirtualClock())
        await state.close()
