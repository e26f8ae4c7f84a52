"""A publishing server that is not there, or not usable, is named; the rest is shown by the drivers' own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cpi.contract import CpiError
from coterie.cpi.kit.http import HttpOptions
from coterie.cpi.kit.publishing import Publisher, file_pieces


def test_without_a_publishing_server_nothing_is_published(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x")
    publisher = Publisher(None, None, None, HttpOptions())
    with pytest.raises(CpiError, match="no publish_url"):
        publisher.publish(path, "image")
    publisher.retire("image")
    publisher.retire(None)


def test_a_server_that_cannot_be_reached_is_told_without_its_password(tmp_path: Path) -> None:
    publisher = Publisher("http://127.0.0.1:1", "us", "s3cret-word", HttpOptions(connect_timeout=1))
    with pytest.raises(CpiError, match="did not take the image") as caught:
        publisher.check("templates", "the cloud")
    assert "s3cret-word" not in f"{caught.value} {caught.value.facts()}"


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x" * 300_000)
    assert [len(piece) for piece in file_pieces(path)] == [2**18, 300_000 - 2**18]
