"""Deep check of a cloud: each promise is tried on a deployment that was made for nothing else, and told as an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.cpi.contract import CpiError, GroupView, Kind, NotSupported, PrivilegeMissing, Proof, Trial
from coterie.engine.flow import Done, Fail, Flow, Move, Next, Work
from coterie.errors import CoterieError, NotFound
from coterie.ledger.rows import groups, nodes, objects

_TRIES = 3  # of one promise, while the cloud has passing trouble


@dataclass(frozen=True, slots=True)
class Prove:
    """Each promise is tried again after a kill. There is nothing to undo: the deployment is deleted afterwards."""

    deployment: str


@dataclass(slots=True)
class ProveProgress:
    left: list[str] = field(default_factory=list)
    failed: int = 0


ProveWork = Work[Prove, ProveProgress]


def _begin(work: ProveWork) -> Move:
    work.progress.left = [*_PROOFS, *work.cpi.proofs()]
    return Next("prove")


def _prove(work: ProveWork) -> Move:
    progress = work.progress
    if not progress.left:
        return Done() if not progress.failed else Fail(_failure(progress.failed))
    what, *progress.left = progress.left
    proof = _try(work, what)
    remedy = f"; remedy: {proof.remedy}" if proof.remedy else ""
    facts = {"what": what, "outcome": proof.outcome, "detail": proof.detail, "remedy": proof.remedy}
    work.say(f"proof.{_KINDS[proof.outcome]}", f"{what}: {proof.outcome}, {proof.detail}{remedy}", **facts)
    progress.failed += proof.outcome == "failed"
    return Next("prove")


def _try(work: ProveWork, what: str) -> Proof:
    try:
        trial = _read_trial(work)
        return _PROOFS[what](work, trial) if what in _PROOFS else work.cpi.prove(what, trial)
    except (NotSupported, PrivilegeMissing) as error:
        return Proof("not possible", error.what, error.remedy)
    except CpiError as error:
        if error.retryable and work.claim.attempt + 1 < _TRIES:
            raise
        return Proof("failed", f"{error.what}{': ' if error.why else ''}{error.why}", error.remedy)


def _failure(failed: int) -> CoterieError:
    return CoterieError(
        f"{failed} promises do not hold in this cloud",
        why="each is told above, with its remedy",
        remedy="mend the cloud and check again; if it is the driver, report it with what is told above",
    )


def _read_trial(work: ProveWork) -> Trial:
    with work.ledger.read() as tx:
        members = [one for one in nodes.of_deployment(tx, work.params.deployment) if one.vm_cid]
        present = [one for one in groups.of_deployment(tx, work.params.deployment) if one.cid]
        disks = [row for one in members[:1] for row in objects.of_node(tx, one.uuid) if row.kind == "disk"]
        stemcell = (members[0].spec or {}).get("stemcell") if members else None
        images = [row for row in objects.images(tx, [stemcell] if stemcell else []) if row.cloud == work.cloud]
    if not members or not images:
        raise NotFound(f"deployment {work.params.deployment} has no VMs to try anything on", remedy="check again")
    vms = tuple(str(one.vm_cid) for one in members)
    group, disk = next((one.cid for one in present), None), next((one.cid for one in disks), None)
    return Trial(vms, group, disk, next((str(one.cid) for one in images if one.state == "live"), ""))


# -- what is tried in every cloud --


def _prove_members(work: ProveWork, trial: Trial) -> Proof:
    view = _inspect(work, trial)
    if view is None:
        return _no_group()
    inside = {one.vm_cid for one in view.members}
    if view.state != "live" or not inside >= set(trial.vms):
        notes = "; ".join(view.notes)
        return Proof(
            "failed", f"it is {view.state} with {len(inside)} of {len(trial.vms)} VMs; {notes}", "see the notes"
        )
    return Proof("ok", f"{len(inside)} VMs are in it, it promises {view.policy}")


def _prove_placement(work: ProveWork, trial: Trial) -> Proof:
    view = _inspect(work, trial)
    if view is None:
        return _no_group()
    places = {one.vm_cid: one.host or one.domain for one in view.members if one.vm_cid in trial.vms}
    known = [place for place in places.values() if place]
    if len(known) < len(trial.vms):
        return Proof("not possible", "the cloud does not tell on which host each VM is")
    together = len(set(known)) < len(known)
    if (view.policy == "anti-affinity" and together) or (view.policy == "affinity" and len(set(known)) > 1):
        where = ", ".join(f"{cid} on {place}" for cid, place in sorted(places.items()))
        return Proof("failed", f"{view.policy} is not kept: {where}", "look at what the cloud's scheduler says")
    return Proof("ok", f"{view.policy}: {', '.join(sorted(set(known)))}")


def _prove_survey(work: ProveWork, trial: Trial) -> Proof:
    wanted: dict[Kind, tuple[str | None, ...]] = {
        "vm": trial.vms,
        "disk": (trial.disk,),
        "server_group": (trial.server_group,),
    }
    for kind, cids in wanted.items():
        listed, complete = _survey(work, kind) if any(cids) else (set(), True)
        missing = [cid for cid in cids if cid and cid not in listed]
        if missing or not complete:
            why = f"does not list {', '.join(missing)}" if missing else "is not complete"
            return Proof("failed", f"the survey of kind {kind} {why}", "cleanup cannot be relied on here; report it")
    return Proof("ok", "all that was made is listed with its mark")


def _prove_disk(work: ProveWork, trial: Trial) -> Proof:
    vm, disk = trial.vms[0], trial.disk
    if disk is None:
        return Proof("not possible", "the deployment has no disk")
    work.cpi.attach_disk(vm, disk)
    if not _has(work, vm, disk):
        return Proof("failed", f"disk {disk} was attached and is not listed on VM {vm}")
    work.cpi.detach_disk(vm, disk)
    if _has(work, vm, disk) or not work.cpi.has_disk(disk):
        return Proof("failed", f"disk {disk} was detached, and is still listed on VM {vm} or gone")
    work.cpi.attach_disk(vm, disk)
    return Proof("ok", "it was detached from a running VM and attached again")


def _prove_move(work: ProveWork, trial: Trial) -> Proof:
    if trial.server_group is None:
        return _no_group()
    if not work.cpi.capabilities().moves_members:
        return Proof("not possible", "VMs of this cloud keep their server group for life")
    vm, group = trial.vms[-1], trial.server_group
    work.cpi.change_server_group(vm, None)
    left = vm not in {one.vm_cid for one in work.cpi.inspect_server_group(group).members}
    work.cpi.change_server_group(vm, group)
    back = vm in {one.vm_cid for one in work.cpi.inspect_server_group(group).members}
    if not (left and back):
        return Proof("failed", f"VM {vm} {'did not come back' if left else 'did not leave'}")
    return Proof("ok", "a running VM left the group and joined it again")


def _inspect(work: ProveWork, trial: Trial) -> GroupView | None:
    return work.cpi.inspect_server_group(trial.server_group) if trial.server_group else None


def _no_group() -> Proof:
    return Proof("not possible", "the deployment has no server group", "give a policy that the cloud offers")


def _has(work: ProveWork, vm: str, disk: str) -> bool:
    return disk.partition("@")[0] in {one.partition("@")[0] for one in work.cpi.get_disks(vm)}


def _survey(work: ProveWork, kind: Kind) -> tuple[set[str], bool]:
    found, cursor = set[str](), None
    while True:
        page = work.cpi.survey(kind, work.director_uuid, cursor)
        found |= {one.cid for one in page.objects if one.mark}
        if not page.complete or page.next is None:
            return found, page.complete
        cursor = page.next


_PROOFS: dict[str, Callable[[ProveWork, Trial], Proof]] = {
    "members of the server group": _prove_members,
    "placement": _prove_placement,
    "survey": _prove_survey,
    "disk": _prove_disk,
    "living VMs change their server group": _prove_move,
}
_KINDS = {"ok": "ok", "failed": "failed", "not possible": "impossible"}
PROVE = Flow("cloud.prove", Prove, ProveProgress, {"begin": _begin, "prove": _prove})
