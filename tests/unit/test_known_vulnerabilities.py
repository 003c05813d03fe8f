"""What went wrong in other implementations of the protocol, and in ZooKeeper, held against ours.

Others lie beside what they are about: buffers in flight (CVE-2026-35554) in `client/producer/test_hostile_brokers`, allocation before
authentication (CVE-2022-34917, CVE-2026-111108, CVE-2026-111115) in `net/test_frames`, `broker/test_receiving` and
`protocol/test_hostile_bytes`, empty arrays in requests of controllers (CVE-2026-83525) also in the table of `tests/peers/hostile_bytes`,
compressed data that lies in `protocol/test_compression`, frames and iterations that a server claims (CVE-2026-10142, CVE-2026-10143)
in `net/test_connection` and `security/test_sasl_mechanisms`, identities and nonces (CVE-2017-12610, CVE-2024-56128) there too, tokens
(CVE-2026-33557, CVE-2026-110985) in `security/test_bearer_tokens`, permissions (CVE-2018-1288, CVE-2018-17196, CVE-2026-41115) in
`broker/test_authorization`, entries of ACLs (CVE-2024-27309) in `broker/test_acl_authorizer`.
"""

from __future__ import annotations

import hmac
import logging
import re
import sys
from pathlib import Path
from typing import Any

import cramjam
import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.doctor.zookeeper import ServerAnswer, judge_servers
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.control_requests import LeaderAndIsr, StopReplica
from kafkalite.errors import KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.compression import Codec, decompress
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.security.sasl_server import PlainServer
from kafkalite.security.scram import ScramMechanism
from kafkalite.testing.simulation import virtual_time
from tests.fuzz.brokers import Brokers
from tests.unit.broker.connections.test_sasl_authenticator import Client, act
from tests.unit.broker.identity.test_user_credentials import Scene, upsertion
from tests.unit.broker.replication.test_replicas import Node, on_node
from tests.unit.security.test_sasl_mechanisms import converse, scram_server
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.servers.ensemble import HOST
from zk.servers.server_settings import ServerPorts, ServerSettings
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


def test_what_a_client_authenticates_with_is_in_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2026-33558, for what comes by SASL."""

    async def script(client: Client) -> None:
        await client.handshake()
        await client.token(b"\0alice\0a-wrong-secret")

    with caplog.at_level(logging.DEBUG), pytest.raises(Exception) as refused:
        act(script)
    assert "a-wrong-secret" not in caplog.text + str(refused.value)
    credentials = SaslCredentials(mechanism="PLAIN", username="alice", password="a-right-secret")
    assert "a-right-secret" not in repr(credentials)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153."""
    compared: list[Any] = []
    compare = hmac.compare_digest

    def noted(one: Any, other: Any) -> bool:
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    plain = SaslCredentials(mechanism="PLAIN", username="alice", password="right")
    assert converse(plain, PlainServer({"alice": "right"})) and compared == [b"right"]
    compared.clear()
    scram = SaslCredentials(mechanism="SCRAM-SHA-256", username="alice", password="right")
    assert converse(scram, scram_server(ScramMechanism.SCRAM_SHA_256))
    assert 32 in {len(each) for each in compared if isinstance(each, bytes)}, "the stored key, or the signature"


def test_nobody_sends_us_compressed_telemetry() -> None:
    """CVE-2026-111073: PushTelemetry is decompressed without a bound. Neither it nor what asks for it is spoken."""
    assert {each.api.key for each in SERVED}.isdisjoint({71, 72})


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


# ZooKeeper


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("3.4.13", ["CVE-2019-0201", "CVE-2023-44981", "CVE-2026-59739"]),
        ("3.5.10", ["CVE-2023-44981", "CVE-2026-59739"]),
        ("3.7.1", ["CVE-2023-44981", "CVE-2024-23944", "CVE-2026-59739"]),
        ("3.8.4", ["CVE-2026-24281", "CVE-2026-24308", "CVE-2026-59739", "CVE-2026-59969"]),
        ("3.8.7", []),
        (
            "3.9.2",
            [
                "CVE-2024-51504",
                "CVE-2025-58457",
                "CVE-2026-24281",
                "CVE-2026-24308",
                "CVE-2026-59739",
                "CVE-2026-59969",
                "CVE-2026-79993",
            ],
        ),
        ("3.9.5", ["CVE-2026-59739", "CVE-2026-59969", "CVE-2026-79993"]),
        ("3.9.6", []),
        ("3.10.0", []),
        ("unknown", []),
    ],
)
def test_doctor_says_what_a_server_is_open_to(version: str, names: list[str]) -> None:
    """Also CVE-2026-79993: whoever reaches the server deletes znodes without a session."""
    answer = ServerAnswer("z:1", mode="standalone", version=version, serving=True)
    (found,) = [each for each in judge_servers([answer]) if each.check == "zookeeper version"]
    assert re.findall(r"CVE-\d+-\d+", found.found) == names
    assert found.status is (Status.WARNING if names else Status.OK)


def test_servers_that_we_start_say_little_to_strangers(tmp_path: Path) -> None:
    """CVE-2024-51504, CVE-2025-58457, CVE-2026-84439, CVE-2026-84501 are about the admin server; words of four letters name sessions."""
    settings, ports = ServerSettings(host=HOST, tick_time_ms=1, min_session_timeout_ms=1), ServerPorts(1, 2, 3)
    local = settings.text(tmp_path, ports, {1: ports})
    assert "clientPortAddress=127.0.0.1\n" in local
    deploy = Path(__file__).parents[2] / "deploy"
    for text in (local, (deploy / "systemd" / "zoo.cfg").read_text()):
        assert "\nadmin.enableServer=false\n" in text
        (words,) = re.findall(r"^4lw\.commands\.whitelist=(.*)$", text, re.MULTILINE)
        assert set(words.split(",")) <= {"conf", "mntr", "ruok", "srvr"}
    image = deploy / "images" / "rootfs" / "usr" / "local" / "bin" / "zookeeper-server-start"
    assert "-Dzookeeper.admin.enableServer=false" in image.read_text()
