"""Roles: viewers read, operators change, admins manage access; no route is without a rule."""

from __future__ import annotations

import re

from coterie.director.access.rules import RULES, rule_of
from tests.director.access.conftest import Make
from tests.director.asgi import openapi_document

ADMINS = {
    ("PUT", "/v1/cloud-config"),
    ("POST", "/v1/clouds"),
    ("PATCH", "/v1/clouds/x"),
    ("POST", "/v1/clouds/x/reseal"),
    ("POST", "/v1/clouds/x/grant"),
    ("PATCH", "/v1/deployments/x"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/tokens/x"),
    ("POST", "/v1/tokens"),
    ("DELETE", "/v1/tokens/x"),
    ("GET", "/v1/console/sessions"),
    ("DELETE", "/v1/console/sessions"),
    ("DELETE", "/v1/console/sessions/x"),
    ("POST", "/v1/keys"),
    ("POST", "/v1/keys/x/retire"),
    ("POST", "/v1/clouds/x/repin"),
    ("POST", "/v1/recoveries"),
    ("POST", "/v1/recoveries/plan"),
}


def routes() -> list[tuple[str, str]]:
    paths = openapi_document()["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    return sorted((method, re.sub(r"\{[^}]*\}", "x", path)) for method, path in found)


def test_exactly_these_requests_need_an_admin() -> None:
    assert {one for one in routes() if rule_of(*one).role == "admin"} == ADMINS


def test_every_rule_is_for_a_route() -> None:
    used = {rule_of(*one) for one in routes()}
    assert set(RULES) == {rule for rule in used if rule.path}


def test_a_role_is_admitted_or_the_refusal_names_the_role_needed(person: Make) -> None:
    order = ("viewer", "operator", "admin")
    people = [person(role) for role in order]
    for method, path in routes():
        needed = order.index(rule_of(method, path).role)
        replies = [one.send(method, path, {}) for one in people]
        assert [reply.status == 403 for reply in replies] == [rank < needed for rank in range(3)], (method, path)
        assert all(reply.status != 401 for reply in replies)
        for reply in replies[:needed]:
            assert reply.json["code"] == "forbidden"
            assert order[needed] in reply.json["why"] and reply.json["remedy"]


def test_only_an_admin_sends_a_cloud_config_with_a_deploy(person: Make) -> None:
    operator = person("operator")
    for method, path in (("POST", "/v1/plans"), ("PUT", "/v1/deployments/web")):
        reply = operator.send(method, path, {"manifest": "name: web", "cloud_config": "clouds: []"})
        assert (reply.status, reply.json["code"]) == (403, "forbidden"), reply.text
