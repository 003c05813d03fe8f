"""Our own client of ZooKeeper with servers of other versions than the contract tests have: what is new since 3.6 is not needed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract import test_store
from tests.contract.conftest import Stores, native_stores
from tests.peers import apache_kafka, old_brokers
from zk.servers.ensemble import Ensemble

_chroots = itertools.count()


def jars_of(version: str) -> list[Path]:
    """Of the Apache Kafka that carries this ZooKeeper."""
    home = apache_kafka.fetch() if version == "3.8.4" else old_brokers.fetch(old_brokers.WITH_TIMESTAMPS)
    assert (home / f"zookeeper-{version}.jar").exists()
    return sorted(home.glob("*.jar"))


@pytest.fixture(scope="module", params=["3.4.9", "3.8.4"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path_factory.mktemp("zookeeper"), force_sync=False, classpath=jars_of(request.param))
    asyncio.run(ensemble.start(60))
    yield ensemble
    asyncio.run(ensemble.stop())


@pytest.mark.parametrize(
    "contract",
    [
        test_store.test_more_znodes_than_one_request_takes,
        test_store.test_multi_is_all,
        test_store.test_multi_is_nothing,
        test_store.test_a_lost_connection_keeps_session_ephemerals_requests_and_watches,
        test_store.test_expiry_ends_ephemerals_and_watches_and_a_new_session_follows,
    ],
)
def test_a_server_of_another_version_keeps_the_contract(server: Ensemble, contract: Callable[[Stores], None]) -> None:
    contract(native_stores(f"{server.connect}/{next(_chroots)}"))
