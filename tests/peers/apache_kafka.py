"""Apache Kafka itself, fetched by Maven: its broker, for clusters to compare with, and its command-line tools.

The jars are kept in `$XDG_CACHE_HOME/kafkalite/apache-kafka-<version>` (`~/.cache` without that variable), and with them an archive of
their classes (class data sharing), with which a broker takes a third less processor time to start.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from kafkalite.local.broker_process import BrokerDied, wait_until
from kafkalite.local.cluster import LocalCluster
from tests.conftest import foreign_program
from tests.java_classes import compiled

VERSION: Final = "3.9.1"
ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
STREAMS_ARTIFACTS: Final = (("org.apache.kafka", "kafka-streams", VERSION), ("org.slf4j", "slf4j-reload4j", "1.7.36"))
CONNECT_ARTIFACTS: Final = (("org.apache.kafka", "connect-file", VERSION),)
TOOLS: Final = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "zookeeper-security-migration": "kafka.admin.ZkSecurityMigrator",
    "zookeeper-shell": "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
}
FETCH_TIMEOUT_S: Final = 600
SCRIPT_FLAGS: Final = (
    *("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    "-XX:InitiatingHeapOccupancyPercent=35",
)
"""Of Apache Kafka's own start script for brokers."""
_ARCHIVE_FLAG: Final = "-XX:SharedArchiveFile"

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalite.tests</groupId>
  <artifactId>peers</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = """    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
      <exclusions><exclusion><groupId>org.rocksdb</groupId><artifactId>rocksdbjni</artifactId></exclusion>
      <exclusion><groupId>software.amazon.awssdk</groupId><artifactId>bundle</artifactId></exclusion></exclusions></dependency>"""
_LOG4J: Final = """log4j.rootLogger={level}, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.Target={target}
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kafkalite" / f"apache-kafka-{VERSION}"


def fetch() -> Path:
    """The folder with the jars, fetched at the first call; the test is reported as not run without Maven or Java."""
    foreign_program("java", "openjdk-17-jre-headless")
    maven = foreign_program("mvn", "maven")
    home = cache_folder()
    home.mkdir(parents=True, exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch once
        if not complete.exists():
            fetch_artifacts(home, maven, ARTIFACTS)
            complete.touch()
        archive = _archive_path(home)
        if not archive.exists():
            _archive_classes(home, archive)
    return home


def fetch_streams() -> Path:
    """As `fetch`, the jars of Kafka Streams; without RocksDB, whose 60 MB only stores on disk need."""
    return _fetch_beside("kafka-streams", STREAMS_ARTIFACTS)


def fetch_connectors() -> Path:
    """As `fetch`, a plugin folder of Kafka Connect with the connectors for files; the runtime is among the jars of `fetch`."""
    return _fetch_beside("connect-file", CONNECT_ARTIFACTS)


def _fetch_beside(name: str, artifacts: Sequence[tuple[str, str, str]]) -> Path:
    return fetch_folder(f"{name}-{VERSION}", artifacts)


def fetch_folder(name: str, artifacts: Sequence[tuple[str, str, str]]) -> Path:
    """Return the folder of that name with the jars, fetched at the first call; the test is not run without Maven or Java."""
    foreign_program("java", "openjdk-17-jre-headless")
    maven = foreign_program("mvn", "maven")
    home = cache_folder().with_name(name)
    home.mkdir(parents=True, exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            fetch_artifacts(home, maven, artifacts)
            complete.touch()
    return home


def fetch_artifacts(home: Path, maven: str, artifacts: Sequence[tuple[str, str, str]], *options: str) -> None:
    """Copy jars (group, name, version) and what they need into a folder; `options` are those of `dependency:copy-dependencies`.

    Raises RuntimeError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        dependencies = "\n".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)
        Path(scratch, "pom.xml").write_text(_POM.format(dependencies=dependencies))
        command = [
            maven,
            "--quiet",
            "--batch-mode",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={home}",
            *options,
        ]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not fetch {artifacts}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _archive_path(home: Path) -> Path:
    """Another one for each Java; empty when that Java could not make it."""
    java = Path(foreign_program("java", "openjdk-17-jre-headless")).resolve()
    return home / f"classes-{zlib.crc32(f'{java} {java.stat().st_mtime_ns}'.encode()):08x}.jsa"


