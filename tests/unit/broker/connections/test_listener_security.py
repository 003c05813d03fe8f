"""Security of listeners follows settings and files while the broker runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.connections import listener_security
from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.config.keys import ConfigError
from kafkalite.security import kerberos, secret_files
from kafkalite.security.sasl_server import SaslRefused
from tests.case import case
from tests.certificates import PASSWORD, Authority, write

JAAS = 'x.PlainLoginModule required username="broker" password="b" user_alice="{}";'


def settings(folder: Path, **more: str) -> dict[str, str]:
    authority = Authority()
    return {
        "zookeeper.connect": "any",
        "listeners": "BOTH://127.0.0.1:0",
        "listener.security.protocol.map": "BOTH:SASL_SSL",
        "inter.broker.listener.name": "BOTH",
        "ssl.keystore.location": write(folder / "key.p12", authority.pkcs12(authority.issue("broker"))),
        "ssl.keystore.password": PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": JAAS.format("first"),
    } | more


def security_of(properties: Mapping[str, str]) -> tuple[ListenerSecurity, LiveConfig]:
    async def nobody(mechanism: object, user: str) -> None:
        return None

    live = LiveConfig(BrokerConfig.from_properties(properties))
    return ListenerSecurity(live, nobody, lambda: 0), live


def test_a_renewed_certificate_needs_no_restart_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        properties = settings(tmp_path)
        security, _ = security_of(properties)
        await security.prepare()
        first = security.context("BOTH")
        await security.look()
        assert security.context("BOTH") is first
        path = Path(properties["ssl.keystore.location"])
        broken = Path(write(tmp_path / "broken", b"no store"))
        good = Path(write(tmp_path / "good", path.read_bytes()))
        os.replace(broken, path)
        await security.look()
        assert security.context("BOTH") is first
        assert "keeps its certificate" in caplog.text
        os.replace(good, path)
        await security.look()
        assert security.context("BOTH") is not first

    asyncio.run(scenario())


def test_settings_of_a_listener_act_on_its_next_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        properties = settings(tmp_path)
        security, live = security_of(properties)
        await security.prepare()
        first = security.context("BOTH")
        make = security.gate(live.current.listeners[0], None)  # type: ignore[arg-type]

        async def lets_in(password: str) -> bool:
            try:
                await server_of(make()).evaluate(f"\0alice\0{password}".encode())
            except SaslRefused:
                return False
            return True

        assert await lets_in("first")
        changed = {
            "listener.name.both.plain.sasl.jaas.config": JAAS.format("second"),
            "listener.name.both.ssl.enabled.protocols": "TLSv1.3",
        }
        live.replace(BrokerConfig.from_properties(properties | changed))
        await security.look()
        assert await lets_in("second") and not await lets_in("first")
        assert security.context("BOTH") is not first
        without = {name: text for name, text in properties.items() if "jaas" not in name}
        live.replace(BrokerConfig.from_properties(without))
        assert await lets_in("second")
        assert "authenticates as before" in caplog.text

    asyncio.run(scenario())


def server_of(authenticator: Any) -> Any:
    return authenticator._listener.server("PLAIN")


def test_jaas_files_are_read_and_what_lacks_is_named(tmp_path: Path) -> None:
    properties = settings(tmp_path)
    del properties["listener.name.both.plain.sasl.jaas.config"]

    async def prepared(text: str) -> None:
        path = write(tmp_path / "jaas.conf", text.encode())
        await security_of(properties | {"kafkalite.jaas.file": path})[0].prepare()

    for section in ("KafkaServer", "both.KafkaServer"):
        asyncio.run(prepared(f"{section} {{ {JAAS.format('x')} }};"))
    for wrong in (
        "",
        "Client { };",
        "KafkaServer {",
        f"KafkaServer {{ {JAAS.format('x').replace('Plain', 'Scram')} }};",
    ):
        with pytest.raises(ConfigError, match=r"kafkalite\.jaas\.file"):
            asyncio.run(prepared(wrong))
    with pytest.raises(ConfigError, match=r"listener BOTH: ssl\.keystore\.location .* No such file"):
        Path(properties["ssl.keystore.location"]).unlink()
        asyncio.run(prepared(f"KafkaServer {{ {JAAS.format('x')} }};"))


def test_what_kerberos_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "is_available", lambda: True)
    keytab = write(tmp_path / "broker.keytab", b"keys")
    line = f'x.Krb5LoginModule required keyTab="{keytab}" principal="kafka/host@REALM"'

    def of(text: str, **more: str) -> ListenerSecurity:
        kerberos_only = {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "listener.name.both.gssapi.sasl.jaas.config": f"{text};",
        }
        return security_of(settings(tmp_path) | kerberos_only | more)[0]

    named = {"sasl.kerberos.service.name": "kafka"}
    security = of(line, **named)
    asyncio.run(security.prepare())
    own = security._own_credentials("BOTH")
    assert (own.mechanism, own.username, own.service, own.keytab) == ("GSSAPI", "kafka/host@REALM", "kafka", keytab)

    for text, more, reason in (
        (line, {}, "needs sasl.kerberos.service.name"),
        (f'{line} serviceName="other"', named, "serviceName is other"),
        ("x.Krb5LoginModule required", named, "needs keyTab and principal"),
        (line.replace("broker.keytab", "none"), named, "No such file"),
        (line.replace("Krb5", "Plain"), named, "with a Krb5LoginModule"),
    ):
        with case(reason), pytest.raises(ConfigError, match=reason):
            asyncio.run(of(text, **more).prepare())
    monkeypatch.setattr(listener_security, "exposure", lambda path, content: f"{path} has {content}")
    with pytest.raises(ConfigError, match="has the keys of a principal"):
        asyncio.run(of(line, **named).prepare())


def test_a_private_key_that_everybody_can_read_stops_the_start_unless_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "_folders", lambda path: [])  # those above are private to pytest
    properties = settings(tmp_path)
    Path(properties["ssl.keystore.location"]).chmod(0o604)
    with pytest.raises(ConfigError, match=r"BOTH: ssl\.keystore\.location .*mode 604.*chmod 600"):
        asyncio.run(security_of(properties)[0].prepare())
    allowed = properties | {"kafkalite.allow.world.readable.secrets": "true"}
    asyncio.run(security_of(allowed)[0].prepare())
