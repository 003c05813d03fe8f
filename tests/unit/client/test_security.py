"""Options of security: what is refused, what is made of them, and that no secret is shown."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalite.client.errors import AuthenticationFailedError, NoBrokersAvailableError, unreachable
from kafkalite.client.options import ConnectionOptions, options_from_config
from kafkalite.client.security import SecurityOptions, credentials_of, tls_context_of
from kafkalite.errors import AuthenticationError
from kafkalite.security import secret_files
from tests.certificates import PASSWORD, Authority, write

JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": 'x.ScramLoginModule required username="a" password="s3cret" tokenauth="true";',
    "ssl.truststore.location": "t",
    "ssl.truststore.password": "s3cret",
    "ssl.truststore.type": "JKS",
    "ssl.keystore.password": "s3cret",
    "ssl.key.password": "true",
    "ssl.keystore.key": "s3cret",
}


def test_settings_of_java_become_options_that_show_no_secret() -> None:
    options = ConnectionOptions(**options_from_config(ConnectionOptions, JAVA))
    found = credentials_of(options)
    assert found is not None and (found.username, found.password, found.is_token) == ("a", "s3cret", True)
    assert options.ssl_key_password == "true"
    assert "s3cret" not in repr(options) and "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"security_protocol": "SSL3"}, "must be one of PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "GSSAPI needs"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "a"}, "needs sasl_username and"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_token"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": "x.ScramLoginModule required;",
            },
            "needs a PlainLoginModule",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "s3cret"},
            "sasl_jaas_config",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_connected(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as problem:
        ConnectionOptions(**given)  # type: ignore[arg-type]
    assert "s3cret" not in str(problem.value)


def test_a_context_is_that_of_the_files_or_the_one_that_is_given(tmp_path: Path) -> None:
    own = ssl.create_default_context()
    assert tls_context_of(SecurityOptions()) is None
    assert tls_context_of(SecurityOptions(security_protocol="SSL", ssl_context=own)) is own
    authority = Authority()
    made = tls_context_of(
        SecurityOptions(
            security_protocol="SSL",
            ssl_truststore_certificates=authority.pem.decode(),
            ssl_keystore_location=write(tmp_path / "key.p12", authority.pkcs12(authority.issue("client"))),
            ssl_keystore_password=PASSWORD,
            ssl_endpoint_identification_algorithm="",
        )
    )
    assert made is not None and not made.check_hostname and len(made.get_ca_certs()) == 1
    with pytest.raises(ConnectionError, match=r"ssl\.truststore\.location nowhere"):
        tls_context_of(SecurityOptions(security_protocol="SSL", ssl_truststore_location="nowhere"))


def test_a_key_store_that_everybody_can_read_is_refused_unless_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "_folders", lambda path: [])  # those above are private to pytest
    path = write(tmp_path / "key.pem", Authority().issue("client").pem)
    Path(path).chmod(0o644)
    options = SecurityOptions(security_protocol="SSL", ssl_keystore_location=path)
    with pytest.raises(
        ConnectionError, match=r"ssl\.keystore\.location .*mode 644.* allow\.world\.readable\.secrets=true"
    ):
        tls_context_of(options)
    assert tls_context_of(replace(options, allow_world_readable_secrets=True)) is not None
    Path(path).chmod(0o640)
    assert tls_context_of(options) is not None


def test_a_file_of_settings_that_everybody_can_read_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not refused: Kafka's own files with passwords are often like this."""
    monkeypatch.setattr(secret_files, "_folders", lambda path: [])
    path = Path(write(tmp_path / "client.properties", b"sasl.jaas.config=x"))
    assert secret_files.exposed_settings(path, ["sasl.jaas.config"]) is None
    path.chmod(0o644)
    assert "chmod 600" in str(secret_files.exposed_settings(path, ["sasl.jaas.config"]))
    for public in ("bootstrap.servers", "kafkalite.jaas.file", "allow.world.readable.secrets"):
        assert secret_files.exposed_settings(path, [public]) is None
    assert secret_files.exposed_settings(tmp_path / "gone", ["ssl.key.password"]) is None


def test_refused_credentials_are_an_error_of_their_own() -> None:
    refused = unreachable({"a:1": "no route", "b:2": AuthenticationError("wrong password")})
    assert isinstance(refused, AuthenticationFailedError) and not refused.retriable
    assert refused.name == "SASL_AUTHENTICATION_FAILED" and "wrong password" in str(refused)
    assert type(unreachable({"a:1": OSError("no route")})) is NoBrokersAvailableError
