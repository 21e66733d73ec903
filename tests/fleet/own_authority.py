"""Certificates for tests: an authority of their own, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; `file` is what must be trusted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests' own authority")])
        self.file = directory / "authority.pem"
        signed = self._signed(self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def certificate(self, *names: str, days: float = 1.0) -> Certificate:
        """For names or addresses; with negative days it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        others = x509.SubjectAlternativeName([_general(name) for name in names])
        signed = self._signed(subject, key.public_key(), others, days=days)
        made = Certificate(self._directory / f"{names[0]}{days}.pem", self._directory / f"{names[0]}{days}.key")
        made.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made

    def _signed(self, subject, public, *extensions, days: float = 1.0) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
        )
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints)
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
