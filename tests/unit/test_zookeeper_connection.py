"""Who a program is for ZooKeeper, by its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.config.keys import ConfigError
from kafkalite.security import secret_files
from kafkalite.zookeeper_connection import environment_texts, security_of_texts
from tests.certificates import PASSWORD, Authority, write
from zk import paths
from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import PLAINTEXT
from zk.security.znode_acls import OPEN, PRIVATE, READABLE, SECURE_ROOT_PATHS, default_acl

DIGEST = 'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret"; };'


def test_without_settings_it_is_nobody(tmp_path: Path) -> None:
    assert security_of_texts({"zookeeper.connect": "z"}, {}) == PLAINTEXT
    jaas = write(tmp_path / "jaas.conf", b"KafkaServer { any.Module required; };")
    assert not security_of_texts({"kafkalite.jaas.file": jaas}, {}).has_identity


def test_the_section_client_is_an_identity_also_by_the_variable_of_kafkas_scripts(tmp_path: Path) -> None:
    jaas = write(tmp_path / "jaas.conf", DIGEST.encode())
    for texts, environment in (
        ({"kafkalite.jaas.file": jaas}, {}),
        ({}, {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={jaas} -Da=b"}),
        (environment_texts({"KAFKALITE_JAAS_FILE": jaas}), {}),
    ):
        assert security_of_texts(texts, environment).credentials == DigestCredentials("kafka", "secret")


@pytest.mark.parametrize(
    "section",
    ["Client { com.sun.security.auth.module.Krb5LoginModule required; };", "Client {", DIGEST.replace("password", "p")],
)
def test_an_identity_that_cannot_be_used_is_refused(tmp_path: Path, section: str) -> None:
    jaas = write(tmp_path / "jaas.conf", section.encode())
    with pytest.raises(ConfigError, match=r"kafkalite\.jaas\.file") as problem:
        security_of_texts({"kafkalite.jaas.file": jaas}, {})
    assert "secret" not in str(problem.value)


def test_znodes_are_protected_by_somebody_only() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl"):
        security_of_texts({"zookeeper.set.acl": "true"}, {})


def test_stores_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    authority = Authority()
    store = write(tmp_path / "key.p12", authority.pkcs12(authority.issue("kafka")))
    texts = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": store}
    assert security_of_texts({**texts, "zookeeper.ssl.keystore.password": PASSWORD}, {}).shows_certificate
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location .*password"):
        security_of_texts({**texts, "zookeeper.ssl.keystore.password": "wrong"}, {})
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.crl\.enable"):
        security_of_texts({"zookeeper.ssl.crl.enable": "true"}, {})


def test_secrets_that_everybody_can_read_are_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "_folders", lambda path: [path.parent])  # those above are private to pytest
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    authority = Authority()
    jaas = write(folder / "jaas.conf", DIGEST.encode())
    store = write(folder / "key.pem", authority.issue("kafka").pem)
    trust = write(folder / "ca.pem", authority.pem)
    tls = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": trust}
    for path, texts in (
        (jaas, {"kafkalite.jaas.file": jaas}),
        (store, {**tls, "zookeeper.ssl.keystore.location": store}),
    ):
        Path(trust).chmod(0o644)  # there is no secret in it
        Path(path).chmod(0o644)
        with pytest.raises(ConfigError, match=r"mode 644.*chmod 600.*kafkalite\.allow\.world\.readable\.secrets=true"):
            security_of_texts(texts, {})
        allowed = {**texts, "kafkalite.allow.world.readable.secrets": "true"}
        assert security_of_texts(allowed, {}).has_identity
        folder.chmod(0o700)  # nobody else gets to the file
        assert security_of_texts(texts, {}).has_identity
        folder.chmod(0o755)


def test_what_is_secret_is_not_readable() -> None:
    assert default_acl(paths.CONSUMERS, is_secure=True) == OPEN == default_acl(paths.CONFIG_USERS, is_secure=False)
    assert default_acl(paths.consumer_group("g"), is_secure=True) == READABLE
    for path in (paths.user_config("u"), paths.broker_config(1), paths.DELEGATION_TOKENS):
        assert default_acl(path, is_secure=True) == PRIVATE
    assert {paths.parent(path) for path in SECURE_ROOT_PATHS} == {"/", paths.ACL_EXTENDED}
