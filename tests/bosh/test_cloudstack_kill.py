"""The program killed at every commit and every change of a CloudStack cloud; afterwards cleanup leaves nothing of ours.

The points are discovered by a run without a death. All deaths happen in one cloud: each starts from what cleanup left.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bosh.cloud_program import CloudShop
from tests.bosh.nursery import Nursery, Order
from tests.bosh.program import PATIENCE_S, result
from tests.kill.points import Point, merge_by_moment, read_trace

GROUP = "bosh-dep-web"
PUBLIC = {"public": {"type": "vip", "ip": "127.200.0.20", "cloud_properties": {}}}
RICH = {"ephemeral_disk_offering": "custom", "disk": 1024}


@dataclass(slots=True)
class Stage:
    shop: CloudShop
    folder: Path
    nursery: Nursery
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, request: bytes, target: Point | None = None) -> tuple[int, list[Point]]:
        """How the call ended, and what it reached."""
        trace, answer = self.folder / f"trace-{next(self.numbers)}", self.folder / "answer"
        order = Order(str(self.shop.config), request.decode(), str(answer), str(trace), target)
        (status,) = self.nursery.run(order)
        if status == 0:
            result(answer.read_bytes())
        # A lease is renewed by the clock, not by the call: that point may not come again.
        return status, [point for point in read_trace(trace) if ".renew" not in point.kind]

    def swept(self, point: Point | None) -> None:
        """The Director knows nothing of it. A dead call's claims end with its lease, and jobs of the cloud go on."""
        known: dict[str, Any] = {"vm": [], "disk": [], "snapshot": [], "image": []}
        until = time.monotonic() + PATIENCE_S
        while self.shop.cleanup_by_list(known) and self.shop.inventory():
            assert time.monotonic() < until, f"killed {point}: {self.shop.inventory()} is left"
            time.sleep(0.1)


Act = Callable[[Stage], bytes]  # prepares the cloud; the request to die over


def _create_vm(stage: Stage) -> bytes:
    return stage.shop.vm_request(f"agent-{next(stage.numbers)}", stage.shop.template, group=GROUP)


def _create_rich_vm(stage: Stage) -> bytes:
    arguments = stage.shop.vm_arguments(f"agent-{next(stage.numbers)}", stage.shop.template, group=GROUP, **RICH)
    arguments[3] = {**arguments[3], **PUBLIC}
    return stage.shop.request("create_vm", *arguments)


def _delete_vm(stage: Stage) -> bytes:
    cid = stage.shop.create_vm(f"agent-{next(stage.numbers)}", stage.shop.template, group=GROUP, **RICH)
    return stage.shop.request("delete_vm", cid)


def _create_disk(stage: Stage) -> bytes:
    return stage.shop.request("create_disk", 1024, {}, None, version=1)


def _create_stemcell(stage: Stage) -> bytes:
    return stage.shop.request("create_stemcell", str(stage.shop.image), {})


@pytest.mark.parametrize(
    ("act", "least"),
    [
        (_create_vm, {"createAffinityGroup", "deployVirtualMachine"}),
        (_delete_vm, {"destroyVirtualMachine"}),
        (_create_disk, {"createVolume"}),
        (_create_stemcell, {"getUploadParamsForTemplate"}),
        pytest.param(
            _create_rich_vm,
            {"createAffinityGroup", "deployVirtualMachine", "enableStaticNat"},
            marks=pytest.mark.full,
        ),
    ],
)
def test_killed_anywhere_cleanup_leaves_nothing(
    act: Act, least: set[str], cloud_shop: CloudShop, nursery: Nursery, tmp_path: Path
) -> None:
    cloud_shop.configure(lease_s=0.2)
    stage = Stage(cloud_shop, tmp_path, nursery)
    _begin(cloud_shop)
    status, points = stage.run(act(stage))
    assert status == 0
    stage.swept(None)
    assert least <= {point.kind.removeprefix("cloud ") for point in points}
    assert {point.kind.split()[0] for point in points} == {"commit", "cloud", "answer"}
    for point in merge_by_moment(points, points):
        status, _ = stage.run(act(stage), point)
        assert status == -signal.SIGKILL, f"never reached {point}"
        stage.swept(point)


def _begin(shop: CloudShop) -> None:
    """The ledger's own beginning is no point of this matrix."""
    with shop.ledger():
        pass
