"""Stemcells: an image becomes a template in every zone, by upload or by URL; a light one is a template that is
there already, used as it is or copied into one of our own.

Registering a template is no job, so two calls under one mark may both do it: the first that is tagged counts, and the
other call removes its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError, Form, InvalidCall, Json, Mark, OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import PARAMETER, Client, Refusal, Row, is_uuid, read_tags
from coterie.cpi.drivers.cloudstack.marks import mark_tags, user_tags
from coterie.cpi.kit import readers
from coterie.cpi.kit.create_once import wait_or_remove
from coterie.cpi.kit.http import AnswerLost, Http, NotTaken
from coterie.cpi.kit.marking import DIRECTOR
from coterie.cpi.kit.publishing import Publisher, post_file
from coterie.cpi.kit.stemcell_files import unpack_disk
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.ids import Ids
from coterie.slotted import dataclass

LIGHT = "light-"  # before the id of a template that is not ours
_OURS, _USABLE = "self", "executable"  # CloudStack's filters
_UNDERWAY = ("processing", "installing", "% downloaded", "upload", "not started", "in progress")
_IMAGE = Form(
    {
        **dict.fromkeys(("template", "url", "format", "hypervisor", "template_os_type"), readers.text),
        **dict.fromkeys(("disk_format", "os_type"), readers.text),
        "copy": readers.flag,
        "zones": readers.texts,
        "details": readers.pairs,
    }
)
# properties of stemcells and of BOSH that mean nothing here
_IGNORED = (
    *("name", "version", "infrastructure", "disk", "container_format", "os_distro", "architecture"),
    *("auto_disk_config", "hypervisor_type", "root_device_name", "os", "image_format"),
)
# the words of BOSH's stemcell builder → CloudStack's; other words must be CloudStack's own
_HYPERVISORS = {"kvm": "KVM", "xen": "XenServer", "esxi": "VMware", "hyperv": "Hyperv"}
_DISK_FORMATS = {"qcow2": "QCOW2", "raw": "RAW", "vhd": "VHD", "vhdx": "VHDX", "ova": "OVA"}
_OS_FAMILIES = ("linux", "windows")


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client
    catalog: Catalog
    templates: Templates
    publisher: Publisher

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        image = _read_properties(cloud_properties)
        if "template" in image and not image.get("copy"):
            return LIGHT + self.templates.require_one(str(image["template"]))
        zones = [self.catalog.zone(name) for name in image["zones"]] if "zones" in image else self.catalog.zones()
        path = Path(image_path)
        if not {"url", "template"} & set(image) and not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        found = self.templates.find_tagged(mark)
        if found:
            self._spread(found, zones)
            return found
        tags = user_tags(env.get("tags") or {})
        if {"url", "template"} & set(image):
            return self._register(image, path, zones, mark, tags)
        with unpack_disk(path) as disk:
            return self._register(image, disk, zones, mark, tags)

    def delete(self, stemcell_cid: str) -> None:
        """A light one that was not copied is not deleted: the template was never ours."""
        if not stemcell_cid.startswith(LIGHT) and self.templates.rows(stemcell_cid):
            self.templates.delete(stemcell_cid)

    def _register(self, image: Json, path: Path, zones: Sequence[Row], mark: Mark, tags: dict[str, str]) -> str:
        parameters = self._parameters({**self._properties_of_original(image), **image}, mark)
        # a name of this call's own: of two calls, the one that ends first must not retire what the other published
        name = f"{mark.name(Ids().uuid()[:8])}.{str(parameters['format']).lower()}"
        url, published = self._source(image, path, name)
        try:
            cid, permit = self._register_once(url, zones, parameters)
            found = self._fill(mark, cid, {**tags, **mark_tags(mark)}, permit, path, zones)
        except OutcomeUnknown:
            raise  # CloudStack may still be fetching it; a publication ends by itself
        except CpiError:
            self.publisher.retire(published)
            raise
        self.publisher.retire(published)
        return found

    def _source(self, image: Json, path: Path, name: str) -> tuple[str | None, str | None]:
        """The URL from which CloudStack fetches the image, None for an upload; and the name of our publication, if it
        is one."""
        if "template" in image:
            return self.templates.extract(str(image["template"])), None
        if "url" in image or self.client.settings.publish_mode == "upload":
            return image.get("url"), None
        return self.publisher.publish(path, name), name

    def _properties_of_original(self, image: Json) -> Json:
        """What a copy has from its original."""
        if "template" not in image:
            return {}
        row = self.templates.rows(self.templates.require_one(str(image["template"])), _USABLE)[0]
        return {"format": row["format"], "hypervisor": row["hypervisor"], "template_os_type": row.get("ostypename")}

    def _parameters(self, image: Json, mark: Mark) -> dict[str, Any]:
        settings = self.client.settings
        return {
            "name": mark.name(),
            "displaytext": mark.name(),
            "format": str(image.get("format") or settings.stemcell_format).upper(),
            "hypervisor": image.get("hypervisor") or settings.hypervisor,
            "ostypeid": self.catalog.os_type(image.get("template_os_type"))["id"],
            "ispublic": True if settings.stemcell_public_visibility else None,
            "details": [image["details"]] if image.get("details") else None,
        }

    def _register_once(
        self, url: str | None, zones: Sequence[Row], parameters: dict[str, Any]
    ) -> tuple[str, Row | None]:
        """The id of a new template, and the permit to upload its image where there is no URL."""
        if url:
            zone_ids = [zone["id"] for zone in zones]
            answer = self.client.call("registerTemplate", url=url, zoneids=zone_ids, **parameters)
            return str(answer["template"][0]["id"]), None
        answer = self.client.call("getUploadParamsForTemplate", zoneid=zones[0]["id"], **parameters)
        permit: Row = answer["getuploadparams"]
        return str(permit["id"]), permit

    def _fill(
        self, mark: Mark, cid: str, tags: dict[str, str], permit: Row | None, path: Path, zones: Sequence[Row]
    ) -> str:
        """The template that counts under this mark, ready everywhere; one that cannot be made ready is removed."""

        def fill() -> str:
            kept = self.client.tag_once(mark, "Template", cid, tags, lambda: self.templates.find_tagged(mark))
            if kept != cid:
                self.templates.delete(cid)
            elif permit:
                self._upload(path, permit)
            self._spread(kept, zones)
            return kept

        return wait_or_remove(fill, lambda: self.templates.delete(cid))

    def _upload(self, path: Path, permit: Row) -> None:
        """`permit`: what getUploadParamsForTemplate answered."""
        url, http = str(permit["postURL"]), Http(self.client.settings.http_options())
        try:
            answer = post_file(
                http, url, path, {f"x-{name}": str(permit[name]) for name in ("signature", "metadata", "expires")}
            )
        except (NotTaken, AnswerLost) as error:
            raise _upload_failed(url, str(error)) from error
        finally:
            http.close()
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _upload_failed(url, f"it answered HTTP {answer.status}")

    def _spread(self, cid: str, zones: Sequence[Row]) -> None:
        """Make it ready in all these zones, copied into those that do not have it. Another call may have begun it and
        been interrupted, or be at it now."""
        rows = self.templates.rows_by_zone(cid)
        known = [zone for zone in self.catalog.zones() if zone["id"] in rows]
        others = [zone["id"] for zone in zones if zone["id"] not in rows]
        self.templates.wait_until_ready(cid, known)
        if others:
            try:
                self.client.run("copyTemplate", id=cid, sourcezoneid=known[0]["id"], destzoneids=others)
            except Refusal:
                if not set(others) <= set(self.templates.rows_by_zone(cid)):
                    raise
        self.templates.wait_until_ready(cid, zones)


@dataclass(frozen=True, slots=True)
class Templates:
    """Templates by name, id and zone."""

    client: Client

    def require_ready(self, stemcell_cid: str, zone: Row) -> str:
        """The id to deploy with, if the template is ready in that zone."""
        cid = stemcell_cid.removeprefix(LIGHT)
        for row in self.rows(cid, _USABLE if stemcell_cid.startswith(LIGHT) else _OURS):
            if row.get("zoneid") == zone["id"] and row.get("isready"):
                return cid
        raise StemcellNotFound(
            f"stemcell {stemcell_cid[:80]} is not ready in zone {zone['name']}",
            remedy="upload it again, or have its template copied into the zone",
        )

    def rows(self, cid: str, which: str = _OURS) -> list[Row]:
        """One row per zone; none where the id is not a template's."""
        if not is_uuid(cid):
            return []
        try:
            return list(self.client.list_all("listTemplates", templatefilter=which, id=cid))
        except Refusal as error:
            if error.errorcode == PARAMETER:
                return []
            raise

    def find_tagged(self, mark: Mark) -> str | None:
        """The id of the template that counts under this mark."""
        for row in self.client.list_all("listTemplates", templatefilter=_OURS, name=mark.name()):
            if row["name"] == mark.name() and read_tags(row).get(DIRECTOR) == mark.director:
                return str(row["id"])
        return None

    def require_one(self, wanted: str) -> str:
        """The id of the one template with this id or name, among those that the account may use."""
        rows = self.rows(wanted, _USABLE)
        if not rows:
            named = self.client.list_all("listTemplates", templatefilter=_USABLE, name=wanted)
            rows = [row for row in named if row["name"] == wanted]
        ids = {str(row["id"]) for row in rows}
        if len(ids) != 1:
            raise InvalidCall(
                f"{len(ids)} templates are meant by {wanted!r}",
                remedy="name in cloud_properties.template one by its id",
            )
        return ids.pop()

    def extract(self, wanted: str) -> str:
        """A URL of CloudStack's own, from which it can fetch the content of this template."""
        cid = self.require_one(wanted)
        zone = next(row["zoneid"] for row in self.rows(cid, _USABLE) if row.get("isready"))
        answer = self.client.run("extractTemplate", id=cid, mode="HTTP_DOWNLOAD", zoneid=zone)["template"]
        return str(answer["url"])

    def delete(self, cid: str) -> None:
        self.client.remove("deleteTemplate", lambda: self.rows(cid), id=cid)

    def rows_by_zone(self, cid: str) -> dict[str, Row]:
        """One row per zone that knows of it. A new one may show up late; one that does not is gone."""
        deadline = time.monotonic() + self.client.settings.settle_s
        while not (rows := self.rows(cid)):
            if time.monotonic() >= deadline:
                raise CpiError(f"template {cid} is gone", why="it was deleted", remedy="repeat", retryable=True)
            time.sleep(self.client.settings.poll_s)
        return {str(row.get("zoneid")): row for row in rows}

    def wait_until_ready(self, cid: str, zones: Sequence[Row]) -> None:
        """In all these zones; a status that is an error ends the wait."""
        settings, here = self.client.settings, list[Row]()
        waits = Waits(settings.state_timeout, settings.poll_s, slowest_poll_s=5.0, growth=1.5)

        def look() -> bool | None:
            rows = self.rows_by_zone(cid)
            here[:] = [rows.get(zone["id"], {}) for zone in zones]
            for row in here:
                _require_no_error(cid, row)
            return True if all(row.get("isready") for row in here) else None

        try:
            waits.until(f"template {cid}", look, verb="become ready")
        except Overdue as error:
            raise OutcomeUnknown(
                error.what,
                why="; ".join(str(row.get("status")) for row in here),
                remedy="look at the secondary storage VM, or raise properties.state_timeout",
            ) from error


