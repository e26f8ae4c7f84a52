"""`coterie-cpi check` on CloudStack: each thing by its name, and a remedy beside whatever is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.bosh.commands import check
from tests.bosh.cloud_program import CloudShop

ASKED = {"configuration", "file permissions", "ledger", "core process", "credentials", "azs", "offerings", "quotas"}


def checked(shop: CloudShop, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    """The exit code, the items by name, and all that was printed."""
    status = check(str(shop.config), json_form=True)
    told = capsys.readouterr().out
    return status, {item["what"]: item for item in json.loads(told)}, told


def test_a_good_cloud_passes(cloud_shop: CloudShop, capsys: pytest.CaptureFixture[str]) -> None:
    status, items, _ = checked(cloud_shop, capsys)
    assert (status, ASKED - items.keys()) == (0, set())
    assert all(item["ok"] for item in items.values())


def test_a_missing_right_to_expunge_is_reported(user_shop: CloudShop, capsys: pytest.CaptureFixture[str]) -> None:
    _, items, _ = checked(user_shop, capsys)
    assert "may not expunge" in items["expunge"]["detail"]
    assert items["expunge"]["remedy"]


@pytest.mark.parametrize(
    ("property", "value", "what"),
    [
        ("secret_access_key", "wrong-secret-of-mine", "credentials"),
        ("api_key", "wrong-key-of-mine", "credentials"),
        ("endpoint", "http://127.0.0.1:9/client/api", "credentials"),
        ("default_zone", "nowhere", "azs"),
        ("default_disk_offering", "nothing", "offerings"),
        ("colour", "red", "cloud"),
    ],
)
def test_what_is_wrong_has_a_name_and_a_remedy(
    property: str, value: str, what: str, cloud_shop: CloudShop, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud_shop.configure(properties={**cloud_shop.cloud()["properties"], property: value})
    status, items, told = checked(cloud_shop, capsys)
    assert status == 1
    assert not items[what]["ok"]
    assert items[what]["remedy"]
    assert "of-mine" not in told
