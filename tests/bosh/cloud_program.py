"""`coterie-cpi` on the CloudStack emulator, which runs in this process; programs reach it over the loopback."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from tests.bosh.program import Shop


class CloudShop(Shop):
    size = {"compute_offering": "tiny", "zone": "z1"}  # noqa: RUF012  # never changed
    networks = {"default": {"type": "dynamic", "cloud_properties": {"name": "net-z1"}}}  # noqa: RUF012  # as above

    def __init__(self, folder: Path, bed: CloudstackBed, **settings: Any) -> None:
        self.bed = bed
        self._before = bed.inventory()
        super().__init__(folder, **settings)

    @property
    def template(self) -> str:
        """A stemcell that was there before."""
        found: str = self.bed.client().listTemplates(templatefilter="self")["template"][0]["id"]
        return found

    def cloud(self) -> dict[str, Any]:
        patience = {"poll_s": 0.05, "settle_s": 0.2, "host_visibility": False}
        return {"driver": "cloudstack", "properties": {**self.bed.properties(), **patience}}

    @contextmanager
    def listening(self) -> Iterator[Counter[str]]:
        """The calls to the cloud meanwhile, by command."""
        asked: Counter[str] = Counter()
        ask = self.bed.server.front.ask

        def counted(raw: Any, **more: Any) -> Any:
            asked[raw.get("command", "")] += 1
            return ask(raw, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.bed.server.front, "ask", counted)
            yield asked

    def inventory(self) -> dict[str, list[str]]:
        """All that was made since the shop was opened, marked or not."""
        found = defaultdict(list)
        for kind, cid in sorted(self.bed.inventory() - self._before):
            found[kind].append(cid)
        return dict(found)
