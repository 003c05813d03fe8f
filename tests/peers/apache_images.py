"""Images of Docker with Apache Kafka, built on ours, whose Java they have: a broker in a container, and a machine that systemd runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import docker

from tests.peers import apache_kafka

USER: Final = "1001"
"""Who runs Apache Kafka in its container: another one than in our image."""
START: Final = "bin/kafka-server-start.sh"
_LOG4J: Final = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_START_TEXT: Final = """#!/bin/sh
# As that of the distribution: runs a broker with the settings of a file.
exec /opt/java/bin/java ${KAFKA_HEAP_OPTS:--Xmx384m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \\
    -Dlog4j.configuration=file:/opt/kafka/config/log4j.properties -cp '/opt/kafka/libs/*' kafka.Kafka "$@"
"""
_RUN_TEXT: Final = """#!/bin/sh
# As cp-kafka's: the container's variables become server.properties, but for those of the start script.
set -eu
env | sed -n 's/^KAFKA_//p' | grep -v '^HEAP_OPTS=' | while IFS='=' read -r name value; do
    printf '%s=%s\\n' "$(printf %s "$name" | tr '[:upper:]_' '[:lower:].')" "$value"
done > /tmp/server.properties
exec /opt/kafka/bin/kafka-server-start.sh /tmp/server.properties
"""
_BROKER_FILE: Final = f"""ARG IMAGE
FROM ${{IMAGE}}
USER root
RUN rm -r /opt/kafkalite /opt/kafka /etc/confluent && useradd --uid {USER} --gid root --no-create-home kafka
COPY kafka /opt/kafka
HEALTHCHECK NONE
USER {USER}
CMD ["/opt/kafka/run"]
"""
_MACHINE_FILE: Final = """ARG IMAGE
FROM ${IMAGE}
USER root
RUN apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends systemd systemd-sysv >/dev/null \\
    && rm -rf /var/lib/apt/lists/* /opt/kafka \\
    && systemctl mask systemd-udevd.service systemd-logind.service getty.target systemd-timesyncd.service \\
    && useradd --system --home-dir /opt/kafka kafka && mkdir -p /var/lib/kafka/logs && chown kafka: /var/lib/kafka/logs
COPY kafka /opt/kafka
HEALTHCHECK NONE
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/sbin/init"]
CMD []
"""


def build_broker_image(engine: docker.DockerClient, image: str) -> str:
    """Build an image whose container is a broker of Apache Kafka, which reads variables as cp-kafka does. Returns its name."""
    return _build(engine, image, "broker", _BROKER_FILE)


def build_machine_image(engine: docker.DockerClient, image: str) -> str:
    """Build an image whose container is a machine with systemd, Apache Kafka in /opt/kafka and ours in /opt/kafkalite. Returns its name."""
    return _build(engine, image, "machine", _MACHINE_FILE)


def _build(engine: docker.DockerClient, image: str, kind: str, file: str) -> str:
    name = f"kafkalite-tests-apache-kafka-{kind}:{apache_kafka.VERSION}"
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        libs = context / "kafka/libs"
        libs.mkdir(parents=True)
        for each in apache_kafka.fetch().glob("*.jar"):
            shutil.copy2(each, libs)
        _write_programs(context / "kafka", {"run": _RUN_TEXT, START: _START_TEXT})
        (context / "kafka/config").mkdir()
        (context / "kafka/config/log4j.properties").write_text(_LOG4J)
        (context / "Dockerfile").write_text(file)
        engine.images.build(path=scratch, tag=name, buildargs={"IMAGE": image}, rm=True)
    return name


def _write_programs(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
