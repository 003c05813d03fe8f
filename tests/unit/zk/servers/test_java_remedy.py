"""Where Java is missing, the message has the command of the system at hand."""

from __future__ import annotations

import platform

import pytest

from zk.servers.java_remedy import install_command, java_remedy
from zk.servers.server_classes import MissingRequirementError, find_java


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "apt-get install openjdk-17-jre-headless"),
        ({"ID": "debian", "VERSION_ID": "13"}, "apt-get install default-jre-headless"),
        ({"ID": "debian"}, "apt-get install default-jre-headless"),
        ({"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "22.04"}, "apt-get install openjdk-17-jre-headless"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt-get install openjdk-17-jre-headless"),
        ({"ID": "fedora", "VERSION_ID": "43"}, "dnf install java-21-openjdk-headless"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install java-21-openjdk-headless"),
        ({"ID": "amzn", "ID_LIKE": "fedora"}, "dnf install java-21-amazon-corretto-headless"),
        ({"ID": "alpine", "VERSION_ID": "3.22.1"}, "apk add openjdk17-jre-headless"),
        ({"ID": "arch"}, "pacman -S jre17-openjdk-headless"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "zypper install java-17-openjdk-headless"),
    ],
    ids=lambda each: each["ID"] if isinstance(each, dict) else None,
)
def test_the_command_is_that_of_the_system(release: dict[str, str], command: str) -> None:
    assert install_command("linux", release, is_root=True) == command
    assert install_command("linux", release, is_root=False) == f"sudo {command}"


@pytest.mark.parametrize("release", [{}, {"ID": "nixos"}, {"ID": "gentoo", "ID_LIKE": ""}])
def test_an_unknown_system_gets_a_sentence(release: dict[str, str]) -> None:
    assert install_command("linux", release, is_root=False).startswith("install a Java runtime, version 17 or newer")


def test_homebrew_is_told_how_java_is_found() -> None:
    assert install_command("darwin", {}, is_root=False).startswith("brew install openjdk@21 && export JAVA_HOME=")


@pytest.mark.parametrize("problem", [None, OSError("no os-release")])
def test_no_java_is_one_line_with_the_command(
    problem: OSError | None, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release() -> dict[str, str]:
        if problem is not None:
            raise problem
        return {"ID": "alpine"}

    monkeypatch.setattr(platform, "freedesktop_os_release", release)
    with pytest.raises(MissingRequirementError) as raised:
        find_java({"PATH": str(tmp_path)})
    assert str(raised.value) == f"no Java to run ZooKeeper with; for this system: {java_remedy()}"
    assert ("apk add" in str(raised.value)) == (problem is None) and "\n" not in str(raised.value)
