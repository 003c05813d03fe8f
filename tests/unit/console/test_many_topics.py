"""A console of 10,000 topics: no answer takes long, and no turn of the event loop keeps others waiting."""

from __future__ import annotations

import asyncio
import time

from tests.unit.console.fake_admin import FakeAdmin
from tests.unit.console.test_app import Scene, run

TOPICS = 10_000
LONGEST_S = 0.3


def test_ten_thousand_topics_are_answered_without_a_wait() -> None:
    """Processor time, so that a busy machine does not count; of three, the least."""
    admin = FakeAdmin({f"topic-{number:05}": 2 for number in range(TOPICS)})

    async def scenario(scene: Scene) -> None:
        took: dict[str, float] = {}
        for target in (
            "/api/topics",
            "/api/topics?filter=999&page=1",
            "/api/topics?sort=bytes",
            "/api/topics?sort=records_per_s&reverse=1",
            "/api/topics?sort=unwell&unwell=1",
            "/api/topics/topic-04711?without_settings=1",
            "/api/overview",
            "/api/timeline",
            "/api/brokers/2/partitions?page=20",
            "/api/topics/topic-00001/groups",
        ):
            least = LONGEST_S
            for _ in range(3):
                scene.console.state.version += 1  # the survey has looked since: nothing is there already
                begun = time.process_time()
                await scene.get(target)
                least = min(least, time.process_time() - begun)
            took[target] = least
        assert max(took.values()) < LONGEST_S, took

    run(scenario, admin)


def test_a_look_at_ten_thousand_topics_lets_others_go_on() -> None:
    """The longest turn of the event loop in processor time while all topics are taken in and every leader changes."""
    admin = FakeAdmin({f"topic-{number:05}": 2 for number in range(TOPICS)})

    async def scenario(scene: Scene) -> None:
        admin.topics = {name: [(2, 1, (1, 2))] * 2 for name in admin.topics}
        told = await scene.brokers.ask_topics("h", 9001)
        longest, before = 0.0, time.process_time()
        taking = asyncio.create_task(scene.console.state._topic_states.take(told))
        while not taking.done():
            await asyncio.sleep(0)
            now = time.process_time()
            longest, before = max(longest, now - before), now
        await taking
        assert longest < LONGEST_S, longest
        rows = (await scene.get("/api/timeline"))["rows"]
        assert sum(1 + row["more"] for row in rows) == 2 * TOPICS

    run(scenario, admin)
