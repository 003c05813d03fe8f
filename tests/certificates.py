"""A small certificate authority for tests: keys of elliptic curves, because they are made in no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"


class Certificate(NamedTuple):
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """Key and certificate in the clear."""
        return self.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ) + self.certificate.public_bytes(Encoding.PEM)


class Authority:
    """Signs certificates; `name` is its own."""

    def __init__(self, name: str = "kafkalite tests") -> None:
        self._own = _issued(name, None, 1, is_authority=True)

    @property
    def pem(self) -> bytes:
        """What trusts it."""
        return self._own.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self._own.certificate.public_bytes(Encoding.DER)

    def issue(self, name: str, days: int = 1) -> Certificate:
        """A certificate for this machine and the client `name`; negative `days`: it has expired."""
        return _issued(name, self._own, days)

    def pkcs12(self, issued: Certificate, password: str = PASSWORD) -> bytes:
        """A key store."""
        return pkcs12.serialize_key_and_certificates(
            b"key", issued.key, issued.certificate, [self._own.certificate], BestAvailableEncryption(password.encode())
        )


def _issued(name: str, issuer: Certificate | None, days: int, is_authority: bool = False) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kafkalite"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    now = datetime.now(UTC)
    begin, end = (now - timedelta(days=2), now + timedelta(days=days))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    signer = key if issuer is None else issuer.key
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    if is_authority:
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = builder.add_extension(usage, critical=True)
    else:
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Certificate(key, builder.sign(signer, hashes.SHA256()))


def write(path: Path, content: bytes) -> str:
    """The path of a file with this content, which only its owner may read."""
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)
