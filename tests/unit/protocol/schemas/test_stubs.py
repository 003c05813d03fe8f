"""The checked-in static types of the messages and tables of schemas are those of kio and our declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.protocol import messages, stubs
from kafkalite.protocol.apis import APIS
from kafkalite.protocol.schemas import kio_schemas
from kafkalite.protocol.schemas.schema import Field, Struct
from kafkalite.protocol.schemas.schema_notation import read_schemas, write_schemas
from kafkalite.protocol.schemas.schema_tables import TABLES


def test_the_stub_is_current() -> None:
    assert stubs.STUB_PATH.read_text() == stubs.stub_source(), "run python -m kafkalite.protocol.stubs"


def test_the_tables_are_current() -> None:
    assert stubs.TABLES_PATH.read_text() == stubs.tables_source(), "run python -m kafkalite.protocol.stubs"


def test_what_is_read_from_the_tables_is_what_kio_says() -> None:
    names = {f"{api.name}_{direction}": api for api in APIS.values() for direction in ("request", "response")}
    for name, text in TABLES.items():
        api, table = names[name], read_schemas(text)
        for version in range(table.first, table.last + 1):
            of_kio = kio_schemas.load_struct(api.name, version, name.rpartition("_")[2])
            assert table.struct(version, api.is_flexible(version)) == of_kio, f"{name} {version}"
        with pytest.raises(KeyError):
            table.struct(table.last + 1, True)


def test_a_schema_that_is_not_in_the_tables_is_asked_of_kio(monkeypatch: pytest.MonkeyPatch) -> None:
    (api,) = (each for each in APIS.values() if each.name == "heartbeat")
    in_tables = messages.schema(api, "request", 4)
    monkeypatch.setattr(messages, "_find_in_table", lambda name: None)
    assert messages.schema(api, "request", 4) == in_tables


def test_fields_that_come_go_and_change_are_written_and_read() -> None:
    """A field that was away for a version, one that changed its type and its tag, one that swapped places, and a struct in a struct."""
    inner = Struct("Inner", (Field("id", "int32", default=-1), Field("text", "string", nullable=True)), True)
    away, text = Field("away", "int8", default=7), Field("name", "string", default="a b=c")
    schemas = {
        3: Struct("Message", (away, text, Field("inner", inner)), True),
        4: Struct("Message", (text, Field("inner", inner, is_array=True)), True),
        5: Struct("Message", (Field("inner", inner, tag=2, nullable=True), text, away), True),
    }
    written = write_schemas(schemas)
    assert written.splitlines()[:2] == ["Message 3-5", " inner Inner? 5-5 tag=2"]
    assert {version: read_schemas(written).struct(version, True) for version in schemas} == schemas


def test_check_says_whether_the_files_are_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "messages.pyi"
    monkeypatch.setattr(stubs, "STUB_PATH", path)
    monkeypatch.setattr(stubs, "TABLES_PATH", tmp_path / "schema_tables.py")
    assert stubs.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert stubs.main([]) == 0
    assert stubs.main(["--check"]) == 0
    path.write_text(path.read_text() + "\n")
    assert stubs.main(["--check"]) == 1


def test_every_namespace_is_in_the_stub() -> None:
    source = stubs.stub_source()
    for name in messages.namespace_names():
        assert f"\nclass {name}:\n" in source


def test_messages_of_equal_fields_are_equal() -> None:
    m = messages.fetch_request
    one, other = (m.FetchPartition(partition=3, fetch_offset=7) for _ in range(2))
    assert one == other
    other.fetch_offset = 8
    assert one != other
    assert repr(other) == "FetchPartition(partition=3, fetch_offset=8)"
    assert one != m.FetchTopic()


def test_objects_do_not_share_defaults() -> None:
    m = messages.fetch_request
    m.FetchTopic().partitions.append(m.FetchPartition())
    assert m.FetchTopic().partitions == []


def test_a_message_has_a_name_of_its_own() -> None:
    assert messages.FetchRequest is messages.fetch_request.FetchRequest
    assert messages.InitProducerIdResponse is messages.init_producer_id_response.ROOT


def test_an_unknown_namespace_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message namespace 'fetch_reply'"):
        getattr(messages, "fetch_reply")  # noqa: B009
    with pytest.raises(AttributeError):
        getattr(messages, "guess_request")  # noqa: B009
    with pytest.raises(AttributeError):
        getattr(messages, "GuessRequest")  # noqa: B009
