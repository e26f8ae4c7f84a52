"""Quotas, hosts and zones as facts and findings."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import Needs
from coterie.cpi.kit.quotas import az_item, host, host_items, quota


@pytest.mark.parametrize(
    ("limit", "used", "found"),
    [
        (10, 3, (10, 3)),
        ("10", "3.0", (10, 3)),
        (-1, None, (None, 0)),
        ("Unlimited", 1, (None, 1)),
        (None, 1, (None, 1)),
    ],
)
def test_a_quota_without_a_limit_has_none(limit: Any, used: Any, found: tuple[int | None, int]) -> None:
    assert quota(limit, used) == {"limit": found[0], "used": found[1]}


def test_a_zone_without_hosts_is_named() -> None:
    hosts = [host("h1", "z1"), host("h2", "z1")]
    (good,) = host_items(Needs(azs=("z1",)), hosts)
    assert good.ok and good.facts == {"hosts": hosts}
    (bad,) = host_items(Needs(azs=("z1", "z2")), hosts)
    assert not bad.ok and "z2" in bad.detail and bad.remedy


def test_a_strict_group_needs_as_many_hosts() -> None:
    needs = Needs(counts={"anti-affinity:z1": 3, "vm": 9})
    _, short = host_items(needs, [host("h1", "z1"), host("h2", "z2")], strict=True)
    assert (short.what, short.ok, short.detail) == (
        "anti-affinity:z1",
        False,
        "3 members need 3 hosts in z1, 1 are up",
    )


def test_a_zone_that_is_not_there_is_named() -> None:
    good = az_item(Needs(azs=("z1",)), ["z1", "z2"], "z2", "zone")
    assert good.ok and good.facts == {"azs": ["z1", "z2"]}
    bad = az_item(Needs(azs=("z1",)), ["z1"], "z9", "zone")
    assert not bad.ok and "z9" in bad.detail and "z1" in bad.remedy
