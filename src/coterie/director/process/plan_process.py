"""A process that makes one plan: the order on standard input, the answer on standard output, both JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

from coterie.director.access.caller import Caller, act_as
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.director.process.state_folder import StateFolder
from coterie.director.services import deployments
from coterie.director.services.deployments import PlanBody
from coterie.errors import CoterieError
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger
from coterie.seal.signature import Signer
from coterie.settings import load

_MEMORY = 4 * 2**30
_NICE = 10  # requests of others go first


def main() -> None:
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    order = json.load(sys.stdin)
    try:
        answer = _plan(order)
    except CoterieError as error:
        answer = {"problem": problem.body_of(error, order["path"])}
    json.dump(answer, sys.stdout)


def _plan(order: dict[str, Any]) -> dict[str, Any]:
    settings = load(order["settings"])
    caller = Caller(**{**order["caller"], "teams": _teams(order["caller"]["teams"])})
    ledger = Ledger.open(order["database"])
    try:
        ledger.sign_with(Signer.load(StateFolder(settings.state).signing_key))
        with ledger.read() as tx:
            director = identity.director(tx)
        context = AppContext(ledger, director, settings, StateFolder(settings.state))
        with act_as(caller):
            plan = deployments.plan(context, PlanBody(**order["body"]))
        return {"id": plan.id, "plan": plan.to_json(), "text": deployments.render_text(plan, order["detail"])}
    finally:
        ledger.close()


def _teams(given: list[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


if __name__ == "__main__":
    main()
