"""Debezium: rows of a PostgreSQL table into a topic, exactly once, in a Kafka Connect whose worker is killed."""

import json
import os
import urllib.request
from collections import Counter
from contextlib import closing
from typing import Any

from kafkalite.local.ports import ReservedPort
from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Running, Scene
from tests.museum.environments import installed_program
from tests.museum.stage import COUNT
from zk.servers.java_properties import properties_text

VERSION, CONNECT = "3.6.1.Final", "4.1.1"
_POSTGRES = ("postgresql-15", "postgresql-client-15", "libpq5", "libldap-2.5-0")
_CONNECTOR = (f"io.debezium:debezium-connector-postgres:{VERSION}",)
_LIKE_NOBODY = ("--user", "--map-user=65534", "--map-group=65534")
"""PostgreSQL refuses to run as root; in a user namespace of its own it keeps root's rights on its files under another name."""
_START_TIMEOUT_S = 240


class _Database:
    """A PostgreSQL server with one table, `orders`."""

    def __init__(self, scene: Scene, port: int) -> None:
        self._scene, self._port = scene, port
        self._programs = next(scene.environment.folder.glob("usr/lib/postgresql/*/bin"))
        self._as_nobody = (installed_program("unshare"), *_LIKE_NOBODY) if os.geteuid() == 0 else ()
        data = scene.folder / "data"
        self._run("initdb", "--no-sync", "--auth=trust", "--username=shop", "--encoding=UTF8", "--no-locale", data)
        options = ("-D", data, "-p", port, "-h", "127.0.0.1", "-c", "unix_socket_directories=")
        durability = ("-c", "wal_level=logical", "-c", "fsync=off")
        self.server = scene.start(*self._as_nobody, self._programs / "postgres", *options, *durability, name="postgres")
        self.server.until(lambda: "ready to accept connections" in self.server.said, "PostgreSQL")
        self.change(
            "CREATE TABLE orders (id integer PRIMARY KEY, word text)", "ALTER TABLE orders REPLICA IDENTITY FULL"
        )

    def _run(self, program: str, *words: object) -> None:
        self._scene.run(*self._as_nobody, self._programs / program, *words)

    def change(self, *statements: str) -> None:
        """Run each statement in a transaction of its own."""
        where = ("-h", "127.0.0.1", "-p", self._port, "-U", "shop", "-d", "postgres")
        commands = [word for statement in statements for word in ("-c", statement)]
        self._run("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *where, *commands)


def _worker(scene: Scene, group: str, port: int, name: str) -> Running:
    """Start a distributed worker of Kafka Connect."""
    settings = {
        "bootstrap.servers": scene.servers,
        "group.id": group,
        "listeners": f"http://127.0.0.1:{port}",
        "exactly.once.source.support": "enabled",
        "plugin.path": str(scene.folder / "plugins"),
        "plugin.discovery": "service_load",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
    }
    for kind in ("key", "value"):
        settings[f"{kind}.converter"] = "org.apache.kafka.connect.json.JsonConverter"
        settings[f"{kind}.converter.schemas.enable"] = "false"
    for what in ("offset", "config", "status"):
        settings |= {f"{what}.storage.topic": f"{group}-{what}", f"{what}.storage.replication.factor": "1"}
    path = scene.folder / f"{name}.properties"
    path.write_text(properties_text(settings))
    return scene.start("org.apache.kafka.connect.cli.ConnectDistributed", path, name=name)


def _configure(worker: Running, port: int, connector: dict[str, str]) -> None:
    """Give the worker its connector, as soon as it serves and has joined its group."""
    url, headers = f"http://127.0.0.1:{port}/connectors/orders/config", {"Content-Type": "application/json"}

    def accepted() -> bool:
        request = urllib.request.Request(url, json.dumps(connector).encode(), headers, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=60):
                return True
        except OSError:
            return False

    worker.until(accepted, "the connector", _START_TIMEOUT_S)


def _events(scene: Scene, topic: str) -> Counter[tuple[int, str, str]]:
    """Count the events of the topic by row, operation and the word that it left; a tombstone is an operation of its own."""
    if topic not in scene.stage.admin.list_topics(timeout=30).topics:
        return Counter()
    found: Counter[tuple[int, str, str]] = Counter()
    for key, value in scene.committed_records(topic):
        event: dict[str, Any] = json.loads(value) if value else {"op": "tombstone"}
        found[json.loads(key)["id"], event["op"], (event.get("after") or {}).get("word", "")] += 1
    return found


def _rows(operation: str, numbers: range, word: str = "") -> Counter[tuple[int, str, str]]:
    return Counter((number, operation, f"{word}-{number}" if word else "") for number in numbers)


def _insert(numbers: range) -> list[str]:
    return [f"INSERT INTO orders VALUES ({number}, 'word-{number}')" for number in numbers]


def show(scene: Scene) -> None:
    prefix = scene.stage.create("shop")
    topic = f"{prefix}.public.orders"
    folder, plugins = scene.folder / "postgres", scene.folder / "plugins"
    folder.mkdir()
    plugins.mkdir()
    (plugins / "debezium").symlink_to(environments.jars(*_CONNECTOR).folder)
    tables = Scene(scene.stage, environments.debian(*_POSTGRES), folder)
    with closing(tables), ReservedPort() as database_port, ReservedPort() as first_port, ReservedPort() as second_port:
        database = _Database(tables, database_port.number)
        database.change(*_insert(range(COUNT)))
        first = _worker(scene, f"connect-{prefix}", first_port.number, "first")
        _configure(first, first_port.number, _connector(prefix, database_port.number))
        wanted = _rows("r", range(COUNT), "word")
        first.until(lambda: _events(scene, topic) == wanted, "the snapshot", _START_TIMEOUT_S)
        database.change(*_insert(range(COUNT, 2 * COUNT)))
        wanted += _rows("c", range(COUNT, 2 * COUNT), "word")
        first.until(lambda: _events(scene, topic).total() > COUNT, "changes")
        first.kill()
        database.change(
            "UPDATE orders SET word = 'new-' || id WHERE id < 10", "DELETE FROM orders WHERE id BETWEEN 10 AND 14"
        )
        wanted += _rows("u", range(10), "new") + _rows("d", range(10, 15)) + _rows("tombstone", range(10, 15))
        second = _worker(scene, f"connect-{prefix}", second_port.number, "second")
        second.until(
            lambda: _events(scene, topic).total() >= wanted.total(),
            "changes after the worker's death",
            _START_TIMEOUT_S,
        )
        found = _events(scene, topic)
        assert found == wanted, f"too many: {found - wanted}, missing: {wanted - found}"


def _connector(prefix: str, port: int) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "plugin.name": "pgoutput",
        "slot.name": "orders",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "shop",
        "database.dbname": "postgres",
        "topic.prefix": prefix,
        "table.include.list": "public.orders",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "poll.interval.ms": "100",
    }


PROGRAM = Program(
    title="Debezium",
    version=VERSION,
    tried="a PostgreSQL table's snapshot, changes and deletions, exactly once in Kafka Connect 4.1.1, though its worker is killed",
    setup=lambda: environments.jars(f"org.apache.kafka:connect-runtime:{CONNECT}", "org.slf4j:slf4j-simple:1.7.36"),
    show=show,
)
