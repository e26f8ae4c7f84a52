"""The certificate of a Director on TCP. Its private key is for its owner's eyes only."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import UsageError
from coterie.seal.keys import require_private
from coterie.settings import Settings


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path


def tls_of(settings: Settings) -> Tls | None:
    """What is configured, if it can be used."""
    certificate, key = settings["tls_certificate"], settings["tls_key"]
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "tls_certificate" if certificate is None else "tls_key"
        raise UsageError(f"setting {missing} is missing", remedy="set both tls_certificate and tls_key, or neither")
    try:
        require_private(key)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise UsageError(
            f"cannot use the certificate {certificate} with the key {key}",
            why=error.strerror or str(error),
            remedy="check the settings tls_certificate and tls_key: PEM files that belong together",
        ) from error
    return Tls(certificate, key)
