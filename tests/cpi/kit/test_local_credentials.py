"""Credentials of a conductor's machine: allowed by its settings only, and never beside an address of a cloud config."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cpi.contract import EVERY_SOURCE, NotSupported
from coterie.cpi.kit.local_credentials import require_source


@pytest.mark.parametrize("wanted", ["instance", "environment", "profile:prod", "/etc/secret"])
def test_nothing_is_allowed_by_default_and_each_source_by_its_name(wanted: str) -> None:
    with pytest.raises(NotSupported) as refused:
        require_source((), "key", wanted, {})
    assert "key" in refused.value.what and "credential_sources" in str(refused.value.remedy)
    with pytest.raises(NotSupported):
        require_source(("profile:production", "/etc"), "key", wanted, {})
    require_source((wanted,), "key", wanted, {"endpoint": None, "insecure": False})


def test_an_address_of_the_cloud_config_is_refused_unless_everything_is_trusted() -> None:
    with pytest.raises(NotSupported, match="endpoint"):
        require_source(("instance",), "key", "instance", {"ca_cert": None, "endpoint": "https://elsewhere.example.org"})
    require_source((EVERY_SOURCE,), "key", "instance", {"endpoint": "https://stack.example.org"})


def test_a_file_is_the_same_by_way_of_links(tmp_path: Path) -> None:
    file, link, other = tmp_path / "clouds.yaml", tmp_path / "link", tmp_path / "other"
    file.write_text("")
    other.write_text("")
    link.symlink_to(file)
    require_source((str(link),), "key", str(file), {})
    with pytest.raises(NotSupported):
        require_source((str(link),), "key", str(other), {})
