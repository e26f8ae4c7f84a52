"""The role that each request needs: one table, first match wins. A change that is not in it needs an admin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from coterie.director.access.caller import Caller
from coterie.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Rule:
    """`whole`: not for callers that are limited to teams. `changes`: the request is written to the record."""

    methods: str
    path: str
    role: str
    whole: bool = False
    changes: bool = True

    def fits(self, method: str, path: str) -> bool:
        return method in self.methods.split() and re.fullmatch(self.path, path) is not None


RULES = (
    Rule("GET HEAD OPTIONS", r"/v1/(tokens|console/sessions)(/.*)?", "admin", changes=False),
    Rule("GET HEAD OPTIONS", r"/v1/cleanups(/.*)?|/v1/config|/metrics", "viewer", whole=True, changes=False),
    Rule("GET HEAD OPTIONS", r".*", "viewer", changes=False),
    Rule("POST", r"/v1/console/links", "viewer"),
    Rule("POST", r"/v1/plans", "operator", changes=False),
    Rule("POST", r"/v1/clouds/[^/]*/check", "operator", changes=False),
    Rule("POST", r"/v1/clouds/[^/]*/prove", "operator", whole=True),
    Rule("POST", r"/v1/clouds/[^/]*/accept", "operator", whole=True),
    Rule("PUT DELETE", r"/v1/deployments/[^/]*", "operator"),
    Rule("POST", r"/v1/deployments/[^/]*/abandon", "operator"),
    Rule("PATCH", r"/v1/nodes/.*", "operator"),
    Rule("POST DELETE", r"/v1/nodes(/.*)?", "operator", whole=True),
    Rule("POST", r"/v1/looks", "operator"),
    Rule("POST", r"/v1/groups/[^/]*/repair", "operator"),
    Rule("POST", r"/v1/deployments/[^/]*/actions", "operator"),
    Rule("DELETE", r"/v1/disks/[^/]*", "operator"),
    Rule("POST", r"/v1/disks/delete", "operator"),
    Rule("POST", r"/v1/objects/[^/]*/settle", "operator"),
    Rule("POST", r"/v1/tasks/[^/]*/cancel", "operator"),
    Rule("POST DELETE", r"/v1/stemcells(/.*)?", "operator", whole=True),
    Rule("POST", r"/v1/cleanups(/.*)?", "operator", whole=True),
)
_REST = Rule("", "", "admin")


def rule_of(method: str, path: str) -> Rule:
    return next((rule for rule in RULES if rule.fits(method, path)), _REST)


def require(caller: Caller, method: str, path: str) -> None:
    rule = rule_of(method, path)
    if not caller.may(rule.role):
        raise Forbidden(
            f"{caller.name} may not {method} {path}",
            why=f"that takes the role {rule.role}, and this is {caller.role}",
            remedy=f"ask an admin, or for a token: coterie tokens create NAME --role {rule.role}",
        )
    if rule.whole and caller.visibility is not None:
        raise Forbidden(
            f"{caller.name} may not {method} {path}",
            why="it concerns the deployments of every team, and this caller is limited to some",
            remedy="ask for a token without --team",
        )
