"""A manifest beside the cloud config it uses: names looked up once, for all cross rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Az, CloudConfig, Deployment, GroupNetwork, InstanceGroup, Network
from coterie.manifest.space import NetworkSpace, network_space
from coterie.manifest.tree import Loc

T = TypeVar("T")
_DECISIVE = ("range", "reserved", "static", "az", "azs")


class Pair:
    def __init__(self, deployment: Report[Deployment], config: Report[CloudConfig]) -> None:
        self.deployment = deployment
        self.config = config
        self._spaces: dict[str, NetworkSpace] = {}
        self._sound: dict[str, bool] = {}

    @cached_property
    def azs(self) -> dict[str, Az]:
        return _by_name(self.config.value.azs, lambda az: az.name)

    @cached_property
    def networks(self) -> dict[str, tuple[int, Network]]:
        return _by_name(tuple(enumerate(self.config.value.networks)), lambda entry: entry[1].name)

    def groups(self) -> Iterator[tuple[Loc, InstanceGroup]]:
        for i, group in enumerate(self.deployment.value.instance_groups):
            yield ("instance_groups", i), group

    def attachments(self) -> Iterator[tuple[Loc, InstanceGroup, GroupNetwork, Network]]:
        """Each network of each instance group that exists and whose definition is whole."""
        for loc, group in self.groups():
            for n, attached in enumerate(group.networks):
                entry = self.networks.get(attached.name)
                if entry and self._whole(*entry):
                    yield (*loc, "networks", n), group, attached, entry[1]

    def _whole(self, index: int, network: Network) -> bool:
        """Whether all that decides about addresses is as the user wrote it."""
        loc: Loc = ("networks", index)
        if network.name not in self._sound:
            within = [(*loc, "subnets", n, field) for n in range(len(network.subnets)) for field in _DECISIVE]
            self._sound[network.name] = self.config.sound((*loc, "name"), (*loc, "type"), *within)
        return self._sound[network.name]

    def space(self, network: Network) -> NetworkSpace:
        if network.name not in self._spaces:
            self._spaces[network.name] = network_space(network)
        return self._spaces[network.name]


def _by_name(entries: tuple[T, ...], name: Callable[[T], str]) -> dict[str, T]:
    """By name; the first of two with one name counts."""
    found: dict[str, T] = {}
    for entry in entries:
        found.setdefault(name(entry), entry)
    return found
