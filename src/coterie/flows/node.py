"""Nodes: made, made anew, changed in place, removed. One step is one node; its labels are the calls it takes.

A node's VM is always settled and removed before another is intended, so that no node ever has two.
"""

from __future__ import annotations

from typing import Any, ClassVar

from coterie.cpi.contract import VMCreationFailed
from coterie.engine.create_once import Landed, Lost, clear, close_failed, create_once
from coterie.engine.flow import Done, Flow, Move, Next, Wait, Work
from coterie.errors import CoterieError, NotFound
from coterie.flows.node_disk import DiskLabels, keep_disk, release_disk
from coterie.flows.node_up import vm_labels
from coterie.flows.node_vm import load, retire_vm, subject
from coterie.ledger.rows import groups, nodes, objects


class _MakesVm(DiskLabels):
    """The labels from an intent to a node that is up. data: wish, server_group (intent or null), reason."""

    def retire(self, work: Work) -> Move:
        return retire_vm(work) or Next("intend")

    def intend(self, work: Work) -> Move:
        node = subject(work)
        intent = work.ids.intent()
        work.write(
            objects.intend(
                intent, "vm", node.cloud, az=node.az, deployment=node.deployment, node=node.uuid, ref=node.name
            ),
            # The group is written with the intent: from now on there may be a VM in it.
            nodes.change(
                node.uuid,
                az=node.az,
                addresses=dict(node.addresses),
                vm_intent=intent,
                vm_cid=None,
                server_group=work.data.get("server_group"),
            ),
            *nodes.leave_addresses(work.data.pop("leaves", {})),
        )
        work.data.update(vm=intent, agent_id=work.ids.uuid())
        clear(work, intent)
        return Next("create_vm")

    def create_vm(self, work: Work) -> Move:
        arguments = self._arguments(work)
        if isinstance(arguments, Wait):
            return arguments
        done = create_once(work, "vm", work.data["vm"], lambda mark: work.cpi.create_vm(*arguments, mark=mark).cid)
        match done:
            case Landed(cid):
                work.data["cid"] = cid
                work.write(nodes.change(_uuid(work), vm_cid=cid))
                return Next("describe")
            case Lost():
                work.write(nodes.change(_uuid(work), vm_intent=None, server_group=None))
                return Next("intend")
        return done

    def describe(self, work: Work) -> Move:
        """Metadata and whatever follows may be repeated, so it needs no commit in between."""
        node = subject(work)
        labels = vm_labels(node, work.data["wish"], work.data["director"])
        work.cpi.set_vm_metadata(work.data["cid"], labels)
        if work.data["wish"]["disk"] is not None:
            return self.want_disk(work, node)
        doubt = keep_disk(work, "describe") if self.may_have_disk(work) else None
        return doubt or self.await_up(work)

    def may_have_disk(self, work: Work) -> bool:
        return True

    def failed(self, work: Work, error: CoterieError) -> None:
        if work.claim.label == "create_vm":
            close_failed(work, work.data["vm"])
            if work.data.get("clear") == [work.data["vm"], work.claim.epoch + 1]:
                work.write(nodes.change(_uuid(work), vm_intent=None, server_group=None))
        self.disk_failed(work)
        work.write(nodes.change(_uuid(work), state="failing", problem=error.facts()))

    def _arguments(self, work: Work) -> tuple[Any, ...] | Wait:
        wish = work.data["wish"]
        image = work.recall(("image", work.claim.cloud, wish["stemcell"]), lambda: _image(work, wish["stemcell"]))
        if image is None:
            return Wait(1.0, f"stemcell {wish['stemcell']} is not in {work.claim.cloud} yet")
        env = {**wish["env"], "bosh": {**wish["env"].get("bosh", {})}}
        if wish["user_data"]:
            env["user_data"] = wish["user_data"]
        group = work.data["server_group"]
        if group is not None:
            cid = work.recall(("group", group), lambda: _group_cid(work, group))
            if cid is None:
                return Wait(1.0, f"the server group of {work.claim.subject} is not in {work.claim.cloud} yet")
            env["bosh"]["server_group_cid"] = cid
        disks = _disks(work) if self.may_have_disk(work) else []
        return work.data["agent_id"], image, wish["vm"], wish["networks"], disks, env


