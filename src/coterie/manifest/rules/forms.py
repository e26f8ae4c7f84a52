"""What is written for drivers, checked by the drivers' own forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import Forms, Place, PropertyMistake
from coterie.manifest.rules.pair import Pair
from coterie.manifest.rules.report import Report
from coterie.manifest.schema import SEALED, CloudConfig, InstanceGroup, Network
from coterie.manifest.space import azs_of
from coterie.manifest.tree import Loc

FormsOf = Callable[[str], Forms]  # driver → its forms; none for a driver that is not installed here
_Part = tuple[Loc, Mapping[str, Any]]  # the place of properties, and the properties


def check_forms(report: Report[CloudConfig], forms_of: FormsOf) -> None:
    """A cloud config by itself: its clouds wholly, all else key by key, since azs and types complete each other. What
    every az may use is checked only if there is one driver to read it."""
    config, checker = report.value, PropertyChecker(report, forms_of)
    for i, cloud in enumerate(config.clouds):
        if set(cloud.properties) != {SEALED}:
            where: Loc = ("clouds", i, "properties")
            for mistake in checker.missing(cloud.driver, "cloud", [(where, cloud.properties)]):
                report.add(where, f"{mistake.key} {mistake.what}", mistake.remedy)
    drivers = _drivers(config)
    for i, az in enumerate(config.azs):
        checker.check_keys(drivers.get(az.cloud), "vm", _part("azs", i, az))
    lone = next(iter(drivers.values())) if len(set(drivers.values())) == 1 else None
    for i, size in enumerate(config.vm_types):
        checker.check_keys(lone, "vm", _part("vm_types", i, size))
    for i, kind in enumerate(config.disk_types):
        checker.check_keys(lone, "disk", _part("disk_types", i, kind))
    for i, network in enumerate(config.networks):
        for part in (_part("networks", i, network), *_subnets(i, network)):
            checker.check_keys(lone, "network", part)


def check_used_properties(pair: Pair, forms_of: FormsOf) -> None:
    """What the nodes of each instance group are made from, put together as the driver will get it."""
    config, checker = pair.config.value, PropertyChecker(pair.config, forms_of)
    drivers = _drivers(config)
    azs = {az.name: _part("azs", i, az) for i, az in enumerate(config.azs)}
    sizes = {size.name: _part("vm_types", i, size) for i, size in enumerate(config.vm_types)}
    kinds = {kind.name: _part("disk_types", i, kind) for i, kind in enumerate(config.disk_types)}
    for loc, group in pair.groups():
        for az in (pair.azs[name] for name in group.azs if name in pair.azs):
            orders: list[tuple[Loc, Place, list[_Part]]] = []
            if group.vm_type in sizes:
                orders.append(((*loc, "vm_type"), "vm", [azs[az.name], sizes[group.vm_type]]))
            if group.persistent_disk_type in kinds:
                orders.append(((*loc, "persistent_disk_type"), "disk", [kinds[group.persistent_disk_type]]))
            orders += [((*loc, "networks", n), "network", parts) for n, parts in _network_parts(pair, group, az.name)]
            for where, place, parts in orders:
                for mistake in checker.missing(drivers.get(az.cloud), place, parts):
                    what = f"cloud_properties.{mistake.key} {mistake.what}, for az '{az.name}'"
                    pair.deployment.add(where, what, mistake.remedy)


class PropertyChecker:
    """Checks properties by the drivers' forms, each set once; a mistake is reported once, where it is written."""

    def __init__(self, report: Report[CloudConfig], forms_of: FormsOf) -> None:
        self._report = report
        self._forms_of = forms_of
        self._reported: set[Loc] = set()
        self._missing: dict[tuple[str, Place, tuple[Loc, ...]], list[PropertyMistake]] = {}

    def check_keys(self, driver: str | None, place: Place, part: _Part) -> None:
        """Each key of a part by itself."""
        form = self._forms_of(driver).get(place) if driver else None
        if driver and form:
            self._report_or_collect(driver, form.key_mistakes(part[1]), [part])

    def missing(self, driver: str | None, place: Place, parts: Sequence[_Part]) -> list[PropertyMistake]:
        """What parts that the driver gets as one leave out; of two that say the same, the later one counts."""
        form = self._forms_of(driver).get(place) if driver else None
        if driver is None or form is None:
            return []
        known = driver, place, tuple(loc for loc, _ in parts)
        if known not in self._missing:
            given = {key: value for _, part in parts for key, value in part.items()}
            self._missing[known] = self._report_or_collect(driver, form.mistakes(given), parts)
        return self._missing[known]

    def _report_or_collect(
        self, driver: str, mistakes: Sequence[PropertyMistake], parts: Sequence[_Part]
    ) -> list[PropertyMistake]:
        unplaced = []
        for mistake in mistakes:
            what = f"{mistake.what}, says driver '{driver}'"
            where = next(((*loc, mistake.key) for loc, part in reversed(parts) if mistake.key in part), None)
            if where is None:
                unplaced.append(PropertyMistake(mistake.key, what, mistake.remedy))
            elif where not in self._reported:
                self._reported.add(where)
                self._report.add(where, what, mistake.remedy)
        return unplaced


def _drivers(config: CloudConfig) -> dict[str, str]:
    return {cloud.name: cloud.driver for cloud in config.clouds}


def _part(section: str, index: int, entry: Any) -> _Part:
    return (section, index, "cloud_properties"), entry.cloud_properties


def _subnets(index: int, network: Network) -> list[_Part]:
    return [
        (("networks", index, "subnets", n, "cloud_properties"), subnet.cloud_properties)
        for n, subnet in enumerate(network.subnets)
    ]


def _network_parts(pair: Pair, group: InstanceGroup, az: str) -> Iterator[tuple[int, list[_Part]]]:
    """For each network of the group: the parts that are merged for the driver, for each subnet that serves the az."""
    for n, attached in enumerate(group.networks):
        if attached.name not in pair.networks:
            continue
        index, network = pair.networks[attached.name]
        whole = _part("networks", index, network)
        for subnet, part in zip(network.subnets, _subnets(index, network), strict=True):
            if az in (azs_of(subnet) or (az,)):
                yield n, [whole, part]
        if not network.subnets:
            yield n, [whole]