def _archive_classes(home: Path, archive: Path) -> None:
    """A broker runs and writes the archive at its end."""
    draft = archive.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    command = class_command(home, "kafka.Kafka", "512m", "INFO", [f"-XX:ArchiveClassesAtExit={draft}"])
    try:
        with LocalCluster(brokers=1, command=command) as cluster:
            wait_for_controller(cluster.bootstrap_servers)
            cluster.stop(1)
    except (BrokerDied, TimeoutError) as problem:
        print(f"no archive of Apache Kafka's classes: {problem}")
    if draft.exists():
        draft.rename(archive)
    else:
        archive.touch()


def java_command(program: str | Path, *arguments: str, heap: str = "256m", level: str = "WARN") -> list[str]:
    """A command line that runs one class of Apache Kafka, or a program of one Java file that uses them; its log goes to stdout for brokers
    (INFO), else to stderr."""
    home = fetch()
    archive = _archive_path(home)
    options = [f"{_ARCHIVE_FLAG}={archive}"] if archive.stat().st_size else []
    return class_command(home, program, heap, level, options, *arguments)


def class_command(
    home: Path, program: str | Path, heap: str, level: str, options: Sequence[str], *arguments: str
) -> list[str]:
    """As `java_command`, with the jars of any folder and options of the virtual machine."""
    settings = home / f"log4j-{level.lower()}.properties"
    target = "System.out" if level == "INFO" else "System.err"
    # Written whole and then renamed: another test process may be reading it.
    with tempfile.NamedTemporaryFile("w", dir=home, delete=False) as draft:
        draft.write(_LOG4J.format(level=level, target=target))
    Path(draft.name).rename(settings)
    flags = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
    # Named one by one: an archive of classes holds for jars in the same order.
    classes = jars = sorted(home.glob("*.jar"))
    if isinstance(program, Path) and (folder := compiled(program, jars)) is not None:
        classes, program = [*jars, folder], program.stem
    log = f"-Dlog4j.configuration=file:{settings}"
    return ["java", *flags, *options, log, "-cp", os.pathsep.join(map(str, classes)), str(program), *arguments]


def streams_command(source: Path, *arguments: str) -> list[str]:
    """Runs a program of one Java file that uses Kafka Streams."""
    return class_command(fetch_streams(), source, "256m", "WARN", [], *arguments)


def broker_command() -> list[str]:
    """Runs an Apache Kafka broker when the path of a properties file is appended: a `command` for LocalCluster."""
    return java_command("kafka.Kafka", heap="512m", level="INFO")


def script_command(*, with_archive: bool) -> tuple[str, ...]:
    """`broker_command` with the flags of Apache Kafka's own start script: those of the tests are for short lives.

    With the archive of classes it starts sooner than its distribution does.
    """
    tests_own = ["-XX:TieredStopAtLevel", "-XX:+UseSerialGC", "-Xmx", *(() if with_archive else (_ARCHIVE_FLAG,))]
    java, *rest = (each for each in broker_command() if not each.startswith(tuple(tests_own)))
    return (java, *SCRIPT_FLAGS, *rest)


def wait_for_controller(bootstrap_servers: str, timeout_s: float = 60) -> None:
    """Until each server's metadata names a controller. Apache Kafka says "started" earlier, and librdkafka's admin
    client, when the server that it happens to ask knows of no controller, waits so long before it asks again that its
    calls time out."""
    for server in bootstrap_servers.split(","):
        admin = AdminClient({"bootstrap.servers": server})
        wait_until(partial(_names_controller, admin, timeout_s), f"a controller at {server}", timeout_s)


def _names_controller(admin: AdminClient, timeout_s: float) -> bool:
    return bool(admin.list_topics(timeout=timeout_s).controller_id >= 0)


def tool_command(name: str, *arguments: str) -> list[str]:
    return java_command(TOOLS[name], *arguments)
