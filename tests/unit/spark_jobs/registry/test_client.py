"""What the client makes of a registry's responses, and of those that it does not get."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from spark_jobs.registry import client
from spark_jobs.registry.client import (
    Registered,
    Registry,
    RegistryError,
    RegistryNotAuthorizedError,
    RegistryOptions,
    RegistryUnreachableError,
    UnknownSchemaError,
)
from spark_jobs.registry.lookup import Choice, ChoiceError, Lookup
from spark_jobs.registry.schemas import Reference, Schema, SchemaError
from tests.unit.spark_jobs.registry.http_registry import http_registry

URL = "http://registry:8081"
INT, TEXT = '"int"', '"string"'


@dataclass
class Response:
    status: int
    data: bytes
    is_released: bool = False

    def read(self, amt: int, decode_content: bool) -> bytes:
        assert not decode_content, "a small response could be a large one"
        return self.data[:amt]

    def release_conn(self) -> None:
        self.is_released = True


class Responses:
    """Takes the place of urllib3's pool: responses by path."""

    def __init__(self, **found: Any) -> None:
        self.found: dict[str, Any] = found
        self.asked: list[str] = []

    def request(self, method: str, url: str, *, preload_content: bool, **body: Any) -> Response:
        assert method == "GET" and body == {"json": None} and url.startswith(URL) and not preload_content
        path = url.removeprefix(URL)
        self.asked.append(path)
        found = self.found.get(path, (404, {"error_code": 40401, "message": f"no {path}"}))
        if isinstance(found, Exception):
            raise found
        status, body = found if isinstance(found, tuple) else (200, found)
        return Response(status, body if isinstance(body, bytes) else json.dumps(body).encode())


def version(number: int, schema_id: int, schema: str, **more: Any) -> dict[str, Any]:
    return {"subject": "t-value", "version": number, "id": schema_id, "schema": schema, **more}


def registry(found: dict[str, Any]) -> tuple[Registry, Responses]:
    responses = Responses(**found)
    return Registry(RegistryOptions(URL + "/"), responses), responses


VERSIONS = {
    "/subjects/t-value/versions?deleted=true": [1, 3],
    "/subjects/t-value/versions/1?deleted=true": version(1, 7, INT),
    "/subjects/t-value/versions/3?deleted=true": version(3, 9, TEXT, schemaType="AVRO"),
    "/subjects/t-value/versions/latest": version(3, 9, TEXT),
}


def test_all_versions_are_read_once() -> None:
    found, responses = registry(VERSIONS)
    assert found.versions("t-value") == [Registered(7, 1, Schema(INT)), Registered(9, 3, Schema(TEXT))]
    assert found.versions("t-value")[0].id == 7
    assert len(responses.asked) == 4, "versions never change"


def reference(subject: str) -> dict[str, Any]:
    return {"name": f"name of {subject}", "subject": subject, "version": 1}


def referring(schema_id: int, text: str, *subjects: str) -> dict[str, Any]:
    return version(1, schema_id, text, references=[reference(each) for each in subjects])


def test_references_come_before_what_refers_to_them() -> None:
    found, responses = registry(
        {
            "/subjects/t-value/versions/1?deleted=true": referring(1, "OUTER", "a/b", "c"),
            "/subjects/a%2Fb/versions/1?deleted=true": referring(2, "MIDDLE", "c"),
            "/subjects/c/versions/1?deleted=true": version(1, 3, "INNER"),
        }
    )
    expected = (Reference("name of c", "INNER"), Reference("name of a/b", "MIDDLE"))
    assert found.version("t-value", 1).schema == Schema("OUTER", "AVRO", expected)
    assert found.version("c", 1).schema == Schema("INNER")
    assert len(responses.asked) == 3, "each version once"


def test_schemas_that_refer_to_each_other_end() -> None:
    found, responses = registry(
        {
            "/subjects/t-value/versions/1?deleted=true": referring(1, "OUTER", "a"),
            "/subjects/a/versions/1?deleted=true": referring(2, "A", "b"),
            "/subjects/b/versions/1?deleted=true": referring(3, "B", "a"),
        }
    )
    assert found.version("t-value", 1).schema.references == (Reference("name of b", "B"), Reference("name of a", "A"))
    assert len(responses.asked) == 3


