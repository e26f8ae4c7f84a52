"""Rules inside a manifest. Those about server groups and security groups are in files of their own."""

from __future__ import annotations

from coterie.manifest.rules.health import check_health
from coterie.manifest.rules.migration import check_migration
from coterie.manifest.rules.report import Report
from coterie.manifest.rules.security import check_security
from coterie.manifest.rules.sharing import check_sharing
from coterie.manifest.schema import Deployment, InstanceGroup
from coterie.manifest.tree import Loc

MAX_NODES = 100_000  # in one deployment: a plan of so many takes ten seconds of computing and a gigabyte of memory


def check_deployment(report: Report[Deployment]) -> None:
    wanted = report.value
    named = ((("instance_groups", i, "name"), group.name) for i, group in enumerate(wanted.instance_groups))
    report.unique(named, "instance group")
    _check_stemcells(report)
    aliases = {stemcell.alias: None for stemcell in wanted.stemcells}
    for i, group in enumerate(wanted.instance_groups):
        _check_group(report, group, ("instance_groups", i), aliases)
    _check_count(report)
    check_migration(report)
    check_security(report)
    check_sharing(report)


def _check_count(report: Report[Deployment]) -> None:
    """At the instance group with which there are too many."""
    total = 0
    for i, group in enumerate(report.value.instance_groups):
        total += group.instances
        if total > MAX_NODES:
            what = f"the instance groups have {total} nodes up to this one; a deployment may have {MAX_NODES}"
            report.add(("instance_groups", i, "instances"), what, "use fewer, or several deployments")
            return


def _check_stemcells(report: Report[Deployment]) -> None:
    stemcells = report.value.stemcells
    report.unique(((("stemcells", i, "alias"), stemcell.alias) for i, stemcell in enumerate(stemcells)), "alias")
    for i, stemcell in enumerate(stemcells):
        loc: Loc = ("stemcells", i)
        if stemcell.name and stemcell.os:
            report.add((*loc, "os"), "a stemcell has both 'name' and 'os'", "keep one of the two")
        if not stemcell.name and not stemcell.os:
            what = "a stemcell has neither 'name' nor 'os'"
            report.add((*loc, "name"), what, "add name, as in name: debian-12", (*loc, "os"))


def _check_group(report: Report[Deployment], group: InstanceGroup, loc: Loc, aliases: dict[str, None]) -> None:
    report.unique((((*loc, "azs", n), az) for n, az in enumerate(group.azs)), "az")
    if group.stemcell not in aliases and report.names_all("stemcells"):
        remedy = report.hints.remedy(group.stemcell, aliases, "aliases of stemcells")
        report.add((*loc, "stemcell"), f"no stemcell has the alias '{group.stemcell}'", remedy)
    if group.persistent_disk is not None and group.persistent_disk_type is not None:
        what = "an instance group has both 'persistent_disk' and 'persistent_disk_type'"
        report.add((*loc, "persistent_disk_type"), what, "keep one of the two")
    if group.disk_from is not None and not group.persistent_disk and group.persistent_disk_type is None:
        what = "an instance group has 'disk_from' but no persistent disk"
        report.add((*loc, "disk_from"), what, "give persistent_disk or persistent_disk_type, or remove it")
    _check_networks(report, group, loc)
    _check_env(report, group, loc)
    check_health(report, group.health, (*loc, "health"))


def _check_networks(report: Report[Deployment], group: InstanceGroup, loc: Loc) -> None:
    places = [((*loc, "networks", n), network) for n, network in enumerate(group.networks)]
    report.unique((((*place, "name"), network.name) for place, network in places), "network")
    defaults = (((*place, "default", n), word) for place, net in places for n, word in enumerate(net.default))
    report.unique(defaults, "default")


def _check_env(report: Report[Deployment], group: InstanceGroup, loc: Loc) -> None:
    bosh = group.env.get("bosh")
    if isinstance(bosh, dict) and "server_group_cid" in bosh:
        place = (*loc, "env", "bosh", "server_group_cid")
        report.add(place, "the server group of a VM is chosen by Coterie", "remove it, and use 'placement'")
