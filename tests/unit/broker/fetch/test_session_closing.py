"""The end of a fetch session of very many partitions: the loop turns meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkalite.types import TopicPartition
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.requests.test_much_work import Site, fetch_of, many_leaders, play


def test_a_session_of_very_many_partitions_was_closed_in_one_turn() -> None:
    """A follower of 33,000 partitions whose connection was lost held its leader's event loop for 0.1 s."""

    async def scenario(site: Site) -> None:
        count = 9000
        parts = many_leaders(count)
        parts.fetch_sessions._partitions_max = 2 * count
        first = await parts.ask(fetch_of(list(range(count)), session_epoch=0, max_wait_ms=0), 11)
        unwatched: Counter[int] = Counter()
        unwatch = parts.fetch_sessions._unwatch

        with measured_turns() as turns:

            def count_unwatched(topic_partition: TopicPartition, session: Any) -> None:
                unwatched[turns.count] += 1
                unwatch(topic_partition, session)

            parts.fetch_sessions._unwatch = count_unwatched
            again = fetch_of([0], session_id=first.session_id, session_epoch=0, max_wait_ms=0)
            second = await parts.ask(again, 11)
        assert list(parts.fetch_sessions.sessions) == [second.session_id] and parts.fetch_sessions.partitions == 1
        assert sum(unwatched.values()) == count and max(unwatched.values()) <= 2000

    play(scenario)
