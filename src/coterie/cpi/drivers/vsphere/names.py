"""Names that a group needs: free for it to take, or an administrator's that it is tied to. Looked at beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, NameTaken
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.group_spec import GroupSpec, wanted_name
from coterie.cpi.drivers.vsphere.holders import Holder, Holders


class Names(Holders):
    def require_free_name(self, options: Mapping[str, Any], spec: GroupSpec, views: dict[str, ClusterView]) -> None:
        """For a group that is not there yet."""
        wanted = wanted_name(options)
        ours = self.holders(self.runtime.director_uuid) if "vm_group" in options else ()
        other = next((one for one in ours if one.spec.name == spec.name), None)
        if other is not None:
            raise NameTaken(f"our server group {other.cid} has the name {spec.name!r}", remedy="use another vm_group")
        for view in views.values() if wanted else ():
            _require_unused(str(wanted), view)

    def require_free_rule(self, holder: Holder, spec: GroupSpec, views: dict[str, ClusterView]) -> None:
        """For a group that is to be tied to hosts only now: a rule of that name cannot be ours."""
        if holder.spec.host_group or not spec.host_group or holder.cid in spec.name:
            return
        for view in views.values():
            _require_no_rule(view, spec.host_rule)


def require_host_group(spec: GroupSpec, views: dict[str, ClusterView]) -> None:
    if spec.host_group and not any(view.host_group(spec.host_group) for view in views.values()):
        known = sorted({group.name for view in views.values() for group in view.groups.values() if group.of_hosts})
        raise InvalidCall(
            f"there is no DRS host group {spec.host_group!r}",
            remedy=f"use one of: {', '.join(known)}" if known else "have the administrator make one",
        )


def _require_unused(name: str, view: ClusterView) -> None:
    if name in view.groups:
        raise NameTaken(
            f"cluster {view.name} has a DRS group {name!r} that is not ours",
            remedy="use another name, or say placement.adopt: true to use the operator's group",
        )
    _require_no_rule(view, name, GroupSpec(None, name).host_rule)


def _require_no_rule(view: ClusterView, *names: str) -> None:
    rule = next((one for one in names if one in view.rules), None)
    if rule is not None:
        raise NameTaken(f"cluster {view.name} has a DRS rule {rule!r} that is not ours", remedy="use another name")
