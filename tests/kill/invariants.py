"""What must be true whenever nothing is under way: one VM for each wanted node, no disk lost, no object too many.

Every check yields what differs, in words; nothing is raised here, so that all differences are seen at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.kill.scenario import Phase
from tests.kill.truth import Book, Cloud, intent_of
from tests.kill.wanted import WantedNode, wanted_groups, wanted_guards, wanted_nodes


def violations(phase: Phase, before: Book | None, now: Book, cloud: Cloud) -> list[str]:
    """`before`: the ledger when the phase began."""
    return [
        *_at_rest(now),
        *_same_objects(now, cloud),
        *_same_nodes(phase, now),
        *_nodes(phase, now, cloud),
        *_groups(phase, now, cloud),
        *_addresses(now, cloud),
        *_kept_disks(phase, before, now, cloud),
    ]


def tasks_of(book: Book, since: int) -> list[str]:
    """How the tasks of this phase ended that had anything to do: a wish whose answer was lost is accepted twice."""
    busy = {step.task for step in book.steps}
    return [task.state for task in book.tasks if task.id > since and task.id in busy]


def _at_rest(now: Book) -> Iterator[str]:
    yield from (f"{row.kind} {row.intent} is {row.state}" for row in now.objects if row.state in _UNDECIDED)
    yield from (f"group {row.name} is {row.state}" for row in now.groups if row.state in ("intended", "deleting"))
    yield from (f"task {row.id} is {row.state}" for row in now.tasks if row.state in ("running", "cancelling"))
    yield from (f"step {row.id} ({row.subject}) is {row.state}" for row in now.steps if row.state in _OPEN_STEPS)
    yield from (f"stage {row.task}/{row.n} is {row.state}" for row in now.stages if row.state in ("blocked", "open"))


_UNDECIDED = ("intended", "unknown", "deleting")
_OPEN_STEPS = ("queued", "ready", "running")


def _same_objects(now: Book, cloud: Cloud) -> Iterator[str]:
    """The cloud holds exactly what the ledger says, mark by mark."""
    for kind, things in (("vm", cloud.vms), ("disk", cloud.disks), ("image", cloud.images)):
        yield from _doubled(f"{kind}s with one mark", map(intent_of, things))
        ledger = {row.intent: row.cid for row in now.of(kind, "live", "kept")}
        yield from _differ(f"{kind}s", ledger, {intent_of(thing): thing.id for thing in things})
    groups = {row.intent: row.cid for row in now.groups if row.state != "gone"}
    yield from _doubled("server groups with one mark", map(intent_of, cloud.groups))
    yield from _differ("server groups", groups, {intent_of(group): group.name for group in cloud.groups})


def _same_nodes(phase: Phase, now: Book) -> Iterator[str]:
    states = {f"{row.instance_group}/{row.index}": row.state for row in now.nodes}
    yield from _differ("nodes", dict.fromkeys(wanted_nodes(phase), "up"), states)


def _nodes(phase: Phase, now: Book, cloud: Cloud) -> Iterator[str]:
    vms = {vm.id: vm for vm in cloud.vms}
    owners = Counter(row.node for row in now.of("vm", "live"))
    for row in now.nodes:
        name = f"{row.instance_group}/{row.index}"
        wanted = wanted_nodes(phase).get(name)
        if owners[row.uuid] != 1 or row.vm_cid not in vms:
            yield f"{name} has {owners[row.uuid]} VMs; its own is {row.vm_cid}"
        elif wanted:
            yield from (f"{name}: {what}" for what in _node(wanted, row, vms[row.vm_cid], now, cloud))


def _node(wanted: WantedNode, row: Any, vm: Any, now: Book, cloud: Cloud) -> Iterator[str]:
    images = {image.cid: image.ref for image in now.of("image", "live")}
    groups = {group.intent: (group.name, group.cid) for group in now.groups}
    joined = {group.name for group in cloud.groups if group.id in vm.groups}
    disks = [disk for disk in cloud.disks if disk.id in vm.disks]
    name, cid = groups.get(row.server_group, (None, None))
    yield from _differ("state", {"": "running"}, {"": vm.state})
    yield from _differ("stemcell", {"": wanted.stemcell}, {"": images.get(vm.image)})
    yield from _differ("server group", {"": wanted.group}, {"": name})
    yield from _differ("membership", {"": {cid} - {None}}, {"": joined})
    yield from _differ("disks", {"": _disk(wanted)}, {"": [(disk.size_mb, disk.type) for disk in disks]})
    yield from _differ("disk rows", {"": {disk.id for disk in disks}}, {"": _disk_rows(row, wanted, now)})
    yield from _differ("guards", {"": wanted.guards}, {"": {cloud.guard_names[guard] for guard in vm.security_groups}})
    yield from _differ("tags", wanted.tags, {key: vm.tags.get(key) for key in wanted.tags})


def _disk(wanted: WantedNode) -> list[tuple[int, str]]:
    return [] if wanted.disk_mb is None else [(wanted.disk_mb, wanted.disk_type)]


def _disk_rows(row: Any, wanted: WantedNode, now: Book) -> set[str]:
    return {disk.cid for disk in now.of("disk", "live") if disk.node == row.uuid and disk.size_mb == wanted.disk_mb}


def _groups(phase: Phase, now: Book, cloud: Cloud) -> Iterator[str]:
    living = [row for row in now.groups if row.state != "gone"]
    yield from _doubled("rows of one server group", ((row.name, row.cloud) for row in living))
    yield from _differ("policies", wanted_groups(phase), {row.name: row.policy for row in living})
    by_cid = {row.cid: row for row in living}
    hosts = {vm.id: vm.host for vm in cloud.vms}
    for group in cloud.groups:
        row, members = by_cid.get(group.name), cloud.members[group.id]
        inside = {node.vm_cid for node in now.nodes if row and node.server_group == row.intent}
        yield from _differ(f"members of {group.name}", {"": inside}, {"": members})
        yield from _differ(f"policy of {group.name}", {"": row and row.policy}, {"": group.policy})
        if group.policy == "anti-affinity":
            yield from _doubled(f"hosts of strict group {group.name}", (hosts.get(vm) for vm in members))
    yield from _differ("security groups", {"": wanted_guards(phase)}, {"": {guard.name for guard in cloud.guards}})
    yield from _doubled("security groups of one name", (guard.name for guard in cloud.guards))


def _addresses(now: Book, cloud: Cloud) -> Iterator[str]:
    booked = {(row.network, row.ip): row.node for row in now.addresses}
    held = {(net, ip): row.uuid for row in now.nodes for net, ip in (row.addresses or {}).items()}
    yield from _differ("addresses", booked, held)
    vms = {row.vm_cid: row for row in now.nodes}
    for vm in cloud.vms:
        given = (vms[vm.id].addresses or {}) if vm.id in vms else {}
        present = {nic.label: nic.ip for nic in vm.nics if nic.label in given}
        yield from _differ(f"addresses of {vm.id}", given, present)


def _kept_disks(phase: Phase, before: Book | None, now: Book, cloud: Cloud) -> Iterator[str]:
    """A disk that was there is there still, unless its deletion was asked for."""
    attached = {disk.id for disk in cloud.disks if disk.vm}
    yield from (f"kept disk {row.cid} is attached" for row in now.of("disk", "kept") if row.cid in attached)
    if phase.ask == "delete":
        yield from (f"disk {disk.id} is left" for disk in cloud.disks)
    if before is None or phase.ask == "delete":
        return
    present = {disk.id for disk in cloud.disks}
    precious = ("live",) if phase.ask == "dispose" else ("live", "kept")
    yield from (
        f"disk {row.cid} of {row.ref} is lost" for row in before.of("disk", *precious) if row.cid not in present
    )


def _differ(what: str, wanted: dict[Any, Any], found: dict[Any, Any]) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys(), key=str):
        if wanted.get(key) != found.get(key):
            yield f"{what} {key}: should be {wanted.get(key)}, is {found.get(key)}".replace("  ", " ")


def _doubled(what: str, things: Iterable[Any]) -> Iterator[str]:
    yield from (f"{what}: {thing} {count} times" for thing, count in Counter(things).items() if count > 1)
