"""Types of affinity groups, and the datacenter's policies that they stand for. Host dedication is accepted but not
enforced: such a group only collects its members."""

from __future__ import annotations

TYPES: dict[str | None, str] = {
    "anti-affinity": "host anti-affinity",
    "affinity": "host affinity",
    "soft-anti-affinity": "non-strict host anti-affinity",
    "soft-affinity": "non-strict host affinity",
    None: "ExplicitDedication",
}
ADMINS_ONLY = frozenset({"ExplicitDedication"})
POLICIES = {kind: policy for policy, kind in TYPES.items()}
