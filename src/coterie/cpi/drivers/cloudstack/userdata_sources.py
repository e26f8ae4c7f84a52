"""Where a VM can read its userdata, found out from the networks that it is on."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.refusals import Refusal

_PATH = "/latest/user-data"
_DATA_SERVER = f"http://data-server.{_PATH}"
_CONFIG_DRIVE = "/cloudstack/userdata/user_data.txt"
_ROUTER, _DRIVE = "VirtualRouter", "ConfigDrive"


class UserdataSources(Lookups):
    def userdata_sources(self, networks: Sequence[Row]) -> list[dict[str, str]]:
        """Best first: by the name that routers answer to, at a router itself, wherever the address came from; or on
        a drive, where the network gives no userdata otherwise."""
        providers = {row["id"]: _provider(row) for row in networks}
        if networks and set(providers.values()) == {_DRIVE}:
            return [{"type": "config-drive", "path": _CONFIG_DRIVE}]
        routed = [row for row in networks if providers[row["id"]] != _DRIVE]
        addresses = [address for row in routed for address in [self._router(row)] if address]
        found = [{"type": "http", "url": _DATA_SERVER}]
        found += [{"type": "http", "url": f"http://{address}{_PATH}"} for address in addresses]
        found.append({"type": "dhcp-server", "path": _PATH})
        return [*found, {"type": "config-drive", "path": _CONFIG_DRIVE}] if len(routed) < len(networks) else found

    def _router(self, network: Row) -> str | None:
        """An isolated network's router is its gateway; which machine serves a shared one, administrators are told."""
        if network.get("type") == "Isolated":
            return network.get("gateway")
        if not self.settings.host_visibility:
            return None
        try:
            rows, _ = self.api.page("listRouters", 1, networkid=network["id"], listall=True)
        except Refusal:
            return None  # the VM still finds it: whoever gave it its address
        return next((str(row["guestipaddress"]) for row in rows if row.get("guestipaddress")), None)


def _provider(network: Row) -> str:
    for service in network.get("service") or ():
        if service.get("name") == "UserData":
            return next((str(one.get("name")) for one in service.get("provider") or ()), _ROUTER)
    return _ROUTER
