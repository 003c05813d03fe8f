"""The list of jars: where each comes from, and the hash that it must have. Pure, apart from `wrong_jars`, which reads files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

LIST: Final = Path(__file__).with_name("jars.txt")
_LINE: Final = re.compile(r"([0-9a-f]{64}) ([\w.-]+):([\w.-]+):([\w.-]+)(?::([\w.-]+))? (\S.*)")
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalite</groupId>
  <artifactId>zookeeper-jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_EXCLUDE_ALL: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True, slots=True)
class Jar:
    """An artifact of Maven; `classifier` is empty for most, `licence` an SPDX expression."""

    sha256: str
    group: str
    artifact: str
    version: str
    classifier: str
    licence: str

    @property
    def stem(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        return f"{self.stem}.jar"

    @property
    def purl(self) -> str:
        """The package URL, by which scanners know it."""
        qualifier = f"?classifier={self.classifier}" if self.classifier else ""
        return f"pkg:maven/{self.group}/{self.artifact}@{self.version}{qualifier}"


def parse_jars(text: str) -> list[Jar]:
    """Return the jars of a list. Raises ValueError for a line that is none, with its number."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not `SHA-256 group:artifact:version[:classifier] licence`: {line!r}")
        sha256, group, artifact, version, classifier, licence = match.groups()
        found.append(Jar(sha256, group, artifact, version, classifier or "", licence))
    return found


def zookeeper_version(jars: Iterable[Jar]) -> str:
    """Return the version of ZooKeeper itself. Raises ValueError for a list without it."""
    for jar in jars:
        if (jar.group, jar.artifact) == ("org.apache.zookeeper", "zookeeper"):
            return jar.version
    raise ValueError("the list has no org.apache.zookeeper:zookeeper")


def pom_text(jars: Iterable[Jar]) -> str:
    """Return the `pom.xml` of a project that depends on these jars and on nothing else."""
    return _POM.format(dependencies="\n".join(map(_dependency, jars)))


def _dependency(jar: Jar) -> str:
    fields = {"groupId": jar.group, "artifactId": jar.artifact, "version": jar.version, "classifier": jar.classifier}
    named = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in fields.items() if text)
    return f"    <dependency>{named}{_EXCLUDE_ALL}</dependency>"


def wrong_jars(jars: Sequence[Jar], folder: Path) -> list[str]:
    """Return what is wrong with the files of a folder: one that is missing, or has another hash."""
    wrong = []
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            wrong.append(f"{jar.file_name} is missing")
            continue
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != jar.sha256:
            wrong.append(f"{jar.file_name} has the SHA-256 {found} instead of {jar.sha256}")
    return wrong
