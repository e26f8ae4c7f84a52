"""Whether a stemcell could become a template: its words are known here, and the image can get where it must. Nothing is
registered to find out."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from coterie.cpi.contract import CheckItem, InvalidCall
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.publishing import reach
from coterie.cpi.drivers.cloudstack.refusals import cloud_call

_WHAT = "templates"


class TemplateChecks(Lookups):
    @cloud_call
    def template_check(self) -> CheckItem:
        self.os_type(None)
        self._require_hypervisor()
        return self._publishing() if self.settings.publish_mode == "server" else self._uploading()

    def _require_hypervisor(self) -> None:
        names = sorted(str(row["name"]) for row in self.remembered("listHypervisors"))
        if self.settings.hypervisor not in names:
            raise InvalidCall(
                f"there is no hypervisor {self.settings.hypervisor!r}",
                remedy=f"set properties.hypervisor to one of: {', '.join(names) or 'none is there'}",
            )

    def _publishing(self) -> CheckItem:
        """CloudStack's storage VMs refuse URLs that lead to themselves; whether they get there, only they know."""
        reach(self.settings)
        host = str(urlsplit(str(self.settings.publish_url)).hostname)
        try:
            address = ipaddress.ip_address(socket.gethostbyname(host))
        except OSError as error:
            return CheckItem(_WHAT, False, f"{host} has no address: {error}", "set publish_server.url to a known name")
        if address.is_loopback or address.is_link_local:
            remedy = "set publish_server.url to an address that CloudStack's storage VMs can reach"
            return CheckItem(_WHAT, False, f"CloudStack fetches nothing from {address}", remedy)
        return CheckItem(_WHAT, True, f"published at {host}, which answers here; storage VMs must reach it too")

    def _uploading(self) -> CheckItem:
        """Only administrators see storage VMs."""
        if not self.settings.host_visibility:
            return CheckItem(_WHAT, True, "uploaded to the storage VM, which only an administrator can look at before")
        rows = self.api.every("listSystemVms", systemvmtype="secondarystoragevm", state="Running")
        up = {row.get("zonename") for row in rows if row.get("agentstate") == "Up"}
        stores = {row.get("zonename") for row in self.api.every("listImageStores") if not row.get("readonly")}
        dark = sorted(str(zone["name"]) for zone in self.zones() if zone["name"] not in up & stores)
        if dark:
            remedy = "have an administrator look at the secondary storage and its system VM there"
            return CheckItem(_WHAT, False, f"no storage VM and image store take uploads in {', '.join(dark)}", remedy)
        return CheckItem(_WHAT, True, f"storage VMs take uploads in {', '.join(sorted(map(str, up)))}")