def test_a_chain_of_references_is_bounded() -> None:
    chain = {f"/subjects/s{n}/versions/1?deleted=true": referring(n, str(n), f"s{n + 1}") for n in range(100)}
    found, responses = registry(chain)
    with pytest.raises(RegistryError, match="refers to more than 100 others, or through more than 20 of them"):
        found.version("s0", 1)
    assert len(responses.asked) < 30


def test_many_references_are_bounded() -> None:
    leaves = {f"/subjects/s{n}/versions/1?deleted=true": version(1, n, str(n)) for n in range(200)}
    root = {"/subjects/t-value/versions/1?deleted=true": referring(999, "ROOT", *(f"s{n}" for n in range(200)))}
    with pytest.raises(RegistryError, match="refers to more than 100 others"):
        registry(leaves | root)[0].version("t-value", 1)


@pytest.mark.parametrize("references", [[{"name": "a"}], ["a"], 5, [{"name": "a", "subject": "b", "version": "x"}]])
def test_references_that_are_none(references: Any) -> None:
    found, _ = registry({"/subjects/t-value/versions/latest": version(1, 1, INT, references=references)})
    with pytest.raises(RegistryError, match="the references of a schema of subject t-value have no name"):
        found.version("t-value", "latest")


def test_what_a_registry_sends_is_bounded() -> None:
    long = '"' + "a" * client.MAX_SCHEMA_BYTES + '"'
    found, _ = registry(
        {
            "/subjects/t-value/versions/1?deleted=true": version(1, 1, long),
            "/subjects/t-value/versions/2?deleted=true": b"[" * (client.MAX_RESPONSE_BYTES + 1),
            "/subjects/t-value/versions/3?deleted=true": b"[" * client.MAX_RESPONSE_BYTES,
            "/subjects/t-value/versions?deleted=true": list(range(1, client.MAX_VERSIONS + 2)),
        }
    )
    with pytest.raises(
        RegistryError, match=r"version 1 of subject t-value .* have 1048578 characters, more than 1048576"
    ):
        found.version("t-value", 1)
    with pytest.raises(RegistryError, match="the response has more than 4194304 bytes"):
        found.version("t-value", 2)
    with pytest.raises(RegistryError, match="the response is not JSON"):
        found.version("t-value", 3)
    with pytest.raises(RegistryError, match="subject t-value has 10001 versions, more than 10000"):
        found.versions("t-value")


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        ((401, b""), RegistryNotAuthorizedError, r"answered 401; give other user info \(user:password\)"),
        ((403, {"message": "no"}), RegistryNotAuthorizedError, r"answered 403 \(no\)"),
        (
            (404, {"message": "Subject not found."}),
            UnknownSchemaError,
            r"no such subject or version \(Subject not found",
        ),
        ((503, b""), RegistryUnreachableError, "answered 503 4 times; try later"),
        ((302, b""), RegistryError, "answered 302; is its URL right?"),
        (b"<html>", RegistryError, "the response is not JSON"),
        ({"id": 5}, RegistryError, "the response for subject t-value has no schema, id and version"),
        ([1], RegistryError, "the response for subject t-value has no schema, id and version"),
        (
            version(1, 1, INT) | {"id": "1"},
            RegistryError,
            "the response for subject t-value has no schema, id and vers",
        ),
        (urllib3.exceptions.ProtocolError("gone"), RegistryUnreachableError, "registry:8081 cannot be reached: gone"),
    ],
)
def test_errors_name_the_url_and_the_remedy(response: Any, error: type[Exception], message: str) -> None:
    found, _ = registry({"/subjects/t-value/versions/latest": response})
    with pytest.raises(error, match=message) as caught:
        found.version("t-value", "latest")
    assert type(caught.value) is error and URL in str(caught.value)


def test_a_registry_that_is_not_there() -> None:
    with pytest.raises(
        RegistryUnreachableError, match=r"http://127\.0\.0\.1:1 cannot be reached: .*refused.*is it running"
    ):
        Registry(RegistryOptions("http://127.0.0.1:1")).version("t-value", 1)


