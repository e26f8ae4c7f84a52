"""A call that the datacenter refuses as one too many slows all calls of its name down, in every driver of the cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cpi.contract import Throttled
from coterie.sandbox import calls, faults
from coterie.sandbox.datacenter import open_datacenter

from .lab import Lab


def test_no_call_of_the_class_leaves_before_the_cloud_wants_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    store = open_datacenter(lab.state).store
    faults.add(store, "get_disk", "throttle", times=1, ms=60_000)
    calls.switch_log(store, True)
    for cpi in (lab.cpi, lab.open(), lab.open()):
        with pytest.raises(Throttled) as refused:
            cpi.has_disk("none")
        assert 50 < refused.value.details["retry_after"] <= 60
    assert lab.cpi.has_vm("none") is False  # another class
    assert calls.counts(store)["get_disk"].calls == 1
