"""Compiles .proto files, as a program of its own: `protobuf_compiler` runs it, so that a schema can stop neither the driver nor its clock.

Standard input has a JSON list of `{"root": name, "files": {name: text}}`; standard output gets a list with, for each, `{"descriptors": …}`
(a FileDescriptorSet in base64, the root's descriptor last) or `{"problem": …}`, what the compiler says.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc_tools  # type: ignore[import-untyped]
from grpc_tools import protoc

MEMORY_BYTES: Final = 2 << 30
"""Of this program's address space."""
_STDERR: Final = 2
_LOGGED: Final = re.compile(r"[IWEF]\d{4} |WARNING: All log messages before")
_WELL_KNOWN: Final = Path(grpc_tools.__file__).parent / "_proto"
"""Protobuf's own files, like google/protobuf/timestamp.proto."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    json.dump([compile_file(each["root"], each["files"]) for each in json.load(sys.stdin)], sys.stdout)


def compile_file(root: str, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer for one of the list."""
    with tempfile.TemporaryDirectory() as scratch:
        sources, compiled, said = (Path(scratch, name) for name in ("sources", "compiled", "said"))
        for name, text in files.items():
            file = sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        inputs = [f"-I{sources}", f"-I{_WELL_KNOWN}"]
        status = _run_protoc(["protoc", *inputs, "--include_imports", f"--descriptor_set_out={compiled}", root], said)
        if status != 0:
            return {"problem": _find_errors(said.read_text(errors="replace").replace(f"{sources}/", ""))}
        return {"descriptors": base64.b64encode(compiled.read_bytes()).decode()}


def _find_errors(said: str) -> str:
    """Return what protoc says without the lines of its log."""
    lines = [line for line in said.splitlines() if not _LOGGED.match(line)]
    return "; ".join(lines) or said.strip()


def _run_protoc(arguments: list[str], said: Path) -> int:
    """Return the compiler's status; what it writes to standard error, as C++ does, goes to a file."""
    kept = os.dup(_STDERR)
    with said.open("wb") as output:
        os.dup2(output.fileno(), _STDERR)
    try:
        return int(protoc.main(arguments))
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


if __name__ == "__main__":
    main()
