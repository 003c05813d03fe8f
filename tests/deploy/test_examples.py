"""The programs of deploy/examples as a reader would run them, all on one cluster; the one in Spark is tested with Spark's."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkalite.client import NewTopic, ProducerFencedError, SyncAdmin, SyncConsumer, SyncProducer
from kafkalite.local.cluster import LocalCluster
from tests.examples import FOLDER, example

pytestmark = pytest.mark.wire

LONGEST = 100
"""Lines of a program."""
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if "__main__" in path.read_text())


def run(program: Path, *arguments: str, python: Sequence[str] = (), **environment: str) -> tuple[int, str]:
    """Exit code, and what the program says on stderr."""
    done = subprocess.run(
        [sys.executable, *python, program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    properties = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with LocalCluster(brokers=1, properties=properties) as cluster:
        yield cluster.bootstrap_servers


def read(servers: str, topic: str, count: int, partitions: int = 1) -> list[tuple[str, object]]:
    """Keys and values of so many committed records, sorted; nothing may come behind them."""
    with SyncConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        key_deserializer="str",
        value_deserializer="json",
    ) as consumer:
        consumer.assign([(topic, partition) for partition in range(partitions)])
        consumer.seek_to_beginning()
        places = consumer.assignment()
        ends = consumer.end_offsets(places)
        found: list[tuple[str, object]] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [(record.key, record.value) for record in records]
    assert len(found) == count, found
    return sorted(found, key=str)


def test_they_are_short_and_the_page_names_them_all() -> None:
    page = (FOLDER / "README.md").read_text()
    assert len(PROGRAMS) == 7
    for path in PROGRAMS:
        text = path.read_text()
        assert len(text.splitlines()) <= LONGEST, path.name
        assert f"`{path.name}`" in page
        assert f"python {path.name}" in (ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_missing_package_is_one_line(program: Path) -> None:
    code, said = run(program, "--help", python=["-S", "-E"])
    assert (code, said.count("\n")) == (1, 1) and "kafkalite is missing: pip install kafkalite" in said


WORDS = {
    "collect_logs": ["ship", "/dev/null"],
    "decoupled_services": ["billing"],
    "metrics_windows": ["average"],
    "rebuild_state": ["show"],
    "site_activity": ["visit"],
    "spark_join": ["--checkpoint", "/nowhere"],
    "stream_table_join": ["join"],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_missing_cluster_is_one_line(program: Path) -> None:
    code, said = run(program, *WORDS[program.stem], "--bootstrap-server", "127.0.0.1:1")
    assert code == 1
    assert said == (
        "no cluster answers at 127.0.0.1:1: start one (kafkalite cluster up --brokers 1 --base-port 9092), "
        "or give --bootstrap-server\n"
    )


def test_a_missing_java_is_one_line(tmp_path: Path) -> None:
    code, said = run(FOLDER / "spark_join.py", "--checkpoint", "x", PATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert code == 1
    assert said == "Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless, or JAVA_HOME at one\n"


def test_a_missing_confluent_client_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    program = example("decoupled_services")
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with pytest.raises(SystemExit, match="confluent_kafka is missing: pip install confluent-kafka"):
        program.shipping("127.0.0.1:1", {})


def test_site_activity(servers: str) -> None:
    """Both groups have all clicks, and those of a visitor in order."""
    program = example("site_activity")
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(program.TOPIC, 3, 1)])
    clicks = program.visit(servers, visitors=12)
    assert program.popular(servers, clicks).total() == clicks
    journeys = program.journeys(servers, clicks)
    assert sorted(click for each in journeys.values() for click in each) == list(range(clicks))
    assert all(each == sorted(each) for each in journeys.values())


def test_metrics_windows(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Averages are right though the program ends with open windows, and dies while it writes."""
    program = example("metrics_windows")
    program.measure(servers, "a", (100_000, 1.0), (101_000, 2.0), (109_999, 3.0))
    program.measure(servers, "b", (108_000, 10.0), (111_000, 20.0))
    program.measure(servers, "end", (111_500, 0.0))
    program.average(servers, until="end")  # no window is closed
    program.measure(servers, "a", (108_500, 6.0), (113_000, 30.0))  # within the grace, and closing

    class Killed(Exception):
        pass

    def die(line: str) -> None:
        raise Killed(line)

    monkeypatch.setattr(program, "print", die, raising=False)
    with pytest.raises(Killed, match=r"a 100000 3\.00"):
        program.average(servers)
    monkeypatch.undo()
    program.measure(servers, "a", (109_000, 99.0), (125_000, 7.0))  # too late, and closing
    program.measure(servers, "stop", (126_000, 0.0))
    program.average(servers, until="stop")
    found = read(servers, program.AVERAGES, 5)
    assert found == [
        ("a", {"start_ms": 100_000, "average": 3.0}),
        ("a", {"start_ms": 110_000, "average": 30.0}),
        ("b", {"start_ms": 100_000, "average": 10.0}),
        ("b", {"start_ms": 110_000, "average": 20.0}),
        ("end", {"start_ms": 110_000, "average": 0.0}),
    ]


def test_topics_of_others_are_left_alone(servers: str) -> None:
    """A cluster has topics of such names for long; what others wrote there is no JSON."""
    names = ["orders", "bills", "metrics", "logs", "accounts", "customers", "purchases", "page-views"]
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in names])
        own = {each for path in PROGRAMS if path.stem != "spark_join" for each in topics_of(example(path.stem))}
        assert len(own) == 10 and not own & set(names)
        assert set(names) <= set(admin.list_topics())


