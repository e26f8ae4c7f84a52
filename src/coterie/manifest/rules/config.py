"""Rules inside a cloud config: names, clouds, drivers, azs. Those of subnets are in `subnets`."""

from __future__ import annotations

from collections.abc import Collection

from coterie.manifest.rules.conductor_groups import check_sealed
from coterie.manifest.rules.forms import FormsOf, check_forms
from coterie.manifest.rules.report import Report
from coterie.manifest.rules.subnets import check_networks
from coterie.manifest.schema import CloudConfig

_SECTIONS = {"clouds": "cloud", "azs": "az", "vm_types": "vm type", "disk_types": "disk type", "networks": "network"}


def check_config(
    report: Report[CloudConfig], drivers: Collection[str] | None = None, forms_of: FormsOf | None = None
) -> None:
    """`drivers`: the names that are installed; None leaves them unchecked. `forms_of`: what can be written for them."""
    for section, noun in _SECTIONS.items():
        entries = getattr(report.value, section)
        report.unique((((section, i, "name"), entry.name) for i, entry in enumerate(entries)), noun)
    _check_azs(report)
    _check_conductor_groups(report)
    if drivers is not None:
        _check_drivers(report, drivers)
    check_networks(report)
    if forms_of is not None:
        check_forms(report, forms_of)


def _check_azs(report: Report[CloudConfig]) -> None:
    known = {cloud.name: None for cloud in report.value.clouds}
    for i, az in enumerate(report.value.azs):
        if az.cloud not in known and report.names_all("clouds"):
            remedy = report.hints.remedy(az.cloud, known, "clouds")
            report.add(("azs", i, "cloud"), f"no cloud is named '{az.cloud}'", remedy)


def _check_conductor_groups(report: Report[CloudConfig]) -> None:
    clouds = {cloud.name: cloud for cloud in reversed(report.value.clouds)}
    for i, cloud in enumerate(report.value.clouds):
        own = (("clouds", i, "conductor_group"), cloud.conductor_group.lower())
        others = [
            (("clouds", i, "other_conductor_groups", n), group.lower())
            for n, group in enumerate(cloud.other_conductor_groups)
        ]
        report.unique([own, *others], "conductor group")
    for i, az in enumerate(report.value.azs):
        if az.conductor_group is not None and az.cloud in clouds:
            check_sealed(report, ("azs", i, "conductor_group"), az.conductor_group, clouds[az.cloud])


def _check_drivers(report: Report[CloudConfig], drivers: Collection[str]) -> None:
    for i, cloud in enumerate(report.value.clouds):
        if cloud.driver not in drivers:
            remedy = report.hints.remedy(cloud.driver, drivers, "installed drivers")
            report.add(("clouds", i, "driver"), f"no driver is named '{cloud.driver}'", remedy)