def test_passwords_are_sent_to_the_registry_alone() -> None:
    latest = "/subjects/t-value/versions/latest"
    with (
        http_registry({latest: version(1, 1, INT)}) as elsewhere,
        http_registry({latest: f"{elsewhere}{latest}"}, user_info="me:secret") as url,
    ):
        assert Registry(RegistryOptions(elsewhere)).version("t-value", "latest").schema == Schema(INT)
        with pytest.raises(RegistryError, match=r"answered 302; is its URL right\?"):
            Registry(RegistryOptions(url, "me:secret")).version("t-value", "latest")


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://h", "http://", ""])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="is not like http://localhost:8081"):
        RegistryOptions(url).check()


def test_credentials_are_never_shown() -> None:
    with pytest.raises(ValueError, match="has credentials in it, which would be printed") as caught:
        RegistryOptions("http://me:secret@host").check()
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(RegistryOptions(URL, "me:secret"))
    with pytest.raises(ValueError, match="not like user:password") as caught:
        RegistryOptions(URL, "secret").check()
    assert "secret" not in str(caught.value)


# which schemas


def lookup(reader: str = "latest", subjects: str | None = None, found: dict[str, Any] | None = None) -> Lookup:
    return Lookup(Choice("value", "avro", reader, subjects), registry(VERSIONS if found is None else found)[0])


def test_readers() -> None:
    assert lookup().reader("t") == Schema(TEXT)
    assert lookup("1").reader("t") == Schema(INT)
    assert lookup("1", "t-value").reader("another") == Schema(INT)


def test_a_readers_schema_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "flight.avsc"
    file.write_text(INT)
    assert lookup(f"@{file}").reader("t") == Schema(INT)
    file.write_text('"colour"')
    with pytest.raises(SchemaError, match=f"{file}: not an Avro schema"):
        lookup(f"@{file}").reader("t")
    with pytest.raises(ChoiceError, match="cannot read the schema /nowhere"):
        lookup("@/nowhere").reader("t")


def test_writers_are_all_versions_of_all_subjects() -> None:
    found = {
        **VERSIONS,
        "/subjects/u/versions?deleted=true": [1],
        "/subjects/u/versions/1?deleted=true": version(1, 8, INT),
    }
    decoding = lookup(subjects="t-value, u", found=found).decoding("t")
    assert decoding.writers == {7: Schema(INT), 9: Schema(TEXT), 8: Schema(INT)}
    assert decoding.reader == Schema(TEXT) and decoding.known_from == "subject t-value, u"


def test_schemas_that_are_too_much_for_a_task() -> None:
    texts = [f'"{n}{"a" * (client.MAX_SCHEMA_BYTES - 100)}"' for n in range(10)]
    paths = {f"/subjects/t-value/versions/{n}?deleted=true": version(n, n, text) for n, text in enumerate(texts)}
    found = {**VERSIONS, **paths, "/subjects/t-value/versions?deleted=true": list(range(10))}
    with pytest.raises(SchemaError, match=r"the schemas of subject t-value have 943.... characters, more than 8388608"):
        lookup(found=found).decoding("t")


def test_a_default_that_is_not_of_its_type_is_told_on_the_driver() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}
    found = {"/subjects/t-value/versions/latest": version(1, 1, json.dumps(schema))}
    with pytest.raises(
        SchemaError, match=r"version 1 of subject t-value .* the default 'x' of field a of R is not of the"
    ):
        lookup(found=found).reader("t")


def test_latest_stays_the_same_for_a_whole_run() -> None:
    found = dict(VERSIONS)
    made, responses = registry(found)
    chosen = Lookup(Choice("value", "avro"), made)
    assert chosen.reader("t") == Schema(TEXT)
    responses.found["/subjects/t-value/versions/latest"] = version(4, 10, INT)
    assert chosen.decoding("t").reader == Schema(TEXT)


@pytest.mark.parametrize("reader", ["newest", "0", "-1", "1.5"])
def test_readers_that_make_no_sense(reader: str) -> None:
    with pytest.raises(
        ChoiceError, match=f"the schema '{reader}' for values is neither latest, nor the number of a version"
    ):
        lookup(reader).reader("t")


def test_a_schema_of_another_type() -> None:
    found = {"/subjects/t-value/versions/latest": version(1, 1, "message A {}", schemaType="PROTOBUF")}
    with pytest.raises(
        SchemaError, match=r"version 1 of subject t-value .* is a schema of the type PROTOBUF, not AVRO"
    ):
        lookup(found=found).reader("t")
