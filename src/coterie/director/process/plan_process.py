"""A process that makes one plan, or accepts one: order on standard input, answer on standard output, both JSON."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from coterie.conductor.startup import collect_garbage_seldom
from coterie.director.access.caller import Caller, act_as
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.director.process.state_folder import StateFolder
from coterie.director.services import deployments
from coterie.director.services.deployments import DeployBody, PlanBody
from coterie.errors import CoterieError
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger
from coterie.seal.signature import Signer
from coterie.settings import load

_MEMORY = 4 * 2**30
_NICE = 10  # requests of others go first


def main() -> None:
    os.nice(_NICE)
    collect_garbage_seldom()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    order = json.load(sys.stdin)
    try:
        answer = _work(order)
    except CoterieError as error:
        answer = {"problem": problem.body_of(error, order["path"])}
    json.dump(answer, sys.stdout)


def _work(order: dict[str, Any]) -> dict[str, Any]:
    settings = load(order["settings"])
    caller = Caller(**{**order["caller"], "teams": _teams(order["caller"]["teams"])})
    ledger = Ledger.open(order["database"])
    try:
        ledger.pin(settings["pin_release_version"])
        ledger.sign_with(Signer.load(StateFolder(settings.state).signing_key))
        with ledger.read() as tx:
            director = identity.director(tx)
        context = AppContext(ledger, director, settings, StateFolder(settings.state))
        with act_as(caller):
            return _deploy(context, order) if "deploy" in order else _plan(context, order)
    finally:
        ledger.close()


def _plan(context: AppContext, order: dict[str, Any]) -> dict[str, Any]:
    plan = deployments.plan(context, PlanBody(**order["body"]))
    return {"id": plan.id, "plan": plan.to_json(), "text": deployments.render_text(plan, order["detail"])}


def _deploy(context: AppContext, order: dict[str, Any]) -> dict[str, Any]:
    """From the moment that it is stored, the answer must reach the Director: then the signal to stop is ignored."""

    def ignore_stop() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return {"task_id": deployments.deploy(context, order["deploy"], DeployBody(**order["body"]), ignore_stop)}


def _teams(given: list[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


if __name__ == "__main__":
    main()
