"""TLS contexts from `ssl.*` settings: key stores in PEM, PKCS12 or JKS, trust stores likewise, protocols and ciphers.

What kind a store is, is seen in its first bytes, as Java's own stores do: a JKS file that is called PKCS12 works, and the other way round.
A private key goes from a store to OpenSSL through a file that only the owner may read, encrypted with a password of that moment, because
`ssl` takes nothing else. Contexts are made outside the event loop.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.security.java_keystore import MAGIC, read_java_keystore, unprotected_key
from kafkalite.security.secret_files import exposure

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, PKCS12PrivateKeyTypes

_PEM: Final = b"-----BEGIN"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_FILE_MAX_BYTES: Final = 16 * 1024 * 1024


class TlsError(Exception):
    """Settings from which no context can be made; the message names setting or file, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """A key store or a trust store: a file, or PEM text itself (KIP-651)."""

    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = None
    """PEM text: the chain of a key store, the authorities of a trust store."""
    key: str | None = field(default=None, repr=False)
    private_unless: str | None = None
    """The setting that allows a file with a private key to be readable by everybody on the machine; None: it is not looked at."""

    @property
    def is_set(self) -> bool:
        return bool(self.location or self.certificates)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Settings of a TLS context; names and meanings are those of Kafka's settings, without `ssl.`."""

    keystore: StoreSettings = StoreSettings()
    truststore: StoreSettings = StoreSettings()
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    checks_hostname: bool = True

    @property
    def files(self) -> list[str]:
        """Return the paths of the stores; when one of these files changes, a new context is due."""
        return [each.location for each in (self.keystore, self.truststore) if each.location]