def topics_of(program: Any) -> set[str]:
    """Of the constants in capitals, those that name topics."""
    return {each for name, each in vars(program).items() if name.isupper() and isinstance(each, str)}


def test_collect_logs(servers: str, tmp_path: Path) -> None:
    """Whole lines only, each once, though a shipper forgets that it has shipped; and no host writes outside of the archive."""
    program = example("collect_logs")
    hosts = {}
    for host in ("web-1", "web-2", ".."):
        path = hosts[host] = tmp_path / host.replace("..", "dots") / "access.log"
        path.parent.mkdir()
        path.write_text(f"{host} one\n{host} two\n{host} half")
    with SyncProducer(bootstrap_servers=servers) as producer:
        assert [program.ship_once(producer, host, path) for host, path in hosts.items()] == [2, 2, 2]
        hosts["web-1"].with_name(".access.log.shipped").unlink()
        with hosts["web-1"].open("a") as log:
            log.write(" three\n")
        assert [program.ship_once(producer, host, path) for host, path in hosts.items()] == [3, 0, 0]
    archive = tmp_path / "archive"
    program.collect(servers, archive, 5)
    program.collect(servers, archive, 4)
    found = {path.relative_to(archive).as_posix(): path.read_text() for path in archive.rglob("*.log")}
    assert found == {
        "web-1/access.log": "web-1 one\nweb-1 two\nweb-1 half three\n",
        "web-2/access.log": "web-2 one\nweb-2 two\n",
        "unknown/access.log": ".. one\n.. two\n",
    }
    program.collect(servers, tmp_path / "another", 9)
    again = {
        path.relative_to(tmp_path / "another").as_posix(): path.read_text() for path in tmp_path.rglob("another/*/*")
    }
    assert again == found, "an archive that is new begins at the beginning"


def test_rebuild_state(servers: str) -> None:
    program = example("rebuild_state")
    with program.Accounts(servers) as accounts:
        accounts.deposit("ann", 50)
        accounts.deposit("bob", 5)
        accounts.transfer("ann", "cleo", 20)
        accounts.close_account("bob")
        with program.Accounts(servers) as successor:
            assert successor.balances == accounts.balances == {"ann": 30, "cleo": 20}
            with pytest.raises(ProducerFencedError):
                accounts.deposit("ann", 1000)
            successor.deposit("ann", 1)
    with program.Accounts(servers) as accounts:
        assert accounts.balances == {"ann": 31, "cleo": 20}


def test_decoupled_services(servers: str) -> None:
    """Each does its part though the others do not run, and goes on where it was."""
    program = example("decoupled_services")
    program.shop(servers, 4)
    program.billing(servers, 3)
    parcels: dict[str, object] = {}
    program.shipping(servers, parcels, 2)
    program.shop(servers, 2, first=4)
    program.billing(servers, 3)
    program.shipping(servers, parcels, 6)
    bills = dict(read(servers, program.BILLS, 6))
    assert bills == parcels
    assert bills["order-1"] == {"order": 1, "article": "lamp", "pieces": 2, "sum": 80}


def test_stream_table_join(servers: str) -> None:
    program = example("stream_table_join")
    program.make_topics(servers)
    program.make_topics(servers)
    ann, bob = {"name": "Ann", "city": "Oslo"}, {"name": "Bob", "city": "Bonn"}
    program.write(servers, program.CUSTOMERS, "c1", ann)
    program.write(servers, program.CUSTOMERS, "c2", bob)
    for customer in ("c1", "c2", "c3"):
        program.write(servers, program.PURCHASES, customer, {"sum": 1.5})
    program.join(servers, 3)
    program.write(servers, program.CUSTOMERS, "c1", ann | {"city": "Rome"})
    program.write(servers, program.CUSTOMERS, "c2", None)
    for customer in ("c1", "c2"):
        program.write(servers, program.PURCHASES, customer, {"sum": 2.5})
    program.join(servers, 2)
    assert read(servers, program.JOINED, 5, partitions=3) == [
        ("c1", {"sum": 1.5, "customer": ann}),
        ("c1", {"sum": 2.5, "customer": ann | {"city": "Rome"}}),
        ("c2", {"sum": 1.5, "customer": bob}),
        ("c2", {"sum": 2.5, "customer": None}),
        ("c3", {"sum": 1.5, "customer": None}),
    ]


def test_topics_that_cannot_be_joined_are_told(servers: str) -> None:
    program = example("stream_table_join")
    program.make_topics(servers)
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_partitions({program.CUSTOMERS: 4})
    code, said = run(FOLDER / "stream_table_join.py", "join", "--bootstrap-server", servers)
    assert code == 1
    assert said == (
        "these need the same number of partitions, and example-customers has 4, example-purchases has 3: "
        "delete one, and it is made again\n"
    )


def test_programs_run_again_on_what_they_wrote(servers: str) -> None:
    """As a reader calls them, on a cluster that has what was written before."""
    address = ("--bootstrap-server", servers)
    program, orders = example("decoupled_services"), []
    for _ in range(2):
        assert run(FOLDER / "site_activity.py", "visit", "--visitors", "3", *address) == (0, "")
        assert run(FOLDER / "rebuild_state.py", "deposit", "dora", "1", *address) == (0, "")
        assert run(FOLDER / "decoupled_services.py", "shop", "--orders", "2", *address) == (0, "")
        parcels: dict[str, object] = {}
        program.billing(servers, 2)
        program.shipping(servers, parcels, 2)
        orders += list(parcels)
    assert len(set(orders)) == 4, "no order has the number of another one"
