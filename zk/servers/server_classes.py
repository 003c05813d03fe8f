"""Finds the Java runtime and ZooKeeper's server classes on this machine.

Looked at in this order: `ZOOKEEPER_HOME`, an installed kafkalite-zookeeper (the extra `kafkalite[zookeeper]`), Debian's
`/usr/share/java`, the jars inside an installed pyspark (4.x carries ZooKeeper 3.9), Maven's cache `~/.m2`. A place counts only if it has
everything that the server needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from zk.servers.java_remedy import java_remedy

_DEBIAN_JARS = Path("/usr/share/java")
_REQUIRED = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
_NETTY = ("netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport")
_WELCOME = (
    "audience-annotations",
    "commons-cli",
    "commons-io",
    "netty-codec-base",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)
_LOGGING = (("log4j-slf4j2-impl", "log4j-api", "log4j-core"), ("logback-classic", "logback-core"), ("slf4j-simple",))
"""What writes the server's log: the first of which all is there. pyspark, ZooKeeper's releases and Debian each have another."""

_CLASSES_REMEDY = (
    "pip install 'kafkalite[zookeeper]' brings them (8 MB); or unpack a release of Apache ZooKeeper and set ZOOKEEPER_HOME "
    "to its folder"
)
_PACKAGED = "kafkalite_zookeeper"
"""The module of the distribution that `deploy/zookeeper` builds."""


class MissingRequirementError(Exception):
    """Java or ZooKeeper's classes are not on this machine; the message names the remedy."""


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the `java` program: of JAVA_HOME, else on the PATH. Raises MissingRequirementError."""
    home = environment.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        raise MissingRequirementError(f"no Java to run ZooKeeper with; for this system: {java_remedy()}")
    return found


def find_server_classes(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the jars for the server's class path. Raises MissingRequirementError."""
    looked = []
    for place, jars in _places(environment):
        chosen, missing = choose_jars(jars)
        if not missing:
            return chosen
        looked.append(f"{place} (no {', '.join(missing)})" if chosen else f"{place} (none)")
    raise MissingRequirementError(
        f"ZooKeeper's server classes are not here; looked at {', '.join(looked)}. {_CLASSES_REMEDY}"
    )


def choose_jars(jars: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Return the newest jar of each artifact that the server needs, and the artifacts that are missing.

    zookeeper and zookeeper-jute are of the same version.
    """
    by_artifact: dict[str, dict[tuple[int, ...], Path]] = {}
    for jar in jars:
        match = re.fullmatch(r"(?P<artifact>.+?)(?:-(?P<version>\d[^-]*)(?:-(?P<classifier>.+))?)?\.jar", jar.name)
        if match and (match["classifier"] is None or match["classifier"] == _native_classifier()):
            by_artifact.setdefault(match["artifact"], {})[_version_key(match["version"])] = jar
    both = by_artifact.get("zookeeper", {}).keys() & by_artifact.get("zookeeper-jute", {}).keys()
    for artifact in ("zookeeper", "zookeeper-jute"):
        versions = by_artifact.get(artifact, {})
        by_artifact[artifact] = {version: versions[version] for version in both}
    netty = ("netty-all",) if "netty-all" in by_artifact and not set(_NETTY) <= by_artifact.keys() else _NETTY
    required = (*_REQUIRED, *netty)
    missing = [artifact for artifact in required if not by_artifact.get(artifact)]
    logging = next((binding for binding in _LOGGING if all(map(by_artifact.get, binding))), ())
    wanted = (*required, *_WELCOME, "netty-transport-native-epoll", *logging)
    found = [by_artifact[artifact] for artifact in wanted if by_artifact.get(artifact)]
    return [versions[max(versions)] for versions in found], missing


def _places(environment: Mapping[str, str]) -> Iterable[tuple[str, list[Path]]]:
    home = environment.get("ZOOKEEPER_HOME")
    if home:
        yield f"ZOOKEEPER_HOME={home}", [*Path(home).glob("*.jar"), *Path(home, "lib").glob("*.jar")]
    yield _PACKAGED.replace("_", "-"), _packaged_jars()
    yield str(_DEBIAN_JARS), list(_DEBIAN_JARS.glob("*.jar"))
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.origin is not None:
        yield "pyspark", list(Path(spark.origin).parent.joinpath("jars").glob("*.jar"))
    else:
        yield "pyspark", []
    cache = Path(environment.get("HOME", "~")).expanduser() / ".m2" / "repository"
    yield str(cache), [jar for group in _MAVEN_GROUPS for jar in cache.joinpath(group).rglob("*.jar")]


def _packaged_jars() -> list[Path]:
    """Return the jars of an installed kafkalite-zookeeper, none without it."""
    if importlib.util.find_spec(_PACKAGED) is None:
        return []
    folder: Path = importlib.import_module(_PACKAGED).jar_folder()
    return list(folder.glob("*.jar"))


_MAVEN_GROUPS = (
    "org/apache/zookeeper",
    "org/apache/yetus",
    "org/apache/logging/log4j",
    "org/slf4j",
    "org/xerial/snappy",
    "io/netty",
    "io/dropwizard/metrics",
    "commons-cli",
    "commons-io",
)


def _native_classifier() -> str:
    machine = {"aarch64": "aarch_64", "arm64": "aarch_64"}.get(platform.machine(), platform.machine())
    return f"linux-{machine}"


def _version_key(version: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version or ""))