@dataclass(frozen=True, slots=True, repr=False)
class _Content:
    """Contents of a store, as PEM; the key is encrypted with `key_password`, or in the clear without one."""

    key: bytes = b""
    key_password: str | None = None
    chain: bytes = b""
    trusted: bytes = b""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    if not settings.keystore.is_set:
        raise TlsError("a listener with TLS needs ssl.keystore.location, or ssl.keystore.certificate.chain and .key")
    context.verify_mode = _VERIFY[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE and not settings.truststore.is_set:
        raise TlsError(f"ssl.client.auth={settings.client_auth} needs ssl.truststore.location")
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of connections to brokers, which trusts the system's authorities without a trust store. Raises TlsError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_hostname
    if not settings.truststore.is_set:
        context.load_default_certs()
    return context


def _context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    versions = [_VERSIONS[each] for each in settings.enabled_protocols if each in _VERSIONS]
    if not versions:
        raise TlsError(f"ssl.enabled.protocols names none of {', '.join(_VERSIONS)}")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if older := [each for each in map(_openssl_name, settings.cipher_suites) if not each.startswith("TLS_")]:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise TlsError("ssl.cipher.suites names no cipher that OpenSSL knows") from None
    if settings.keystore.is_set:
        _load_identity(context, _content(settings.keystore, "ssl.keystore"))
    if settings.truststore.is_set:
        trusted = _content(settings.truststore, "ssl.truststore")
        authorities = trusted.trusted or trusted.chain
        if not authorities:
            raise TlsError(f"{_describe_store(settings.truststore, 'ssl.truststore')} holds no certificate")
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as problem:
            raise TlsError(f"{_describe_store(settings.truststore, 'ssl.truststore')}: {problem}") from None
    return context


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name, `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`; TLS 1.3 has one name."""
    if "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = (
        cipher.replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    parts = cipher.replace("_CBC", "").split("_")
    return "-".join([*exchange.split("_"), *parts]).removeprefix("RSA-")


def _load_identity(context: ssl.SSLContext, content: _Content) -> None:
    if not content.key or not content.chain:
        raise TlsError("the key store (ssl.keystore) holds no private key with its certificate")
    descriptor, path = tempfile.mkstemp(prefix="kafkalite-tls-")  # mode 600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.key + b"\n" + content.chain)
        # A function, because OpenSSL asks at the terminal where a password is missing.
        context.load_cert_chain(path, password=lambda: content.key_password or "")
    except (ssl.SSLError, ValueError) as problem:
        raise TlsError(f"the key store (ssl.keystore): {problem}; is ssl.key.password right?") from None
    finally:
        Path(path).unlink()


def _describe_store(store: StoreSettings, setting: str) -> str:
    return f"{setting}.location {store.location}" if store.location else setting


def _content(store: StoreSettings, setting: str) -> _Content:
    """Return the contents of a store. Raises TlsError."""
    if not store.location:
        certificates = (store.certificates or "").encode()
        return _from_pem((store.key or "").encode() + b"\n" + certificates, store)
    try:
        with open(store.location, "rb") as file:
            data = file.read(_FILE_MAX_BYTES)
        allowed_by = store.private_unless
        exposed = exposure(store.location, "a private key", allowed_by) if allowed_by is not None else None
    except OSError as problem:
        raise TlsError(f"{_describe_store(store, setting)}: {problem.strerror}") from None
    try:
        content = _parse_content(data, store)
    except ValueError as problem:
        raise TlsError(f"{_describe_store(store, setting)}: {problem}") from None
    if content.key and exposed is not None:
        raise TlsError(f"{setting}.location {exposed}")
    return content


def _parse_content(data: bytes, store: StoreSettings) -> _Content:
    if _PEM in data[:65536] and not data.startswith(MAGIC):
        return _from_pem(data, store)
    return _from_java(data, store) if data.startswith(MAGIC) else _from_pkcs12(data, store)


def _from_pem(data: bytes, store: StoreSettings) -> _Content:
    key, certificates = b"", []
    for label, block in _blocks(data):
        if label.endswith(b"PRIVATE KEY"):
            key = key or block
        elif label in (b"CERTIFICATE", b"TRUSTED CERTIFICATE", b"X509 CERTIFICATE"):
            certificates.append(block)
    chain = b"\n".join(certificates) + b"\n"
    return _Content(key, store.key_password or store.password, chain, chain if certificates else b"")


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (label, the block with its lines) of each block of PEM; texts in one line, as properties have them, are wrapped again."""
    position = 0
    while (begin := data.find(b"-----BEGIN ", position)) >= 0:
        label_end = data.find(b"-----", begin + 11)
        label = data[begin + 11 : label_end]
        end = data.find(b"-----END " + label + b"-----", label_end)
        if label_end < 0 or end < 0:
            raise ValueError("a block of PEM has no end")
        position = end + len(label) + 14
        body = data[label_end + 5 : end].strip()
        if b"\n" not in body:
            words = body.split()
            body = b"\n".join(text[i : i + 64] for text in words for i in range(0, len(text), 64))
        yield label, b"-----BEGIN " + label + b"-----\n" + body + b"\n-----END " + label + b"-----\n"


def _from_java(data: bytes, store: StoreSettings) -> _Content:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    held = read_java_keystore(data, store.password)
    trusted = b"".join(ssl.DER_cert_to_PEM_cert(each).encode() for each in held.trusted)
    if not held.keys:
        return _Content(trusted=trusted)
    password = store.key_password or store.password
    if password is None:
        raise ValueError("its private key needs ssl.key.password or ssl.keystore.password")
    protected, chain = held.keys[0]
    key = load_der_private_key(unprotected_key(protected, password), None)
    chain_text = b"".join(ssl.DER_cert_to_PEM_cert(each).encode() for each in chain)
    return _Content(*_encrypt_key(key), chain_text, trusted)  # type: ignore[arg-type]


def _from_pkcs12(data: bytes, store: StoreSettings) -> _Content:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        held: PKCS12KeyAndCertificates = pkcs12.load_pkcs12(data, store.password.encode() if store.password else None)
    except ValueError:
        raise ValueError("it is no PEM, PKCS12 or JKS, or its password is another one") from None
    certificates = [each.certificate for each in [held.cert, *held.additional_certs] if each is not None]
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in certificates)
    if held.key is None:
        return _Content(trusted=chain)
    return _Content(*_encrypt_key(held.key), chain)  # type: ignore[arg-type]


def _encrypt_key(key: PKCS12PrivateKeyTypes) -> tuple[bytes, str]:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    password = secrets.token_hex()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())), password


def peer_name(certificate: bytes) -> str:
    """Return the name of a certificate's owner (DER), as Java writes it. Raises ValueError for malformed data."""
    from cryptography.x509 import load_der_x509_certificate

    from kafkalite.security.distinguished_name import rfc2253

    return rfc2253(load_der_x509_certificate(certificate).subject.public_bytes())
