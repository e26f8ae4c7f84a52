"""`coterie clouds check NAME --deep`: a small deployment is made, what the cloud promises is tried, it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cli.frame.session import Session
from coterie.cli.show.table import as_json, table
from coterie.cli.watch.task import INTERRUPTED, TIMED_OUT, watch_quietly
from coterie.errors import Conflict, CoterieError, NotFound, UsageError
from coterie.manifest import load_cloud_config
from coterie.manifest.schema.network import Network

Chosen = Mapping[str, str | None]
_APART = ("anti-affinity", "soft-anti-affinity", "host-affinity", "soft-affinity", "affinity")
_OURS = "# A deep check of this cloud made this deployment, and deletes it.\n"
_MANIFEST = (
    _OURS
    + """\
name: {name}
stemcells: [{{alias: one, name: {stemcell}, version: "{version}"}}]
instance_groups:
- name: vm
  instances: 2
  azs: [{az}]
  vm_type: {vm_type}
  stemcell: one
  networks: [{{name: {network}}}]
  persistent_disk: 1024
{placement}"""
)


def deep_check(session: Session, cloud: str | None, chosen: Chosen) -> int:
    """0 where every promise holds that could be tried."""
    if cloud is None:
        raise UsageError("a deep check is of which cloud?", remedy="coterie clouds check CLOUD --deep")
    name = f"deep-check-{cloud}"
    manifest = _manifest(session, cloud, name, chosen)
    interrupted = _is_left(session, name)
    first = (
        f"Delete {name}, which a check that was interrupted left, with its disks; then deploy"
        if interrupted
        else "Deploy"
    )
    session.confirm(f"{first} {name}, two VMs with a disk, in cloud {cloud}, and delete it afterwards?")
    if interrupted:
        session.say(f"{name} is there from a check that was interrupted: it is deleted first")
        left = _delete(session, name)
        if left:
            return left
    try:
        code, proofs = _try_out(session, cloud, name, manifest)
        if code in (INTERRUPTED, TIMED_OUT):
            _say_what_is_left(session, name)
            return code
        left = _delete(session, name)
    except (CoterieError, KeyboardInterrupt):
        _say_what_is_left(session, name)
        raise
    if session.json:
        session.data(as_json({"items": proofs, "next": None}))
    elif proofs:
        rows = [(one["what"], one["outcome"], one["detail"], one["remedy"]) for one in proofs]
        session.data(table(("WHAT", "OUTCOME", "DETAIL", "REMEDY"), rows, session.paint))
    return code or left


def _is_left(session: Session, name: str) -> bool:
    """Whether a deep check left its deployment. One of that name that a user made is not touched."""
    if name not in {one["name"] for one in session.client.deployments.list()}:
        return False
    if not session.client.deployments.manifest(name).startswith(_OURS):
        raise Conflict(
            f"there is a deployment {name}, which no deep check made",
            why="a deep check would deploy, and then delete, one of this name",
            remedy="name that deployment, or the cloud, otherwise",
        )
    return True


def _try_out(session: Session, cloud: str, name: str, manifest: str) -> tuple[int, list[dict[str, Any]]]:
    code = watch_quietly(session, session.client.deployments.deploy(name, manifest=manifest))
    if code:
        return code, []
    task = session.client.clouds.prove(cloud)
    code = watch_quietly(session, task)
    return code, [one["data"] for one in session.client.events.of_task(task) if _is_proof(one)]


def _say_what_is_left(session: Session, name: str) -> None:
    session.say(f"when its task has ended, remove it: coterie delete {name} --delete-disks")


def _is_proof(event: Mapping[str, Any]) -> bool:
    return str(event["kind"]).startswith("proof.")


def _delete(session: Session, name: str) -> int:
    return watch_quietly(session, session.client.deployments.delete(name, delete_disks=True))


def _manifest(session: Session, cloud: str, name: str, chosen: Chosen) -> str:
    able = session.client.clouds.check(cloud)["capabilities"] or {}
    config = load_cloud_config(session.client.cloud_config.get()["text"], "cloud config").value
    az = chosen["az"] or _first([one.name for one in config.azs if one.cloud == cloud], f"an az of cloud {cloud}")
    vm_type = chosen["vm_type"] or _first([one.name for one in config.vm_types], "a VM type")
    serving = [one.name for one in config.networks if _serves(one, az)]
    network = chosen["network"] or _first(serving, f"a network in az {az}")
    cells = [f"{one['name']}/{one['version']}" for one in session.client.stemcells.list()]
    stemcell, _, version = (chosen["stemcell"] or _first(cells[::-1], "a stemcell")).rpartition("/")
    offered = [one for one in _APART if one in able.get("policies", ())]
    policy = chosen["policy"] or next(iter(offered), None)
    placement = f"  placement: {{policy: {policy}}}\n" if policy else ""
    return _MANIFEST.format(
        name=name, stemcell=stemcell, version=version, az=az, vm_type=vm_type, network=network, placement=placement
    )


def _serves(network: Network, az: str) -> bool:
    """A network without subnets, and a subnet without azs, is for all."""
    azs = [{*subnet.azs, *([subnet.az] if subnet.az else ())} for subnet in network.subnets]
    return not azs or any(not one or az in one for one in azs)


def _first(names: list[str], what: str) -> str:
    if not names:
        raise NotFound(
            f"{what} is needed for a deep check", remedy="put it into the cloud config, or upload a stemcell"
        )
    return names[0]
