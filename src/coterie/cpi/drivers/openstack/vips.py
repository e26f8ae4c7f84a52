"""Floating addresses of VMs. One that the project does not have yet is taken, and given back only if we took it."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CpiError, InvalidCall, Mark
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.marking import description, mark_of_description
from coterie.cpi.drivers.openstack.nics import Vip
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal


class Vips(Lookups):
    def claim(self, vip: Vip, port: Row, mark: Mark) -> Row:
        """The address, if it is free for this port; taken now, if the project has it not."""
        row = self._floating(vip.ip) or self._taken(vip, mark)
        if row.get("port_id") not in (None, port["id"]):
            raise CpiError(
                f"networks.{vip.label}.ip {vip.ip} leads to another port",
                why=f"port {row['port_id']}, address {row.get('fixed_ip_address')}",
                remedy="delete what has it, or use another address",
            )
        return row

    def map(self, row: Row, port: Row) -> None:
        """The address leads to the port when this returns."""
        if row.get("port_id") != port["id"]:
            self._change(row, {"port_id": port["id"]})

    def unmap(self, ports: Sequence[Row]) -> None:
        """No floating address leads to these ports any more; those that we took for them are given back."""
        for port in ports:
            for row in list(self.rows("ip", port_id=port["id"])):
                if row.get("port_id") != port["id"]:
                    continue
                if self.our_ip(row):
                    self.give_back(row)
                else:
                    self._change(row, {"port_id": None})

    def drop_ips(self, mark: Mark) -> None:
        for row in self.marked("ip", mark):
            self.give_back(row)

    def give_back(self, row: Row) -> None:
        try:
            self.api.send(
                "DELETE", f"release address {row['floating_ip_address']}", "network", f"/floatingips/{row['id']}"
            )
        except Refusal as error:
            if error.status != MISSING:
                raise

    def our_ip(self, row: Row) -> bool:
        mark = mark_of_description(row.get("description"))
        return mark is not None and mark.director == self.runtime.director_uuid

    def _floating(self, ip: str) -> Row | None:
        rows = self.rows("ip", floating_ip_address=ip, project_id=self.api.project)
        return next((row for row in rows if row["floating_ip_address"] == ip), None)

    def _taken(self, vip: Vip, mark: Mark) -> Row:
        """Which address it is, only administrators may choose; Neutron gives each address once."""
        body = {
            "floating_network_id": self._external(vip)["id"],
            "floating_ip_address": vip.ip,
            "description": description(mark),
        }
        try:
            return self.made("ip", mark, body)
        except Refusal as error:
            found = self._floating(vip.ip)
            if found:
                return found
            raise CpiError(
                f"networks.{vip.label}.ip {vip.ip} is not a floating address of this project",
                why=error.text,
                remedy="allocate it to the project first; only administrators may choose an address",
            ) from error

    def _external(self, vip: Vip) -> Row:
        name = vip.network or self.settings.external_network
        if name:
            return self.network(name)
        rows = self.remembered("external", lambda: list(self.rows("network", **{"router:external": True})))
        if len(rows) == 1:
            return rows[0]
        raise InvalidCall(
            f"{len(rows)} external networks could be meant",
            remedy="set properties.external_network, or name in the vip network's cloud_properties",
        )

    def _change(self, row: Row, change: Row) -> None:
        self.api.send(
            "PUT",
            f"change address {row['floating_ip_address']}",
            "network",
            f"/floatingips/{row['id']}",
            {"floatingip": change},
        )
