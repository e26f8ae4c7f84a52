"""The certificate of a Director: problems with it are reported at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.director.process.http_server import Tls, read_tls
from coterie.errors import CoterieError, Refused, UsageError
from coterie.settings import Settings, load
from tests.peers.certificates import Authority


def settings(**given: Path) -> Settings:
    return load({}, {"HOME": "/", **{f"COTERIE_TLS_{name.upper()}": str(path) for name, path in given.items()}})


def test_a_certificate_pair_is_accepted_and_so_is_none(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    assert read_tls(settings(certificate=certificate, key=key)) == Tls(certificate, key)
    assert read_tls(settings()) is None


def test_an_unusable_certificate_is_a_usage_error(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    _, other = Authority(tmp_path).issue("other")
    wrong = [
        ({"certificate": certificate}, UsageError, "tls_key is missing"),
        ({"key": key}, UsageError, "tls_certificate is missing"),
        ({"certificate": certificate, "key": other}, UsageError, "cannot use the certificate"),
        ({"certificate": certificate, "key": tmp_path / "none"}, UsageError, "cannot use the certificate"),
    ]
    for given, kind, words in wrong:
        with pytest.raises(kind, match=words):
            read_tls(settings(**given))


def test_a_key_file_that_other_users_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    key.chmod(0o644)
    with pytest.raises(Refused, match="read by others") as refused:
        read_tls(settings(certificate=certificate, key=key))
    assert isinstance(refused.value, CoterieError) and "chmod 600" in refused.value.remedy
