"""Where each service is, and in which microversion it is spoken to: the newest that it and we know."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.openstack.properties import Settings

Version = tuple[int, int]
# service → its major version, and the microversions that this driver was written for (None: it has none)
_KNOWN: dict[str, tuple[str, tuple[Version, Version] | None]] = {
    "compute": ("2", ((2, 79), (2, 93))),
    "block-storage": ("3", ((3, 22), (3, 70))),
    "network": ("2", None),
    "image": ("2", None),
}
_HEADER = {"compute": "compute", "block-storage": "volume"}


class Catalogue:
    def __init__(self, settings: Settings, session: Any) -> None:
        self._settings = settings
        self._session = session
        self._found: dict[str, tuple[str, Version | None]] = {}

    def url(self, service: str) -> str:
        return self._service(service)[0]

    def microversion(self, service: str) -> Version | None:
        return self._service(service)[1]

    def headers(self, service: str) -> dict[str, str]:
        version = self.microversion(service)
        return {"OpenStack-API-Version": f"{_HEADER[service]} {_dotted(version)}"} if version else {}

    def _service(self, service: str) -> tuple[str, Version | None]:
        if service not in self._found:
            self._found[service] = self._discovered(service)
        return self._found[service]

    def _discovered(self, service: str) -> tuple[str, Version | None]:
        major, known = _KNOWN[service]
        settings = self._settings
        data = self._session.auth.get_endpoint_data(
            self._session,
            service_type=service,
            interface=settings.interface,
            region_name=settings.region,
            endpoint_override=settings.endpoints.get(service),
            min_version=major,
            max_version=f"{major}.latest",
            discover_versions=True,
        )
        if data is None or not data.url:
            where = f" in region {settings.region}" if settings.region else ""
            raise CpiError(
                f"the catalogue has no {settings.interface} {service} service{where}",
                remedy=f"check properties.region and properties.interface, or give properties.endpoints.{service}",
            )
        return str(data.url).rstrip("/"), _chosen(service, data, known) if known else None


def _chosen(service: str, data: Any, known: tuple[Version, Version]) -> Version:
    least, most = known
    newest = tuple(data.max_microversion or (0, 0))
    if newest < least:
        raise CpiError(
            f"this cloud's {service} service is too old",
            why=f"it speaks up to {_dotted((newest[0], newest[1]))}",
            remedy=f"upgrade it to {_dotted(least)} or newer",
        )
    return min((newest[0], newest[1]), most)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
