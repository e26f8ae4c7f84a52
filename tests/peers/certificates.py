"""Certificates for tests: an authority, and what it signs for this machine."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """`ca`: the file that clients check with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        usage = x509.BasicConstraints(ca=True, path_length=None)
        made = _draft(self._name, self._name, self._key.public_key()).add_extension(usage, critical=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *addresses: str) -> tuple[Path, Path]:
        """A certificate for these addresses, or for 127.0.0.1, and its key (mode 600)."""
        key = ec.generate_private_key(ec.SECP256R1())
        wanted = [ipaddress.ip_address(one) for one in addresses or ("127.0.0.1",)]
        hosts = x509.SubjectAlternativeName([x509.IPAddress(one) for one in wanted])
        made = _draft(_name(name), self._name, key.public_key()).add_extension(hosts, critical=False)
        certificate, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.touch(0o600)
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
