"""Where ZooKeeper's classes are found, and which of the jars there are taken."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from zk.servers import server_classes
from zk.servers.server_classes import MissingRequirementError, choose_jars, find_server_classes

NETTY = ("buffer", "codec", "common", "handler", "resolver", "transport")
ALL = (
    *("zookeeper-3.9.5", "zookeeper-jute-3.9.5", "slf4j-api-2.0.13", "metrics-core-4.1.12.1", "snappy-java-1.1.10.5"),
    *(f"netty-{part}-4.1.130.Final" for part in NETTY),
)


def write_jars(folder: Path, names: Sequence[str] = ALL) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        folder.joinpath(f"{name}.jar").touch()
    return folder


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jars of an installed kafkalite-zookeeper."""
    package = tmp_path / "installed" / "kafkalite_zookeeper"
    jars = write_jars(package / "jars")
    package.joinpath("__init__.py").write_text(
        f"from pathlib import Path\ndef jar_folder(): return Path({str(jars)!r})\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "kafkalite_zookeeper", raising=False)
    return jars


def test_zookeeper_home_comes_first(packaged: Path, tmp_path: Path) -> None:
    home = tmp_path / "release"
    write_jars(home / "lib", ALL[1:])
    home.joinpath("zookeeper-3.9.5.jar").touch()
    assert {jar.parent for jar in find_server_classes({"ZOOKEEPER_HOME": str(home)})} == {home, home / "lib"}


def test_the_installed_jars_come_before_those_of_debian_and_pyspark(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_classes, "_DEBIAN_JARS", write_jars(tmp_path / "debian"))
    assert {jar.parent for jar in find_server_classes({})} == {packaged}


def test_a_place_that_lacks_one_jar_does_not_count(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    debian = write_jars(tmp_path / "debian")
    monkeypatch.setattr(server_classes, "_DEBIAN_JARS", debian)
    packaged.joinpath("snappy-java-1.1.10.5.jar").unlink()
    assert {jar.parent for jar in find_server_classes({})} == {debian}


def test_zookeeper_and_jute_are_of_one_version(tmp_path: Path) -> None:
    jars = [tmp_path / f"{name}.jar" for name in ("zookeeper-3.9.1", "zookeeper-3.6.3", "zookeeper-jute-3.6.3")]
    chosen, missing = choose_jars(jars)
    assert [jar.name for jar in chosen] == ["zookeeper-3.6.3.jar", "zookeeper-jute-3.6.3.jar"]
    assert "slf4j-api" in missing


def test_missing_classes_name_where_they_were_sought_and_the_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [("kafkalite-zookeeper", []), ("/usr/share/java", [tmp_path / f"{name}.jar" for name in ALL[:-1]])]
    monkeypatch.setattr(server_classes, "_places", lambda _: places)
    with pytest.raises(MissingRequirementError) as raised:
        find_server_classes({})
    assert str(raised.value) == (
        "ZooKeeper's server classes are not here; looked at kafkalite-zookeeper (none), /usr/share/java (no netty-transport). "
        "pip install 'kafkalite[zookeeper]' brings them (8 MB); or unpack a release of Apache ZooKeeper and set ZOOKEEPER_HOME to "
        "its folder"
    )


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("log4j-slf4j2-impl-2.0", "log4j-api-2.0", "log4j-core-2.0", "slf4j-simple-2.0"), "log4j-slf4j2-impl-2.0.jar"),
        (("log4j-slf4j2-impl-2.0", "logback-core-1.2", "logback-classic-1.2"), "logback-classic-1.2.jar"),
        (("logback-core-1.2", "slf4j-simple-2.0"), "slf4j-simple-2.0.jar"),
    ],
)
def test_servers_write_a_log_with_what_is_there(tmp_path: Path, there: Sequence[str], chosen: str) -> None:
    names = {jar.name for jar in choose_jars(tmp_path / f"{name}.jar" for name in there)[0]}
    bindings = {"log4j-slf4j2-impl-2.0.jar", "logback-classic-1.2.jar", "slf4j-simple-2.0.jar"}
    assert names & bindings == {chosen}
