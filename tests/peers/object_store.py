"""A server of S3 for tests, Versity's gateway over a folder, and the jars with which Spark reaches it.

Go builds the gateway from its module, Maven fetches S3A in the release of Hadoop that a Spark has. Of Amazon's client come the parts that
S3A uses; its own package asks for all of Amazon's cloud, 600 MB.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyarrow.fs import S3FileSystem

from kafkalite.local.broker_process import wait_until
from tests.conftest import not_run
from tests.ecosystem import environments
from tests.peers.apache_kafka import fetch_folder
from zk.servers.ensemble import free_ports

GATEWAY: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUCKET: Final = "lake"
KEY_ID, SECRET, REGION = "kafkalite", "not-a-secret", "us-east-1"
CLIENT_BY_HADOOP: Final = {"3.5.0": "2.35.4", "3.4.1": "2.29.52"}
"""The release of Amazon's client for each of Hadoop."""

_START_TIMEOUT_S: Final = 60


def fetch_gateway() -> str:
    """The gateway's program, built at the first call; without Go or its module the test is reported as not run."""
    try:
        return environments.go(GATEWAY).command[0]
    except environments.Missing as problem:
        not_run(f"there is no server of S3: {problem}")


def fetch_jars(hadoop: str) -> list[str]:
    """The jars of S3A for a release of Hadoop; the test is reported as not run without Maven or Java."""
    client = CLIENT_BY_HADOOP[hadoop]
    artifacts = [("org.apache.hadoop", "hadoop-aws", hadoop)]
    artifacts += [("software.amazon.awssdk", name, client) for name in ("s3", "s3-transfer-manager", "sts")]
    return sorted(map(str, fetch_folder(f"hadoop-aws-{hadoop}", artifacts).glob("*.jar")))


class ObjectStore:
    """A running gateway with one bucket, whose objects are the files of `bucket`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bucket = folder / "objects" / BUCKET
        self.bucket.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Settings with which a Spark reaches it; `environment` has the keys."""
        found = {"endpoint": self.endpoint, "endpoint.region": REGION, "path.style.access": "true"}
        return {f"spark.hadoop.fs.s3a.{name}": text for name, text in found.items()}

    def put(self, name: str, data: bytes) -> None:
        """Put an object into the bucket, as some other client does."""
        there = S3FileSystem(
            access_key=KEY_ID,
            secret_key=SECRET,
            region=REGION,
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
        )
        with there.open_output_stream(f"{BUCKET}/{name}") as stream:
            stream.write(data)

    def __enter__(self) -> Self:
        command = [fetch_gateway(), "--quiet", "--region", REGION, "--port", f"127.0.0.1:{self.port}"]
        with (self._folder / "gateway.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "posix", str(self.bucket.parent)],
                env={**os.environ, "ROOT_ACCESS_KEY": KEY_ID, "ROOT_SECRET_KEY": SECRET},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_until(self._listens, "the gateway", _START_TIMEOUT_S)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _listens(self) -> bool:
        assert self._process is not None
        log = (self._folder / "gateway.log").read_text(errors="replace")
        assert self._process.poll() is None, f"the gateway has ended:\n{log[-2000:]}"
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


def environment() -> dict[str, str]:
    """The variables in which Amazon's client looks for keys."""
    return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
