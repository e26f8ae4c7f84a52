"""Whether the session may do what a manifest needs, object by object, before anything is created; and the role that
gives somebody the right to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.cpi.contract import CheckItem, CpiError
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.clusters import Clusters
from coterie.cpi.drivers.vsphere.privileges import Where, needed
from coterie.cpi.drivers.vsphere.refusals import cloud_call

ROLES: dict[Where, str] = {"root": "coterie-root", "datacenter": "coterie", "cluster": "coterie-groups"}


class Rights(Clusters):
    def rights(self, zones: tuple[str, ...], groups: bool) -> Iterator[CheckItem]:
        """One finding per object that lacks something, or one that says that nothing is lacking."""
        lacking = [item for where, wanted in needed(groups).items() for item in self._lacking(where, wanted, zones)]
        yield from lacking or [CheckItem("privileges", True, "all that this needs are granted")]

    @cloud_call
    def grant(self, user: str, *, groups: bool) -> list[str]:
        """Make or renew the roles, and give them to a user. Says what was done."""
        done = []
        wanted = needed(groups)
        for where, privileges in wanted.items():
            # the permission nearest to an object decides alone, so the cluster's role repeats the datacenter's
            full = sorted({*privileges, *(wanted["datacenter"] if where == "cluster" else ())})
            role = self._role(ROLES[where], full)
            for name, ref in self._objects(where, ()):
                self._give(user, role, ref, where != "root")
                done.append(f"{user} has role {ROLES[where]} on {name}")
        return done

    def _lacking(self, where: Where, wanted: tuple[str, ...], zones: tuple[str, ...]) -> Iterator[CheckItem]:
        objects = self._objects(where, zones)
        manager, session = self.link.content.authorizationManager, self.link.session_key
        answers = self.link.ask(manager.HasPrivilegeOnEntities, [ref for _, ref in objects], session, list(wanted))
        names = {ref: name for name, ref in objects}
        for answer in answers:
            missing = sorted(one.privId for one in answer.privAvailability if not one.isGranted)
            if missing:
                yield CheckItem(
                    f"privileges on {names.get(answer.entity, where)}",
                    False,
                    f"{self.settings.user} lacks {', '.join(missing)}",
                    f"`coterie clouds grant {self.cloud} --user {self.settings.user}` as an administrator",
                )

    def _objects(self, where: Where, zones: tuple[str, ...]) -> list[tuple[str, Any]]:
        """The objects, with names that people know. `zones` empty: all."""
        if where == "root":
            return [("the vCenter", self.link.content.rootFolder)]
        if where == "datacenter":
            return [(f"datacenter {self.datacenter.path}", self.datacenter.ref)]
        clusters = {zone.cluster._moId: zone for zone in self.zones().values() if not zones or zone.name in zones}
        return [(f"cluster {zone.cluster_name}", zone.cluster) for zone in clusters.values()]

    def _role(self, name: str, privileges: list[str]) -> int:
        """The id of the role, with exactly these privileges; read back, for a name is what we are sure of."""
        manager, found = self.link.content.authorizationManager, self._named(name)
        if found is None:
            self.link.change(manager.AddAuthorizationRole, name, privileges)
        else:
            self.link.change(manager.UpdateAuthorizationRole, found.roleId, name, privileges)
        made = self._named(name)
        if made is None:
            raise CpiError(f"role {name} was made and does not show", remedy="repeat", retryable=True)
        return int(made.roleId)

    def _named(self, name: str) -> Any | None:
        roles = self.reader.one(self.link.content.authorizationManager, "roleList").get("roleList") or ()
        return next((role for role in roles if role.name == name), None)

    def _give(self, user: str, role: int, ref: Any, propagate: bool) -> None:
        manager = self.link.content.authorizationManager
        permission = sdk.vim.AuthorizationManager.Permission(
            principal=user, group=False, propagate=propagate, roleId=role, entity=ref
        )
        self.link.change(manager.SetEntityPermissions, ref, [permission])
