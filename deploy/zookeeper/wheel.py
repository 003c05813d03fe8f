"""The wheel as bytes: the same jars give the same bytes, wherever and whenever it is built, by whatever release of kafkalite. Pure.

All entries are of one time. Nothing is compressed: a jar is already, and other versions of zlib would write other bytes. The list of
components for scanners is in `.dist-info/sboms` (PEP 770).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from deploy.zookeeper.jars import Jar, zookeeper_version
from kafkalite.build_archives import EARLIEST_S

DISTRIBUTION: Final = "kafkalite_zookeeper"
BUILD: Final = 1
"""Counts the wheels of one version of ZooKeeper: raised when anything else in them changes."""
_LICENCE_FILES: Final = ("LICENSE", "LICENSE.txt", "NOTICE", "NOTICE.txt")
_TAGS: Final = "Wheel-Version: 1.0\nGenerator: kafkalite\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_DESCRIPTION: Final = """\
The jars of an Apache ZooKeeper server, with their licences, for `kafkalite cluster up`, `kafkalite zk` and the fixtures of
kafkalite.testing, which find them as soon as this is installed. A server needs Java 17 as well. `kafkalite_zookeeper.jar_folder()` tells
where they are.

The jars are as their owners publish them. This is not a release of the Apache Software Foundation.
"""


def version_of(jars: Sequence[Jar]) -> str:
    """Return the distribution's version: ZooKeeper's, and the number of the build."""
    return f"{zookeeper_version(jars)}.{BUILD}"


def wheel_name(jars: Sequence[Jar]) -> str:
    return f"{DISTRIBUTION}-{version_of(jars)}-py3-none-any.whl"


def wheel_bytes(
    jars: Sequence[Jar], contents: Mapping[str, bytes], module: bytes, licences: Mapping[str, bytes]
) -> bytes:
    """Return the wheel. `contents` has the jars' bytes by file name, `licences` texts by name."""
    home, info = DISTRIBUTION, f"{DISTRIBUTION}-{version_of(jars)}.dist-info"
    texts = dict(licences)
    for jar in jars:
        texts |= {f"{jar.stem}/{name}": text for name, text in _licences_inside(contents[jar.file_name]).items()}
    files = {f"{home}/__init__.py": module, f"{home}/py.typed": b""}
    files |= {f"{home}/jars/{jar.file_name}": contents[jar.file_name] for jar in jars}
    files |= {f"{info}/licenses/{name}": text for name, text in texts.items()}
    files[f"{info}/METADATA"] = _metadata(jars, sorted(texts)).encode()
    files[f"{info}/WHEEL"] = _TAGS.encode()
    files[f"{info}/sboms/jars.cdx.json"] = (json.dumps(_components(jars), indent=2) + "\n").encode()
    record = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in sorted(files.items())]
    last = f"{info}/RECORD"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [*sorted(files.items()), (last, "".join([*record, f"{last},,\n"]).encode())]:
            entry = zipfile.ZipInfo(name, time.gmtime(EARLIEST_S)[:6])
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, also where it is built elsewhere
            archive.writestr(entry, content)
    return packed.getvalue()


def _licences_inside(jar: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        there = set(archive.namelist())
        return {name: archive.read(f"META-INF/{name}") for name in _LICENCE_FILES if f"META-INF/{name}" in there}


def _metadata(jars: Sequence[Jar], licence_files: Sequence[str]) -> str:
    expressions = sorted({part for jar in jars for part in jar.licence.split(" AND ")})
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {DISTRIBUTION.replace('_', '-')}",
        f"Version: {version_of(jars)}",
        f"Summary: The jars of an Apache ZooKeeper {zookeeper_version(jars)} server, for kafkalite",
        f"License-Expression: {' AND '.join(expressions)}",
        *(f"License-File: {name}" for name in licence_files),
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join([*lines, "", _DESCRIPTION])


def _components(jars: Sequence[Jar]) -> dict[str, Any]:
    """Return a list of components in CycloneDX's format."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [
            {
                "type": "library",
                "bom-ref": jar.purl,
                "group": jar.group,
                "name": jar.artifact,
                "version": jar.version,
                "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
                "licenses": [{"expression": jar.licence}],
                "purl": jar.purl,
            }
            for jar in jars
        ],
    }


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
