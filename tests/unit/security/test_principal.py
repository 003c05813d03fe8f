"""Principals: their text, and what makes two of them one."""

import pytest

from kafkalite.security.principal import ANONYMOUS, KafkaPrincipal


def test_a_principal_is_its_type_and_name_however_it_was_proven() -> None:
    assert KafkaPrincipal("User", "alice", by_token=True) == KafkaPrincipal("User", "alice")
    assert str(KafkaPrincipal.parse("User:CN=a:b,O=c")) == "User:CN=a:b,O=c"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_a_text_without_type_or_name_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="must be a principal"):
        KafkaPrincipal.parse(text)
