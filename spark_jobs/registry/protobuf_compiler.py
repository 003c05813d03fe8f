"""Protobuf schemas, which a registry has as text, to descriptors: on the driver, by protoc, which comes with grpcio-tools.

A schema that does not compile is no error here: only its records are undecodable.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]

from spark_jobs.registry.schemas import MAX_DECODING_BYTES, Schema, SchemaError

TIMEOUT_S: Final = 120
_PROGRAM: Final = Path(__file__).with_name("protoc_program.py")
"""Run as a file, because this package need not be on the path of another Python."""
_MAX_NAME_LENGTH: Final = 200
_MAX_PROBLEM_LENGTH: Final = 300


def compile_schemas(schemas: Sequence[Schema]) -> list[Schema]:
    """Return the schemas with `compiled`, a FileDescriptorSet, or with `problem`. SchemaError where protoc is missing or fails."""
    if find_spec("grpc_tools") is None:
        raise SchemaError(
            "Protobuf schemas are compiled on the driver, which needs grpcio-tools: pip install 'kafkalite[protobuf]'"
        )
    problems = [_find_name_problem(each) for each in schemas]
    sources = [_files(each) for each, problem in zip(schemas, problems, strict=True) if problem is None]
    answers = iter(_run_program(sources) if sources else [])
    return [
        replace(schema, problem=problem) if problem is not None else _with_answer(schema, next(answers))
        for schema, problem in zip(schemas, problems, strict=True)
    ]


def without_imports(schema: Schema) -> Schema:
    """Return a compiled schema with its own file alone, which has the names of its messages."""
    if schema.problem is not None:
        return Schema("", schema.type, problem=schema.problem)
    files = FileDescriptorSet.FromString(schema.compiled).file[-1:]
    return Schema("", schema.type, compiled=FileDescriptorSet(file=files).SerializeToString())


def _find_name_problem(schema: Schema) -> str | None:
    """Return what is wrong with the names of files, which the schema's author chose; None if nothing is."""
    for each in schema.references:
        parts = each.name.split("/")
        if (
            len(each.name) > _MAX_NAME_LENGTH
            or not all(parts)
            or not {".", ".."}.isdisjoint(parts)
            or "\0" in each.name
        ):
            return f"it refers to {each.name!r:.{_MAX_NAME_LENGTH}}, which is no name of a file to import"
    return None


def _files(schema: Schema) -> dict[str, Any]:
    files = {each.name: each.text for each in schema.references}
    root = "schema.proto"
    while root in files:
        root = f"the_{root}"
    return {"root": root, "files": {**files, root: schema.text}}


def _run_program(sources: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROGRAM)],
            input=json.dumps(sources).encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise SchemaError(f"protoc did not compile {len(sources)} Protobuf schemas within {TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode(errors="replace").strip()[-_MAX_PROBLEM_LENGTH:]
        raise SchemaError(f"protoc failed with status {problem.returncode}: {said}") from None
    except ValueError as problem:
        raise SchemaError(f"protoc gave no answer: {problem}") from None
    return list(found)


def _with_answer(schema: Schema, answer: dict[str, str]) -> Schema:
    if (problem := answer.get("problem")) is not None:
        return replace(schema, problem=f"protoc: {problem[:_MAX_PROBLEM_LENGTH]}")
    compiled = base64.b64decode(answer["descriptors"])
    if len(compiled) > MAX_DECODING_BYTES:
        return replace(schema, problem=f"its descriptors have {len(compiled)} bytes, more than {MAX_DECODING_BYTES}")
    return replace(schema, compiled=compiled)
