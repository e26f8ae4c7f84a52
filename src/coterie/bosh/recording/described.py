"""What a caller has described, it has received: BOSH's callers write metadata on it as soon as they have the answer."""

from __future__ import annotations

from coterie.cpi.contract import CloudObject

DESCRIBED = ("vm", "disk")
_METADATA = ("director", "deployment")


def is_described(found: CloudObject) -> bool:
    """Whether a caller has written its metadata on it, so that it must have received the id; it may have where the
    cloud does not show what is written."""
    return found.tags is None or any(key in found.tags for key in _METADATA)