def _read_properties(cloud_properties: Json) -> Json:
    """BOSH's words in BOSH's meaning: `os_type` says no more than linux, `hypervisor` and `disk_format` what the image
    was built for. `format` and `template_os_type` are CloudStack's words."""
    known = {key: value or None for key, value in cloud_properties.items() if key not in _IGNORED}
    image = _IMAGE.read(known, "cloud_properties")
    family, disk_format = image.pop("os_type", None), image.pop("disk_format", None)
    if family and str(family).lower() not in _OS_FAMILIES:
        raise InvalidCall(
            f"cloud_properties.os_type is {family!r}",
            why="BOSH writes linux or windows there",
            remedy="write the name of CloudStack's OS type as template_os_type",
        )
    if "hypervisor" in image:
        word = str(image["hypervisor"])
        image["hypervisor"] = _HYPERVISORS.get(word.lower(), word)
    if disk_format and "format" not in image:
        if str(disk_format).lower() not in _DISK_FORMATS:
            raise InvalidCall(
                f"cloud_properties.disk_format is {disk_format!r}, which CloudStack cannot use",
                remedy=f"use a stemcell of one of the formats {', '.join(_DISK_FORMATS)}",
            )
        image["format"] = _DISK_FORMATS[str(disk_format).lower()]
    return image


def _upload_failed(url: str, why: str) -> CpiError:
    return CpiError(
        f"the image could not be uploaded to the storage VM {urlsplit(url).hostname}",
        why=why,
        remedy="check that this machine can reach it and trusts it, or set properties.publish_mode: server",
        retryable=True,
    )


def _require_no_error(cid: str, row: Row) -> None:
    status = str(row.get("status") or "")
    if row.get("isready") or not status or status == "Download Complete":
        return
    if any(word in status.lower() for word in _UNDERWAY):
        return
    raise CpiError(
        f"CloudStack could not get template {cid}",
        why=status,
        remedy="check that its storage VM can reach the URL, and that the file is of the format it is said to be",
    )
