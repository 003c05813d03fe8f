"""Brokers of Apache Kafka's older releases, fetched by Maven. Those from before 0.11 write and read only messages of formats 0 and 1."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkalite.local.broker_process import wait_until
from tests.conftest import foreign_program
from tests.java_classes import compiled
from zk.servers.java_properties import properties_text

OLDEST: Final = "0.9.0.1"
WITH_TIMESTAMPS: Final = "0.10.2.2"
WITH_SESSIONS: Final = "1.1.1"
"""The oldest inter-broker protocol that a broker of ours speaks: fetch sessions, and control requests of before broker epochs."""
WITH_TOPIC_IDS: Final = "2.8.2"
_SCALA: Final = {OLDEST: "2.11", WITH_TIMESTAMPS: "2.12", WITH_SESSIONS: "2.12", WITH_TOPIC_IDS: "2.13"}
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalite.tests</groupId>
  <artifactId>old-brokers</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>org.rocksdb</groupId><artifactId>rocksdbjni</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>javax.xml.bind</groupId><artifactId>jaxb-api</artifactId><version>2.3.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-log4j12</artifactId><version>1.7.21</version></dependency>
  </dependencies>
</project>
"""
_LOG4J: Final = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_STARTED: Final = b"started (kafka.server.KafkaServer)"


def fetch(version: str) -> Path:
    """The folder with the jars of that release's broker and clients; the test is reported as not run without Maven or Java."""
    return _fetch(f"apache-kafka-{version}", f"kafka_{_SCALA[version]}", version)


def fetch_streams(version: str) -> Path:
    """As `fetch`, the jars of that release's Kafka Streams; without RocksDB, which only stores on disk need."""
    return _fetch(f"kafka-streams-{version}", "kafka-streams", version)


def _fetch(folder: str, artifact: str, version: str) -> Path:
    foreign_program("java", "openjdk-17-jre-headless")
    maven = foreign_program("mvn", "maven")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkalite" / folder
    home.mkdir(parents=True, exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            with tempfile.TemporaryDirectory() as scratch:
                Path(scratch, "pom.xml").write_text(_POM.format(artifact=artifact, version=version))
                command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={home}"]
                done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                raise RuntimeError(f"Maven could not fetch {artifact} {version}:\n{done.stdout}{done.stderr}")
            (home / "log4j.properties").write_text(_LOG4J)
            complete.touch()
    return home


def java(version: str, *arguments: str) -> list[str]:
    """A command line with that release's jars; `arguments` begin with a class or a source file."""
    home = fetch(version)
    return _java(home, [f"{home}/*"], *arguments)


def streams_command(version: str, source: Path, *arguments: str) -> list[str]:
    """Runs a program of one Java file that uses that release's Kafka Streams."""
    home = fetch_streams(version)
    jars = sorted(home.glob("*.jar"))
    folder = compiled(source, jars)
    program, classes = (source, jars) if folder is None else (source.stem, [*jars, folder])
    return _java(home, classes, str(program), *arguments)


def _java(home: Path, classes: Sequence[str | Path], *arguments: str) -> list[str]:
    flags = [
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j.configuration=file:{home}/log4j.properties",
    ]
    return ["java", *flags, "-cp", os.pathsep.join(map(str, classes)), *arguments]


@contextmanager
def running(version: str, directory: Path, properties: Mapping[str, str]) -> Iterator[None]:
    """A broker with these settings, from when it has started until it was asked to stop and did."""
    settings, log = directory / "old-broker.properties", directory / "old-broker.log"
    settings.write_text(properties_text(properties))
    with log.open("wb") as output:
        process = subprocess.Popen(java(version, "kafka.Kafka", str(settings)), stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(
            lambda: _STARTED in log.read_bytes() or process.poll() is not None, f"start of Apache Kafka {version}", 90
        )
        if process.poll() is not None:
            raise RuntimeError(log.read_text()[-3000:])
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
