"""Compares our mapping with answers recorded from a real Ironic, for a migration from there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.errors import UsageError
from coterie.ring.hash import IRONIC, ironic_settings
from coterie.ring.members import GROUPS_SINCE, Member
from coterie.ring.owner import Fleet
from coterie.ring.refusals import DriverUnserved, FleetEmpty, GroupUnserved

# As Ironic names them, with its HTTP status.
_ERRORS = {
    FleetEmpty: ("TemporaryFailure", 503),
    GroupUnserved: ("NoValidHost", 404),
    DriverUnserved: ("DriverNotFound", 404),
}


@dataclass(frozen=True, slots=True)
class Difference:
    fleet: str
    what: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Verdict:
    passed: int
    differences: tuple[Difference, ...]


def verify(document: Any) -> Verdict:
    """`document`: {defaults, fleets: [{fleet, rings, lookups}]}. Every ring's members and every look-up is compared."""
    passed, differences = 0, []
    try:
        for found in _all(document):
            if found is None:
                passed += 1
            else:
                differences.append(found)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(
            "the vectors are not in the format that can be verified",
            why=f"{type(error).__name__}: {error}",
            remedy="give a JSON object with `defaults` and `fleets`, each with `fleet`, `rings` and `lookups`",
        ) from error
    return Verdict(passed, tuple(differences))


def _all(document: Mapping[str, Any]) -> Iterator[Difference | None]:
    for case in document["fleets"]:
        judge = _FleetChecker(case["fleet"], document["defaults"])
        for key, expected in case["rings"].items():
            yield judge.compare(f"ring {key}", str(sorted(expected)), str(judge.members(key)))
        for lookup in case["lookups"]:
            yield judge.compare(_words(lookup), _expected_text(lookup["expect"]), judge.answer(lookup))


class _FleetChecker:
    """One recorded fleet, as a release with groups sees it and as one from before groups does."""

    def __init__(self, fleet: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self._name = fleet["name"]
        algorithm = _algorithm(self._name, {**defaults, **fleet.get("config", {})})
        self._fleets = {
            counted: Fleet(
                _members(fleet, defaults["heartbeat_timeout"], GROUPS_SINCE if counted else "0.0", algorithm)
            )
            for counted in (True, False)
        }

    def members(self, key: str) -> list[str]:
        return [member.name for member in self._fleets[True].keys().get(key, ())]

    def answer(self, lookup: Mapping[str, Any]) -> str:
        fleet = self._fleets[lookup["use_groups"]]
        table = fleet.table(lookup["group"], lookup["driver"])
        if not table.members:
            name, status = _ERRORS[type(fleet.refusal(lookup["group"], lookup["driver"]))]
            return f"{name} {status}"
        return fleet.owner(lookup["group"], lookup["driver"], lookup["uuid"]).name

    def compare(self, what: str, expected: str, found: str) -> Difference | None:
        return None if expected == found else Difference(self._name, what, expected, found)


def _algorithm(fleet: str, recorded: Mapping[str, Any]) -> str:
    """The setting `ring` that maps as a fleet with these settings of Ironic; refused where there is none."""
    exponent, digest = recorded["hash_partition_exponent"], recorded["hash_ring_algorithm"]
    algorithm = IRONIC if (exponent, digest) == (5, "md5") else f"{IRONIC}:{exponent}:{digest}"
    try:
        ironic_settings(algorithm)
        if recorded.get("replicas", 1) != 1:
            raise ValueError("must have one replica")
    except ValueError as error:
        raise UsageError(
            f"fleet {fleet} was recorded with settings that no ring of ours can have",
            why=f"hash_partition_exponent {exponent}, hash_ring_algorithm {digest}: the setting `ring` {error}",
            remedy="set these in Ironic, and record its answers again",
        ) from error
    return algorithm


def _members(fleet: Mapping[str, Any], timeout_s: float, speaks: str, algorithm: str) -> list[Member]:
    return [
        Member(one["host"], one["group"].lower(), frozenset(one["drivers"]), speaks, algorithm=algorithm)
        for one in fleet["conductors"]
        if one.get("online", True) and one.get("heartbeat_age", 0) < timeout_s
    ]


def _expected_text(expect: Mapping[str, Any]) -> str:
    return str(expect["host"]) if "host" in expect else f"{expect['error']} {expect['http']}"


def _words(lookup: Mapping[str, Any]) -> str:
    return f"{lookup['uuid']} in {lookup['group']!r} for {lookup['driver']!r}"
