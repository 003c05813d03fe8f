"""Contexts of TLS from every kind of store: a handshake in memory shows that they are what they should be."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from kafkalite.security.tls import StoreSettings, TlsError, TlsSettings, client_context, peer_name, server_context
from tests.certificates import PASSWORD, Authority, write

STORES = Path(__file__).parent / "stores"
"""Made by keytool: a key of its own and, to trust it, its certificate."""
JAVA = {"jks": StoreSettings(location=str(STORES / "key.jks"), password=PASSWORD, key_password="key-secret")}
JAVA["pkcs12"] = StoreSettings(location=str(STORES / "key.pkcs12"), password=PASSWORD)


def shaken(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake; ssl.SSLError when it fails."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (server.wrap_bio(one, other, server_side=True), client.wrap_bio(other, one, server_hostname=host))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ends


@pytest.mark.parametrize("kind", JAVA)
def test_stores_of_java_are_read(kind: str) -> None:
    trust = StoreSettings(location=str(STORES / f"trust.{kind}"), password=PASSWORD)
    both = TlsSettings(keystore=JAVA[kind], truststore=trust, client_auth="required")
    server, client = shaken(server_context(both), client_context(both))
    assert client.version() == "TLSv1.3"
    certificate = server.getpeercert(binary_form=True)
    assert certificate is not None and peer_name(certificate) == "CN=java,OU=tests,O=kafkalite,C=DE"


def test_stores_in_pem_are_files_or_texts_in_one_line(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("broker")
    key, chain = issued.pem.decode().split("-----BEGIN CERTIFICATE", 1)
    in_one_line = ("-----BEGIN CERTIFICATE" + chain).replace("\n", " ")
    trust = StoreSettings(certificates=authority.pem.decode())
    for store in (
        StoreSettings(location=write(tmp_path / "key.pem", issued.pem)),
        StoreSettings(key=key, certificates=in_one_line),
        StoreSettings(location=write(tmp_path / "key.p12", authority.pkcs12(issued)), password=PASSWORD),
    ):
        settings = TlsSettings(keystore=store, truststore=trust)
        assert shaken(server_context(settings), client_context(settings))[1].version() == "TLSv1.3"


@pytest.mark.parametrize("kind", JAVA)
@pytest.mark.parametrize("wrong", ["password", "file", "content"])
def test_what_cannot_be_read_is_named_without_its_secret(kind: str, wrong: str, tmp_path: Path) -> None:
    data = Path(JAVA[kind].location or "").read_bytes()
    path = write(tmp_path / "store", data[:-40] if wrong == "content" else data)
    if wrong == "file":
        os.unlink(path)
    password = "s3cret" if wrong == "password" else PASSWORD
    with pytest.raises(TlsError, match=r"ssl\.keystore\.location .*store") as problem:
        server_context(TlsSettings(keystore=StoreSettings(location=path, password=password)))
    assert "s3cret" not in str(problem.value)


def test_who_is_not_trusted_or_has_expired_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    trust = StoreSettings(certificates=authority.pem.decode())
    good = StoreSettings(location=write(tmp_path / "good.pem", authority.issue("broker").pem))
    old = StoreSettings(location=write(tmp_path / "old.pem", authority.issue("client", days=-1).pem))
    foreign = StoreSettings(location=write(tmp_path / "foreign.pem", Authority("others").issue("client").pem))
    server = server_context(TlsSettings(keystore=good, truststore=trust, client_auth="required"))
    for keystore, reason in ((old, "expired"), (foreign, "issuer"), (StoreSettings(), "did not return a certificate")):
        with pytest.raises(ssl.SSLError, match=reason):
            shaken(server, client_context(TlsSettings(keystore=keystore, truststore=trust)))
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shaken(server, client_context(TlsSettings(keystore=good, truststore=trust)), "elsewhere")
    unnamed = client_context(TlsSettings(keystore=good, truststore=trust, checks_hostname=False))
    assert shaken(server, unnamed, "elsewhere")


def test_protocols_and_ciphers_are_those_of_the_settings(tmp_path: Path) -> None:
    authority = Authority()
    store = StoreSettings(location=write(tmp_path / "key.pem", authority.issue("broker").pem))
    trust = StoreSettings(certificates=authority.pem.decode())
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    both = TlsSettings(keystore=store, truststore=trust, enabled_protocols=("TLSv1.2",), cipher_suites=(suite,))
    client = shaken(server_context(both), client_context(both))[1]
    assert (client.version(), (client.cipher() or ("",))[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(TlsError, match=r"ssl\.enabled\.protocols"):
        server_context(TlsSettings(keystore=store, enabled_protocols=("TLSv1.1",)))


def test_a_listener_without_a_key_store_or_without_whom_to_trust_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"needs ssl\.keystore\.location"):
        server_context(TlsSettings())
    store = StoreSettings(location=write(tmp_path / "key.pem", Authority().issue("broker").pem))
    with pytest.raises(TlsError, match=r"needs ssl\.truststore\.location"):
        server_context(TlsSettings(keystore=store, client_auth="required"))


def test_settings_show_no_secret() -> None:
    assert "key-secret" not in repr(TlsSettings(keystore=JAVA["jks"])) and PASSWORD not in repr(JAVA["jks"])
