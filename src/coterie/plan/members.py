"""Numbers of the members of server groups: each member has its own within one az of a cloud, and keeps it for life.

A driver that chooses failure domains itself takes the number, so members come apart without a look at each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from coterie.manifest import AzSpec, InstanceGroupSpec
from coterie.plan.model import NodeNow, Snapshot

Place = tuple[str, str, str]  # server group, cloud, the cloud's own name of the az


class Members:
    """Give the numbers of one plan. Members that are there keep theirs; new ones get the lowest that is free."""

    def __init__(self, snapshot: Snapshot, group_specs: Sequence[InstanceGroupSpec]) -> None:
        self._clouds = snapshot.clouds
        self._numbers: dict[Place, set[int]] = defaultdict(set)
        self._free: dict[Place, Iterator[int]] = {}
        self._kept: dict[str, tuple[Place, int]] = {}
        self.counts: dict[Place, int] = defaultdict(int)
        specs = {spec.name: spec for spec in group_specs}
        for node in snapshot.nodes:
            spec = specs.get(node.instance_group)
            if spec is not None and node.index < spec.instances:
                self._keep(spec, node)

    def number(self, spec: InstanceGroupSpec, az: str, node: NodeNow | None) -> int | None:
        """The number of this node in this az; None: it is in no server group that has a policy."""
        place = self._place(spec, az)
        if place is None:
            return None
        self.counts[place] += 1
        kept = self._kept.get(node.uuid) if node else None
        if kept and kept[0] == place:
            return kept[1]
        number = next(self._free_numbers(place))
        self._numbers[place].add(number)
        return number

    def _free_numbers(self, place: Place) -> Iterator[int]:
        """One iterator for each place, which never looks back: none becomes free within a plan."""
        if place not in self._free:
            taken = self._numbers[place]
            self._free[place] = (number for number in count() if number not in taken)
        return self._free[place]

    def _keep(self, spec: InstanceGroupSpec, node: NodeNow) -> None:
        number, place = node.spec.member if node.spec else None, self._place(spec, node.az)
        if number is not None and place is not None and number not in self._numbers[place]:
            self._numbers[place].add(number)
            self._kept[node.uuid] = place, number

    def _place(self, spec: InstanceGroupSpec, name: str) -> Place | None:
        group, az = spec.server_group, next(_named(spec.azs, name), None)
        if group is None or group.policy is None or az is None:
            return None
        zone = self._clouds[az.cloud].capabilities.zone_of(az.name, az.cloud_properties)
        return group.name, az.cloud, zone


def _named(azs: Sequence[AzSpec], name: str) -> Iterator[AzSpec]:
    return (az for az in azs if az.name == name)
