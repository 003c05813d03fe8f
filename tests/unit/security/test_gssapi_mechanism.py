"""The dialogue of GSSAPI (RFC 4752), with a context of Kerberos that believes everything: what is said, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kafkalite.security.kerberos import GssapiServer, krb5_conf
from kafkalite.security.kerberos_names import KerberosShortNames
from kafkalite.security.sasl_exchange import KerberosError
from kafkalite.security.sasl_server import SaslMalformed

LAYERS = b"wrapped \x01\0\0\0"


class Context:
    """Is complete after so many tokens, and answers each but, unless `answers_last`, the last."""

    def __init__(self, tokens: int, answers_last: bool) -> None:
        self._left, self._answers_last = tokens, answers_last
        self.initiator = "alice@REALM"

    @property
    def complete(self) -> bool:
        return not self._left

    def step(self, token: bytes) -> bytes:
        if token == b"forged":
            raise KerberosError("Decrypt integrity check failed")
        self._left -= 1
        return b"" if self.complete and not self._answers_last else b"answer"

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped " + message

    def unwrap(self, token: bytes) -> bytes:
        return token.removeprefix(b"wrapped ")


def server(tokens: int = 1, answers_last: bool = True) -> GssapiServer:
    return GssapiServer(lambda: Context(tokens, answers_last), KerberosShortNames(), lambda: "REALM")


def told(acting: GssapiServer, tokens: Sequence[bytes]) -> list[bytes]:
    async def scenario() -> list[bytes]:
        return [await acting.evaluate(each) for each in tokens]

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tokens", "answers_last", "said", "answers"),
    [
        (1, True, [b"ticket", b""], [b"answer", LAYERS]),
        (1, False, [b"ticket"], [LAYERS]),
        (2, True, [b"ticket", b"more", b""], [b"answer", b"answer", LAYERS]),
    ],
)
@pytest.mark.parametrize("named", [b"", b"alice@REALM", b"somebody/else@REALM"])
def test_who_has_a_ticket_is_who_it_says_whatever_else_the_client_says(
    tokens: int, answers_last: bool, said: list[bytes], answers: list[bytes], named: bytes
) -> None:
    """kafka-python names the service there."""
    acting = server(tokens, answers_last)
    assert told(acting, said) == answers
    assert acting.identity is None
    assert told(acting, [b"wrapped \x01\0\x10\0" + named]) == [b""]
    assert acting.identity is not None and str(acting.identity.principal) == "User:alice"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([b"forged"], "integrity check"),
        ([b"ticket", b"too much"], "after the context"),
        ([b"ticket", b"", b"wrapped \x04\0\0\0"], "security layer"),
        ([b"ticket", b"", b"wrapped \x01"], "security layer"),
        ([b"ticket", b"", b""], "security layer"),
    ],
)
def test_anything_else_is_refused(said: list[bytes], reason: str) -> None:
    acting = server()
    with pytest.raises(SaslMalformed, match=reason):
        told(acting, said)
    assert acting.identity is None


def test_the_file_of_javas_option_is_the_librarys_unless_that_has_one() -> None:
    java = "-Xmx1g -Djava.security.krb5.conf=/etc/kafka/krb5.conf -Dx=y"
    assert krb5_conf({"KAFKA_OPTS": java}) == "/etc/kafka/krb5.conf"
    assert krb5_conf({"KAFKA_OPTS": java, "KRB5_CONFIG": "/etc/other.conf"}) is None
    assert krb5_conf({}) is None
