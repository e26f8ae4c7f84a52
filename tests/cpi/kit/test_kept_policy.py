"""Strict policies that a cloud may break: the younger of two VMs fails, and never both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.cpi.contract import VMCreationFailed
from coterie.cpi.kit.kept_policy import PlacedVm, YoungerStays, require_kept_policy
from coterie.cpi.kit.server_groups import Membership


def placed(name: str, host: str, *, checked: bool = False) -> PlacedVm:
    """Names sort as ages do."""
    return PlacedVm(name, host, (name,), checked)


def check(policy: str, vm: PlacedVm, list_members: Callable[[], list[PlacedVm]], wait_s: float = 0.05) -> None:
    require_kept_policy(vm, Membership("cg", "id", policy, ()), list_members, wait_s, 0.001)


@pytest.mark.parametrize(
    ("policy", "host", "is_kept"),
    [
        ("anti-affinity", "h2", True),
        ("anti-affinity", "h1", False),
        ("affinity", "h1", True),
        ("affinity", "h2", False),
        ("soft-anti-affinity", "h1", True),
    ],
)
def test_a_broken_policy_is_noticed(policy: str, host: str, is_kept: bool) -> None:
    vm = placed("b", "h1")
    members = [vm, placed("a", host, checked=True)]
    if is_kept:
        check(policy, vm, lambda: members)
    else:
        with pytest.raises(VMCreationFailed, match="broke policy") as caught:
            check(policy, vm, lambda: members)
        assert caught.value.retryable


def test_the_elder_waits_until_the_younger_has_failed() -> None:
    vm, looks = placed("a", "h1"), [[placed("b", "h1")], [placed("b", "h1")], []]
    check("anti-affinity", vm, lambda: looks.pop(0), wait_s=60.0)
    assert not looks


def test_an_elder_whose_rivals_stay_is_told_apart_from_a_younger_one() -> None:
    with pytest.raises(YoungerStays):
        check("anti-affinity", placed("a", "h1"), lambda: [placed("b", "h1")])
    with pytest.raises(VMCreationFailed) as caught:
        check("anti-affinity", placed("b", "h1"), lambda: [placed("a", "h1"), placed("c", "h1")])
    assert not isinstance(caught.value, YoungerStays)


def test_the_elder_fails_beside_one_that_was_checked_or_stays() -> None:
    vm = placed("a", "h1")
    for younger in (placed("b", "h1", checked=True), placed("b", "h1")):
        with pytest.raises(VMCreationFailed):
            check("anti-affinity", vm, lambda one=younger: [one])  # type: ignore[misc] # bound at once
