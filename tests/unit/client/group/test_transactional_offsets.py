"""A consumer's place in its group while transactions commit the group's offsets."""

from __future__ import annotations

from functools import partial

import pytest

from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import committed, group_cluster
from tests.unit.client.hostile_broker import T0, consumer, run


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_offsets_that_a_transaction_is_about_to_commit_are_waited_for(isolation: str) -> None:
    """With the old ones, the next owner of a partition would process records twice that the transaction has dealt with."""

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", isolation_level=isolation, enable_auto_commit=False) as target:
            target.subscribe(["t"])
            assert await target.getmany(timeout_ms=1000) == {}
            assert await target.position(T0) == 0
            assert await target.committed(T0) is None
        assert [request.require_stable for request in cluster.requests_of(ApiKey.OFFSET_FETCH)] == [True, True]

    run(scenario, group_cluster())


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_an_older_coordinator_which_may_not_know_of_transactions_is_asked_all_the_same(version: int) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.max_versions[ApiKey.OFFSET_FETCH] = version
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            assert await target.committed(T0) == 5

    run(scenario, group_cluster(offset_fetch=partial(committed, offset=5)))
