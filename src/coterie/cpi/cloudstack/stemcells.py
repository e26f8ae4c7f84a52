"""Stemcells: an image becomes a template in every zone, by upload or by URL; a light one is a template that is there.

Registering a template is no job, so two callers under one mark may both do it: then the first to tag its own wins,
and the other removes the one it made.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.calls import cloud_call
from coterie.cpi.cloudstack.election import Election
from coterie.cpi.cloudstack.marking import DIRECTOR, tags_of, users_tags
from coterie.cpi.cloudstack.refusals import PARAMETER, Refusal
from coterie.cpi.cloudstack.templates import LIGHT, Templates
from coterie.cpi.cloudstack.uploads import upload
from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, OutcomeUnknown

# what stemcells and BOSH say of an image that means nothing here
_IGNORED = (
    *("name", "version", "infrastructure", "disk", "disk_format", "container_format", "os_distro", "architecture"),
    *("auto_disk_config", "hypervisor_type", "root_device_name", "os", "image_format"),
)
_KNOWN = ("template", "url", "format", "hypervisor", "os_type", "zones", "details")


class Stemcells(Templates, Election):
    @cloud_call
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        wish = _read(cloud_properties or {})
        if "template" in wish:
            return self._referenced(str(wish["template"]))
        zones = [self.zone(name) for name in wish["zones"]] if "zones" in wish else self.zones()
        path = Path(image_path)
        if "url" not in wish and not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        found = self._elected(mark) or self._registered(
            wish, path, zones, mark, users_tags((env or {}).get("tags") or {})
        )
        self.await_template(found, zones)
        return found

    @cloud_call
    def delete_stemcell(self, stemcell_cid: str) -> None:
        """A light one is forgotten: the template was never ours."""
        if stemcell_cid.startswith(LIGHT) or not self.template_rows(stemcell_cid):
            return
        self.delete_template(stemcell_cid)

    def delete_template(self, wanted: str) -> None:
        try:
            self.api.run("deleteTemplate", id=wanted)
        except Refusal as error:
            if error.code != PARAMETER or self.template_rows(wanted):
                raise

    def _referenced(self, wanted: str) -> str:
        rows = self.template_rows(wanted, "executable") or [
            row
            for row in self.api.every("listTemplates", templatefilter="executable", name=wanted)
            if row["name"] == wanted
        ]
        ids = {str(row["id"]) for row in rows}
        if len(ids) != 1:
            raise InvalidCall(
                f"{len(ids)} templates are meant by {wanted!r}",
                remedy="name in cloud_properties.template one by its id",
            )
        return LIGHT + ids.pop()

    def _elected(self, mark: Mark) -> str | None:
        for row in self.templates_named(mark.name()):
            if tags_of(row).get(DIRECTOR) == mark.director:
                return str(row["id"])
        return None

    def _registered(self, wish: Json, path: Path, zones: list[Row], mark: Mark, tags: dict[str, str]) -> str:
        common = self._parameters(wish, mark)
        url = wish.get("url") or (self._published(path) if self.settings.publish == "server" else None)
        if url:
            answer = self.api.call("registerTemplate", url=url, zoneids=[zone["id"] for zone in zones], **common)
            made, permit = str(answer["template"][0]["id"]), None
        else:
            permit = self.api.call("getUploadParamsForTemplate", zoneid=zones[0]["id"], **common)["getuploadparams"]
            made = str(permit["id"])
        try:
            winner = self.elect(mark, "Template", made, {**tags, **self.mark_tags(mark)}, lambda: self._elected(mark))
            if winner != made:
                self.delete_template(made)
                return winner
            if permit:
                self._uploaded(path, permit, made, zones)
            self.await_template(made, zones)
        except (Refusal, CpiError) as error:
            if not isinstance(error, OutcomeUnknown):
                with suppress(Refusal, CpiError):  # the first error is the one to tell; the survey finds what is left
                    self.delete_template(made)
            raise
        finally:
            if url and self.publisher and "url" not in wish:
                self.publisher.retire(url)
        return made

    def _uploaded(self, path: Path, permit: Row, made: str, zones: list[Row]) -> None:
        """Into the first zone, and from there into the others."""
        upload(path, permit, self.settings.request_timeout, self.api.tls())
        self.await_template(made, zones[:1])
        if zones[1:]:
            others = [zone["id"] for zone in zones[1:]]
            self.api.run("copyTemplate", id=made, sourcezoneid=zones[0]["id"], destzoneids=others)

    def _published(self, path: Path) -> str:
        if self.publisher is None:
            raise CpiError(
                "properties.publish is server, and no publishing server runs here",
                remedy="start one, or set properties.publish: upload",
            )
        return self.publisher.publish(str(path))

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
