"""Certificates for TLS tests: an authority, and what it signs, good and bad."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A private key and its certificate, PEM: each by itself, and both in one file as Kafka's keystore wants it."""

    key: Path
    certificate: Path
    both: Path

    def keystore(self, file: Path, password: str) -> Path:
        """Writes both as PKCS#12, behind a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        behind = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, behind))
        return file


class Authority:
    """Signs; `file` is its own certificate, which others trust."""

    def __init__(self, directory: Path, name: str = "kshadow test authority") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 400 * DAY)
            .not_valid_after(now + 400 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        name: str,
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        begins_in: timedelta = -DAY,
        ends_in: timedelta = 300 * DAY,
    ) -> Signed:
        """A new key with a certificate for `name`, good for `hosts` (names and addresses) in that time from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins_in)
            .not_valid_after(now + ends_in)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private = key.private_bytes(encoding, form, serialization.NoEncryption())
        public = certificate.public_bytes(encoding)
        signed = Signed(*(self.directory / f"{name}{end}" for end in (".key.pem", ".pem", ".both.pem")))
        signed.key.write_bytes(private)
        signed.certificate.write_bytes(public)
        signed.both.write_bytes(private + public)
        return signed


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
