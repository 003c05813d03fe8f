"""What doctor makes of machines, ensembles and clusters; the judges are pure, the rest looks at this machine and at ports of the test."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.administration.cluster_health import Verdict
from kafkalite.cli.doctor import broker as doctor_broker
from kafkalite.cli.doctor import cluster as doctor_cluster
from kafkalite.cli.doctor import host as doctor_host
from kafkalite.cli.doctor import zookeeper as doctor_zookeeper
from kafkalite.cli.doctor.cluster import Reached
from kafkalite.cli.doctor.findings import GIBIBYTE, Finding, Status, judge_space
from kafkalite.cli.doctor.zookeeper import BrokerClock, ServerAnswer
from kafkalite.cli.doctor.zookeeper_exposure import check_server, judge
from kafkalite.cli.main import main
from kafkalite.client.admin.log_dirs import LogDir
from kafkalite.client.cluster.view import BrokerNode
from kafkalite.types import Endpoint
from tests.unit.client.fake_broker import FakeCluster

SRVR = """\
Zookeeper version: 3.9.5-58e1d9a0d4d9d5c5d1fdd1a0, built on 2025-12-01 10:00 UTC
Latency min/avg/max: 0/0.4217/38
Received: 1234
Zxid: 0x1f
Mode: follower
Node count: 42
"""


def statuses(findings: Iterator[Finding] | list[Finding]) -> list[str]:
    return [str(each.status) for each in findings]


def test_every_finding_that_is_not_well_says_what_to_do() -> None:
    for finding in (
        judge_space("disk", "/d", 0, 100),
        doctor_host.judge_java(None, 0),
        doctor_host.judge_record_code(False, has_been_declined=False),
        doctor_host.judge_record_code(False, has_been_declined=True),
        doctor_host.judge_open_files((256, 256), 1024),
        doctor_host.judge_clock(False),
        doctor_cluster.unreachable("gone"),
    ):
        assert finding.status in (Status.WARNING, Status.PROBLEM) and finding.remedy


@pytest.mark.parametrize(
    ("free", "total", "status"),
    [
        (50, 100, Status.OK),
        (14, 100, Status.WARNING),
        (4, 100, Status.PROBLEM),
        (0.5, 1, Status.PROBLEM),
        (0, 0, Status.PROBLEM),
    ],
)
def test_room_on_disks(free: float, total: float, status: Status) -> None:
    found = judge_space("disk", "/data", int(free * GIBIBYTE), int(total * GIBIBYTE))
    assert found.status is status and found.found.startswith("/data: ")


@pytest.mark.parametrize(
    ("program", "version", "status"),
    [
        ("/j/java", 17, Status.OK),
        ("/j/java", 8, Status.WARNING),
        ("/j/java", 0, Status.WARNING),
        (None, 0, Status.WARNING),
    ],
)
def test_java(program: str | None, version: int, status: Status) -> None:
    assert doctor_host.judge_java(program, version).status is status


def test_an_installation_without_compiled_code_says_how_to_have_it() -> None:
    assert doctor_host.judge_record_code(True, has_been_declined=False).status is Status.OK
    missing = doctor_host.judge_record_code(False, has_been_declined=False)
    assert missing.status is Status.WARNING and "C compiler" in str(missing.remedy)
    declined = doctor_host.judge_record_code(False, has_been_declined=True)
    assert declined.status is Status.WARNING and declined.remedy == "unset KAFKALITE_PURE_PYTHON"


def test_javas_version_is_read_old_and_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def told(text: str) -> tuple[str | None, int]:
        return doctor_host.java_version(lambda *_, **__: subprocess.CompletedProcess([], 0, "", text))

    assert told('openjdk version "17.0.19" 2026-04-21') == (str(program), 17)
    assert told('java version "1.8.0_392"') == (str(program), 8)
    assert told("nonsense") == (str(program), 0)


def test_open_files() -> None:
    assert doctor_host.judge_open_files((1024, 4096), 2000).status is Status.PROBLEM
    raised = doctor_host.judge_open_files((1024, 4096), 1000)
    assert raised.status is Status.WARNING and "may be raised to 4096" in raised.found
    assert doctor_host.judge_open_files((100_000, 100_000), 1000).status is Status.OK
    assert doctor_host.judge_open_files((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1000).status is Status.OK


def test_the_clock_is_asked_of_the_kernel() -> None:
    assert doctor_host.clock_is_kept() in (True, False, None)
    assert doctor_host.judge_clock(None).status is Status.SKIPPED and doctor_host.judge_clock(True).status is Status.OK


def test_what_a_server_says_of_itself() -> None:
    assert doctor_zookeeper.parse_srvr("z:1", SRVR) == ServerAnswer(
        "z:1", mode="follower", version="3.9.5", latency_ms=0.4217, serving=True
    )
    alone = doctor_zookeeper.parse_srvr("z:1", "This ZooKeeper instance is not currently serving requests")
    assert alone == ServerAnswer("z:1")
    assert "not answer like ZooKeeper" in str(doctor_zookeeper.parse_srvr("z:1", "HTTP/1.1 400").problem)


def serving(number: int, mode: str | None = "follower") -> ServerAnswer:
    return ServerAnswer(f"z{number}:1", mode=mode, serving=True, latency_ms=1.0)


def down(number: int) -> ServerAnswer:
    return ServerAnswer(f"z{number}:1", problem="Connection refused")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([serving(1, "standalone")], ["ok"]),
        ([serving(1), serving(2, "leader"), serving(3)], ["ok"]),
        ([serving(1), serving(2, "leader"), down(3)], ["problem", "ok"]),
        ([serving(1, None), serving(2, None), serving(3, None)], ["ok"]),
        ([serving(1), down(2), down(3)], ["problem", "problem", "problem"]),
        ([ServerAnswer("z1:1"), down(2), down(3)], ["problem", "problem", "problem", "problem"]),
        ([serving(1, "standalone"), serving(2, "standalone")], ["problem"]),
        ([serving(1, "leader"), serving(2)], ["warning"]),
        ([ServerAnswer("z1:1", mode="standalone", serving=True, latency_ms=400)], ["warning", "ok"]),
    ],
)
def test_quorums(answers: list[ServerAnswer], expected: list[str]) -> None:
    assert statuses(doctor_zookeeper.judge_servers(answers)) == expected


class _Zookeeper(socketserver.BaseRequestHandler):
    """Answers ruok, and keeps srvr to itself."""

    def handle(self) -> None:
        word = self.request.recv(4, socket.MSG_WAITALL)
        self.request.sendall(
            b"imok" if word == b"ruok" else b"srvr is not executed because it is not in the whitelist.\n"
        )


def test_servers_are_asked_as_far_as_they_let_themselves() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Zookeeper) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            connect = f"127.0.0.1:{running.server_address[1]},127.0.0.1:1,127.0.0.1:x/chroot"
            well, refused, wrong = asyncio.run(doctor_zookeeper.ask_servers(connect, 20))
        finally:
            running.shutdown()
            thread.join()
    assert well.serving and well.mode is None and well.problem is None
    assert refused.problem == "Connection refused"
    assert wrong.problem is not None and not wrong.serving


def test_brokers_clocks() -> None:
    now = 1_700_000_000_000
    fine = BrokerClock(1, now - 20_000, now)  # it waited for its predecessor's session
    ahead, behind = BrokerClock(2, now + 1500, now), BrokerClock(3, now - 60_000, now)
    assert statuses(doctor_zookeeper.judge_broker_clocks([fine, BrokerClock(4, -1, now)])) == ["ok"]
    found = list(doctor_zookeeper.judge_broker_clocks([fine, ahead, behind]))
    assert [each.found.split(" when")[0] for each in found] == [
        "broker 2 was 1.5 s ahead of ZooKeeper",
        "broker 3 was 60.0 s behind ZooKeeper",
    ]
    assert statuses(doctor_zookeeper.judge_broker_clocks([])) == ["skipped"]


def test_listeners_as_seen_from_here() -> None:
    here = Reached(BrokerNode(1, "localhost", 9092), ("127.0.0.1", "::1"))
    there = Reached(BrokerNode(2, "kafka-2", 9092), ("10.0.0.2",))
    deaf = Reached(BrokerNode(3, "kafka-3", 9092), ("10.0.0.3",), "no connection to kafka-3:9092 within 5 s")
    assert statuses(doctor_cluster.judge_listeners([here, there], outside=False)) == ["ok"]
    (found,) = doctor_cluster.judge_listeners([here, there], outside=True)
    assert (
        found.status is Status.PROBLEM and "broker 1" in found.found and "this machine for every client" in found.found
    )
    (found,) = doctor_cluster.judge_listeners([there, deaf], outside=True)
    assert "broker 3" in found.found and "within 5 s" in found.found and "broker 3" in str(found.remedy)


def test_brokers_disks() -> None:
    full = LogDir(1, "/full", None, 100 * GIBIBYTE, GIBIBYTE, ())
    roomy = LogDir(1, "/roomy", None, 100 * GIBIBYTE, 50 * GIBIBYTE, ())
    broken = LogDir(2, "/broken", "KAFKA_STORAGE_ERROR", -1, -1, ())
    silent = LogDir(2, "/old", None, -1, -1, ())
    assert statuses(doctor_cluster.judge_log_dirs({1: [roomy], 2: [silent]})) == ["ok"]
    found = doctor_cluster.judge_log_dirs({1: [full, roomy], 2: [broken]})
    assert [each.found.split(":")[0] for each in found] == ["broker 1, /full", "broker 2, /broken"]
    assert statuses(found) == ["problem", "problem"]


def test_health_becomes_findings_with_remedies() -> None:
    many = tuple(f"t-{number}" for number in range(7))
    found = doctor_cluster.judge_health([Verdict("controller", ()), Verdict("under-replicated partitions", many)])
    assert statuses(found) == ["ok", "problem"]
    assert found[1].found == "t-0, t-1, t-2, t-3, t-4 and 2 more" and "topic describe" in str(found[1].remedy)


def test_every_check_of_health_has_a_remedy() -> None:
    from kafkalite.administration.cluster_health import judge
    from kafkalite.client import ClusterDescription

    checks = {each.check for each in judge(ClusterDescription(None, -1, ()), [], {})}
    assert checks == set(doctor_cluster._REMEDIES)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port where somebody listens who is no broker."""

    class Silent(socketserver.BaseRequestHandler):
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running.server_address[1]
        running.shutdown()
        thread.join()


