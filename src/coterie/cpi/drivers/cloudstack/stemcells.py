"""Stemcells: an image becomes a template in every zone, by upload or by URL; a light one is a template that is there,
used as it is or copied into one of our own.

Registering a template is no job, so two callers under one mark may both do it: then the first to tag its own wins,
and the other removes the one it made.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, OutcomeUnknown
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.election import Election
from coterie.cpi.drivers.cloudstack.image_sources import ImageSources
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, tags_of, users_tags
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal, cloud_call
from coterie.cpi.drivers.cloudstack.templates import LIGHT
from coterie.cpi.drivers.cloudstack.uploads import upload
from coterie.ids import Ids

# what stemcells and BOSH say of an image that means nothing here
_IGNORED = (
    *("name", "version", "infrastructure", "disk", "disk_format", "container_format", "os_distro", "architecture"),
    *("auto_disk_config", "hypervisor_type", "root_device_name", "os", "image_format"),
)
_KNOWN = ("template", "copy", "url", "format", "hypervisor", "os_type", "zones", "details")


class Stemcells(ImageSources, Election):
    @cloud_call
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        wish = _read(cloud_properties or {})
        if "template" in wish and not wish.get("copy"):
            return LIGHT + self.meant_template(str(wish["template"]))
        zones = [self.zone(name) for name in wish["zones"]] if "zones" in wish else self.zones()
        path = Path(image_path)
        if not {"url", "template"} & set(wish) and not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        found = self._elected(mark)
        if found is None:
            return self._registered(wish, path, zones, mark, users_tags((env or {}).get("tags") or {}))
        self._spread(found, zones)
        return found

    @cloud_call
    def delete_stemcell(self, stemcell_cid: str) -> None:
        """A light one that was not copied is forgotten: the template was never ours."""
        if stemcell_cid.startswith(LIGHT) or not self.template_rows(stemcell_cid):
            return
        self.delete_template(stemcell_cid)

    def delete_template(self, wanted: str) -> None:
        try:
            self.api.run("deleteTemplate", id=wanted)
        except Refusal as error:
            if error.code != PARAMETER or self.template_rows(wanted):
                raise

    def _elected(self, mark: Mark) -> str | None:
        for row in self.templates_named(mark.name()):
            if tags_of(row).get(DIRECTOR) == mark.director:
                return str(row["id"])
        return None

    def _registered(self, wish: Json, path: Path, zones: list[Row], mark: Mark, tags: dict[str, str]) -> str:
        common = self._parameters({**self.like(wish), **wish}, mark)
        # a name of this call's own: of two callers, the one that ends first must not take away what the other lent
        url, lent = self.source(wish, path, f"{mark.name(Ids().uuid()[:8])}.{str(common['format']).lower()}")
        try:
            if url:
                answer = self.api.call("registerTemplate", url=url, zoneids=[zone["id"] for zone in zones], **common)
                made, permit = str(answer["template"][0]["id"]), None
            else:
                permit = self.api.call("getUploadParamsForTemplate", zoneid=zones[0]["id"], **common)["getuploadparams"]
                made = str(permit["id"])
            found = self._filled(mark, made, {**tags, **self.mark_tags(mark)}, permit, path, zones)
        except OutcomeUnknown:
            raise  # the cloud may be fetching it still; what is lent ends by itself
        except (Refusal, CpiError):
            self.give_back(lent)
            raise
        self.give_back(lent)
        return found

    def _filled(
        self, mark: Mark, made: str, tags: dict[str, str], permit: Row | None, path: Path, zones: list[Row]
    ) -> str:
        """The template that counts under this mark, ready everywhere; one that cannot be made ready is removed."""
        try:
            winner = self.elect(mark, "Template", made, tags, lambda: self._elected(mark))
            if winner != made:
                self.delete_template(made)
            elif permit:
                upload(path, permit, self.settings)
            self._spread(winner, zones)
        except (Refusal, CpiError) as error:
            if not isinstance(error, OutcomeUnknown):
                with suppress(Refusal, CpiError):  # the first error is the one to tell; the survey finds what is left
                    self.delete_template(made)
            raise
        return winner

    def _spread(self, made: str, zones: list[Row]) -> None:
        """Ready in all these zones, copied from where it is into those that know nothing of it. Whoever began it may
        have died before, or be at it now."""
        rows = self.rows_by_zone(made)
        known = [zone for zone in self.zones() if zone["id"] in rows]
        others = [zone["id"] for zone in zones if zone["id"] not in rows]
        self.await_template(made, known)
        if others:
            try:
                self.api.run("copyTemplate", id=made, sourcezoneid=known[0]["id"], destzoneids=others)
            except Refusal:
                if not set(others) <= set(self.rows_by_zone(made)):
                    raise
        self.await_template(made, zones)

    def _parameters(self, wish: Json, mark: Mark) -> dict[str, Any]:
        settings = self.settings
        return {
            "name": mark.name(),
            "displaytext": mark.name(),
            "format": str(wish.get("format") or settings.stemcell_format).upper(),
            "hypervisor": wish.get("hypervisor") or settings.hypervisor,
            "ostypeid": self.os_type(wish.get("os_type"))["id"],
            "ispublic": True if settings.stemcell_public_visibility else None,
            "details": [wish["details"]] if wish.get("details") else None,
        }


def _read(properties: Json) -> Json:
    for key in properties:
        if key not in _KNOWN and key not in _IGNORED:
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(_KNOWN)}")
    return {key: properties[key] for key in _KNOWN if properties.get(key)}
