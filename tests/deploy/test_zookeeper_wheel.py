"""The wheel of ZooKeeper's jars: what is in it, that it is the same whenever it is built, and a server that starts from it."""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.zookeeper import build
from deploy.zookeeper.build import JarsMissingError, build_wheel, cache_folder, fetch_jars
from deploy.zookeeper.jars import LIST, Jar, parse_jars, pom_text, wrong_jars, zookeeper_version
from deploy.zookeeper.wheel import version_of, wheel_bytes
from tests.conftest import foreign_program
from zk.servers.ensemble import Ensemble
from zk.servers.server_classes import choose_jars, find_server_classes

LARGEST_BYTES = 20_000_000
HASH = "6201fa28de064efee51601e5d2c3bc2012cfe2e6ad3fb778b8b037095d88027f"
"""Of the wheel: with another one, also BUILD has to be another (`deploy/zookeeper/wheel.py`), since an index takes a version once."""
JARS = parse_jars(LIST.read_text())
INFO = f"kafkalite_zookeeper-{version_of(JARS)}.dist-info"

SENDS_ANOTHER = """#!/bin/sh
for each; do
    case "$each" in
        -DoutputDirectory=*) mkdir -p "${each#*=}" && echo other >"${each#*=}/example-1.0.jar" ;;
    esac
done
"""
"""A Maven that gets another file than it was asked for."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real one. Maven runs where the jars are not in the cache yet."""
    if wrong_jars(JARS, cache_folder(JARS)):
        foreign_program("mvn", "maven")
    return build_wheel(tmp_path_factory.mktemp("zookeeper-wheel"))


def made_up(name: str, *entries: str) -> tuple[Jar, bytes]:
    """A jar with these files inside."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for each in entries:
            archive.writestr(each, f"text of {each}")
    held = content.getvalue()
    return Jar(hashlib.sha256(held).hexdigest(), "org.example", name, "1.0", "", "MIT"), held


def test_a_server_gets_every_jar_of_the_list_and_lacks_none() -> None:
    chosen, missing = choose_jars(Path(jar.file_name) for jar in JARS)
    assert missing == []
    unused = {jar.file_name for jar in JARS} - {jar.name for jar in chosen}
    assert all("linux" in name for name in unused), "only another processor's library may be left out"
    assert len(unused) == 1


def test_a_line_that_is_no_jar_is_refused_with_its_number() -> None:
    with pytest.raises(ValueError, match="line 2 is not"):
        parse_jars("# a comment\norg.example:none:1.0 MIT\n")
    with pytest.raises(ValueError, match="no org"):
        zookeeper_version([made_up("other")[0]])


def test_maven_is_asked_for_the_jars_alone() -> None:
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    dependencies = ElementTree.fromstring(pom_text(JARS)).findall(".//m:dependency", names)
    assert [each.findtext("m:artifactId", "", names) for each in dependencies] == [jar.artifact for jar in JARS]
    assert [each.findtext("m:classifier", "", names) for each in dependencies] == [jar.classifier for jar in JARS]
    assert all(each.findtext(".//m:exclusion/m:artifactId", "", names) == "*" for each in dependencies)


def test_a_jar_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a repository sends instead never gets into the wheel."""
    jar, _ = made_up("example")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    maven = tmp_path / "mvn"
    maven.write_text(SENDS_ANOTHER)
    maven.chmod(0o755)
    monkeypatch.setattr(build.shutil, "which", lambda name: str(maven))
    listed = [jar, *JARS[:1]]
    with pytest.raises(JarsMissingError) as raised:
        fetch_jars(listed)
    assert f"example-1.0.jar has the SHA-256 {hashlib.sha256(b'other' + bytes([10])).hexdigest()} instead" in str(
        raised.value
    )
    assert f"{JARS[0].file_name} is missing" in str(raised.value)
    assert not cache_folder(listed).exists()


def test_no_maven_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsMissingError, match="apt-get install maven"):
        fetch_jars(JARS)


def test_licences_inside_jars_lie_beside_the_others() -> None:
    jar, content = made_up("zookeeper", "META-INF/LICENSE", "META-INF/NOTICE.txt", "a.class")
    jar = Jar(jar.sha256, "org.apache.zookeeper", "zookeeper", "3.9.5", "", "MIT")
    made = wheel_bytes([jar], {jar.file_name: content}, b"", {"LICENSE": b"all"})
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.read(f"{INFO}/licenses/zookeeper-3.9.5/NOTICE.txt") == b"text of META-INF/NOTICE.txt"
        lines = archive.read(f"{INFO}/METADATA").decode().splitlines()
    assert [line for line in lines if line.startswith("License")] == [
        "License-Expression: MIT",
        "License-File: LICENSE",
        "License-File: zookeeper-3.9.5/LICENSE",
        "License-File: zookeeper-3.9.5/NOTICE.txt",
    ]


def test_the_wheel_is_small_and_the_same_each_time(wheel: Path, tmp_path: Path) -> None:
    assert wheel.stat().st_size < LARGEST_BYTES
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == HASH


def test_the_record_has_every_file_with_its_hash(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        record = list(csv.reader(io.StringIO(archive.read(f"{INFO}/RECORD").decode())))
        assert [name for name, _, _ in record] == archive.namelist()
        for name, digest, size in record[:-1]:
            content = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={expected}", str(len(content)))


def test_scanners_are_told_the_components(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = json.loads(archive.read(f"{INFO}/sboms/jars.cdx.json"))["components"]
    assert [each["purl"] for each in found] == [jar.purl for jar in JARS]
    assert found[0]["purl"] == f"pkg:maven/org.apache.zookeeper/zookeeper@{zookeeper_version(JARS)}"


def test_a_server_starts_from_the_wheel(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, as far as Python can tell, the jars are those of every server that we start; its log has times."""
    foreign_program("java", "openjdk-17-jre-headless")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    monkeypatch.delitem(sys.modules, "kafkalite_zookeeper", raising=False)
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.delenv("SERVER_JVMFLAGS", raising=False)  # an archive of other classes
    jars = find_server_classes()
    assert {jar.parent for jar in jars} == {tmp_path / "installed" / "kafkalite_zookeeper" / "jars"}

    async def scenario() -> str:
        ensemble = Ensemble(tmp_path / "zookeeper", force_sync=False, classpath=jars)
        await ensemble.start(120)
        try:
            assert await ensemble.roles() == {1: "standalone"}
        finally:
            await ensemble.stop()
        return ensemble.member(1).log_path.read_text()

    log = asyncio.run(scenario()).splitlines()
    assert any(line[:2] == "20" and f"zookeeper.version={zookeeper_version(JARS)}" in line for line in log)
