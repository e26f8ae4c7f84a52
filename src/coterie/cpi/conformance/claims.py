"""Claims: what the driver declares and its bed offers. A test that needs more ends here, with the reason on record."""

from __future__ import annotations

from typing import NoReturn

import pytest

from coterie.cpi.conformance.bed import TestBed
from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.conformance.proof import Excuse

_MILD = ("soft-anti-affinity", "soft-affinity", "affinity")


class Claims:
    def __init__(self, bed: TestBed) -> None:
        self.bed = bed
        self.capabilities = bed.open().capabilities()
        self.az = bed.azs[0]
        self.excuse: Excuse | None = None
        self.refused: list[str] = []

    def needs(self, *methods: str) -> None:
        """Ends the test where the capabilities say that the vendor cannot."""
        for method in methods:
            reason = self.capabilities.unsupported.get(method)
            if reason:
                self._skip(Excuse(method, reason.why, reason.citation))

    @property
    def operator(self) -> Operator:
        return self.bed.operator or self._missing("operator")

    @property
    def faults(self) -> Faults:
        return self.bed.faults or self._missing("faults")

    def expire(self) -> None:
        end = self.faults.expire or self._missing("expire")
        end()

    @property
    def hosts(self) -> int:
        return self.bed.hosts or self._missing("hosts")

    @property
    def page_size(self) -> int:
        return self.bed.page_size or self._missing("page_size")

    def needs_security_groups(self) -> None:
        """Ends the test where the cloud has none, with the bed's reason."""
        if not self.has_security_groups:
            self._missing("security_groups")

    @property
    def has_security_groups(self) -> bool:
        """The bed may be of a release or a brand of the cloud that lacks what its driver can use elsewhere."""
        return "security_group" in self.capabilities.kinds and "security_groups" not in self.bed.limits

    def address(self, az: str | None = None) -> str:
        return self.bed.address(az or self.az) or self._missing("addresses")

    @property
    def policy(self) -> str:
        """The mildest policy that the driver declares."""
        declared = self.capabilities.policies
        return next((one for one in _MILD if one in declared), min(declared))

    def _missing(self, part: str) -> NoReturn:
        reason = self.bed.limits.get(part)
        self._skip(Excuse(part, reason.why, reason.citation) if reason else Excuse(part, "", ""))

    def _skip(self, excuse: Excuse) -> NoReturn:
        self.excuse = excuse
        pytest.skip(f"n/a: {excuse}")
