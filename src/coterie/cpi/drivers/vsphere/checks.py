"""Whether this vCenter can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.cpi.contract import AuthenticationFailed, CheckItem, Needs
from coterie.cpi.drivers.vsphere.abilities import Abilities
from coterie.cpi.drivers.vsphere.group_checks import GroupChecks
from coterie.cpi.drivers.vsphere.group_spec import POLICIES
from coterie.cpi.drivers.vsphere.places import free_mb
from coterie.cpi.drivers.vsphere.properties import Settings
from coterie.cpi.drivers.vsphere.reading import Row
from coterie.cpi.drivers.vsphere.refusals import Refusal, cloud_call, told
from coterie.cpi.drivers.vsphere.rights import Rights
from coterie.cpi.kit.check_items import kind_items, policy_items

_STRICT = "anti-affinity:"


class Checks(Abilities, GroupChecks, Rights):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        try:
            self._zones = self.read_zones()
        except (Refusal, AuthenticationFailed) as error:
            problem = told(error) if isinstance(error, Refusal) else error
            if problem.retryable:
                raise problem from error
            return [CheckItem(problem.details.get("check", "credentials"), False, str(problem), problem.remedy)]
        hosts: dict[str, list[Row]] = {}
        for zone in self._zones.values():
            hosts.setdefault(zone.name, []).extend(self.hosts(zone))
        return [
            CheckItem("credentials", True, f"{self.settings.user} is logged in"),
            *_certificate(self.settings),
            _azs(needs, sorted(hosts)),
            _hosts(needs, hosts),
            *self.rights(needs.azs, bool(needs.policies or needs.groups)),
            *policy_items(needs, POLICIES),
            *self.group_items(needs),
            *kind_items(needs, self.capabilities().kinds),
            *self._stores(),
            *_strict(needs, hosts),
        ]

    def _stores(self) -> Iterator[CheckItem]:
        for zone in (self._zones or {}).values():
            if not self.stores([zone], self.settings.datastores):
                detail = f"no datastore of cluster {zone.cluster_name} matches properties.datastores"
                yield CheckItem(f"datastores {zone.name}", False, detail, "check the patterns and the datastores")


def _certificate(settings: Settings) -> Iterator[CheckItem]:
    if settings.insecure:
        detail = "not checked: properties.insecure is true, so anybody in between can read the password"
        yield CheckItem("certificate", True, detail, "give the vCenter's authority as properties.ca_cert instead")
    elif settings.url.startswith("https:"):
        yield CheckItem(
            "certificate",
            True,
            f"signed by {'properties.ca_cert' if settings.ca_cert else 'an authority of this system'}",
        )


def _azs(needs: Needs, names: list[str]) -> CheckItem:
    unknown = [az for az in needs.azs if az not in names]
    if unknown:
        return CheckItem("azs", False, f"no zone {', '.join(unknown)}", f"use one of: {', '.join(names)}")
    return CheckItem("azs", True, f"zones {', '.join(names)}", facts={"azs": names})


def _hosts(needs: Needs, hosts: dict[str, list[Row]]) -> CheckItem:
    dark = [az for az in needs.azs if not hosts.get(az)]
    up = [(name, row) for name, rows in hosts.items() for row in rows]
    detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(up)} hosts are up"
    remedy = "connect a host, or end its maintenance" if dark else ""
    return CheckItem("hosts", not dark, detail, remedy, {"hosts": [_fact(name, row) for name, row in up]})


def _fact(zone: str, row: Row) -> dict[str, Any]:
    return {
        "name": row.get("name"),
        "az": zone,
        "rack": None,
        "free_cpu": None,
        "free_ram_mb": free_mb(row),
    }


def _strict(needs: Needs, hosts: dict[str, list[Row]]) -> Iterator[CheckItem]:
    for key, count in needs.counts.items():
        if not key.startswith(_STRICT):
            continue
        up = len(hosts.get(key.removeprefix(_STRICT), []))
        detail = f"{count} members need {count} hosts in {key.removeprefix(_STRICT)}, {up} are up"
        remedy = "" if up >= count else "ask for fewer instances, add hosts, or use soft-anti-affinity"
        yield CheckItem(key, up >= count, detail, remedy)