def test_ports(taken: int) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        free = bound.getsockname()[1]
    assert doctor_broker.check_port(Endpoint("PLAINTEXT", "127.0.0.1", free, "PLAINTEXT"), 5).status is Status.OK
    found = doctor_broker.check_port(Endpoint("PLAINTEXT", "127.0.0.1", taken, "PLAINTEXT"), 5)
    assert found.status is Status.PROBLEM and f"sport = :{taken}" in str(found.remedy)
    assert doctor_broker.check_port(Endpoint("SSL", "127.0.0.1", taken, "SSL"), 5).status is Status.WARNING
    elsewhere = doctor_broker.check_port(Endpoint("PLAINTEXT", "192.0.2.1", 9092, "PLAINTEXT"), 5)
    assert elsewhere.status is Status.PROBLEM and "an address of this machine" in str(elsewhere.remedy)


def test_advertised_hosts() -> None:
    endpoint = Endpoint("PLAINTEXT", "kafka-1", 9092, "PLAINTEXT")
    assert statuses(doctor_broker.judge_advertised(endpoint, ["10.0.0.1"])) == ["ok"]
    assert statuses(doctor_broker.judge_advertised(endpoint, ["127.0.1.1", "::1"])) == ["warning"]
    assert statuses(doctor_broker.judge_advertised(endpoint, [])) == ["problem"]
    assert statuses(doctor_broker.judge_advertised(Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"), [])) == ["ok"]
    assert doctor_broker.addresses_of("") == [] and "127.0.0.1" in doctor_broker.addresses_of("localhost")


def test_log_directories(tmp_path: Path) -> None:
    (room,) = doctor_broker.check_log_dir(tmp_path / "not" / "yet", 1)
    assert "GiB free" in room.found
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=2\ncluster.id=c\n")
    *_, found = doctor_broker.check_log_dir(tmp_path, 1)
    assert found.status is Status.PROBLEM and "belongs to broker 2, not to 1" in found.found
    assert "problem" not in statuses(list(doctor_broker.check_log_dir(tmp_path, 2))[1:])
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=two\n")
    *_, found = doctor_broker.check_log_dir(tmp_path, 1)
    assert found.status is Status.PROBLEM and "broker.id=two" in found.found
    (tmp_path / "file").touch()
    (found,) = doctor_broker.check_log_dir(tmp_path / "file", 1)
    assert found.status is Status.PROBLEM and "may not write" in found.found


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def rows_of(result: Result) -> dict[str, Any]:
    return {row["check"]: row for row in json.loads(result.stdout)}


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path == "/health"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(
            b'{"alive":true,"state":"running","uncleanable_partitions":{"t-0":"a wrong CRC"},'
            b'"topic_id_conflicts":{"u-1":"its log has topic id A, in ZooKeeper it is B"}}'
        )

    def log_message(self, format: str, *args: Any) -> None: ...


def test_logs_that_are_compacted_no_more_or_not_served_are_told() -> None:
    with HTTPServer(("127.0.0.1", 0), _Health) as server:
        answering = threading.Thread(target=server.handle_request, daemon=True)
        answering.start()
        found = doctor_broker.ask_health(f"127.0.0.1:{server.server_port}", 5)
        answering.join()
    finding, other = doctor_broker.judge_health(found)
    assert (finding.status, finding.found) == (Status.PROBLEM, "t-0 cannot be compacted and grows: a wrong CRC")
    assert "kafkalite log verify" in str(finding.remedy)
    assert (other.status, other.check) == (Status.PROBLEM, "topic ids")
    assert other.found == "u-1 is not served: its log has topic id A, in ZooKeeper it is B"
    assert "/brokers/topics/TOPIC" in str(other.remedy)
    sound = {"alive": True, "uncleanable_partitions": {}, "topic_id_conflicts": {}}
    assert [each.status for each in doctor_broker.judge_health(sound)] == [Status.OK, Status.OK]
    silent = doctor_broker.ask_health(f"127.0.0.1:{server.server_port}", 5)
    assert {each.status for each in doctor_broker.judge_health(silent)} == {Status.SKIPPED}


def test_nobody_there_is_told_with_what_to_do(cluster: FakeCluster) -> None:
    cluster.unreachable = {1, 2}
    parts = ("--only", "cluster", "--only", "zookeeper", "--only", "disks")
    result = call(*parts, "-z", "127.0.0.1:1", "-o", "json")
    assert result.exit_code == 7
    rows = rows_of(result)
    assert "fake:9001" in rows["brokers"]["found"] and "--bootstrap-server" in rows["brokers"]["remedy"]
    assert rows["brokers' disks"]["status"] == "skipped"
    assert rows["zookeeper quorum"]["status"] == "problem" and rows["brokers' clocks"]["status"] == "skipped"
    assert call("--only", "zookeeper", "-z", ",").exit_code == 7


def test_settings_of_a_broker_are_looked_at_first(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("broker.id=x\n")
    result = call("--config", str(properties), "--only", "machine", "-o", "json")
    rows = rows_of(result)
    assert (
        result.exit_code == 7
        and "broker.id" in rows["settings"]["found"]
        and str(properties) in rows["settings"]["found"]
    )
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    properties.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path}\nlog.dris=x\n"
    )
    only_machine = ("--config", str(properties), "--only", "machine", "-o", "json")
    found = json.loads(call(*only_machine).stdout)
    assert [row["found"] for row in found if row["check"] == "ports"] == [
        f"PLAINTEXT://127.0.0.1:{port} is free for the broker"
    ]
    assert any("log.dris" in row["found"] for row in found if row["check"] == "settings")
    overridden = json.loads(call(*only_machine, "-P", "log.dirs=/proc/nowhere").stdout)
    assert any(row["status"] == "problem" and "/proc" in row["found"] for row in overridden)
    asked = rows_of(call("--config", str(properties), "--only", "zookeeper", "--only", "cluster", "-o", "json"))
    assert "127.0.0.1:1" in asked["zookeeper server"]["found"] and f"127.0.0.1:{port}" in asked["brokers"]["found"]
    other = ("-z", "127.0.0.1:2", "-b", "127.0.0.1:3", "--only", "zookeeper", "--only", "cluster", "-o", "json")
    asked = rows_of(call("--config", str(properties), *other))
    assert "127.0.0.1:2" in asked["zookeeper server"]["found"] and "127.0.0.1:3" in asked["brokers"]["found"]


def test_problems_alone(cluster: FakeCluster) -> None:
    result = call("--only", "machine", "--problems", "-o", "json")
    assert all(row["remedy"] for row in json.loads(result.stdout))


def test_what_zookeeper_servers_tell_strangers_is_named() -> None:
    """Four-letter words that name sessions and paths, and the admin server (CVE-2024-51504, CVE-2025-58457)."""

    async def admin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b'HTTP/1.1 200 OK\r\n\r\n{"command" : "ruok"}' if b"/commands/ruok" in asked else b"HTTP/1.1 404\r\n\r\n"
        )
        writer.close()

    async def scene() -> list[str]:
        async def open_word(word: str) -> str:
            return "SessionTracker dump:\n0x1"

        async def closed_word(word: str) -> str:
            return "dump is not executed because it is not in the whitelist."

        async def silent(word: str) -> str:
            raise TimeoutError

        server = await asyncio.start_server(admin, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            seen = [
                await check_server("127.0.0.1:2181", open_word, port),
                await check_server("127.0.0.1:2182", closed_word, 1),
                await check_server("127.0.0.1:2183", silent, 1),
            ]
        return [each.found for each in judge(seen)]

    words, admin_server = asyncio.run(scene())
    assert words.startswith("127.0.0.1:2181: strangers")
    assert admin_server.startswith("127.0.0.1:2181: the admin server")