class CreateNode(_MakesVm):
    """No undo: a node that fails half-way keeps what was made for a person to look at, and the next plan says
    what becomes of it; nothing of it is unknown to the ledger."""

    name: ClassVar[str] = "node.create"

    def begin(self, work: Work) -> Move:
        work.write(nodes.change(_uuid(work), state="changing", problem=None))
        return self.intend(work)

    def may_have_disk(self, work: Work) -> bool:
        """A new node has none, until this very step has made it."""
        return "disk" in work.data


class RecreateNode(_MakesVm):
    """Removes the old VM (its disk is kept), then makes a new one. No undo: the old VM cannot come back."""

    name: ClassVar[str] = "node.recreate"

    def begin(self, work: Work) -> Move:
        work.write(nodes.change(_uuid(work), state="changing", problem=None))
        work.say("node.recreating", work.data["reason"])
        return Next("retire")


class UpdateNode(_MakesVm):
    """Changes a node in place: its disk, its tags, its health check. Undone by another update."""

    name: ClassVar[str] = "node.update"

    def begin(self, work: Work) -> Move:
        node = load(work)
        work.data.update(cid=node.vm_cid, vm=node.vm_intent)
        work.write(nodes.change(node.uuid, state="changing", problem=None))
        return Next("regroup" if work.data.get("regrouped") else self._after(work))

    def regroup(self, work: Work) -> Move:
        """Repeatable by contract; where it fails the VM is still in its old group, and so says the ledger."""
        group = work.data["server_group"]
        cid = _group_cid(work, group) if group else None
        if group and cid is None:
            return Wait(1.0, f"the server group of {work.claim.subject} is not in {work.claim.cloud} yet")
        work.cpi.change_server_group(work.data["cid"], cid)
        work.write(nodes.change(_uuid(work), server_group=group))
        work.say("node.regrouped", f"in server group {cid}" if cid else "in no server group")
        return Next(self._after(work))

    def _after(self, work: Work) -> str:
        return "change_disk" if work.data["disk_changes"] else "describe"

    def replace_broken(self, work: Work, state: str) -> Move:
        raise VMCreationFailed(
            f"the VM of {work.claim.subject} is in state {state}", remedy="deploy again, which makes it anew"
        )


class DeleteNode(Flow):
    """Removes the VM, then keeps or deletes the disks, then forgets the node. No undo: it is what was asked for."""

    name: ClassVar[str] = "node.delete"

    def begin(self, work: Work) -> Move:
        work.write(nodes.change(_uuid(work), state="deleting", problem=None))
        return Next("retire")

    def retire(self, work: Work) -> Move:
        return retire_vm(work) or Next("release_disks")

    def release_disks(self, work: Work) -> Move:
        rest = release_disk(work)
        if rest is not None:
            return rest
        work.write(*nodes.forget(_uuid(work)))
        work.say("node.deleted", work.data["reason"])
        return Done()

    def failed(self, work: Work, error: CoterieError) -> None:
        work.write(nodes.change(_uuid(work), state="failing", problem=error.facts()))


def _uuid(work: Work) -> str:
    if work.claim.node is None:
        raise CoterieError(f"step {work.claim.id} names no node")
    return work.claim.node


def _image(work: Work, stemcell: str) -> str | None:
    with work.ledger.read() as tx:
        rows = [row for row in objects.images(tx, [stemcell]) if row.cloud == work.claim.cloud]
    if not rows:
        raise NotFound(f"stemcell {stemcell} is not in {work.claim.cloud}, nor on its way there", remedy="deploy again")
    return next((row.cid for row in rows if row.state == "live"), None)


def _group_cid(work: Work, intent: str) -> str | None:
    with work.ledger.read() as tx:
        group = groups.get(tx, intent)
    return group.cid if group else None


def _disks(work: Work) -> list[str]:
    with work.ledger.read() as tx:
        return [row.cid for row in objects.of_node(tx, _uuid(work)) if row.kind == "disk" and row.cid]
