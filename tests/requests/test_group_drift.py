"""Server groups that were changed in the cloud, and hosts that changed: the advised remedies work."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.errors import Refused
from coterie.ledger.tables import server_groups
from coterie.ledger.views import groups
from coterie.ledger.views.page import Slice
from coterie.requests import looks
from coterie.requests.audit import placement_audit
from coterie.requests.operations import repair_group
from coterie.sandbox import reshape
from tests.requests.site import Site, group, manifest
from tests.requests.test_groups import STRICT, group_cid, operator, operators_group

ANEW = "deploy again, which makes the group and its nodes anew"


def in_the_cloud(site: Site) -> str:
    """The id that the cloud gave the group."""
    (found,) = [one for one in site.cpi().inspect_server_group(group_cid(site)).resources if one.kind == "server_group"]
    return found.cid


def audited(site: Site) -> dict[str, Any]:
    (found,) = placement_audit(site.ledger, "dep")["groups"]
    return dict(found)


def look_at_groups(site: Site) -> str:
    task = looks.look(site.ledger) or 0
    site.wait(task)
    return site.story(task)


def listed(site: Site) -> dict[str, Any]:
    with site.ledger.read() as tx:
        (found,) = groups.page(tx, Slice(10, None)).items
    return dict(found)


def remedy_of_repair(site: Site) -> str:
    """The remedy of a repair that fails."""
    with site.ledger.read() as tx:
        intent = tx.execute(sa.select(server_groups.c.intent).where(server_groups.c.state != "gone")).scalar_one()
    task = repair_group(site.ledger, intent, "test")
    site.wait(task, "failed")
    (failure,) = site.task(task).report["failures"]
    return str(failure["error"]["remedy"])


def test_a_group_with_another_policy_than_it_was_made_with_is_replaced(local: Site) -> None:
    text = manifest(group("a", 2, STRICT))
    local.deploy(text)
    first = group_cid(local)
    reshape.set_group_policy(operator(local).datacenter, in_the_cloud(local), "soft-affinity")
    found = audited(local)
    assert (found["state"], found["holds"], found["remedy"]) == ("drifted", False, ANEW)
    assert found["why"] == "the cloud's policy is soft-affinity, promised was anti-affinity"
    assert f"is not as it was made: {ANEW}" in look_at_groups(local)
    assert listed(local)["remedy"] == "`coterie groups show data` tells what is wrong, and what to do"
    assert remedy_of_repair(local) == ANEW
    changed = "its policy was changed behind our back, anti-affinity → soft-affinity"
    plan = local.plan(text)
    assert [(c.action, c.kind, c.reason) for c in plan.changes if c.kind == "group"] == [
        ("create", "group", changed),
        ("delete", "group", f"replaced: {changed}"),
    ]
    assert plan.destructive
    local.deploy(text)
    assert group_cid(local) != first
    assert (audited(local)["state"], audited(local)["holds"], local.plan(text).changes) == ("live", True, ())


def test_a_changed_policy_moves_no_node_where_the_manifest_forbids_it(local: Site) -> None:
    kept = STRICT.replace("server_group: data", "server_group: data, recreate_on_policy_change: false")
    local.deploy(manifest(group("a", 2, kept)))
    reshape.set_group_policy(operator(local).datacenter, in_the_cloud(local), "soft-affinity")
    with pytest.raises(Refused, match=r"changed behind our back.*recreate_on_policy_change: false forbids"):
        local.plan(manifest(group("a", 2, kept)))
    reshape.set_group_policy(operator(local).datacenter, in_the_cloud(local), "anti-affinity")
    assert local.plan(manifest(group("a", 2, kept))).changes == ()


def test_an_operator_who_changes_an_adopted_group_is_told_of(local: Site) -> None:
    theirs = operators_group(local, "data")
    text = manifest(group("a", 2, STRICT.replace("server_group: data", "server_group: data, adopt: true")))
    local.deploy(text)
    reshape.set_group_policy(operator(local).datacenter, theirs, "soft-affinity")
    assert (audited(local)["holds"], "have the operator restore it" in audited(local)["remedy"]) == (False, True)
    with pytest.raises(Refused, match=r"placement\.policy: .*has policy soft-affinity, not anti-affinity"):
        local.plan(text)


def test_what_is_advised_about_a_missing_group_is_what_works(local: Site) -> None:
    text = manifest(group("a", 2, STRICT))
    local.deploy(text)
    reshape.delete_group(operator(local).datacenter, in_the_cloud(local))
    assert f"is missing: {ANEW}" in look_at_groups(local)
    assert (listed(local)["remedy"], audited(local)["remedy"]) == (ANEW, ANEW)
    assert "deploy again" in remedy_of_repair(local)
    local.deploy(text)
    assert audited(local)["holds"] is True


def test_a_host_that_is_no_longer_named_breaks_the_promise(local: Site) -> None:
    local.deploy(manifest(group("x", 1)))  # so that there is a datacenter to shape
    datacenter = operator(local).datacenter
    reshape.set_host_group(datacenter, "fast", ["z1-r1-h1", "z1-r1-h2"])
    named = "placement: {policy: host-affinity, server_group: data, host_group: fast}"
    text = manifest(group("a", 2, named, azs="z1"))
    local.deploy(text)
    assert (audited(local)["holds"], audited(local)["why"].endswith("of 2 named hosts")) == (True, True)
    reshape.set_host_group(datacenter, "fast", ["z1-r2-h3"])
    found = audited(local)
    assert (found["holds"], found["mend"]) == (False, ["a/0", "a/1"])
    local.deploy(text, recreate=True, nodes=tuple(found["mend"]))
    assert audited(local)["hosts"] == {"z1-r2-h3": ["a/0", "a/1"]}
    assert audited(local)["holds"] is True


def test_where_no_host_was_named_nothing_is_claimed(local: Site) -> None:
    local.deploy(manifest(group("a", 2, "placement: {policy: host-affinity, server_group: data}", azs="z1")))
    assert (audited(local)["holds"], "no hosts were named" in audited(local)["why"]) == (None, True)


def test_soft_affinity_is_broken_where_one_host_had_room_for_all(local: Site) -> None:
    text = manifest(group("a", 3, "placement: {policy: soft-affinity, server_group: data}", azs="z1"))
    local.deploy(text)
    (host,) = audited(local)["hosts"]
    reshape.set_host(operator(local).datacenter, host, up=False)
    local.deploy(text, recreate=True, nodes=("a/1",))
    reshape.set_host(operator(local).datacenter, host, up=True)
    found = audited(local)
    assert (found["holds"], len(found["hosts"]), found["mend"]) == (False, 2, ["a/1"])
    assert "have room for those on" in found["why"]


def test_a_node_whose_vm_is_down_is_told_and_not_counted_as_still_to_lose(local: Site) -> None:
    local.deploy(manifest(group("a", 2, STRICT, azs="z1")))
    vm = local.nodes()["a/0"].vm_cid or ""
    reshape.kill_vm(operator(local).datacenter, vm)
    found = audited(local)
    assert found["down"] == {"a/0": "stopped"}
    assert found["worst_host"]["nodes"] == ["a/1"]
