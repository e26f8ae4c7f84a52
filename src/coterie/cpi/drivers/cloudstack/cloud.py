"""What all parts of the driver share: settings, the API, and tags. Nothing is asked before the first call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import Cpi, Mark, Runtime
from coterie.cpi.drivers.cloudstack.api import Api, Row
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, entries, tags_of
from coterie.cpi.drivers.cloudstack.properties import read_settings
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal

_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class CloudstackCloud(Cpi):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self.settings = read_settings(properties)
        self.api = Api(self.settings)

    def row(self, command: str, wanted: str, **more: Any) -> Row | None:
        """The one object with this id; what is no uuid, or was never one of the cloud's, is nothing."""
        if not is_uuid(wanted):
            return None
        try:
            rows, _ = self.api.page(command, 1, id=wanted, **more)
        except Refusal as error:
            if error.code == PARAMETER:
                return None
            raise
        return rows[0] if rows else None

    def tag(self, kind: str, wanted: str, tags: Mapping[str, str]) -> None:
        if entries(tags):
            self.api.run("createTags", resourceids=[wanted], resourcetype=kind, tags=entries(tags))

    def retag(self, kind: str, row: Row, tags: Mapping[str, str]) -> None:
        """Set these tags, whatever they were; the API has no way to change one."""
        has = tags_of(row)
        old = [{"key": key} for key, value in tags.items() if key in has and has[key] != value]
        if old:
            self.api.run("deleteTags", resourceids=[row["id"]], resourcetype=kind, tags=old)
        self.tag(kind, row["id"], {key: value for key, value in tags.items() if has.get(key) != value})

    def mark_tags(self, mark: Mark) -> dict[str, str]:
        return {DIRECTOR: mark.director}

    def job(self, wanted: str) -> Row | None:
        try:
            return self.api.call("queryAsyncJobResult", jobid=wanted)
        except Refusal:
            return None


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None
