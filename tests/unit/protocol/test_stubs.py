"""The checked-in static types of the messages are those of the schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.protocol import messages, stubs


def test_the_stub_is_current() -> None:
    assert stubs.STUB_PATH.read_text() == stubs.stub_source(), "run python -m kafkalite.protocol.stubs"


def test_check_says_whether_the_stub_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "messages.pyi"
    monkeypatch.setattr(stubs, "STUB_PATH", path)
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


def test_an_unknown_namespace_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message namespace 'fetch_reply'"):
        getattr(messages, "fetch_reply")  # noqa: B009
    with pytest.raises(AttributeError):
        getattr(messages, "guess_request")  # noqa: B009
