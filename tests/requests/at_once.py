"""Several deployments that are planned, confirmed and accepted at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from coterie.requests import start
from coterie.requests.start import PlanRequest
from tests.requests.site import Site


def deploy_at_once(here: Site, texts: Sequence[str]) -> None:
    _confirm_at_once(here, [here.request(text) for text in texts])


def delete_at_once(here: Site, names: Sequence[str]) -> None:
    _confirm_at_once(here, [here.request(deployment=name, delete=True) for name in names])


def _confirm_at_once(here: Site, requests: Sequence[PlanRequest]) -> None:
    """All are planned before the first one is accepted, and each confirms the plan that it saw."""
    planned = threading.Barrier(len(requests))

    def confirm(request: PlanRequest) -> int:
        plan = start.plan(here.ledger, request)
        planned.wait(120)
        return start.deploy(here.ledger, request, plan.id, "test")

    with ThreadPoolExecutor(len(requests)) as threads:
        tasks = list(threads.map(confirm, requests))
    for task in tasks:
        here.wait(task)
