"""What went wrong in other implementations of the protocol, held against ours: a test for each that needs no authentication.

Others lie beside what they are about: buffers in flight (CVE-2026-35554) in `client/producer/test_hostile_brokers`, allocation before
authentication (CVE-2022-34917) in `net/test_frames` and `protocol/test_hostile_bytes`, empty arrays in requests of controllers
(CVE-2026-83525) also in the table of `tests/peers/hostile_bytes`, compressed data that lies in `protocol/test_compression`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import cramjam
import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.control_requests import LeaderAndIsr, StopReplica
from kafkalite.errors import KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.compression import Codec, decompress
from kafkalite.testing.simulation import virtual_time
from tests.fuzz.brokers import Brokers
from tests.unit.broker.test_replicas import Node, on_node
from tests.unit.broker.test_user_credentials import Scene, upsertion
from zk.memory_store import MemoryStore, MemoryZooKeeper
from zk.top_level import create_top_level
from zk.znodes import ConfigEntity, MalformedZnodeError

BASE = {"zookeeper.connect": "z", "log.dirs": "/x"}


@pytest.mark.parametrize("text", ["${file:/etc/passwd:root}", "${env:HOME}", "${directory:/etc:passwd}"])
def test_settings_that_name_other_sources_are_only_text(text: str) -> None:
    """CVE-2019-12399, CVE-2024-31141: a config provider reads what the operator did not name. We have none."""
    config = BrokerConfig.from_properties({**BASE, "config.providers": "file", "broker.rack": text})
    assert config.broker_rack == text


@pytest.mark.parametrize(
    "name", ["metric.reporters", "sasl.jaas.config", "create.topic.policy.class.name", "replica.selector.class"]
)
def test_no_setting_loads_a_class(name: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819."""
    assert "antigravity" not in sys.modules
    try:
        BrokerConfig.from_properties({**BASE, name: "antigravity.Module"})
    except Exception as problem:
        assert name in str(problem)
    with pytest.raises(KafkaError):
        TopicConfig.from_overrides(TopicConfig(), {"cleanup.policy": "antigravity.Module"})
    assert "antigravity" not in sys.modules


def test_snappy_that_announces_gigabytes_is_refused_before_it_is_made() -> None:
    """CVE-2023-34455: snappy-java took a length from the stream for an allocation."""
    bare = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    framed = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x7f\xff\xff\xff" + b"\x00a"
    for data in (bare, framed):
        with pytest.raises(KafkaError):
            decompress(Codec.SNAPPY, data, 1_000_000)


def test_an_lz4_match_before_the_beginning_gives_no_memory_of_others() -> None:
    """CVE-2025-12183, CVE-2025-66566: reads beyond the output, and what an earlier use of a buffer left in it."""
    decompress(Codec.LZ4, bytes(cramjam.lz4.compress(b"secret" * 10_000)))
    block = bytes([0x1F]) + b"a" + (60_000).to_bytes(2, "little") + bytes([200]) + bytes([0x50]) + b"bbbbb"
    header = bytes(cramjam.lz4.compress(b"x"))[:7]
    found = b""
    try:
        found = bytes(decompress(Codec.LZ4, header + len(block).to_bytes(4, "little") + block + bytes(4)))
    except KafkaError:
        pass
    assert b"secret" not in found


def test_credentials_are_in_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2026-33558, at DEBUG neither; a znode of credentials that is broken is not shown either."""
    secret = b"a salted password, of 32 bytes.."

    async def scenario() -> dict[str, Any]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        await create_top_level(store)
        return await Scene(store).alter(upsertion("u", salted=secret), upsertion("v", iterations=1, salted=secret))

    with caplog.at_level(logging.DEBUG):
        assert len(virtual_time.run(scenario())) == 2
    assert "salted" not in caplog.text
    request = messages.alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
        upsertions=[upsertion("u", salted=secret)]
    )
    assert request.upsertions
    with pytest.raises(MalformedZnodeError) as broken:
        ConfigEntity.decode(b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=c2VjcmV0"')
    assert "stored_key" not in str(broken.value)


def test_empty_requests_of_controllers_harm_nobody() -> None:
    """CVE-2026-83525."""

    async def act(node: Node) -> None:
        assert await node.replicas.apply_leader_and_isr(LeaderAndIsr(3, 1, -1, [])) == {}
        assert await node.replicas.stop_replicas(StopReplica(3, 1, -1, {})) == {}

    on_node(act)
    broker = Brokers()
    try:
        for frame in _empty_requests():
            broker.check(frame)  # raises what is unexpected
    finally:
        broker.close()


def _empty_requests() -> list[bytes]:
    """Each request with every array empty, in every version that the broker is asked in."""
    from kafkalite.net.frames import request_frame
    from kafkalite.protocol import codec
    from kafkalite.protocol.apis import APIS, ApiKey

    found = []
    for api in APIS.values():
        if api.key in (ApiKey.FIND_COORDINATOR, ApiKey.LEAVE_GROUP):
            continue  # older versions of these have one key, not none
        module = getattr(messages, f"{api.name}_request")
        kind = next(each for name, each in module.CLASSES.items() if name.endswith("Request"))
        for version in range(api.min_version, api.max_version + 1):
            try:
                body = codec.encode_request(kind(), version)
            except (ValueError, IndexError, TypeError, AttributeError):
                continue  # an old structure that cannot say it
            found.append(b"".join(request_frame(api, version, 7, "x", body))[4:])
    return found
