"""Security groups of deployments: their rules follow the manifest, and no other deployment gets them by their name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cpi.contract import read_rules
from coterie.errors import InvalidDocument, Refused, StalePlan
from coterie.ledger.rows import groups as group_rows
from coterie.ledger.rows import ownerships
from coterie.ledger.tables import server_groups
from coterie.ledger.visibility import Visibility, limit_to
from coterie.plan.render import text as render
from coterie.requests.draft import accept_draft, draft_plan, store_config
from coterie.requests.operations import repair_group
from coterie.requests.request import PlanRequest, read
from coterie.sandbox import security_groups as cloud
from tests.requests.site import Site, group, manifest
from tests.requests.test_group_drift import audited, listed, look_at_groups
from tests.requests.test_groups import operator

OPEN = "{protocol: any, cidr: 0.0.0.0/0}"
NARROW = "{protocol: tcp, ports: 443, cidr: 10.0.0.0/8}"


def web(*rules: str, name: str = "dep", more: str = "") -> str:
    """A deployment of one node in the security group web."""
    fields = more or f"rules: [{', '.join(rules)}]"
    spec = f"security_groups: [{{name: web, {fields}}}]\n"
    text = manifest(group("a", 1, "security_groups: [web]"), extra=spec)
    return text.replace("name: dep\n", f"name: {name}\n", 1)


def in_cloud(site: Site, name: str = "web") -> Any:
    (found,) = [one for one in cloud.list_security_groups(operator(site)).items if one.name == name]
    return found


def rules(site: Site) -> list[str]:
    return sorted({str(rule) for rule in read_rules(in_cloud(site).rules)})


def group_changes(site: Site, text: str) -> list[tuple[str, str]]:
    return [(one.action, one.reason) for one in site.plan(text).changes if one.kind == "group"]


def refusal(site: Site, text: str) -> str:
    with pytest.raises(Refused) as caught:
        site.plan(text)
    return str(caught.value.why)


@contextmanager
def as_team(team: str) -> Iterator[None]:
    with limit_to(Visibility(frozenset({team}), f"caller of {team}")):
        yield


def own(site: Site, deployment: str, team: str) -> None:
    with site.ledger.write() as tx:
        ownerships.assign(tx, deployment, team)


def test_a_changed_rule_is_planned_line_by_line_and_reaches_the_cloud(here: Site) -> None:
    plan = here.plan(web(OPEN))
    assert "      security group web: + ingress any from 0.0.0.0/0\n" in render(plan)
    here.deploy(web(OPEN))
    before = in_cloud(here).id
    plan = here.plan(web(NARROW))
    assert [(one.action, one.kind, one.reason) for one in plan.changes] == [
        ("update", "group", "security groups changed")
    ]
    assert "      security group web: + ingress tcp 443 from 10.0.0.0/8\n" in render(plan)
    assert "      security group web: - ingress any from 0.0.0.0/0\n" in render(plan)
    here.deploy(web(NARROW))
    assert (in_cloud(here).id, rules(here)) == (before, ["ingress tcp 443 from 10.0.0.0/8"])
    assert here.plan(web(NARROW)).changes == ()


def test_a_rule_changed_behind_our_back_is_shown_everywhere_and_mended_by_deploy(local: Site) -> None:
    local.deploy(web(NARROW))
    stranger = {"protocol": "tcp", "ports": "22", "cidr": "0.0.0.0/0"}
    cloud.set_security_group_rules(operator(local), in_cloud(local).id, [stranger])
    lacks = "security group web lacks the rule: ingress tcp 443 from 10.0.0.0/8"
    has = "security group web has a rule that was not requested: ingress tcp 22 from 0.0.0.0/0"
    assert (audited(local)["state"], audited(local)["notes"]) == ("drifted", [lacks, has])
    story = look_at_groups(local)
    assert "group.drifted" in story and lacks in story and has in story
    assert (listed(local)["state"], listed(local)["drift"]) == ("drifted", sorted([lacks, has]))
    changed = [("update", "rules of security group web were changed behind our back")]
    assert group_changes(local, web(NARROW)) == changed
    local.deploy(web(NARROW))
    assert rules(local) == ["ingress tcp 443 from 10.0.0.0/8"]
    assert (audited(local)["state"], listed(local)["drift"]) == ("live", [])
    assert group_changes(local, web(NARROW)) == []


def test_repair_mends_the_rules_too(local: Site) -> None:
    local.deploy(web(NARROW))
    cloud.set_security_group_rules(operator(local), in_cloud(local).id, [])
    with local.ledger.read() as tx:
        (row,) = group_rows.of_deployment(tx, "dep")
    local.wait(repair_group(local.ledger, row.intent, "test"))
    assert rules(local) == ["ingress tcp 443 from 10.0.0.0/8"]


def test_rules_that_the_manifest_leaves_out_are_left_to_the_cloud(local: Site) -> None:
    text = manifest(group("a", 1, "security_groups: [web]"))
    local.deploy(text)
    added = {"protocol": "tcp", "ports": "22", "cidr": "0.0.0.0/0"}
    cloud.set_security_group_rules(operator(local), in_cloud(local).id, [added])
    assert (audited(local)["state"], local.plan(text).changes) == ("live", ())
    assert group_changes(local, web()) == [("update", "security groups changed")]  # `rules: []` means none
    local.deploy(web())
    assert rules(local) == []


def test_a_name_that_another_deployment_or_an_operator_has_is_refused(local: Site) -> None:
    local.deploy(web(OPEN))
    why = refusal(local, web(NARROW, name="other"))
    assert "security group web of cloud lab belongs to another deployment: use another name, or say adopt" in why
    local.delete()
    theirs = cloud.create_security_group(operator(local), name="web").id
    why = refusal(local, web(NARROW))
    assert "security_groups: security group 'web' exists and is not ours; use another name, or say adopt: true" in why
    local.deploy(web(more="adopt: true"))
    assert rules(local) == [] and in_cloud(local).vms
    local.delete()
    assert in_cloud(local).id == theirs


def test_what_is_adopted_is_used_as_it_is_and_stays_its_owners(local: Site) -> None:
    local.deploy(web(NARROW))
    adopting = web(name="other", more="adopt: true")
    local.deploy(adopting)
    assert len(in_cloud(local).vms) == 2
    local.deploy(web(OPEN))
    assert (rules(local), local.plan(adopting).changes) == (["ingress any from 0.0.0.0/0"], ())
    local.deploy(None, delete=True, deployment="other")
    assert len(in_cloud(local).vms) == 1
    assert "there is no security group 'nothing' to adopt" in refusal(local, adopting.replace("web", "nothing"))
    with pytest.raises(InvalidDocument, match="is adopted, and has rules"):
        local.plan(web(name="other", more=f"adopt: true, rules: [{OPEN}]"))


def test_a_team_adopts_only_what_it_owns_or_the_operator_shared(local: Site) -> None:
    local.deploy(web(NARROW))
    own(local, "dep", "red")
    cloud.create_security_group(operator(local), name="monitoring")
    adopting = web(name="other", more="adopt: true")
    monitored = adopting.replace("web", "monitoring")
    with as_team("blue"):
        for text in (adopting, monitored):
            assert "is not shared with the team of this deployment" in refusal(local, text)
    own(local, "other", "blue")
    assert "is not shared with the team" in refusal(local, adopting)  # whatever the caller may do
    local.config = local.config.replace("driver: sandbox,", "driver: sandbox, shared_security_groups: [monitoring],")
    with as_team("blue"):
        local.plan(monitored)
        assert "is not shared with the team" in refusal(local, adopting)
    own(local, "other", "red")
    with as_team("red"):
        local.deploy(adopting)
    local.config = local.config.replace("[monitoring]", "[]")
    with as_team("red"):
        assert "is not shared with the team" in refusal(local, monitored)


def test_of_two_deployments_that_plan_one_name_at_once_the_second_is_refused(here: Site) -> None:
    clouds = read(here.ledger, here.request(web(OPEN))).clouds
    with here.ledger.write() as tx:
        store_config(tx, here.config, clouds, {})
    first = draft_plan(here.ledger, PlanRequest(manifest=web(OPEN)))
    second = draft_plan(here.ledger, PlanRequest(manifest=web(NARROW, name="other")))
    here.wait(accept_draft(here.ledger, first, "deploy", "test"))
    with pytest.raises(StalePlan, match="another deployment took the security group web of cloud lab"):
        accept_draft(here.ledger, second, "deploy", "test")


def make_row_of_first_release(site: Site, deployment: str, security_group: dict[str, Any]) -> None:
    """As release 0.1.0 stored it: it knew no adoption."""
    with site.ledger.write() as tx:
        (row,) = group_rows.of_deployment(tx, deployment)
        metadata = {**row.metadata, "security_groups": [security_group]}
        tx.execute(sa.update(server_groups).where(server_groups.c.intent == row.intent).values(metadata=metadata))


def test_deployments_that_shared_a_security_group_before_go_on(local: Site) -> None:
    local.deploy(web(OPEN))
    local.deploy(web(name="other", more="adopt: true"))
    old = {"name": "web", "rules": [{"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8", "direction": "ingress"}]}
    make_row_of_first_release(local, "other", old)
    assert "drifted" not in look_at_groups(local)  # its rules are the other deployment's
    shared = web(NARROW, name="other")
    plan = local.plan(shared)
    assert "belongs to another deployment: it is used as before, and its rules are not changed" in plan.notes[0]
    local.deploy(shared)
    assert (rules(local), local.plan(shared).changes) == (["ingress any from 0.0.0.0/0"], ())
    local.delete()
    assert group_changes(local, shared) == [("update", "security groups changed")]  # now it is its own
    local.deploy(shared)
    assert rules(local) == ["ingress tcp 443 from 10.0.0.0/8"]


def test_a_deployment_that_used_an_operators_security_group_before_goes_on(local: Site) -> None:
    theirs = cloud.create_security_group(operator(local), name="web").id
    local.deploy(web(more="adopt: true"))
    rule = {"protocol": "any", "cidr": "0.0.0.0/0", "direction": "ingress"}
    make_row_of_first_release(local, "dep", {"name": "web", "rules": [rule]})
    assert "belongs to an operator: it is used as before" in local.plan(web(OPEN)).notes[0]
    local.deploy(web(OPEN), recreate=True)
    assert (rules(local), in_cloud(local).id, local.plan(web(OPEN)).changes) == ([], theirs, ())
    local.delete()
    assert in_cloud(local).id == theirs
