"""The command line of one real ZooKeeper server: Java, its options, and where the server logs to (stdout).

The JVM options in `SERVER_JVMFLAGS`, which ZooKeeper's own start script honours too, come last and win.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from zk.servers.server_classes import find_java, find_server_classes
from zk.size_limits import ENSEMBLE_BYTES

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOG4J2 = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p [%t] %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
LOGBACK = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5p [%t] %c{0}: %m%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="console"/></root>
</configuration>
"""
SIMPLE_LOGGER = {
    "logFile": "System.out",
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss,SSS",
    "showShortLogName": "true",
}
"""Of slf4j-simple, which kafkalite-zookeeper has: the only one of the three that takes its settings from Java's properties alone."""


def server_command(
    settings_path: Path,
    log_settings_folder: Path,
    jvm_options: Sequence[str],
    *,
    classpath: Sequence[Path] | None = None,
    force_sync: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Return the command that runs a server with the settings of a `zoo.cfg`. The folder, made if need be, gets the settings of its log.

    `classpath` stands for the jars that `find_server_classes` would find; without `force_sync` the server skips fsync.
    Raises MissingRequirementError.
    """
    jars = classpath if classpath is not None else find_server_classes(environment)
    log_settings_folder.mkdir(parents=True, exist_ok=True)
    log4j2, logback = log_settings_folder / "log4j2.properties", log_settings_folder / "logback.xml"
    log4j2.write_text(LOG4J2)
    logback.write_text(LOGBACK)
    return [
        find_java(environment),
        *jvm_options,
        f"-Dlog4j2.configurationFile={log4j2.absolute().as_uri()}",
        f"-Dlogback.configurationFile={logback.absolute().as_uri()}",
        *(f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in SIMPLE_LOGGER.items()),
        "-Dzookeeper.jmx.log4j.disable=true",
        f"-Djute.maxbuffer={ENSEMBLE_BYTES}",
        f"-Dzookeeper.forceSync={'yes' if force_sync else 'no'}",
        *shlex.split(environment.get("SERVER_JVMFLAGS", "")),
        "-cp",
        os.pathsep.join(map(str, jars)),
        MAIN_CLASS,
        str(settings_path),
    ]


def java_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of a server: with names of files in UTF-8 where Python has them so.

    In the locale C, which Python leaves for UTF-8, Java would put a question mark for each character beyond ASCII.
    """
    in_utf8 = sys.getfilesystemencoding() == "utf-8"
    return {**environment, "LC_ALL": "C.UTF-8"} if in_utf8 else dict(environment)
