"""A Director's application context with something of every kind in it, on a sandbox with a conductor; and for each
operation of the API a call that succeeds. What a call uses up is made anew for it: calls may come in any order."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.cleanup import start as cleanup
from coterie.cleanup.options import Options
from coterie.director.access.caller import Caller
from coterie.director.access.tokens import create
from coterie.director.console.sessions import begin
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.director.services.clouds import set_cloud_config
from coterie.ledger.rows import deployments, enrolled, keys, sessions
from coterie.ledger.views import groups, objects, tasks
from coterie.ledger.views.page import Slice
from coterie.requests import start
from coterie.requests.recover import plan_recovery
from coterie.requests.request import PlanRequest
from coterie.seal.key import fresh
from coterie.settings import load
from tests.ledger.blank import sqlite_ledger
from tests.ledger.views import rows
from tests.requests.site import CONFIG, Site, group, manifest, site
from tests.requests.strangers import stranger

TOKEN = "a-token-for-the-generated-requests"
SPARE = "- {name: spare, driver: sandbox, properties: {settle_s: 0.1}}\n"  # what may be pinned and moved
BOTH = CONFIG.replace("azs:\n", f"{SPARE}azs:\n", 1) + "disk_types:\n- {name: data, disk_size: 64}\n"
MANIFEST = manifest(group("web", 1, "persistent_disk_type: data, placement: {policy: soft-anti-affinity}"))


@dataclass(frozen=True)
class Call:
    path: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    query: dict[str, Any] = field(default_factory=dict)
    media_type: str | None = None


class Populated:
    def __init__(self, context: AppContext, here: Site) -> None:
        self.context, self.ledger, self.site = context, context.ledger, here
        self._numbers = itertools.count(1)
        set_cloud_config(context, BOTH, "cloud-config")
        self.task = start.deploy(self.ledger, self._request(MANIFEST), None, "test")
        here.wait(self.task)
        with self.ledger.read() as tx:
            self.group = str(groups.page(tx, Slice()).items[0]["cid"])
            self.disk = str(objects.disks(tx, Slice()).items[0]["intent"])
        self.node = here.nodes()["web/0"].uuid
        self.cleanup = self._survey()

    def call(self, operation: str) -> Call:
        return _CALLS[operation](self)

    def cleanups_are_over(self) -> None:
        """One at a time is admitted."""
        self._wait(lambda: not any(task["kind"] in ("survey", "sweep") for task in self._unfinished()))

    def fresh_name(self) -> str:
        return f"fresh-{next(self._numbers)}"

    def fresh_deployment(self) -> str:
        name = self.fresh_name()
        rows.deployment(self.ledger, name, manifest=MANIFEST.replace("name: dep", f"name: {name}"))
        return name

    def deployments(self) -> list[str]:
        with self.ledger.read() as tx:
            return deployments.names(tx)

    def fresh_node(self) -> str:
        """An enrolled one."""
        name = self.fresh_name()
        with self.ledger.write() as tx:
            enrolled.add(tx, f"uuid-{name}", name, cloud="lab", cid=f"vm-{name}", group=None)
        return name

    def fresh_disk(self) -> str:
        name = self.fresh_name()
        rows.cloud_object(self.ledger, name, state="kept", cid=f"disk-{name}")
        return name

    def fresh_doubt(self) -> str:
        name = self.fresh_name()
        rows.cloud_object(self.ledger, name, state="unknown")
        return name

    def fresh_stemcell(self) -> dict[str, str]:
        name = self.fresh_name()
        values = {"name": name, "version": "1", "cloud_properties": {"image": "x"}, "formats": []}
        rows.put(self.ledger, "stemcells", **values, created_at=1.0)
        return {"name": name, "version": "1"}

    def fresh_task(self) -> int:
        number = 10**9 - next(self._numbers)  # below all that are given out from now on
        rows.task(self.ledger, number, deployment=None)
        rows.stage(self.ledger, number, 0, total=1)
        rows.step(self.ledger, number, number, state="queued")
        return number

    def fresh_session(self) -> str:
        name = self.fresh_name()
        begin(self.context, Caller(name, "viewer", "oidc"), 1.0)
        with self.ledger.read() as tx:
            return str(sessions.page(tx, Slice(), name).items[0]["id"])

    def fresh_token(self) -> str:
        with self.ledger.write() as tx:
            return create(tx, self.fresh_name(), "viewer", None, "test").id

    def fresh_key(self) -> str:
        made = fresh().public
        with self.ledger.write() as tx:
            keys.publish(tx, "unused", made.id, made.text, "test")
        return made.id

    def fresh_plan(self) -> Call:
        """A cleanup whose survey has ended, and its plan."""
        number = self._survey()
        return Call({"cleanup": number}, {"plan": cleanup.read_plan(self.ledger, number).id})

    def recovery(self) -> str:
        return plan_recovery(self.ledger, self._request(MANIFEST)).id

    def _survey(self) -> int:
        self.cleanups_are_over()
        number, task = cleanup.survey(self.ledger, Options.of_wire({}), "test")
        self.site.wait(task)
        return number

    def _unfinished(self) -> list[dict[str, Any]]:
        with self.ledger.read() as tx:
            return list(tasks.unfinished(tx))

    def _wait(self, over: Callable[[], bool]) -> None:
        give_up = time.monotonic() + 60
        while not over():
            assert time.monotonic() < give_up
            time.sleep(0.02)

    @staticmethod
    def _request(text: str) -> PlanRequest:
        return PlanRequest(deployment="dep", manifest=text)


@contextmanager
def populated(folder: Path) -> Iterator[Populated]:
    state_folder = StateFolder(folder / "state")
    state_folder.prepare()
    ledger = sqlite_ledger(state_folder.ledger)
    settings = load({"state": str(state_folder.path)}, {"HOME": str(folder)})
    with site(ledger, folder, opens_sealed=True) as here:
        context = AppContext(ledger, here.director, settings, state_folder, token=TOKEN, guarded=True)
        yield Populated(context, here)
    ledger.close()


def _always(call: Call) -> Callable[[Populated], Call]:
    return lambda _: call


def _deploy(there: Populated) -> Call:
    name = there.fresh_name()
    return Call({"name": name}, {"manifest": MANIFEST.replace("name: dep", f"name: {name}")})


def _prove(there: Populated) -> Call:
    """On a deployment of a deep check that holds nothing, which its task finds."""
    if "deep-check-spare" not in there.deployments():
        rows.deployment(there.ledger, "deep-check-spare", manifest=MANIFEST)
    return Call(_SPARE)


def _survey(there: Populated) -> Call:
    there.cleanups_are_over()
    return Call(body={})


_NOTHING = _always(Call())
_LAB, _SPARE, _DEP = {"name": "lab"}, {"name": "spare"}, {"name": "dep"}
_CALLS: dict[str, Callable[[Populated], Call]] = {
    "GET /livez": _NOTHING,
    "GET /readyz": _NOTHING,
    "GET /metrics": _NOTHING,
    "GET /v1/info": _NOTHING,
    "GET /v1/config": _NOTHING,
    "GET /v1/cloud-config": _NOTHING,
    "PUT /v1/cloud-config": _always(Call(body={"text": BOTH}, media_type="application/json")),
    "GET /v1/clouds": _NOTHING,
    "POST /v1/clouds": lambda there: Call(body={"name": there.fresh_name(), "driver": "sandbox"}),
    "PATCH /v1/clouds/{name}": _always(Call(_SPARE, {"conductor_group": ""})),
    "GET /v1/clouds/{name}": _always(Call(_LAB)),
    "POST /v1/clouds/{name}/check": _always(Call(_LAB)),
    "POST /v1/clouds/{name}/reseal": _always(Call(_SPARE)),
    "POST /v1/clouds/{name}/repin": _always(Call(_SPARE, {"identity": "another account"})),
    "POST /v1/clouds/{name}/accept": _always(Call(_SPARE)),
    "POST /v1/clouds/{name}/grant": _always(Call(_LAB, {"user": "ann"})),
    "POST /v1/clouds/{name}/prove": _prove,
    "POST /v1/plans": _always(Call(body={"manifest": MANIFEST})),
    "POST /v1/recoveries/plan": _always(Call(body={"manifest": MANIFEST})),
    "POST /v1/recoveries": lambda there: Call(body={"manifest": MANIFEST, "plan": there.recovery()}),
    "GET /v1/deployments": _NOTHING,
    "GET /v1/deployments/{name}": _always(Call(_DEP)),
    "PUT /v1/deployments/{name}": _deploy,
    "PATCH /v1/deployments/{name}": lambda there: Call({"name": there.fresh_deployment()}, {"team": "red"}),
    "DELETE /v1/deployments/{name}": lambda there: Call({"name": there.fresh_deployment()}),
    "GET /v1/deployments/{name}/manifest": _always(Call(_DEP)),
    "GET /v1/deployments/{name}/manifests": _always(Call(_DEP)),
    "GET /v1/deployments/{name}/manifests/{number}": _always(Call({**_DEP, "number": 1})),
    "POST /v1/deployments/{name}/actions": lambda _: Call(_DEP, {"action": "start", "nodes": ["web/0"]}),
    "POST /v1/deployments/{name}/abandon": lambda there: Call({"name": there.fresh_deployment()}),
    "GET /v1/nodes": _NOTHING,
    "POST /v1/looks": _always(Call(body={"deployment": "dep"})),
    "POST /v1/nodes": lambda there: Call(body={"cloud": "lab", "cid": stranger(there.site.folder, there.fresh_name())}),
    "GET /v1/nodes/{which}": lambda there: Call({"which": there.node}),
    "PATCH /v1/nodes/{which}": lambda there: Call({"which": there.fresh_node()}, {"conductor_group": None}),
    "DELETE /v1/nodes/{which}": lambda there: Call({"which": there.fresh_node()}),
    "GET /v1/groups": _NOTHING,
    "GET /v1/groups/{cid}": lambda there: Call({"cid": there.group}),
    "POST /v1/groups/{cid}/repair": lambda there: Call({"cid": there.group}),
    "GET /v1/disks": _NOTHING,
    "GET /v1/disks/{intent}": lambda there: Call({"intent": there.disk}),
    "DELETE /v1/disks/{intent}": lambda there: Call({"intent": there.fresh_disk()}),
    "POST /v1/disks/delete": lambda there: Call(body={"disks": [there.fresh_disk(), there.fresh_disk()]}),
    "GET /v1/stemcells": _NOTHING,
    "POST /v1/stemcells": _always(
        Call(body={"name": "light", "version": "1", "cloud_properties": {"image": "x"}}, media_type="application/json")
    ),
    "GET /v1/stemcells/{name}/{version}": _always(Call({"name": "os", "version": "1"})),
    "DELETE /v1/stemcells/{name}/{version}": lambda there: Call(there.fresh_stemcell()),
    "GET /v1/objects": _NOTHING,
    "GET /v1/objects/{intent}": lambda there: Call({"intent": there.disk}),
    "POST /v1/objects/{intent}/settle": lambda there: Call({"intent": there.fresh_doubt()}, {"cid": None}),
    "GET /v1/tasks": _NOTHING,
    "GET /v1/tasks/{task}": lambda there: Call({"task": there.task}),
    "GET /v1/tasks/{task}/steps": lambda there: Call({"task": there.task}),
    "POST /v1/tasks/{task}/cancel": lambda there: Call({"task": there.fresh_task()}),
    "GET /v1/tasks/{task}/events": lambda there: Call({"task": there.task}),
    "GET /v1/events": _NOTHING,
    "GET /v1/conductors": _NOTHING,
    "GET /v1/conductors/groups": _NOTHING,
    "GET /v1/ring": _NOTHING,
    "GET /v1/ring/what-if": _NOTHING,
    "GET /v1/ring/nodes/{which}": lambda there: Call({"which": there.node}),
    "GET /v1/placement": _always(Call(query={"deployment": "dep"})),
    "GET /v1/placement/map": _always(Call(query={"deployment": "dep"})),
    "GET /v1/targets": _always(Call(query={"port": "9100", "deployment": "dep"})),
    "GET /v1/explain/{path}": _always(Call({"path": "instance_groups"})),
    "GET /v1/cleanups": _NOTHING,
    "POST /v1/cleanups": _survey,
    "GET /v1/cleanups/marks": _NOTHING,
    "POST /v1/cleanups/undo": _always(Call(body={})),
    "GET /v1/cleanups/{cleanup}": lambda there: Call({"cleanup": there.cleanup}),
    "GET /v1/cleanups/{cleanup}/findings": lambda there: Call({"cleanup": there.cleanup}),
    "POST /v1/cleanups/{cleanup}/apply": Populated.fresh_plan,
    "GET /v1/whoami": _NOTHING,
    "GET /v1/tokens": _NOTHING,
    "POST /v1/tokens": lambda there: Call(body={"name": there.fresh_name()}),
    "GET /v1/tokens/{token}": lambda there: Call({"token": there.fresh_token()}),
    "DELETE /v1/tokens/{token}": lambda there: Call({"token": there.fresh_token()}),
    "POST /v1/console/links": _NOTHING,
    "GET /v1/console/sessions": _NOTHING,
    "DELETE /v1/console/sessions": lambda there: Call(query={"name": there.fresh_name()}),
    "DELETE /v1/console/sessions/{session}": lambda there: Call({"session": there.fresh_session()}),
    "GET /v1/keys": _NOTHING,
    "POST /v1/keys": lambda _: Call(body={"conductor_group": "unused", "public": fresh().public.text}),
    "POST /v1/keys/{key}/retire": lambda there: Call({"key": there.fresh_key()}, {"conductor_group": "unused"}),
}
