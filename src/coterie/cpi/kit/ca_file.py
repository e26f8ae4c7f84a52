"""CAs as files, for libraries that take them by path only."""

from __future__ import annotations

import tempfile


class CaFile:
    """`properties.ca_cert`, a PEM text or a path. The file of a text goes with this object."""

    def __init__(self, ca_cert: str | None) -> None:
        self.path = ca_cert
        if ca_cert and "-----BEGIN" in ca_cert:
            self._file = tempfile.NamedTemporaryFile("w", suffix=".pem", prefix="coterie-ca-")  # noqa: SIM115
            self._file.write(ca_cert)
            self._file.flush()
            self.path = self._file.name
