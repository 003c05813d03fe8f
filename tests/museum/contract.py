"""What a client or a tool of the museum is: a file below `clients/`, and a program in the client's own language below `programs/`.

A file names the client, how its environment is made (`language`, `packages`, `programs`, see `environments`) and its `features`; each of
its `[[versions]]` may say all of them again, or which features it is `without`. `{version}` stands for the version. `arguments` go to the
program, and `variant` then tells two of one version apart. What is `zookeeper_only` has nothing to do with a cluster without it.

A program is started as `PROGRAM BOOTSTRAP ZOOKEEPER ARGUMENT...`, takes steps from stdin, a line of words each, and answers each with a
line of JSON: `{"ok": true, "values": ["..."]}` or `{"ok": false, "error": "..."}`. It ends with its stdin. Topics have two partitions,
groups begin at the earliest offset.

| Step | What the program does |
|---|---|
| `produce TOPIC CODEC COUNT` | records `key-N`, `value-N` for each N below COUNT, to partition N % 2, acknowledged by all |
| `read TOPIC COUNT` | reads so many records from the beginning, without a group if it can, and returns their values |
| `group TOPIC GROUP COUNT` | reads so many as the only member of a group, commits and leaves; returns the values |
| `dual TOPIC GROUP COUNT` | the same with offsets in the brokers and in ZooKeeper |
| `seek TOPIC OFFSET` | seeks in partition 0, and returns the value of the record there |
| `offsets TOPIC` | returns the first and the next offset of partition 0 |
| `create TOPIC`, `delete TOPIC` | by its admin client: three partitions, one replica |
| `transact TOPIC ID` | a transaction with the record `aborted` that is aborted, one with the record `committed` that is committed |
| `follow TOPIC GROUP` | as a member of a group tells of each record, then commits it, until SIGTERM: then it leaves |
| `describe TOPIC` | tools: how many partitions it has |
| `lag TOPIC GROUP` | tools: of all partitions together |
| `committed TOPIC GROUP`, `znode_offsets TOPIC GROUP` | tools: the committed offsets in the order of partitions |
| `set_offsets TOPIC GROUP` | tools: commits 5 and 6 for a group without members |

`follow` tells of a record by `{"partition": 0, "offset": 1, "value": "..."}`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Exhibit:
    """One version of one client."""

    file: str
    client: str
    version: str
    variant: str
    language: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    features: tuple[str, ...]
    zookeeper_only: bool = False

    @property
    def name(self) -> str:
        """Of this exhibit alone: `java-0.9.0.1`; usable in the names of topics and folders."""
        return "-".join(filter(None, (self.file, self.version, self.variant)))


def _exhibit(file: str, described: Mapping[str, Any]) -> Exhibit:
    version = described["version"]
    without = described.get("without", ())
    return Exhibit(
        file=file,
        client=described["client"],
        version=version,
        variant=described.get("variant", ""),
        language=described["language"],
        packages=tuple(each.replace("{version}", version) for each in described["packages"]),
        programs=tuple(described["programs"]),
        arguments=tuple(described.get("arguments", ())),
        features=tuple(each for each in described["features"] if each not in without),
        zookeeper_only=described.get("zookeeper_only", False),
    )


def exhibits() -> list[Exhibit]:
    """All of the museum, by client, the oldest versions first."""
    found = []
    for path in sorted((HERE / "clients").glob("*.toml")):
        described = tomllib.loads(path.read_text())
        versions = described.pop("versions")
        found += [_exhibit(path.stem, described | each) for each in versions]
    return found
