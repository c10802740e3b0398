"""Certificates that nobody trusts unless told to: one for 127.0.0.1, and an authority that gives out more."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority of the test's own; its certificate, which a client has to trust, is the PEM file `trusted`."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.trusted = folder / f"{name}.pem"
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        signed = _builder(self._name, self._name, self._key).add_extension(constraints, True)
        self.trusted.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> tuple[Path, Path]:
        """The PEM files of a certificate for a host, or a role, of that name, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        signed = _builder(_named(name), self._name, key).add_extension(names, False)
        certificate, private = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))
        private.write_bytes(_private(key))
        private.chmod(0o600)
        return certificate, private


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The PEM file that a client has to trust, and what a server needs to serve with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_named("tests"), _named("tests"), key)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    trusted, private = folder / "certificate.pem", folder / "key.pem"
    trusted.write_bytes(_pem(certificate))
    private.write_bytes(_private(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return trusted, context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
