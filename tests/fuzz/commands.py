"""Our own commands with their arguments and files, carried out: each says what is wrong and ends with one of its exit codes.

As `tools`, which see: within this process, on virtual time, against brokers that are objects. Commands that start processes or write beside
what they are told to are left out.
"""

from __future__ import annotations

import asyncio
import io
import random
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final
from unittest import mock

import uvloop

from kafkalite.cli.main import main
from kafkalite.cli.output import Exit
from tests.fuzz.record_batches import batches
from tests.fuzz.tools import run_on_virtual_time, without_a_cluster

_COMMANDS: Final = frozenset(
    {
        "acl",
        "config",
        "consume",
        "group",
        "leader",
        "log",
        "logdir",
        "offset",
        "partition",
        "produce",
        "record",
        "topic",
    }
    | {"transaction"}
)
_SETTINGS: Final = b"request.timeout.ms=1000\ndefault.api.timeout.ms=2000\nclient.id=x\nsecurity.protocol=PLAINTEXT\n"
_JAAS: Final = (
    b"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
    b'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\\\"x" tokenauth="true";\n'
)
_PLAN: Final = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"],"offset":1}]}'
)
_ROWS: Final = b'[{"topic":"t","partition":0,"replicas":[1],"target":[1,2]}]'
_ASKED: Final = "-b 127.0.0.1:9001 --timeout 1"
_SEEDS: Final[tuple[tuple[str, bytes], ...]] = (
    (f"topic create t2 --partitions 3 --config retention.ms=1 --command-config FILE {_ASKED}", _SETTINGS),
    (f"topic describe t --command-config FILE {_ASKED}", _JAAS),
    (f"topic list -o json -X client.id=x {_ASKED}", b""),
    (f"topic delete t --yes {_ASKED}", b""),
    (f"config set --topic t retention.ms=1 a=b {_ASKED}", b""),
    (f"config set --client-defaults producer_byte_rate=5 --command-config FILE {_ASKED}", _SETTINGS),
    (f"config alter --topic t --file FILE {_ASKED}", b"retention.ms=5\ncleanup.policy=compact\n"),
    (f"config describe --broker 1 {_ASKED}", b""),
    (f"group reset-offsets g --from-file FILE --dry-run {_ASKED}", b"topic,partition,offset\nt,0,5\nt,1,7\n"),
    (f"group reset-offsets g --topic t --by-duration P1DT2H --dry-run {_ASKED}", b""),
    (f"group describe g {_ASKED}", b""),
    (f"partition reassign plan t --brokers 0,1 -o json {_ASKED}", b""),
    (f"partition reassign execute --file FILE --yes {_ASKED}", _ROWS),
    (f"partition reassign execute --file FILE --yes {_ASKED}", _PLAN),
    (f"partition reassign verify --file FILE {_ASKED}", _PLAN),
    (f"partition reassign cancel --file FILE --yes {_ASKED}", _PLAN),
    (f"record delete --file FILE --dry-run {_ASKED}", _PLAN),
    (f"record delete t-0=5 --yes {_ASKED}", b""),
    (f"offset list t:0,1 --at latest {_ASKED}", b""),
    (f"acl list {_ASKED}", b""),
    (f"leader elect t-0 {_ASKED}", b""),
    (f"logdir describe --broker 1 {_ASKED}", b""),
    (f"transaction list --command-config FILE {_ASKED}", _SETTINGS),
    (f"produce t --command-config FILE {_ASKED}", _JAAS),
    (f"consume t --offset beginning --max-messages 1 --command-config FILE {_ASKED}", _SETTINGS),
    ("log dump FILE.index", b"\0\0\0\1\0\0\0\2"),
    ("log dump FILE.timeindex -o jsonl", b"\0" * 12),
    ("log verify FILE.snapshot", b"\0\1" * 20),
    ("log dump FILE.txnindex", b"\0" * 34),
    ("log dump FOLDER/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
    ("log dump FOLDER/replication-offset-checkpoint", b"0\n1\nt 0 5\n"),
    ("log verify FOLDER/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
    ("log compare FOLDER FOLDER/meta.properties", b"version=0\nbroker.id=1\ncluster.id=x\n"),
)


class Commands:
    """See the module. An input is as one of `tools`."""

    name = "commands"
    measured_every = 0
    """Commands are processes, which end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name, "00000000000000000000")
        kinds = ("log", "index", "timeindex", "snapshot", "txnindex")
        names = ("leader-epoch-checkpoint", "replication-offset-checkpoint", "meta.properties", "partition.metadata")
        self._files = {str(self._file), *(f"{self._file}.{kind}" for kind in kinds)}
        self._files |= {str(self._file.with_name(name)) for name in names}

    def close(self) -> None:
        self._folder.cleanup()

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        found = list(_SEEDS)
        for number, records in enumerate(batches(rng)):
            found.append((f"log {'dump FILE.log --records' if number % 2 else 'verify FILE.log'}", bytes(records)))
        return [line.replace(" ", "\0").encode() + b"\0\0" + content for line, content in found]

    def check(self, data: bytes) -> str:
        line, _, content = data.partition(b"\0\0")
        text = (
            line.decode("utf-8", "surrogateescape")
            .replace("FILE", str(self._file))
            .replace("FOLDER", self._folder.name)
        )
        words = text.split("\0")
        if words[0] not in _COMMANDS:
            return "no such command"
        for file in self._files.intersection(words):
            Path(file).write_bytes(content)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
        with (
            without_a_cluster(is_odd=len(data) % 2 == 1),
            mock.patch.object(uvloop, "run", run_on_virtual_time),
            mock.patch.object(Path, "write_text", _refuse_to_write),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            status = self._status(words)
        said = b"".join(each.buffer.getvalue() for each in (out, err)).decode(errors="replace").strip()  # type: ignore[attr-defined]
        assert "Traceback" not in said, said
        assert said or status in ("0", "waits"), f"{words[0]} ends with {status} and says nothing"
        return f"{words[0]} {status} {said[:40]}"

    def _status(self, words: list[str]) -> str:
        try:
            main.main(args=words, prog_name="kafkalite")
        except SystemExit as ended:
            code = ended.code or 0
            assert isinstance(code, int), code
            return str(Exit(code).value)
        except (TimeoutError, asyncio.CancelledError):
            return "waits"
        return "0"


def _refuse_to_write(*_: Any, **__: Any) -> int:
    raise PermissionError(13, "nothing is written by a fuzzer")
