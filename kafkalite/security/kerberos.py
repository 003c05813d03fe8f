"""GSSAPI (RFC 4752) with Kerberos 5, on both sides, by the package gssapi (the extra `gssapi`), which speaks to the system's library.

    client ──token──▶ server ──token──▶ client ──empty──▶ server ──wrapped: layers──▶ client ──wrapped: layer, name──▶ server

There is one layer, none: as in Kafka, who wants secrecy has TLS. As there, a client's principal is the one that its ticket proves,
whatever name it adds to its last token. The library computes and reads files, so it is called in threads.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

from kafkalite.security.kerberos_names import KerberosShortNames
from kafkalite.security.principal import USER, KafkaPrincipal
from kafkalite.security.sasl_exchange import Exchange, KerberosError
from kafkalite.security.sasl_server import Identity, SaslMalformed

_OF_JAVA: Final = r"""-Djava\.security\.krb5\.conf=(\S+)"""
REMEDY: Final = "pip install 'kafkalite[gssapi]' (needs a C compiler and libkrb5-dev), or Debian's python3-gssapi"
_NO_LAYER: Final = b"\x01\0\0\0"
"""The layers that are offered, or the one that is taken, and the longest message within one."""


class Accepted(Protocol):
    """One authentication, as the server sees it; `KerberosError` where the library refuses."""

    @property
    def complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """Return the client's principal, once the authentication is complete."""

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, token: bytes) -> bytes: ...


def is_available() -> bool:
    """True if the package is installed."""
    return find_spec("gssapi") is not None


def krb5_conf(environment: Mapping[str, str]) -> str | None:
    """Return the file that KAFKA_OPTS gives to Java, unless KRB5_CONFIG gives one to the library; None without any."""
    found = re.search(_OF_JAVA, environment.get("KAFKA_OPTS", ""))
    return found[1].strip("\"'") if found is not None and "KRB5_CONFIG" not in environment else None


def _package() -> Any:
    if (path := krb5_conf(os.environ)) is not None:
        os.environ["KRB5_CONFIG"] = path
    return import_module("gssapi")


class GssapiServer:
    """A `SaslServer`. `begin()` makes an authentication, `default_realm()` names the realm of the rule DEFAULT."""

    def __init__(
        self, begin: Callable[[], Accepted], names: KerberosShortNames, default_realm: Callable[[], str]
    ) -> None:
        self._begin, self._names, self._default_realm = begin, names, default_realm
        self._context: Accepted | None = None
        self._has_offered = False
        self.identity: Identity | None = None

    async def evaluate(self, token: bytes) -> bytes:
        try:
            return await asyncio.to_thread(self._evaluate, token)
        except (KerberosError, ValueError) as problem:
            raise SaslMalformed(str(problem)) from None

    def _evaluate(self, token: bytes) -> bytes:
        context = self._context = self._context or self._begin()
        if not context.complete:
            answer = context.step(token)
            if answer or not context.complete:
                return answer
        elif self._has_offered:
            return self._finish_exchange(context, token)
        elif token:
            raise SaslMalformed("a token after the context was established")
        self._has_offered = True
        return context.wrap(_NO_LAYER)

    def _finish_exchange(self, context: Accepted, token: bytes) -> bytes:
        chosen = context.unwrap(token)
        if len(chosen) < len(_NO_LAYER) or chosen[0] != _NO_LAYER[0]:
            raise SaslMalformed("the client wants a security layer; there is none but TLS")
        name = self._names.short_name(context.initiator, self._default_realm())
        self.identity = Identity(KafkaPrincipal(USER, name))
        return b""


class _Context:
    """An `Accepted`, and the same for clients, over a context of the package."""

    def __init__(self, context: Any) -> None:
        context.__DEFER_STEP_ERRORS__ = False  # a refusal would be told to the other side as if it were one more step
        self._context = context

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        return _call(lambda: self._context.step(token)) or b""

    def wrap(self, message: bytes) -> bytes:
        return bytes(_call(lambda: self._context.wrap(message, False)).message)

    def unwrap(self, token: bytes) -> bytes:
        return bytes(_call(lambda: self._context.unwrap(token)).message)


def _call(call: Callable[[], Any]) -> Any:
    gssapi = _package()
    try:
        return call()
    except gssapi.exceptions.GSSError as problem:
        raise KerberosError(str(problem)) from None


def accept(principal: str, keytab: str) -> Accepted:
    """Start the authentication of a client with a ticket for this principal, whose keys are in the file. Raises KerberosError.

    As in Java, * is any principal that has keys there: a broker with several names needs that.
    """
    gssapi = _package()
    name = None if principal == "*" else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    credentials = _call(lambda: gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab}))
    return _Context(gssapi.SecurityContext(creds=credentials, usage="accept"))


@cache
def default_realm() -> str:
    """Return the default realm of krb5.conf. Raises KerberosError without any."""
    gssapi = _package()
    name = gssapi.Name("anybody", gssapi.NameType.kerberos_principal)
    return str(_call(lambda: name.canonicalize(gssapi.MechType.kerberos))).rpartition("@")[2]


def initiate(service: str, host: str, principal: str, keytab: str) -> Exchange:
    """Start a client's exchange, with the keys of a principal or, without a file, with the cached ticket. Raises KerberosError."""
    gssapi = _package()
    credentials = None
    if keytab:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        place = sha256(
            f"{principal}\0{keytab}".encode()
        ).hexdigest()  # one for each: a cache has the tickets of one principal
        store = {"client_keytab": keytab, "ccache": f"MEMORY:{place}"}
        credentials = _call(lambda: gssapi.Credentials(name=name, usage="initiate", store=store))
    wanted = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
    context = _Context(gssapi.SecurityContext(name=wanted, creds=credentials, flags=flags, usage="initiate"))
    token = context.step(None)
    while not context.complete:
        token = context.step((yield token))
    offered = context.unwrap((yield token))
    if len(offered) < len(_NO_LAYER) or not offered[0] & _NO_LAYER[0]:
        raise KerberosError("the server wants a security layer; Kafka has none but TLS")
    yield context.wrap(_NO_LAYER)
