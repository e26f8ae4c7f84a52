"""Whether this cluster can do what a manifest needs: rights, members, cluster groups, quotas of the project, names that
are taken, disks that hold their machines. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from coterie.cpi.contract import CheckItem, CpiError, Needs, Unavailable
from coterie.cpi.drivers.incus.client import Client, Row
from coterie.cpi.drivers.incus.disks import Disks
from coterie.cpi.drivers.incus.machines import disks_of
from coterie.cpi.drivers.incus.placement import Members
from coterie.cpi.drivers.incus.properties import MACHINE
from coterie.cpi.drivers.incus.server_groups import Groups, profile_of
from coterie.cpi.kit.check_items import need_items, quota_item, run_check
from coterie.cpi.kit.quotas import Quotas, az_item, host, host_items, quota
from coterie.slotted import dataclass

_RESOURCES = {"vm": "instances"}
_NAMES = {"incus": "Incus", "lxd": "LXD"}


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    members: Members
    groups: Groups
    disks: Disks
    kinds: Collection[str]

    def run(self, needs: Needs) -> list[CheckItem]:
        rights = run_check("rights", self._rights)
        if not rights.ok:
            return [rights]
        return [
            rights,
            run_check("storage", self._storage),
            *self._machines(),
            run_check("azs", lambda: self._azs(needs)),
            *self._hosts(needs),
            run_check("quotas", lambda: self._quotas(needs)),
            *need_items(needs, self.client.settings.policies, self.kinds, self.groups.server, self.groups.refuse),
            *self._pinned(needs),
        ]

    def identity(self) -> str:
        """Members share the certificate of their cluster. `incus cluster update-certificate` makes another cloud of it,
        which an operator then pins anew."""
        environment = self.members.server()["environment"]
        return f"project {self.client.settings.project} of cluster {environment['certificate_fingerprint']}"

    def _rights(self) -> CheckItem:
        server = self.members.server()
        if server.get("auth") != "trusted":
            remedy = "have Incus trust properties.client_cert, or give a trust_token"
            return CheckItem("rights", False, "Incus does not trust the client certificate", remedy)
        self._project()
        version = server["environment"].get("server_version")
        name = _NAMES.get(self.members.brand(), "Incus")
        return CheckItem("rights", True, f"{name} {version}, project {self.client.settings.project}")

    def _project(self) -> Row:
        name = self.client.settings.project
        row: Row | None = self.client.ask(f"read project {name}", f"/projects/{name}")
        if row is None:
            raise CpiError(f"there is no project {name!r}", remedy="create it, or correct properties.project")
        return row

    def _storage(self) -> CheckItem:
        name = self.client.settings.storage_pool
        row = self.client.ask(f"read storage pool {name}", f"/storage-pools/{name}")
        if row is None:
            remedy = f"set properties.storage_pool to one of: {', '.join(self.disks.pools()) or 'none is there'}"
            return CheckItem("storage", False, f"there is no storage pool {name!r}", remedy)
        detail = f"storage pool {name} ({row['driver']})"
        if row["driver"] == "dir":
            detail += ": it enforces no sizes unless its file system has project quotas"
        return CheckItem("storage", True, detail)

    def _machines(self) -> Iterator[CheckItem]:
        """Where VMs are to be virtual machines, whether any member runs these."""
        if self.client.settings.default_type == MACHINE:
            yield run_check("virtual machines", self._run_machines)

    def _run_machines(self) -> CheckItem:
        names = [str(row["server_name"]) for row in self.members.rows() if row["status"] == "Online"]
        able = [name for name in names if self.members.can_run(name, MACHINE)]
        if able:
            return CheckItem("virtual machines", True, f"run on {', '.join(able)}")
        remedy = "install QEMU on members with KVM and vhost_vsock, or set properties.default_type to container"
        return CheckItem("virtual machines", False, "no member that answers runs virtual machines", remedy)

    def _azs(self, needs: Needs) -> CheckItem:
        groups = self.members.groups()
        if not groups and not needs.azs:
            return CheckItem("azs", True, "one server without a cluster")
        return az_item(needs, sorted(groups), self.client.settings.default_cluster_group, "cluster group")

    def _hosts(self, needs: Needs) -> list[CheckItem]:
        """A member counts in each of its cluster groups; only members that answer count."""
        try:
            found = []
            for row in self.members.rows():
                name = str(row["server_name"])
                with suppress(Unavailable):  # one that was back just now may not answer yet
                    cpu, memory = self.members.size(name) if row["status"] == "Online" else (0, 0)
                    groups = (row.get("groups") or [None]) if cpu else []
                    found += [host(name, group, None, cpu, memory) for group in groups]
            return host_items(needs, found, strict=True)
        except CpiError as error:
            return [CheckItem("hosts", False, str(error), error.remedy)]

    def _quotas(self, needs: Needs) -> CheckItem:
        limit = self._project()["config"].get("limits.instances")
        used = len(self.client.ask("count instances", "/instances") or ())
        facts: Quotas = {"instances": quota(limit, used)}
        return quota_item(needs, facts, _RESOURCES, "delete some, or have limits.instances of the project raised")

    def _pinned(self, needs: Needs) -> Iterator[CheckItem]:
        """Which machines of a living group stay where they are because a disk of a local pool is there."""
        for group in needs.groups:
            rows = self.groups.profiles.instances(profile_of(str(group["cid"]))) if group.get("cid") else []
            pinned = [f"{row['name']} to {row['location']}" for row in rows if disks_of(row)]
            if pinned:
                yield CheckItem(f"disks of {group.get('name')}", True, f"their disks pin {', '.join(pinned)}")
