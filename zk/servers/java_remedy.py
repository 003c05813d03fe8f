"""The command that installs a Java runtime on this system, for messages where it is missing or too old."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Final

_BY_HAND: Final = (
    "install a Java runtime, version 17 or newer, and have `java` on the PATH or JAVA_HOME name its folder"
)
_APT_17: Final = "apt-get install openjdk-17-jre-headless"
_APT_DEFAULT: Final = "apt-get install default-jre-headless"
"""Java 17 in Debian 12, 21 in Debian 13, which has no 17 any more."""
_LAST_DEBIAN_WITH_17: Final = 12
_DNF: Final = "dnf install java-21-openjdk-headless"
_COMMANDS: Final = {
    "debian": _APT_DEFAULT,
    "ubuntu": _APT_17,
    "fedora": _DNF,
    "rhel": _DNF,
    "centos": _DNF,
    "amzn": "dnf install java-21-amazon-corretto-headless",
    "alpine": "apk add openjdk17-jre-headless",
    "arch": "pacman -S jre17-openjdk-headless",
    "suse": "zypper install java-17-openjdk-headless",
    "opensuse": "zypper install java-17-openjdk-headless",
}
"""By `ID` and `ID_LIKE` of os-release(5)."""
_BREW: Final = 'brew install openjdk@21 && export JAVA_HOME="$(brew --prefix openjdk@21)"'
"""Homebrew links no Java where others look for it."""


def java_remedy() -> str:
    """Return the command that installs Java on this system, as this user would give it; a sentence where no command is known."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return install_command(sys.platform, release, is_root=os.geteuid() == 0)


def install_command(system: str, release: Mapping[str, str], *, is_root: bool) -> str:
    """Return the command for `sys.platform` and the fields of os-release(5); a sentence for a system that is not known."""
    if system == "darwin":
        return _BREW
    named = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    command = next((_COMMANDS[name] for name in named if name in _COMMANDS), None)
    if command is None:
        return _BY_HAND
    version = release.get("VERSION_ID", "").partition(".")[0]
    if release.get("ID") == "debian" and version.isdecimal() and int(version) <= _LAST_DEBIAN_WITH_17:
        command = _APT_17
    return command if is_root else f"sudo {command}"
