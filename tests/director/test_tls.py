"""The certificate of a Director: what is wrong with it is told at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.director.process.tls import Tls, tls_of
from coterie.errors import CoterieError, Refused, UsageError
from coterie.settings import Settings, load
from tests.peers.certificates import Authority


def settings(**told: Path) -> Settings:
    return load({}, {"HOME": "/", **{f"COTERIE_TLS_{name.upper()}": str(path) for name, path in told.items()}})


def test_a_pair_is_taken_and_none_is_fine(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    assert tls_of(settings(certificate=certificate, key=key)) == Tls(certificate, key)
    assert tls_of(settings()) is None


def test_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    _, other = Authority(tmp_path).issue("other")
    wrong = [
        ({"certificate": certificate}, UsageError, "tls_key is missing"),
        ({"key": key}, UsageError, "tls_certificate is missing"),
        ({"certificate": certificate, "key": other}, UsageError, "cannot use the certificate"),
        ({"certificate": certificate, "key": tmp_path / "none"}, UsageError, "cannot use the certificate"),
    ]
    for told, kind, words in wrong:
        with pytest.raises(kind, match=words):
            tls_of(settings(**told))


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("director")
    key.chmod(0o644)
    with pytest.raises(Refused, match="read by others") as refused:
        tls_of(settings(certificate=certificate, key=key))
    assert isinstance(refused.value, CoterieError) and "chmod 600" in refused.value.remedy
