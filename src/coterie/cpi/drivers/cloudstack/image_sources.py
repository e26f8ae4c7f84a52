"""Where the image of a new template comes from: a URL, another template, or a file that is lent to the cloud."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from coterie.cpi.contract import CpiError, Json
from coterie.cpi.drivers.cloudstack.publishing import publish, retire
from coterie.cpi.drivers.cloudstack.templates import USABLE, Templates


class ImageSources(Templates):
    def source(self, wish: Json, path: Path, name: str) -> tuple[str | None, str | None]:
        """Where the cloud fetches the image, None for an upload; and the name under which we lent it, if we did."""
        if "template" in wish:
            return self.extracted_template(str(wish["template"])), None
        if "url" in wish or self.settings.publish_mode == "upload":
            return wish.get("url"), None
        return publish(self.settings, path, name), name

    def like(self, wish: Json) -> Json:
        """What a copy has from its original."""
        if "template" not in wish:
            return {}
        row = self.template_rows(self.meant_template(str(wish["template"])), USABLE)[0]
        return {"format": row["format"], "hypervisor": row["hypervisor"], "os_type": row.get("ostypename")}

    def give_back(self, lent: str | None) -> None:
        if lent:
            with suppress(CpiError):  # it ends by itself, and the template is what was asked for
                retire(self.settings, lent)
