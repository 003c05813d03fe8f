"""Settings in files of Java's format: each is read as it was given, by Java and by us."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.config.properties import parse_properties
from zk.servers.java_properties import properties_text
from zk.servers.server_settings import ServerPorts, ServerSettings

ODD = [
    "Jürgen",
    "back\\slash",
    " leading blank",
    "a#b!c:d=e%41",
    "${x}",
    "'\"",
    "line\nend",
    "tab\tform\f",
    "日本😀",
    "\x7f\x01",
]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ONE = ServerSettings(host="127.0.0.1", tick_time_ms=500, min_session_timeout_ms=1000, users={"u": 'a"b\\c\nd'})


@pytest.mark.parametrize("text", [*ODD, "", "#no comment", "a=b:c"])
def test_a_file_gives_back_what_was_written(text: str) -> None:
    settings = {"some.key": text, text or "k": "1"}
    assert parse_properties(properties_text(settings)) == settings


@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=3))
def test_whatever_is_text_can_be_written(settings: dict[str, str]) -> None:
    written = properties_text(settings)
    assert written.isascii()  # Java reads the file as ISO-8859-1
    assert parse_properties(written) == settings


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ValueError, match=r"log\.dirs cannot be '/x\\udcff': it is not UTF-8"):
        properties_text({"log.dirs": "/x\udcff"})


@pytest.mark.parametrize("name", ODD)
def test_a_server_keeps_its_data_where_it_was_told(name: str) -> None:
    ports = ServerPorts(1, 2, 3)
    settings = parse_properties(ONE.text(Path("/x", name, "data"), ports, {1: ports}))
    assert settings["dataDir"] == f"/x/{name}/data"


def test_a_password_keeps_its_quotes_and_line_ends() -> None:
    assert ONE.jaas is not None
    assert r'user_u="a\"b\\c\nd"' in ONE.jaas


@pytest.mark.parametrize(("user", "password"), [("two words", "x"), ("u", "${java.home}")])
def test_what_a_jaas_file_cannot_hold_is_refused(user: str, password: str) -> None:
    settings = ServerSettings(host="h", tick_time_ms=500, min_session_timeout_ms=1000, users={user: password})
    with pytest.raises(ValueError, match="a JAAS file cannot"):
        assert settings.jaas
