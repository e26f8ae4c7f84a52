"""The methods that no foreign CPI program has: each refuses with the reason that the capabilities declare."""

from __future__ import annotations

from typing import NoReturn

from coterie.cpi.contract import (
    CloudObject,
    Cpi,
    Expected,
    GroupMetadata,
    GroupView,
    Kind,
    Mark,
    Networks,
    NotSupported,
    Reason,
    SurveyPage,
)
from coterie.cpi.drivers.exec.limits import UNSUPPORTED


class RefusingCpi(Cpi):
    """Half a driver: what is missing is asked of the program."""

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        self._refuse("find")

    def vm_owner(self, vm_cid: str) -> str | None:
        self._refuse("vm_owner")

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        self._refuse("survey")

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self._refuse("delete_object")

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        self._refuse("create_server_group")

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self._refuse("update_server_group")

    def delete_server_group(self, cid: str) -> None:
        self._refuse("delete_server_group")

    def inspect_server_group(self, cid: str) -> GroupView:
        self._refuse("inspect_server_group")

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        self._refuse("configure_networks")

    def _refuse(self, method: str) -> NoReturn:
        raise refusal(self.cloud, method, UNSUPPORTED[method])


def refusal(cloud: str, method: str, reason: Reason) -> NotSupported:
    return NotSupported(
        f"cloud {cloud!r} cannot {method}",
        why=reason.why,
        remedy=f"use a driver that is not `exec` where this is needed ({reason.citation})",
    )
