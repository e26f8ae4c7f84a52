"""What a guest of the tiny stemcell says of itself over HTTP."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

_PATIENCE_S = 20.0  # of a virtual machine more: its CPU may be emulated, and others may boot beside it
_BOOT_S = 120.0


def get(ip: str, path: str, timeout: float = 2.0) -> str:
    with urllib.request.urlopen(f"http://{ip}{path}", timeout=timeout) as answer:
        return str(answer.read().decode())


def facts(ip: str, *, is_machine: bool = False, **wanted: Any) -> Any:
    """Once the guest answers, and its facts have these values."""
    give_up, found = time.monotonic() + (_BOOT_S if is_machine else _PATIENCE_S), None
    while time.monotonic() < give_up:
        try:
            found = json.loads(get(ip, "/facts"))
            if all(found[key] == value for key, value in wanted.items()):
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"the guest at {ip} shows {found}, not {wanted}")
