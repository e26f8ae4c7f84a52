"""How many calls ARM takes, by the vendor's figures: token buckets per subscription for reads, writes and deletes, and
the ones of the compute service on top, some of them per VM."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from coterie.sandbox.fronts.azure.refusals import ApiError

# name → (tokens that the bucket holds, tokens that come back in a second)
_ARM = {"reads": (250, 25.0), "writes": (200, 10.0), "deletes": (200, 10.0)}
_KINDS = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}
_VM_CHANGES = (12, 4 / 60)
_VM_READS = (36, 12 / 60)
_VM_LISTS = (900, 300 / 60)
_POLLS = (45, 15 / 60)
_ATTACHES = (12, 4 / 60)


@dataclass(slots=True)
class _Bucket:
    most: float
    per_s: float
    left: float
    at: float

    def take(self, now: float) -> float:
        """0, or how long to wait for the next token."""
        self.left, self.at = min(self.most, self.left + (now - self.at) * self.per_s), now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) / self.per_s


@dataclass(slots=True)
class Limits:
    """`on`: whether calls over the limit are refused. `scale`: how much more often tokens come back, for tests. `left`:
    what the last call left in its buckets, by name. A refused call costs no token."""

    on: bool = False
    scale: float = 1.0
    refused: int = 0
    _smaller: float = 1.0
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def squeeze(self, times: float) -> None:
        """Buckets that hold so many times fewer, for what must be shown with few calls."""
        self._buckets.clear()
        self._smaller = times

    def require(self, method: str, type_: str, vm: str | None) -> dict[str, str]:
        """The headers that tell what is left, or a 429."""
        kind = _KINDS.get(method, "writes")
        left = {f"x-ms-ratelimit-remaining-subscription-{kind}": self._take(kind, *_ARM[kind])}
        left[f"x-ms-ratelimit-remaining-subscription-global-{kind}"] = str(int(_ARM[kind][0]) * 15 - 1)
        own = self._compute(method, type_, vm)
        if own:
            left["x-ms-ratelimit-remaining-resource"] = ",".join(
                f"Microsoft.Compute/{name};{n}" for name, n in own.items()
            )
        return left

    def _compute(self, method: str, type_: str, vm: str | None) -> dict[str, str]:
        if type_ == "operations":
            return {"GetOperationResource": self._take(f"operation {vm}", *_POLLS)}
        if not type_.startswith("virtualMachines"):
            return {}
        if vm is None:
            return {"HighCostGetSubscriptionMaximum": self._take("list VMs", *_VM_LISTS)}
        if type_.endswith("/attachDetachDataDisks"):
            return {"AttachDetachVMDisksResource": self._take(f"attach {vm}", *_ATTACHES)}
        if method == "GET":
            return {"LowCostGetResource": self._take(f"read {vm}", *_VM_READS)}
        words = {"PUT": "PutVMResource", "DELETE": "DeleteVMResource", "PATCH": "UpdateVMResource"}
        return {words.get(method, "UpdateVMResource"): self._take(f"{method} {vm}", *_VM_CHANGES)}

    def _take(self, name: str, most: float, per_s: float) -> str:
        now, most = time.monotonic(), max(most / self._smaller, 1.0)
        bucket = self._buckets.setdefault(name, _Bucket(most, per_s * self.scale, most, now))
        wait = bucket.take(now)
        if wait and self.on:
            self.refused += 1
            raise ApiError(429, "TooManyRequests", f"The request is being throttled ({name}).", max(wait, 0.001))
        return str(int(bucket.left))
