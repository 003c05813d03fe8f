"""A Kerberos realm on the loopback address, by Debian's packages krb5-kdc and krb5-admin-server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from kafkalite.local.broker_process import wait_until
from kafkalite.local.ports import ReservedPort

REALM: Final = "KAFKALITE.TEST"
HOST: Final = "127.0.0.1"
_PROGRAMS: Final = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server"}
_DEADLINE_S: Final = 60.0
_LIBRARY: Final = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false

[realms]
{realm} = {{
  kdc = {address}
}}
"""
_KDC: Final = """[kdcdefaults]
kdc_listen = {address}
kdc_tcp_listen = {address}

[realms]
{realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
}}
"""


def lacking() -> str | None:
    """What is not there of what a realm needs, or a client of one."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian package {package})"
    return None if find_spec("gssapi") else "the Python package gssapi is not installed (Debian package python3-gssapi)"


class Kdc:
    """The realm; `environment` is that of whoever uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = ReservedPort()
        self.library = folder / "krb5.conf"
        address = f"{HOST}:{self._port.number}"
        self.library.write_text(_LIBRARY.format(realm=REALM, address=address))
        profile = folder / "kdc.conf"
        profile.write_text(_KDC.format(realm=REALM, address=address, folder=folder))
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.library),
            "KRB5RCACHENAME": f"file2:{folder}/replays",
        }
        self._own = {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(profile)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-W", "-P", "secret of the realm")
        self._process = subprocess.Popen(
            ["krb5kdc", "-n"], env=self._own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, "the KDC", _DEADLINE_S)
        return self

    def __exit__(self, *problem: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._port.release()

    def keytab(self, name: str, *principals: str) -> Path:
        """A file with the keys of new principals."""
        path = self._folder / f"{name}.keytab"
        for each in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", each)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), each)
        return path

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self._own, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._port.number), timeout=_DEADLINE_S):
                return True
        except ConnectionError:
            return False
